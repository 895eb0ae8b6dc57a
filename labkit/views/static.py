"""Timelines as pictures: the accelerator on top, one lane for each thread, idle times with their length and cause.

What is drawn is computed by `labkit.views.layout`. Here it is decided which steps and lanes of it fit into a picture,
and matplotlib draws them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.common.numbers import whole
from labkit.common.palette import LEGEND, Theme, text_on
from labkit.timeline.causes import CAUSES
from labkit.timeline.intervals import union
from labkit.timeline.lanes import Lane
from labkit.timeline.timeline import Timeline, timeline_of
from labkit.timeline.trace import CATEGORIES, VALIDATION, Trace
from labkit.timeline.wording import milliseconds, percent
from labkit.views.bars_for_width import lod, most_at_once, threads_at_work
from labkit.views.figure_page import BODY, LINE, MARGIN, SMALL, TITLE, FigurePage, Words, fit, height_of, measure
from labkit.views.layout import TimelineLayout, texts
from labkit.views.layout.lane_choice import chosen_lanes, cores_line
from labkit.views.picture import DPI, WIDTH, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Picture", "compare", "draw", "picture_of"]

#: Steps of a picture, and lanes of each of its timelines, where nothing else is asked for.
_STEPS = 4
_LANES = {1: 12, 2: 6}

#: Inches: the busy shares on the right, the longest name on the left, the accelerator, another lane, between lanes.
_RIGHT, _NAME = 0.95, 2.45
TALL, _LOW, SPACE = 0.4, 0.32, 0.06

#: The band of all workers: its height in inches, and its columns in pixels.
BAND_TALL, _COLUMN = 1.0, 6

Steps = int | slice | None


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
    steps : int or slice, optional
        The steps to zoom in on: their number from the first on, or a slice of positions in the window. By default four
        around the longest gap, or fewer where there are fewer.
    lanes : iterable of str, optional
        Names of the lanes to show, in the order of the timeline; the accelerator is always shown. By default more than
        three workers are one band, the threads at work by kind; beside it stand the lane that was waited for most, the
        busiest others, and a line that sums up the rest.

    Raises
    ------
    ValueError
        If there is no such theme, step or lane.
    """
    return picture_of(
        TimelineLayout([timeline_of(timeline, "drawn")], title=title), theme=theme, steps=steps, lanes=lanes
    )


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
    """Draw two timelines on one time axis: the same number of steps, so that a gain shows as length.

    Parameters
    ----------
    before, after : Trace or Timeline
    labels : pair of str
    theme : {"light", "dark"}, optional
    title : str, optional
    steps : int, optional
        The number of steps of each, from the first on; four by default, or fewer where one has fewer.
    lanes : iterable of str, optional
        Names of the lanes to show in whichever of the two has them; see `draw`.

    Raises
    ------
    ValueError
        If there is no such theme, step or lane, or `labels` are not two.
    """
    pair = [timeline_of(before, "drawn"), timeline_of(after, "drawn")]
    if steps is not None:
        steps = whole("steps", steps, 1, other="(the same for both)")
    return picture_of(TimelineLayout(pair, labels, title), theme=theme, steps=steps, lanes=lanes)


def picture_of(
    layout: TimelineLayout, *, theme: str | None = None, steps: Steps = None, lanes: Iterable[str] | None = None
) -> Picture:
    """Draw some steps and lanes of a layout; see `draw` and `compare`."""
    timelines, two = layout.timelines, len(layout.timelines) == 2
    wanted = None if lanes is None else [lanes] if isinstance(lanes, str) else list(lanes)
    known = dict.fromkeys(lane.name for timeline in timelines for lane in timeline.lanes)
    if unknown := [name for name in wanted or () if name not in known]:
        raise ValueError(f"there is no lane {unknown[0]!r}; allowed: {', '.join(known)}")
    counts = [timeline.steps for timeline in timelines]
    if two and steps is None and all(counts):
        steps = min(_STEPS, *counts)
    panels = [_panel(layout, r, steps, wanted) for r in range(len(timelines))]
    verdict = _verdict(layout, panels, min(counts)) if two else ""
    text = [layout.title, *[verdict] * two]
    for panel, run in zip(panels, layout.runs, strict=True):
        label = f"{run['label']}: shown " if two else "shown: "
        text += [f"{label}{panel.steps}, {_range(panel)}", *_shown_gaps(panel), str(panel.timeline)]
    about = [f"{run['headline']}{'; ' if two else '. '}{run['figures']}." for run in layout.runs]
    if two:
        about = [f"{run['label']}: {sentence}" for run, sentence in zip(layout.runs, about, strict=True)]
    alt = " ".join([f"{layout.title}: two timelines on one time axis. {verdict}" if two else
                    f"{layout.title}: timeline,", *about])  # fmt: skip
    make = functools.partial(_draw, layout.title, verdict, panels)
    return Picture(make, layout.title, alt, "\n".join(text), theme)


