"""The idea of each notebook as one drawing: a few fat blocks with words inside, understood before anything is measured.

Where time passes, the blocks come from labkit's simulator, and the picture says so. Where nothing is timed, as in the
path of a photo's bytes, the picture is called a drawing. What is drawn stands in `ideas.json` beside this file.
There, each idea makes `claims`: how many `times` as fast the second of two `rows` of the notebook's own tables or
timelines is, or what else its outputs `show` of that. A test compares them with what is drawn, where two jobs or groups
are `drawn`, and with what was measured. An idea that is about nothing that the notebook measures says what it is about:
`unmeasured`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from labkit import simulate
from labkit.common.numbers import one_of
from labkit.common.palette import Theme, text_on, tint
from labkit.simulate import Costs, Knobs
from labkit.views.figure_page import MARGIN, FigurePage, Words
from labkit.views.picture import WIDTH, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Inches: the height of a lane and of its blocks, the words on its left, and the caption above a group of lanes.
_LANE, _BLOCK, _LEFT, _CAPTION = 0.56, 0.48, 1.75, 0.42

#: Points: the words of blocks and lanes; still readable where a page shows a picture at 700 of its 1000 pixels.
_TEXT = 12.5

#: The colour of a block by what is done in it: a fill of the theme. Whatever is not here is other map work.
_FILLS = {"open": "read", "read": "read", "wait": "read", "decode": "decode", "train": "train", "call": "copy",
          "copy": "copy", "batch": "batch", "transfer": "transfer"}  # fmt: skip

#: The kind of a block of idle time, which has one colour everywhere, and of an arrow, which has no colour.
_IDLE, _ARROW = "idle", "→"


class FatBlock(NamedTuple):
    """One block of a lane: where it begins, how long it is, its words, and the colour that it has by `_FILLS`.

    A block is hollow where nothing works: a thread waits for storage.
    """

    start: float
    length: float
    words: str
    kind: str
    hollow: bool = False


class Group(NamedTuple):
    """Lanes below a caption: what is compared with the group above or below it."""

    caption: str
    lanes: Mapping[str, list[FatBlock]]


@dataclass(frozen=True)
class Sketch:
    """An idea as data.

    Parameters
    ----------
    title, note : str
        The idea in one sentence; what the picture is.
    groups : sequence of Group
    axis : str
        The words below a common axis; without one, the blocks have no scale.
    """

    title: str
    note: str
    groups: list[Group]
    axis: str = ""

    def figure(self, look: Theme) -> Figure:
        """Draw the idea in a theme, on a new figure."""
        high = sum(_CAPTION * bool(caption) + _LANE * len(lanes) for caption, lanes in self.groups)
        head = [Words(self.title, 14, weight="bold"), Words(self.note, _TEXT, "muted")]
        page = FigurePage(look, head, high + (0.55 if self.axis else 0.12))
        left = _LEFT if any(name for _, lanes in self.groups for name in lanes) else MARGIN
        y, span = page.top, WIDTH - left - 2 * MARGIN
        end = max(b.start + b.length for _, lanes in self.groups for lane in lanes.values() for b in lane)
        for caption, lanes in self.groups:
            if caption:
                page.write(MARGIN, y + _CAPTION / 2 + 0.03, caption, _TEXT, weight="bold")
                y += _CAPTION
            own = max(b.start + b.length for lane in lanes.values() for b in lane)
            whole = end if self.axis else own  # without a scale each group fills the width
            for name, lane in lanes.items():
                page.write(left - 0.12, y + _LANE / 2, name, _TEXT, look.ink, ha="right")
                for block in lane:
                    x, width = left + span * block.start / whole, span * block.length / whole
                    _draw(page, block, (x, y + (_LANE - _BLOCK) / 2, width, _BLOCK))
                y += _LANE
        if self.axis:
            axes = page.axes(left, y, span, 0.01, "bottom")
            axes.set(xlim=(0, end))
            axes.tick_params(labelsize=11)
            page.write(left + span / 2, y + 0.41, self.axis, 11, look.muted, ha="center")
        return page.figure

    def text(self) -> str:
        """Return title, note, and the words of all blocks, one line for each lane."""
        lines = [self.title, self.note]
        for caption, lanes in self.groups:
            rows = (
                f"  {name}: {' | '.join(block.words + ' (waits)' * block.hollow for block in blocks)}"
                for name, blocks in lanes.items()
            )
            lines += [caption, *rows] if caption else rows
        return "\n".join(lines)


def _simulated(
    caption: str, costs: Mapping[str, Any], knobs: Mapping[str, Any] = MappingProxyType({}), steps: int = 2,
    warmup: int = 0, why: str = "", names: Mapping[str, str] = MappingProxyType({}),
    lanes: Mapping[str, str] = MappingProxyType({}), only: str = "",
) -> Group:  # fmt: skip
    """Simulate a job of a few steps and return its lanes.

    Parameters
    ----------
    caption : str
        ``{total}`` and ``{busy}`` stand for the length of the job in ms and its busy share.
    costs, knobs : dict
        The arguments of `Costs` and of `Knobs`, whose batches are single images if nothing else is said.
    steps, warmup : int
    why : str
        What the idle accelerator waits for.
    names : dict of str to str
        The words in place of the simulator's names of work.
    lanes : dict of str to str
        The lane for the work of a name; without one, work lies in the lane of its thread.
    only : str
        The name of the accelerator's lane where no other is drawn.
    """
    job = Costs(**costs)
    trace = simulate.run(job, Knobs(**{"batch_size": 1, **knobs}), steps, warmup=warmup)
    begin, end = trace.window_ns
    last = trace.start_ns[trace.select("train")].max()
    name, work = only or "accelerator", {}
    drawn: dict[str, list[FatBlock]] = {name: []}
    for span in trace:
        start, length = (span.start_ns - begin) / 1e6, span.duration_ns / 1e6
        if length < 1 or span.name.startswith("Iterator::"):  # a node that is open encloses the work itself
            continue
        if span.category not in ("wait", "train") and not warmup and span.start_ns >= last:
            continue  # work for a batch beyond the picture
        if span.category == "wait":
            cause = f": {why}" * bool(why)
            drawn[name].append(FatBlock(start, length, f"idle {length:.0f} ms{cause}", _IDLE))
        elif span.category == "train":
            drawn[name].append(FatBlock(start, length, "train", "train"))
        elif not only:
            lane = lanes.get(span.name) or work.setdefault(span.thread, f"thread {len(work) + 1}")
            words, waits = names.get(span.name, span.name), job.asleep(span.name)
            drawn.setdefault(lane, []).append(FatBlock(start, length, words, span.name.split()[0], waits))
    if len(work) == 1:  # one thread needs no number
        drawn = {"thread" if lane == "thread 1" else lane: blocks for lane, blocks in drawn.items()}
    busy = sum(b.length for b in drawn[name] if b.kind == "train") / ((end - begin) / 1e6)
    return Group(caption.format(total=f"{(end - begin) / 1e6:.0f} ms", busy=f"{100 * busy:.0f} %"), drawn)


def _row(texts: Iterable[str]) -> list[FatBlock]:
    """Return blocks one after the other: ``kind: words × length``, ``kind`` alone for both, no kind for a gap.

    The kind ``wait`` is a wait for storage.
    """
    found, at = [], 0.0
    for text in texts:
        head, _, length = text.partition(" × ")
        kind, _, words = head.partition(": ")
        if kind:
            found.append(FatBlock(at, float(length or 1), words or kind, kind, kind == "wait"))
        at += float(length or 1)
    return found


_SIMULATED = "Simulated, not measured."
_DRAWN = "A drawing, not a measurement."
_HOLLOW = " Hollow: a thread waits. Filled: it works."
#: By the number of a notebook: a title, and either the jobs that are simulated, or groups of lanes as rows of texts.
_STORED: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("ideas.json").read_text(encoding="utf-8"))

#: The names of all ideas, and of those that are simulated.
IDEAS = tuple(sorted(_STORED))
SIMULATED = tuple(name for name in IDEAS if "jobs" in _STORED[name])


@cache
def sketch(name: str) -> Sketch:
    """Return the idea of a notebook as data; see `idea`."""
    stored = _STORED[one_of("idea", name, IDEAS)]
    if name in SIMULATED:
        note, groups, axis = _SIMULATED, [_simulated(**job) for job in stored["jobs"]], "milliseconds"
    else:
        note, axis = _DRAWN, stored.get("axis", "")
        captions = stored["groups"].items()
        groups = [Group(caption, {lane: _row(texts) for lane, texts in lanes.items()}) for caption, lanes in captions]
    hollow = any(block.hollow for group in groups for lane in group.lanes.values() for block in lane)
    return Sketch(stored["title"], note + _HOLLOW * hollow, groups, axis)


def idea(name: str) -> Picture:
    """Return the drawing of a notebook's idea.

    Parameters
    ----------
    name : str
        The number of a notebook, as ``02``.

    Returns
    -------
    Picture
        With its words as text.

    Raises
    ------
    ValueError
        If there is no such idea.

    Examples
    --------
    >>> print(idea("02").title)
    Prefetch loads the next batch during the train step.
    """
    found = sketch(name)
    alt = " ".join(f"{caption}." for caption, _ in found.groups if caption)
    return Picture(found.figure, found.title, f"{found.title} {alt} {found.note}", found.text())


def color_of(block: FatBlock, look: Theme) -> str:
    """Return the colour of a block, or of what is waited for in it, as ``#rrggbb``."""
    return look.gap if block.kind == _IDLE else look.fill[_FILLS.get(block.kind, "map")]


