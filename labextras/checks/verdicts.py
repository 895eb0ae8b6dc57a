"""One function per check: from the facts of two epochs to what was seen, and what to do about it."""

from __future__ import annotations

import contextlib
import operator
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from labextras.checks import augmentation, fingerprints, matching
from labextras.checks.augmentation import FAULT, OPEN, PASSED
from labkit.pipelines import same_elements, structure
from labkit.timeline.wording import PYTHON_OPS


@dataclass(frozen=True)
class Evidence:
    """What all checks look at.

    Parameters
    ----------
    dataset : tf.data.Dataset
    layout : Layout
        Which of its components is what.
    first, second, truth : Epoch
        Fingerprints of two epochs of it, and of the reference if there is one.
    random : bool or None
        Whether the pipeline augments; None if nothing says so.
    stated : bool
        Whether the caller said so.
    expected : int or None
        Elements of an epoch.
    labels : Epoch or None
        Of the labels of an epoch, in any order, and of nothing else.
    value_range : (float, float) or None
        What pixels may be.
    deterministic : bool or None
        Whether every epoch must have the same order.
    """

    dataset: Any
    layout: fingerprints.Layout
    first: fingerprints.Epoch
    second: fingerprints.Epoch
    truth: fingerprints.Epoch | None
    random: bool | None
    stated: bool
    expected: int | None
    labels: fingerprints.Epoch | None
    value_range: tuple[float, float] | None
    deterministic: bool | None

    @cached_property
    def epoch_is_unknown(self) -> bool:
        """Whether the dataset never ends and was read by `steps`: then it is unknown where an epoch begins."""
        return self.first.endless and not self.first.whole

    @cached_property
    def match(self) -> matching.Match | None:
        """The elements of the first epoch, found again in the reference."""
        return None if self.truth is None else matching.match(self.first, self.truth)

    @cached_property
    def again(self) -> matching.Match | None:
        """The elements of the second epoch, found again in the reference."""
        return None if self.truth is None else matching.match(self.second, self.truth)


_Seen = tuple[str, str]
#: Neighbours of one label beyond chance, as a share of all.
_SORTED = 0.05
_LAG = 8  # elements between two that are no views of one photo, as a rule
_ROUNDING = {"float16": 2**-10, "bfloat16": 2**-7}  # of a value of about 1
_ORIENTATION, _FILES = 274, 2_000  # EXIF's number of the orientation, and files looked at
_APART = "images and labels were shuffled or filtered apart"
_SOFT = "labels are soft, shares of several classes; whether they belong to their images cannot be told"
_MOVED = (
    "labels are numbers, and others than expected: they may move with the image, as boxes and angles do, or be in "
    "another unit; whether they still belong to their images cannot be told"
)
_UNKNOWN_EPOCH = (
    "the dataset never ends (repeat()), and steps= may be more or less than an epoch; say its length instead: count=, "
    "labels= or reference="
)


def verdict(name: str, facts: Evidence) -> _Seen:
    """Return status and text of the check of a name, a key of `CHECKS`."""
    check, needs = CHECKS[name]
    lacking = (words for there, words in map(_NEEDS.__getitem__, needs) if not there(facts))
    missing = next(lacking, None)
    return check(facts) if missing is None else (OPEN, missing)


def count(facts: Evidence) -> _Seen:
    """Compare the number of elements with the expected one."""
    got, then, expected = len(facts.first), len(facts.second), facts.expected
    if not got:
        return FAULT, "not one element came out"
    if expected is None:
        return OPEN, f"{got:,} came, and nothing says how many there should be; count=, labels= or reference= does"
    if facts.first.endless:
        return OPEN, "the dataset never ends, so it has no count; see once"
    if not facts.first.whole:
        return OPEN, f"steps= stopped at {got:,} of {expected:,} elements"
    if got != expected or then != expected:
        wrong = got if got != expected else then
        losses = "drop_remainder, ignore_errors, a filter, take or skip loses elements"
        cause = losses if wrong < expected else "a repeat, or two sources that overlap"
        return FAULT, f"{wrong:,} elements came instead of {expected:,}; look for: {cause}"
    return PASSED, f"all {expected:,} came, in both epochs"


