"""What recording costs: throughput of the AUTOTUNE photo pipeline recorded, unrecorded, and timed by hand.

    python benchmarks/recording_overhead.py

Photos are read, decoded, converted, resized, flipped, brightened, saturated and clipped, in batches of 32; nothing
consumes them, so that every microsecond of overhead shows. All variants run the loop of
`labkit.recording.tfdata.driver` in turn: with TensorFlow's profiler, without it, and without it but with the stages
wrapped in ``tf.py_function`` to return their timings with the image, as is common. The last line is one JSON object:
``ratio`` is recorded over unrecorded throughput, ``ratio_py_function`` hand-timed over unrecorded; each the median of
the ratios of the rounds. CPU time per image tells the same with less noise.

Other pipelines follow, most of them of small elements. Each is recorded as a user records it, which may say that
recording distorts it, and then driven with the profiler and without, in turn. ``event_ns`` is what an event costs here,
by kind; ``false_distorts`` counts the pipelines that are said to be distorted although the profiler adds less than a
tenth to their CPU time, ``missed_distorts`` those of which it is not said although it adds more than a quarter.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from labcourse import ladder
from labkit.common import environment
from labkit.pipelines.options import plain
from labkit.recording import accelerators, recorder
from labkit.recording.tfdata import xspace
from labkit.recording.tfdata.driver import Session, drive
from labkit.sources import photos
from labkit.timeline.wording import PYTHON_OPS

#: The kinds of events: those of a node of tf.data, whose name and settings are written into each; of a Python function;
#: and of an operation, with the executor that starts it.
KINDS = ("node", "python", "op")


class Nothing:
    """A consumer that takes no time."""

    name = "nothing"

    def step(self, batch: Any) -> None:
        """Do nothing."""


def autotuned(album: Any, prepare: Callable[..., Any]) -> Any:
    """Return the pipeline that everybody recommends."""
    import tensorflow as tf

    mapped = ladder.shuffled(album).map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
    return mapped.batch(ladder.BATCH).prefetch(tf.data.AUTOTUNE)


def timed(stage: Callable[..., Any], out: Any) -> Callable[..., Any]:
    """Wrap a stage so that it returns, beside its result, when it began and ended."""
    import tensorflow as tf

    def clocked(*inputs: Any) -> tuple[Any, Any]:
        begin = time.perf_counter()
        result = stage(*inputs)
        return result, tf.constant([begin, time.perf_counter()], tf.float64)

    return lambda *inputs: tf.py_function(clocked, inputs, [out, tf.float64])


def prepare_by_hand(path: Any, label: Any) -> tuple[Any, Any, Any]:
    """Do what `labcourse.ladder.prepare` does, as two stages that time themselves."""
    import tensorflow as tf

    def decode(path: Any) -> Any:
        return tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")

    def augment(image: Any) -> Any:
        image = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), [ladder.SIDE, ladder.SIDE])
        image = tf.image.random_brightness(tf.image.random_flip_left_right(image), max_delta=32 / 255)
        return tf.clip_by_value(tf.image.random_saturation(image, 0.5, 1.5), 0, 1)

    image, read_times = timed(decode, tf.uint8)(path)
    image, augment_times = timed(augment, tf.float32)(image)
    image = tf.ensure_shape(image, (ladder.SIDE, ladder.SIDE, 3))
    return image, label, tf.ensure_shape(tf.stack([read_times, augment_times]), (2, 2))


def kind(name: str) -> str:
    """Return which of `KINDS` an event is, by its name."""
    python = name.startswith("EagerLocalExecute") or name.rpartition(":")[2] in PYTHON_OPS
    return "node" if name.startswith("Iterator::") else "python" if python else "op"


def event_ns(turns: int = 9) -> dict[str, int]:
    """Return the processor time that an event of each of `KINDS` takes on this machine, in nanoseconds.

    A pipeline of many nodes, one of operations and one of a Python function run with the profiler and without, in turn.
    The costs are those that explain the differences (least squares, none of them negative).
    """
    import tensorflow as tf
    from scipy.optimize import nnls

    numbers = nodes = tf.data.Dataset.range(4_000)
    for _ in range(8):
        nodes = nodes.take(4_000)
    called = numbers.take(400).map(lambda n: tf.numpy_function(int, [n], tf.int64))
    rows, costs = [], []
    for dataset in map(plain, (nodes.batch(4_000), numbers.map(lambda n: 2 * n + 1).batch(4_000), called.batch(400))):
        extra_ns = []
        for _ in range(turns):
            spent = []
            for watched in (False, True):
                with Session() as session:
                    if watched:
                        session.start()
                    start = time.process_time_ns()
                    next(iter(dataset))
                    spent.append(time.process_time_ns() - start)
            extra_ns.append(spent[1] - spent[0])
        events = count_events(dataset)
        rows.append([events[one] / events.total() for one in KINDS])
        costs.append(statistics.median(extra_ns) / events.total())
    return dict(zip(KINDS, map(round, nnls(np.array(rows), np.array(costs))[0].tolist()), strict=True))


def count_events(dataset: Any) -> Counter[str]:
    """Return how many events of each of `KINDS` the first batch of a pipeline makes, from the file of the profiler."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, Session() as session:
        session.start()
        next(iter(dataset))
        session.stop(folder)
        (file,) = Path(folder).rglob("*.xplane.pb")
        for plane in xspace.planes(file.read_bytes()):
            ids = np.array(sorted(plane.events), np.int64)
            names = xspace.events(plane.lines, ids, np.zeros(len(ids) + 1, bool)).all_names
            for name, count in zip(ids.tolist(), np.bincount(names, minlength=len(ids)).tolist(), strict=False):
                found[kind(plane.events[name])] += count
    return found


