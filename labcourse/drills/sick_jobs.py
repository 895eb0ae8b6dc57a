"""The job of a drill: what its pipeline is written like, what its photos are like, and the machine that it runs on.

A seed draws all of them. What makes a construct a fault is never in the code alone: a map without parallel calls is a
fault where its work is long, and harmless where it is short. So each job has harmless oddities that are the fault of
another one.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from labcourse.drills.case import FILES, Material
from labcourse.drills.naming import drawn


def _stored(name: str) -> Any:
    return json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


_STORED, WORDS = _stored("faults.json"), _stored("diagnoses.json")
_FAULTS: dict[str, dict[str, Any]] = _STORED["faults"]

#: The keys of as many seeds in a row as draw each diagnosis: a third are faults of the world.
BLOCK = tuple(f"{key} {n}" for key in _FAULTS for n in range(_STORED["block"].get(key, 3)))

#: Photos of a batch; decoded photos that fit into memory, where they are large, and where small.
_BATCH, _LITTLE, _ROOM = 8, 60, 2000

#: To unpack a record takes so many times as long as to read it.
UNPACK = 10


@dataclass(frozen=True)
class Machine:
    """The machine of a job, and what its work takes there: milliseconds for each photo, if nothing else is said.

    Parameters
    ----------
    read, link : float
        A read waits so long for its storage, and then takes so long from the link that all reads share.
    open : float
        Opening a file of records.
    decode, clean, tone : float
        On a core. A Python function that cleans lets no other run. `tone` is what a batch takes in one call, or each
        of its photos in a call of its own.
    step : float
        Train step.
    late, cold : float
        What one photo, or each photo when it is read for the first time, waits for its storage; 0 for as long as all.
    cores, free : int
        Cores, and those that no other program takes.
    room : int
        Decoded photos that fit into memory.
    """

    read: float
    link: float
    open: float
    decode: float
    clean: float
    tone: float
    step: float
    late: float = 0.0
    cold: float = 0.0
    cores: int = 8
    free: int = 8
    room: int = _ROOM


@dataclass(frozen=True)
class SickJob:
    """What a seed draws.

    Parameters
    ----------
    key : str
        Of the diagnosis.
    broken, fixed : dict
        How the pipeline is written, with its fault and without; see `labcourse.drills.writing`.
    names : tuple of str
        Names that it uses.
    material : Material
    ordered, machine : Machine
        What was ordered for it, and what it runs on.
    task : str
        What the pipeline should deliver.
    """

    key: str
    broken: dict[str, Any]
    fixed: dict[str, Any]
    names: tuple[str, ...]
    material: Material
    ordered: Machine
    machine: Machine
    task: str


class _Random(random.Random):
    """Numbers of a seed, the same for each version of Python."""

    def one(self, options: Any) -> Any:
        return options[int(self.random() * len(options))]

    def of_each(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.one(values) for name, values in options.items()}

    def mixed(self, options: Any) -> list[Any]:
        return sorted(options, key=lambda _: self.random())


#: Diagnoses by what they are about, and those that make the accelerator wait.
GROUPS = {group: [key for key in _FAULTS if WORDS["faults"][key]["group"] == group] for group in WORDS["groups"]}
_SLOW, _CODE = {*GROUPS["waits"], *GROUPS["world"]}, {*GROUPS["waits"], *GROUPS["data"], *GROUPS["memory"]}


@cache
def job(seed: int) -> SickJob:
    """Return the job of a drill.

    How it is written is drawn before anything else, and in the same way for all diagnoses; then come the times with
    which the fault does harm, and nothing else does. Where there are none, it is drawn again.
    """
    key = drawn("drills", seed, BLOCK).partition(" ")[0]
    dice = _Random(int(hashlib.sha256(f"labkit drill {seed}".encode()).hexdigest(), 16))
    how = {"broken": {}, "fixed": {}, "with": {}, "material": {}, "world": [], **_FAULTS[key]}
    while True:
        material = Material(**{
            "size": 32 if key in _SLOW else dice.one((32, 64)), "bgr": dice.one((False, True)),
            "pixels": dice.one(("bytes", "ints", "floats", "unit")), **how["material"],
        })  # fmt: skip
        plain = dice.of_each(_STORED["plain"])
        plain |= {"flip": material.bgr, "divide": material.pixels != "unit"}
        plain["first"] = material.pixels in ("ints", "floats") and dice.one((False, True))
        first, second, *_ = dice.mixed(_STORED["rare"])
        for often, change in (*_STORED["oddities"], (0.7, first), (0.25, second)):
            plain |= dice.of_each(change) if dice.random() < often else {}
        plain |= how["with"] | dice.of_each(how.get("one_of", {}))
        material = replace(material, mixed=plain["shuffle"] == "batches" and "mixed" not in how["material"])
        broken = plain | (dice.one(how["broken"]) if isinstance(how["broken"], list) else how["broken"])
        fixed, told = plain | how["fixed"], [dice.one(words) for words in (WORDS["tasks"], *WORDS["names"])]
        room = how.get("room") or (_ROOM if plain["ahead"] > 9 else dice.one((_LITTLE, _ROOM)))
        if plain["source"] not in how.get("sources", plain["source"]) or (key in _CODE and broken == fixed):
            continue
        for costs in dice.mixed(how.get("costs", _STORED["costs"])):
            ordered = Machine(**_STORED["costs"][costs], room=room)
            worse = _worse(ordered, plain, how["world"])
            if _harmless(fixed, material, ordered) and (key not in _SLOW or _slow(broken, material, worse)):
                return SickJob(key, broken, fixed, tuple(told[1:]), material, ordered, worse, told[0])


def _worse(machine: Machine, how: Mapping[str, Any], what: list[str]) -> Machine:
    """Return what became of a machine: how bad it is depends on the pipeline, which else would not notice."""
    cold = 3 * machine.step * min(how["calls"][0], how["pool"]) / _BATCH
    changed = {"late": 6 * machine.step, "cold": cold, "link": 10 * machine.link, "cores": 2, "free": 2}
    return replace(machine, **{name: changed[name] for name in what})


def _harmless(how: Mapping[str, Any], material: Material, machine: Machine) -> bool:
    """Return whether a pipeline keeps up with its accelerator, within memory and without harm to the data."""
    batch, together, fill = _times(how, material, machine)
    kept = material.size * (how["cache"] in ("between", "after"))
    if max(kept, how["ahead"] * _BATCH) > machine.room or (not how["drop"] and material.size % _BATCH):
        return False
    if how["shuffle"] == "batches" and (how["source"] != "photos" or not material.mixed):
        return False
    if machine.room < _ROOM and (how["shuffle"] != "names" or how["take"] == "after"):
        return False
    quick = batch < 0.8 * machine.step and fill < 1.7 * machine.step
    return quick and (bool(how["ahead"]) or together < 0.03 * machine.step)


def _slow(how: Mapping[str, Any], material: Material, machine: Machine) -> bool:
    """Return whether a pipeline lets its accelerator wait, for more than a fifth of the time."""
    batch, together, fill = _times(how, material, machine)
    if machine.late:
        return min(how["calls"][0], how["pool"]) > 4 and not how["loose"] and how["cache"] in ("", "names")
    if machine.cold:
        return how["shuffle"] == "names" and how["cache"] != "between"
    if machine.decode > machine.step and (min(how["calls"][0], how["pool"]) < 5 or not how["cycle"]):
        return False  # that would be another fault
    if not how["ahead"]:  # the last map works ahead, too
        return together * (1 - how["calls"][how["layout"] > 0] / _BATCH) > 0.2 * machine.step
    late = how["ahead"] < 9 and fill - 2 * machine.step > 0.25 * material.size / _BATCH * machine.step
    return late or batch > 1.25 * machine.step


def _times(how: Mapping[str, Any], material: Material, machine: Machine) -> tuple[float, float, float]:
    """Return the milliseconds of a batch on the slowest thread, of one on all in turn, and of filling a shuffle buffer.

    A buffer of photos, or of records, is filled at the beginning of each epoch. This is for drawing jobs;
    what is recorded is simulated, see `labcourse.drills.machine`.
    """
    packed = how["source"] in ("files", "packed")
    kept = how["cache"] in ("between", "after") and how["take"] != "after"
    read, change = machine.read + machine.link, 0.2 + machine.clean * how["clean"]
    first, decode = 0.05 if packed else read, machine.decode
    maps = ([first + decode + change], [first, decode + change], [first + decode, change])[how["layout"]]
    work = _BATCH * (sum(maps) - first)
    if kept:
        maps = [0.0] * (how["cache"] == "between") + maps[1:] * (how["cache"] == "between")
    stages, seq, pooled, fill = [], 0.4, 0.0, 0.0
    if packed and not kept:
        zipped, files = how["source"] == "files" and material.layout == "zipped", FILES["shards"]
        files = (FILES[material.layout] or material.size) if how["source"] == "files" else files
        unpack = UNPACK * machine.read * zipped
        work += _BATCH * unpack
        reading = _BATCH * (read + unpack + machine.open * files / material.size)
        stages, seq = ([reading / min(how["cycle"], files)], seq) if how["cycle"] else ([], seq + reading)
        fill = seq + sum(stages)
    for calls, each in zip(how["calls"], maps, strict=False):
        if calls > 1:
            stages += [seq, _BATCH * each / min(calls, how["pool"])]
            seq, pooled = 0.0, pooled + _BATCH * each
        else:
            seq += _BATCH * each
    seq += how["tone"] * machine.tone * (_BATCH if how["loop"] else 1) + 0.4
    busiest = [*stages, seq, pooled / how["pool"], _BATCH * machine.clean * how["python"]]
    batch = max(busiest + [work / min(machine.cores, machine.free), _BATCH * machine.link] * (not kept))
    fill = max(fill, batch) if how["shuffle"] == "images" or how["take"] == "after" else fill
    return batch, sum(stages) + seq, fill * material.size / _BATCH
