"""One function per check: from the facts of two epochs to what was seen, and what to do about it."""

from __future__ import annotations

import contextlib
import math
import operator
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from labextras.checks import augmentation, components, fingerprints, matching, pairs_and_splits
from labextras.checks.augmentation import FAULT, OPEN, PASSED
from labextras.checks.evidence import Evidence
from labkit.pipelines import same_elements, structure
from labkit.timeline.wording import PYTHON_OPS

_Seen = tuple[str, str]
#: Neighbours of one label beyond chance, as a share of all.
_SORTED = 0.05
_LAG = 8  # elements between two that are no views of one photo, as a rule
_ROUNDING = {"float16": 2**-10, "bfloat16": 2**-7}  # of a value of about 1
_ORIENTATION, _FILES = 274, 2_000  # EXIF's number of the orientation, and files looked at
_MUCH = 0.05  # of all elements
_MOSTLY = 0.5  # of all values of a component
_FEW_OF_BATCH = 4  # images, and batches
_UNKNOWN_EPOCH = (
    "the dataset never ends (repeat()), and steps= may be more or less than an epoch; say its length instead: count=, "
    "labels= or reference="
)


def verdict(name: str, facts: Evidence) -> _Seen:
    """Return status and text of the check of a name, a key of `CHECKS`; no text where it does not apply."""
    check, needs = CHECKS[name]
    lacking = (words for there, words in map(_NEEDS.__getitem__, needs) if not there(facts))
    missing = next(lacking, None)
    return check(facts) if missing is None else (OPEN, missing)


def count(facts: Evidence) -> _Seen:
    """Compare the number of elements with the expected one."""
    got, then, expected = len(facts.first), len(facts.second), facts.expected
    if not got:
        return FAULT, "not one element came out"
    both = facts.first.whole and facts.second.whole and not facts.first.endless
    dropped = [n for n in facts.graph if n.kind == "Filter" and structure.draws([n])]
    if both and got != then and not dropped:
        return FAULT, f"{got:,} elements came in epoch 1 and {then:,} in epoch 2; look for what one of them ended early"
    if expected is None and (lost := _never_seen(facts)):
        return FAULT, f"drop_remainder loses {lost:,} elements, the same in every epoch: shuffle before, or keep them"
    if expected is None:
        return OPEN, f"{got:,} came, and nothing says how many there should be; count=, labels= or reference= does"
    if facts.first.endless:
        return OPEN, "the dataset never ends, so it has no count; see once"
    if not facts.first.whole:
        return OPEN, f"steps= stopped at {got:,} of {expected:,} elements"
    if got != expected or then != expected:
        wrong = got if got != expected else then
        losses = "drop_remainder, ignore_errors, a filter, take or skip loses elements"
        doubled = "a repeat, or two sources that overlap"
        instead = ""
        if facts.shared_out:
            instead = ", as come without workers"
            losses = "drop_last, which drops the rest of each worker, or shares that leave elements out"
            doubled = "a stream that each worker reads as a whole: get_worker_info() says which share is whose"
        cause = losses if wrong < expected else doubled
        return FAULT, f"{wrong:,} elements came instead of {expected:,}{instead}; look for: {cause}"
    return PASSED, f"all {expected:,} came, in both epochs"


def _never_seen(facts: Evidence) -> int:
    """Return how many elements batches leave out in every epoch, where that is much; 0 where a shuffle draws others."""
    found = 0
    for node in facts.graph:
        if getattr(node.dataset, "_drop_remainder", False) and node.upstream:
            length, size = int(node.upstream[0].dataset.cardinality()), node.number("_batch_size")
            fixed = not any(one.kind == "Shuffle" for one in node.upstream)
            lost = length % size if length > 0 and size > 0 and fixed else 0
            found = max(found, lost if lost > _MUCH * length else 0)
    return found


def once(facts: Evidence) -> _Seen:
    """Look for elements that are missing or came twice."""
    first, second, match, again = facts.first, facts.second, facts.match, facts.again
    if match is None:
        many = len(first) - len(set(first.keys or first.digests))
        if facts.layout.image is None and not first.keys:
            return OPEN, "needs reference=, or a component that is a key (key=): values alone may well be equal"
        if many and not structure.is_dataset(facts.dataset) and facts.dataset.draws_again:
            return OPEN, f"{many:,} came more than once: the sampler draws with replacement"
        if many and facts.epoch_is_unknown:
            return OPEN, f"{many:,} came more than once: {_UNKNOWN_EPOCH}"
        if many:
            causes = "repeat, overlapping sources, or give reference= if the source itself holds copies"
            by = "key" if first.keys else "every pixel"
            lost = (facts.expected or 0) - (len(first) - many)
            beside = f", and {lost:,} of {facts.expected:,} did not come at all" if lost > 0 else ""
            return FAULT, f"{many:,} came more than once, equal in {by}{beside}; look for {causes}"
        if first.keys or sorted(first.digests) == sorted(second.digests):
            return OPEN, "none came twice; whether one is lost needs reference="
        return OPEN, "needs reference= or a key (key=): random images of one element are never equal"
    if not first.whole:
        return OPEN, "steps= looked at a part of an epoch"
    for found, epoch in ((match, first), (again, second)):
        lost, extra = found.compared.lost, found.compared.extra
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