def small_and_large() -> dict[str, Any]:
    """Return pipelines of which the profiler takes more or less: few or many events for each element."""
    import tensorflow as tf

    numbers = tf.data.Dataset.range(10**7)
    chain = tf.data.Dataset.range(0, 50).repeat()
    for start in range(1, 100):
        chain = tf.data.Dataset.range(start, start + 50).concatenate(chain)
    rng = np.random.default_rng(1)
    icons = tf.data.Dataset.from_tensor_slices(rng.integers(0, 255, (256, 32, 32, 3)).astype(np.uint8)).repeat()
    large = tf.data.Dataset.from_tensor_slices(rng.integers(0, 255, (16, 512, 512, 3)).astype(np.uint8)).repeat()
    records = [
        tf.train.Example(
            features=tf.train.Features(feature={"n": tf.train.Feature(int64_list=tf.train.Int64List(value=[i] * 9))})
        ).SerializeToString()
        for i in range(512)
    ]
    parsed = tf.data.Dataset.from_tensor_slices(records).repeat()
    lists = tf.data.Dataset.from_generator(lambda: iter(lambda: [0] * 64, None), tf.int32, [64])

    def halved(image: Any) -> Any:
        return tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), [16, 16])

    def coloured(image: Any) -> Any:
        return tf.image.random_hue(tf.image.convert_image_dtype(image, tf.float32), 0.1)

    return {
        "numbers, mapped one by one": numbers.map(lambda n: n * 2 + 1).batch(256),
        "numbers, mapped as a batch": numbers.batch(4096).map(lambda n: n * 2 + 1),
        "numbers, in parallel": numbers.map(lambda n: n * 2 + 1, num_parallel_calls=2).batch(256).prefetch(2),
        "100 concatenated": chain.batch(64),
        "icons": icons.map(halved).batch(64),
        "icons, in parallel": icons.map(halved, num_parallel_calls=tf.data.AUTOTUNE).batch(64).prefetch(2),
        "icons, in NumPy": icons.map(lambda i: tf.numpy_function(np.flipud, [i], tf.uint8)).batch(64),
        "large, hue": large.map(coloured, num_parallel_calls=tf.data.AUTOTUNE).batch(4).prefetch(2),
        "large, as they are": large.batch(16),
        "records, parsed one by one": parsed.map(
            lambda one: tf.io.parse_single_example(one, {"n": tf.io.FixedLenFeature([9], tf.int64)})["n"]
        ).batch(128),
        "records, parsed as a batch": parsed.batch(128).map(
            lambda some: tf.io.parse_example(some, {"n": tf.io.FixedLenFeature([9], tf.int64)})["n"]
        ),
        "a generator of lists": lists.batch(64),
    }


