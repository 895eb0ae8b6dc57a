"""Random numbers that a kernel can draw without a state: Philox-4x32-10, and what the lab draws with it.

A counter-based generator is a pure function: counter and key go in, four words that look random come out. It keeps no
state between calls. So every work-item of a device computes the numbers of its image alone, in any order, and a run
that is started again at step 1000 draws the same numbers as an uninterrupted run.

Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
TensorFlow's own generator is the same function.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from labkit.common.numbers import whole
from labkit.pipelines import augment as ranges

#: Multipliers of a round, and what is added to the key after it (section 4 of the paper).
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10

#: Which of the four words of an image serves which purpose.
FLIP, BRIGHTNESS, SATURATION = 0, 1, 2


class RandomDraws(NamedTuple):
    """What was drawn for the images of a batch, one number an image, shape (n,) each.

    Attributes
    ----------
    flip : ndarray of bool
        True: left becomes right.
    delta : ndarray of float32
        Added to each value in [0, 1].
    factor : ndarray of float32
        Multiplies the saturation.
    """

    flip: np.ndarray
    delta: np.ndarray
    factor: np.ndarray


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Return four random words for each counter: the function `philox` of the ``random_*`` and ``preprocess*`` kernels.

    Parameters
    ----------
    counter : ndarray of uint32, shape (..., 4)
    key : tuple of int
        Two words of 32 bits.

    Returns
    -------
    ndarray of uint32, shape (..., 4)
    """
    c0, c1, c2, c3 = np.moveaxis(np.asarray(counter, np.uint64), -1, 0)
    low = np.uint64(0xFFFFFFFF)
    k0, k1 = key
    for _ in range(ROUNDS):
        p0, p1 = c0 * np.uint64(MULTIPLIERS[0]), c2 * np.uint64(MULTIPLIERS[1])
        c0, c1 = (p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0), p1 & low
        c2, c3 = (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1), p0 & low
        k0, k1 = (k0 + STEPS[0]) & 0xFFFFFFFF, (k1 + STEPS[1]) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def words(seed: int, counter: int, image: np.ndarray, pixel: np.ndarray | int = 0) -> np.ndarray:
    """Return the four words of an image: the key is the seed, the counter is (step, image, pixel).

    Parameters
    ----------
    seed, counter : int
        64 bits each. The counter is the number of the batch, for example.
    image : array of int
        Places of the images in the batch.
    pixel : array of int
        0 for what is drawn once an image; p + 1 for pixel p, which only the per-pixel mistake asks for.

    Returns
    -------
    ndarray of uint32, shape (..., 4)
    """
    image, pixel = np.broadcast_arrays(np.asarray(image, np.uint32), np.asarray(pixel, np.uint32))
    steps = [np.full_like(image, half) for half in halves(counter, "counter")]
    return philox(np.stack([*steps, image, pixel], axis=-1), halves(seed, "seed"))


def word64(name: str, number: Any) -> int:
    """Return a whole number of 64 bits as an int; raises ValueError if it is none."""
    return whole(name, number, 0, 2**64 - 1)


def halves(number: int, name: str) -> tuple[int, int]:
    """Return the lower and the upper 32 bits of a number of 64, as kernels take them.

    Raises
    ------
    ValueError
        If the number does not fit.
    """
    number = word64(name, number)
    return number & 0xFFFFFFFF, number >> 32


def uniform(word: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return float32 numbers in [low, high): ``low + u · (high − low)`` with ``u = (word >> 8) / 2²⁴``."""
    share = (np.asarray(word, np.uint32) >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)
    low, high = np.float32(low), np.float32(high)
    return low + share * (high - low)


def draws(
    count: int, seed: int, counter: int, brightness: float = ranges.BRIGHTNESS,
    saturation: tuple[float, float] = ranges.SATURATION,
) -> RandomDraws:  # fmt: skip
    """Return what the kernels draw for a batch of `count` images: word 0 flips, 1 brightens, 2 saturates.

    Parameters
    ----------
    count, seed, counter : int
        See `words`.
    brightness : float
        Deltas lie in [-brightness, brightness).
    saturation : tuple of float
        Factors lie between the two.
    """
    drawn = words(seed, counter, np.arange(count))
    delta = uniform(drawn[:, BRIGHTNESS], -brightness, brightness)
    return RandomDraws(drawn[:, FLIP] < np.uint32(2**31), delta, uniform(drawn[:, SATURATION], *saturation))
