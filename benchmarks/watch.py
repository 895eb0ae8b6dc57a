"""What watching a training costs: ``model.fit`` with `labkit.Watch` and without it, in turn.

    python benchmarks/watch.py

A small network is trained on 48×48 pixels in memory, in batches of 32. CPU time is that of all threads of the process.
The last line is one JSON object. ``step_ratio`` is what a step in the window takes, over a step before the window, in
a training that is watched over one that is not: a machine that drifts cancels out. It is the median of the rounds.
``once_s`` is the CPU time that a whole training takes longer: for opening the window, and writing and reading the
profile. ``outside_ratio`` compares the steps before the window.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import labkit

#: Steps of a training, before the window and of the window.
BEFORE, STEPS, AFTER = 15, 20, 15


def once(watch: Any | None) -> tuple[float, float, float]:
    """Train once; return CPU seconds of a step before the window, of one in the window, and of the whole training."""
    import keras
    import tensorflow as tf
    from operations import network

    class Clock(keras.callbacks.Callback):
        """The processor time at the beginning of each step, after a window was opened and before it is closed."""

        def on_train_begin(self, logs: Any = None) -> None:
            self.cpu: list[float] = []

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.cpu.append(time.process_time())

    keras.utils.set_random_seed(1)
    pixels = tf.random.stateless_uniform((640, 48, 48, 3), (1, 2))
    labels = tf.range(640) % 10
    dataset = tf.data.Dataset.from_tensor_slices((pixels, labels)).batch(32).cache().repeat().prefetch(2)
    clock, model = Clock(), network()
    callbacks = [clock] if watch is None else [watch, clock]
    start = time.process_time()
    model.fit(dataset, steps_per_epoch=BEFORE + STEPS + AFTER, verbose=0, callbacks=callbacks)
    whole = time.process_time() - start
    # The first steps compile. The step that closes the window is longer, and is part of what is taken once.
    early, late = clock.cpu[5 : BEFORE - 1], clock.cpu[BEFORE : BEFORE + STEPS - 1]
    return (early[-1] - early[0]) / (len(early) - 1), (late[-1] - late[0]) / (len(late) - 1), whole


def main() -> None:
    """Measure and print one line for each round, and the line of JSON."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rounds", type=int, default=7)
    given = words.parse_args()
    labkit.setup()
    once(None)
    once(labkit.Watch(STEPS, warmup=BEFORE))  # the first session of a process loads what it needs
    ratios, outside, extra = [], [], []
    for number in range(given.rounds):
        found = {}
        for watched in (True, False) if number % 2 else (False, True):
            found[watched] = once(labkit.Watch(STEPS, warmup=BEFORE) if watched else None)
        outside.append(found[True][0] / found[False][0])
        ratios.append(found[True][1] / found[False][1] / outside[-1])
        extra.append(found[True][2] - found[False][2])
        print(f"round {number}: step {1e3 * found[False][1]:.1f} ms, ratio {ratios[-1]:.3f}, once {extra[-1]:.2f} s")
    spread = [round(bound, 3) for bound in (min(ratios), max(ratios))]
    figures = {"step_ratio": round(statistics.median(ratios), 3), "step_ratio_range": spread}
    figures |= {"outside_ratio": round(statistics.median(outside), 3), "once_s": round(statistics.median(extra), 2)}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
