"""The drawing of timelines on a page: lanes, bars, gaps, axis and legend.

The page is laid out in inches from the top left, and every text is measured before it is
placed, so that no label touches another. What to show is decided in `labkit.views.static`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import FuncFormatter, MaxNLocator

from labkit.common.palette import LEGEND, Theme, text_on
from labkit.timeline.causes import CAUSES
from labkit.timeline.intervals import union
from labkit.timeline.lanes import Lane, lod
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES
from labkit.timeline.wording import elide, milliseconds, percent
from labkit.views.picture import DPI, plain_style

_WIDTH = 10.0
_MARGIN = 0.15
_RIGHT = 0.95
_NAME_WIDTH = 2.45
_BODY, _SMALL, _TITLE = 9.5, 9.0, 12.0
_LINE = 0.2
_TALL, _LOW, _SPACE = 0.4, 0.32, 0.06
_QUIET = [CATEGORIES.index(category) for category in ("iterator", "wait")]


@dataclass(frozen=True)
class Panel:
    """One timeline on the page: which part of it, which lanes, and the lines above it."""

    timeline: Timeline
    first_ns: int
    last_ns: int
    lanes: tuple[Lane, ...]
    hidden: tuple[Lane, ...]
    header: tuple[str, ...]
    label: str = ""

    @property
    def height(self) -> float:
        """Inches of the lanes, with the strip for labels above and the line for hidden lanes below."""
        return _LINE + _TALL + _SPACE + (len(self.lanes) - 1) * (_LOW + _SPACE) + (_LINE if self.hidden else 0)

    @property
    def shown(self) -> np.ndarray:
        """Indices of the gaps that lie in the part shown."""
        gaps = self.timeline.gaps
        return np.flatnonzero((gaps.start_ns < self.last_ns) & (gaps.start_ns + gaps.length_ns > self.first_ns))


@functools.lru_cache(maxsize=4096)
def _measure(text: str, size: float, weight: str = "normal") -> float:
    """Return the width of a text in inches."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return _renderer().get_text_width_height_descent(text, font, False)[0] / DPI


@functools.lru_cache(maxsize=1)
def _renderer() -> RendererAgg:
    return RendererAgg(8, 8, DPI)


def _fit(text: str, width: float, size: float, weight: str = "normal") -> str:
    """Return a text on one line, its middle left out as far as `width` inches ask for."""
    text = " ".join(text.split())
    if _measure(text, size, weight) <= width:
        return text
    low, high = 1, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _measure(elide(text, middle), size, weight) <= width else (low, middle)
    return elide(text, low)


def _wrap(text: str, width: float, size: float, weight: str = "normal", most: int = 3) -> list[str]:
    """Break a text into lines of at most `width` inches; what does not fit into `most` lines is left out."""
    lines: list[str] = []
    line = ""
    words = text.split()
    for i, word in enumerate(words):
        longer = f"{line} {word}".strip()
        if not line or _measure(longer, size, weight) <= width:
            line = longer
            continue
        lines.append(line)
        line = word
        if len(lines) == most - 1:
            line = " ".join(words[i:])
            break
    return [_fit(line, width, size, weight) for line in [*lines, line]]