def once(facts: Evidence) -> _Seen:
    """Look for elements that are missing or came twice."""
    first, second, match, again = facts.first, facts.second, facts.match, facts.again
    if match is None:
        many = len(first) - len(set(first.keys or first.digests))
        if facts.layout.image is None and not first.keys:
            return OPEN, "needs reference=, or a component that is a key (key=): values alone may well be equal"
        if many and facts.epoch_is_unknown:
            return OPEN, f"{many:,} came more than once: {_UNKNOWN_EPOCH}"
        if many:
            causes = "repeat, overlapping sources, or give reference= if the source itself holds copies"
            by = "key" if first.keys else "every pixel"
            return FAULT, f"{many:,} came more than once, equal in {by}; look for {causes}"
        if first.keys or sorted(first.digests) == sorted(second.digests):
            return OPEN, "none came twice; whether one is lost needs reference="
        return OPEN, "needs reference= or a key (key=): random images of one element are never equal"
    if not first.whole:
        return OPEN, "steps= looked at a part of an epoch"
    for found, epoch in ((match, first), (again, second)):
        lost, extra = found.lost, found.extra
        if extra and found.certain:
            repeats = f"{extra:,} of {len(epoch):,} elements are repeats"
            if not lost:
                return FAULT, f"{repeats}; look for repeat or overlapping shards"
            causes = "repeat before shuffle, overlapping shards, sampling with replacement"
            return FAULT, f"{repeats} and {lost:,} are missing; look for {causes}"
        if lost and found.certain:
            causes = "drop_remainder, ignore_errors, a filter, take after a shuffle"
            return FAULT, f"{lost:,} of {len(facts.truth):,} elements are missing; look for: {causes}"
    if not (match.certain and again.certain):
        return OPEN, f"only {match.known:,} of {len(first):,} elements could be recognised in the reference; key= helps"
    return PASSED, "every element of the reference came exactly once, in both epochs"


def labels(facts: Evidence) -> _Seen:
    """Compare labels with the reference, image by image, or else their numbers with those expected."""
    first, truth, match, wanted = facts.first, facts.truth, facts.match, facts.labels
    if not first.labels:
        return OPEN, "no component looks like labels; label= names one"
    others = wanted is not None and first.whole and not _as_often(first, wanted)
    if truth is not None and truth.labels and (match.certain or any(match.exact)):
        pairs = [(i, j) for i, j in enumerate(match.place) if j >= 0 and (match.certain or match.exact[i])]
        if first.forms.isdisjoint(truth.forms) or (first.soft and not truth.soft):
            seen = _other_form(first.soft, [(first.labels[i], match.labels_of(j)) for i, j in pairs])
        elif wrong := [i for i, j in pairs if first.labels[i] not in match.labels_of(j)]:
            if first.measured and _may_have_moved(first, truth, pairs, set(wrong)):
                return OPEN, _MOVED
            many = f"{len(wrong):,} of {len(pairs):,} images carry another label than in the reference"
            seen = FAULT, f"{many}, the first is number {wrong[0]}; {_APART}, zip them first"
        else:
            part = "" if len(pairs) == len(first) else f" (checked on {len(pairs):,} of {len(first):,})"
            seen = PASSED, f"every image has the label of the reference{part}"
        if seen[0] == FAULT or not others:
            return seen
    if others and first.soft and not wanted.soft:
        return OPEN, _SOFT
    if others and first.measured:
        known = set(wanted.labels)
        if not set(first.labels) <= known or (facts.random and _few(known, wanted)):
            return OPEN, _MOVED
    if others:
        return FAULT, "the labels of an epoch are not those expected: elements are lost, repeated or mislabelled"
    if wanted is not None and first.whole:
        return OPEN, "each label came as often as expected; whether it belongs to its image needs reference="
    if truth is not None and truth.labels:
        return OPEN, "too few images could be recognised in the reference to compare their labels; key= helps"
    return OPEN, "whether a label belongs to its image needs reference= with labels"


def _as_often(one: fingerprints.Epoch, other: fingerprints.Epoch) -> bool:
    """Return whether two epochs hold the same labels; in another form (numbers, names, one-hot) as often suffices."""
    if one.forms.isdisjoint(other.forms):
        if any(form.startswith("half") for form in one.forms | other.forms):
            return True  # different numbers become equal where they are rounded
        return sorted(Counter(one.labels).values()) == sorted(Counter(other.labels).values())
    return sorted(one.labels) == sorted(other.labels)