def in_range(facts: Evidence) -> _Seen:
    """Compare pixels with the range that they may have."""
    low = min(facts.first.low + facts.second.low, default=np.inf)
    high = max(facts.first.high + facts.second.high, default=-np.inf)
    if low > high:
        return OPEN, "no finite value came"
    _, spec = fingerprints.components(facts.dataset)[facts.layout.image]
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
        hint = "divide by 255: floats, as resize and cast return them, are scaled by nobody else"
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
    graph = facts.graph
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
    if _drawn_for_batches(facts):
        return FAULT, "one draw for all images of a batch: map the images one by one, before the batch"
    return augmentation.alike(_pairs(facts), min(facts.first.low, default=0.0))


def _drawn_for_batches(facts: Evidence) -> bool:
    """Return whether images are mirrored or brighter batch by batch: alike within each, not from one to the next."""
    first, truth, groups = facts.first, facts.truth, {}
    for i, j in _detailed(facts):
        one, other = (epoch.small[k].reshape(8, 8) for epoch, k in ((first, i), (truth, j)))
        mirrored = (one * other[:, ::-1]).sum() > (one * other).sum()
        shift = float(np.median(first.large[i]) - np.median(truth.large[j]))
        groups.setdefault(first.batches[i], []).append((shift, float(mirrored)))
    groups = [np.array(values) for values in groups.values() if len(values) >= _FEW_OF_BATCH]
    if len(groups) < _FEW_OF_BATCH:
        return False
    within = np.median([np.ptp(values, axis=0) for values in groups], axis=0)
    between = np.ptp([np.median(values, axis=0) for values in groups], axis=0)
    return bool(((between > 0.05) & (within < 0.2 * between)).any())


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
    asked = facts.deterministic is False or (facts.deterministic is None and _shuffled(facts))
    if same and asked and _telling(list(one)):
        causes = "reshuffle_each_iteration=False, or a cache behind the shuffle"
        if not structure.is_dataset(facts.dataset):
            causes = "a sampler or a stream whose set_epoch(epoch) is not called before each epoch, or a seed set anew"
        claim = "each epoch must have an order of its own" if facts.deterministic is False else "a shuffle stands here"
        return FAULT, f"{claim}, and epoch 2 has the order of epoch 1 (by {by}); look for {causes}"
    if not same and facts.deterministic is False:
        return PASSED, f"epoch 2 has another order (by {by})"
    if not facts.deterministic:
        seen = "the same" if same else "another"
        return OPEN, f"epoch 2 has {seen} order (by {by}); deterministic=True says that it must be the same"
    if not same:
        causes = "reshuffle_each_iteration=False, or for deterministic=False in options, map or interleave"
        return FAULT, f"epoch 2 has another order (by {by}); look for shuffle without {causes}"
    if structure.is_dataset(facts.dataset) and facts.dataset.options().deterministic is False:
        return OPEN, f"epoch 2 has the same order (by {by}), but options().deterministic is False and promises none"
    if by == "label" and len(set(one)) < len(one):
        return OPEN, "epoch 2 has the same labels in the same order; key= tells elements of one label apart"
    return PASSED, f"epoch 2 has the order of epoch 1 (by {by})"


def _shuffled(facts: Evidence) -> bool:
    """Return whether a shuffle draws the order, and not only which elements a split takes."""
    if not structure.is_dataset(facts.dataset):
        return facts.dataset.shuffles
    splits = ("Take", "Skip", "Shard")
    shuffles = [node for node in facts.graph if node.kind == "Shuffle" and node.number("_buffer_size") > 1]
    return any(not any(one.kind in splits for one in node.downstream) for node in shuffles)


def _telling(marks: list[Any]) -> bool:
    """Return whether an order of these marks comes twice by chance in less than one of a thousand million."""
    orders = math.lgamma(len(marks) + 1) - sum(math.lgamma(n + 1) for n in Counter(marks).values())
    return orders > 9 * math.log(10)


def workers(facts: Evidence) -> _Seen:
    """Compare the random numbers of two worker processes."""
    draws = None if structure.is_dataset(facts.dataset) else facts.dataset.draws_of_workers()
    causes = "a generator that the dataset or its module holds, which each worker copies, or a seed in worker_init_fn"
    remedy = "draw from one that is made in the worker, seeded by torch.initial_seed()"
    if draws == "alike":
        return FAULT, f"all workers draw the same random numbers; look for {causes}: {remedy}"
    if draws == "again":
        return FAULT, f"workers draw the same random numbers in each epoch; look for {causes}: {remedy}"
    return (PASSED, "each worker draws random numbers of its own, others in each epoch") if draws else (OPEN, "")


