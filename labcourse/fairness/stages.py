"""Stages with a modelled cost: what a task hands to the student's pipeline in place of reading and decoding.

A stage leaves its name in the graph of each function that calls it, so that the simulated clock knows the cost of each
tf.data node. When the pipeline really runs, the thread sleeps in the stage for this time, the same on every machine.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from labkit.common.numbers import check_ranges, number, ranged
from labkit.pipelines.structure import Step

#: Begins the name of the op that a stage leaves in a graph.
MARK = "labkit_stage_"

_MOST_MS = 60_000

#: The share of their time that stages take.
held_share = 1.0


@dataclass(frozen=True)
class Stage:
    """A function for ``dataset.map`` that takes a stated time.

    Parameters
    ----------
    name : str
        Lower-case letters and digits, as ``"decode"``; one name, one cost.
    ms : float
        Milliseconds for each image, 0 to a minute.
    function : callable, optional
        Tensor to tensor: what it computes. The value is passed on by default.
    call_ms : float
        Milliseconds for each call, on top: what batching shares.
    rank : int
        Rank of a single image or value; a tensor of a higher rank is a batch of them.
    asleep : bool
        Whether it waits for something else (storage, a network) instead of working on a core.

    Raises
    ------
    ValueError
        If a figure is out of range or the name is no name.
    """

    name: str
    ms: float = ranged(number, 0, _MOST_MS)
    function: Callable[[Any], Any] | None = None
    call_ms: float = ranged(number, 0, _MOST_MS, 0.0)
    rank: int = 0
    asleep: bool = False

    def __post_init__(self) -> None:
        """Check name and figures."""
        if not isinstance(self.name, str) or not re.fullmatch(r"[a-z][a-z0-9]*", self.name):
            raise ValueError(f"the name of a stage is {self.name!r}; allowed: lower-case letters and digits")
        check_ranges(self)

    def cost_ms(self, images: int) -> float:
        """Return what one call on so many images takes, in milliseconds."""
        return self.call_ms + self.ms * images

    def __call__(self, value: Any) -> Any:
        """Return what the function makes of `value`, after the time of the stage."""
        made = value if self.function is None else self.function(value)
        first = tf.convert_to_tensor(tf.nest.flatten(made)[0])
        several = first.shape.rank is not None and first.shape.rank > self.rank
        images = tf.shape(first, tf.int64)[0] if several else tf.constant(1, tf.int64)
        held = tf.numpy_function(self._hold, [images], tf.bool, name=MARK + self.name)
        with tf.control_dependencies([held]):
            return tf.nest.map_structure(tf.identity, made)

    def _hold(self, images: Any) -> np.bool_:
        time.sleep(self.cost_ms(int(images)) / 1e3 * held_share)
        return np.bool_(True)


def called_in(step: Step) -> tuple[str, ...]:
    """Return the names of the stages that the function of a step calls, as often as it calls them."""
    leaves = (operation.name.rpartition("/")[2] for operation in step.inside)
    return tuple(leaf[len(MARK) :].split("_")[0] for leaf in leaves if leaf.startswith(MARK))


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Let every stage of the process take no time: for looking at data, not at speed."""
    global held_share
    before, held_share = held_share, 0.0
    try:
        yield
    finally:
        held_share = before
