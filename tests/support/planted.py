"""Twelve pipelines, each with one planted bottleneck, for tests and for ``benchmarks/causes.py``.

Waiting is real (a thread asleep in `labkit.storage`), work is real (JPEGs decoded, bytes copied, Python run). All but
the named fault are made quick, so that only one answer is right.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labcourse import ladder
from labkit.pipelines.options import plain
from labkit.recording import accelerators, recorder
from labkit.sources import storage
from labkit.timeline.trace import Span, Trace

BATCH = 8


@dataclass(frozen=True)
class Plant:
    """One fault: its name, the right cause, words of which one is in the op, and rules of which one is said."""

    name: str
    cause: str | None
    record: Callable[[Files], Trace]
    op: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


class Files:
    """JPEGs on disk, as paths: 24 of 320 × 320 pixels, and 8 large ones of 1280 × 1280."""

    def __init__(self, folder: Path) -> None:
        import tensorflow as tf

        rng = np.random.default_rng(7)
        self.small, self.large = [], []
        for kind, side, count in (("small", 320, 24), ("large", 1280, 8)):
            for i in range(count):
                rough = rng.integers(0, 256, (1, side // 8, side // 8, 3)).astype(np.uint8)
                pixels = tf.cast(tf.image.resize(rough, [side, side]), tf.uint8)[0]
                path = Path(folder) / f"{kind}_{i}.jpg"
                tf.io.write_file(str(path), tf.io.encode_jpeg(pixels))
                getattr(self, kind).append(str(path))
        self.shards = []
        for shard in range(4):
            path = Path(folder) / f"shard_{shard}.tfrecord"
            with tf.io.TFRecordWriter(str(path)) as writer:
                for name in self.small:
                    writer.write(Path(name).read_bytes())
            self.shards.append(str(path))


def paths(files: Iterable[str]) -> Any:
    """Return the paths, endlessly."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(list(files)).repeat()


def quick(jpeg: Any) -> Any:
    """Do next to nothing to the bytes of a photo: 64 of them as numbers."""
    import tensorflow as tf

    return tf.io.decode_raw(tf.strings.substr(jpeg, 0, 64), tf.uint8)


def run(dataset: Any, step_ms: float, steps: int = 12, threads: int | None = None, accelerator: Any = None) -> Trace:
    """Record a pipeline whose graph stays as it was written."""
    dataset = plain(dataset, threads)
    return recorder.record(dataset, accelerator or accelerators.modelled(step_ms=step_ms), steps=steps, progress=False)


def slow_open(files: Files) -> Trace:
    """Each file takes 12 ms until its first byte."""
    far = storage.Storage("planted: slow open", 12, float("inf"), "planted")
    data = paths(files.small).map(lambda path: quick(far.read(path)), num_parallel_calls=2)
    return run(data.batch(BATCH).prefetch(2), 8)


def slow_read(files: Files) -> Trace:
    """Bytes arrive at 2 MB/s over one link."""
    thin = storage.Storage("planted: slow read", 0, 2, "planted", "bandwidth")
    data = paths(files.small).map(lambda path: quick(thin.read(path)), num_parallel_calls=2)
    return run(data.batch(BATCH).prefetch(2), 8, steps=6)


def slow_decode(files: Files) -> Trace:
    """Large photos, decoded on two threads; nearly all of the time is in the decoder."""
    import tensorflow as tf

    def shrink(path: Any) -> Any:
        return ladder.decode(tf.io.read_file(path))[::64, ::64]

    return run(paths(files.large).map(shrink, num_parallel_calls=2).batch(BATCH).prefetch(2), 8, steps=8)


def one_thread_map(files: Files) -> Trace:
    """A map over floats that runs on one thread."""
    import tensorflow as tf

    def work(path: Any) -> Any:
        image = tf.zeros([320, 320, 3]) + tf.cast(tf.strings.length(path), tf.float32) / 100
        return tf.image.random_saturation(tf.image.random_hue(image, 0.2), 0.5, 1.5)

    return run(paths(files.small).map(work).batch(BATCH).prefetch(2), 2, steps=20)


def tiny_prefetch(files: Files) -> Trace:
    """Every fifth batch takes 90 ms, the others nothing: 18 ms on average for steps of 30 ms, and a buffer of one."""
    import tensorflow as tf

    slow = storage.Storage("planted: burst", 90, float("inf"), "planted")

    def batch(number: Any, path: Any) -> Any:
        jpeg = tf.cond(number % 5 == 0, lambda: slow.read(path), lambda: tf.io.read_file(path))
        return tf.tile(quick(jpeg)[None], [BATCH, 1])

    numbered = tf.data.Dataset.zip(tf.data.Dataset.range(10**9), paths(files.small))
    return run(numbered.map(batch).prefetch(1), 30, steps=20)


def straggler(files: Files) -> Trace:
    """Four shards are read at once and in turn; each record of the first arrives at 1 MB/s, of the others at once."""
    import tensorflow as tf

    far = storage.Storage("planted: straggler", 0, 1, "planted")
    near = storage.Storage("planted: near", 0, 1000, "planted")

    def shard(number: Any) -> Any:
        paths, zero, neg = tf.constant(files.shards), tf.constant(0, tf.int64), tf.constant(-1, tf.int64)
        slow, quick = far.records(paths[0]).take(tf.where(number == 0, neg, zero)), near.records(paths[number])
        return slow.concatenate(quick.take(tf.where(number == 0, zero, neg))).repeat()

    data = tf.data.Dataset.range(4).interleave(shard, cycle_length=4, num_parallel_calls=4, deterministic=True)
    return run(data.map(quick).batch(BATCH).prefetch(2), 5, steps=10)


