"""The idea of each notebook as one drawing: a few fat blocks with words inside, understood before anything is measured.

Where time passes, the blocks come from labkit's simulator, and the picture says so. Where nothing is timed, as in the
path of a photo's bytes, the picture is called a drawing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from labkit import simulate
from labkit.common.numbers import one_of
from labkit.common.palette import Theme, text_on
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
_FILLS = {"open": "copy", "read": "read", "decode": "decode", "train": "train", "call": "other",
          "copy": "copy", "batch": "batch"}  # fmt: skip

#: The kind of a block of idle time, which has one colour everywhere, and of an arrow, which has no colour.
_IDLE, _ARROW = "idle", "→"


class FatBlock(NamedTuple):
    """One block of a lane: where it begins, how long it is, its words, and the colour that it has by `_FILLS`."""

    start: float
    length: float
    words: str
    kind: str


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

    def text(self) -> str:
        """Return title, note, and the words of all blocks, one line for each lane."""
        lines = [self.title, self.note]
        for caption, lanes in self.groups:
            rows = (f"  {name}: {' | '.join(block.words for block in blocks)}" for name, blocks in lanes.items())
            lines += [caption, *rows] if caption else rows
        return "\n".join(lines)


@dataclass(frozen=True)
class Scene:
    """A simulated job of a few steps, and how its blocks are called.

    Parameters
    ----------
    caption : str
        ``{total}`` and ``{busy}`` stand for the length of the job in ms and its busy share.
    costs, knobs : Costs, Knobs
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

    caption: str
    costs: Costs
    knobs: Knobs = field(default_factory=lambda: Knobs(1))
    steps: int = 2
    warmup: int = 0
    why: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    lanes: Mapping[str, str] = field(default_factory=dict)
    only: str = ""

    def group(self) -> Group:
        """Simulate the job and return its lanes."""
        trace = simulate.run(self.costs, self.knobs, self.steps, warmup=self.warmup)
        begin, end = trace.window_ns
        last = trace.start_ns[trace.select("train")].max()
        name, work = self.only or "accelerator", {}
        lanes: dict[str, list[FatBlock]] = {name: []}
        for span in trace:
            start, length = (span.start_ns - begin) / 1e6, span.duration_ns / 1e6
            if length < 1 or span.name.startswith("Iterator::"):  # a node that is open encloses the work itself
                continue
            if span.category not in ("wait", "train") and not self.warmup and span.start_ns >= last:
                continue  # work for a batch beyond the picture
            if span.category == "wait":
                cause = f": {self.why}" * bool(self.why)
                lanes[name].append(FatBlock(start, length, f"idle {length:.0f} ms{cause}", _IDLE))
            elif span.category == "train":
                lanes[name].append(FatBlock(start, length, "train", "train"))
            elif not self.only:
                lane = self.lanes.get(span.name) or work.setdefault(span.thread, f"thread {len(work) + 1}")
                block = FatBlock(start, length, self.names.get(span.name, span.name), span.name.split()[0])
                lanes.setdefault(lane, []).append(block)
        if len(work) == 1:  # one thread needs no number
            lanes = {"CPU" if lane == "thread 1" else lane: blocks for lane, blocks in lanes.items()}
        busy = sum(b.length for b in lanes[name] if b.kind == "train") / ((end - begin) / 1e6)
        return Group(self.caption.format(total=f"{(end - begin) / 1e6:.0f} ms", busy=f"{100 * busy:.0f} %"), lanes)


def _row(*words: str, lengths: Iterable[float] = ()) -> list[FatBlock]:
    """Return blocks one after the other; words that begin with an arrow are a block without a colour."""
    found, at = [], 0.0
    sizes = list(lengths) or [1.0] * len(words)
    for text, length in zip(words, sizes, strict=True):
        kind, _, rest = text.partition(":")
        found.append(FatBlock(at, length, (rest or kind).strip(), kind))
        at += length
    return found


def _interval(interval: int, pixels: int = 3) -> Group:
    """Return which pixel each unit of a hardware pipeline has in each cycle, one pixel every `interval` cycles."""
    lanes: dict[str, list[FatBlock]] = {}
    for place, (unit, kind) in enumerate((("load", "read"), ("multiply", "map"), ("store", "copy"))):
        lanes[unit] = []
        for pixel in range(pixels):
            at = place + pixel * interval
            lanes[unit].append(FatBlock(at, 1, f"pixel {pixel + 1}", kind))
            if interval > 1 and pixel < pixels - 1:
                lanes[unit].append(FatBlock(at + 1, interval - 1, f"idle {interval - 1} cycles", _IDLE))
    often = "in every cycle" if interval == 1 else f"every {interval} cycles"
    end = 2 + (pixels - 1) * interval + 1
    return Group(
        f"Initiation interval {interval}: a new pixel starts {often}; {pixels} pixels take {end} cycles", lanes
    )