class _Sheet:
    """A figure in the making: a page in inches from the top left, on which lanes and words are put."""

    def __init__(self, look: Theme, height: float) -> None:
        self.look, self.height = look, height
        self.figure = Figure(figsize=(_WIDTH, height), dpi=DPI, facecolor=look.background)
        FigureCanvasAgg(self.figure)
        self.page = self.figure.add_axes((0, 0, 1, 1), facecolor="none", zorder=2)
        self.page.set(xlim=(0, _WIDTH), ylim=(height, 0))
        self.page.axis("off")

    def write(self, x: float, y: float, text: str, size: float = _BODY, color: str = "", **more: object) -> None:
        """Put one line of text at a point, vertically centred on it."""
        words = {"va": "center_baseline", "family": "DejaVu Sans", "parse_math": False, **more}
        self.page.text(x, y, text, fontsize=size, color=color or self.look.ink, **words)

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Return axes for lanes: time to the right, inches down."""
        box = (left / _WIDTH, 1 - (top + height) / self.height, width / _WIDTH, height / self.height)
        axes = self.figure.add_axes(box, facecolor="none", zorder=1)
        axes.set_ylim(height, 0)
        axes.yaxis.set_visible(False)
        for side in axes.spines.values():
            side.set_visible(False)
        return axes


def page(title: str, panels: list[Panel], notes: tuple[str, ...], look: Theme) -> Figure:
    """Lay the page out and draw it."""
    with plain_style():
        names = [" ".join(lane.name.split()) for p in panels for lane in p.lanes] + [
            _summary(p) for p in panels if p.hidden
        ]
        left = min(max(_measure(n, _BODY, "bold") for n in names), _NAME_WIDTH) + _MARGIN + 0.1
        width = _WIDTH - left - _RIGHT
        room = _WIDTH - 2 * _MARGIN
        top_lines = [(line, _TITLE, "bold", look.ink) for line in _wrap(title, room, _TITLE, "bold", 2)]
        top_lines += [(line, _BODY, "normal", look.ink) for note in notes for line in _wrap(note, room, _BODY)]
        headers = []
        for panel in panels:
            lines = [(line, _BODY, "bold", look.ink) for line in _wrap(panel.label, room, _BODY, "bold", 2) if line]
            for text, color in zip(panel.header, (look.ink, look.muted), strict=True):
                lines += [(line, _BODY, "normal", color) for line in _wrap(text, room, _BODY)]
            headers.append(lines)
        span = max([p.last_ns - p.first_ns for p in panels] + [1])
        legend = _legend(panels, span / (width * DPI), room)
        used = sum(len(lines) * _LINE + 0.06 for lines in headers) + sum(p.height for p in panels)
        height = (
            0.1
            + len(top_lines) * 0.23
            + 0.1 * bool(notes)
            + used
            + 0.14 * (len(panels) - 1)
            + 0.5
            + 0.12
            + len(legend) * 0.24
            + 0.08
        )

        sheet = _Sheet(look, height)
        y = 0.1
        for text, size, weight, color in top_lines:
            sheet.write(_MARGIN, y + 0.115, text, size, color, weight=weight)
            y += 0.23
        y += 0.1 * bool(notes)
        for i, (panel, lines) in enumerate(zip(panels, headers, strict=True)):
            y += 0.14 * (i > 0)
            for text, size, weight, color in lines:
                sheet.write(_MARGIN, y + _LINE / 2, text, size, color, weight=weight)
                y += _LINE
            y += 0.06
            axes = sheet.axes(left, y, width, panel.height)
            axes.set_xlim(panel.first_ns / 1e6, (panel.first_ns + span) / 1e6)
            _lanes(sheet, axes, panel, left, width, y, span)
            _time_axis(axes, look, labelled=i == len(panels) - 1)
            y += panel.height
        sheet.write(
            left + width / 2, y + 0.4, "milliseconds since the start of the window", _SMALL, look.muted, ha="center"
        )
        _draw_legend(sheet, legend, y + 0.5 + 0.12)
        return sheet.figure


def _summary(panel: Panel) -> str:
    return f"+ {len(panel.hidden)} more lane{'s' * (len(panel.hidden) > 1)}"


def _time_axis(axes: Axes, look: Theme, labelled: bool) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, min_n_ticks=3))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:,.10g}"))
    axes.tick_params(axis="x", colors=look.muted, labelsize=_SMALL, labelbottom=labelled, length=4 if labelled else 0)
    axes.spines["bottom"].set(visible=labelled, color=look.muted)


def _lanes(sheet: _Sheet, axes: Axes, panel: Panel, left: float, width: float, top: float, span: int) -> None:
    """Draw one panel: beds, nodes, bars, gaps, and the words on both sides."""
    look, right = sheet.look, left + width
    whole = panel.last_ns - panel.first_ns == panel.timeline.span_ns
    sheet.write(right + 0.1, top + _LINE / 2, "busy" if whole else "busy (all)", _SMALL, look.muted)
    _steps(axes, panel, look, span / (width * DPI))
    y = _LINE
    for i, lane in enumerate(panel.lanes):
        high = _LOW if i else _TALL
        _rectangles(axes, [panel.first_ns], [panel.last_ns], y, y + high, look.lane, zorder=0)
        middle = top + y + high / 2
        weight = "normal" if i else "bold"
        name = _fit(lane.name, left - _MARGIN - 0.1, _BODY, weight)
        sheet.write(left - 0.1, middle, name, ha="right", weight=weight)
        sheet.write(right + 0.1, middle, percent(lane.share), weight=weight)
        _bars(sheet, axes, panel, lane, y, high, (left, width, top, span))
        if i == 0:
            _gaps(sheet, axes, panel, y, high, (left, width, top, span))
        y += high + _SPACE
    if panel.hidden:
        shares = [lane.share for lane in panel.hidden]
        sheet.write(left - 0.1, top + y + _LINE / 2, _summary(panel), color=look.muted, ha="right")
        words = f"{percent(min(shares))} to {percent(max(shares))} busy; print the timeline, or choose lanes"
        sheet.write(left + 0.05, top + y + _LINE / 2, words, color=look.muted)


def _rectangles(axes: Axes, start, end, bottom, top, color: str, **more: object) -> None:
    """Draw rectangles from nanoseconds and inches: arrays or numbers."""
    start, end, bottom, top = np.broadcast_arrays(np.asarray(start) / 1e6, np.asarray(end) / 1e6, bottom, top)
    corners = np.stack([start, bottom, start, top, end, top, end, bottom], axis=-1).reshape(-1, 4, 2)
    style = {"facecolors": color, "linewidths": 0, **more}
    axes.add_collection(PolyCollection(corners, **style), autolim=False)


def _steps_apart(panel: Panel, pixel: float) -> bool:
    """Tell whether there are steps, and lines at their starts would not be a grey area."""
    edges = panel.timeline.step_edges_ns
    return len(edges) > 1 and bool(np.diff(edges).mean() >= 12 * pixel)


def _steps(axes: Axes, panel: Panel, look: Theme, pixel: float) -> None:
    edges = panel.timeline.step_edges_ns
    edges = edges[(edges >= panel.first_ns) & (edges <= panel.last_ns)] / 1e6
    if not _steps_apart(panel, pixel):
        return
    low = panel.height - (_LINE if panel.hidden else 0)
    lines = [((x, _LINE - 0.04), (x, low - 0.02)) for x in edges]
    axes.add_collection(LineCollection(lines, colors=look.line, linewidths=0.8, zorder=1), autolim=False)


def _bars(
    sheet: _Sheet, axes: Axes, panel: Panel, lane: Lane, y: float, high: float,
    place: tuple[float, float, float, int],
) -> None:  # fmt: skip
    """Draw what a lane works on, and below it a thin band while a tf.data node is open."""
    look, (left, width, top, span) = sheet.look, place
    band = 0.045 if lane.kind in ("pipeline", "host") else 0
    if band:
        quiet = lane.category == CATEGORIES.index("iterator")
        open_ = union(lane.start_ns[quiet], lane.end_ns[quiet])
        open_ = _merged(np.clip(open_.start, panel.first_ns, panel.last_ns),
                        np.clip(open_.end, panel.first_ns, panel.last_ns), span // (width * DPI))  # fmt: skip
        _rectangles(axes, *open_, y + high - band, y + high, look.node, zorder=2)
    pixel = span / (width * DPI)
    bars = lod(lane, panel.first_ns, panel.last_ns, _columns(panel, lane, pixel))
    base, room = y + high - band, high - band
    for code in np.unique(bars.category).tolist():
        category = CATEGORIES[code]
        if category == "wait":
            continue
        mine = bars.category == code
        color, hatch = look.fill[category if category in look.fill else "other"], LEGEND.get(category, ("", ""))[1]
        wide = mine & (bars.end_ns - bars.start_ns >= 6 * pixel)
        for some, more in ((mine & ~wide, {}), (wide, {"hatch": hatch or None, "edgecolors": look.background})):
            if some.any():
                low, up = base - room * bars.bottom[some], base - room * bars.top[some]
                _rectangles(axes, bars.start_ns[some], bars.end_ns[some], low, up, color, zorder=3, **more)
    if lane.kind == "wait":
        _outlines(axes, bars.start_ns, bars.end_ns, y, high, look)
        return
    wide = np.flatnonzero(bars.end_ns - bars.start_ns >= 0.3 * span / width)
    if len(wide) > 80:
        return
    step_of = _step_names(panel, bars.start_ns) if lane.kind == "accelerator" else None
    for i in wide.tolist():
        category = CATEGORIES[bars.category[i]]
        words = step_of[i] if step_of and step_of[i] else LEGEND.get(category, (category,))[0]
        inches = (bars.end_ns[i] - bars.start_ns[i]) / span * width
        if _measure(words, _SMALL) + 0.1 > inches:
            continue
        color = look.fill[category if category in look.fill else "other"]
        x = left + (bars.start_ns[i] + bars.end_ns[i] - 2 * panel.first_ns) / 2 / span * width
        box = {"facecolor": color, "edgecolor": "none", "pad": 1.0}
        sheet.write(x, top + y + (high - band) / 2, words, _SMALL, text_on(color), ha="center", bbox=box)


def _columns(panel: Panel, lane: Lane, pixel: float) -> int:
    """Return into how many columns to add up what is too narrow to draw.

    Where most spans can be seen, half a pixel: the renderer blends what is narrower. Where most cannot, four pixels.
    """
    return max(round((panel.last_ns - panel.first_ns) / pixel / (4 if _crowded(panel, lane, pixel) else 0.5)), 1)


def _crowded(panel: Panel, lane: Lane, pixel: float) -> bool:
    """Tell whether the spans of a lane are too short to be seen one by one."""
    pieces = lane.pieces
    a, b = np.searchsorted(pieces.end, panel.first_ns, "right"), np.searchsorted(pieces.start, panel.last_ns, "left")
    works = np.isin(lane.category[pieces.owner[a:b]], _QUIET, invert=True)
    length = (pieces.end - pieces.start)[a:b][works] / pixel
    # The length of the piece that an instant falls into, on average: tiny ones beside a long one count little.
    return len(length) > 20 and bool((length**2).sum() < 1.6 * length.sum())


def _step_names(panel: Panel, start: np.ndarray) -> list[str]:
    """Return "step 3" for each train step that begins at `start`, "" for a kernel."""
    trains = panel.timeline.accelerator
    if not (trains.category == CATEGORIES.index("train")).any():
        return [""] * len(start)
    edges = panel.timeline.step_edges_ns
    at = np.clip(np.searchsorted(edges, start, side="right") - 1, 0, panel.timeline.steps - 1)
    return [f"step {n}" for n in panel.timeline.step_numbers[at].tolist()]


def _merged(start: np.ndarray, end: np.ndarray, near: float) -> tuple[np.ndarray, np.ndarray]:
    """Join rising intervals that are less than `near` apart."""
    if not len(start):
        return start, end
    first = np.flatnonzero(np.r_[True, start[1:] - end[:-1] > near])
    return start[first], end[np.r_[first[1:] - 1, len(end) - 1]]


def _outlines(axes: Axes, start: np.ndarray, end: np.ndarray, y: float, high: float, look: Theme) -> None:
    style = {"edgecolors": look.gap, "linewidths": 0.8, "hatch": "////", "zorder": 2}
    _rectangles(axes, start, end, y + 0.02, y + high - 0.02, "none", **style)


def _gaps(
    sheet: _Sheet, axes: Axes, panel: Panel, y: float, high: float, place: tuple[float, float, float, int]
) -> None:
    """Outline the idle times of the accelerator and write their length and cause: inside, or in the strip above."""
    look, (left, width, top, span) = sheet.look, place
    gaps, causes = panel.timeline.gaps.where(panel.shown), panel.timeline.causes
    start = np.maximum(gaps.start_ns, panel.first_ns)
    end = np.minimum(gaps.start_ns + gaps.length_ns, panel.last_ns)
    inches = (end - start) / span * width
    seen = np.flatnonzero(inches >= 3 / DPI)
    _outlines(axes, start[seen], end[seen], y, high, look)
    taken: list[tuple[float, float]] = []
    for i in seen[np.argsort(-gaps.length_ns[seen], kind="stable")][:200].tolist():
        length, cause = f"{milliseconds(int(gaps.length_ns[i]))} ms", CAUSES[causes.kind[panel.shown[i]]]
        lines = [length] if cause == "unknown" else [f"{length} {cause}"]
        if cause != "unknown" and _measure(lines[0], _SMALL) + 0.18 > inches[i]:  # in two lines, or without the cause
            lines = [length, cause] if _measure(cause, _SMALL) + 0.18 <= inches[i] else [length]
        need = _measure(length, _SMALL) + 0.1
        x = left + (start[i] + end[i] - 2 * panel.first_ns) / 2 / span * width
        box = {"facecolor": look.background, "edgecolor": "none", "pad": 0.5 if len(lines) > 1 else 1.5}
        if need + 0.08 <= inches[i]:
            for k, words in enumerate(lines):
                middle = top + y + high / 2 + (k - (len(lines) - 1) / 2) * 0.17
                sheet.write(x, middle, words, _SMALL, ha="center", bbox=box)
        else:
            x = min(max(x, left + need / 2), left + width - need / 2)
            if all(x + need / 2 <= a or x - need / 2 >= b for a, b in taken):
                taken.append((x - need / 2, x + need / 2))
                at = (start[i] + end[i]) / 2e6
                tick = LineCollection([((at, y - 0.02), (at, y + 0.03))], colors=look.ink, linewidths=0.8, zorder=3)
                axes.add_collection(tick, autolim=False)
                sheet.write(x, top + y - 0.1, length, _SMALL, ha="center")


# -- legend ------------------------------------------------------------------------------


def _legend(panels: list[Panel], pixel: float, room: float) -> list[list[tuple[str, str, float]]]:
    """Return the legend in rows of (what, words, width in inches): only what occurs in the picture; `pixel` in ns."""
    codes: set[int] = set()
    quiet = False
    for lane in (lane for p in panels for lane in p.lanes):
        codes |= set(np.unique(lane.category[lane.pieces.owner]).tolist())
        quiet |= lane.kind in ("pipeline", "host") and bool((lane.category == CATEGORIES.index("iterator")).any())
    found = [(c, words) for c, (words, _) in LEGEND.items() if CATEGORIES.index(c) in codes]
    if any(len(p.timeline.gaps) for p in panels):
        found.append(("gap", "accelerator idle: how long, for what"))
    if quiet:
        found.append(("node", "tf.data node open: waits or keeps books"))
    if any(_steps_apart(p, pixel) for p in panels):
        found.append(("step", "a step begins"))
    if any(_crowded(p, lane, pixel) for p in panels for lane in p.lanes):
        found.append(("", "narrow columns: share of the time of each, in this order from below"))
    rows: list[list[tuple[str, str, float]]] = [[]]
    x = 0.0
    for what, words in found:
        width = (0.42 if what else 0) + _measure(words, _SMALL) + 0.2
        if x + width > room and rows[-1]:
            rows.append([])
            x = 0.0
        rows[-1].append((what, words, width))
        x += width
    return rows


def _draw_legend(sheet: _Sheet, rows: list[list[tuple[str, str, float]]], y: float) -> None:
    look, page = sheet.look, sheet.page
    for row in rows:
        x, middle = _MARGIN, y + 0.12
        for what, words, width in row:
            ends = (x * 1e6, (x + 0.34) * 1e6)  # the page counts in inches, rectangles in millionths
            if what == "gap":
                style = {"edgecolors": look.gap, "linewidths": 0.8, "hatch": "////"}
                _rectangles(page, [ends[0]], [ends[1]], middle - 0.07, middle + 0.07, "none", **style)
            elif what == "node":
                _rectangles(page, [ends[0]], [ends[1]], middle + 0.01, middle + 0.055, look.node)
            elif what == "step":
                lines = LineCollection([((x + 0.17, middle - 0.09), (x + 0.17, middle + 0.09))], colors=look.line)
                page.add_collection(lines, autolim=False)
            elif what:
                style = {"hatch": LEGEND[what][1] or None, "edgecolors": look.background}
                _rectangles(page, [ends[0]], [ends[1]], middle - 0.07, middle + 0.07, look.fill[what], **style)
            sheet.write(x + (0.42 if what else 0), middle, words, _SMALL)
            x += width
        y += 0.24
