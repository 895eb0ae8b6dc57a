"""Paint one scene: a 1/f background with one shape on it, in whole numbers only.

Every step is integer arithmetic (NumPy integers, Pillow's fixed-point resize), so the
same draws give the same pixels on every processor. A floating-point FFT would not.

The background sums noise over octaves, each with the same contrast: equal energy per
octave is a power spectrum of 1/f², an amplitude of 1/f, which is what photos of natural
scenes have (D. J. Field, "Relations between the statistics of natural images and the
response properties of cortical cells", J. Opt. Soc. Am. A 4(12), 1987). Regions that
cover one another add the edges that such scenes have too.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from .shapes import SHAPES, Outline, Paint


class Dice:
    """Draws from raw PCG64 words, the stream that NumPy promises never to change.

    Parameters
    ----------
    *key : int
        Non-negative numbers; the same key gives the same draws.
    """

    def __init__(self, *key: int) -> None:
        self._words = np.random.PCG64(np.random.SeedSequence(key))

    def below(self, n: int) -> int:
        """Return a whole number in ``[0, n)``."""
        return int(self._words.random_raw()) * n >> 64

    def between(self, low: int, high: int) -> int:
        """Return a whole number in ``[low, high]``."""
        return low + self.below(high - low + 1)

    def noise(self, height: int, width: int) -> np.ndarray:
        """Return uniform bytes, uint8, shape (height, width)."""
        words = self._words.random_raw(-(-height * width // 8))
        return words.astype("<u8").view(np.uint8)[: height * width].reshape(height, width)


def enlarge(plane: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the uint8 plane resized with Pillow's fixed-point bicubic filter."""
    return np.asarray(Image.fromarray(plane).resize((width, height), Image.Resampling.BICUBIC))


def fractal(dice: Dice, height: int, width: int, finest: int = 0, octaves: int = 9) -> np.ndarray:
    """Return 1/f noise: uint8, shape (height, width), mean near 128, every octave with one contrast.

    Parameters
    ----------
    finest : int
        Octaves left out at the fine end: 0 has detail down to one pixel, 2 down to four.
    """
    plane = None
    for octave in reversed(range(finest, finest + octaves)):
        size = max(1, -(-height >> octave)), max(1, -(-width >> octave))
        fresh = (dice.noise(*size).astype(np.int16) - 128) * 5 >> 4
        coarse = 128 if plane is None else enlarge(plane, *size).astype(np.int16)
        plane = np.clip(fresh + coarse, 0, 255).astype(np.uint8)
    return enlarge(plane, height, width) if finest else plane