def distortion(dataset: Any, step: Any, rounds: int, steps: int = 40) -> float:
    """Return which share the profiler adds to the CPU time of an image, the median of so many pairs."""
    shares = []
    for number in range(rounds):
        order = (number % 2 == 0, number % 2 == 1)
        cpu = {watched: recorder.cpu_ns_per_image(dataset, step, steps, 4, watched) for watched in order}
        shares.append(cpu[True] / cpu[False] - 1)
    return statistics.median(shares)


def said_and_shown(rounds: int) -> dict[str, Any]:
    """Print what recordings say of themselves beside what pairs show, and return the figures of it."""
    step, wrong = accelerators.modelled(step_ms=5), {"false_distorts": 0, "missed_distorts": 0}
    print(f"\n{'pipeline':<28}{'events/image':>14}{'said':>8}{'shown':>8}{'record, s':>11}")
    for name, dataset in small_and_large().items():
        start = time.perf_counter()
        profiler = recorder.record(dataset, step, name=name).run.profiler
        taken, shown = time.perf_counter() - start, distortion(dataset, step, rounds)
        said = profiler.distortion
        wrong["false_distorts"] += said is not None and shown < recorder.DISTORTS
        wrong["missed_distorts"] += said is None and shown > 0.25
        words = "–" if said is None else f"{said:.0%}"
        print(f"{name:<28}{profiler.events_per_image:>14}{words:>8}{f'{shown:.0%}':>8}{taken:>11.1f}")
    return wrong


def main() -> None:
    """Print a table of rounds and one line of JSON."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--rounds", type=int, default=15)
    words.add_argument("--steps", type=int, default=30)
    words.add_argument("--pairs", type=int, default=7)
    given = words.parse_args()
    environment.prepare()

    album = photos.load(scale="tiny")
    plain, by_hand = autotuned(album, ladder.prepare), autotuned(album, prepare_by_hand)
    variants = {"unrecorded": (plain, None), "recorded": (plain, 500_000), "py_function": (by_hand, None)}
    rates: dict[str, list[float]] = {name: [] for name in variants}
    cpu_ms: dict[str, list[float]] = {name: [] for name in variants}
    names = list(variants)
    # The first round of all warms up page cache, allocator and TensorFlow, and is thrown away.
    for number in range(given.rounds + 1):
        for name in names[number % 3 :] + names[: number % 3]:
            dataset, max_events = variants[name]
            run = drive(dataset, Nothing(), given.steps, 4, max_events=max_events)
            if number:
                rates[name].append(run.images / run.elapsed_ns * 1e9)
                cpu_ms[name].append(run.cpu_ns / run.images / 1e6)

    def ratios(figures: dict[str, list[float]], name: str) -> list[float]:
        return [a / b for a, b in zip(figures[name], figures["unrecorded"], strict=True)]

    heads = ("images/s", "low", "high", "÷ unrecorded", "low", "high", "CPU ms/image")
    print(f"{'variant':<12}" + "".join(f"{head:>14}" for head in heads))
    for name in names:
        r, q = rates[name], ratios(rates, name)
        row = [f"{x:.0f}" for x in (statistics.median(r), min(r), max(r))]
        row += [f"{x:.3f}" for x in (statistics.median(q), min(q), max(q), statistics.median(cpu_ms[name]))]
        print(f"{name:<12}" + "".join(f"{cell:>14}" for cell in row))
    figures = {
        "ratio": statistics.median(ratios(rates, "recorded")),
        "ratio_py_function": statistics.median(ratios(rates, "py_function")),
        "ratio_cpu": statistics.median(ratios(cpu_ms, "recorded")),
        "ratio_cpu_py_function": statistics.median(ratios(cpu_ms, "py_function")),
        "images_per_s": statistics.median(rates["recorded"]),
    }
    found = {"event_ns": event_ns(), **said_and_shown(given.pairs)}
    print(json.dumps({key: round(value, 3) for key, value in figures.items()} | {"rounds": given.rounds} | found))


if __name__ == "__main__":
    main()
