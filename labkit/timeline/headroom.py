"""What free data would gain: how many times as fast the steps of a run would be if none waited for its batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

#: Of two steps nobody can tell how much steps differ.
_LEAST = 3


class Headroom(NamedTuple):
    """How many times as fast with free data, and its interval of 95 %; infinite where steps do nothing but wait."""

    gain: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the three on one line."""
        return f"{self.gain:,.2f} times as fast ({self.low:,.2f} to {self.high:,.2f})"


def headroom(step_ns: np.ndarray, wait_ns: np.ndarray) -> Headroom | None:
    """Return what steps would gain if their waits took no time; None for fewer than three steps.

    The gain is the ratio of two means, of steps with their waits and without. Its standard error is that of a ratio
    estimator (Cochran, "Sampling Techniques", 1977, section 6.4), its interval Student's. Steps are taken to be
    independent; where a full buffer makes several of them alike, the interval is too narrow.

    Parameters
    ----------
    step_ns, wait_ns : ndarray of int64, shape (steps,)
        How long each step took, its wait included, and the wait.

    >>> print(headroom(np.array([30, 32, 28, 30]), np.array([10, 12, 8, 10])))
    1.50 times as fast (1.37 to 1.63)
    """
    count, free = len(step_ns), (step_ns - wait_ns).astype(np.float64)
    if count < _LEAST:
        return None
    if free.sum() <= 0:
        return Headroom(np.inf, np.inf, np.inf)
    gain = float(step_ns.sum() / free.sum())
    error = np.sqrt(((step_ns - gain * free) ** 2).sum() / (count - 1) / count) / free.mean()
    margin = float(stdtrit(count - 1, 0.975) * error)
    return Headroom(gain, max(1.0, gain - margin), gain + margin)
