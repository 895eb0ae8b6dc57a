"""What `try_it` draws of an answer, one drawing for each kind of answer.

Images stand as input, yours, right and difference. A record stands beside the expected one. A number is a curve through
known points; several are blocks above a ruler. A pipeline is a timeline, which names no causes before the exercise is
solved. None of them tells how the right answer is computed.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from labcourse import ideas
from labcourse.grading import Wrong
from labcourse.student_code import value
from labkit.common.palette import Theme
from labkit.common.table import Table
from labkit.views import charts
from labkit.views.figure_page import BODY, MARGIN, SMALL, FigurePage, fit, heading, measure
from labkit.views.picture import WIDTH, Picture

#: Points of a curve, and where on it the right answers are known, from 0 to 1.
_POINTS, _KNOWN = 61, (0.1, 0.6, 0.95)

#: Points: the words of a block.
_WORDS = 12.5

#: Inches: the words on the left of a row of images, the highest image, and a row of a record.
_NAME, _TALL, _ROW = 1.0, 1.9, 0.62

#: A difference below this share of the range is rounding. The weakest that is drawn has this share of the ink, so that
#: one grey level of 255 is seen.
_ROUNDING, _WEAKEST = 1e-4, 0.45

#: Values, and bytes, of a record that are written down.
_FIRST = 6

# -- numbers ----------------------------------------------------------------------


def curve(truth: Callable[..., Any], cases: Sequence[tuple], unit: str, along: str, function: Any) -> Picture:
    """Draw the student's numbers while one argument grows, as a curve; rings are a few right answers.

    Parameters
    ----------
    truth : callable
        Returns the right answer and more; its docstring begins with how the student calls the function.
    cases : sequence of tuple
        The other arguments are those of the first one, and the argument stays among those of all.
    unit : str
        Of the student's number.
    along : str
        The name of the argument that grows, as the student calls it; "" for the first one that is a number.
    function : callable
        The student's.

    Raises
    ------
    labcourse.grading.Wrong
        If a number of the student is none that can be drawn.
    """
    call, names = signature(truth)
    first = cases[0]
    at = names.index(along) if along else next(i for i, given in enumerate(first) if type(given) in (int, float))
    low, high = (choose(case[at] for case in cases) for choose in (min, max))
    places = np.linspace(max(first[at] / 4, low), min(first[at] * 2, high), _POINTS)
    if all(isinstance(case[at], int) for case in cases):
        places = np.rint(places).astype(int)
    x = np.union1d(places, first[at]).tolist()
    line = {place: (*first[:at], place, *first[at + 1 :]) for place in x}
    mine = [value(function, *case) for case in line.values()]
    if odd := [place for place, one in zip(x, mine, strict=True) if not math.isfinite(one)]:
        raise Wrong(f"for {names[at]} = {_said(odd[0])} you return no number that a curve can show")
    known = {x[k]: float(truth(*line[x[k]])[0]) for k in sorted({int(part * (len(x) - 1)) for part in _KNOWN})}
    others = ", ".join(f"{name} = {given}" for i, (name, given) in enumerate(zip(names, first, strict=True)) if i != at)
    here = mine[x.index(first[at])]
    note = f"{others}. " * bool(others) + f"For {names[at]} = {first[at]:,} yours is {_said(here)}{unit}."
    label = unit.strip() or "a share"
    plain = charts.lines(x, {"yours": mine}, x_label=names[at], y_label=label, title=f"Your {call}", note=note)
    rings = "; ".join(f"{_said(known[place])}{unit} at {_said(place)}" for place in known)
    words = f"The rings are right answers: {rings}."
    make = functools.partial(_ringed, plain, known, (first[at], here))
    return Picture(make, plain.title, f"{plain.alt} {words}", f"{plain.text}\n{words}")


def signature(truth: Callable[..., Any]) -> tuple[str, list[str]]:
    """Return how a student calls an exercise's function, as in the docstring of its truth, and the arguments' names."""
    call = re.match(r"``(\w+\((.*?)\))``", truth.__doc__ or "``answer()``")
    return call[1], call[2].split(", ")


def _said(number: float) -> str:
    """Return a number in five digits, or all before the point; one that is huge with a power of ten."""
    return f"{number:,.0f}" if 1e5 <= abs(number) < 1e15 else f"{number:,.5g}"


def _ringed(plain: Picture, known: Mapping[float, float], here: tuple[float, float], look: Theme) -> Any:
    """Draw a line, rings at places that are known, and a dot where the example lies."""
    figure = plain.figure(look.name)
    axes = figure.axes[0]
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, *(1.1 * y for y in known.values())), max(high, *(1.1 * y for y in known.values())))
    style = {"linestyle": "", "marker": "o", "color": look.ink, "clip_on": False, "zorder": 5}
    axes.plot(list(known), list(known.values()), markersize=11, markerfacecolor="none", markeredgewidth=1.8, **style)
    axes.plot(*([one] for one in here), markersize=6, **style)
    for place, right in known.items():
        words = {"xytext": (0, 11), "textcoords": "offset points", "ha": "center", "fontsize": SMALL}
        axes.annotate("right", (place, right), color=look.muted, **words)
    return figure


def blocks(title: str, ruler: str, lanes: Mapping[str, Any], words: str) -> Picture:
    """Draw lanes of blocks above a ruler.

    Parameters
    ----------
    title, ruler, words : str
        The example, what the ruler counts, and a note.
    lanes : mapping of name to list of tuple
        Of each block the words, the kind, both ends, and whether it waits, if it does.
    """
    if not any(lanes.values()):
        raise Wrong("nothing comes")
    end = max(end for row in lanes.values() for _, _, _, end, *_ in row)
    kinds = ({name: [_block(room, *one) for one in row] for name, row in lanes.items()} for room in (end, 0))
    drawn, written = (ideas.Sketch(title, words, [ideas.Group("", each)], ruler) for each in kinds)
    return Picture(drawn.figure, title, f"{title} {words}", written.text())


def _block(ruler: float, words: str, kind: str, first: float, last: float, waits: bool = False) -> ideas.FatBlock:
    """Return a block; on a ruler of that length, one that is too narrow for its words has none, but in the text."""
    fits = not ruler or measure(words, _WORDS) < (last - first) / ruler * (WIDTH - 2.1) - 0.08
    return ideas.FatBlock(first, last - first, words if fits else "", kind, waits)


def in_turn(items: Iterable[Any], places: Iterable[int] | None = None) -> list[tuple]:
    """Return the blocks of items, one after the other, or each at its place."""
    return [(str(one), "decode", k, k + 1) for k, one in zip(places or itertools.count(), items, strict=False)]


def parts(title: str, ruler: str, whole: Sequence[Any], who: str, mine: Iterable[Sequence[Any]]) -> Picture:
    """Draw a whole, and below it the parts that the student makes of it.

    Parameters
    ----------
    title, ruler : str
        The example, and what the ruler counts.
    whole : sequence
        Different items.
    who : str
        Whose the parts are; they are counted from 0.
    mine : iterable of sequence
        The items of each part.
    """
    at = {item: k for k, item in enumerate(whole)}
    lanes = {f"{who} {k}": in_turn(part, [at.get(one, len(at)) for one in part]) for k, part in enumerate(mine)}
    words = "Each item stands at its place, and behind all of them what is none of them."
    return blocks(title, ruler, {"all": in_turn(whole), **lanes}, words)


# -- images -----------------------------------------------------------------------


def images(rows: Mapping[str, Sequence[np.ndarray]], title: str, low: float = 0.0, high: float = 1.0) -> Picture:
    """Draw images side by side: input, yours, right and difference, one row for each name.

    Parameters
    ----------
    rows : dict of str to (input, yours, right)
        Arrays of the shape (height, width) or (height, width, 3); the last two of one shape. One of bytes goes from 0
        to 255, whatever `low` and `high` say.
    title : str
    low, high : float
        The values that are drawn black and white.
    """
    differences = {name: np.nan_to_num(np.abs(np.subtract(yours, right, dtype=float)), nan=math.inf, posinf=math.inf)
                   for name, (_, yours, right) in rows.items()}  # fmt: skip
    found = []
    for name, far in differences.items():
        at, (_, yours, right) = np.unravel_index(np.argmax(far), far.shape), rows[name]
        most = f"the largest difference is {far[at]:.3g}" if far[at] else "no difference"
        if far[at] > _ROUNDING * (high - low):
            most += f", at row {at[0]}, column {at[1]}: {yours[at]:.4g}, not {right[at]:.4g}"
        elif far[at]:
            most += ", which is rounding"
        found.append(f"{name}: {most}" if name else most)
    note = "; ".join(found)
    note = f"{note[0].upper()}{note[1:]}. From {low:.3g}, black, to {high:.3g}, white."
    shown = {name: [*(_scaled(one, low, high) for one in row), differences[name]] for name, row in rows.items()}
    alt = f"{title}: input, yours, right and difference. {note}"
    make = functools.partial(_draw_images, shown, high - low, heading(title, note, most=None))
    return Picture(make, title, alt, f"{title}\n{note}", photos=True)


@functools.cache
def photos(count: int) -> np.ndarray:
    """Return the first photos of the lab, small: uint8, shape (count, 48, 48, 3)."""
    from labkit.sources import pixels
    from labkit.sources.photo_files import generator

    return np.stack([pixels.shrink(generator.make(number, 7)).numpy() for number in range(3, 3 + count)])


def _scaled(image: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return an image of three colours from 0 to 1; what is no number is 0."""
    low, high = (0, 255) if image.dtype == np.uint8 else (low, high)
    image = np.clip(np.nan_to_num((image.astype(float) - low) / (high - low)), 0, 1)
    return image if image.ndim == 3 else np.stack([image] * 3, axis=-1)


