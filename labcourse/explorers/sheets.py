"""The explorers of the notebooks: which sliders each has, and what they mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from labcourse.explorers.controls import Control
from labkit.common.numbers import one_of
from labkit.simulate import Costs, Knobs, lognormal, stragglers

Position = Mapping[str, Any]
Build = Callable[[Position], tuple[Costs, Knobs, str]]
_POWERS = (1, 2, 4, 8, 16)
_MS = (0, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 8, 10, 20, 30, 50, 100)
_TRAIN = (0.2, 0.5, 1, 2, 5, 10, 20, 40, 60, 80, 100, 150, 200, 300, 400)
_MB_S = (10, 20, 50, 85, 150, 300, 530, 1000, 3000, math.inf)
_RESIZE_MS = 0.5  # of a photo that is stored small, where a sheet does not vary it


def _parts(work_ms: float) -> dict[str, float]:
    """Split map work as a photo's is split: mostly decode (a JPEG of 115 kB, tf.image)."""
    return {"decode": 0.55 * work_ms, "resize": 0.15 * work_ms, "augment": 0.3 * work_ms}


def _costs(p: Position, **parts: Any) -> Costs:
    """Return costs with the train step of a position, and a copy of its batch: 0.03 ms for an image."""
    return Costs(batch=0.03 * p["batch_size"], train=p["train_ms"], **parts)


def _limit(p: Position) -> float | None:
    """Return the bandwidth of the storage; None for no limit."""
    return None if math.isinf(p["bandwidth_mb_s"]) else p["bandwidth_mb_s"]


def sliders_of(costs: Costs, knobs: Knobs) -> dict[str, Any]:
    """Return the positions of sliders that a fitted model stands for, by the names of the sliders."""
    mean = costs.mean_ms
    work = sum(mean[name] for name in costs.operations)
    return {
        "open_ms": mean["open"],
        "read_ms": mean["read"],
        "work_ms": work,
        "work_us": 1e3 * work,
        "decode_ms": max(0.0, work - _RESIZE_MS),
        "train_ms": mean["train"],
        "batch_size": knobs.batch_size,
        "cores": max(1, round(knobs.cores)),
    }


#: Where a cache stands: what a hit spares, and how many kB an image takes there (224 x 224 x 3, a photo of 115 kB).
_PLACES = {
    "none": ((), 0),
    "after read": (("open", "read"), 115),
    "after decode": (("open", "read", "decode"), 690),
    "after resize": (("open", "read", "decode", "resize"), 602),
    "after augment": (("open", "read", "decode", "resize", "augment"), 602),
}

#: Every slider by its name. Where it stands at the beginning, a sheet says.
_SLIDERS = {
    slider.name: slider
    for slider in (
        Control("threads", "map threads", _POWERS, "threads"),
        Control("calls", "map calls at once", _POWERS, "calls"),
        Control("cores", "cores", (1, 2, 3, 4, 6, 8, 12, 16, 32), "cores"),
        Control("accelerators", "accelerators", (1, 2, 4, 8)),
        Control("prefetch", "prefetch depth", (0, 1, 2, 4, 8, 16), "batches"),
        Control("cycle_length", "cycle length", (1, 2, 4, 8, 16, 32), "files"),
        Control("batch_size", "batch size", (1, 2, 4, 8, 16, 32, 64, 128), "images"),
        Control("train_ms", "train step", _TRAIN, "ms"),
        Control("open_ms", "open per image", _MS, "ms"),
        Control("read_ms", "read per image", _MS, "ms"),
        Control("fetch_ms", "fetch per image", _MS, "ms"),
        Control("work_ms", "map work per image", (0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 7.5, 10, 20), "ms"),
        Control("decode_ms", "decode per image", (0, 0.5, 1, 2, 3, 4, 8), "ms"),
        Control("latency_ms", "wait to open a file", (0, 0.1, 1, 5, 10, 30, 60, 100), "ms"),
        Control("overhead_us", "overhead per call", (1, 5, 10, 20, 40, 80, 160, 320), "µs"),
        Control("work_us", "work per image", (1, 5, 10, 20, 50, 100, 500, 1000, 4000), "µs"),
        Control("bandwidth_mb_s", "storage bandwidth", _MB_S, "MB/s"),
        Control("image_kb", "stored size of an image", (3, 10, 50, 115, 200, 300, 450, 690, 1000), "kB"),
        Control("spread", "variation of images", (0, 0.3, 0.6, 1, 2, 3), "%"),
        Control("hit_share", "share of hits", (0.0, 0.25, 0.35, 0.5, 0.75, 0.9, 1.0), "%"),
        Control("straggler", "1 file in 16 is slower", (1, 2, 5, 10), "times"),
        Control("order", "order of images", ("in order", "any order")),
        Control("place", "place of the cache", tuple(_PLACES)),
        Control("form", "order of the steps", ("map, then batch", "batch, then map")),
    )
}


