"""How images changed between a reference and a pipeline: brightened, wrapped around, colours reversed, covered.

Every estimate comes from thumbnails or from single pixels of some elements; where they do not agree, it says that it
cannot tell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

PASSED, FAULT, OPEN = "passed", "fault", "not checked"
FROZEN = "the same augmentation for every element"
_FEW = (OPEN, "too few elements could be recognised in the reference")
_LEAST_PAIRS = 8
_MOST_PAIRS, _MOST_CURVES = 20, 48
_Pairs = Sequence[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]


def colour(pairs: Sequence[tuple[float, float]]) -> tuple[str, str]:
    """Compare red minus blue of elements, (delivered, reference): reversed channels turn its sign."""
    values = np.array([p for p in pairs if np.isfinite(p).all()]).reshape(-1, 2)
    if not len(pairs):
        return _FEW
    if not len(values):
        return OPEN, "images without three channels have no order of colours"
    got, truth = values.T
    size = float(np.sqrt((got**2).sum() * (truth**2).sum()))
    if np.sqrt((truth**2).mean()) < 0.004 or size == 0:
        return OPEN, "the reference is grey: red and blue are alike"
    likeness = float((got * truth).sum() / size)
    if likeness <= -0.5:
        return FAULT, "red and blue are exchanged (BGR instead of RGB); reverse the last axis: image[..., ::-1]"
    if likeness >= 0.5:
        return PASSED, "red, green and blue come in the order of the reference"
    return OPEN, "colours differ too much from the reference to tell"


def overflow(pairs: _Pairs) -> tuple[str, str]:
    """Look for pixels that became dark because they were too bright: whole numbers that wrapped around."""
    if len(pairs) < _LEAST_PAIRS:
        return _FEW
    pairs = pairs[:: max(1, len(pairs) // _MOST_CURVES)]
    curves = [[_curve(truth[:, side], pixels[:, 0]) for side in (0, 1)] for _, pixels, _, truth in pairs]
    judged = sum(both != [None, None] for both in curves)
    # If one of the two is a good curve, a bad other one is chance: photos of few colours have many bad curves.
    wrapped = sum(True in both and False not in both for both in curves)
    # If pixels moved, a few images look like a curve by chance, and a tenth of these curves has a cliff by chance.
    if judged < max(_LEAST_PAIRS, len(pairs) / 2):
        return OPEN, "images were moved or resized, so single pixels cannot be compared; check before that step"
    if wrapped >= max(2, 0.02 * judged):
        return FAULT, (
            f"in {wrapped:,} of {judged:,} elements, pixels that are bright in the reference are dark: bytes wrapped "
            "around; convert to float before adding, then clip"
        )
    return PASSED, "no bright pixel turned dark"


def _curve(before: np.ndarray, after: np.ndarray) -> bool | None:
    """Return whether `after` as a function of `before` falls off a cliff; None if it is no function."""
    from scipy import ndimage

    before, after = before[after > 0], after[after > 0]  # black is a patch, not a value
    bins = np.clip((before * 32).astype(int), 0, 31)
    filled = np.flatnonzero(np.bincount(bins, minlength=32) >= 4)
    if len(filled) < 4:
        return None
    centre = ndimage.median(after, bins, range(32))
    # The mean and not the median: where most of an image is white, most of it stays white wherever pixels move.
    middles, spread = centre[filled], ndimage.mean(np.abs(after - centre[bins]), bins, filled)
    steps = np.diff(middles)
    # Between black letters and white paper no value is there, and a curve that goes on would rise as much as that gap.
    falls = (steps < -0.1) & (steps - np.diff(filled) / 32 < -0.43)
    cliffs = np.flatnonzero(falls & (middles[1:] < 0.35))
    if np.mean(spread < 0.06) < 0.8 or np.mean(steps > -0.02) < 0.8:
        return None
    return len(cliffs) > 0


def alike(pairs: _Pairs, low: float) -> tuple[str, str]:
    """Look for a shift of brightness or a blank patch that is the same in every element."""
    pairs = pairs[:: max(1, len(pairs) // _MOST_PAIRS)][:_MOST_PAIRS]
    if len(pairs) < _LEAST_PAIRS:
        return _FEW
    patches = [_patch(new, old) for new, _, old, _ in pairs]
    same = all((patch == patches[0]).all() for patch in patches)
    covered = [patch.sum() >= 4 for patch in patches]
    if all(covered) and same:
        return FAULT, f"{FROZEN}: the same patch is black in all; {_REMEDY}"
    shifts = np.array([np.median(new) - np.median(old) for new, _, old, _ in pairs])
    middle = abs(np.median(shifts))
    if low >= -1e-6 and middle > 0.02 and _spread(shifts) < 0.1 * middle:
        return FAULT, f"{FROZEN}: all are brighter or darker by the same amount; {_REMEDY}"
    if any(covered) and not same:
        return PASSED, "elements differ in black patches"
    if _spread(shifts) > 0.02:
        return PASSED, "elements differ in brightness"
    return OPEN, "no patch or brightness to compare; checks.probe(augment, image) looks at one augmentation"


_REMEDY = "numpy and Python draw once, when the map is traced: draw with tf.random"


def _spread(values: np.ndarray) -> float:
    low, high = np.percentile(values, [25, 75])
    return float(high - low)


def _patch(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Return where `new` has a black rectangle that `old` has not; nothing where the black has another form."""
    black = (np.abs(new) < 1e-4) & (np.abs(old) > 0.02)
    rows, columns = black.any(axis=1), black.any(axis=0)
    return black if black.sum() >= 0.9 * rows.sum() * columns.sum() else black & False
