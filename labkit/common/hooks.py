"""Where other parts hook in, so that labkit names none of them.

What is *told* reaches whoever subscribed in this process: the course hears of each finished run. What is *provided*
is declared by an installed part as an entry point, and loaded when it is first asked for:

=================  ====================================================================================================
group              what an entry point is
=================  ====================================================================================================
labkit_drivers     a function: takes what somebody wants to record, returns what `labkit.record` drives, or None
labkit_advice      a function: takes the `labkit.advice.Facts` of a run, its lanes, the run and the efforts of its ops,
                   returns the `labkit.advice.Advice` of rules of its own, or None
labkit_verbs       a function: adds its verbs to the command line, a ``typer.Typer``
labkit_doctor      a mapping of topic to who looks at it, as `labkit.doctor.TOPICS`
=================  ====================================================================================================
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

#: What is told, and to whom: ``trace`` with a finished trace and its figures, ``comparison`` with what was measured.
_LISTENERS: dict[str, list[Callable[..., Any]]] = {"trace": [], "comparison": []}


def subscribe(event: str, listener: Callable[..., Any]) -> None:
    """Let `listener` hear of every ``trace`` or ``comparison`` from now on; it is called with what `tell` is given."""
    _LISTENERS[event].append(listener)


def tell(event: str, *what: Any) -> None:
    """Call everybody who subscribed to `event`, in their order."""
    for listener in _LISTENERS[event]:
        listener(*what)


@functools.cache
def provided(group: str) -> tuple[Any, ...]:
    """Return what installed parts provide under `group`, in the order of their names."""
    return tuple(one.load() for one in sorted(entry_points(group=group), key=lambda one: one.name))