# -- what to show ------------------------------------------------------------------


@dataclass(frozen=True)
class _Panel:
    """One timeline of a picture: the part of it that is shown, in words, too, its lanes and the paragraphs above."""

    timeline: Timeline
    first_ns: int
    last_ns: int
    steps: str
    lanes: tuple[Lane, ...]
    band: tuple[Lane, ...]
    hidden: tuple[Lane, ...]
    header: tuple[Words, ...]

    @property
    def height(self) -> float:
        """Inches of the lanes, with the strip for labels above and the line for hidden lanes below."""
        lanes = TALL + SPACE + (len(self.lanes) - 1) * (_LOW + SPACE)
        return LINE + lanes + (BAND_TALL + SPACE if self.band else 0) + (LINE if self.hidden else 0)

    def cores(self, most: int) -> int:
        """Return the number of cores, for a line in a band that reaches up to `most` threads; 0 for no line."""
        return cores_line(self.timeline, most) if self.band else 0

    @property
    def gaps(self) -> np.ndarray:
        """Indices of the gaps that lie in the part shown."""
        gaps = self.timeline.gaps
        return np.flatnonzero((gaps.start_ns < self.last_ns) & (gaps.start_ns + gaps.length_ns > self.first_ns))

    @property
    def names(self) -> list[str]:
        """Everything that is written on the left of the lanes."""
        more = [f"+ {len(self.hidden)} more lane{'s' * (len(self.hidden) > 1)}"] if self.hidden else []
        return [*(" ".join(lane.name.split()) for lane in self.lanes), *[texts.BAND] * bool(self.band), *more]


def _panel(layout: TimelineLayout, r: int, steps: Steps, wanted: list[str] | None) -> _Panel:
    timeline, run = layout.timelines[r], layout.runs[r]
    first, last, which = _zoom(timeline, steps)
    lanes = timeline.lanes
    if wanted is not None:
        shown, hidden, band = [k for k, lane in enumerate(lanes) if k == 0 or lane.name in wanted], [], []
    else:
        pixels, most = (WIDTH - _NAME - _RIGHT) * DPI, _LANES[len(layout.runs)]
        shown, band, hidden = chosen_lanes(timeline, first, last, pixels, most)
    headline = f"{run['headline']} · {which}{' shown' if which.startswith('step') else ''}"
    header = (Words(run["label"], weight="bold", most=2), Words(headline), Words(run["figures"], color="muted"))
    drawn, workers, rest = (tuple(lanes[k] for k in some) for some in (shown, band, hidden))
    return _Panel(timeline, first, last, which, drawn, workers, rest, header)


