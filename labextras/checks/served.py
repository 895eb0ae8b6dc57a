"""Whether a model is served what it was trained on: two ways from a file to pixels, compared step by step.

The two functions are black boxes; only their images are compared. Most steps show in coarse pictures, whose pixels are
means of large parts: the turn and the order of the colours that correlate best, bars at the edges, and the line that
leads from the values of one image to those of the other. If coarse pictures are alike then, a difference that remains
is another resize. If they differ, three changes of the values are tried: each photo's own scale, another colour space,
and a blur. If none of them removes the difference, it is another part of the photo.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from labkit.common.table import Table, Tabular

#: The steps of a preprocessing, in the order in which they happen.
STEPS = ("orientation", "part of the photo", "resize", "colours", "values", "layout", "size")

#: Differences that count, as shares of the contrast (standard deviation) of the photos: of coarse pictures, of pixels.
#: Two decoders differ by 0.02 in both. At 224 pixels, methods that read all pixels of a photo (area, bicubic, Lanczos)
#: differ by 0.05 to 0.12, and one that leaves pixels out (no antialias) by 0.15; at 48 pixels that one differs by 0.4.
COARSE, FINE = 0.03, 0.13

#: A line through the values counts if it leaves the identity by more. Where another part of the photo is seen, the
#: values themselves are others: then only a line counts that is far away.
LINE, FAR = 0.03, 0.3

_GRID = 8  # pixels of the edge of a coarse picture
_TURNS = list(itertools.product((False, True), range(4)))  # mirrored or not, quarters of a turn
_ORDERS = list(itertools.permutations(range(3)))  # from red, green, blue to blue, green, red
_BAR = 0.05  # of the edge


class StepDifference(NamedTuple):
    """A step at which two ways differ.

    Parameters
    ----------
    step : str
        One of `STEPS`.
    what : str
        How, in words.
    files : int
        In how many of the files.
    """

    step: str
    what: str
    files: int


@dataclass(frozen=True, repr=False)
class Serving(Tabular):
    """What two ways from a file to pixels have in common.

    Parameters
    ----------
    differences : tuple of StepDifference
        In the order of `STEPS`.
    files : int
        Files that were compared.
    left : float
        What differs when turns, colours and a line through the values are undone, as a share of the contrast of the
        photos.
    """

    differences: tuple[StepDifference, ...]
    files: int
    left: float

    @property
    def equal(self) -> bool:
        """Whether the model is served what it was trained on."""
        return not self.differences

    @property
    def first(self) -> str | None:
        """The first step at which the two differ, one of `STEPS`; None where they are equal."""
        return self.differences[0].step if self.differences else None

    def table(self) -> Table:
        """One row for each step at which they differ."""
        rows = [(one.step, one.what, f"{one.files} of {self.files}") for one in self.differences]
        note = f"They differ first in this step: {self.first}. What follows can be right and is served another picture."
        if self.equal:
            note = f"equal: what is left is {100 * self.left:.1f} % of the contrast of the photos, as rounding leaves."
        return Table(("step", "what differs", "files"), rows or [("none", "", "")], (), [note], rule=True)


def serving(train_fn: Callable[[str], Any], serve_fn: Callable[[str], Any], files: Sequence[str]) -> Serving:
    """Compare what a model is trained on with what it is served, and name the first step at which they differ.

    Parameters
    ----------
    train_fn, serve_fn : callable
        From the path of a file to one image: an array or tensor of shape (height, width, 3), (3, height, width), or
        either with a leading 1. Without random augmentation.
        Each is called twice for each file, to see whether it draws anything at random.
    files : sequence of str
        Some ten photos, not all alike: flat or grey ones say little, and few photos carry an orientation.

    Returns
    -------
    Serving

    Raises
    ------
    ValueError
        If there are no files, a function returns something else than an image, or another one in the second call, or
        all photos are flat.

    Notes
    -----
    A difference in one step can hide differences in later steps. If the part of the photo or the size differs, the
    resize is not compared, and values are compared only if they are far apart. If the colour space differs, values are
    not compared. Correct the first step and compare again.

    Some differences can look like another part of the photo: two faults at once, as other colours and a resize that
    skips pixels, strong JPEG compression, an equalised histogram, or a contrast so high that values are cut off. A blur
    that changes no more than two good resizes differ is called equal. An equally small turn of the hue is called
    another scale.
    """
    if isinstance(files, (str, os.PathLike)):
        raise ValueError(f"files is the one path {os.fspath(files)}; allowed: a list of paths")
    paths = [str(file) for file in files]
    if not paths:
        raise ValueError("files is empty; allowed: the paths of some photos")
    pairs = [(_image(train_fn, "train_fn", path), _image(serve_fn, "serve_fn", path)) for path in paths]
    notes: Counter[tuple[str, str]] = Counter()
    sizes: list[tuple[str, str]] = []
    for (one, layout), (other, other_layout) in pairs:
        if layout != other_layout:
            notes["layout", f"training has the channels {layout}, serving has them {other_layout}"] += 1
        if one.shape != other.shape:
            sizes.append(("×".join(map(str, one.shape[:2])), "×".join(map(str, other.shape[:2]))))
    if sizes:
        seen = [side[0] if len(set(side)) == 1 else f"any, as {side[0]}" for side in zip(*sizes, strict=True)]
        notes["size", f"training sees {seen[0]} pixels, serving {seen[1]}"] += len(sizes)
    left = _compare([one for (one, _), _ in pairs], [other for _, (other, _) in pairs], notes)
    found = [StepDifference(step, what, count) for (step, what), count in notes.items()]
    return Serving(tuple(sorted(found, key=lambda one: STEPS.index(one.step))), len(paths), left)


def _image(function: Callable[[str], Any], name: str, path: str) -> tuple[np.ndarray, str]:
    """Return the image of a file as float64 of shape (height, width, 3), and where its channels stood."""
    image, layout = _checked(function(path), name, path)
    again, _ = _checked(function(path), name, path)
    if image.shape != again.shape or not np.allclose(image, again, atol=1e-3 * np.ptp(image)):
        raise ValueError(f"{name} returns another image for {path} when it is called again; allowed: nothing random")
    return image, layout


def _checked(given: Any, name: str, path: str) -> tuple[np.ndarray, str]:
    several = isinstance(given, (tuple, list, dict))
    image = np.zeros(()) if several else np.asarray(given)
    image = image[0] if image.ndim == 4 and len(image) == 1 else image
    number = image.dtype != bool and np.can_cast(image.dtype, np.float64, "same_kind")  # bfloat16 is one, too
    if image.ndim != 3 or 3 not in (image.shape[0], image.shape[2]) or not number:
        seen = f"a {type(given).__name__}" if several else f"{image.dtype} of shape {np.shape(given)}"
        raise ValueError(f"{name} returns {seen} for {path}; allowed: one image of three channels, as (224, 224, 3)")
    if not np.isfinite(image.astype(np.float64)).all():
        raise ValueError(f"{name} returns NaN or infinite values for {path}; allowed: finite numbers")
    last = image.shape[2] == 3
    return np.asarray(image if last else np.moveaxis(image, 0, 2), np.float64), "last" if last else "first"


def _compare(trained: list[np.ndarray], served: list[np.ndarray], notes: Counter[tuple[str, str]]) -> float:
    """Enter all differences but size and layout into `notes`, and return what they leave unexplained."""
    count = len(trained)
    if max(float(np.ptp(image)) for image in trained) < 1e-9:
        raise ValueError("train_fn makes all photos flat; allowed: photos with something in them")
    for i in range(count):
        (one, bars), (other, other_bars) = _without_bars(trained[i]), _without_bars(served[i])
        if abs(bars - other_bars) > _BAR:
            trained[i], served[i] = one, other
            side = "serving" if other_bars > bars else "training"
            notes["part of the photo", f"{side} has bars of one colour at the edges (letterbox)"] += 1
    turns = [_TURNS[0]] * count
    for order in (_ORDERS[0], _ORDERS[-1]) if _comparable(trained, served) else ():
        if _worst(_off_curve([image[..., order] for image in trained], served)) <= FINE:
            break
    else:
        order, turns = _placed(*(np.stack([_coarse(image) for image in images]) for images in (trained, served)))
    swapped = "red and blue have changed places" if order == _ORDERS[-1] else "the channels come in another order"
    if order != _ORDERS[0]:
        notes["colours", swapped] += count
    for mirror, quarters in set(turns) - {_TURNS[0]}:
        some = turns.count((mirror, quarters))
        words = " and ".join([f"turned by {90 * quarters}°"] * bool(quarters) + ["mirrored"] * mirror)
        hint = "; the orientation in the file (EXIF) is applied on one side only" if some < count else ""
        notes["orientation", f"serving sees the photo {words}{hint}"] += some
    trained = [_turned(image, *turn)[..., order] for image, turn in zip(trained, turns, strict=True)]
    one, other = (np.stack([_coarse(image) for image in images]) for images in (trained, served))
    grey = _grey(one), _grey(other)
    if grey[0] != grey[1]:
        notes["colours", f"{'serving' if grey[1] else 'training'} sees grey photos"] += count
        colourful, target = (one, other) if grey[1] else (other, one)
        weights = np.linalg.lstsq(_centred(colourful), _centred(target)[:, 0], rcond=None)[0]
        # Weights of the sum 1 leave the scale of the values to the line.
        weights = np.repeat((weights / weights.sum())[:, None], 3, axis=1)
        if grey[1]:
            trained, one = [image @ weights for image in trained], one @ weights
        else:
            served, other = [image @ weights for image in served], other @ weights
    contrast = _contrast(trained)
    # Where colours changed places before mean and deviation were taken off, the line of green alone stays as it was.
    channels = [1, 1, 1] if order == _ORDERS[-1] else [0, 1, 2]
    slope, offset = _line(one.reshape(-1, 3), other.reshape(-1, 3))
    same = _comparable(trained, served)
    before, after = (trained, served) if same else (list(one), list(other))
    rest = [((b - offset) / slope - a) / contrast for a, b in zip(before, after, strict=True)]
    # Of two pictures that have nothing in common a curve leaves 0.7 of what a line does.
    curve = _off_curve(before, after)
    bent = _size(rest) > FINE and _size(curve) < 0.6 * _size(rest)
    rest = curve if bent else rest
    left, small = _worst(rest), [_coarse(image) for image in rest]
    if _elsewhere(rest, same):
        # Another part of the photo is what no change of the values of pixels undoes.
        straight = [(image - offset) / slope for image in after]
        step, undone = "part of the photo", rest
        for name, what, undo in _UNDONE if same else _UNDONE[:2]:
            trial = undo(before, straight)
            if _undoes(trial, small, same, name):
                step, undone = name, trial
                notes[name, what] += count
                break
        if step == "colours":
            notes.pop((step, swapped), None)  # channels of another colour space have no order
        if step == "part of the photo" and not any(name == step for name, _ in notes):
            differ = f"coarse pictures differ by {100 * _size(small):.0f} % of the contrast"
            what = f"another crop or aspect, or another colour space: {differ}"
            notes[step, what] += sum(_size([image]) > COARSE for image in small)
        if step in ("part of the photo", "resize"):
            slope, offset = _line(np.sort(one.reshape(-1, 3), axis=0), np.sort(other.reshape(-1, 3), axis=0))
            _values(slope[channels], offset[channels], one, contrast, FAR, count, notes)
            return left
        rest, left = undone, _worst(undone)
    elif bent:
        notes["values", "no line leads to them: values are cut off, wrap around or are bent (gamma)"] += count
    else:
        _values(slope[channels], offset[channels], one, contrast, LINE, count, notes)
    if left > FINE and same and not _elsewhere(rest, same):
        what = f"another way to make small pixels of large ones (antialias, method): {100 * left:.0f} % of the contrast"
        notes["resize", what] += sum(_size([image]) > FINE / 2 for image in rest)
    return left


def _without_bars(image: np.ndarray) -> tuple[np.ndarray, float]:
    """Return an image without rows and columns of one colour at its edges, and what share of an edge those are."""
    most = 0.0
    for axis in (0, 1):
        flat = np.ptp(image, axis=1 - axis).max(axis=-1) < 1e-3 * max(float(image.std()), 1e-12)
        inside = np.flatnonzero(~flat)
        if len(inside):
            most = max(most, 1 - (inside[-1] + 1 - inside[0]) / len(flat))
            image = image.take(range(inside[0], inside[-1] + 1), axis)
    return image, most


def _coarse(image: np.ndarray) -> np.ndarray:
    """Return an image as `_GRID` × `_GRID` pixels, each the mean of its part, cut pixels by their share."""
    for axis in (0, 1):
        length = image.shape[axis]
        edges = np.linspace(0, length, _GRID + 1)[:, None]
        inside = np.clip(edges[1:] - np.arange(length), 0, 1) - np.clip(edges[:-1] - np.arange(length), 0, 1)
        image = np.moveaxis(np.tensordot(inside * _GRID / length, image, (1, axis)), 0, axis)
    return image


def _turned(image: np.ndarray, mirror: bool, quarters: int) -> np.ndarray:
    return np.rot90(image[:, ::-1] if mirror else image, quarters)


def _placed(one: np.ndarray, other: np.ndarray) -> tuple[tuple[int, ...], list[tuple[bool, int]]]:
    """Return the order of the colours that correlates best, one for all, and the turn of each photo that does."""

    def plain(images: np.ndarray) -> np.ndarray:
        images = images - images.mean(axis=(1, 2), keepdims=True)
        length = np.sqrt((images**2).sum(axis=(1, 2), keepdims=True))
        return images / np.where(length > 1e-9, length, np.inf)

    turned = np.stack([np.stack([_turned(image, *turn) for image in plain(one)]) for turn in _TURNS])
    channels = np.einsum("tnhwc,nhwd->tncd", turned, plain(other))
    scores = np.stack([channels[..., order, range(3)].mean(axis=-1) for order in _ORDERS])  # order, turn, photo
    means = scores.max(axis=1).mean(axis=1)
    order = int(means.argmax()) if means.max() > means[0] + 0.01 else 0
    mine = scores[order]
    # A turn has to leave half of what differs, in one photo; or all have the same one.
    best = np.where(1 - mine.max(axis=0) < 0.5 * (1 - mine[0]), mine.argmax(axis=0), 0)
    together = mine.mean(axis=1)
    if not best.all() and together.max() > together[0] + 0.1:
        best[:] = together.argmax()
    return _ORDERS[order], [_TURNS[t] for t in best]


def _centred(images: np.ndarray) -> np.ndarray:
    values = images.reshape(-1, 3)
    return values - values.mean(axis=0)


def _grey(images: np.ndarray) -> bool:
    """Tell whether the three channels are one, whatever its scale in each."""
    with np.errstate(invalid="ignore", divide="ignore"):  # channels of one value correlate with nothing
        return bool(np.corrcoef(_centred(images).T).min() > 0.9999)


def _size(images: Sequence[np.ndarray]) -> float:
    return float(np.sqrt(np.mean([np.mean(image**2) for image in images])))


def _worst(images: Sequence[np.ndarray]) -> float:
    """Return the size of all, or a third of that of the largest: one photo of many that lies on its side counts."""
    return max(_size(images), *(_size([image]) / 3 for image in images))


def _line(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return slope and offset of each channel, ``other = slope × one + offset``, without what is far from the line."""
    slope, offset = np.ones(3), np.zeros(3)
    for c, (x, y) in enumerate(zip(one.T, other.T, strict=True)):
        keep = np.ones(len(x), bool)
        for _ in range(4):
            spread = x[keep].std()
            # Noise in x pulls a fitted slope to 0; the ratio of the deviations has no such bias.
            slope[c] = (y[keep].std() / spread if spread > 0 else 1.0) or 1.0
            offset[c] = y[keep].mean() - slope[c] * x[keep].mean()
            away = np.abs(y - slope[c] * x - offset[c])
            keep = away <= max(3 * np.median(away), 1e-12)
    return slope, offset