_SIMULATED = "Simulated, not measured."
_DRAWN = "A drawing, not a measurement."
_TURN = "two steps in {total}, accelerator busy {busy}"
_MAP = "waits for the map"
_FOUR = Knobs(4, cores=4)
_DECODED = Costs(map={"decode": 60}, train=25)
#: By the number of a notebook: a title, and the jobs that are drawn.
TABLE = {
    "00": (
        "While the accelerator trains on one batch, the CPU can prepare the next batch.",
        Scene(f"In turn: {_TURN}", Costs(open=18, read=17, map={"decode": 25}, train=60), why="no batch"),
        Scene(
            f"Overlapped: {_TURN}",
            Costs(open=18, read=17, map={"decode": 25}, train=60), Knobs(1, prefetch=1), warmup=2,
        ),
    ),
    "01": (
        "In turn: while a batch is loaded, the accelerator is idle.",
        Scene(f"A naive pipeline: {_TURN}", Costs(open=20, read=25, map={"decode": 45}, train=60), why="no batch"),
    ),
    "02": (
        "Prefetch loads the next batch during the train step.",
        Scene(f"Without prefetch: {_TURN}", Costs(map={"load a batch": 56}, train=60), why="no batch"),
        Scene(
            f"With prefetch: {_TURN}",
            Costs(map={"load a batch": 56}, train=60), Knobs(1, prefetch=1), warmup=2,
        ),
    ),
    "03": (
        "Slow reads can wait at the same time.",
        Scene("Four slow reads in turn: {total}", Costs(read=50, train=35), _FOUR, 1, why="waits for four reads"),
        Scene(
            "Four slow reads at once: {total}",
            Costs(map={"read file": 50}, train=35, sleeps=("map",)), _FOUR.changed(map_calls=4), 1, why="read",
            names={"read file": "read"},
        ),
    ),
    "04": (
        "Four threads decode four photos at the same time, if there are four cores.",
        Scene("One thread: {total}", _DECODED, _FOUR, 1, why="waits for four photos"),
        Scene("Four threads on four cores: {total}", _DECODED, _FOUR.changed(map_calls=4), 1, why="decode"),
    ),
    "04b": (
        "AUTOTUNE begins with few threads and adds threads while the job runs.",
        Scene("At the beginning, one thread: {total}", _DECODED, _FOUR, 1, why="waits for four photos"),
        Scene("A little later, two threads: {total}", _DECODED, _FOUR.changed(map_calls=2, threads=2), 1, why="decode"),
    ),
    "05": (
        "The second epoch takes from the cache what the first epoch prepared.",
        Scene(
            "Epoch 1: {total}, accelerator busy {busy}",
            Costs(read=35, map={"decode": 50, "augment": 50}, train=60), steps=1, why="waits for a batch",
        ),
        Scene(
            "Epoch 2: {total}, accelerator busy {busy}",
            Costs(map={"augment": 50}, train=60), steps=1, why="augment",
        ),
    ),
    "06": (
        "Each call of a map costs something. One call for a whole batch pays that cost once.",
        Scene("Map each image, then batch: {total}", Costs(map={"call": 22, "work": 22}, train=40), _FOUR, 1, why=_MAP),
        Scene(
            "Batch four images, then map the batch: {total}",
            Costs(map={"call": 22, "work": 88}, train=40), steps=1, why=_MAP, names={"work": "work on 4 images"},
        ),
    ),
    "07": (
        "One file with many records is opened once. Many small files are opened one by one.",
        Scene("Four small files: {total}", Costs(open=25, read=25, train=40), _FOUR, 1, why="waits for four files"),
        Scene(
            "One record file: {total}",
            Costs(open=25, read=100, train=40), steps=1, why="waits for one file", names={"read": "read 4 photos"},
        ),
    ),
    "08": (
        "A card can read and decode, so that the host only augments.",
        Scene(
            "The host does all the work: {total}",
            Costs(read=25, map={"decode": 55, "augment": 40}, train=60), steps=1, why="waits for a batch",
        ),
        Scene(
            "The card reads and decodes: {total}",
            Costs(map={"decode on the card": 40, "augment": 40}, train=60), steps=1, why="waits for a batch",
            names={"decode on the card": "read, decode"}, lanes={"decode on the card": "card", "augment": "CPU"},
        ),
    ),
    "09": (
        "Each change makes the step shorter, because the accelerator is idle for a shorter time.",
        *(
            Scene("", Costs(open=fetch, read=fetch, map={"work": work}, train=30), Knobs(2, **knobs), 1, 6, only=rung)
            for rung, fetch, work, knobs in (
                ("naive", 6.5, 50, {}),
                ("prefetch", 6.5, 50, {"prefetch": 1}),
                ("interleave", 6.5, 50, {"prefetch": 1, "cycle_length": 4}),
                ("parallel map", 6.5, 50, {"prefetch": 1, "cycle_length": 4, "map_calls": 2}),
                ("cache", 0, 25, {"prefetch": 1, "map_calls": 2}),
            )
        ),
    ),
    "10": (
        "Find the idle time. Then look which lane works at that time.",
        Scene(
            "Which work does the accelerator wait for?",
            Costs(read=90, map={"decode": 20}, train=50), Knobs(1, prefetch=1), warmup=2, why="why?",
            lanes={"read": "reads: look here", "decode": "decodes"},
        ),
    ),
    "11": (
        "The same steps in less time: a pipeline changes how soon a model is good, not how good it becomes.",
        Scene(f"A naive pipeline: {_TURN}", Costs(map={"load": 75}, train=40), why="no batch"),
        Scene(
            f"A good pipeline: {_TURN}",
            Costs(map={"load": 25}, train=40), Knobs(1, prefetch=1), warmup=2,
        ),
    ),
    "11c": (
        "A step has a fixed part. A large batch pays for it once, a small batch pays again and again.",
        *(
            Scene(f"{steps} of {batch} photos: {{total}}", Costs(map={"load": 1}, train=10 + 2.5 * batch),
                  Knobs(1, prefetch=1), count, 2, names={"load": "load"}, only="accelerator")
            for steps, batch, count in (("Four steps", 8, 4), ("One step", 32, 1))
        ),
    ),
}  # fmt: skip