@dataclass(frozen=True)
class Sheet:
    """One explorer on paper: its sliders, its named positions, and how a position becomes costs and knobs.

    Parameters
    ----------
    name, title, question : str
        Number of the notebook; heading; what to look for, one or two sentences.
    opened : dict of str to value
        The sliders, and where each stands at the beginning, if no button is pressed.
    positions : dict of str to dict
        Buttons: the label, and what it sets. The first is where the explorer stands, and what it compares with.
    build : callable
        Takes a position, a dict of control name to value, and returns costs, knobs and one sentence or "".
    """

    name: str
    title: str
    question: str
    opened: Position
    positions: Mapping[str, Position]
    build: Build

    @property
    def controls(self) -> tuple[Control, ...]:
        """The sliders in their order."""
        return tuple(_SLIDERS[name] for name in self.opened)

    def position(self, label: str) -> Position:
        """Return what a button sets.

        Raises
        ------
        ValueError
            If there is no such button.
        """
        return self.positions[one_of("position", label, self.positions)]


#: The explorers by the number of their notebook.
SHEETS: dict[str, Sheet] = {}


def _sheet(name: str, *fields: Any) -> Callable[[Build], Build]:
    """Make an explorer of the decorated function, from the other fields of its sheet in their order."""

    def register(build: Build) -> Build:
        SHEETS[name] = Sheet(name, *fields, build)
        return build

    return register


@_sheet(
    "00",
    "From one thread to many",
    "Four timelines of one job: press the buttons from left to right, and watch the gaps on the accelerator's lane.",
    {"threads": 1, "prefetch": 0, "accelerators": 1, "work_ms": 7.5, "train_ms": 40, "batch_size": 16},
    {
        "1 thread, no prefetch": {"threads": 1, "prefetch": 0, "accelerators": 1},
        "1 thread, prefetch": {"threads": 1, "prefetch": 2, "accelerators": 1},
        "many threads, prefetch": {"threads": 8, "prefetch": 2, "accelerators": 1},
        "many threads, 4 accelerators": {"threads": 16, "prefetch": 8, "accelerators": 4},
    },
)
def _many(p: Position) -> tuple[Costs, Knobs, str]:
    costs = Costs(open=0.2, read=0.3, map=_parts(p["work_ms"]), batch=0.5, copy=0.5, train=p["train_ms"])
    knobs = Knobs(
        p["batch_size"], cores=16, map_calls=p["threads"], prefetch=p["prefetch"], accelerators=p["accelerators"]
    )
    return costs, knobs, ""


@_sheet(
    "01",
    "Open, read, map, train, one after the other",
    "Nothing overlaps here. Which cost has to fall for the accelerator to be busy nine tenths of the time?",
    {"open_ms": 0.1, "read_ms": 0.1, "work_ms": 4.0, "train_ms": 100, "batch_size": 32},
    {
        "warm page cache": {"open_ms": 0.1, "read_ms": 0.1},
        "cold hard disk": {"open_ms": 5, "read_ms": 0.5},
        "object store": {"open_ms": 30, "read_ms": 2},
    },
)
def _naive(p: Position) -> tuple[Costs, Knobs, str]:
    costs = _costs(p, open=p["open_ms"], read=p["read_ms"], map=_parts(p["work_ms"]))
    image = p["open_ms"] + p["read_ms"] + p["work_ms"] + 0.03
    busy = p["train_ms"] / (p["train_ms"] + image * p["batch_size"])
    note = (
        f"One after the other: {image * p['batch_size']:,.0f} ms load + {p['train_ms']:,.3g} ms train, busy {busy:.0%}."
    )
    return costs, Knobs(p["batch_size"], cores=2), note.replace("%.", " %.")