def _may_have_moved(
    first: fingerprints.Epoch, truth: fingerprints.Epoch, pairs: list[tuple[int, int]], wrong: set[int]
) -> bool:
    """Return whether labels that are not those of the reference may be right, as boxes are that turn with the image.

    Labels that left their images are labels of other images. Those that move with an image leave it alone where its
    pixels stay; those that are in another unit are others everywhere. A white page looks the same when it moved.
    """
    equal = {i for i, j in pairs if first.digests[i] == truth.digests[j]}
    still = {i for i in equal if not (first.small and _even(first.small[i]))}
    known = set(truth.labels)
    if all(first.labels[i] in known for i in wrong):
        return not wrong & still and _few(known, truth)
    return not wrong & still or still <= wrong


def _even(picture: np.ndarray) -> bool:
    """Return whether a thumbnail is its own mirror image, from left to right or from top to bottom."""
    square = picture.reshape(8, 8)
    return any(np.allclose(square, mirrored, atol=1e-3) for mirrored in (square[:, ::-1], square[::-1]))


def _few(known: set[bytes], epoch: fingerprints.Epoch) -> bool:
    """Return whether labels come so often that of an angle the opposite one is likely to occur, too."""
    return 2 * len(known) <= len(epoch.labels)


def _other_form(soft: bool, pairs: list[tuple[bytes, set[bytes]]]) -> _Seen:
    """Judge labels and those of the reference where they are written differently: one must always go with one."""
    pairs = [(one, min(others)) for one, others in pairs if len(others) == 1]  # copies may carry several
    ones, others = ({pair[side] for pair in pairs} for side in (0, 1))
    if 2 * len(others) > len(pairs):
        return OPEN, "labels come in another form than in the reference, and too few come twice to compare them"
    if len(set(pairs)) == len(ones) == len(others):
        return PASSED, "every image has the label of the reference, in another form"
    if soft:
        return OPEN, _SOFT
    here = "equal ones there differ here, or different ones are equal"
    return FAULT, f"labels come in another form than in the reference, and {here}; {_APART}, or two classes became one"


def finite(facts: Evidence) -> _Seen:
    """Look for NaN and infinite values."""
    bad = [i for i, n in enumerate(facts.first.broken + facts.second.broken) if n]
    if bad:
        many = f"{len(bad):,} of {len(facts.first) + len(facts.second):,} images hold NaN or infinite values"
        first = bad[0] % len(facts.first)
        return FAULT, f"{many}, the first is number {first}; look for a division by zero or the logarithm of 0"
    return PASSED, "no NaN, nothing infinite"


def in_range(facts: Evidence) -> _Seen:
    """Compare pixels with the range that they may have."""
    low = min(facts.first.low + facts.second.low, default=np.inf)
    high = max(facts.first.high + facts.second.high, default=-np.inf)
    if low > high:
        return OPEN, "no finite value came"
    _, spec = fingerprints.components(facts.dataset, "dataset")[facts.layout.image]
    if facts.value_range is None:
        whole = spec.dtype.is_integer
        seen = f"whole numbers from {low:g} to {high:g}" if whole else f"floats from {low:.3g} to {high:.3g}"
        hint = ", as bytes that were not divided by 255" if high > 16 and not whole else ""
        return OPEN, f"{seen}{hint}; value_range=(low, high) says what is right"
    least, most = facts.value_range
    slack = _ROUNDING.get(spec.dtype.name, 1e-6) * max(1.0, abs(least), abs(most))
    if low >= least - slack and high <= most + slack and not least < 0 <= low:
        return PASSED, f"all pixels lie within {least:g} to {most:g}"
    if least < 0 <= low:
        return FAULT, f"nothing is below 0, and {least:g} is allowed; were mean and deviation forgotten?"
    hint = "clip after the last augmentation"
    if most <= 1 < 16 < high:
        hint = "bytes were cast and not divided by 255; tf.image.convert_image_dtype does that for whole numbers only"
    elif least >= 0 > low and high <= -low * 4:
        hint = "clip after the last augmentation, or name the range of your normalisation"
    return FAULT, f"pixels from {low:.3g} to {high:.3g}, allowed {least:g} to {most:g}; {hint}"


def blank(facts: Evidence) -> _Seen:
    """Look for images of one colour, and for a set that is nearly black."""
    first, truth = facts.first, facts.truth
    blank = [i for i, flat in enumerate(first.flat) if flat]
    known = 0 if truth is None else sum(truth.flat)
    if len(blank) > known:
        kind = "black" if first.low[blank[0]] == first.high[blank[0]] == 0 else "of one colour"
        many = f"{len(blank):,} of {len(first):,} images are {kind}, the first is number {blank[0]}"
        return FAULT, f"{many}; draw it and follow it back through the pipeline"
    if 0 <= min(first.low) and max(first.high) < 0.02:
        return FAULT, f"nothing is brighter than {max(first.high):.2g}; were the pixels divided by 255 twice?"
    return PASSED, "no image is empty"