def _draw(page: FigurePage, block: FatBlock, box: tuple[float, float, float, float]) -> None:
    """Draw a block with its words inside, or an arrow with its words above it; `box` in inches from the top left."""
    from matplotlib.patches import FancyArrowPatch, Rectangle

    look, (x, y, width, height) = page.look, box
    if block.kind == _ARROW:
        words = block.words.strip(_ARROW)
        low = 0.8 if words else 0.5
        ends = [(place / WIDTH, 1 - (y + low * height) / page.height) for place in (x + 0.06, x + width - 0.06)]
        arrow = FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=16, color=look.ink, shrinkA=0, shrinkB=0)
        page.figure.add_artist(arrow)
        page.write(x + width / 2, y + 0.32 * height, words, 11, ha="center")
        return
    color = color_of(block, look)
    edge, inset = look.background, 0.0
    if block.hollow:  # its outline must not lie below the edge of a neighbour
        edge, color, inset = color, tint(color, look.background), 0.03
    place = (x + inset) / WIDTH, 1 - (y + height - inset) / page.height
    size = (width - 2 * inset) / WIDTH, (height - 2 * inset) / page.height
    page.figure.add_artist(Rectangle(place, *size, facecolor=color, edgecolor=edge, linewidth=2))
    page.write(x + width / 2, y + height / 2, block.words, _TEXT, text_on(color), ha="center")
