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

`AfterImport` is the other way round: labkit, or a part, hears of a module of somebody else as soon as it is imported.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
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


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with each module that is imported, behind its own work, while it stands in ``sys.meta_path``.

    Parameters
    ----------
    known : callable
        Tells by its name whether a module is one of those.
    then : callable
    """

    def __init__(self, known: Callable[[str], bool], then: Callable[[Any], Any]) -> None:
        self._known, self._then, self._busy = known, then, False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec that others find for a known module, with a loader that calls; None for any other."""
        if self._busy or not self._known(name):
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, AttributeError, ValueError):
            return None
        finally:
            self._busy = False
        if load := getattr(spec and spec.loader, "exec_module", None):

            def exec_module(module: Any) -> None:
                load(module)
                self._then(module)

            spec.loader.exec_module = exec_module  # of this one import; a loader is made for each
        return spec
