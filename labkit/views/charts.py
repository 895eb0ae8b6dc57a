"""Charts of measured numbers: bars, lines and points, each a `Picture` with the numbers as text.

Every series has a marker and a line style beside its colour, and its name stands next to it instead of in a
legend. Several rounds of one number are shown as their median, with a whisker from the lowest to the highest.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labkit.common.numbers import number
from labkit.common.palette import Theme
from labkit.common.table import Table
from labkit.views.figure_page import BODY, MARGIN, SMALL, FigurePage, Words, heading, measure, wrap
from labkit.views.picture import WIDTH, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW, _PLOT = 0.36, 3.2
_COLORS = ("train", "decode", "resize", "map", "read", "batch", "other")
_MARKERS = "osD^vPX"
_STYLES = ("-", "--")
#: Most lines that a reader can distinguish in a chart.
MOST = len(_COLORS) * len(_STYLES)


@dataclass(frozen=True)
class _Value:
    """One number of a chart: the median of its rounds, the lowest and the highest."""

    middle: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        if self.low == self.high:
            return _number(self.middle)
        return f"{_number(self.middle)} [{_number(self.low)}–{_number(self.high)}]"


def bars(values: Mapping[str, Any], *, unit: str, title: str, note: str = "") -> Picture:
    """Draw one horizontal bar for each name, in the order given, from zero.

    Parameters
    ----------
    values : dict of str to number, or to sequence of numbers
        0 or more. Of several rounds, the bar is the median and the whisker goes from the lowest to the highest.
    unit : str
        Unit of all values, written below the axis.
    title : str
    note : str
        One or two sentences below the title: what was measured, on what.

    Raises
    ------
    ValueError
        If there are no values, or one is negative or not a finite number.
    """
    return panels({unit: values}, title=title, note=note)


def panels(
    values: Mapping[str, Mapping[str, Any]], *, title: str, note: str = "", alike: bool = False,
    predicted: Collection[str] = (),
) -> Picture:  # fmt: skip
    """Draw the same names once and several bars for each, side by side: one panel for each unit.

    Parameters
    ----------
    values : dict of str to dict of str to number, or to sequence of numbers
        By unit, which is written below its axis, what `bars` takes. The names are those of the first panel.
    title, note : str
        As in `bars`.
    alike : bool
        Draw all panels to one scale: their units are the same.
    predicted : collection of str
        Names whose bars nobody measured: they are dotted.

    Raises
    ------
    ValueError
        As `bars`; or if two panels differ in their names.
    """
    names = list(next(iter(values.values()), ()))
    if not names or any(set(given) != set(names) for given in values.values()):
        raise ValueError(f"values are {values!r:.60}; allowed: for each unit the same names, one or more")
    drawn = {
        unit: {name: _value(given[name], f"the bar of {name!r}", least=0) for name in names}
        for unit, given in values.items()
    }
    table = [(name, *(str(rows[name]) for rows in drawn.values())) for name in names]
    text = _text(title, note, ("", *drawn), table)
    ends = []
    for unit, rows in drawn.items():
        low, high = (choose(rows, key=lambda name: rows[name].middle) for choose in (min, max))
        ends.append(f"from {low} ({_number(rows[low].middle)} {unit}) to {high} ({_number(rows[high].middle)} {unit})")
    alt = f"{title}: {len(names)} bar{'s' * (len(names) > 1)}, {'; '.join(ends)}."
    make = functools.partial(_draw_panels, heading(title, note, most=None), drawn, alike, predicted)
    return Picture(make, title, alt, text)


def lines(
    x: Sequence[float] | Mapping[str, Sequence[float]], series: Mapping[str, Sequence[Any]], *, x_label: str,
    y_label: str, title: str, note: str = "", log_x: bool = False, ideal: str = "",
    mark: tuple[float, str] | None = None, height: float = _PLOT,
) -> Picture:  # fmt: skip
    """Draw one line for each name; the y axis begins at zero unless a value is negative.

    Parameters
    ----------
    x : sequence of number, or dict of str to sequence of number
        Strictly rising; above 0 where `log_x` is set. A dict holds the values of each series by its name: lines whose
        points stand at other places, such as the same epochs over the seconds of two runs.
    series : dict of str to sequence of number, or of sequence of numbers
        One entry for each x. Of several rounds, the line goes through the medians.
    x_label, y_label : str
        Quantity and unit.
    title, note : str
        As in `bars`.
    log_x : bool
        Equal distances for equal ratios: for 1, 2, 4, 8 threads, say.
    ideal : str
        The name of a series that nobody measured: it is grey and dashed.
    mark : (x, str), optional
        A vertical line and its name, as in ``(2, "2 cores")``.
    height : float
        Of the plot, in inches; it is higher where the names of the lines need that.

    Raises
    ------
    ValueError
        If `x` does not rise, lengths differ, a value is not a finite number, or there are no series, or more than 14.
    """
    if not 1 <= len(series) <= MOST:
        raise ValueError(f"series holds {len(series)} names; allowed: 1 to {MOST}, more cannot be told apart")
    own = isinstance(x, Mapping)
    if own and x.keys() != series.keys():
        raise ValueError(f"x is of {', '.join(map(repr, x))!s:.60}; allowed: the names of the series")
    places, rows = {}, {}
    for name, given in series.items():
        at = places[name] = [_value(v, "x").middle for v in (x[name] if own else x)]
        if not at or any(b <= a for a, b in itertools.pairwise(at)):
            raise ValueError(f"x is {x!r:.60}; allowed: one or more numbers, strictly rising")
        if log_x and at[0] <= 0:
            raise ValueError(f"x begins at {_number(at[0])}; allowed with log_x: numbers above 0")
        rows[name] = [_value(v, f"a value of series {name!r}") for v in given]
        if len(rows[name]) != len(at):
            raise ValueError(f"series {name!r} has {len(rows[name])} values; allowed: {len(at)}, one for each x")
    if own:
        head = ("", x_label, y_label)
        table = [(name, _number(p), str(v)) for name in rows for p, v in zip(places[name], rows[name], strict=True)]
    else:
        head = (x_label, *rows)
        table = [(_number(p), *(str(row[i]) for row in rows.values())) for i, p in enumerate(at)]
    text = _text(title, f"{note}\n{y_label} by {x_label}".strip(), head, table)
    ends = "; ".join(
        f"{name} goes from {_number(r[0].middle)} to {_number(r[-1].middle)}" + f" at {_number(places[name][-1])}" * own
        for name, r in rows.items()
    )
    first, last = min(at[0] for at in places.values()), max(at[-1] for at in places.values())
    alt = f"{title}: {y_label} by {x_label}, {_number(first)} to {_number(last)}. {ends}."
    if mark:
        text, alt = f"{text}\n  vertical line: {mark[1]}", f"{alt} A vertical line marks {mark[1]}."
    scale = "log" if log_x else "linear"
    frame = functools.partial(_axes, title=title, note=note, x_label=x_label, y_label=y_label, scale=scale)
    return Picture(functools.partial(_draw_lines, frame, places, rows, ideal, mark, height), title, alt, text)


def sweep(
    measured: Mapping[str, Any], x: Sequence[float], *, x_label: str, title: str, note: str = "",
    cores: int | None = None,
) -> Picture:  # fmt: skip
    """Draw images (or other elements) per second of measured pipelines over a number that grows from one to the next.

    A dashed line shows what the first pipeline would gain if its speed grew in proportion to the number.

    Parameters
    ----------
    measured : labkit.measures.Measures, or dict of str to Measures
        One pipeline for each entry of `x`, in its order. Of several measures, each is a line, and none is dashed.
    x : sequence of number
        Strictly rising, above 0.
    cores : int, optional
        Of the machine: a vertical line marks them, and the dashed line ends its rise there.
    x_label, title, note : str
        As in `lines`.

    Raises
    ------
    ValueError
        If lengths differ, or `x` does not rise from above 0.
    """
    several = all(isinstance(one, Mapping) for one in measured.values())
    series, ideal = {}, ""
    for name, one in measured.items() if several else [("measured", measured)]:
        if len(one) != len(x) or not all(n > 0 for n in x):
            raise ValueError(f"x is {x!r:.60}; allowed: a number above 0 for each of {len(one)} pipelines")
        series[name] = [[round_.images_per_s for round_ in rounds] for rounds in one.values()]
    if not several:
        ideal = "in proportion to the first" + (", up to the cores" if cores else "")
        middle, most = statistics.median(series["measured"][0]), max(x[0], cores or math.inf)
        series[ideal] = [middle * min(n, most) / x[0] for n in x]
    mark = (cores, f"{cores} core{'s' * (cores > 1)}") if cores else None
    rate = f"{next(iter(measured.values())).noun if several else measured.noun}s/s"
    return lines(x, series, x_label=x_label, y_label=rate, title=title, note=note, ideal=ideal, mark=mark)


def points(values: Mapping[str, tuple[float, float]], *, x_label: str, y_label: str, title: str) -> Picture:
    """Draw one named point for each pair, both axes from zero unless a value is negative.

    Parameters
    ----------
    values : dict of str to (x, y)
    x_label, y_label : str
        Quantity and unit.
    title : str

    Raises
    ------
    ValueError
        If there are no points, or a value is not a finite number.
    """
    if not values:
        raise ValueError("values hold no point; allowed: one or more")
    rows = {
        name: (_value(x, f"x of {name!r}").middle, _value(y, f"y of {name!r}").middle)
        for name, (x, y) in values.items()
    }
    table = [(name, _number(a), _number(b)) for name, (a, b) in rows.items()]
    text = _text(title, "", ("", x_label, y_label), table)
    spots = "; ".join(f"{name} at {_number(a)}, {_number(b)}" for name, (a, b) in rows.items())
    alt = f"{title}: {y_label} against {x_label}. {spots}."
    frame = functools.partial(_axes, title=title, note="", x_label=x_label, y_label=y_label)
    return Picture(functools.partial(_draw_points, frame, rows), title, alt, text)


# -- numbers and words -----------------------------------------------------------


def _value(given: Any, what: str, least: float | None = None) -> _Value:
    """Return a number, or the median, the lowest and the highest of several."""
    several = list(given) if hasattr(given, "__iter__") and not isinstance(given, (str, bytes)) else [given]
    rounds = [number(what, one, least, other="that is finite, or several") for one in several or [given]]
    return _Value(statistics.median(rounds), min(rounds), max(rounds), len(rounds))


def _number(value: float) -> str:
    """Return a number for reading, in three digits or all those before the point; below 1 in two.

    >>> _number(1234.5), _number(12.345), _number(0.1234), _number(0)
    ('1,234', '12.3', '0.12', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.{2 + (abs(value) >= 1)}g}"