def _zoom(timeline: Timeline, steps: Steps) -> tuple[int, int, str]:
    """Return first and last nanosecond to show, and which steps these are in words."""
    count, numbers, edges = timeline.steps, timeline.step_numbers, timeline.step_edges_ns
    if not count:
        if steps is not None:
            raise ValueError(f"steps is {steps!r}, but the trace holds no train step to zoom in on")
        return 0, timeline.span_ns, "the whole window"
    known = f"the trace holds {count} step{'s' * (count > 1)}, {numbers[0]} to {numbers[-1]}"
    a, b, stride = 0, 0, 1
    if steps is None:
        b = min(_STEPS, count)
        if len(timeline.gaps):
            longest = timeline.gaps.start_ns[timeline.gaps.length_ns.argmax()]
            a = min(max(int(np.searchsorted(edges, longest, "right")) - 1 - b // 2, 0), count - b)
            b += a
    elif isinstance(steps, slice):
        a, b, stride = steps.indices(count)
    elif isinstance(steps, (int, np.integer)) and not isinstance(steps, bool):
        b = int(steps)
    if not 0 <= a < b <= count or stride != 1:
        raise ValueError(f"steps is {steps!r}; allowed: 1 to {count}, or a slice; {known}")
    one, other = numbers[a], numbers[b - 1]
    name = f"step {one}" if b - a == 1 else f"steps {one}–{other}"
    which = f"{name} of {count}" if b - a < count else f"all {count} steps" if count > 1 else "the only step"
    return int(edges[a]), int(edges[b]), which


# -- words ---------------------------------------------------------------------------


def _range(panel: _Panel) -> str:
    return f"{milliseconds(panel.first_ns)} to {milliseconds(panel.last_ns)} ms"


def _shown_gaps(panel: _Panel) -> list[str]:
    timeline, shown = panel.timeline, panel.gaps
    if not len(shown):
        return []
    longest = shown[np.argsort(-timeline.gaps.length_ns[shown], kind="stable")[:8]]
    more = f" (the longest of {len(shown):,})" if len(shown) > len(longest) else ""
    return [f"gaps shown{more}:", *(f"  {timeline.causes[i].text}" for i in np.sort(longest).tolist())]


def _verdict(layout: TimelineLayout, panels: Sequence[_Panel], steps: int) -> str:
    """Return how long the same steps took, and a ratio only where both trained on as many images per step."""
    before, after = (panel.last_ns - panel.first_ns for panel in panels)
    if not steps or not before or not after:
        return "There are no steps to compare."
    count = int(np.searchsorted(panels[0].timeline.step_edges_ns, panels[0].last_ns))
    labels = [run["label"] for run in layout.runs]
    which = f"The first {count} steps" if count > 1 else "The first step"
    sentence = f"{which}: {milliseconds(before)} ms {labels[0]}, {milliseconds(after)} ms {labels[1]}"
    batches = [t.images / t.steps if t.images else None for t in layout.timelines]
    if batches[0] != batches[1]:
        sizes = " and ".join("an unknown number of" if b is None else f"{b:g}" for b in batches)
        return f"{sentence}; not the same work: {sizes} images per step."
    return f"{sentence} ({100 * after / before:.0f} % of the time)."


# -- the pen -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Axis:
    """The time axis of a panel: where it lies on the page in inches, and the nanoseconds that it shows."""

    axes: Axes
    left: float
    top: float
    width: float
    first_ns: int
    span_ns: int

    @property
    def pixel(self) -> float:
        """Nanoseconds of a pixel."""
        return self.span_ns / (self.width * DPI)

    def inches(self, ns: Any) -> Any:
        """Return the length of a duration on the page."""
        return ns / self.span_ns * self.width

    def middle(self, start_ns: int, end_ns: int) -> float:
        """Return where the middle of a time lies on the page."""
        return self.left + self.inches((start_ns + end_ns) / 2 - self.first_ns)

    def rectangles(self, start: Any, end: Any, top: Any, bottom: Any, color: str, **more: Any) -> None:
        """Draw rectangles from nanoseconds, and inches below the top: arrays or numbers."""
        _rectangles(self.axes, np.asarray(start) / 1e6, np.asarray(end) / 1e6, top, bottom, color, **more)


def _draw(title: str, verdict: str, panels: list[_Panel], look: Theme) -> Figure:
    """Lay the page out and draw it."""
    left = min(max(measure(n, BODY, "bold") for p in panels for n in p.names), _NAME) + MARGIN + 0.1
    width = WIDTH - left - _RIGHT
    span = max([p.last_ns - p.first_ns for p in panels] + [1])
    columns = max(round(width * DPI / _COLUMN), 1)  # of the whole axis, so that they are as wide in both panels
    bands = [threads_at_work(p.band, p.first_ns, p.first_ns + span, columns) for p in panels]
    most = max([most_at_once(p.band, p.first_ns, p.last_ns) for p in panels if p.band], default=1)
    legend = _legend(panels, span / (width * DPI), most)
    body = sum(height_of(p.header) + 0.06 + p.height for p in panels) + 0.14 * (len(panels) - 1)
    head = [Words(title, TITLE, weight="bold", most=2), Words(verdict)]
    page = FigurePage(look, head, body + 0.62 + len(legend) * 0.24 + 0.08)
    legend_axes = page.axes(0, 0, WIDTH, page.height)
    legend_axes.set(xlim=(0, WIDTH), ylim=(page.height, 0), zorder=2)
    legend_axes.axis("off")
    y = page.top
    for i, panel in enumerate(panels):
        y = page.paragraphs(panel.header, y + 0.14 * (i > 0)) + 0.06
        last = i == len(panels) - 1
        axes = page.axes(left, y, width, panel.height, *["bottom"] * last)
        axes.set(xlim=(panel.first_ns / 1e6, (panel.first_ns + span) / 1e6), ylim=(panel.height, 0))
        _time_axis(axes, labelled=last)
        _lanes(page, _Axis(axes, left, y, width, panel.first_ns, span), panel, bands[i], most)
        y += panel.height
    page.write(left + width / 2, y + 0.4, "milliseconds since the start of the window", SMALL, look.muted, ha="center")
    _draw_legend(page, legend_axes, legend, y + 0.62)
    return page.figure


def _time_axis(axes: Axes, labelled: bool) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, min_n_ticks=3))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:,.10g}"))
    axes.tick_params(axis="x", labelbottom=labelled, length=4 if labelled else 0)