@lru_cache(maxsize=16)
def _varied(spread: float) -> np.ndarray:
    """Return a distribution of mean 1; made once, since it takes longer than a simulation."""
    return lognormal(1.0, spread)


@_sheet(
    "02",
    "Overlap, and how deep a buffer",
    "With equal batches a depth of 1 is enough. Let the images vary, and look which depth closes the gaps again.",
    {"prefetch": 0, "spread": 0.0, "work_ms": 4.0, "train_ms": 20, "batch_size": 4},
    {
        "no prefetch": {"prefetch": 0, "spread": 0.0},
        "prefetch(1)": {"prefetch": 1, "spread": 0.0},
        "prefetch(1), images vary": {"prefetch": 1, "spread": 2.0},
        "prefetch(8), images vary": {"prefetch": 8, "spread": 2.0},
    },
)
def _overlap(p: Position) -> tuple[Costs, Knobs, str]:
    parts = {name: ms * _varied(p["spread"]) for name, ms in _parts(p["work_ms"]).items()}
    costs = _costs(p, map=parts)
    load = (p["work_ms"] + 0.03) * p["batch_size"]
    bound = (load + p["train_ms"]) / max(load, p["train_ms"])
    note = f"Load {load:,.3g} ms, train {p['train_ms']:,.3g} ms: overlap gains at most {bound:.2f} times."
    return costs, Knobs(p["batch_size"], cores=2, prefetch=p["prefetch"]), note


@_sheet(
    "03",
    "Many files at once",
    "How many files must be open at the same time to hide the wait? And who waits for the one slow file?",
    {
        "cycle_length": 1,
        "latency_ms": 30,
        "bandwidth_mb_s": 85,
        "threads": 2,
        "straggler": 1,
        "order": "in order",
        "train_ms": 20,
        "batch_size": 16,
    },
    {
        "one file at a time": {"cycle_length": 1, "latency_ms": 30, "straggler": 1, "order": "in order"},
        "16 files at once": {"cycle_length": 16, "latency_ms": 30, "straggler": 1, "order": "in order"},
        "local disk": {"cycle_length": 1, "latency_ms": 0.1, "straggler": 1, "order": "in order"},
        "a straggler, in order": {"cycle_length": 16, "latency_ms": 30, "straggler": 10, "order": "in order"},
        "a straggler, any order": {"cycle_length": 16, "latency_ms": 30, "straggler": 10, "order": "any order"},
    },
)
def _interleaved(p: Position) -> tuple[Costs, Knobs, str]:
    wait, slow = p["latency_ms"], p["straggler"]
    late = wait and slow > 1
    costs = _costs(p, open=stragglers(wait, wait * slow, 1 / 16) if late else wait, read=0.05, map=_parts(2.0))
    knobs = Knobs(
        p["batch_size"], cores=4, map_calls=p["threads"], cycle_length=p["cycle_length"], prefetch=1,
        bandwidth_mb_s=_limit(p), image_kb=115,
        deterministic=p["order"] == "in order",
    )  # fmt: skip
    return costs, knobs, "One file in 16 is slow to open." if late else ""


@_sheet(
    "04",
    "Calls and cores",
    "Raise the calls, then the cores. Which of the two limits? When is the accelerator never idle?",
    {"calls": 1, "cores": 2, "work_ms": 4.0, "train_ms": 40, "batch_size": 32},
    {
        "1 call, 2 cores": {"calls": 1, "cores": 2},
        "2 calls, 2 cores": {"calls": 2, "cores": 2},
        "8 calls, 2 cores": {"calls": 8, "cores": 2},
        "8 calls, 8 cores": {"calls": 8, "cores": 8},
    },
)
def _parallel(p: Position) -> tuple[Costs, Knobs, str]:
    costs = _costs(p, open=0.1, read=0.1, map=_parts(p["work_ms"]))
    knobs = Knobs(p["batch_size"], cores=p["cores"], map_calls=p["calls"], threads=p["calls"], prefetch=2)
    per_s = p["batch_size"] / p["train_ms"] * 1e3
    return costs, knobs, f"To train {per_s:,.0f} images/s takes {per_s * (p['work_ms'] + 0.03) / 1e3:,.3g} cores."


