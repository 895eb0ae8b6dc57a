"""How images changed between a reference and a pipeline: turned, brightened, wrapped around, colours reversed.

Every estimate comes from thumbnails or from single pixels of some elements; where they do not agree, it says that it
cannot tell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

PASSED, FAULT, OPEN = "passed", "fault", "not checked"
FROZEN = "the same augmentation for every element"
_FEW = (OPEN, "too few elements could be recognised in the reference")
_LEAST_PAIRS = 8
_MOST_PAIRS, _ALL_PAIRS = 20, 96  # looked at as a rule, and where those do not settle it

# One turn of all images is measured with errors: their middle half is 0.3 to 1.4 degrees wide of 20 images, and about
# 0.6 of 96.
_ONE_TURN, _UNSETTLED = 1.2, (0.7, 1.7)
# By chance, half of eight angles between -5 and 5 degrees lie that close together in 1 of 280 pipelines, half of 16 in
# 1 of 30,000. Of fewer angles than 16, all must lie close together.
_MANY_ANGLES = 16
_MOST_CURVES = 48
_ANGLES = range(-31, 32)
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
        seen = f"in {wrapped:,} of {judged:,} elements, pixels that are bright in the reference are dark"
        return FAULT, f"{seen}: bytes wrapped around; convert to float before adding, then clip"
    return PASSED, "no bright pixel turned dark"


def _curve(before: np.ndarray, after: np.ndarray) -> bool | None:
    """Return whether `after` as a function of `before` falls off a cliff; None if it is no function."""
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
    """Look for a turn, a shift of brightness or a blank patch that is the same in every element."""
    more, pairs = (pairs[:: max(1, len(pairs) // most)][:most] for most in (_ALL_PAIRS, _MOST_PAIRS))
    if len(pairs) < _LEAST_PAIRS:
        return _FEW
    angles, sides = _turns(pairs)
    unsettled = len(angles) and (len(angles) < _MANY_ANGLES or _UNSETTLED[0] < _spread(angles) < _UNSETTLED[1])
    if unsettled and len(more) > len(pairs):
        angles, sides = _turns(more)
    if len(angles) and abs(np.median(angles)) >= 2 and _width(angles) <= _ONE_TURN:
        return FAULT, f"{FROZEN}: all are turned by about {abs(np.median(angles)):.0f} degrees; {_REMEDY}"
    patches = [_patch(new, old) for new, _, old, _ in pairs]
    if all(p.sum() >= 4 for p in patches) and all((p == patches[0]).all() for p in patches):
        return FAULT, f"{FROZEN}: the same patch is black in all; {_REMEDY}"
    shifts = np.array([np.median(new) - np.median(old) for new, _, old, _ in pairs])
    middle = abs(np.median(shifts))
    if low >= -1e-6 and middle > 0.02 and _spread(shifts) < 0.1 * middle:
        return FAULT, f"{FROZEN}: all are brighter or darker by the same amount; {_REMEDY}"
    varied = {
        "turns": len(angles) > 0 and _spread(angles) > _ONE_TURN,
        "flips": len(set(sides.tolist())) > 1,
        "brightness": _spread(shifts) > 0.02,
        "black patches": any(p.sum() >= 4 for p in patches) and any((p != patches[0]).any() for p in patches),
    }
    if any(varied.values()):
        return PASSED, f"elements differ in {', '.join(k for k, v in varied.items() if v)}"
    return OPEN, "no turn, flip, patch or brightness to compare; checks.probe(augment, image) looks at one augmentation"


_REMEDY = "numpy and Python draw once, when the map is traced: draw with tf.random"


def _width(angles: np.ndarray) -> float:
    """Return how far the angles of one turn may lie apart: of many their middle half, of a few all of them."""
    return _spread(angles) if len(angles) >= _MANY_ANGLES else float(np.ptp(angles))


def _spread(values: np.ndarray) -> float:
    low, high = np.percentile(values, [25, 75])
    return float(high - low)


def _patch(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Return where `new` has a black rectangle that `old` has not; nothing where the black has another form."""
    black = (np.abs(new) < 1e-4) & (np.abs(old) > 0.02)
    rows, columns = black.any(axis=1), black.any(axis=0)
    return black if black.sum() >= 0.9 * rows.sum() * columns.sum() else black & False


def _turns(pairs: _Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Return the angles in degrees of the images with a clear turn, and 1 for each that is mirrored, else 0."""
    new, old = (np.stack([pair[place] for pair in pairs]) for place in (0, 2))
    upright, mirrored = map(_best_turn, _likeness(new, old))
    sides = mirrored[0] > upright[0]
    likeness, angles = np.where(sides, mirrored, upright)
    clear = likeness > 0.75
    if np.count_nonzero(clear) < _LEAST_PAIRS:
        return np.zeros(0), np.zeros(0)
    angles, sides = angles[clear], sides[clear]
    # Turned and then mirrored, or mirrored and then turned: only one of them looks alike.
    return min(angles, np.where(sides, -angles, angles), key=_spread), sides


def _best_turn(likeness: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how like each image is to its reference in the best turn, and that turn in degrees.

    A parabola through the best whole angle and its neighbours says where between them the turn is: without it, the
    same turn by half a degree more than a whole number is found as two turns.

    Parameters
    ----------
    likeness : ndarray, shape (angles, images)
    """
    each, best = np.arange(likeness.shape[1]), likeness.argmax(axis=0)
    middle = np.clip(best, 1, len(_ANGLES) - 2)
    before, top, after = (likeness[middle + step, each] for step in (-1, 0, 1))
    bend = np.maximum(2 * top - before - after, 1e-12)
    apex = np.where(best == middle, np.clip((after - before) / (2 * bend), -0.5, 0.5), 0)
    return likeness[best, each], np.asarray(_ANGLES)[best] + apex


def _likeness(new: np.ndarray, old: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the highest correlation of each of `new` with its `old` in every turn, wherever it was moved to.

    Both are of shape (angles, images): one for `old` as it is, one for `old` mirrored and then turned. What is turned
    by an angle and then mirrored is what is mirrored and then turned the other way; a mirrored picture has the spectrum
    with its rows exchanged and conjugate, but for a shift, which the highest correlation does not see.
    """
    window = np.outer(np.hanning(new.shape[1]), np.hanning(new.shape[2]))
    target, size = _spectra(new, window)
    upright, mirrored = [], []
    for angle in _ANGLES:
        turned = ndimage.rotate(old, angle, (1, 2), reshape=False, order=1, mode="nearest")
        spectra, own = _spectra(turned, window)
        total = size * own
        total[total < 1e-9] = np.inf  # one of the two is of one colour, but for rounding
        for found, factor in ((upright, spectra.conj()), (mirrored, np.roll(spectra[:, ::-1], 1, axis=1))):
            found.append(np.fft.irfft2(target * factor).max(axis=(1, 2)) / total)
    return np.stack(upright), np.stack(mirrored[::-1])


def _spectra(pictures: np.ndarray, window: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    flat = (pictures - pictures.mean(axis=(1, 2), keepdims=True)) * window
    return np.fft.rfft2(flat), np.linalg.norm(flat, axis=(1, 2))
