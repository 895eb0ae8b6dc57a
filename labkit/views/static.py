"""Timelines as pictures: the accelerator on top, one lane for each thread, idle times with their length and cause.

What is drawn is computed by `labkit.views.layout`. Here it is decided which steps and lanes of it fit into a picture,
and matplotlib draws them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from labkit.common.numbers import whole
from labkit.common.palette import Theme
from labkit.timeline.causes import per_gap
from labkit.timeline.intervals import Intervals, covered_until, edges_of
from labkit.timeline.lanes import Lane
from labkit.timeline.timeline import Timeline, timeline_of
from labkit.timeline.trace import CATEGORIES, VALIDATION, Trace
from labkit.timeline.wording import duration
from labkit.views import legend
from labkit.views.figure_page import BODY, LINE, MARGIN, SMALL, TITLE, FigurePage, Words, fit, height_of, measure
from labkit.views.layout import TimelineLayout, texts
from labkit.views.layout.band import FILLED, IDLE, LAYERS, OPEN, Band
from labkit.views.picture import DPI, WIDTH, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Picture", "compare", "draw", "picture_of"]

#: Steps of a picture, and values of a circuit, where nothing else is asked for.
_STEPS, _VALUES = 4, 20

#: Inches: the busy shares on the right, the longest name on the left, the accelerator, another lane, a CSS pixel of the
#: band, and between two rows.
_RIGHT, _NAME, TALL, _LOW, _CSS, SPACE = 0.95, 2.45, 0.4, 0.3, 1 / 62, 0.06

#: Pixels of a column of the band.
_COLUMN = 4

Steps = int | slice | None


def draw(
    timeline: Trace | Timeline, *, title: str | None = None, steps: Steps = None, lanes: Iterable[str] | None = None
) -> Picture:
    """Draw a timeline.

    Parameters
    ----------
    timeline : Trace or Timeline
    title : str, optional
        The name of the run by default. Whether the run was measured or modelled is always written below it.
    steps : int or slice, optional
        The steps to zoom in on: their number from the first on, or a slice of positions in the window. By default four
        around the longest gap, or fewer where there are fewer.
    lanes : iterable of str, optional
        Names of the lanes to show, in the order of the timeline; the accelerator is always shown. By default all
        threads are one band, by what they do and wait for, and devices have lanes.

    Raises
    ------
    ValueError
        If there is no such step or lane.
    """
    return picture_of(TimelineLayout([timeline_of(timeline, "drawn")], title=title), steps=steps, lanes=lanes)


def compare(
    before: Trace | Timeline, after: Trace | Timeline, *, labels: tuple[str, str] = ("before", "after"),
    title: str | None = None, steps: int | None = None, lanes: Iterable[str] | None = None,
) -> Picture:  # fmt: skip
    """Draw two timelines on one time axis: the same number of steps, so that a gain shows as length.

    Parameters
    ----------
    before, after : Trace or Timeline
    labels : pair of str
    title : str, optional
    steps : int, optional
        The number of steps of each, from the first on; four by default, or fewer where one has fewer.
    lanes : iterable of str, optional
        Names of the lanes to show in whichever of the two has them; see `draw`.

    Raises
    ------
    ValueError
        If there is no such step or lane, or `labels` are not two.
    """
    pair = [timeline_of(before, "drawn"), timeline_of(after, "drawn")]
    if steps is not None:
        steps = whole("steps", steps, 1, other="(the same for both)")
    return picture_of(TimelineLayout(pair, labels, title), steps=steps, lanes=lanes)


class Arrow(NamedTuple):
    """What an arrow leads from and to: a gap by its number, and a time in a lane, by its number, in nanoseconds."""

    gap: int
    lane: int
    from_ns: int
    to_ns: int


def picture_of(
    layout: TimelineLayout, *, steps: Steps = None, lanes: Iterable[str] | None = None,
    mode: str = "band", points: Arrow | None = None, span_ns: int = 1,
) -> Picture:  # fmt: skip
    """Draw some steps and lanes of a layout, see `draw` and `compare`; or the rows of a mode, and an arrow.

    The axis is `span_ns` long, or longer if what is shown is.
    """
    timelines, two = layout.timelines, len(layout.timelines) == 2
    wanted = None if lanes is None else [lanes] if isinstance(lanes, str) else list(lanes)
    known = dict.fromkeys(lane.name for timeline in timelines for lane in timeline.lanes)
    if unknown := [name for name in wanted or () if name not in known]:
        raise ValueError(f"there is no lane {unknown[0]!r}; allowed: {', '.join(known)}")
    counts = [timeline.steps for timeline in timelines]
    if two and steps is None and all(counts):
        steps = min(_VALUES if texts.of_circuits(timelines) else _STEPS, *counts)
    panels = [_panel(layout, r, steps, wanted, mode) for r in range(len(timelines))]
    verdict = _verdict(layout, panels, min(counts)) if two else ""
    text = [layout.title, *[verdict] * two]
    for panel, run in zip(panels, layout.runs, strict=True):
        label = f"{run['label']}: " if two else ""
        ends = " to ".join(duration(ns, panel.timeline.run.time_unit) for ns in (panel.first_ns, panel.last_ns))
        text += [f"{label}rows: {', '.join(row.name for row in panel.rows)}", f"{label}shown: {panel.steps}, {ends}"]
        text += [*_shown_gaps(panel), str(panel.timeline)]
    about = [f"{run['heading']}." for run in layout.runs]
    if two:
        about = [f"{run['label']}: {sentence}" for run, sentence in zip(layout.runs, about, strict=True)]
    alt = " ".join([f"{layout.title}: two timelines on one time axis. {verdict}" if two else
                    f"{layout.title}: timeline,", *about])  # fmt: skip
    make = functools.partial(_draw, layout, verdict, panels, points, span_ns)
    return Picture(make, layout.title, alt, "\n".join(text))


# -- what to show ------------------------------------------------------------------


@dataclass(frozen=True)
class _Row:
    """One row of a panel: a lane and how busy it was, or the band of the threads; its name, its height in inches."""

    name: str
    height: float
    lane: Lane | None
    busy: str
    band: Band | None = None


@dataclass(frozen=True)
class _Panel:
    """One timeline of a picture: its number, the part of it that is shown, in words, too, its rows, the words above."""

    run: int
    timeline: Timeline
    first_ns: int
    last_ns: int
    steps: str
    rows: tuple[_Row, ...]
    most: int
    header: tuple[Words, ...]

    @property
    def height(self) -> float:
        """Inches of the rows, with the strip for labels above."""
        return LINE + sum(row.height + SPACE for row in self.rows)

    @property
    def gaps(self) -> np.ndarray:
        """Indices of the gaps that lie in the part shown."""
        gaps = self.timeline.gaps
        return np.flatnonzero((gaps.start_ns < self.last_ns) & (gaps.start_ns + gaps.length_ns > self.first_ns))


def _panel(layout: TimelineLayout, r: int, steps: Steps, wanted: list[str] | None, mode: str) -> _Panel:
    timeline, run, drawn = layout.timelines[r], layout.runs[r], layout.drawn[r]
    first, last, which = _zoom(timeline, steps)
    if wanted is None:
        shown = [(item["lane"], item["name"], item["h"]) for item in layout.rows(mode)["items"] if item["run"] == r]
    else:
        lanes = enumerate(timeline.lanes)
        shown = [(k, drawn["lanes"][k]["name"], 0) for k, lane in lanes if k == 0 or lane.name in wanted]
    rows = []
    for k, name, pixels in shown:
        if k < 0:
            rows.append(_Row(name, pixels * _CSS, None, "", layout.bands[r]))
        else:
            rows.append(_Row(name, _LOW if k else TALL, timeline.lanes[k], run["lanes"][k]["busy"]))
    heading = " · ".join(filter(None, (run["heading"], which)))
    header = (Words(run["label"], weight="bold", most=2), Words(heading, color="muted"))
    return _Panel(r, timeline, first, last, which, tuple(rows), drawn["band"]["most"] if drawn["band"] else 1, header)


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
        b = min(_VALUES if timeline.run.of_cycles else _STEPS, count)
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
    what = "value" if timeline.run.of_cycles else "step"
    name = f"{what} {one}" if b - a == 1 else f"{what}s {one}–{other}"
    which = f"{name} of {count}" if b - a < count else f"all {count} {what}s" if count > 1 else f"the only {what}"
    return int(edges[a]), int(edges[b]), which


# -- words ---------------------------------------------------------------------------


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
    units = [timeline.run.time_unit for timeline in layout.timelines]
    sentence = f"{which}: {duration(before, units[0])} {labels[0]}, {duration(after, units[1])} {labels[1]}"
    batches = [t.images / t.steps if t.images else None for t in layout.timelines]
    if batches[0] != batches[1]:
        sizes = " and ".join("an unknown number of" if b is None else f"{b:.4g}" for b in batches)
        return f"{sentence}; not the same work: {sizes} {layout.timelines[0].run.noun}s per step."
    return f"{sentence} ({100 * after / before:.0f} % of the time)."


# -- the pen -------------------------------------------------------------------------


def _draw(
    layout: TimelineLayout, verdict: str, panels: list[_Panel], points: Arrow | None, span_ns: int, look: Theme
) -> Figure:
    """Lay the page out and draw it."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    left = min(max(measure(row.name, BODY, "bold") for p in panels for row in p.rows), _NAME) + MARGIN + 0.1
    width = WIDTH - left - _RIGHT
    span = max([p.last_ns - p.first_ns for p in panels] + [span_ns])
    colours = texts.colours(look.name)
    seen: set[int] = set()
    body = sum(height_of(p.header) + 0.06 + p.height for p in panels) + 0.14 * (len(panels) - 1)
    head = [Words(layout.title, TITLE, weight="bold", most=2), Words(verdict)]
    layers = texts.layers(layout.timelines)
    unit = "cycles" if texts.of_circuits(layout.timelines) else "milliseconds"
    page = FigurePage(look, head, body + 0.62 + 0.24 * len(legend.rows_of(layers, _may_be_seen(layout, panels))) + 0.08)
    y = page.top
    for i, panel in enumerate(panels):
        y = page.paragraphs(panel.header, y + 0.14 * (i > 0)) + 0.06
        last = i == len(panels) - 1
        axes = page.axes(left, y, width, panel.height, *["bottom"] * last)
        axes.set(xlim=(panel.first_ns / 1e6, (panel.first_ns + span) / 1e6), ylim=(panel.height, 0))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, min_n_ticks=3))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:,.10g}"))
        axes.tick_params(axis="x", labelbottom=last, length=4 if last else 0)
        pen = _Pen(page, layout, colours, axes, panel, (left, y, span), seen)
        pen.rows()
        if points:
            pen.arrow(points)
        y += panel.height
    page.write(left + width / 2, y + 0.4, f"{unit} since the start of the window", SMALL, look.muted, ha="center")
    legend.draw(page, layers, colours, sorted(seen), y + 0.62)
    return page.figure


