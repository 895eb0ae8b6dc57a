"""The explorers of the notebooks: which sliders each has, and what they mean."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from labcourse.explorers.controls import Control
from labkit.common.numbers import one_of
from labkit.simulate import Costs, Knobs, lognormal, stragglers

Position = Mapping[str, Any]
Build = Callable[[Position], tuple[Costs, Knobs, str]]
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

_STORED = json.loads(Path(__file__).with_name("sliders.json").read_text(encoding="utf-8"))


#: Every slider by its name: ``sliders`` of the sheets, and those of ``plan`` and ``fleet``.
CONTROLS = {
    group: {name: Control(name, **(stored | {"values": tuple(stored["values"])})) for name, stored in sliders.items()}
    for group, sliders in _STORED.items()
    if group != "sheets"
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
        return tuple(CONTROLS["sliders"][name] for name in self.opened)

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


def _sheet(name: str) -> Callable[[Build], Build]:
    """Make the explorer of a notebook, whose sliders and buttons are stored, of the decorated function."""

    def register(build: Build) -> Build:
        SHEETS[name] = Sheet(name, **_STORED["sheets"][name], build=build)
        return build

    return register


@_sheet("00")
def _many(p: Position) -> tuple[Costs, Knobs, str]:
    costs = Costs(open=0.2, read=0.3, map=_parts(p["work_ms"]), batch=0.5, copy=0.5, train=p["train_ms"])
    knobs = Knobs(
        p["batch_size"], cores=16, map_calls=p["threads"], prefetch=p["prefetch"], accelerators=p["accelerators"]
    )
    return costs, knobs, ""


@_sheet("01")
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


@_sheet("02")
def _overlap(p: Position) -> tuple[Costs, Knobs, str]:
    parts = {name: ms * _varied(p["spread"]) for name, ms in _parts(p["work_ms"]).items()}
    costs = _costs(p, map=parts)
    load = (p["work_ms"] + 0.03) * p["batch_size"]
    bound = (load + p["train_ms"]) / max(load, p["train_ms"])
    note = f"Load {load:,.3g} ms, train {p['train_ms']:,.3g} ms: overlap gains at most {bound:.2f} times."
    return costs, Knobs(p["batch_size"], cores=2, prefetch=p["prefetch"]), note


@_sheet("03")
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


@_sheet("04")
def _parallel(p: Position) -> tuple[Costs, Knobs, str]:
    costs = _costs(p, open=0.1, read=0.1, map=_parts(p["work_ms"]))
    knobs = Knobs(p["batch_size"], cores=p["cores"], map_calls=p["calls"], threads=p["calls"], prefetch=2)
    per_s = p["batch_size"] / p["train_ms"] * 1e3
    return costs, knobs, f"To train {per_s:,.0f} images/s takes {per_s * (p['work_ms'] + 0.03) / 1e3:,.3g} cores."


@_sheet("05")
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


@_sheet("06")
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


@_sheet("07")
def _packed(p: Position) -> tuple[Costs, Knobs, str]:
    costs = _costs(p, open=p["open_ms"], map={"decode": p["decode_ms"], "resize": _RESIZE_MS})
    pool = {"cores": 2, "map_calls": 2, "cycle_length": 2, "prefetch": 1}
    knobs = Knobs(p["batch_size"], **pool, bandwidth_mb_s=_limit(p), image_kb=p["image_kb"])
    return costs, knobs, f"A million images take {p['image_kb']:,.0f} GB."
