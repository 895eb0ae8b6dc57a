"""Timelines as pictures: one lane per thread, accelerator on top, gaps with their length.

Everything of substance is computed by `labkit.timeline.timeline`; here it is decided which part of it to
show and in which words, and `labkit.views.page` draws that.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import numpy as np

from labkit.common.palette import THEMES, use_theme
from labkit.timeline.describe import figures, milliseconds, provenance
from labkit.timeline.lanes import Lane
from labkit.timeline.run import Run
from labkit.timeline.timeline import Timeline, timeline_of
from labkit.timeline.trace import CATEGORIES, Trace
from labkit.views.page import Panel, page
from labkit.views.picture import Picture

__all__ = ["THEMES", "Picture", "compare", "draw", "use_theme"]

#: Steps and lanes that a picture shows unless it is told otherwise.
_STEPS = 4
_LANES = {1: 12, 2: 6}

Steps = int | slice | tuple[int, int] | None


def draw(
    timeline: Trace | Timeline,
    *,
    theme: str | None = None,
    title: str | None = None,
    steps: Steps = None,
    lanes: Iterable[str] | None = None,
) -> Picture:
    """Draw a timeline.

    Parameters
    ----------
    timeline : Trace or Timeline
    theme : {"light", "dark"}, optional
    title : str, optional
        The name of the run by default. Whether the run was measured or modelled is always written below it.
    steps : int, slice or (first, last), optional
        Which steps to zoom in on: the first so many, a slice of positions in the window, or step numbers,
        the last included. Four by default, or fewer where there are fewer.
    lanes : iterable of str, optional
        Names of the lanes to show, in the order of the timeline; the accelerator is always shown. By default all,
        or a dozen and a line that sums up the others.

    Raises
    ------
    ValueError
        If there is no such theme, step or lane.
    """
    timeline = timeline_of(timeline, "drawn")
    title = title or timeline.run.name or "Timeline"
    first, last, words = _zoom(timeline, steps)
    panel = _panel(timeline, first, last, lanes, _LANES[1], (_headline(timeline.run, words), _figures(timeline)))
    text = "\n".join([title, f"shown: {words}, {_range(first, last)}", *_shown_gaps(panel), str(timeline)])
    alt = f"{title}: timeline, {provenance(timeline.run)}. {_figures(timeline)}."
    return Picture(functools.partial(page, title, [panel], ()), title, alt, text, theme)


def compare(
    before: Trace | Timeline,
    after: Trace | Timeline,
    *,
    labels: tuple[str, str] = ("before", "after"),
    theme: str | None = None,
    title: str | None = None,
    steps: int | None = None,
    lanes: Iterable[str] | None = None,
) -> Picture:
    """Draw two timelines on one time axis: the same number of steps, so that a gain is seen as length.

    Parameters
    ----------
    before, after : Trace or Timeline
    labels : pair of str
    theme : {"light", "dark"}, optional
    title : str, optional
    steps : int, optional
        The first so many steps of each; four by default, or fewer where one has fewer.
    lanes : iterable of str, optional
        Names of the lanes to show in whichever of the two has them; see `draw`.

    Raises
    ------
    ValueError
        If there is no such theme, step or lane, or `labels` are not two.
    """
    pair = (timeline_of(before, "drawn"), timeline_of(after, "drawn"))
    labels = tuple(labels) if not isinstance(labels, str) else (labels,)
    if len(labels) != 2:
        raise ValueError(f"labels are {labels!r}; allowed: two texts, for before and after")
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int)):
        raise ValueError(f"steps is {steps!r}; allowed: a number of steps, the same for both")
    counts = [t.steps for t in pair]
    count = min(steps or _STEPS if steps is None else steps, *counts) if steps is None else steps
    wanted = None if lanes is None else list(lanes)
    if wanted is not None:
        known = [lane.name for t in pair for lane in t.lanes]
        _check_lanes(wanted, known)
    title = title or f"{labels[0]} and {labels[1]}"
    panels, texts = [], []
    for label, timeline in zip(labels, pair, strict=True):
        first, last, words = _zoom(timeline, count if all(counts) or steps is not None else None)
        own = None if wanted is None else [w for w in wanted if w in {lane.name for lane in timeline.lanes}]
        header = (_headline(timeline.run, words), _figures(timeline))
        panels.append(_panel(timeline, first, last, own, _LANES[2], header, label))
        texts += [f"{label}: shown {words}, {_range(first, last)}", *_shown_gaps(panels[-1]), str(timeline)]
    verdict = _verdict(labels, panels, count)
    alt = f"{title}: two timelines on one time axis. {verdict}"
    for label, timeline in zip(labels, pair, strict=True):
        alt += f" {label}: {provenance(timeline.run)}; {_figures(timeline)}."
    text = "\n".join([title, verdict, *texts])
    return Picture(functools.partial(page, title, panels, (verdict,)), title, alt, text, theme)


# -- what to show ------------------------------------------------------------------


def _zoom(timeline: Timeline, steps: Steps) -> tuple[int, int, str]:
    """Return first and last nanosecond to show, and which steps these are in words."""
    count, numbers, edges = timeline.steps, timeline.step_numbers, timeline.step_edges_ns
    if not count:
        if steps is not None:
            raise ValueError(f"steps is {steps!r}, but the trace holds no train step to zoom in on")
        return 0, timeline.span_ns, "the whole window"
    known = f"the trace holds {count} step{'s' * (count > 1)}, {numbers[0]} to {numbers[-1]}"
    if steps is None:
        a, b = 0, min(_STEPS, count)
    elif isinstance(steps, slice):
        a, b, stride = steps.indices(count)
        if stride != 1 or b <= a:
            raise ValueError(f"steps is {steps!r}, which selects no run of steps; {known}")
    elif isinstance(steps, tuple) and len(steps) == 2:
        places = [np.flatnonzero(numbers == number) for number in steps]
        if not all(map(len, places)) or places[0][0] > places[1][0]:
            raise ValueError(f"steps is {steps!r}; allowed: (first, last) in rising order; {known}")
        a, b = int(places[0][0]), int(places[1][0]) + 1
    elif isinstance(steps, (int, np.integer)) and not isinstance(steps, bool):
        a, b = 0, int(steps)
        if not 1 <= b <= count:
            raise ValueError(f"steps is {steps}; allowed: 1 to {count}; {known}")
    else:
        raise ValueError(f"steps is {steps!r}; allowed: a number, a slice or a pair (first, last); {known}")
    one, other = numbers[a], numbers[b - 1]
    name = f"step {one}" if b - a == 1 else f"steps {one}–{other}"
    words = f"{name} of {count}" if b - a < count else f"all {count} steps" if count > 1 else "the only step"
    return int(edges[a]), int(edges[b]), words


def _panel(
    timeline: Timeline,
    first: int,
    last: int,
    wanted: Iterable[str] | None,
    most: int,
    header: tuple[str, ...],
    label: str = "",
) -> Panel:
    accelerator, *rest = timeline.lanes
    if wanted is not None:
        wanted = [wanted] if isinstance(wanted, str) else list(wanted)
        _check_lanes(wanted, [lane.name for lane in timeline.lanes])
        rest = [lane for lane in rest if lane.name in wanted]
        hidden: list[Lane] = []
    else:
        # Where train steps are the accelerator, the waits are its gaps; a lane of them would say it twice.
        kernels = bool((accelerator.category == CATEGORIES.index("kernel")).any())
        rest = [lane for lane in rest if lane.kind != "wait" or kernels]
        most -= 1
        rest, hidden = (rest, []) if len(rest) <= most else (rest[:most], rest[most:])
    return Panel(timeline, first, last, (accelerator, *rest), tuple(hidden), header, label)


def _check_lanes(wanted: list[str], known: list[str]) -> None:
    for name in wanted:
        if name not in known:
            raise ValueError(f"there is no lane {name!r}; allowed: {', '.join(dict.fromkeys(known))}")


# -- words ---------------------------------------------------------------------------


def _headline(run: Run, words: str) -> str:
    return f"{provenance(run)} · {words} shown" if words.startswith("step") else f"{provenance(run)} · {words}"


def _figures(timeline: Timeline) -> str:
    stalls = timeline.stalls
    if not timeline.steps or not stalls.cause:
        return figures(timeline)
    what = "the start of an epoch" if stalls.cause == "start" else stalls.blame or stalls.cause
    return f"{figures(timeline)} · waits mostly for {what}"


def _range(first: int, last: int) -> str:
    return f"{milliseconds(first)} to {milliseconds(last)} ms"


def _shown_gaps(panel: Panel) -> list[str]:
    timeline, shown = panel.timeline, panel.shown
    if not len(shown):
        return []
    longest = shown[np.argsort(-timeline.gaps.length_ns[shown], kind="stable")[:8]]
    more = f" (the longest of {len(shown):,})" if len(shown) > len(longest) else ""
    return [f"gaps shown{more}:", *(f"  {timeline.causes[i].text}" for i in np.sort(longest).tolist())]


def _verdict(labels: tuple[str, ...], panels: list[Panel], count: int) -> str:
    """Say how long the same steps took, and a ratio only where both trained on as many images per step."""
    before, after = (p.last_ns - p.first_ns for p in panels)
    if not count or not before or not after:
        return "There are no steps to compare."
    steps = f"The first {count} steps" if count > 1 else "The first step"
    sentence = f"{steps}: {milliseconds(before)} ms {labels[0]}, {milliseconds(after)} ms {labels[1]}"
    batches = [p.timeline.images / p.timeline.steps if p.timeline.images else None for p in panels]
    if batches[0] != batches[1]:
        sizes = " and ".join("an unknown number of" if b is None else f"{b:g}" for b in batches)
        return f"{sentence}; not the same work: {sizes} images per step."
    return f"{sentence} ({100 * after / before:.0f} % of the time)."
