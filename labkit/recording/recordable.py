"""Who drives what is no pipeline of tf.data: labkit asks those that are installed."""

from __future__ import annotations

from typing import Any

from labkit.common import hooks
from labkit.pipelines.structure import is_dataset


def recordable(dataset: Any) -> Any:
    """Return what a recording drives: a dataset of tf.data, or what knows how to be ``watched``, as it is.

    Anything else becomes what the first driver of the group ``labkit_drivers`` makes of it that returns not None. What
    nobody knows is returned as it is, and refused where it is recorded.
    """
    if is_dataset(dataset) or hasattr(dataset, "watched"):
        return dataset
    for drive in hooks.provided("labkit_drivers"):
        if (driven := drive(dataset)) is not None:
            return driven
    return dataset
