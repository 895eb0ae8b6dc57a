"""Drill mode: labkit shows what a sick pipeline does, and leaves to the reader what is wrong with it.

A drill marks the sources of its pipeline. Everything built on a marked source is known by it, and every trace recorded
of it carries ``meta["drill"]``: timelines then show lanes and gaps without their causes, and whatever would name the
fault refuses in one sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_MARK = "_labkit_drill"

#: What stands in every view where a cause, something to blame or advice would be.
WITHHELD = "this is a drill: the cause is yours to find"


def mark(dataset: Any, name: str) -> Any:
    """Mark a tf.data.Dataset as a source of the drill `name`, and return it."""
    setattr(dataset, _MARK, name)
    return dataset


def drill_of(dataset: Any) -> str | None:
    """Return the drill that a dataset, or the dataset of an iterator, belongs to; None for all others."""
    dataset = dataset if hasattr(dataset, "_inputs") else getattr(dataset, "_dataset", dataset)
    return next((getattr(node, _MARK) for node in _nodes(dataset) if hasattr(node, _MARK)), None)


def refuse(dataset: Any, what: str) -> None:
    """Do nothing for most datasets.

    Raises
    ------
    ValueError
        If the dataset belongs to a drill; `what` is the function that would have named the fault.
    """
    name = drill_of(dataset)
    if name is not None:
        raise ValueError(f"{what} is off for {name}: {WITHHELD}; look at drill.timeline and drill.probe()")


def _nodes(dataset: Any) -> Iterator[Any]:
    yield dataset
    for source in getattr(dataset, "_inputs", list)():
        yield from _nodes(source)
