"""How often does noise decide a grade? Right and wrong pipelines, graded again and again beside competing processes.

    python benchmarks/grading_noise.py            # about ten minutes on two cores
    python benchmarks/grading_noise.py --minutes 45   # about 300 wrong answers
    python benchmarks/grading_noise.py --minutes 1 --competing 0 3

Each competing process computes without pause. Right answers are built in several ways; wrong ones look right to
the graph and to the simulated clock, so that only the measurement can tell: what they do inside of their functions
takes turns. The last line is JSON: `wrong_passed` (0 is wanted), `right_failed_share` (at most 0.01),
`inconclusive_share` (at most 0.10, over all grades), `counts`, and the same shares by number of competing processes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections import Counter

from labcourse import fairness, grading
from labkit.common import environment
from labkit.pipelines import options

environment.prepare()
import tensorflow as tf  # noqa: E402 - the environment must be prepared first

BUSY = "while True: sum(i * i for i in range(10_000))"


def source(elements: int = 16):
    """Return numbers under the options of a naive pipeline, with a pool that may wait."""
    return options.plain(tf.data.Dataset.range(elements), threads=8)


def tasks():
    """Yield (name, task, right answers, wrong answers); answers are functions without arguments."""
    read, decode = fairness.Stage("read", 6, asleep=True), fairness.Stage("decode", 3, lambda x: x * 10)

    def both(x):
        return decode(read(x))

    lock = threading.Lock()

    def in_turn(x):
        """Do the same behind a lock that no graph shows."""

        def held(value):
            with lock:
                time.sleep(9e-3)
            return value

        return tf.ensure_shape(tf.numpy_function(held, [both(x)], tf.int64), [])

    def waiting(x):
        """Do the same, and wait for something that no graph shows."""

        def wait(value):
            time.sleep(100e-3)
            return value

        return tf.ensure_shape(tf.numpy_function(wait, [both(x)], tf.int64), [])

    def slow():
        return source().map(both).batch(4)

    def good(calls=8, ahead=2):
        return source().map(both, num_parallel_calls=calls).batch(4).prefetch(ahead)

    yield (
        "map",
        fairness.Task((read, decode), slow, good, 8),
        [good, lambda: good(tf.data.AUTOTUNE, tf.data.AUTOTUNE), lambda: good(8, 4)],
        [
            lambda: source().map(in_turn, num_parallel_calls=8).batch(4).prefetch(2),
            lambda: source().map(waiting, num_parallel_calls=8).batch(4).prefetch(2),
        ],
    )
    load = fairness.Stage("load", 10)

    def overlap(ahead=2):
        return source(16).map(load).batch(2).prefetch(ahead)

    def waits(batch):
        def wait(value):
            time.sleep(20e-3)
            return value

        return tf.ensure_shape(tf.numpy_function(wait, [batch], tf.int64), [None])

    yield (
        "prefetch",
        fairness.Task((load,), lambda: source(16).map(load).batch(2), overlap, 20),
        [overlap, lambda: overlap(tf.data.AUTOTUNE), lambda: overlap(3)],
        [lambda: source(16).map(load).batch(2).map(waits).prefetch(2)],
    )
    fetch = fairness.Stage("read", 10, asleep=True)

    def shards(calls, wait_ms=0):
        def wait(value):
            time.sleep(wait_ms / 1e3)
            return value

        def open_shard(number):
            records = tf.data.Dataset.range(3).map(fetch)
            if wait_ms:
                records = records.map(lambda r: tf.ensure_shape(tf.numpy_function(wait, [r], tf.int64), []))
            return records.map(lambda record: number * 10 + record)

        how = {"num_parallel_calls": calls} if calls else {}
        return source(6).interleave(open_shard, cycle_length=3, block_length=2, **how)

    yield (
        "interleave",
        fairness.Task((fetch,), lambda: shards(None), lambda: shards(3), 0.5, records=3),
        [lambda: shards(3), lambda: shards(tf.data.AUTOTUNE)],
        [lambda: shards(3, wait_ms=40)],
    )


def graded(task: fairness.Task, answer) -> str:
    """Return the status of one grade."""
    return grading.judge("noise", lambda given: fairness.grade(given, task), answer).status


def main() -> None:
    """Grade until the time is up, the numbers of competing processes in turn, and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=9.0, help="time for all of it (default 9)")
    parser.add_argument("--competing", type=int, nargs="+", default=[0, 1, 3], help="numbers of competing processes")
    options = parser.parse_args()
    counts: Counter[tuple[int, str, str]] = Counter()
    known = list(tasks())
    began = time.monotonic()
    number = 0
    while time.monotonic() - began < options.minutes * 60:
        rivals_now = options.competing[number % len(options.competing)]
        rivals = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(rivals_now)]
        try:
            for _, task, right, wrong in known:
                # One of the right answers for each wrong one, another one in every turn.
                for answer in [right[(number + i) % len(right)] for i in range(len(wrong))]:
                    counts[rivals_now, "right", graded(task, answer)] += 1
                for answer in wrong:
                    counts[rivals_now, "wrong", graded(task, answer)] += 1
        finally:
            for rival in rivals:
                rival.kill()
                rival.wait()
        number += 1
        print({f"{k[0]} competing, {k[1]} answer, {k[2]}": n for k, n in sorted(counts.items())}, flush=True)

    def total(kind=None, status=None, rivals=None):
        return sum(
            n for (r, k, s), n in counts.items() if kind in (None, k) and status in (None, s) and rivals in (None, r)
        )

    def share(part, whole):
        return round(part / whole, 4) if whole else None

    print(
        json.dumps(
            {
                "wrong_graded": total("wrong"),
                "wrong_passed": total("wrong", "passed"),
                "right_graded": total("right"),
                "right_failed_share": share(total("right", "failed"), total("right")),
                "inconclusive_share": share(total(status="inconclusive"), total()),
                "inconclusive_by_competing": {
                    str(r): share(total(status="inconclusive", rivals=r), total(rivals=r)) for r in options.competing
                },
                "counts": {f"{r} {k} {s}": n for (r, k, s), n in sorted(counts.items())},
                "minutes": round((time.monotonic() - began) / 60, 1),
                "cores": environment.cores(),
            }
        )
    )


if __name__ == "__main__":
    main()