def _lanes(page: FigurePage, axis: _Axis, panel: _Panel, band: np.ndarray, most: int) -> None:
    """Draw one panel: beds, steps, bars, gaps, and the words on both sides."""
    look, right = page.look, axis.left + axis.width
    whole = panel.last_ns - panel.first_ns == panel.timeline.span_ns
    page.write(right + 0.1, axis.top + LINE / 2, "busy" if whole else "busy (all)", SMALL, look.muted)
    _steps(axis, panel, look)
    y = LINE
    for i, lane in enumerate(panel.lanes):
        high, weight = (_LOW, "normal") if i else (TALL, "bold")
        axis.rectangles(panel.first_ns, panel.last_ns, y, y + high, look.lane, zorder=0)
        middle = axis.top + y + high / 2
        name = fit(lane.name, axis.left - MARGIN - 0.1, BODY, weight)
        page.write(axis.left - 0.1, middle, name, ha="right", weight=weight)
        page.write(right + 0.1, middle, percent(lane.share), weight=weight)
        _work(page, axis, panel, lane, y, high)
        y += high + SPACE
        if i == 0:
            _gaps(page, axis, panel, LINE, high)
            if panel.band:
                _band(page, axis, panel, y, band, most)
                y += BAND_TALL + SPACE
    if panel.hidden:
        shares = [lane.share for lane in panel.hidden]
        page.write(axis.left - 0.1, axis.top + y + LINE / 2, panel.names[-1], color=look.muted, ha="right")
        more = f"{percent(min(shares))} to {percent(max(shares))} busy; print the timeline, or choose lanes"
        page.write(axis.left + 0.05, axis.top + y + LINE / 2, more, color=look.muted)


