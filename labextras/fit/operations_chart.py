"""The time of the ops of one run, or of two side by side, as bars."""

from __future__ import annotations

from labextras.fit.operation_times import Operations
from labkit.common.numbers import whole
from labkit.views import charts
from labkit.views.picture import Picture


def draw(before: Operations, after: Operations | None = None, *, title: str = "Time by op", most: int = 12) -> Picture:
    """Draw the ops that take longest.

    Parameters
    ----------
    before, after : Operations
        From `labextras.fit.operations`; two are drawn side by side, with the ops of both.
    title : str
    most : int
        Ops that are drawn; the others together are the last bar.

    Raises
    ------
    TypeError
        If something else is given.
    ValueError
        If the two are not grouped alike, or there are no ops.
    """
    runs = [before] if after is None else [before, after]
    for one in runs:
        if not isinstance(one, Operations):
            raise TypeError(f"a run is of type {type(one).__name__}; allowed: what labextras.fit.operations returns")
    if len({one.by for one in runs}) > 1:
        raise ValueError(f"before is by {before.by} and after is by {after.by}; allowed: both alike")
    times = [one.ms for one in runs]
    names = sorted({n for ms in times for n in ms}, key=lambda n: -max(ms.get(n, 0.0) for ms in times))
    if not names:
        raise ValueError("there are no ops: the trace holds none")
    shown, rest = names[: whole("most", most, least=1)], names[most:]
    unit = "ms a step" if before.steps else "ms"
    panels = {}
    for one, ms in zip(runs, times, strict=True):
        rows = {name: ms.get(name, 0.0) for name in shown}
        if rest:
            rows[f"{len(rest)} others"] = sum(ms.get(name, 0.0) for name in rest)
        panels[f"{unit}, {one.name}" if after is not None else unit] = rows
    note = "all threads together"
    waits = [f"{100 * one.get_next:.0f} %" for one in runs if one.get_next is not None]
    if waits:
        note += f"; the wait for a batch is {' and '.join(waits)} of a step"
    return charts.panels(panels, title=title, note=f"{note}.", alike=True)