def _may_be_seen(layout: TimelineLayout, panels: list[_Panel]) -> list[int]:
    """Return the layers of all that the rows hold, in view or not: as much room the legend has."""
    found = {IDLE, OPEN}
    for panel in panels:
        lanes = [row.lane for row in panel.rows if row.lane is not None]
        if any(row.band for row in panel.rows):
            lanes += [panel.timeline.lanes[k] for k in layout.bands[panel.run].lanes]
            found |= {len(LAYERS)} if layout.bands[panel.run].cores else set()
        for lane in lanes:
            for code in np.unique(layout.kinds.of(panel.run, lane)).tolist():
                kind = layout.kinds.table[code]
                found |= {kind.layer, *[kind.waits] * (kind.share < 1)}
    return sorted(found)


class _Pen:
    """Draws one panel; what it has drawn stands in `seen`, as indices into `LAYERS`, and their number for the cores."""

    def __init__(
        self, page: FigurePage, layout: TimelineLayout, colours: dict[str, Any], axes: Axes, panel: _Panel,
        place: tuple[float, float, int], seen: set[int],
    ) -> None:  # fmt: skip
        self.page, self.layout, self.colours, self.axes = page, layout, colours, axes
        self.panel, self.seen, self.look, self.right = panel, seen, page.look, WIDTH - _RIGHT
        # Where the time axis lies on the page, in inches, and how many nanoseconds it shows.
        (self.left, self.top, self.span_ns), self.first_ns = place, panel.first_ns
        self.width = self.right - self.left

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
        from matplotlib.collections import PolyCollection

        start, end, top, bottom = np.broadcast_arrays(np.atleast_1d(start) / 1e6, np.divide(end, 1e6), top, bottom)
        corners = np.stack([start, bottom, start, top, end, top, end, bottom], axis=-1).reshape(-1, 4, 2)
        bars = PolyCollection(corners, **{"facecolors": color, "linewidths": 0, **more})
        self.axes.add_collection(bars, autolim=False)

    def rows(self) -> None:
        """Draw beds, steps, bars, gaps, and the words on both sides."""
        panel, look = self.panel, self.look
        whole_ = panel.last_ns - panel.first_ns == panel.timeline.span_ns
        self.page.write(self.right + 0.1, self.top + LINE / 2, "busy" if whole_ else "busy (all)", SMALL, look.muted)
        edges = panel.timeline.step_edges_ns
        shown = edges[(edges >= panel.first_ns) & (edges <= panel.last_ns)] / 1e6
        if len(edges) > 1 and np.diff(edges).mean() >= 12 * self.pixel:  # else they would be a grey area
            self.axes.vlines(shown, LINE - 0.04, panel.height - 0.02, look.line, linewidths=0.8, zorder=1)
        y = LINE
        for i, row in enumerate(panel.rows):
            weight = "normal" if i else "bold"
            self.rectangles(panel.first_ns, panel.last_ns, y, y + row.height, look.lane, zorder=0)
            middle = self.top + y + row.height / 2
            name = fit(row.name, self.left - MARGIN - 0.1, BODY, weight)
            self.page.write(self.left - 0.1, middle, name, ha="right", weight=weight)
            if row.lane is None:
                self._band(row, y)
            else:
                self.page.write(self.right + 0.1, middle, row.busy, weight=weight)
                self._lane(row.lane, y, row.height)
            if i == 0:
                self._gaps(y, row.height)
            y += row.height + SPACE

    def arrow(self, points: Arrow) -> None:
        """Outline a gap and what it waited for, and draw an arrow from the one to the other."""
        panel, ends = self.panel, []
        band = next((k for k, row in enumerate(panel.rows) if row.lane is None), 0)
        lane = panel.timeline.lanes[points.lane]
        place = next((k for k, row in enumerate(panel.rows) if row.lane is lane), band)
        gap = panel.timeline.gaps[points.gap]
        times = (gap.start_ns, gap.start_ns + gap.length_ns), points[2:]
        for row, (start, end) in zip((0, place), times, strict=True):
            y = LINE + sum(above.height + SPACE for above in panel.rows[:row])
            start, end = (min(max(ns, panel.first_ns), panel.last_ns) for ns in (start, end))
            bottom = y + panel.rows[row].height
            for color, width in ((self.look.background, 4), (self.look.ink, 2)):
                edge = {"edgecolors": color, "linewidths": width, "zorder": 6}
                self.rectangles(start, end, y, bottom, "none", **edge)
            ends.append((start / 1e6, end / 1e6, y, bottom))
        (first, last, _, low), (start, end, high, _) = ends
        to = (start + end) / 2
        style = {"arrowstyle": "-|>", "mutation_scale": 16, "shrinkA": 0, "shrinkB": 0, "lw": 2, "color": self.look.ink}
        self.axes.annotate("", (to, high), (min(max(to, first), last), low - 0.12), arrowprops=style, zorder=7)

    def _stack(self, threads: np.ndarray, y: float, high: float, most: int) -> None:
        """Draw how many of `most` threads do what, from below: work filled, above it hollow what is waited for."""
        base, columns = y + high, threads.shape[1]
        edges = edges_of(self.first_ns, self.first_ns + self.span_ns, columns)
        edges = np.minimum(edges, self.panel.last_ns).repeat(2)[1:-1] / 1e6
        below = np.zeros(2 * columns)
        for k in np.flatnonzero(threads.any(axis=1)).tolist():
            above = np.minimum(below + threads[k].repeat(2), most)  # kernels of several streams overlap
            low, up = (base - level * high / most for level in (below, above))
            hollow, there = FILLED <= k < OPEN, threads[k].repeat(2) > 0
            inside, edge = self.colours["tint" if hollow else "fill"][k], self.colours["fill"][k]
            around = {"edgecolor": edge, "linewidth": 0.9} if hollow and most == 1 else {"linewidth": 0}
            self.axes.fill_between(edges, low, up, where=there, zorder=3, facecolor=inside, **around)
            if hollow and most > 1:
                top = np.where(there, up, np.nan)
                self.axes.plot(edges, top, color=edge, linewidth=1.1, zorder=3.5)
            self.seen.add(k)
            below = above

    def _threads(self, band: Band, pixels: float) -> np.ndarray:
        """Return the threads of a band in columns so wide: of the whole axis, so that they are alike in both panels."""
        return band.threads(self.first_ns, self.first_ns + self.span_ns, max(round(self.width * DPI / pixels), 1))

    def _band(self, row: _Row, y: float) -> None:
        """Draw all threads, with the number that the height stands for, and a line at the number of the cores."""
        panel, look, base, most = self.panel, self.look, y + row.height, self.panel.most
        self._stack(self._threads(row.band, _COLUMN), y, row.height, most)
        if cores := row.band.cores:
            at = base - cores / most * row.height
            ends = [panel.first_ns / 1e6, panel.last_ns / 1e6]
            for color, dashes in ((look.background, "solid"), (look.ink, (0, (4, 3)))):  # seen on dark work, too
                self.axes.plot(ends, [at] * 2, color=color, linewidth=1, linestyle=dashes, zorder=4)
            words = f"{cores} core{'s' * (cores > 1)}"
            self.page.write(self.right + 0.1, self.top + max(at, y + 0.09), words, SMALL, look.muted)
            self.seen.add(len(LAYERS))
        left = self.left - 0.1
        if row.height > 3 * LINE:
            for number, at in ((most, y + 0.05), (0, base - 0.03)):
                self.page.write(left, self.top + at, f"{number}", SMALL, look.muted, ha="right")

    def _lane(self, lane: Lane, y: float, high: float) -> None:
        """Draw what a lane works on and waits for, and as an outline what only encloses that."""
        panel, kinds = self.panel, self.layout.kinds
        codes = kinds.of(panel.run, lane)
        around, outlined = (kinds.are(fact, codes) for fact in ("around", "outlined"))
        start, end = np.maximum(lane.start_ns, panel.first_ns), np.minimum(lane.end_ns, panel.last_ns)
        visible = outlined & (self.inches(end - start) >= 3 / DPI)
        self.rectangles(
            start[visible], end[visible], y + 0.01, y + high - 0.01, "none",
            edgecolors=self.look.node, linewidths=0.7, zorder=2,
        )  # fmt: skip
        self.seen |= {OPEN} if visible.any() else set()
        alone = Band(kinds, panel.run, panel.timeline, [lane])
        self._stack(self._threads(alone, 0.5), y, high, 1)
        owner = lane.pieces.owner
        start = np.maximum(lane.pieces.start, panel.first_ns)
        end = np.minimum(lane.pieces.end, panel.last_ns)
        inches = self.inches(end - start)
        # A line of the background keeps neighbours of one colour apart.
        wide = np.flatnonzero(~around[owner] & (inches >= 6 / DPI))
        joints = end[wide[np.isin(end[wide], start)]] / 1e6
        self.axes.vlines(joints, y, y + high, self.look.lane, linewidths=0.8, zorder=3.2)
        wide = wide[inches[wide] >= 0.3]
        for i in wide.tolist() if len(wide) <= 80 else []:
            kind = kinds.table[codes[owner[i]]]
            label = self._label(lane, kind.category, int(start[i]), int(end[i]))
            if kind.layer != IDLE and measure(label, SMALL) + 0.1 <= inches[i]:
                k = kind.layer if kind.share > 0.5 else kind.waits
                inside, on = ("tint", self.look.ink) if FILLED <= k < OPEN else ("fill", self.colours["on"][k])
                # Where one part is filled and one hollow, the ground of the words is that of the larger part alone.
                ground = {"facecolor": self.colours[inside][k], "linewidth": 0, "pad": 1.5}
                x = self.middle(int(start[i]), int(end[i]))
                self.page.write(x, self.top + y + high / 2, label, SMALL, on, ha="center", bbox=ground)

    def _label(self, lane: Lane, category: int, start_ns: int, end_ns: int) -> str:
        timeline, word = self.panel.timeline, CATEGORIES[category]
        named = _named_at(timeline, lane, (start_ns + end_ns) // 2)
        if word == "train" and named != VALIDATION and lane.kind != "script" and not timeline.run.of_cycles:
            return _step_at(timeline, lane, start_ns)
        return named if lane.kind in ("script", "accelerator", "unit") else texts.LABELS.get(word, word).split(": ")[-1]

    def _gaps(self, y: float, high: float) -> None:
        """Draw the idle times of the accelerator, with length and cause in words: inside, or in the strip above."""
        panel, look = self.panel, self.look
        gaps, kinds = panel.timeline.gaps.where(panel.gaps), panel.timeline.causes.kind[panel.gaps]
        start = np.maximum(gaps.start_ns, panel.first_ns)
        end = np.minimum(gaps.start_ns + gaps.length_ns, panel.last_ns)
        inches = self.inches(end - start)
        visible = np.flatnonzero(inches >= 3 / DPI)
        self.rectangles(start[visible], end[visible], y, y + high, look.gap, zorder=2)
        # What is too short for a block hangs from above: work stands below.
        edges = edges_of(self.first_ns, self.first_ns + self.span_ns, max(round(self.width * DPI), 1))
        short = inches < 3 / DPI
        share = np.diff(covered_until(Intervals(start[short], end[short]), edges)) / np.maximum(np.diff(edges), 1)
        tall = np.flatnonzero(share)
        self.rectangles(edges[tall], edges[tall + 1], y, y + high * share[tall], look.gap, zorder=2)
        self.seen |= {IDLE} if len(gaps) else set()
        taken: list[tuple[float, float]] = []
        told = visible[(end - start == gaps.length_ns)[visible]]  # a length stands on what is that long
        for i in told[np.argsort(-gaps.length_ns[told], kind="stable")][:200].tolist():
            length = duration(int(gaps.length_ns[i]), panel.timeline.run.time_unit)
            cause = per_gap.word(per_gap.CAUSES[kinds[i]])
            longest = [[f"idle {length}: {cause}"], [f"{length} {cause}"], [length, cause]]
            choices = [*longest * (cause != "unknown"), [length]]
            lines = next((c for c in choices if max(measure(t, SMALL, "bold") for t in c) + 0.1 <= inches[i]), None)
            x = self.middle(int(start[i]), int(end[i]))
            if lines:
                for k, text in enumerate(lines):
                    middle = self.top + y + high / 2 + (k - (len(lines) - 1) / 2) * 0.17
                    self.page.write(x, middle, text, SMALL, self.colours["on_gap"], ha="center", weight="bold")
                continue
            half = measure(length, SMALL) / 2 + 0.05
            x = min(max(x, self.left + half), self.left + self.width - half)
            if all(x + half <= a or x - half >= b for a, b in taken):
                taken.append((x - half, x + half))
                self.axes.vlines((start[i] + end[i]) / 2e6, y - 0.02, y + 0.03, look.ink, linewidths=0.8, zorder=3)
                self.page.write(x, self.top + y - 0.1, length, SMALL, ha="center")


def _step_at(timeline: Timeline, lane: Lane, start_ns: int) -> str:
    """Return "step 3" for a train step that begins at `start_ns`; another process counts its own steps."""
    if lane.kind == "stream":
        step = lane.step[max(0, int(np.searchsorted(lane.start_ns, start_ns, side="right")) - 1)]
        return f"step {step}" if step >= 0 else ""
    place = int(np.searchsorted(timeline.step_edges_ns, start_ns, side="right")) - 1
    return f"step {timeline.step_numbers[min(max(place, 0), timeline.steps - 1)]}" if timeline.steps else ""


def _named_at(timeline: Timeline, lane: Lane, at_ns: int) -> str:
    """Return the name of the innermost span of a lane at an instant."""
    open_ = np.flatnonzero((lane.start_ns <= at_ns) & (lane.end_ns > at_ns))
    return timeline.names[lane.name_id[open_[-1]]] if len(open_) else ""