def coverage(outline: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return how much of each pixel an outline covers, in 1/64: int16, shape (height, width).

    Exact along x, four lines per pixel along y: signed edges are summed along each line.

    Parameters
    ----------
    outline : ndarray of int64, shape (n, 2)
        x and y of the corners in 1/16 pixel. It may reach out of the picture.
    """
    x0, y0 = outline.T
    x1, y1 = np.roll(outline, -1, axis=0).T
    lines = np.arange(4 * height, dtype=np.int64) * 4 + 2
    down = (y0[:, None] <= lines) & (lines < y1[:, None])
    up = (y1[:, None] <= lines) & (lines < y0[:, None])
    edge, line = np.nonzero(down | up)
    x = x0[edge] + (lines[line] - y0[edge]) * (x1 - x0)[edge] // (y1 - y0)[edge]
    x = np.clip(x, 0, 16 * width)
    sign = np.where(down[edge, line], 1, -1)
    cell, rest = (line // 4) * (width + 2) + x // 16, x % 16
    size = height * (width + 2)
    # Whole numbers far below 2**53, so the float weights of bincount are exact.
    steps = np.bincount(cell, sign * (16 - rest), size) + np.bincount(cell + 1, sign * rest, size)
    covered = np.cumsum(steps.reshape(height, width + 2).astype(np.int16), axis=1, dtype=np.int16)
    return np.abs(covered[:, :width])


def ycc(paint: Paint) -> tuple[int, int, int]:
    """Return Y, Cb, Cr of an RGB paint (JFIF's full-range BT.601, in 1/256 steps)."""
    r, g, b = paint
    return (
        77 * r + 150 * g + 29 * b >> 8,
        128 + (-43 * r - 85 * g + 128 * b >> 8),
        128 + (128 * r - 107 * g - 21 * b >> 8),
    )


#: Far and near ground: two RGB paints, and the contrast of their texture in 1/16.
SCENES: tuple[tuple[Paint, Paint, int, int], ...] = (
    ((150, 182, 214), (96, 116, 66), 5, 14),  # sky, meadow
    ((176, 190, 200), (116, 112, 104), 4, 15),  # haze, rocks
    ((120, 156, 190), (190, 170, 132), 8, 12),  # sea, sand
    ((206, 160, 128), (74, 66, 70), 5, 11),  # dusk, hills
    ((70, 88, 58), (104, 92, 66), 12, 15),  # wood, leaf litter
    ((160, 164, 170), (214, 218, 224), 10, 7),  # fog, snow
    ((168, 128, 88), (132, 92, 62), 11, 13),  # wall, planks
    ((152, 144, 136), (128, 124, 118), 14, 14),  # stone
)


def _background(dice: Dice, height: int, width: int) -> list[np.ndarray]:
    far, near, far_gain, near_gain = SCENES[dice.below(len(SCENES))]
    texture = fractal(dice, height, width).astype(np.int16) - 128
    patches = np.clip((fractal(dice, height, width, finest=1).astype(np.int16) - 128) * 3, -40, 40)
    skyline = fractal(dice, 1, width, finest=2, octaves=7)[0].astype(np.int16) - 128
    horizon = height * dice.between(25, 70) // 100 + skyline * (height // 16) // 64
    near_here = np.arange(height, dtype=np.int16)[:, None] > horizon
    light = (np.arange(height, dtype=np.int32) * dice.between(-24, 24) // height).astype(np.int16)[:, None]
    drift = dice.between(-24, 24)
    # Some scenes are calm, some busy; the size of a file follows.
    busy = dice.between(9, 23)
    gain = np.where(near_here, near_gain * busy >> 4, far_gain * busy >> 4).astype(np.int16)
    (y0, b0, r0), (y1, b1, r1) = ycc(far), ycc(near)
    luma = np.where(near_here, y1 + drift, y0 + drift).astype(np.int16)
    luma += light + (texture * gain >> 4) + (patches * gain >> 5)
    planes = [luma]
    for far_hue, near_hue in ((b0, b1), (r0, r1)):
        # Colour varies far less than light, and only coarsely.
        tint = (fractal(dice, height, width, finest=2, octaves=7).astype(np.int16) - 128) >> 3
        hue = np.where(near_here, near_hue, far_hue).astype(np.int16)
        planes.append(hue + (tint * gain >> 4) + (patches >> 4))
    # Within 0..255 every product below fits 16 bits.
    return [*(np.clip(plane, 0, 255) for plane in planes), texture]


def placed(outline: Outline, turn: int, flip: bool, size: int) -> np.ndarray:
    """Turn an outline about its middle (`turn` is 64 tan of half the angle) and scale it: 1/16 pixels."""
    points = np.array(outline, np.int64) - 500
    if flip:
        points[:, 0] *= -1
    norm = 4096 + turn * turn
    turned = points @ np.array([[4096 - turn * turn, 128 * turn], [-128 * turn, 4096 - turn * turn]], np.int64)
    return turned * size * 16 // (norm * 1000)


def paint(dice: Dice, label: str, height: int, width: int) -> list[np.ndarray]:
    """Return a scene with one `label` in it as its Y, Cb and Cr planes, uint8, shape (height, width).

    Raises
    ------
    KeyError
        If `label` is no class.
    """
    shape = SHAPES[label]
    *planes, texture = _background(dice, height, width)
    short = min(height, width)
    size = short * dice.between(52, 84) // 100
    left, top = dice.below(width - size + 1), dice.below(height - size + 1)
    turn, flip = dice.between(-7, 7), bool(dice.below(2))
    livery = shape.liveries[dice.below(len(shape.liveries))]
    tint = [dice.between(-14, 14) for _ in range(3)]
    here = slice(top, top + size), slice(left, left + size)

    outlines = [(paint_no, placed(part, turn, flip, size) + 8 * size) for paint_no, part in shape.parts]
    masks = [(paint_no, coverage(outline, size, size)) for paint_no, outline in outlines]
    whole = np.maximum.reduce([mask for _, mask in masks])
    _cast_shadow(planes[0][here], whole, dice.between(8, 14), size // 24)
    # Light falls across the thing, and its surface has the grain of the scene.
    across = (np.arange(size) * dice.between(20, 56) // size).astype(np.int16)
    surface = (texture[here] * 9 >> 4) + (across if dice.below(2) else across[::-1]) - 20
    for paint_no, mask in masks:
        for plane, value, shift, relief in zip(planes, ycc(livery[paint_no]), tint, (surface, 0, 0), strict=True):
            plane[here] += (value + shift + relief - plane[here]) * mask >> 6
    return [np.clip(plane, 0, 255).astype(np.uint8) for plane in planes]


def _cast_shadow(luma: np.ndarray, whole: np.ndarray, depth: int, offset: int) -> None:
    """Darken the ground right of and below the thing, softly."""
    moved = np.zeros_like(whole)
    moved[offset:, offset:] = whole[: len(whole) - offset, : len(whole) - offset]
    small = Image.fromarray(moved.astype(np.uint8)).reduce(max(1, offset))
    soft = np.asarray(small.resize(whole.shape[::-1], Image.Resampling.BILINEAR)).astype(np.int16)
    luma -= luma * soft // 64 * depth >> 5