def _draw_images(panels: Mapping[str, Sequence[np.ndarray]], span: float, head: Sequence[Any], look: Theme) -> Any:
    from matplotlib.colors import to_rgb

    left = _NAME if any(panels) else MARGIN
    wide = (WIDTH - left - MARGIN) / 4
    most = min(wide * len(one) / one.shape[1] for row in panels.values() for one in row)
    tall = min(most, _TALL if len(panels) == 1 else 1.3)
    page = FigurePage(look, head, 0.3 + (tall + 0.1) * len(panels))
    none, full = np.array(to_rgb(look.lane)), np.array(to_rgb(look.ink))
    for column, words in enumerate(("input", "yours", "right", "difference")):
        page.write(left + (column + 0.5) * wide, page.top + 0.1, words, BODY, ha="center", weight="bold")
        for row, (name, shown) in enumerate(panels.items()):
            image, y = shown[column], page.top + 0.28 + row * (tall + 0.1)
            if column == 3:
                far = np.minimum(image.reshape(*image.shape[:2], -1).max(-1, keepdims=True) / span, 1)
                image = none + np.where(far > _ROUNDING, _WEAKEST + (1 - _WEAKEST) * far, 0) * (full - none)
            width = tall * image.shape[1] / len(image)
            axes = page.axes(left + (column + 0.5) * wide - width / 2, y, width, tall, "left", "right", "top", "bottom")
            axes.imshow(image, interpolation="nearest", aspect="auto")
            axes.set(xticks=[], yticks=[])
            if column == 0:
                page.write(MARGIN, y + tall / 2, name, BODY)
    return page.figure