def overflow(facts: Evidence) -> _Seen:
    """Look for bytes that wrapped around."""
    if colour(facts)[0] == FAULT:
        return OPEN, "red and blue are exchanged; put that right first"
    return augmentation.overflow(_pairs(facts))


def colour(facts: Evidence) -> _Seen:
    """Compare the order of the colours with the reference."""
    if min(facts.first.low, default=0) < -16 and max(facts.first.high, default=0) > 16:
        return OPEN, "these may be blue, green, red with a mean taken off, as the Caffe models (ResNet50, VGG) want"
    first, truth = facts.first, facts.truth
    pairs = [(i, j) for i, j in enumerate(facts.match.place) if j >= 0]
    # Of a negative, more red than blue has become less, too.
    left = [(i, j) for i, j in pairs if (first.small[i] * truth.small[j]).sum() > -matching.LEAST]
    if pairs and not left:
        return OPEN, "these are negatives of the reference, so colours do not tell their order"
    return augmentation.colour([(first.colour[i], truth.colour[j]) for i, j in left])


def random(facts: Evidence) -> _Seen:
    """Compare the pixels of two epochs."""
    first, second, truth = facts.first, facts.second, facts.truth
    if facts.random is None:
        return OPEN, "nothing says whether this pipeline augments; random=True or False does"
    fresh = len(first) - same_elements.common(first.digests, second.digests)
    if facts.random is False:
        if len(first) == len(second) and not fresh:
            return PASSED, "both epochs deliver the same pixels"
        if facts.epoch_is_unknown:
            return OPEN, _UNKNOWN_EPOCH
        if facts.stated and _same_elements(facts) is False:
            return OPEN, "the two epochs hold different elements"
        return FAULT, f"{fresh:,} of {len(first):,} elements changed in epoch 2, and nothing should be random"
    if matching.repeats(first, second):
        if truth is not None and first.digests and same_elements.common(first.digests, truth.digests) == len(first):
            return FAULT, "epoch 2 repeats epoch 1, and both are the reference: nothing is augmented at all"
        if len(first) < matching.FEW:
            return OPEN, "epoch 2 repeats epoch 1, as so few elements may by chance; look at more"
        claim = "random=True" if facts.stated else "a map draws random numbers"
        drawn = "numpy or Python random numbers in a map (drawn once, when it is traced), a fixed seed"
        causes = f"a cache after the augmentation, {drawn}"
        return FAULT, f"epoch 2 repeats epoch 1 in every pixel, though {claim}; look for {causes}"
    if _same_elements(facts) is False:
        return OPEN, "the two epochs hold different elements, so they cannot be compared; see count and once"
    # No closer: a flip alone leaves half of the elements as they were, a few more or fewer from run to run.
    return PASSED, "epoch 2 differs from epoch 1" + ("" if 10 * fresh >= len(first) else " in few of its elements")


def _same_elements(facts: Evidence) -> bool | None:
    """Return whether two epochs hold the same elements; None if nothing tells."""
    first, second = facts.first, facts.second
    if first.keys:
        return sorted(first.keys) == sorted(second.keys)
    whole = first.whole and second.whole
    graph = structure.nodes(facts.dataset)
    if any(node.kind == "Shuffle" for node in graph) and (not whole or _drops(facts, graph)):
        return False  # each epoch holds another part of what was shuffled
    if not whole or len(first) != len(second):
        return False if whole else None
    return sorted(first.labels) == sorted(second.labels) if first.labels else None


def _drops(facts: Evidence, graph: list[structure.DatasetNode]) -> bool:
    """Return whether an epoch may lack elements that did not fill a batch."""
    if len(facts.first) == facts.expected:
        return False
    batches = [node for node in graph if getattr(node.dataset, "_drop_remainder", False) and node.upstream]
    lengths = [(int(node.upstream[0].dataset.cardinality()), node.number("_batch_size")) for node in batches]
    return any(length == -2 or (length >= 0 and length % size) for length, size in lengths)  # -2: nobody knows


def changed(facts: Evidence) -> _Seen:
    """Compare pixels with the reference, where they should differ."""
    if facts.layout.image is not None and facts.first.shapes and facts.first.shapes.isdisjoint(facts.truth.shapes):
        return OPEN, "the reference has images of another size; resize it the same way"
    epochs = [epoch.digests for epoch in (facts.first, facts.second)]
    if epochs[0] and all(same_elements.common(seen, facts.truth.digests) == len(seen) for seen in epochs):
        return FAULT, "every element equals the reference: the augmentation does nothing, or its result is thrown away"
    return PASSED, "not every element equals the reference"  # how many do is chance: the text stays the same


