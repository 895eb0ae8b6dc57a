"""Make the recordings that the readings of the course show: modelled jobs, the same on every machine.

    python data/make_recordings.py

It writes ``data/recordings``. A file says what a job did and not how it was set: costs, knobs and seeds stay here, and
`labcourse.readings.rules` reads the answers off the spans, as a reader does.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from labkit import simulate
from labkit.common.files import write_aside
from labkit.simulate import Costs, Knobs, lognormal
from labkit.sources.photo_files import generator
from labkit.timeline.run import Host
from labkit.timeline.trace import Span, Trace

HERE = Path(__file__).resolve().parent / "recordings"

#: What a file says about a run.
KEPT = ("origin", "window_ns", "batch_size", "images", "noun", "host")

#: A batch of the hand-made jobs: what its loader does, one after the other, as (name, category, ms).
Batch = Sequence[tuple[str, str, float]]


def about(mean_ms: float, spread: float = 0.2, slow_ms: float = 0.0, share: float = 0.0) -> np.ndarray:
    """Return a cost that varies; of all values a share is as slow as `slow_ms`."""
    values = lognormal(mean_ms, spread)
    values[len(values) - round(share * len(values)) :] = slow_ms
    return values


def simulated(costs: Costs, steps: int = 10, seed: int = 3, warmup: int = 2, **knobs: Any) -> Trace:
    """Return a job of labkit's simulator with batches of four, without what tells how it was made."""
    made = simulate.run(costs, Knobs(**{"batch_size": 4, **knobs}), steps, seed, warmup=warmup)
    made = made.where(~made.select("iterator") & ~made.select("batch"))  # nodes that are open around the work
    return replace(made, run=type(made.run)(**{fact: getattr(made.run, fact) for fact in KEPT}))