def _band(page: FigurePage, axis: _Axis, panel: _Panel, y: float, threads: np.ndarray, most: int) -> None:
    """Draw how many threads do what, stacked by kind of work, with the number of threads on the left."""
    look, base, width = page.look, y + BAND_TALL, threads.shape[1]
    axis.rectangles(panel.first_ns, panel.last_ns, y, base, look.lane, zorder=0)
    edges = np.linspace(axis.first_ns, axis.first_ns + axis.span_ns, width + 1)
    edges = np.minimum(edges, panel.last_ns).repeat(2)[1:-1] / 1e6
    below = np.zeros(2 * width)
    for code in np.flatnonzero(threads.any(axis=1)).tolist():
        category = CATEGORIES[code]
        above, hatch = below + threads[code].repeat(2), LEGEND[category][1] or None
        low, high = (base - level * BAND_TALL / most for level in (below, above))
        ink = {"facecolor": look.fill[category], "edgecolor": look.background, "hatch": hatch}
        axis.axes.fill_between(edges, low, high, linewidth=0, zorder=3, **ink)
        below = above
    if cores := panel.cores(most):
        at = base - cores / most * BAND_TALL
        shown = [panel.first_ns / 1e6, panel.last_ns / 1e6]
        axis.axes.plot(shown, [at] * 2, color=look.ink, linewidth=1, linestyle=(0, (4, 3)), zorder=4)
    middle, left = axis.top + y + BAND_TALL / 2, axis.left - 0.1
    page.write(left, middle, texts.BAND, ha="right")
    for number, at in ((most, y + LINE / 2), (0, base - LINE / 2)):
        page.write(left, axis.top + at, f"{number}", SMALL, look.muted, ha="right")
    page.write(axis.left + axis.width + 0.1, middle, f"{texts.at_work(panel.band)} threads")


def _rectangles(axes: Axes, start: Any, end: Any, top: Any, bottom: Any, color: str, **more: Any) -> None:
    from matplotlib.collections import PolyCollection

    start, end, top, bottom = np.broadcast_arrays(np.atleast_1d(start), end, top, bottom)
    corners = np.stack([start, bottom, start, top, end, top, end, bottom], axis=-1).reshape(-1, 4, 2)
    axes.add_collection(PolyCollection(corners, **{"facecolors": color, "linewidths": 0, **more}), autolim=False)


def _lines(axes: Axes, x: Iterable[float], top: float, bottom: float, color: str, **more: Any) -> None:
    from matplotlib.collections import LineCollection

    lines = [((at, top), (at, bottom)) for at in x]
    axes.add_collection(LineCollection(lines, colors=color, linewidths=0.8, **more), autolim=False)


def _steps_apart(panel: _Panel, pixel: float) -> bool:
    """Return whether there are steps, and lines at their starts would not be a grey area."""
    edges = panel.timeline.step_edges_ns
    return len(edges) > 1 and bool(np.diff(edges).mean() >= 12 * pixel)


def _steps(axis: _Axis, panel: _Panel, look: Theme) -> None:
    edges = panel.timeline.step_edges_ns
    edges = edges[(edges >= panel.first_ns) & (edges <= panel.last_ns)] / 1e6
    if _steps_apart(panel, axis.pixel):
        low = panel.height - (LINE if panel.hidden else 0)
        _lines(axis.axes, edges, LINE - 0.04, low - 0.02, look.line, zorder=1)


def _crowded(panel: _Panel, lane: Lane, pixel: float) -> bool:
    """Return whether the spans of a lane are too short to be distinguished."""
    start, end, category = lane.between(panel.first_ns, panel.last_ns)
    length = (end - start)[category != CATEGORIES.index("iterator")] / pixel
    # The length of the piece that an instant falls into, on average: tiny ones beside a long one count little.
    return len(length) > 20 and bool((length**2).sum() < 1.6 * length.sum())