def alike(facts: Evidence) -> _Seen:
    """Look for an augmentation that is the same for every element."""
    twins = [matching.twins(facts.first, facts.match), matching.twins(facts.second, facts.again)]
    if None not in twins:
        if all(twins):
            return FAULT, f"{augmentation.FROZEN}: elements that are equal in the reference come out equal"
        return PASSED, "elements that are equal in the reference come out differently"
    return augmentation.alike(_pairs(facts), min(facts.first.low, default=0.0))


def order(facts: Evidence) -> _Seen:
    """Compare the order of two epochs."""
    first, second = facts.first, facts.second
    ways = [("key", first.keys, second.keys)]
    if same_elements.common(first.digests, second.digests) == len(first):
        ways.append(("pixels", first.digests, second.digests))
    if facts.match is not None and facts.match.certain and facts.again.certain:
        ways.append(("place in the reference", facts.match.place, facts.again.place))
    ways.append(("label", first.labels, second.labels))
    by, one, other = next((way for way in ways if way[1]), ways[-1])
    if facts.epoch_is_unknown:
        return OPEN, _UNKNOWN_EPOCH
    if not one:
        return OPEN, "needs a key (key=), labels or reference= to tell the elements apart"
    same = list(one) == list(other)
    if not facts.deterministic:
        seen = "the same" if same else "another"
        return OPEN, f"epoch 2 has {seen} order (by {by}); deterministic=True says that it must be the same"
    if not same:
        causes = "reshuffle_each_iteration=False, or for deterministic=False in options, map or interleave"
        return FAULT, f"epoch 2 has another order (by {by}); look for shuffle without {causes}"
    if facts.dataset.options().deterministic is False:
        return OPEN, f"epoch 2 has the same order (by {by}), but options().deterministic is False and promises none"
    if by == "label" and len(set(one)) < len(one):
        return OPEN, "epoch 2 has the same labels in the same order; key= tells elements of one label apart"
    return PASSED, f"epoch 2 has the order of epoch 1 (by {by})"


def mixed(facts: Evidence) -> _Seen:
    """Count neighbours of one label, against those that chance brings."""
    excess = [_runs(epoch.labels) for epoch in (facts.first, facts.second)]
    if None in excess:
        enough = "32 elements or more, and enough of the rare labels to tell sorted ones from chance"
        return OPEN, f"needs labels that come several times each, {enough}"
    if min(excess) > _SORTED:
        if facts.stated and not facts.random and facts.deterministic:
            return OPEN, "elements of one label follow each other; nothing is random here, as for evaluation"
        cause = "files or records are sorted, and shuffled in too small a buffer or not at all"
        words = "elements of one label follow each other, so that batches hold few labels"
        return FAULT, f"{words}: {cause}; allowed for evaluation only"
    return PASSED, "labels come mixed"


