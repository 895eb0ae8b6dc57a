"""What watching a training costs: ``model.fit`` with `labextras.fit.Watch` and without it, in turn.

    python benchmarks/watch.py

A small network is trained on 48×48 pixels in memory, in batches of 32. CPU time is that of all threads of the process.
The last line is one JSON object. ``step_ratio`` is what a step in a window takes, over a step just before and just
after it in the same training: a machine that drifts cancels out. It is the median of all windows, a few in a training.
``profiler_ratio`` is the same with TensorFlow's profiler alone, as it is by default, and ``plain_ratio`` with nothing:
how far it is from 1 is the error. ``once_s`` is the CPU time by which each window makes a training longer beside that:
for opening it, and writing and reading the profile. ``outside_ratio`` compares steps outside of the windows, in a
training with `labextras.fit.Watch` over one without. ``images_per_s_error`` is by how much the images/s of a window
with validations in it differ from those of a clock of the training itself that stops while the model evaluates: the
median of the rounds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from typing import Any

import labextras.fit
import labkit

#: Steps of a training before its first window, of a window, of what is compared before it and after it, and left out
#: between: the step that closes a window is part of what is taken once.
FIRST, STEPS, BESIDE, BETWEEN = 25, 20, 10, 2

#: Steps of a window with validations in it, one after each 20 steps.
VALIDATED = 80

#: Windows of a training.
WINDOWS = 4

#: From a window to the next one.
EVERY = BESIDE + BETWEEN + STEPS + BETWEEN + BESIDE

KINDS = ("plain", "profiler", "watch")


def begins() -> range:
    """Return the steps with which windows begin."""
    return range(FIRST + BESIDE + BETWEEN, FIRST + WINDOWS * EVERY, EVERY)


def callbacks(kind: str) -> list[Any]:
    """Return what watches a training, one of `KINDS`."""
    import keras
    import tensorflow as tf

    class Profiler(keras.callbacks.Callback):
        """TensorFlow's profiler alone, in the same windows."""

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch in begins():
                self.folder = tempfile.TemporaryDirectory()
                tf.profiler.experimental.start(self.folder.name)
            elif batch - STEPS in begins():
                tf.profiler.experimental.stop()
                self.folder.cleanup()

    if kind == "watch":
        return [labextras.fit.Watch(STEPS, warmup=begin) for begin in begins()]
    return [Profiler()] if kind == "profiler" else []


def train(model: Any, kind: str) -> tuple[list[float], float, float]:
    """Train; return the ratio of each window, CPU seconds of a step outside of windows, and of the whole training."""
    import keras
    import tensorflow as tf

    class Clock(keras.callbacks.Callback):
        """The processor time at the beginning of each step, after a window was opened and before it is closed."""

        def on_train_begin(self, logs: Any = None) -> None:
            self.cpu: list[float] = []

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.cpu.append(time.process_time())

        def step(self, first: int, last: int) -> float:
            """Return what a step takes, from a step to the beginning of another one."""
            return (self.cpu[last] - self.cpu[first]) / (last - first)

    pixels = tf.random.stateless_uniform((640, 48, 48, 3), (1, 2))
    labels = tf.range(640) % 10
    dataset = tf.data.Dataset.from_tensor_slices((pixels, labels)).batch(32).cache().repeat().prefetch(2)
    clock, start = Clock(), time.process_time()
    steps = FIRST + WINDOWS * EVERY + 1
    model.fit(dataset, steps_per_epoch=steps, verbose=0, callbacks=[*callbacks(kind), clock])
    whole = time.process_time() - start
    ratios, outside = [], []
    for begin in begins():
        end = begin + STEPS
        before = clock.step(begin - BETWEEN - BESIDE, begin - BETWEEN)
        after = clock.step(end + BETWEEN, end + BETWEEN + BESIDE)
        outside.append((before + after) / 2)
        ratios.append(clock.step(begin, end - 1) / outside[-1])
    return ratios, statistics.mean(outside), whole


def validated(model: Any) -> float:
    """Train in short epochs, each with a validation; return by which share the images/s of the window are wrong."""
    import keras
    import tensorflow as tf

    class Clock(keras.callbacks.Callback):
        """The time of each step without that of the validations before it."""

        def on_train_begin(self, logs: Any = None) -> None:
            self.at: list[float] = []
            self.out = 0.0

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.at.append(time.perf_counter() - self.out)

        def validate(self, *args: Any, **named: Any) -> Any:
            """Stand in for `evaluate` of the model: what that prepares before its first batch trains nothing, too."""
            before = time.perf_counter()
            try:
                return type(self.model).evaluate(self.model, *args, **named)
            finally:
                self.out += time.perf_counter() - before

    pixels = tf.random.stateless_uniform((640, 48, 48, 3), (1, 2))
    dataset = tf.data.Dataset.from_tensor_slices((pixels, tf.range(640) % 10)).batch(32, drop_remainder=True).cache()
    watch, clock, steps = labextras.fit.Watch(VALIDATED, warmup=FIRST), Clock(), VALIDATED
    model.evaluate = clock.validate
    model.fit(dataset, epochs=6, verbose=0, validation_data=dataset, callbacks=[watch, clock])
    del model.evaluate
    truth = 32 * (steps - 1) / (clock.at[FIRST + steps - 1] - clock.at[FIRST])
    return abs(watch.trace.run.repeats[0].images_per_s / truth - 1)


def main() -> None:
    """Measure and print one line for each round, and the line of JSON."""
    import keras
    from operations import network

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    labkit.setup()
    keras.utils.set_random_seed(1)
    model = network()
    for kind in KINDS:
        train(model, kind)  # the first step compiles, and the first session of a process loads what it needs
    ratios: dict[str, list[float]] = {kind: [] for kind in KINDS}
    outside, extra, errors = [], [], []
    orders = itertools.cycle(itertools.permutations(KINDS))
    for number in range(given.rounds):
        found = {kind: train(model, kind) for kind in next(orders)}
        for kind in KINDS:
            ratios[kind] += found[kind][0]
        (_, step, plain), (watched, other, whole) = found["plain"], found["watch"]
        outside.append(other / step)
        more = sum(watched) - len(watched)
        extra.append((whole - plain - more * STEPS * other) / WINDOWS)
        errors.append(validated(model))
        words = ", ".join(f"{kind} {statistics.median(found[kind][0]):.3f}" for kind in KINDS)
        print(f"round {number}: step {1e3 * step:.1f} ms, {words}, once {extra[-1]:.2f} s, error {errors[-1]:.3f}")
    lower, _, upper = statistics.quantiles(ratios["watch"], n=4)
    figures = {"step_ratio": round(statistics.median(ratios["watch"]), 3)}
    figures |= {"step_ratio_range": [round(bound, 3) for bound in (lower, upper)]}
    figures |= {f"{kind}_ratio": round(statistics.median(ratios[kind]), 3) for kind in ("profiler", "plain")}
    figures |= {"outside_ratio": round(statistics.median(outside), 3), "once_s": round(statistics.median(extra), 2)}
    figures |= {"images_per_s_error": round(statistics.median(errors), 4)}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
