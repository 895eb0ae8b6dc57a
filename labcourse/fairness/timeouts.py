"""How long an answer may take, and the elements of its dataset within that time."""

from __future__ import annotations

import math
from typing import Any

from labcourse.grading import Wrong
from labkit.pipelines import timed_reading

#: Seconds that one call of an answer, or one element of its dataset, may take: none needs one.
LIMIT_S = 20.0


def pull_with_timeout(dataset: Any, limit_s: float | None = None, total_s: float = math.inf) -> list[Any]:
    """Return all elements of a finite dataset, as tensors.

    Parameters
    ----------
    dataset : tf.data.Dataset
    limit_s : float, optional
        Seconds to wait for each element; by default `LIMIT_S`.
    total_s : float
        Seconds to wait for all elements.

    Raises
    ------
    Wrong
        If an element does not come in time; then TensorFlow is asked to stop.
    """
    found: list[Any] = []
    try:
        for element in timed_reading.elements(dataset, LIMIT_S if limit_s is None else limit_s, total_s):
            found.append(element)
    except TimeoutError:
        seen = f"after {len(found)} elements no other comes" if found else "no element comes"
        late = f" within {total_s:g} s" if math.isfinite(total_s) else ""
        text = "look for a loop that never ends, or a filter that lets nothing through"
        raise Wrong(f"{seen} out of your dataset{late}: {text}") from None
    return found