def _comparable(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(a.shape == b.shape for a, b in zip(one, other, strict=True))


def _off_curve(one: list[np.ndarray], other: list[np.ndarray]) -> list[np.ndarray]:
    """Fit pixels of one image as a function of the value at the same place in the other; return the rest.

    The rest is a share of the contrast: 1 where there is no such function.
    """
    before, after = (np.concatenate([image.reshape(-1, 3) for image in images]) for images in (one, other))
    rest = np.empty_like(after)
    for c, (x, y) in enumerate(zip(before.T, after.T, strict=True)):
        tries = []
        for a, b in ((x, y), (y, x)):  # what wraps around has a function in one direction only
            bins = ((a - a.min()) / max(float(np.ptp(a)), 1e-12) * min(127, len(a) // 20)).astype(int)
            means = np.bincount(bins, b) / np.maximum(np.bincount(bins), 1)
            tries.append((b - means[bins]) / max(float(b.std()), 1e-12))
        rest[:, c] = min(tries, key=np.std)
    parts = np.split(rest, np.cumsum([image[..., 0].size for image in one])[:-1])
    return [part.reshape(image.shape) for part, image in zip(parts, one, strict=True)]


def _elsewhere(rest: list[np.ndarray], same: bool) -> bool:
    """Tell whether what is left shows in coarse pictures, too.

    A resize that leaves pixels out adds noise, and little of this noise is left in the mean of many pixels.
    """
    left, edge = _worst(rest), min(min(image.shape[:2]) for image in rest)
    least = max(COARSE, 1.5 * _GRID / edge * left) if same else FINE
    return left > FINE and _size([_coarse(image) for image in rest]) > least


def _undoes(undone: list[np.ndarray], small: list[np.ndarray], same: bool, step: str) -> bool:
    """Tell whether a step was undone: coarse pictures hardly differ any more, and show the same part of the photo.

    Of a map of the colours that is not quite the right one, coarse pictures show as much as fine ones. Of a photo that
    is cut or moved, edges are left, which are fine.
    """
    coarse = _size([_coarse(image) for image in undone])
    if coarse > 0.5 * _size(small):
        return False
    return not _elsewhere(undone, same) or (same and step == "colours" and _size(undone) < 1.6 * coarse)


def _contrast(images: list[np.ndarray]) -> float:
    """Return the standard deviation of the values of a photo, as the mean of all photos and colours."""
    return float(np.mean([image.std(axis=(0, 1)).mean() for image in images]))


def _share(rest: list[np.ndarray], images: list[np.ndarray]) -> list[np.ndarray]:
    """Return what is left as a share of the contrast of the photos; of photos without any it is all."""
    contrast = _contrast(images)
    return [image / contrast if contrast > 1e-9 else np.ones_like(image) for image in rest]


def _off_own_lines(one: list[np.ndarray], other: list[np.ndarray]) -> list[np.ndarray]:
    """Return what is left where each photo has lines of its own."""
    lines = [_line(_coarse(a).reshape(-1, 3), _coarse(b).reshape(-1, 3)) for a, b in zip(one, other, strict=True)]
    rest = [(b - offset) / slope - a for a, b, (slope, offset) in zip(one, other, lines, strict=True)]
    return _share(rest, one)


def _off_colours(one: list[np.ndarray], other: list[np.ndarray]) -> list[np.ndarray]:
    """Fit pixels by one quadratic function of the three values at the same place; return the rest.

    A line in three values leads to YCbCr; hue and saturation are not linear.
    """

    def terms(image: np.ndarray) -> np.ndarray:
        x = image.reshape(-1, 3)
        return np.column_stack([np.ones(len(x)), x, x**2, x * x[:, [1, 2, 0]]])

    tries = []
    for before, after in ((one, other), (other, one)):  # back from hue and saturation is the easier way
        small = [np.concatenate([_coarse(image).reshape(-1, 3) for image in images]) for images in (before, after)]
        weights = np.linalg.lstsq(terms(small[0]), small[1], rcond=None)[0]
        rest = [(terms(a) @ weights).reshape(a.shape) - b for a, b in zip(before, after, strict=True)]
        tries.append(_share(rest, after))
    return min(tries, key=_size)


def _off_blur(one: list[np.ndarray], other: list[np.ndarray]) -> list[np.ndarray]:
    """Return what is left if the sharper photos are blurred until they are as the others."""
    from scipy import ndimage

    def edges(images: list[np.ndarray]) -> float:
        return _size([np.diff(image, axis=axis) for image in images for axis in (0, 1)])

    def left(width: float, most: int | None = None) -> list[np.ndarray]:
        pairs = zip(sharp[:most], soft[:most], strict=True)
        return [ndimage.gaussian_filter(a, (width, width, 0), mode="nearest") - b for a, b in pairs]

    sharp, soft = (one, other) if edges(one) > edges(other) else (other, one)
    # The width is found with two photos: to blur all of them in each width would take most of the time of a comparison.
    return _share(left(min(np.geomspace(0.5, 16, 11), key=lambda width: _size(left(width, 2)))), one)


#: Differences that are tried before another part of the photo is named: a step, its difference, and what removes it.
_UNDONE = (
    ("values", "each photo is scaled by its own mean and deviation", _off_own_lines),
    ("colours", "another colour space, hue or saturation", _off_colours),
    ("resize", "one of the two is blurred", _off_blur),
)


def _values(
    slope: np.ndarray, offset: np.ndarray, one: np.ndarray, contrast: float, least: float, count: int,
    notes: Counter[tuple[str, str]],
) -> None:  # fmt: skip
    """Enter what the lines through the values say, where they are further than `least` from the identity."""
    shift = np.abs(offset + (slope - 1) * one.mean(axis=(0, 1, 2)))
    if np.abs(np.log(slope)).max() <= least and shift.max() <= least * contrast:
        return
    a, b = float(slope.mean()), float(offset.mean())
    flat = abs(b) <= least * a * contrast
    if np.ptp(slope) > least * a or np.ptp(offset) > least * a * contrast:
        what = "another mean and deviation by channel"
    elif flat and abs(np.log(a / 255)) < least:
        what = "training divides by 255, serving does not"
    elif flat and abs(np.log(a * 255)) < least:
        what = "serving divides by 255 once more than training"
    elif abs(a - 1) <= least:
        what = f"serving is {'brighter' if b > 0 else 'darker'}"
    else:
        what = "another scale"
    channels = zip(("red", "green", "blue"), slope, offset, strict=True)
    lines = (f"{name} × {a:.4g} {'+' if b >= 0 else '−'} {abs(b):.3g}" for name, a, b in channels)
    notes["values", f"{what}: {'; '.join(lines)}"] += count
