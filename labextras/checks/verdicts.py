"""What each check says: rows of a condition, a status and a text, of which the first counts whose condition holds.

A check looks at the facts of two epochs; it yields its rows in their order, and nothing is computed behind the one that
counts.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
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


_Row = tuple[Any, str, str]
#: Neighbours of one label beyond chance, as a share of all.
_SORTED = 0.05
_LAG = 8  # elements between two that are no views of one photo, as a rule
_FEW = 16  # of two outcomes each: so few elements may be alike in two epochs by chance
_ROUNDING = {"float16": 2**-10, "bfloat16": 2**-7}  # of a value of about 1
_ORIENTATION, _FILES = 274, 2_000  # EXIF's number of the orientation, and files looked at
_SOFT = "labels are soft, shares of several classes; whether they belong to their images cannot be told"
_MOVED = (
    "labels are numbers, and others than expected: they may move with the image, as boxes and angles do, or be in "
    "another unit; whether they still belong to their images cannot be told"
)
_UNKNOWN_EPOCH = (
    "the dataset never ends (repeat()), and steps= may be more or less than an epoch; say its length instead: count=, "
    "labels= or reference="
)


def verdict(name: str, facts: Evidence) -> tuple[str, str]:
    """Return status and text of the check of a name, a key of `CHECKS`."""
    check, needs = CHECKS[name]
    lacking = ((not there(facts), OPEN, words) for there, words in map(_NEEDS.__getitem__, needs))
    return next((status, text) for holds, status, text in itertools.chain(lacking, check(facts)) if holds)


def count(facts: Evidence) -> Iterator[_Row]:
    """Compare the number of elements with the expected one."""
    got, then, expected = len(facts.first), len(facts.second), facts.expected
    yield not got, FAULT, "not one element came out"
    if expected is None:
        yield True, OPEN, f"{got:,} came, and nothing says how many there should be; count=, labels= or reference= does"
    yield facts.first.endless, OPEN, "the dataset never ends, so it has no count; see once"
    yield not facts.first.whole, OPEN, f"steps= stopped at {got:,} of {expected:,} elements"
    wrong = then if got == expected else got
    losses = "drop_remainder, ignore_errors, a filter, take or skip loses elements"
    cause = losses if wrong < expected else "a repeat, or two sources that overlap"
    yield wrong != expected, FAULT, f"{wrong:,} elements came instead of {expected:,}; look for: {cause}"
    yield True, PASSED, f"all {expected:,} came, in both epochs"


def once(facts: Evidence) -> Iterator[_Row]:
    """Look for elements that are missing or came twice."""
    yield from _once_alone(facts) if facts.match is None else _once_beside(facts)


def _once_alone(facts: Evidence) -> Iterator[_Row]:
    keys, first, second = facts.first.keys, facts.first.digests, facts.second.digests
    if facts.layout.image is None and not keys:
        yield True, OPEN, "needs reference=, or a component that is a key (key=): values alone may well be equal"
    many = len(first) - len(set(keys or first))
    yield many and facts.epoch_is_unknown, OPEN, f"{many:,} came more than once: {_UNKNOWN_EPOCH}"
    text = (
        f"{many:,} came more than once, equal in {'key' if keys else 'every pixel'}; look for repeat, overlapping "
        "sources, or give reference= if the source itself holds copies"
    )
    yield many, FAULT, text
    none_twice = keys or sorted(first) == sorted(second)
    yield none_twice, OPEN, "none came twice; whether one is lost needs reference="
    yield True, OPEN, "needs reference= or a key (key=): random images of one element are never equal"


def _once_beside(facts: Evidence) -> Iterator[_Row]:
    match, again, count = facts.match, facts.again, len(facts.first)
    yield not facts.first.whole, OPEN, "steps= looked at a part of an epoch"
    for found in (match, again):
        lost, extra = found.compared.lost, found.compared.extra
        text = f"{extra:,} of {len(found.place):,} elements are repeats"
        causes = "repeat before shuffle, overlapping shards, sampling with replacement"
        yield found.certain and extra and lost, FAULT, f"{text} and {lost:,} are missing; look for {causes}"
        yield found.certain and extra, FAULT, f"{text}; look for repeat or overlapping shards"
        causes = "drop_remainder, ignore_errors, a filter, take after a shuffle"
        missing = f"{lost:,} of {len(facts.truth):,} elements are missing; look for: {causes}"
        yield found.certain and lost, FAULT, missing
    text = f"only {match.known:,} of {count:,} elements could be recognised in the reference; key= helps"
    yield not (match.certain and again.certain), OPEN, text
    yield True, PASSED, "every element of the reference came exactly once, in both epochs"


def labels(facts: Evidence) -> Iterator[_Row]:
    """Compare labels with the reference, image by image, or else their numbers with those expected."""
    first, truth, match, wanted = facts.first, facts.truth, facts.match, facts.labels
    yield not first.labels, OPEN, "no component looks like labels; label= names one"
    others = wanted is not None and first.whole and not _as_often(first, wanted)
    compared = truth is not None and bool(truth.labels)
    pairs = [(i, j) for i, j in enumerate(match.place) if j >= 0] if compared else []
    pairs = [(i, j) for i, j in pairs if match.certain or match.exact[i]]
    if pairs and (first.forms.isdisjoint(truth.forms) or (first.soft and not truth.soft)):
        seen = _other_form(first.soft, [(first.labels[i], match.labels[j]) for i, j in pairs])
        yield seen[0] == FAULT or not others, *seen
    elif pairs:
        wrong = [i for i, j in pairs if first.labels[i] not in match.labels[j]]
        yield wrong and first.measured and _may_have_moved(first, truth, pairs, set(wrong)), OPEN, _MOVED
        if wrong:
            text = (
                f"{len(wrong):,} of {len(pairs):,} images carry another label than in the reference, the first is "
                f"number {wrong[0]}; images and labels were shuffled or filtered apart, zip them first"
            )
            yield True, FAULT, text
        part = "" if len(pairs) == len(first) else f" (checked on {len(pairs):,} of {len(first):,})"
        yield not others, PASSED, f"every image has the label of the reference{part}"
    yield others and first.soft and not wanted.soft, OPEN, _SOFT
    foreign = others and not set(first.labels) <= set(wanted.labels)
    yield others and first.measured and (facts.random or foreign), OPEN, _MOVED
    yield others, FAULT, "the labels of an epoch are not those expected: elements are lost, repeated or mislabelled"
    if wanted is not None and first.whole:
        yield True, OPEN, "each label came as often as expected; whether it belongs to its image needs reference="
    few = "too few images could be recognised in the reference to compare their labels; key= helps"
    yield True, OPEN, few if compared else "whether a label belongs to its image needs reference= with labels"


def _as_often(one: fingerprints.Epoch, other: fingerprints.Epoch) -> bool:
    """Return whether two epochs hold the same labels; in another form (numbers, names, one-hot) as often suffices."""
    if one.forms.isdisjoint(other.forms):
        return sorted(Counter(one.labels).values()) == sorted(Counter(other.labels).values())
    return sorted(one.labels) == sorted(other.labels)


def _may_have_moved(
    first: fingerprints.Epoch, truth: fingerprints.Epoch, pairs: list[tuple[int, int]], wrong: set[int]
) -> bool:
    """Return whether labels that are not those of the reference may be right, as boxes are that turn with the image.

    Those that move with an image leave it alone where its pixels stay; those in another unit are others everywhere, and
    are no labels of other images.
    """
    still = {i for i, j in pairs if first.digests[i] == truth.digests[j]}
    foreign = not {first.labels[i] for i in wrong} <= set(truth.labels)
    return not wrong & still or (foreign and still <= wrong)


def _other_form(soft: bool, pairs: list[tuple[bytes, set[bytes]]]) -> tuple[str, str]:
    """Judge labels and those of the reference where they are written differently: one must always go with one."""
    pairs = [(one, min(others)) for one, others in pairs if len(others) == 1]  # copies may carry several
    ones, others = ({pair[side] for pair in pairs} for side in (0, 1))
    if 2 * len(others) > len(pairs):
        return OPEN, "labels come in another form than in the reference, and too few come twice to compare them"
    if len(set(pairs)) == len(ones) == len(others):
        return PASSED, "every image has the label of the reference, in another form"
    if soft:
        return OPEN, _SOFT
    return FAULT, (
        "labels come in another form than in the reference, and equal ones there differ here, or different ones are "
        "equal; images and labels were shuffled or filtered apart, or two classes became one"
    )


def finite(facts: Evidence) -> Iterator[_Row]:
    """Look for NaN and infinite values."""
    bad = [i for i, n in enumerate(facts.first.broken + facts.second.broken) if n]
    if bad:
        count, number = len(facts.first) + len(facts.second), bad[0] % len(facts.first)
        text = f"{len(bad):,} of {count:,} images hold NaN or infinite values, the first is number {number}"
        yield True, FAULT, f"{text}; look for a division by zero or the logarithm of 0"
    yield True, PASSED, "no NaN, nothing infinite"


def in_range(facts: Evidence) -> Iterator[_Row]:
    """Compare pixels with the range that they may have."""
    low = min(facts.first.low + facts.second.low, default=np.inf)
    high = max(facts.first.high + facts.second.high, default=-np.inf)
    yield low > high, OPEN, "no finite value came"
    _, spec = fingerprints.components(facts.dataset, "dataset")[facts.layout.image]
    if facts.value_range is None:
        whole = spec.dtype.is_integer
        seen = f"whole numbers from {low:g} to {high:g}" if whole else f"floats from {low:.3g} to {high:.3g}"
        hint = ", as bytes that were not divided by 255" if high > 16 and not whole else ""
        yield True, OPEN, f"{seen}{hint}; value_range=(low, high) says what is right"
    least, most = facts.value_range
    text = f"nothing is below 0, and {least:g} is allowed; were mean and deviation forgotten?"
    yield least < 0 <= low, FAULT, text
    slack = _ROUNDING.get(spec.dtype.name, 1e-6) * max(1.0, abs(least), abs(most))
    inside = low >= least - slack and high <= most + slack
    yield inside, PASSED, f"all pixels lie within {least:g} to {most:g}"
    hint = "clip after the last augmentation, or name the range of your normalisation"
    if most <= 1 < 16 < high:
        hint = "bytes were cast and not divided by 255; tf.image.convert_image_dtype does that for whole numbers only"
    yield True, FAULT, f"pixels from {low:.3g} to {high:.3g}, allowed {least:g} to {most:g}; {hint}"


def blank(facts: Evidence) -> Iterator[_Row]:
    """Look for images of one colour, and for a set that is nearly black."""
    first, known = facts.first, 0 if facts.truth is None else sum(facts.truth.flat)
    blank = [i for i, flat in enumerate(first.flat) if flat]
    if len(blank) > known:
        kind = "black" if first.low[blank[0]] == first.high[blank[0]] == 0 else "of one colour"
        text = f"{len(blank):,} of {len(first):,} images are {kind}, the first is number {blank[0]}"
        yield True, FAULT, f"{text}; draw it and follow it back through the pipeline"
    dark = 0 <= min(first.low) and max(first.high) < 0.02
    yield dark, FAULT, f"nothing is brighter than {max(first.high):.2g}; were the pixels divided by 255 twice?"
    yield True, PASSED, "no image is empty"


def overflow(facts: Evidence) -> Iterator[_Row]:
    """Look for bytes that wrapped around."""
    yield verdict("colour", facts)[0] == FAULT, OPEN, "red and blue are exchanged; put that right first"
    yield True, *augmentation.overflow(_pairs(facts))


def colour(facts: Evidence) -> Iterator[_Row]:
    """Compare the order of the colours with the reference."""
    first, truth = facts.first, facts.truth
    caffe = min(first.low, default=0) < -16 and max(first.high, default=0) > 16
    yield caffe, OPEN, "these may be blue, green, red with a mean taken off, as the Caffe models (ResNet50, VGG) want"
    pairs = [(first.colour[i], truth.colour[j]) for i, j in enumerate(facts.match.place) if j >= 0]
    yield True, *augmentation.colour(pairs)


def random(facts: Evidence) -> Iterator[_Row]:
    """Compare the pixels of two epochs."""
    first, second, truth = facts.first, facts.second, facts.truth
    yield facts.random is None, OPEN, "nothing says whether this pipeline augments; random=True or False does"
    fresh = len(first) - same_elements.common(first.digests, second.digests)
    others = _same_elements(facts) is False, OPEN, "the two epochs may hold different elements; see count and once"
    if facts.random is False:
        yield len(first) == len(second) and not fresh, PASSED, "both epochs deliver the same pixels"
        yield facts.epoch_is_unknown, OPEN, _UNKNOWN_EPOCH
        yield others
        yield True, FAULT, f"{fresh:,} of {len(first):,} elements changed in epoch 2, and nothing should be random"
    repeats = matching.repeats(first, second)
    untouched = truth is not None and same_elements.common(first.digests, truth.digests) == len(first)
    text = "epoch 2 repeats epoch 1, and both are the reference: nothing is augmented at all"
    yield repeats and untouched, FAULT, text
    yield repeats and len(first) < _FEW, OPEN, "epoch 2 repeats epoch 1, as so few elements may by chance; look at more"
    claim = "random=True" if facts.stated else "a map draws random numbers"
    text = (
        f"epoch 2 repeats epoch 1 in every pixel, though {claim}; look for a cache after the augmentation, numpy or "
        "Python random numbers in a map (drawn once, when it is traced), a fixed seed"
    )
    yield repeats, FAULT, text
    yield others
    # No closer: a flip alone leaves half of the elements as they were, a few more or fewer from run to run.
    yield True, PASSED, "epoch 2 differs from epoch 1" + ("" if 10 * fresh >= len(first) else " in few of its elements")


def _same_elements(facts: Evidence) -> bool | None:
    """Return whether two epochs hold the same elements; None if nothing tells."""
    first, second = facts.first, facts.second
    if first.keys:
        return sorted(first.keys) == sorted(second.keys)
    whole = first.whole and second.whole
    graph = structure.nodes(facts.dataset)
    drops = any(getattr(node.dataset, "_drop_remainder", False) for node in graph) and len(first) != facts.expected
    if any(node.kind == "Shuffle" for node in graph) and (not whole or drops):
        return False  # each epoch may hold another part of what was shuffled
    if not whole or len(first) != len(second):
        return False if whole else None
    return sorted(first.labels) == sorted(second.labels) if first.labels else None


def changed(facts: Evidence) -> Iterator[_Row]:
    """Compare pixels with the reference, where they should differ."""
    epochs = [epoch.digests for epoch in (facts.first, facts.second)]
    equal = epochs[0] and all(same_elements.common(seen, facts.truth.digests) == len(seen) for seen in epochs)
    text = "every element equals the reference: the augmentation does nothing, or its result is thrown away"
    yield equal, FAULT, text
    yield True, PASSED, "not every element equals the reference"  # how many do is chance: the text stays the same


def alike(facts: Evidence) -> Iterator[_Row]:
    """Look for an augmentation that is the same for every element."""
    twins = [matching.twins(facts.first, facts.match), matching.twins(facts.second, facts.again)]
    if None not in twins:
        yield all(twins), FAULT, f"{augmentation.FROZEN}: elements that are equal in the reference come out equal"
        yield True, PASSED, "elements that are equal in the reference come out differently"
    yield True, *augmentation.alike(_pairs(facts), min(facts.first.low, default=0.0))


def order(facts: Evidence) -> Iterator[_Row]:
    """Compare the order of two epochs."""
    first, second = facts.first, facts.second
    ways = [("key", first.keys, second.keys)]
    if same_elements.common(first.digests, second.digests) == len(first):
        ways.append(("pixels", first.digests, second.digests))
    if facts.match is not None and facts.match.certain and facts.again.certain:
        ways.append(("place in the reference", facts.match.place, facts.again.place))
    ways.append(("label", first.labels, second.labels))
    by, one, other = next((way for way in ways if way[1]), ways[-1])
    same = list(one) == list(other)
    seen = f"epoch 2 has {'the same' if same else 'another'} order (by {by})"
    yield facts.epoch_is_unknown, OPEN, _UNKNOWN_EPOCH
    yield not one, OPEN, "needs a key (key=), labels or reference= to tell the elements apart"
    yield not facts.deterministic, OPEN, f"{seen}; deterministic=True says that it must be the same"
    text = (
        f"{seen}; look for shuffle without reshuffle_each_iteration=False, or for deterministic=False in options, map "
        "or interleave"
    )
    yield not same, FAULT, text
    loose = facts.dataset.options().deterministic is False
    yield loose, OPEN, f"{seen}, but options().deterministic is False and promises none"
    same_labels = by == "label" and len(set(one)) < len(one)
    yield same_labels, OPEN, "epoch 2 has the same labels in the same order; key= tells elements of one label apart"
    yield True, PASSED, f"epoch 2 has the order of epoch 1 (by {by})"


def mixed(facts: Evidence) -> Iterator[_Row]:
    """Count neighbours of one label, against those that chance brings."""
    excess = [_runs(epoch.labels) for epoch in (facts.first, facts.second)]
    if None in excess:
        text = (
            "needs labels that come several times each, 32 elements or more, and enough of the rare labels to tell "
            "sorted ones from chance"
        )
        yield True, OPEN, text
    evaluation = facts.stated and not facts.random and facts.deterministic
    text = "elements of one label follow each other"
    yield min(excess) <= _SORTED, PASSED, "labels come mixed"
    yield evaluation, OPEN, f"{text}; nothing is random here, as for evaluation"
    text = (
        f"{text}, so that batches hold few labels: files or records are sorted, and shuffled in too small a buffer or "
        "not at all; allowed for evaluation only"
    )
    yield True, FAULT, text


def _runs(labels: list[bytes]) -> float | None:
    """Return how many neighbours share a label beyond chance: 0 for a shuffled set, 1 for a sorted one, by 5 sigma.

    Neighbours may be several views of one photo. Of a sorted set, elements that lie further apart share a label, too.
    """
    count, sizes = len(labels), Counter(labels).values()
    chance = sum(n * (n - 1) for n in sizes) / max(1, count * (count - 1))
    noise = 5 * np.sqrt(chance * (1 - chance) / max(1, count))
    # Where nearly all carry one label, sorted ones have no more equal neighbours than mixed ones.
    if count < 32 or len(sizes) < 2 or 4 * len(sizes) > count or chance + noise >= 1:
        return None
    apart = max(1, min(_LAG, count // (2 * len(sizes))))
    seen = min(
        sum(one == other for one, other in zip(labels, labels[lag:], strict=False)) / (count - lag)
        for lag in (1, apart)
    )
    return (seen - chance) / (1 - chance) if seen > chance + noise else 0.0


def orientation(facts: Evidence) -> Iterator[_Row]:
    """Look for photos whose file says how to turn them, and that a decoder of TensorFlow leaves as they lie."""
    from PIL import Image

    graph = structure.nodes(facts.dataset)
    ops = frozenset().union(*(node.ops for node in graph))
    decodes = any(op.startswith("Decode") for op in ops) and not ops.intersection(PYTHON_OPS)
    yield not decodes, OPEN, "no decoder of TensorFlow reads files here; others may apply an orientation (EXIF) or not"
    yield facts.truth is not None, OPEN, "the reference says which way photos are to lie"
    asked = []
    for path in (path for node in graph if node.kind == "TensorSlice" for path in _files(node.dataset)):
        # A header may be broken in any way, and a decoder of TensorFlow never looks at it.
        with contextlib.suppress(Exception), Image.open(path) as photo:
            asked.append(photo.getexif().get(_ORIENTATION, 1) != 1)
    text = (
        f"{sum(asked):,} of {len(asked):,} files say how to turn the photo (EXIF), and decode_jpeg does not do that: "
        "turn them once, and save them"
    )
    yield any(asked), FAULT, text
    yield not asked, OPEN, "the files of photos are not in the graph, or the photos are inside records"
    yield True, PASSED, "no file asks for a turn"


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
CHECKS: dict[str, tuple[Callable[[Evidence], Iterator[_Row]], tuple[str, ...]]] = {
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
    "One turn for all photos, behind steps that are random indeed: checks.probe(augment, image) looks at one step.",
    "A label that is wrong in the source itself: there is nothing to compare it with.",
    "Photos to learn from among those that are held out: compare the files of both sets.",
)
