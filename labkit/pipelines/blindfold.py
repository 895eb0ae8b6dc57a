"""Drill mode: labkit shows what a sick pipeline does, and leaves to the reader what is wrong with it.

A drill marks the sources of its pipeline. Everything built on a marked source is known by it, or by its files if the
source is hidden in a function (``flat_map(lambda _: dataset)``), and every trace recorded of it carries
``meta["drill"]``: timelines then show lanes and gaps without their causes, and whatever would name the fault refuses in
one sentence.
"""

from __future__ import annotations

from typing import Any

from labkit.pipelines import structure

_MARK = "_labkit_drill"

#: How the folders begin in which drills keep their files.
FOLDER = "labkit-drill-"

#: What stands in every view where a cause, something to blame or advice would be.
WITHHELD = "this is a drill: the cause is yours to find"


def mark(dataset: Any, name: str) -> Any:
    """Mark a tf.data.Dataset as a source of the drill `name`, and return it."""
    setattr(dataset, _MARK, name)
    return dataset


def drill_of(dataset: Any) -> str | None:
    """Return the drill that a dataset, or the dataset of an iterator, belongs to; None for all others."""
    dataset = dataset if hasattr(dataset, "_inputs") else getattr(dataset, "_dataset", dataset)
    seen = structure.nodes(dataset)
    if (name := next((getattr(n.dataset, _MARK) for n in seen if hasattr(n.dataset, _MARK)), None)) is not None:
        return name
    return "a drill" if any(_hides(variant) for node in seen for variant in node.captured) else None


def _hides(variant: Any) -> bool:
    """Return whether a variant tensor is a dataset that reads files of a drill."""
    try:
        return FOLDER.encode() in structure.serialized(variant).SerializeToString()
    except ValueError:
        return False


def refuse(dataset: Any, what: str) -> None:
    """Do nothing for most datasets.

    Raises
    ------
    ValueError
        If the dataset belongs to a drill; `what` is the function that would have named the fault.
    """
    _refuse(drill_of(dataset), what)


def refuse_trace(trace: Any, what: str) -> None:
    """Do nothing for most traces.

    Raises
    ------
    ValueError
        If the trace was recorded of a drill.
    """
    _refuse(trace.meta.get("drill"), what)


def _refuse(name: str | None, what: str) -> None:
    if name:
        raise ValueError(f"{what} is off for {name}: {WITHHELD}; look at drill.timeline and drill.probe()")