# -- records ----------------------------------------------------------------------


def record(names: Sequence[str], yours: Any, expected: tuple, title: str) -> Picture:
    """Draw what an answer made of a record beside what is expected: types, shapes, first values, and photos.

    Parameters
    ----------
    names : sequence of str
        One for each part of a record.
    yours, expected : tuple of tensor, array, bytes, or dict of these
        The parts; what the student returns may have any form.
    title : str
    """
    mine, right = (_parts(each, names) for each in (yours, expected))
    cells = {name: [_described(each.get(name)) for each in (mine, right)] for name in {**right, **mine}}
    rows = [(name, *(" · ".join(words) for words, _ in pair)) for name, pair in cells.items()]
    text = str(Table(("", "yours", "expected"), rows, caption=title))
    alt = f"{title} " + " ".join(f"{name}: yours {mine}; expected {right}." for name, mine, right in rows)
    return Picture(functools.partial(_draw_record, cells, title), title, alt, text, photos=True)


def _parts(made: Any, names: Sequence[str], path: str = "") -> dict[str, Any]:
    """Return the parts of a nested record by their names."""
    if isinstance(made, dict):
        items = list(made.items())
    elif isinstance(made, tuple) or (isinstance(made, list) and not path):
        items = list(zip([*names, *(f"part {i + 1}" for i in range(len(names), len(made)))], made, strict=False))
    else:
        return {path or names[0]: made}
    return {name: one for key, part in items for name, one in _parts(part, (), f"{path} {key}".strip()).items()}