class Spans:
    """Spans in the making, in milliseconds; the consumer takes batches as they become ready."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def add(self, thread: str, name: str, category: str, start: float, end: float, step: int = -1) -> None:
        """Add a span."""
        first = round(1e6 * start)
        self.spans.append(Span(thread, name, category, first, round(1e6 * end) - first, step))

    def step(self, number: int, asked: float, got: float, train: float) -> float:
        """Add the wait for a batch and the train step on it; return when that ends."""
        self.add("consumer", "wait for batch", "wait", asked, got, number)
        self.add("consumer", "train step", "train", got, got + train, number)
        return got + train

    def trace(self, cores: int, steps: int, batch: int = 4, **facts: Any) -> Trace:
        """Return the trace; its window begins with the wait for step 0."""
        mine = [one for one in self.spans if one.thread == "consumer" and 0 <= one.step < steps]
        window = mine[0].start_ns, mine[-1].end_ns
        about = {"host": Host(cores), "batch_size": batch, "images": batch * steps, "window_ns": window, **facts}
        return Trace.from_spans(self.spans, {"consumer": "consumer"}, **about).slice(*window)


def loaded(make: Callable[[int], Batch], steps: int, train: float, prefetch: int = 0) -> Trace:
    """Return a job whose one loader makes batches, in turn with the train steps or so many ahead of them.

    `make` takes the number of a batch; a job with a prefetch has some before and after the window.
    """
    spans, beyond = Spans(), 2 * bool(prefetch)
    taken: list[float] = []
    free = trained = 0.0
    for k in range(-beyond, steps + beyond):
        now = trained if not prefetch else max(free, taken[-prefetch] if len(taken) >= prefetch else 0.0)
        for name, category, ms in make(k):
            spans.add("loader", name, category, now, now + ms)
            now += ms
        free, got = now, max(now, trained)
        taken.append(got)
        trained = spans.step(k, trained, got, train)
    return spans.trace(4, steps)


def photos(rng: random.Random, count: int = 4, spread: float = 0.15, **ms: float) -> Batch:
    """Return what a loader does for so many photos: for each of them the given operations, which vary a little."""
    kinds = {"open": "read", "read": "read", "decode": "decode", "resize": "resize"}
    return [
        (name, kinds.get(name, "map"), mean * rng.uniform(1 - spread, 1 + spread))
        for _ in range(count)
        for name, mean in ms.items()
    ]


def four_jobs(rng: random.Random) -> dict[str, Trace]:
    """Return fetch or prepare, in turn or at once, in every combination."""
    far, small = {"read": 8, "decode": 2.2}, {"read": 1.8, "decode": 7}
    jobs = {"A": (small, 2), "B": (far, 0), "C": (far, 2), "D": (small, 0)}
    return {
        letter: loaded(lambda k, ms=ms: photos(rng, **ms), 6, 28, prefetch) for letter, (ms, prefetch) in jobs.items()
    }


def one_gap(rng: random.Random) -> dict[str, Trace]:
    """Return a job in turn whose gaps have two causes: the longest is work, the next one is storage."""
    costs = [(3, 13), (12, 3), (3, 4), (2, 21), (16, 4), (3, 5), (3, 15)]
    return {"A": loaded(lambda k: photos(rng, read=costs[k][0], decode=costs[k][1]), len(costs), 60)}


def pairs(rng: random.Random) -> dict[str, dict[str, Any]]:
    """Return eight comparisons of two pipelines: five rounds of each, in images/s, and what each round did."""

    def pair(rate: float, factors: Sequence[float], noise: float, **after: Any) -> dict[str, Any]:
        rounds = [rate * rng.uniform(1 - noise, 1 + noise) for _ in factors]
        other = [one * factor for one, factor in zip(rounds, factors, strict=True)]
        work = {"photos": 160, "pixels": "500×375"}
        return {
            "before": {**work, "rounds": [round(one) for one in rounds]},
            "after": {**work, **after, "rounds": [round(one) for one in other]},
        }

    return {
        "A": pair(420, (1.08, 0.93, 1.13, 0.91, 1.12), 0.03),
        "B": pair(300, (1.62, 1.55, 1.68, 1.6, 1.57), 0.03),
        "C": pair(510, (2.02, 1.95, 2.05, 1.98, 2.01), 0.02, photos=80),
        "D": pair(640, (0.955, 0.945, 0.96, 0.94, 0.95), 0.12),
        "E": pair(380, (1.21, 1.18, 0.97, 1.22, 1.04), 0.02),
        "F": pair(450, (1.31, 1.27, 1.33, 1.29, 1.3), 0.02, pixels="250×188"),
        "G": pair(270, (0.7, 0.74, 0.68, 0.72, 0.71), 0.03),
        "H": pair(560, (1.1, 1.12, 1.09, 1.11, 1.1), 0.15),
    }


def longest_bars(rng: random.Random) -> dict[str, Trace]:
    """Return three jobs in turn: train is longest, then prepare in several parts, then fetch."""
    costs = {
        "A": ({"read": 5.5, "decode": 4.2, "resize": 1.8}, 38),
        "B": ({"read": 5, "decode": 4, "resize": 3, "augment": 2.6}, 30),
        "C": ({"read": 8.5, "decode": 4.5, "resize": 1.5}, 27),
    }
    return {k: loaded(lambda _, ms=ms: photos(rng, **ms), 5, train) for k, (ms, train) in costs.items()}


def producers(rng: random.Random) -> dict[str, Trace]:
    """Return a slow producer, a fast one, and one that is late twice."""
    slow = Costs(read=about(4), map={"decode": about(5.5)}, train=30)
    fast = Costs(read=about(2.2), map={"decode": about(3.4, slow_ms=7, share=1 / 18)}, train=30)
    late = Costs(read=about(1.5), map={"decode": about(2.4, slow_ms=62, share=1 / 18)}, train=30)
    jobs = {"A": slow, "B": fast, "C": late}
    return {letter: simulated(costs, 12, seed=7, prefetch=1) for letter, costs in jobs.items()}


def files(rng: random.Random, order: bool, slow: int = 5, steps: int = 7, before: int = 2) -> Trace:
    """Return a job that reads eight files at once, one of them slow: each is two elements ahead at most."""
    spans, many, train = Spans(), 8, 17.0
    ms = [[(29 if k == slow else 8) * rng.uniform(0.85, 1.15) for _ in range(80)] for k in range(many)]
    done: list[list[float]] = [[] for _ in range(many)]  # when each element of a file was read
    taken: list[list[float]] = [[] for _ in range(many)]

    def ready(k: int) -> float:
        """Return when the next element of a file is there, and draw its reading when that is first asked."""
        n = len(taken[k])
        if len(done[k]) == n:
            start = max(done[k][-1] if n else 0.0, taken[k][n - 2] if n > 1 else 0.0)
            done[k].append(start + ms[k][n])
            spans.add(f"file {k + 1}", "read", "read", start, done[k][n])
        return done[k][n]

    trained = made = 0.0
    for step in range(-before, steps + before):
        now = made
        for place in range(many):
            k = place if order else min(range(many), key=ready)
            now = max(now, ready(k))
            taken[k].append(now)
        made, got = max(now, trained), max(now, trained)  # one batch is made ahead
        trained = spans.step(step, trained, got, train)
    return spans.trace(4, steps, many)


def shards(rng: random.Random) -> dict[str, Trace]:
    """Return the same eight files in order, and in any order."""
    return {letter: files(random.Random(3), order) for letter, order in (("A", True), ("B", False))}


def calls(rng: random.Random, name: str, category: str, ms: float, many: int = 4, steps: int = 7) -> Trace:
    """Return a job whose calls of a function take turns to be ready: each is open for so long, many at once."""
    spans, train, ahead = Spans(), 18.0, 2
    free = [ms * k / many for k in range(many)]
    ready = []
    for _ in range(4 * (steps + 2 * ahead)):
        k = free.index(min(free))
        end = free[k] + ms * rng.uniform(0.97, 1.03)
        spans.add(f"call {k + 1}", name, category, free[k], end)
        free[k] = end
        ready.append(end)
    trained = 0.0
    for step in range(steps + ahead):
        trained = spans.step(step - ahead, trained, max(trained, *ready[4 * step : 4 * step + 4]), train)
    return spans.trace(4, steps)


#: The name of a function of Python, as tf.data has it.
PYTHON = "augment:PyFunc"


def bands(rng: random.Random) -> dict[str, Trace]:
    """Return four calls at once that are equally fast: ops on four cores, storage, and Python."""
    return {
        "A": calls(rng, "augment", "map", 32),
        "B": calls(rng, "read", "read", 32),
        "C": calls(rng, PYTHON, "map", 32),
    }


def limits(rng: random.Random) -> dict[str, Trace]:
    """Return more calls than cores, Python, and fewer calls than cores."""
    heavy = Costs(read=about(0.5), map={"decode": about(16, 0.1)}, train=20)
    return {
        "A": simulated(heavy, 7, cores=2, map_calls=6, threads=6, prefetch=1),
        "B": calls(rng, PYTHON, "map", 32),
        "C": simulated(heavy, 7, cores=4, map_calls=2, prefetch=1),
    }


def cached(rng: random.Random) -> dict[str, Trace]:
    """Return a job in turn whose photos are decoded in the first epoch only, and augmented in both."""
    costs = [(3, 4, 3), (1.2, 1.2, 2), (3, 4, 3), (3.4, 5, 3), (3, 4, 3), (0, 0, 3), (0, 0, 9), (0, 0, 2.4), (0, 0, 3)]

    def batch(k: int) -> Batch:
        return photos(rng, **{name: ms for name, ms in zip(("read", "decode", "augment"), costs[k], strict=True) if ms})

    return {"A": loaded(batch, len(costs), 40)}


def changes(rng: random.Random) -> dict[str, Trace]:
    """Return a job, the same with one call of the augmentation a batch, and that with a prefetch."""

    def batch(whole: bool) -> Batch:
        if not whole:
            return photos(rng, read=1.5, decode=2.5, augment=5)
        return [*photos(rng, read=1.5, decode=2.5), ("augment", "map", 8 * rng.uniform(0.9, 1.1))]

    how = {"A": (False, 0), "B": (True, 0), "C": (True, 1)}
    return {k: loaded(lambda _, whole=whole: batch(whole), 6, 29, prefetch) for k, (whole, prefetch) in how.items()}


def formats(rng: random.Random) -> dict[str, Trace]:
    """Return decoded pixels, small files far away, and records: each with one loader that is ahead."""

    def records(k: int) -> Batch:
        block = [("read", "read", 26 * rng.uniform(0.9, 1.1))] if k % 2 == 0 else []
        return [*block, *photos(rng, decode=5)]

    def pixels(k: int) -> Batch:
        return [("read", "read", 33 * rng.uniform(0.9, 1.1)), *photos(rng, parse=0.8)]

    def small(k: int) -> Batch:
        return photos(rng, open=6, read=1.6, decode=3)

    return {letter: loaded(make, 8, 27, 1) for letter, make in (("A", pixels), ("B", small), ("C", records))}


def four_patients(rng: random.Random) -> dict[str, Trace]:
    """Return what needs a parallel map, a cache, a prefetch and an interleave."""
    full = Costs(read=about(0.6), map={"decode": about(36, 0.1), "augment": about(4)}, train=27)
    return {
        "A": loaded(lambda _: photos(rng, read=0.8, decode=9.5), 7, 28, 2),
        "B": simulated(full, 7, cores=4, map_calls=4, prefetch=2),
        "C": loaded(lambda _: photos(rng, read=0.7, decode=0.9, augment=5), 7, 34),
        "D": far_files(rng),
    }


def far_files(rng: random.Random, steps: int = 7, ahead: int = 2) -> Trace:
    """Return a job that reads one file after the other, and decodes on four threads."""
    spans, train, now, trained, free, ready = Spans(), 25.0, 0.0, 0.0, [0.0] * 4, []
    for image in range(4 * (steps + 2 * ahead)):
        end = now + 9.5 * rng.uniform(0.85, 1.15)
        spans.add("reader", "read", "read", now, end)
        begin = max(end, free[image % 4])
        free[image % 4] = begin + 3 * rng.uniform(0.85, 1.15)
        spans.add(f"worker {image % 4 + 1}", "decode", "decode", begin, free[image % 4])
        ready.append(free[image % 4])
        now = end
    for step in range(steps + ahead):
        trained = spans.step(step - ahead, trained, max(trained, *ready[4 * step : 4 * step + 4]), train)
    return spans.trace(4, steps)


def photo_rows(rng: random.Random, size: int = 96) -> Image.Image:
    """Return three rows of one photo each, original and four epochs: fresh changes, none at all, and frozen ones."""

    def original(index: int) -> Image.Image:
        photo = Image.open(io.BytesIO(generator.make(index))).convert("RGB")
        side = min(photo.size)
        left, top = (photo.width - side) // 2, (photo.height - side) // 2
        return photo.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.BICUBIC)

    def changed(photo: Image.Image, flip: bool, by: int) -> Image.Image:
        photo = photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip else photo
        return photo.point([min(max(value + by, 0), 255) for value in range(256)] * 3)

    draws = {0: [(True, 30), (False, -40), (True, -25), (False, 45)], 1: [(False, 0)] * 4, 2: [(True, 40)] * 4}
    sheet = Image.new("RGB", (5 * size, 3 * size))
    for row, drawn in draws.items():
        photo = original(11 + row)
        for column, picture in enumerate([photo, *(changed(photo, *draw) for draw in drawn)]):
            sheet.paste(picture, (column * size, row * size))
    return sheet


#: By number, what makes the recordings of a reading by letter.
READINGS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "00.1": four_jobs,
    "00.2": one_gap,
    "01.1": pairs,
    "01.2": longest_bars,
    "02.1": producers,
    "03.1": shards,
    "04.1": bands,
    "04.2": limits,
    "05.1": cached,
    "06.1": changes,
    "07.1": formats,
    "09.1": four_patients,
}


def main(folder: Path = HERE) -> None:
    """Write all recordings."""
    for number, make in READINGS.items():
        made = make(random.Random(number))
        if number == "01.1":
            write_aside(folder / f"{number}.json", json.dumps(made, ensure_ascii=False, indent=1) + "\n")
            continue
        for letter, trace in made.items():
            trace.save(folder / f"{number}.{letter}.json.gz")
    packed = io.BytesIO()
    photo_rows(random.Random(5)).save(packed, "png", optimize=True)
    write_aside(folder / "05.1.png", packed.getvalue())


if __name__ == "__main__":
    main()