def _runs(labels: list[bytes]) -> float | None:
    """Return how many neighbours share a label beyond chance: 0 for a shuffled set, 1 for a sorted one, by 5 sigma.

    Neighbours may be several views of one photo. Of a sorted set, elements that lie further apart share a label, too.
    """
    count, sizes = len(labels), Counter(labels).values()
    chance = sum(n * (n - 1) for n in sizes) / max(1, count * (count - 1))
    if count < 32 or len(sizes) < 2 or 4 * len(sizes) > count:
        return None
    apart = max(1, min(_LAG, count // (2 * len(sizes))))
    seen = min(sum(map(operator.eq, labels, labels[lag:])) / (count - lag) for lag in (1, apart))
    noise = 5 * np.sqrt(chance * (1 - chance) / count)
    if chance + noise >= 1:  # nearly all carry one label: sorted ones have no more equal neighbours than mixed ones
        return None
    return (seen - chance) / (1 - chance) if seen > chance + noise else 0.0


def resize(facts: Evidence) -> _Seen:
    """Look in the graph for a resize that leaves pixels out."""
    ops = frozenset().union(*(node.ops for node in structure.nodes(facts.dataset)))
    if plain := sorted(ops & {"ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor"}):
        what = "leaves pixels out where it makes photos smaller; what is served must do the same, see checks.serving"
        return OPEN, f"a map resizes without antialias ({', '.join(plain)}) and {what}"
    if ops & {"ScaleAndTranslate", "ResizeArea"}:
        return PASSED, "the resize reads all pixels"
    return OPEN, "no map of TensorFlow resizes"


def orientation(facts: Evidence) -> _Seen:
    """Look for photos whose file says how to turn them, and that a decoder of TensorFlow leaves as they lie."""
    from PIL import Image

    graph = structure.nodes(facts.dataset)
    ops = frozenset().union(*(node.ops for node in graph))
    if not any(op.startswith("Decode") for op in ops) or ops.intersection(PYTHON_OPS):
        return OPEN, "no decoder of TensorFlow reads files here; others may apply an orientation (EXIF) or not"
    if facts.truth is not None:
        return OPEN, "the reference says which way photos are to lie"
    paths = [path for node in graph if node.kind == "TensorSlice" for path in _files(node.dataset)]
    asked = []
    for path in paths:
        # A header may be broken in any way, and a decoder of TensorFlow never looks at it.
        with contextlib.suppress(Exception), Image.open(path) as photo:
            asked.append(photo.getexif().get(_ORIENTATION, 1) != 1)
    if turned := sum(asked):
        many = f"{turned:,} of {len(asked):,} files say how to turn the photo (EXIF), and decode_jpeg does not do that"
        return FAULT, f"{many}: turn them once, and save them"
    if paths and not asked:
        return OPEN, "the photos are inside records, where nothing here reads whether they ask for a turn (EXIF)"
    return (PASSED, "no file asks for a turn") if paths else (OPEN, "the paths of the files are not in the graph")


def _files(dataset: Any) -> list[str]:
    """Return the texts of a dataset that are paths of files, of its first elements."""
    import tensorflow as tf

    texts = [
        value.numpy().decode(errors="replace")
        for element in dataset.take(_FILES)
        for _, value in structure.named(element)
        if isinstance(value, tf.Tensor) and value.dtype == tf.string and value.shape.rank == 0
    ]
    return [text for text in texts if "\0" not in text and Path(text).is_file()]


def _pairs(facts: Evidence) -> list[tuple[Any, Any, Any, Any]]:
    """Return (thumbnail, pixels) of elements and of their references, where both are kept."""
    first, truth = facts.first, facts.truth
    return [
        (first.large[i], first.pixels[i], truth.large[j], truth.pixels[j])
        for i, j in enumerate(facts.match.place[: len(first.large)])
        if 0 <= j < len(truth.large)
    ]


#: What a check may need: whether it is there, and what is said if it is not.
_NEEDS: dict[str, tuple[Callable[[Evidence], bool], str]] = {
    "elements": (lambda facts: len(facts.first) > 0, "no element came"),
    "images": (lambda facts: facts.layout.image is not None, "no component looks like images; image= names one"),
    "reference": (lambda facts: facts.truth is not None, "needs reference=, the same elements without augmentation"),
    "claim": (lambda facts: facts.random is True, "nothing says whether this pipeline augments; random=True does"),
}

#: All checks by name, in the order of a report, each with what it needs.
CHECKS: dict[str, tuple[Callable[[Evidence], _Seen], tuple[str, ...]]] = {
    "count": (count, ()),
    "once": (once, ()),
    "labels": (labels, ()),
    "finite": (finite, ("images", "elements")),
    "range": (in_range, ("images",)),
    "blank": (blank, ("images", "elements")),
    "overflow": (overflow, ("images", "reference")),
    "colour": (colour, ("images", "reference")),
    "random": (random, ("elements",)),
    "changed": (changed, ("reference", "claim")),
    "alike": (alike, ("images", "reference", "claim")),
    "order": (order, ()),
    "mixed": (mixed, ()),
    "resize": (resize, ("images",)),
    "orientation": (orientation, ("images",)),
}

#: Faults that no check of one pipeline finds.
UNSEEN = (
    "Whether a model is served these pixels: size, resize, colours and scale can differ; checks.serving compares.",
    "Blue for red without a reference: the result is a valid photo, too; give reference=, or use checks.serving.",
    "Bytes that wrapped around without a reference: dark pixels may be dark; give reference=.",
    "Mean and deviation of another model: their values are in range, too; checks.serving compares.",
    "Sorted records behind a buffer of half of them: most batches hold all labels; look at the first and the last one.",
    "Turned or grey photos: these are valid photos, too; look at some of them.",
    "A label that is wrong in the source itself: there is nothing to compare it with.",
    "Photos to learn from among those that are held out: compare the files of both sets.",
)
