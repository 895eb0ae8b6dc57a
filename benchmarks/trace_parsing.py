"""How fast a profiler file becomes a `Trace`, beside a bare protobuf loop over the same file.

    python benchmarks/trace_parsing.py

Records the AUTOTUNE photo pipeline until the file holds 300,000 events. The loop uses TensorFlow's own classes
and reads four numbers of each event, no names, nothing sorted; labkit goes from the file to the finished Trace. The
last line is one JSON object: ``ratio`` is the time of the loop, file included, over that of labkit (above 1: labkit is
faster), ``ratio_loop_only`` leaves reading and parsing the file out of the loop's time, not out of labkit's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labcourse import ladder
from labkit.common import environment
from labkit.recording.tfdata import xplane
from labkit.sources import photos


def record(folder: str, least: int) -> Path:
    """Profile the photo pipeline, with more steps until one file holds `least` events, and return it."""
    import tensorflow as tf

    dataset = ladder.shuffled(photos.load(scale="tiny")).map(ladder.prepare, num_parallel_calls=tf.data.AUTOTUNE)
    batches = iter(dataset.batch(ladder.BATCH).prefetch(tf.data.AUTOTUNE))
    next(batches)
    steps = least // (ladder.BATCH * 55)
    while True:
        place = tempfile.mkdtemp(dir=folder)
        tf.profiler.experimental.start(place)
        for step in range(steps):
            with tf.profiler.experimental.Trace(xplane.WAIT_MARK, step_num=step):
                next(batches)
        tf.profiler.experimental.stop()
        (file,) = Path(place).rglob("*.xplane.pb")
        if xplane.read(file).run.profiler.events >= least:
            return file
        steps = steps * 5 // 4


def protobuf(file: Path) -> tuple[float, float]:
    """Return the seconds of the bare loop: from the file on, and of the loop alone."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    begin = time.perf_counter()
    space = xplane_pb2.XSpace.FromString(file.read_bytes())
    parsed = time.perf_counter()
    rows = []
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                rows.append((event.metadata_id, event.offset_ps, event.duration_ps, event.num_occurrences))
    end = time.perf_counter()
    return end - begin, end - parsed


def labkit(file: Path) -> tuple[float]:
    """Return the seconds from the file to the finished Trace."""
    begin = time.perf_counter()
    xplane.read(file)
    return (time.perf_counter() - begin,)


def main() -> None:
    """Print a table of rounds and one line of JSON."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--rounds", type=int, default=11)
    words.add_argument("--events", type=int, default=300_000)
    given = words.parse_args()
    environment.prepare()

    with tempfile.TemporaryDirectory() as folder:
        file = record(folder, given.events)
        trace = xplane.read(file)
        events, size_mb = trace.run.profiler.events, file.stat().st_size / 1e6
        print(f"{events:,} events in {size_mb:.1f} MB become {len(trace):,} spans on {len(trace.threads)} threads")
        readers: list[Callable[[Path], Any]] = [protobuf, labkit]
        rounds = []
        for number in range(given.rounds):
            found = {r.__name__: r(file) for r in (readers if number % 2 else readers[::-1])}
            rounds.append((*found["protobuf"], *found["labkit"]))
    columns = dict(zip(("protobuf", "its loop alone", "labkit"), zip(*rounds, strict=True), strict=True))
    heads = ("median s", "low", "high", "M events/s")
    print(f"{'file to rows':<16}" + "".join(f"{head:>12}" for head in heads) + f"   ({len(rounds)} rounds, in turn)")
    for name, times in columns.items():
        middle = statistics.median(times)
        figures = (f"{x:.3f}" for x in (middle, min(times), max(times)))
        print(f"{name:<16}" + "".join(f"{x:>12}" for x in figures) + f"{events / middle / 1e6:>12.2f}")
    figures = {
        "ratio": round(statistics.median(a / c for a, _, c in rounds), 3),
        "ratio_low": round(min(a / c for a, _, c in rounds), 3),
        "ratio_high": round(max(a / c for a, _, c in rounds), 3),
        "ratio_loop_only": round(statistics.median(b / c for _, b, c in rounds), 3),
        "events_per_s": round(events / statistics.median(columns["labkit"])),
        "events": events,
        "rounds": given.rounds,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
