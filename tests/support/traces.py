"""Traces of jobs that tests draw: small and regular, noisy, crowded, or with what needs care."""

from __future__ import annotations

import numpy as np

from labkit.timeline import states
from labkit.timeline.run import Run
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES, Span, Thread, Trace

MS = 1_000_000
NOW = 1_800_000_000_000_000_000
OPS = (("read", 0.4), ("decode", 1.5), ("resize", 0.6), ("map", 0.7))


def job(steps=6, wait=5, train=4, workers=2, name="a job", origin=10**18, **meta):
    """Return a job in turns: the consumer waits, then trains; workers read, decode and resize inside a node."""
    spans = []
    for i in range(steps):
        t = origin + i * (wait + train) * MS
        spans += [Span("consumer", "wait for batch", "wait", t, wait * MS, i)]
        spans += [Span("consumer", "train step", "train", t + wait * MS, train * MS, i)]
        for w in range(1, workers + 1):
            spans += [
                Span(f"worker {w}", "Iterator::Map", "iterator", t, wait * MS, -1),
                Span(f"worker {w}", "ReadFile", "read", t + 1000, MS, -1),
                Span(f"worker {w}", "DecodeJpeg", "decode", t + MS + 2000, 2 * MS, -1),
                Span(f"worker {w}", "ResizeBilinear", "resize", t + 3 * MS + 3000, MS, -1),
            ]
    return Trace.from_spans(spans, kinds={"consumer": "consumer"}, name=name, batch_size=workers, **meta)


def partly_filled(share, workers=2):
    """Return a timeline in which operations that decode are on a core for a share of their time, 0 to 1."""
    timeline = Timeline(job(steps=2, workers=workers, host={"cpus": 2}))
    decode = CATEGORIES.index("decode")
    known = {key: states.State(share, states.CORE) if key[0] == decode else s for key, s in timeline.states.items()}
    vars(timeline)["states"] = known  # in the place of those that are worked out
    return timeline


def circuit():
    """Return eight cycles of a circuit: its unit moves a value in every second one, and the consumer rests twice."""
    moves = [Span("unit", str(10 * k), "map", 2 * k * MS, MS, k) for k in (0, 1, 3)]
    taken = [Span("consumer", str(10 * k), "train", 2 * k * MS, MS, k) for k in (0, 1, 3)]
    starved = [Span("unit", "starved", "iterator", t * MS, MS, 0) for t in (1, 3)]
    empty = [Span("consumer", "starved", "wait", t * MS, MS, 0) for t in (1, 3)]
    held = [Span("unit", "blocked", "iterator", 4 * MS, 2 * MS, 2)]
    held.append(Span("consumer", "rests", "iterator", 4 * MS, 2 * MS, 2))
    return Trace.from_spans(
        [*moves, *taken, *starved, *empty, *held], {"consumer": "consumer", "unit": "unit"}, origin="simulated",
        name="a circuit", time_unit="cycle", summary="unit moves a value in 3 of 8 cycles", window_ns=(0, 8 * MS),
    )  # fmt: skip


def crossing():
    """Return spans that cross on one thread, last minutes, or nothing at all, with names that need care."""
    rows = [("Iterator::Map", 0, 400), ("a,b", 100, 500), ('say "x"', 550, 100), ("now", 560, 0), ("<b>&amp;", 650, 60),
            ("long", 700, 70 * 10**9), ("inside", 5 * 10**9, 5 * 10**9)]  # fmt: skip
    spans = [Span("worker, 1", name, "map", 10**18 + 7 + start, length, -1) for name, start, length in rows]
    spans += [Span("consumer", "train step", "train", 10**18 + 7 + 3 * i, 2, i) for i in range(5)]
    return Trace.from_spans(spans, kinds={"consumer": "consumer"}, name="crossing", origin="measured")