_RECORDS = ("read: record 1", "read: record 2")
_CAT = "read: a cat, label 3"
_STORED, _BATCHES = ("→: JPEG bytes", "→: pixels")
_DRAWINGS = {
    "07b": Sketch(
        "A silent error changes the data, and no step of the pipeline complains.",
        _DRAWN,
        [
            Group("A right pipeline", {"": _row(_CAT, "→", "map: pipeline", "→", "train: a cat, label 3")}),
            Group(
                "A pipeline with a mistake, and no error message",
                {"": _row(_CAT, "→", "batch: a mistake", "→", "train: a cat, label 7")},
            ),
        ],
    ),
    "07c": Sketch(
        "A damaged record stops the job, unless the pipeline leaves the record out and counts it.",
        _DRAWN,
        [
            Group("The job stops", {"file": _row(*_RECORDS, "batch: damaged", "copy: never read")}),
            Group(
                "The job goes on",
                {"file": _row(*_RECORDS, "batch: left out, counted", "read: record 4")},
            ),
        ],
    ),
    "11b": Sketch(
        "A model knows the pictures of its training. Other pictures cost accuracy, and nothing complains.",
        _DRAWN,
        [
            Group("Training", {"": _row("read: a file", "→", "map: every pixel, RGB", "→", "train: learns")}),
            Group(
                "Serving, written by somebody else",
                {"": _row("read: the file", "→", "batch: skips pixels, BGR", "→", "train: guesses")},
            ),
        ],
    ),
    "11d": Sketch(
        "The same work can be done before the link or behind it. What goes over the link has another size.",
        _DRAWN,
        [
            Group(
                "In the pipeline: float32 goes over the link",
                {"": _row("map: augment", "→: four bytes a value", "train: train", lengths=(1, 1.4, 1))},
            ),
            Group(
                "In the model: uint8 goes over the link",
                {"": _row("batch: batch", "→: one byte a value", "train: augment, train", lengths=(1, 1.4, 1))},
            ),
        ],
    ),
    "11e": Sketch(
        "A shortcut carries the input of a block past the block, and the block only adds a change.",
        _DRAWN,
        [
            Group("Plain: layer after layer", {"": _row("read: input", "→", "map: two layers", "→", "train: output")}),
            Group(
                "Residual: the input, and a change",
                {"": _row("read: input", "→", "map: two layers", "→", "train: input + change")},
            ),
        ],
    ),
    "11f": Sketch(
        "model.fit reads what a pipeline delivers by its position, and not by its meaning.",
        _DRAWN,
        [
            Group("The pipeline delivers", {"": _row("read: image", "batch: grey level", "map: label")}),
            Group("model.fit reads", {"": _row("read: inputs", "batch: targets", "map: weights")}),
        ],
    ),
    "12": Sketch(
        "Only the first step of a pipeline knows where the bytes come from.",
        _DRAWN,
        [
            Group(
                "Five sources of the same photos",
                {
                    source: _row(f"read: {how}", _BATCHES.replace("pixels", "photos"), "map: the same pipeline", "→",
                                 "train: train", lengths=(2.2, 1, 2, 0.5, 1))
                    for source, how in (
                        ("CSV of files", "open each file"), ("database", "ask one query"),
                        ("binary file", "cut equal pieces"), ("Parquet", "take groups of rows"),
                        ("object store", "send requests"),
                    )
                },
            ),
        ],
    ),
    "13": Sketch(
        "All loaders do the same work. Who does it, and how a batch comes back, makes the difference.",
        _DRAWN,
        [
            Group(
                "Threads: one memory, one interpreter",
                {
                    "thread 1": _row("decode: photo 1", "decode: photo 3", "batch: batch", lengths=(2, 2, 1)),
                    "thread 2": _row("decode: photo 2", "decode: photo 4", lengths=(2, 2)),
                    "accelerator": _row("idle: waits", "train: train", lengths=(5, 1.7)),
                },
            ),
            Group(
                "Processes: free interpreters, but batches travel",
                {
                    "worker 1": _row("decode: photos 1 and 2", "batch: batch", "transfer: send",
                                     lengths=(4, 1, 1)),
                    "worker 2": _row("decode: photos 3 and 4", "batch: batch", lengths=(4, 1)),
                    "accelerator": _row("idle: waits", "train: train", lengths=(6, 1.7)),
                },
            ),
        ],
    ),
    "13b": Sketch(
        "Somewhere between the file and the network, pixels go to the GPU. You choose where.",
        _DRAWN,
        [
            Group(
                "The processor does all",
                {"": _row("read: read", "decode: decode", "map: augment", "→: pixels", "train: train",
                          lengths=(1, 1.4, 1.2, 1, 1))},
            ),
            Group(
                "Mixed: the GPU ends what the processor begins",
                {"": _row("read: read", "→: JPEG", "decode: decode", "map: augment", "train: train",
                          lengths=(1, 1, 1.4, 1.2, 1))},
            ),
        ],
    ),
    "14": Sketch(
        "A service adds machines to the pipeline. It removes waits; it makes no cores, and its batches travel.",
        _DRAWN,
        [
            Group(
                "One machine",
                {
                    "host": _row("read: wait and prepare", "read: wait and prepare", lengths=(4, 4)),
                    "accelerator": _row("idle: waits", "train: train", "idle: waits", "train: train",
                                        lengths=(4, 1.4, 2.6, 1.4)),
                },
            ),
            Group(
                "Two workers of a service",
                {
                    "worker 0": _row("read: wait and prepare", "transfer: send", lengths=(4, 1)),
                    "worker 1": _row("read: wait and prepare", "transfer: send", lengths=(4, 1)),
                    "accelerator": _row("idle: waits", "train: train", "train: train", lengths=(5, 1.4, 1.4)),
                },
            ),
        ],
    ),
    "14b": Sketch(
        "Every process trains on its part of the batch. The all-reduce adds the gradients, and waits for the last one.",
        _DRAWN,
        [
            Group(
                "Both are fast",
                {
                    "process 0": _row("train: half a batch", "→: gradients", "transfer: all-reduce", "train: change",
                                      lengths=(4, 1, 2, 1)),
                    "process 1": _row("train: half a batch", "→: gradients", "transfer: all-reduce", "train: change",
                                      lengths=(4, 1, 2, 1)),
                },
            ),
            Group(
                "The data of process 1 is late",
                {
                    "process 0": _row("train: half a batch", "→: gradients", "idle: waits in the all-reduce",
                                      "transfer: all-reduce", "train: change", lengths=(4, 1, 3, 2, 1)),
                    "process 1": _row("idle: waits for data", "train: half a batch", "→: gradients",
                                      "transfer: all-reduce", "train: change", lengths=(3, 4, 1, 2, 1)),
                },
            ),
        ],
    ),
    "16": Sketch(
        "A GPU trains beside the pipeline. A processor that trains takes its cores away.",
        _DRAWN,
        [
            Group(
                "With a GPU: the cores prepare the next batch during a step",
                {
                    "cores": _row("map: prepare", "map: prepare", "map: prepare", lengths=(3, 3, 3)),
                    "GPU": _row("idle: waits", "train: train", "idle: waits", "train: train", "idle: waits",
                                lengths=(3, 1.7, 1.3, 1.7, 1.3)),
                },
            ),
            Group(
                "Without a GPU: the train step is work for the same cores",
                {"cores": _row("map: prepare", "train: train", "map: prepare", "train: train",
                               lengths=(3, 1.7, 3, 1.7))},
            ),
        ],
    ),
    "12b": Sketch(
        "Text becomes numbers before a network can learn from it.",
        _DRAWN,
        [
            Group(
                "A line of a file on its way to the network",
                {"": _row("read: A red circle!", "→: clean", "map: a red circle", "→: encode", "batch: 2 7 4",
                          "→: embed", "train: 3 vectors", lengths=(1.7, 0.9, 1.6, 0.9, 1, 0.9, 1.3))},
            )
        ],
    ),
    "08.card": Sketch(
        "A card with an SSD and an FPGA decodes photos before they reach the host.",
        _DRAWN,
        [
            Group(
                "Without the card: the host decodes",
                {"": _row("read: SSD", _STORED, "decode: host: decode, resize, augment", _BATCHES, "train: accelerator",
                          lengths=(1.1, 1.3, 3.9, 1, 1.5))},
            ),
            Group(
                "With the card: the FPGA decodes",
                {"": _row("read: card: SSD", _STORED, "decode: card: FPGA decodes, resizes", _BATCHES,
                          "map: host: augment", "→", "train: accelerator",
                          lengths=(1.05, 1.15, 2.9, 0.8, 1.6, 0.35, 1.3))},
            ),
        ],
    ),
    "08.interval": Sketch(
        "A hardware pipeline is fast when it can start a new pixel in every cycle.",
        _DRAWN,
        [_interval(1), _interval(4)],
        "clock cycles",
    ),
}  # fmt: skip
_DRAWINGS["08b"] = _DRAWINGS["08.card"]