def _text(title: str, note: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return title, note and an aligned table: names to the left, numbers to the right."""
    several = any("[" in cell for row in rows for cell in row[1:])
    notes = [note] * bool(note) + ["middle values [lowest–highest]"] * several
    table = Table(head, rows, right=range(1, len(head)), caption="\n".join([title, *notes]), indent="  ")
    return str(table)


# -- drawing -----------------------------------------------------------------------


def _axes(
    look: Theme, box: tuple[float, float, float, float], title: str, note: str, x_label: str, y_label: str = "",
    scale: str = "linear",
) -> Axes:  # fmt: skip
    """Return named axes below a title and a note; `box` in inches: left, width, height, room below."""
    left, width, high, below = box
    page = FigurePage(look, heading(title, note, most=None), high + below)
    axes = page.axes(left, page.top, width, high, "left", "bottom")
    axes.set_xscale(scale)
    return _labelled(axes, look, x_label, y_label)


def _labelled(axes: Axes, look: Theme, x_label: str, y_label: str = "") -> Axes:
    """Name both axes, and write their numbers without powers of ten."""
    from matplotlib.ticker import FuncFormatter

    words = {"color": look.muted, "fontsize": SMALL, "family": "DejaVu Sans", "parse_math": False}
    axes.set_xlabel(x_label, **words)
    axes.set_ylabel("\n".join(wrap(y_label, axes.bbox.height / axes.figure.dpi, SMALL)), **words)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda v, _: _tick(v)))
    return axes


def _tick(value: float) -> str:
    return f"{value:,.10g}"


def _write(axes: Axes, words: str, at: tuple[float, float], offset: tuple[float, float], look: Theme, **more: Any):
    """Put words beside a place in data coordinates; `offset` in points."""
    style = {"fontsize": SMALL, "color": look.ink, "va": "center", "family": "DejaVu Sans", "parse_math": False}
    return axes.annotate(words, at, xytext=offset, textcoords="offset points", annotation_clip=False, **style | more)


def _draw_panels(
    head: Sequence[Words],
    panels: Mapping[str, Mapping[str, _Value]],
    alike: bool,
    predicted: Collection[str],
    look: Theme,
) -> Figure:
    names = [wrap(name, 3.0, BODY) for name in next(iter(panels.values()))]
    heights = [max(_ROW, 0.19 * len(lines_) + 0.1) for lines_ in names]
    middles = [below - high / 2 for below, high in zip(itertools.accumulate(heights), heights, strict=True)]
    page = FigurePage(look, head, sum(heights) + 0.6)
    left = max(measure(line, BODY) for lines_ in names for line in lines_) + MARGIN + 0.1
    room = (WIDTH - left) / len(panels)
    # Shares of a whole are drawn beside the whole.
    tops = {unit: max(100.0 * ("%" in unit), *(v.high for v in rows.values())) or 1.0 for unit, rows in panels.items()}
    for column, (unit, rows) in enumerate(panels.items()):
        width = room - max(measure(str(value), BODY) for value in rows.values()) - 0.25
        axes = page.axes(left + column * room, page.top, width, sum(heights), "left", "bottom")
        _labelled(axes, look, unit)
        axes.set(xlim=(0, max(tops.values()) if alike else tops[unit]), ylim=(sum(heights), 0))
        axes.yaxis.set_visible(False)
        axes.grid(axis="x", color=look.lane, linewidth=1)
        for lines_, y in zip(names if column == 0 else [], middles, strict=False):
            _write(axes, "\n".join(lines_), (0, y), (-5, 0), look, ha="right", fontsize=BODY)
        for y, (name, value) in zip(middles, rows.items(), strict=True):
            # The words of the course have their colours, and nothing else has.
            kind = {"fetch": "read", "prepare": "decode", "train": "train"}.get(name.split(" ")[0])
            color = look.fill[kind] if kind else look.muted
            dotted = {"color": "none", "edgecolor": look.ink, "linestyle": ":", "linewidth": 1.2, "clip_on": False}
            axes.barh(y, value.middle, 0.22, **dotted if name in predicted else {"color": color})
            if value.rounds > 1:
                ends = ([value.low, value.high], [y, y])  # twice: a bright edge shows the whisker on its bar
                for color, width in ((look.background, 3.2), (look.ink, 1.2)):
                    axes.plot(*ends, color=color, linewidth=width, marker="|", markeredgewidth=width, clip_on=False)
            _write(axes, str(value), (value.high, y), (6, 0), look, fontsize=BODY)
    return page.figure


def _range(values: Iterable[float]) -> tuple[float, float]:
    """Return the ends of an axis: zero, so that lengths can be compared, and beyond it where there are values."""
    low, high = min(0.0, *values), max(0.0, *values)
    room = (high - low) * 0.06 or 1.0
    return low - room if low < 0 else 0.0, high + room


def _draw_lines(
    frame: Callable[..., Axes],
    places: Mapping[str, list[float]],
    rows: Mapping[str, list[_Value]],
    ideal: str,
    mark: tuple[float, str] | None,
    height: float,
    look: Theme,
) -> Figure:
    words = {name: "\n".join(wrap(name, 2.2, SMALL)) for name in rows}
    right = max(measure(line, SMALL) for w in words.values() for line in w.split("\n")) + 0.75
    needed = sum(0.16 * (1 + w.count("\n")) + 0.08 for w in words.values())
    high, left = max(height, needed), 0.95
    axes = frame(look, (left, WIDTH - left - right, high, 0.65))
    axes.set_ylim(_range([end for values in rows.values() for value in values for end in (value.low, value.high)]))
    axes.grid(axis="y", color=look.lane, linewidth=1)
    if mark:
        axes.set_ylim(top=1.1 * axes.get_ylim()[1])  # room for its name above all lines
        axes.axvline(mark[0], color=look.ink, linewidth=1, linestyle=":")
        _write(axes, mark[1], (mark[0], 0.95), (4, 0), look, xycoords=axes.get_xaxis_transform())
    styles = [style_of(look, i, name == ideal) for i, name in enumerate(rows)]
    for style, x, values in zip(styles, places.values(), rows.values(), strict=True):
        for place, value in zip(x, values, strict=True):
            if value.rounds > 1:
                whisker = {"color": style["color"], "linewidth": 1, "marker": "_", "markersize": 5}
                axes.plot([place] * 2, [value.low, value.high], **whisker)
        axes.plot(x, [v.middle for v in values], **style | ({"marker": ""} if len(x) > 30 else {}))
    _mark_x(axes, sorted({at for x in places.values() for at in x}))
    _name_lines(axes, places, rows, words, high, look, styles)
    return axes.figure


def _mark_x(axes: Axes, x: list[float]) -> None:
    """Begin the x axis at zero at the earliest, and number it at the places of the points if they have the room."""
    if axes.get_xlim()[0] < 0 <= x[0]:
        axes.set_xlim(left=0)
    inches = axes.transData.transform([(at, 0) for at in x])[:, 0] / axes.figure.dpi
    wide = [measure(_tick(at), SMALL) + 0.08 for at in x]
    if len(x) <= 12 and all(inches[i] + wide[i] / 2 <= inches[i + 1] - wide[i + 1] / 2 for i in range(len(x) - 1)):
        axes.set_xticks(x)
        axes.minorticks_off()


def style_of(look: Theme, i: int, ideal: bool) -> dict[str, Any]:
    """Return colour, dashes and marker of a line: up to `MOST` lines differ."""
    color = look.muted if ideal else look.fill[_COLORS[i % len(_COLORS)]]
    style = (0, (4, 3)) if ideal else _STYLES[i // len(_COLORS)]
    marker = "" if ideal else _MARKERS[i % len(_MARKERS)]
    return {"color": color, "linewidth": 1.8, "linestyle": style, "marker": marker, "markersize": 5, "clip_on": False}


def _name_lines(
    axes: Axes, x: Mapping[str, list[float]], rows: Mapping[str, list[_Value]], words: dict[str, str], high: float,
    look: Theme, styles: list[dict[str, Any]],
) -> None:  # fmt: skip
    """Write each name to the right of the chart, pushed apart where two would touch; of a shorter line, at its end."""
    low, top = axes.get_ylim()
    inch = (top - low) / high
    last = max(at[-1] for at in x.values())
    for name in rows:
        if x[name][-1] < last:
            _write(axes, words[name], (x[name][-1], rows[name][-1].middle), (9, 0), look)
    order = sorted((name for name in rows if x[name][-1] == last), key=lambda name: rows[name][-1].middle)
    tall = {name: 0.16 * (1 + words[name].count("\n")) + 0.08 for name in order}
    floor, places = low, {}
    for name in order:  # upwards: no label lies on the one below
        places[name] = max(rows[name][-1].middle, floor + tall[name] / 2 * inch)
        floor = places[name] + tall[name] / 2 * inch
    ceiling = top + 0.1 * inch
    for name in reversed(order):  # and back down, so that none leaves the page
        places[name] = min(places[name], ceiling - tall[name] / 2 * inch)
        ceiling = places[name] - tall[name] / 2 * inch
    across = axes.get_yaxis_transform()
    at = axes.transAxes.inverted().transform(axes.transData.transform((last, 0)))[0]
    for name, y in places.items():
        style = styles[list(rows).index(name)]
        lead = {"transform": across, "clip_on": False, "linewidth": 0.8, "color": look.line}
        axes.plot([at + 0.008, 1.03], [rows[name][-1].middle, y], **lead)
        axes.plot([1.035, 1.07], [y, y], transform=across, **style | {"marker": ""})
        axes.plot([1.0525], [y], transform=across, **style)
        _write(axes, words[name], (1.08, y), (0, 0), look, xycoords=across)


def _draw_points(frame: Callable[..., Axes], rows: Mapping[str, tuple[float, float]], look: Theme) -> Figure:
    left, width, high = 0.95, WIDTH - 0.95 - 0.4, _PLOT + 0.4
    axes = frame(look, (left, width, high, 0.65))
    axes.set(xlim=_range([x for x, _ in rows.values()]), ylim=_range([y for _, y in rows.values()]))
    axes.grid(color=look.lane, linewidth=1)
    spots = {n: axes.transAxes.inverted().transform(axes.transData.transform(p)) for n, p in rows.items()}
    spots = {name: (spot[0] * width, spot[1] * high) for name, spot in spots.items()}
    taken = [(a - 0.07, b - 0.07, a + 0.07, b + 0.07) for a, b in spots.values()]
    for i, (name, place) in enumerate(rows.items()):
        color = look.fill[_COLORS[i % len(_COLORS)]]
        axes.plot(*place, marker=_MARKERS[i % len(_MARKERS)], color=color, markersize=8, clip_on=False)
        box, offset = _free(spots[name], measure(name, SMALL), taken, (width, high))
        taken.append(box)
        _write(axes, name, place, (offset[0] * 72, offset[1] * 72), look)
    return axes.figure


def _free(
    spot: tuple[float, float], wide: float, taken: list[tuple[float, float, float, float]], room: tuple[float, float]
) -> tuple[tuple[float, float, float, float], tuple[float, float]]:
    """Return the box of a label beside a point, and its offset: the first place that covers least; all in inches."""

    def covered(box: tuple[float, float, float, float]) -> float:
        hidden = sum(max(min(box[2], t[2]) - max(box[0], t[0]), 0) * max(min(box[3], t[3]) - max(box[1], t[1]), 0)
                     for t in taken)  # fmt: skip
        outside = max(box[2] - room[0] - 0.25, 0) + max(-box[0], 0) + max(box[3] - room[1] - 0.1, 0) + max(-box[1], 0)
        return hidden + 10 * outside

    places = [(0.13, 0.0), (-0.13 - wide, 0.0)]
    places += [(dx, dy) for dy in (0.2, -0.2, 0.38, -0.38, 0.56, -0.56) for dx in (-wide / 2, 0.08, -0.08 - wide)]
    boxes = [(spot[0] + dx, spot[1] + dy - 0.08, spot[0] + dx + wide, spot[1] + dy + 0.08) for dx, dy in places]
    best = min(range(len(places)), key=lambda i: (covered(boxes[i]), i))
    return boxes[best], places[best]