@_sheet(
    "05",
    "Where to cache, and how much of it fits",
    "The later the cache stands, the more a hit spares. What does it cost in memory, and which place is wrong?",
    {"place": "none", "hit_share": 1.0, "fetch_ms": 2, "work_ms": 4.0, "train_ms": 20, "batch_size": 16},
    {
        "no cache": {"place": "none"},
        "bytes": {"place": "after read", "hit_share": 1.0},
        "resized pixels": {"place": "after resize", "hit_share": 1.0},
        "a third fits": {"place": "after resize", "hit_share": 0.35},
        "augmented (wrong)": {"place": "after augment", "hit_share": 1.0},
    },
)
def _cached(p: Position) -> tuple[Costs, Knobs, str]:
    spared, kb = _PLACES[p["place"]]
    hit = p["hit_share"] if spared else 0.0

    def missed(ms: float) -> Any:
        """Return what a part costs that a hit spares; all parts of an image are drawn together, as hit or miss."""
        return stragglers(0, ms, 1 - hit) if hit < 1 else 0.0

    parts = {n: missed(ms) if n in spared and hit else ms for n, ms in _parts(p["work_ms"]).items()}
    costs = _costs(p, open=p["fetch_ms"], read=0.1, map=parts)
    knobs = Knobs(p["batch_size"], cores=2, map_calls=2, prefetch=1, cache_hit=hit)
    note = f"A cache of this share takes {hit * kb:,.0f} MB for 1,000 images." if hit else ""
    if p["place"] == "after augment" and hit:
        note += " It also freezes the augmentation: every epoch sees the same draws."
    return costs, knobs, note


@_sheet(
    "06",
    "Pay per image, or per batch",
    "Each call of a map costs something before it does any work. For which work is that worth a change?",
    {"form": "map, then batch", "overhead_us": 40, "work_us": 10, "batch_size": 64, "train_ms": 1},
    {
        "small tiles, map first": {"form": "map, then batch", "work_us": 10},
        "small tiles, batch first": {"form": "batch, then map", "work_us": 10},
        "photos, map first": {"form": "map, then batch", "work_us": 4000},
        "photos, batch first": {"form": "batch, then map", "work_us": 4000},
    },
)
def _vectorised(p: Position) -> tuple[Costs, Knobs, str]:
    call, work, size = p["overhead_us"] / 1e3, p["work_us"] / 1e3, p["batch_size"]
    copying = 0.002 * size
    first = p["form"] == "batch, then map"
    costs = (
        Costs(batch=call + work * size + copying, train=p["train_ms"])
        if first
        else Costs(map={"call": call, "work": work}, batch=copying, train=p["train_ms"])
    )
    gain = (call + work) / (call / size + work)
    return costs, Knobs(size, cores=2, prefetch=1), f"Batching first gains at most {gain:.2f} times on the map."


@_sheet(
    "07",
    "Bytes or decoding",
    "Pixels need no decoder and many more bytes. At which bandwidth do they stop being a bargain?",
    {"image_kb": 115, "bandwidth_mb_s": 3000, "decode_ms": 2, "open_ms": 0.1, "train_ms": 10, "batch_size": 32},
    {
        "JPEG files": {"image_kb": 115, "decode_ms": 2, "open_ms": 0.1, "bandwidth_mb_s": 3000},
        "pixels": {"image_kb": 690, "decode_ms": 0, "open_ms": 0, "bandwidth_mb_s": 3000},
        "pixels, slow disk": {"image_kb": 690, "decode_ms": 0, "open_ms": 0, "bandwidth_mb_s": 50},
        "JPEG files, object store": {"image_kb": 115, "decode_ms": 2, "open_ms": 30, "bandwidth_mb_s": 85},
        "JPEG in shards, object store": {"image_kb": 115, "decode_ms": 2, "open_ms": 0.1, "bandwidth_mb_s": 85},
    },
)
def _packed(p: Position) -> tuple[Costs, Knobs, str]:
    costs = _costs(p, open=p["open_ms"], map={"decode": p["decode_ms"], "resize": _RESIZE_MS})
    pool = {"cores": 2, "map_calls": 2, "cycle_length": 2, "prefetch": 1}
    knobs = Knobs(p["batch_size"], **pool, bandwidth_mb_s=_limit(p), image_kb=p["image_kb"])
    return costs, knobs, f"A million images take {p['image_kb']:,.0f} GB."