def _work(page: FigurePage, axis: _Axis, panel: _Panel, lane: Lane, y: float, high: float) -> None:
    """Draw what a lane works on, and below it a thin band while a tf.data node is open."""
    look, pixel = page.look, axis.pixel
    if lane.kind in ("pipeline", "host"):
        nodes = lane.category == CATEGORIES.index("iterator")
        near = int(pixel)  # neighbours that are closer than a pixel become one
        band = union(np.clip(lane.start_ns[nodes], panel.first_ns, panel.last_ns),
                     np.clip(lane.end_ns[nodes], panel.first_ns, panel.last_ns - near) + near)  # fmt: skip
        axis.rectangles(band.start, band.end - near, y + high - 0.045, y + high, look.node, zorder=2)
        high -= 0.045
    # Where most spans are visible, half a pixel: the renderer blends what is narrower. Where most are not, four pixels.
    columns = (panel.last_ns - panel.first_ns) / pixel / (4 if _crowded(panel, lane, pixel) else 0.5)
    bars = lod(lane, panel.first_ns, panel.last_ns, max(round(columns), 1))
    if lane.kind == "wait":
        _idle(axis, bars.start_ns, bars.end_ns, y, high, look)
        return
    inches = axis.inches(bars.end_ns - bars.start_ns)
    for code in np.unique(bars.category).tolist():
        mine, category = bars.category == code, CATEGORIES[code]
        color = look.fill.get(category, look.fill["other"])
        hatch = {"hatch": LEGEND.get(category, ("", ""))[1] or None, "edgecolors": look.background}
        for some, more in ((mine & (inches < 6 / DPI), {}), (mine & (inches >= 6 / DPI), hatch)):
            base, room = y + high, high
            low, up = base - room * bars.bottom[some], base - room * bars.top[some]
            axis.rectangles(bars.start_ns[some], bars.end_ns[some], up, low, color, zorder=3, **more)
    wide = np.flatnonzero(inches >= 0.3)
    for i in wide.tolist() if len(wide) <= 80 else []:
        category, middle = CATEGORIES[bars.category[i]], int(bars.start_ns[i] + bars.end_ns[i]) // 2
        label = _named_at(panel.timeline, lane, middle) if lane.kind in ("script", "accelerator") else ""
        if lane.kind != "script" and label != VALIDATION:
            label = _step_at(panel.timeline, lane, int(bars.start_ns[i])) if category == "train" else ""
        label = label or LEGEND.get(category, (category,))[0]
        if measure(label, SMALL) + 0.1 <= inches[i]:
            color = look.fill.get(category, look.fill["other"])
            box = {"facecolor": color, "edgecolor": "none", "pad": 1.0}
            x = axis.middle(int(bars.start_ns[i]), int(bars.end_ns[i]))
            page.write(x, axis.top + y + high / 2, label, SMALL, text_on(color), ha="center", bbox=box)


def _step_at(timeline: Timeline, lane: Lane, start_ns: int) -> str:
    """Return "step 3" for a train step that begins at `start_ns`; another process counts its own steps."""
    if lane.kind == "stream":
        return f"step {lane.step[max(0, int(np.searchsorted(lane.start_ns, start_ns, side='right')) - 1)]}"
    place = int(np.searchsorted(timeline.step_edges_ns, start_ns, side="right")) - 1
    return f"step {timeline.step_numbers[min(max(place, 0), timeline.steps - 1)]}" if timeline.steps else ""


def _named_at(timeline: Timeline, lane: Lane, at_ns: int) -> str:
    """Return the name of the innermost span of a lane at an instant."""
    open_ = np.flatnonzero((lane.start_ns <= at_ns) & (lane.end_ns > at_ns))
    return timeline.names[lane.name_id[open_[-1]]] if len(open_) else ""


def _idle(axis: _Axis, start: np.ndarray, end: np.ndarray, y: float, high: float, look: Theme) -> None:
    axis.rectangles(start, end, y, y + high, look.gap, zorder=2)