def crowd(count=100_000, lanes=8):
    """Return very many short spans without nesting."""
    rng, per = np.random.default_rng(0), count // lanes
    length, space = rng.integers(200, 20_000, (lanes, per)), rng.integers(0, 4000, (lanes, per))
    start = np.cumsum(length + space, axis=1) - length
    category = np.where(np.arange(lanes)[:, None], rng.integers(2, 6, (lanes, per)), CATEGORIES.index("train"))
    step = np.where(np.arange(lanes)[:, None], -1, np.arange(per)[None])
    threads = tuple(Thread(f"worker {k}" if k else "consumer", "pipeline" if k else "consumer") for k in range(lanes))
    columns = (category.astype(np.int32), np.repeat(np.arange(lanes, dtype=np.int32), per), category.astype(np.int8))
    return Trace(start.ravel(), length.ravel(), columns[0].ravel(), columns[1], columns[2].ravel(),
                 step.ravel().astype(np.int32), CATEGORIES, threads,
                 Run("modelled", "crowd"))  # fmt: skip


def noisy_job(
    steps: int = 6,
    wait: float = 60,
    train: float = 40,
    workers: int = 2,
    images: int = 16,
    seed: int = 0,
    **meta: object,
) -> Trace:
    """A loop that waits and trains while workers read, decode, resize and map; times in ms, with noise."""
    rng = np.random.default_rng(seed)
    spans, t = [], float(0)

    def add(thread: str, name: str, category: str, start: float, length: float, step: int = -1) -> None:
        spans.append(Span(thread, name, category, NOW + round(start * MS), round(length * MS), step))

    for step in range(steps):
        held = wait * rng.uniform(0.7, 1.3)
        add("consumer", "wait for batch", "wait", t, held, step)
        for worker in range(workers):
            at = t
            for _ in range(images // workers):
                begun = at
                for category, ms in OPS:
                    length = ms * rng.uniform(0.7, 1.4)
                    add(f"tf.data worker {worker + 1}", category, category, at, length)
                    at += length + 0.01
                add(f"tf.data worker {worker + 1}", "Iterator::Root::Map", "iterator", begun, at - begun)
        t += held
        add("consumer", "train step", "train", t, train, step)
        t += train + 0.1
    facts = {
        "origin": "measured", "batch_size": images, "images": steps * images, "name": "job",
        "accelerator": {"name": "V100", "kind": "modelled", "describe": "modelled V100: 40 ms"},
    }  # fmt: skip
    return Trace.from_spans(spans, {"consumer": "consumer"}, **(facts | meta))


def processes(
    pickled: list[float], unpickled: list[float], other: float = 1, train: float = 2, workers: int = 2, **meta: object
) -> Trace:
    """A loader of worker processes: one batch for each number in `pickled`; times in ms.

    A worker reads, decodes and collates for `other` ms each, then pickles its batch and begins the next one. The
    consumer takes the batches in turn and unpickles them within its wait.
    """
    spans, now, free = [], float(0), [float(0)] * workers

    def add(thread: str, name: str, category: str, start: float, length: float, step: int) -> float:
        spans.append(Span(thread, name, category, NOW + round(start * MS), round(length * MS), step))
        return start + length

    for step, (out, back) in enumerate(zip(pickled, unpickled, strict=True)):
        w = step % workers
        for name, category, length in (
            ("open", "read", other), ("decode_jpeg", "decode", other), ("collate", "batch", other),
            ("pickle", "transfer", out),
        ):  # fmt: skip
            free[w] = add(f"worker {w}", name, category, free[w], length, step)
        here = add("consumer", "unpickle", "transfer", max(now, free[w]), back, step)
        add("consumer", "wait for batch", "wait", now, here - now, step)
        now = add("consumer", "train step", "train", here, train, step)
    return Trace.from_spans(spans, {"consumer": "consumer"}, **({"origin": "measured", "warmup": 1} | meta))


def gpu_job() -> Trace:
    """The noisy job on a device with streams."""
    rng = np.random.default_rng(5)
    spans = list(noisy_job())
    for s in [s for s in spans if s.category == "train"]:
        starts = s.start_ns + np.sort(rng.integers(0, s.duration_ns, 300))
        spans += [Span("GPU:0 Stream #13", "gemm", "kernel", int(t), 90_000, -1) for t in starts]
        spans.append(Span("GPU:0 Stream #16", "MemcpyH2D", "copy", s.start_ns - MS, 2 * MS, -1))
    kinds = {"consumer": "consumer", "GPU:0 Stream #13": "device", "GPU:0 Stream #16": "device"}
    real = {"name": "Tesla T4", "kind": "real"}
    return Trace.from_spans(spans, kinds, origin="measured", accelerator=real, name="gpu", images=96)