#: The names of all ideas.
IDEAS = tuple(sorted([*TABLE, *_DRAWINGS]))


@cache
def sketch(name: str) -> Sketch:
    """Return the idea of a notebook as data; see `idea`."""
    if one_of("idea", name, IDEAS) in _DRAWINGS:
        return _DRAWINGS[name]
    title, *jobs = TABLE[name]
    return Sketch(title, _SIMULATED, [job.group() for job in jobs], "milliseconds")


def idea(name: str) -> Picture:
    """Return the drawing of a notebook's idea.

    Parameters
    ----------
    name : str
        The number of a notebook, as ``02``, or one of ``08.card`` and ``08.interval``.

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
    return Picture(lambda look: _figure(found, look), found.title, f"{found.title} {alt} {found.note}", found.text())


def _figure(found: Sketch, look: Theme) -> Figure:
    high = sum(_CAPTION * bool(caption) + _LANE * len(lanes) for caption, lanes in found.groups)
    head = [Words(found.title, 14, weight="bold"), Words(found.note, _TEXT, "muted")]
    page = FigurePage(look, head, high + (0.55 if found.axis else 0.12))
    left = _LEFT if any(name for _, lanes in found.groups for name in lanes) else MARGIN
    y, span = page.top, WIDTH - left - 2 * MARGIN
    blocks = [(block, lanes) for _, lanes in found.groups for lane in lanes.values() for block in lane]
    end = max(block.start + block.length for block, _ in blocks)
    for caption, lanes in found.groups:
        if caption:
            page.write(MARGIN, y + _CAPTION / 2 + 0.03, caption, _TEXT, weight="bold")
            y += _CAPTION
        row = y
        own = max(b.start + b.length for lane in lanes.values() for b in lane)
        whole = end if found.axis else own  # without a scale each group fills the width
        for name, lane in lanes.items():
            page.write(left - 0.12, row + _LANE / 2, name, _TEXT, look.ink, ha="right")
            for block in lane:
                x, width = left + span * block.start / whole, span * block.length / whole
                _draw(page, block, (x, row + (_LANE - _BLOCK) / 2, width, _BLOCK))
            row += _LANE
        y = row
    if found.axis:
        axes = page.axes(left, y, span, 0.01, "bottom")
        axes.set(xlim=(0, end))
        axes.tick_params(labelsize=11)
        page.write(left + span / 2, y + 0.41, found.axis, 11, look.muted, ha="center")
    return page.figure


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
    color = look.gap if block.kind == _IDLE else look.fill[_FILLS.get(block.kind, "map")]
    place = (x / WIDTH, 1 - (y + height) / page.height)
    page.figure.add_artist(
        Rectangle(place, width / WIDTH, height / page.height, facecolor=color, edgecolor=look.background, linewidth=2)
    )
    page.write(x + width / 2, y + height / 2, block.words, _TEXT, text_on(color), ha="center")
