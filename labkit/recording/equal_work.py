"""Did two runs do the same work? The comparison of what two pipelines delivered (`labkit.recording.work`)."""

from __future__ import annotations

import numpy as np

from labkit.recording.work import INTEGER
from labkit.timeline.run import BatchPart, Delivered


def difference(a: Delivered, b: Delivered, noun: str = "image") -> str | None:
    """Return one sentence why two tallies are not equal work, or None.

    Parameters
    ----------
    a, b : Delivered
        From `Tally.work`.
    noun : str
        What the sentence calls one of the things that they hold.
    """
    if a.images != b.images:
        return f"different counts: {a.images:,} {noun}s in {a.steps} steps against {b.images:,} in {b.steps}"
    whole = a.to_the_end and b.to_the_end
    # Of whole epochs the usual size counts: the workers of a service each end with a remainder of their own.
    usual = {max(work.batch_sizes, key=work.batch_sizes.__getitem__, default="") for work in (a, b)}
    if a.batch_sizes != b.batch_sizes and not (whole and len(usual) == 1):
        return f"different batches: {_sizes(a)} against {_sizes(b)}"
    if len(a.components) != len(b.components):
        one, other = ([_called(i, part) for i, part in enumerate(work.components)] for work in (a, b))
        alone = ", ".join(sorted({*one} ^ {*other}))
        return f"different elements: {len(one)} components per batch against {len(other)}: only one has {alone}"
    for i, (x, y) in enumerate(zip(a.components, b.components, strict=True)):
        # One number per image costs the same in any integer type: int32 and int64 labels are equal work.
        both_labels = x.shape == () and x.dtype.startswith(INTEGER) and y.dtype.startswith(INTEGER)
        if x.dtype != y.dtype and not both_labels:
            return f"different dtypes: {_called(i, x)} is {x.dtype} against {y.dtype}"
        if _layouts(x, y):
            continue
        if x.shape != y.shape:
            return f"different shapes: {_called(i, x)} is {_shape(x)} per {noun} against {_shape(y)}"
        # Where both draw their order, each batch is padded to another length: the labels tell whether it is the same.
        sizes = x.digest != y.digest and (x.shape is None or None in x.shape)
        if sizes and {a.order, b.order} != {"varies"} and not _another_draw(a, b):
            return f"different shapes: {_called(i, x)} is {_shape(x)} per {noun} in both, but not of the same sizes"
    one, other = a.sources, b.sources
    if one and other and one.kind == other.kind and one.digest != other.digest:
        read = f"read from {one.count:,} {one.kind} (first {one.first})"
        return f"different {noun}s: {read} against {other.count:,} (first {other.first})"
    if bool(a.labels) != bool(b.labels):
        return f"different {noun}s: only one of the two has labels that can be compared"
    if a.labels and a.labels.digest != b.labels.digest and not _another_draw(a, b):
        varies = "varies" in (a.order, b.order) and not whole
        seed = "shuffle with a seed (a DataLoader: generator=torch.Generator().manual_seed(0))"
        whole = f"compare whole epochs, with measure(..., steps=None) and without repeat(), or {seed}"
        advice = f"; the order varies: {whole}" if varies else ""
        return f"different {noun}s: the labels of the {a.images:,} {noun}s are not the same set{advice}"
    return None


def agreement(a: Delivered, b: Delivered) -> str:
    """Return how equal two tallies are, in the words of the table.

    Returns
    -------
    str
        "no"; "counts only" (nothing tells their images apart); "same files, another draw"
        (a shuffle or interleave gave each run other images of the same files); or "yes".
    """
    if difference(a, b):
        return "no"
    if not a.labels and not _same_sources(a, b):
        return "counts only"
    same_labels = not a.labels or a.labels.digest == b.labels.digest
    return "yes" if same_labels else "same files, another draw"


def _layouts(x: BatchPart, y: BatchPart) -> bool:
    """Tell whether two components hold the same dimensions with the colours first in one, and last in the other."""
    one, other = x.shape, y.shape
    if not one or not other or one == other or len(one) < 3 or x.dtype != y.dtype:
        return False
    return other in ((*one[1:], one[0]), (one[-1], *one[:-1]))


def layouts(a: Delivered, b: Delivered) -> str | None:
    """Return a sentence where two tallies differ in the order of dimensions only, or None."""
    for x, y in zip(a.components, b.components, strict=False):
        if _layouts(x, y):
            return f"{_shape(x)} per image against {_shape(y)}: the same numbers in another layout"
    return None


def pixel_difference(a: Delivered, b: Delivered) -> tuple[float, int] | None:
    """Return by how much, of 255, the sampled pixels of two tallies differ on average and at most; None if unknown."""
    one, other = (bytes.fromhex(work.pixels or "") for work in (a, b))
    if not one or len(one) != len(other):
        return None
    apart = np.abs(np.frombuffer(one, np.uint8).astype(int) - np.frombuffer(other, np.uint8))
    return float(apart.mean()), int(apart.max())


def _another_draw(a: Delivered, b: Delivered) -> bool:
    """Tell whether both windows are draws of the same files whose label counts chance explains.

    A window shorter than an epoch sees other images after a shuffle or an interleave, although the work is
    the same. Accepted only if the sources are the same files, the order varies, no node picks a
    subset, and a two-sample chi-square test does not reject equal label shares at 0.1 %.
    """
    drawn = "varies" in (a.order, b.order) and not (a.selects or b.selects)
    if not drawn or not _same_sources(a, b):
        return False
    if not (a.labels and b.labels):
        return a.labels == b.labels
    one, other = a.labels.histogram, b.labels.histogram
    if one is None or other is None:
        return False
    from scipy import stats

    pairs = [(one.get(label, 0), other.get(label, 0)) for label in one.keys() | other.keys()]
    return len(pairs) < 2 or stats.chi2_contingency(pairs, correction=False)[1] > 1e-3


def _same_sources(a: Delivered, b: Delivered) -> bool:
    return bool(a.sources and b.sources) and a.sources.digest == b.sources.digest


def _called(place: int, part: BatchPart) -> str:
    """Return what a reader calls a component: its key in quotes where it has one, else its place."""
    return f"component {place}" if part.name in ("", str(place)) else repr(part.name)


def _sizes(work: Delivered) -> str:
    return ", ".join(f"{count} of {size}" for size, count in work.batch_sizes.items())


def _shape(component: BatchPart) -> str:
    shape = component.shape
    return "of varying rank" if shape is None else "×".join(map(str, shape)).replace("None", "?") or "scalar"