def _gaps(page: FigurePage, axis: _Axis, panel: _Panel, y: float, high: float) -> None:
    """Draw the idle times of the accelerator, with length and cause in words: inside, or in the strip above."""
    look = page.look
    gaps, kinds = panel.timeline.gaps.where(panel.gaps), panel.timeline.causes.kind[panel.gaps]
    start = np.maximum(gaps.start_ns, panel.first_ns)
    end = np.minimum(gaps.start_ns + gaps.length_ns, panel.last_ns)
    inches = axis.inches(end - start)
    visible = np.flatnonzero(inches >= 3 / DPI)
    _idle(axis, start[visible], end[visible], y, high, look)
    taken: list[tuple[float, float]] = []
    for i in visible[np.argsort(-gaps.length_ns[visible], kind="stable")][:200].tolist():
        length, cause = f"{milliseconds(int(gaps.length_ns[i]))} ms", CAUSES[kinds[i]]
        longest = [[f"idle {length}: {cause}"], [f"{length} {cause}"], [length, cause]]
        choices = [*longest * (cause != "unknown"), [length]]
        lines = next((c for c in choices if max(measure(t, SMALL, "bold") for t in c) + 0.1 <= inches[i]), None)
        x = axis.middle(int(start[i]), int(end[i]))
        if lines:
            for k, text in enumerate(lines):
                middle = axis.top + y + high / 2 + (k - (len(lines) - 1) / 2) * 0.17
                page.write(x, middle, text, SMALL, text_on(look.gap), ha="center", weight="bold")
            continue
        half = measure(length, SMALL) / 2 + 0.05
        x = min(max(x, axis.left + half), axis.left + axis.width - half)
        if all(x + half <= a or x - half >= b for a, b in taken):
            taken.append((x - half, x + half))
            _lines(axis.axes, [(start[i] + end[i]) / 2e6], y - 0.02, y + 0.03, look.ink, zorder=3)
            page.write(x, axis.top + y - 0.1, length, SMALL, ha="center")


# -- legend ------------------------------------------------------------------------------


def _legend(panels: list[_Panel], pixel: float, most: int) -> list[list[tuple[str, str, float]]]:
    """Return the legend in rows of (what, words, width in inches): only what occurs in the picture; `pixel` in ns."""
    cores = texts.cores_of(panel.cores(most) for panel in panels)
    lanes = [lane for panel in panels for lane in (*panel.lanes, *panel.band)]
    found = [(CATEGORIES[c], texts.LABELS[CATEGORIES[c]]) for c in texts.legend(lanes) if CATEGORIES[c] in LEGEND]
    more = {
        ("cores", cores): bool(cores),
        ("gap", texts.of_gap(p.timeline for p in panels)): any(len(p.timeline.gaps) for p in panels),
        ("node", texts.of_node(p.timeline for p in panels)): any(
            lane.kind in ("pipeline", "host") and (lane.category == CATEGORIES.index("iterator")).any()
            for panel in panels
            for lane in panel.lanes
        ),
        ("step", "a step begins"): any(_steps_apart(p, pixel) for p in panels),
        ("", "narrow columns: share of the time of each, in this order from below"): any(
            _crowded(p, lane, pixel) for p in panels for lane in p.lanes
        ),
    }
    rows: list[list[tuple[str, str, float]]] = [[]]
    for what, label in [*found, *(entry for entry, there in more.items() if there)]:
        width = (0.42 if what else 0) + measure(label, SMALL) + 0.2
        if rows[-1] and sum(w for *_, w in rows[-1]) + width > WIDTH - 2 * MARGIN:
            rows.append([])
        rows[-1].append((what, label, width))
    return rows


def _draw_legend(page: FigurePage, legend_axes: Axes, rows: list[list[tuple[str, str, float]]], y: float) -> None:
    look = page.look
    styles = {c: {"facecolors": look.fill[c], "hatch": h or None, "edgecolors": look.background}
              for c, (_, h) in LEGEND.items()}  # fmt: skip
    styles["gap"] = {"facecolors": look.gap}
    for k, row in enumerate(rows):
        x, middle = MARGIN, y + 0.24 * k + 0.12
        for what, label, width in row:
            if what == "node":
                _rectangles(legend_axes, x, x + 0.34, middle + 0.01, middle + 0.055, look.node)
            elif what == "cores":
                legend_axes.plot([x, x + 0.34], [middle] * 2, color=look.ink, linewidth=1, linestyle=(0, (4, 3)))
            elif what == "step":
                _lines(legend_axes, [x + 0.17], middle - 0.09, middle + 0.09, look.line)
            elif what:
                _rectangles(legend_axes, x, x + 0.34, middle - 0.07, middle + 0.07, "none", **styles[what])
            page.write(x + (0.42 if what else 0), middle, label, SMALL)
            x += width