def slow_batch(files: Files) -> Trace:
    """Elements of 4 MB, which are ready at once: putting them together is all the work."""
    import tensorflow as tf

    big = tf.data.Dataset.from_tensors(np.ones((4 << 20,), np.uint8)).repeat()
    return run(big.batch(2 * BATCH).prefetch(1), 1, steps=30)


def shuffle_fill(files: Files) -> Trace:
    """An epoch of 96 photos, and a shuffle buffer that holds them all: it is filled anew in each epoch."""
    far = storage.Storage("planted: shuffle", 3, float("inf"), "planted")
    once = paths(files.small).take(96).map(far.read).map(quick)
    return run(once.shuffle(96).repeat().batch(BATCH).prefetch(4), 20, steps=30)


def epoch_restart(files: Files) -> Trace:
    """Each epoch begins with an index that takes 150 ms; everything else is quick."""
    import tensorflow as tf

    far = storage.Storage("planted: index", 150, float("inf"), "planted")
    index = tf.data.Dataset.from_tensors(files.small[0]).map(far.read)
    once = index.flat_map(lambda _: tf.data.Dataset.from_tensor_slices(files.small * 3))
    once = once.map(lambda path: quick(tf.io.read_file(path))).batch(BATCH).prefetch(2)
    return run(once.repeat(), 8, steps=30)


def python_map(files: Files) -> Trace:
    """A map in Python on four threads, of which the interpreter lets one run."""
    import tensorflow as tf

    def loop(path: Any) -> np.ndarray:
        total = 0
        for i in range(40_000):
            total += i * i % 7
        return np.full(64, total % 256, np.uint8)

    data = paths(files.small).map(
        lambda path: tf.ensure_shape(tf.numpy_function(loop, [path], tf.uint8), [64]), num_parallel_calls=4
    )
    return run(data.batch(BATCH).prefetch(2), 5)


class Copying:
    """A stand-in for a device at the end of a slow link: bytes of the batch are really copied before the step.

    The copies and the steps get the spans that a profile of a GPU has: ``MemcpyH2D`` and a kernel on a stream.
    """

    name, kind, source = "stand-in with a slow link", "real", "planted"

    def __init__(self, copy_ms: float, step_ms: float) -> None:
        self.copy_ms, self.step_ms = copy_ms, step_ms
        self.spans: list[tuple[str, str, int, int]] = []

    def describe(self) -> str:
        return "stand-in: copies its batch over a slow link, then holds the step"

    def step(self, batch: Any) -> None:
        begin = time.time_ns()
        data = np.asarray(batch)
        while time.time_ns() < begin + self.copy_ms * 1e6:
            data = data.copy()
        copied = time.time_ns()
        time.sleep(self.step_ms / 1e3)
        self.spans += [("MemcpyH2D", "copy", begin, copied), ("kernel", "kernel", copied, time.time_ns())]


def slow_copy(files: Files) -> Trace:
    """The pipeline is ready in time; the way into the device takes three times the step."""
    import tensorflow as tf

    device = Copying(24, 8)
    pixels = tf.data.Dataset.from_tensors(np.ones((BATCH, 256, 256, 3), np.uint8)).repeat().prefetch(2)
    trace = run(pixels, 0, accelerator=device)
    spans = [Span("stream 1", name, what, a, b - a, -1) for name, what, a, b in device.spans]
    stream = Trace.from_spans(spans, {"stream 1": "device"}, origin="measured")
    return Trace.merge(trace, stream).slice(*trace.run.window_ns)


def none(files: Files) -> Trace:
    """The accelerator is the limit: a step of 40 ms, and photos that take a few."""
    data = paths(files.small).map(lambda path: ladder.decode(storage.PRESETS["page cache"].read(path)))
    return run(data.batch(BATCH).prefetch(4), 60)


PLANTS = (
    Plant("slow open", "fetch", slow_open, ("storage", "ReadFile"), ("fetch.more-reads",)),
    Plant("slow read", "fetch", slow_read, ("storage", "ReadFile"), ("fetch.more-reads",)),
    Plant("slow decode", "prep", slow_decode, ("DecodeJpeg",), ("prep.less-work",)),
    Plant("one-thread map", "prep", one_thread_map, (), ("prep.parallel-map",)),
    Plant("tiny prefetch", "fetch", tiny_prefetch, (), ("prefetch.deeper", "prefetch.last-step")),
    Plant("straggler shard", "fetch", straggler, (), ("fetch.straggler",)),
    Plant("slow batch", "batch", slow_batch, ("Batch",), ("batch.fewer-bytes",)),
    Plant("shuffle fill", "fetch", shuffle_fill, ("Shuffle",), ("start.shuffle-names",)),
    Plant("slow epoch restart", "fetch", epoch_restart, ("Repeat",), ("start.repeat-first",)),
    Plant("Python map", "prep", python_map, ("PyFunc",), ("python.in-parallel", "python.ops-instead")),
    Plant("slow copy", "copy", slow_copy, ("MemcpyH2D",), ("copy.ahead",)),
    Plant("none", None, none, (), ("run.good-enough", "run.nothing-single")),
)


def verdict(plant: Plant, stalls: Any) -> tuple[bool, bool]:
    """Return whether the cause (and the op, where only one is right) was named, and whether the advice fits."""
    blamed = f"{stalls.blame or ''} {stalls.during or ''}"
    named = stalls.cause == plant.cause and (not plant.op or any(word in blamed for word in plant.op))
    return named, not set(plant.rules).isdisjoint(stalls.rules)
