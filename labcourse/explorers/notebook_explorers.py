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
#: From a position to the costs and knobs that a sheet adds to those of its sliders, and one sentence or "".
Build = Callable[[Position], tuple[dict[str, Any], dict[str, Any], str]]
#: Knobs that a slider of their name sets; a slider without a limit leaves its knob alone.
_KNOBS = ("batch_size", "cores", "cycle_length", "prefetch", "bandwidth_mb_s", "image_kb", "accelerators")
#: Sliders that state what the pipeline takes on a machine; the train step is that of an accelerator.
COSTS = ("open_ms", "read_ms", "fetch_ms", "work_ms", "work_us", "decode_ms", "overhead_us")
_RESIZE_MS = 0.5  # of a photo that is stored small, where a sheet does not vary it


def _parts(work_ms: float) -> dict[str, float]:
    """Split map work as a photo's is split: mostly decode (a JPEG of 115 kB, tf.image)."""
    return {"decode": 0.55 * work_ms, "resize": 0.15 * work_ms, "augment": 0.3 * work_ms}


def sliders_of(costs: Costs, knobs: Knobs) -> dict[str, Any]:
    """Return the positions of sliders that a fitted model stands for, by the names of the sliders."""
    mean = costs.mean_ms
    work = sum(mean[name] for name in costs.map)
    return {
        "open_ms": mean["open"],
        "read_ms": mean["read"],
        "fetch_ms": mean["open"] + mean["read"],
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
        Takes a position, a dict of control name to value, and returns what it adds to the costs and knobs that sliders
        state by their names, and one sentence or "".
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

    def model(self, p: Position) -> tuple[Costs, Knobs, str]:
        """Return costs, knobs and a sentence of a position; to copy an image into its batch takes 0.03 ms."""
        costs, knobs, note = self.build(p)
        stated = {"open": p.get("open_ms", 0.0), "read": p.get("read_ms", 0.0), "map": _parts(p.get("work_ms", 0.0))}
        stated |= {"batch": 0.03 * p["batch_size"], "train": p["train_ms"]}
        moved = {name: p[name] for name in _KNOBS if p.get(name, math.inf) < math.inf}
        return Costs(**stated | costs), Knobs(**moved | knobs), note


#: The explorers by the number of their notebook.
SHEETS: dict[str, Sheet] = {}


def _sheet(name: str) -> Callable[[Build], Build]:
    """Make the explorer of a notebook, whose sliders and buttons are stored, of the decorated function."""

    def register(build: Build) -> Build:
        SHEETS[name] = Sheet(name, **_STORED["sheets"][name], build=build)
        return build

    return register


@_sheet("00")
def _many(p: Position) -> tuple[dict[str, Any], dict[str, Any], str]:
    return {"open": 0.2, "read": 0.3, "batch": 0.5, "copy": 0.5}, {"map_calls": p["threads"]}, ""


@_sheet("01")
def _naive(p: Position) -> tuple[dict[str, Any], dict[str, Any], str]:
    load, train = (p["open_ms"] + p["read_ms"] + p["work_ms"] + 0.03) * p["batch_size"], p["train_ms"]
    note = f"Load {load:,.0f} ms, then train {train:,.3g} ms: busy {100 * train / (train + load):.0f} %."
    return {}, {"cores": 2}, note


@lru_cache(maxsize=16)
def _varied(spread: float) -> np.ndarray:
    """Return a distribution of mean 1; made once, since it takes longer than a simulation."""
    return lognormal(1.0, spread)


@_sheet("02")
def _overlap(p: Position) -> tuple[dict[str, Any], dict[str, Any], str]:
    parts = {name: ms * _varied(p["spread"]) for name, ms in _parts(p["work_ms"]).items()}
    load = (p["work_ms"] + 0.03) * p["batch_size"]
    bound = (load + p["train_ms"]) / max(load, p["train_ms"])
    note = f"Load {load:,.3g} ms, train {p['train_ms']:,.3g} ms: overlap gains at most {bound:.2f} times."
    return {"map": parts}, {"cores": 2}, note


@_sheet("03")
def _interleaved(p: Position) -> tuple[dict[str, Any], dict[str, Any], str]:
    wait, slow = p["latency_ms"], p["straggler"]
    late = wait and slow > 1
    costs = {"open": stragglers(wait, wait * slow, 1 / 16) if late else wait, "read": 0.05, "map": _parts(2.0)}
    knobs = {"cores": 4, "map_calls": p["threads"], "prefetch": 1, "image_kb": 115}
    knobs["deterministic"] = p["order"] == "in order"
    return costs, knobs, ""


@_sheet("04")
def _parallel(p: Position) -> tuple[dict[str, Any], dict[str, Any], str]:
    per_s = p["batch_size"] / p["train_ms"] * 1e3
    note = f"To train {per_s:,.0f} images/s takes {per_s * (p['work_ms'] + 0.03) / 1e3:,.3g} cores."
    return {"open": 0.1, "read": 0.1}, {"map_calls": p["calls"], "threads": p["calls"], "prefetch": 2}, note


@_sheet("05")
def _cached(p: Position) -> tuple[dict[str, Any], dict[str, Any], str]:
    spared, kb = _PLACES[p["place"]]
    hit = p["hit_share"] if spared else 0.0

    def missed(ms: float) -> Any:
        """Return what a part costs that a hit spares; all parts of an image are drawn together, as hit or miss."""
        return stragglers(0, ms, 1 - hit) if hit < 1 else 0.0

    parts = {n: missed(ms) if n in spared and hit else ms for n, ms in _parts(p["work_ms"]).items()}
    note = f"The cache takes {hit * kb:,.0f} MB for 1,000 images." if hit else ""
    if p["place"] == "after augment" and hit:
        note += " It freezes the augmentation, too."
    costs = {"open": p["fetch_ms"], "read": 0.1, "map": parts}
    return costs, {"cores": 2, "map_calls": 2, "prefetch": 1, "cache_hit": hit}, note


@_sheet("06")
def _vectorised(p: Position) -> tuple[dict[str, Any], dict[str, Any], str]:
    call, work, size = p["overhead_us"] / 1e3, p["work_us"] / 1e3, p["batch_size"]
    whole = p["form"] == "batch, then map"
    costs = {"map": {"call": call, "work": work * size if whole else work}, "batch": 0.002 * size}
    gain = (call + work) / (call / size + work)
    knobs = {"cores": 2, "prefetch": 1, "map_batches": whole}
    return costs, knobs, f"Batching first gains at most {gain:.2f} times on the map."


@_sheet("07")
def _packed(p: Position) -> tuple[dict[str, Any], dict[str, Any], str]:
    costs = {"map": {"decode": p["decode_ms"], "resize": _RESIZE_MS}}
    knobs = {"cores": 2, "map_calls": 2, "cycle_length": 2, "prefetch": 1}
    return costs, knobs, f"A million images take {p['image_kb']:,.0f} GB."