def padding(facts: Evidence) -> _Seen:
    """Say which share of the values only fills rows up."""
    shares = {name: part.padded for name, part in facts.first.parts.items() if name != facts.label and part.padded}
    if not shares:
        return OPEN, ""
    name = max(shares, key=lambda one: shares[one])
    said = f"{shares[name]:.0%} of the values of {name} only fill rows up"
    remedy = "put rows of about one length into a batch, and fill up to the longest of each batch"
    return (FAULT, f"{said}: {remedy}") if shares[name] > _MOSTLY else (PASSED, said)


def mixed(facts: Evidence) -> _Seen:
    """Count neighbours of one label, against those that chance brings."""
    excess = [_runs(epoch.labels) for epoch in (facts.first, facts.second)]
    if not facts.first.labels:
        return OPEN, ""
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


def orientation(facts: Evidence) -> _Seen:
    """Look for photos whose file says how to turn them, and that a decoder of TensorFlow leaves as they lie."""
    from PIL import Image

    graph = facts.graph
    ops = frozenset().union(*(node.ops for node in graph))
    decodes, python = any(op.startswith("Decode") for op in ops), bool(ops.intersection(PYTHON_OPS))
    if not (decodes or python):
        return OPEN, ""
    if python:
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

    values = (value for element in dataset.take(_FILES) for _, value in structure.named(element))
    single = (one for one in values if isinstance(one, tf.Tensor) and one.dtype == tf.string and one.shape.rank == 0)
    texts = [one.numpy().decode(errors="replace") for one in single]
    return [text for text in texts if "\0" not in text and Path(text).is_file()]


def _pairs(facts: Evidence) -> list[tuple[Any, Any, Any, Any]]:
    """Return (thumbnail, pixels) of elements and of their references, where both are kept."""
    first, truth = facts.first, facts.truth
    return [(first.large[i], first.pixels[i], truth.large[j], truth.pixels[j]) for i, j in _detailed(facts)]


def _detailed(facts: Evidence) -> list[tuple[int, int]]:
    """Return the places of elements and of their references, where a larger thumbnail of both is kept."""
    kept = len(facts.truth.large)
    return [(i, j) for i, j in enumerate(facts.match.place[: len(facts.first.large)]) if 0 <= j < kept]


#: What a check may need: whether it is there, and what is said if it is not.
_NEEDS: dict[str, tuple[Callable[[Evidence], bool], str]] = {
    "elements": (lambda facts: len(facts.first) > 0, "no element came"),
    "images": (lambda facts: facts.layout.image is not None, ""),
    "companion": (lambda facts: facts.layout.companion is not None, ""),
    "held out": (lambda facts: facts.held is not None, ""),
    "reference": (lambda facts: facts.truth is not None, "needs reference=, the same elements without augmentation"),
    "claim": (lambda facts: facts.random is True, "nothing says whether this pipeline augments; random=True does"),
}

#: All checks by name, in the order of a report, each with what it needs.
CHECKS: dict[str, tuple[Callable[[Evidence], _Seen], tuple[str, ...]]] = {
    "count": (count, ()),
    "once": (once, ()),
    "labels": (pairs_and_splits.labels, ()),
    "moved": (pairs_and_splits.left_behind, ("images", "companion")),
    "finite": (components.finite, ("elements",)),
    "constant": (components.constant, ("elements",)),
    "texts": (components.texts, ("elements",)),
    "ids": (components.ids, ("elements",)),
    "range": (in_range, ("images",)),
    "blank": (blank, ("images", "elements")),
    "overflow": (overflow, ("images", "reference")),
    "colour": (colour, ("images", "reference")),
    "random": (random, ("elements",)),
    "changed": (changed, ("reference", "claim")),
    "alike": (alike, ("images", "reference", "claim")),
    "workers": (workers, ("elements",)),
    "order": (order, ()),
    "mixed": (mixed, ()),
    "padding": (padding, ("elements",)),
    "orientation": (orientation, ("images",)),
    "leaked": (pairs_and_splits.leaked, ("held out", "elements")),
    "split": (pairs_and_splits.split, ("held out", "elements")),
}

#: Faults that no check of one pipeline finds: of photos, and of anything.
UNSEEN_IN_PHOTOS = (
    "Whether a model is served these pixels: size, resize, colours and scale can differ; checks.serving compares.",
    "Blue for red without a reference: the result is a valid photo, too; give reference=, or use checks.serving.",
    "Bytes that wrapped around without a reference: dark pixels may be dark; give reference=.",
    "Mean and deviation of another model: their values are in range, too; checks.serving compares.",
    "Turned or grey photos: these are valid photos, too; look at some of them.",
)
UNSEEN = (
    "Sorted records behind a buffer of half of them: most batches hold all labels; look at the first and the last one.",
    "A label that is wrong in the source itself: there is nothing to compare it with.",
    "Elements to learn from among those that are held out, without both sets: give against=.",
)
