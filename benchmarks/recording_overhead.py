"""What recording costs: throughput of the AUTOTUNE photo pipeline recorded, unrecorded, and timed by hand.

    python benchmarks/recording_overhead.py

Photos are read, decoded, converted, resized, flipped, brightened, saturated and clipped, in batches of 32; nothing
consumes them, so that every microsecond of overhead shows. All variants run the loop of
`labkit.recording.tfdata.driver` in turn: with TensorFlow's profiler, without it, and without it but with the stages
wrapped in ``tf.py_function`` to return their timings with the image, as is common. The last line is one JSON object:
``ratio`` is recorded over unrecorded throughput, ``ratio_py_function`` hand-timed over unrecorded; each the median of
the ratios of the rounds. CPU time per image tells the same with less noise.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from labcourse import ladder
from labkit.common import environment
from labkit.recording.tfdata.driver import drive
from labkit.sources import photos


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


def main() -> None:
    """Print a table of rounds and one line of JSON."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--rounds", type=int, default=15)
    words.add_argument("--steps", type=int, default=30)
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
    print(json.dumps({key: round(value, 3) for key, value in figures.items()} | {"rounds": given.rounds}))


if __name__ == "__main__":
    main()