def _described(part: Any) -> tuple[tuple[str, str], np.ndarray | None]:
    """Return type and shape, the first values, and the pixels of what is a photo."""
    import tensorflow as tf

    if part is None:
        return ("nothing", ""), None
    found = np.asarray(part)
    if found.shape == () and found.dtype == object and not isinstance(found.item(), bytes):
        return (type(part).__name__, ""), None
    if found.shape == () and isinstance(found.item(), bytes):
        data = found.item()
        photo = tf.io.decode_jpeg(data, 3).numpy() if data.startswith(b"\xff\xd8\xff") else None
        return (f"bytes, {len(data):,} of them", repr(data[:_FIRST]) + "…" * (len(data) > _FIRST)), photo
    image = found[0] if found.ndim == 4 else found
    photo = image if image.ndim == 3 and image.shape[-1] == 3 and image.dtype == np.uint8 else None
    first = ", ".join(f"{one:.4g}" if isinstance(one, float) else str(one) for one in found.ravel()[:_FIRST].tolist())
    return (f"{found.dtype}, shape {found.shape}", first + ", …" * (found.size > _FIRST)), photo


def _draw_record(cells: Mapping[str, Sequence[Any]], title: str, look: Theme) -> Any:
    page = FigurePage(look, heading(title, most=None), 0.3 + _ROW * len(cells))
    wide = (WIDTH - _NAME - 0.4) / 2
    for column, words in enumerate(("yours", "expected")):
        x = _NAME + 0.4 + column * wide
        page.write(x, page.top + 0.1, words, BODY, weight="bold")
        for row, (name, pair) in enumerate(cells.items()):
            (kind, first), photo = pair[column]
            y = page.top + 0.28 + row * _ROW
            page.write(MARGIN, y + _ROW / 2, fit(name, _NAME, BODY), BODY)
            page.write(x, y + 0.2, fit(kind, wide - 0.9), BODY)
            page.write(x, y + 0.42, fit(first, wide - 0.9, SMALL), SMALL, look.muted)
            if photo is not None:
                axes = page.axes(x + wide - 0.8, y + 0.04, (_ROW - 0.08) * photo.shape[1] / len(photo), _ROW - 0.08)
                axes.imshow(photo, interpolation="nearest", aspect="auto")
                axes.axis("off")
    return page.figure


# -- pipelines --------------------------------------------------------------------


def simulated(number: str, made: Any, stages: tuple[Any, ...], step_ms: float, title: str, **how: Any) -> Any:
    """Return the timeline of a student's pipeline on the simulated clock; see `labcourse.fairness.simulate`."""
    from labcourse import fairness
    from labkit.views.widget import show

    return show(timeline(number, fairness.simulate(made, stages, step_ms, **how).trace), title=title)


def timeline(number: str, trace: Any) -> Any:
    """Return the timeline of a trace: what the accelerator waits for is told once the exercise was solved."""
    from labcourse import gradebook
    from labkit.timeline.timeline import Timeline

    return Timeline(trace, explain=number in gradebook.solved())
