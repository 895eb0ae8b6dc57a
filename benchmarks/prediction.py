"""How far predictions are from measurements, over pipelines that were fitted on another run.

    python benchmarks/prediction.py

Each machine is a child process with one or two cores (CPU affinity). It records every pipeline in turn, round by round.
Other programs only ever add time: the fastest round of each is what a prediction is compared with, and the round whose
pipeline worked least is what is fitted, since a slow accelerator hides how fast a pipeline was. Then each pipeline is
predicted from the fit of another run, with another pipeline or another accelerator: never from its own run. All rungs
of the ladder are among them. The window is a whole number of epochs. The last line is one JSON object:
``median_error`` and ``worst_error`` of the step time, relative, and how many ``pipelines``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

FAST_MS, SLOW_MS, LATENCY_MS = 20.0, 90.0, 8.0
MEASURED, FITTED = "measured", "fitted"
EPOCH = 5  # batches of the tiny album


#: The rungs of `labcourse.ladder` whose gain no knob of a fitted model states: each is fitted on itself.
RUNGS = (
    "naive, tf.data's defaults", "parallel map, the guide", "vectorized map", "TFRecords", "best", "cache of pixels",
    "best, cache of pixels",
)  # fmt: skip


class Case(NamedTuple):
    """A pipeline, the run that its model is fitted on, and what is changed in the model."""

    pipeline: str
    fitted_on: str
    changes: dict[str, Any]


#: Those named as in `labcourse.ladder` are its rungs; the others are written out below.
CASES = (
    Case("naive, slow accelerator", "naive", {"train": SLOW_MS}),
    Case("prefetch(AUTOTUNE)", "naive", {"prefetch": 2}),
    Case("prefetch(AUTOTUNE), slow accelerator", "naive", {"prefetch": 2, "train": SLOW_MS}),
    Case("map ×2, prefetch", "naive", {"map_calls": 2, "prefetch": 2}),
    Case("naive", "map ×2, prefetch", {"map_calls": 1, "prefetch": 0}),
    Case("prefetch(1)", "naive", {"prefetch": 1}),
    Case("parallel interleave", "naive", {"cycle_length": 8, "prefetch": 2}),
    Case("batch first, prefetch", "batch first", {"prefetch": 2}),
    Case("batch first, map ×2, prefetch", "batch first", {"map_calls": 2, "prefetch": 2}),
    Case("naive, far storage", "naive", {"latency_ms": LATENCY_MS}),
    Case("prefetch, far storage", "naive, far storage", {"prefetch": 2}),
    Case("map ×8, prefetch, far storage", "naive, far storage", {"map_calls": 8, "threads": 8, "prefetch": 2}),
    Case("prefetch(AUTOTUNE)", "naive, far storage", {"cache_hit": 1.0, "prefetch": 2}),
    Case("shards, interleave ×4, prefetch, far storage", "shards, far storage", {"cycle_length": 4, "prefetch": 2}),
    # Every other rung of the ladder, from one accelerator to the other one.
    *(Case(f"{rung}, slow accelerator", rung, {"train": SLOW_MS}) for rung in RUNGS),
    *(Case(rung, f"{rung}, slow accelerator", {"train": FAST_MS}) for rung in RUNGS),
)


def pipelines(album: Any) -> dict[str, tuple[Any, float]]:
    """Return every pipeline by name, with the train step of its accelerator in ms."""
    import tensorflow as tf

    from labcourse import ladder
    from labkit import plain
    from labkit.pipelines import augment
    from labkit.sources import records, storage

    files = ladder.shuffled(album)
    far = storage.Storage("far", LATENCY_MS, math.inf, "chosen for this benchmark")
    shards = [str(path) for path in ladder.packed(album).paths]

    def remote(path: Any, label: Any) -> Any:
        return ladder.preprocess(far.read(path)), label

    def small(path: Any, label: Any) -> Any:
        return ladder.shrink(tf.io.read_file(path)), label

    def parsed(serialized: Any) -> Any:
        jpeg, label = records.parse(serialized)
        return ladder.preprocess(jpeg), label

    # Records that each take a while, as from storage without a page cache.
    slow = storage.Storage("far shards", 0.0, 40.0, "chosen for this benchmark")

    def streams(cycle: int, calls: int | None) -> Any:
        names = tf.data.Dataset.from_tensor_slices(shards).repeat()
        return names.interleave(slow.records, cycle_length=cycle, num_parallel_calls=calls).map(parsed).batch(32)

    def wide(dataset: Any, threads: int) -> Any:
        options = tf.data.Options()
        options.threading.private_threadpool_size = threads
        return plain(dataset).with_options(options)

    wanted = ("naive", "prefetch(1)", "prefetch(AUTOTUNE)", "parallel interleave")
    rungs = {rung.name: rung.build(album) for rung in ladder.RUNGS if rung.name in (*wanted, *RUNGS)}
    naive, ahead = rungs["naive"], rungs["prefetch(AUTOTUNE)"]
    two = plain(files.map(ladder.prepare, num_parallel_calls=2).batch(32).prefetch(2))
    first = files.map(small).batch(32, drop_remainder=True).map(augment.fresh)
    first_two = files.map(small, num_parallel_calls=2).batch(32, drop_remainder=True).map(augment.fresh)
    return {
        "naive": (naive, FAST_MS),
        "naive, slow accelerator": (naive, SLOW_MS),
        "prefetch(AUTOTUNE)": (ahead, FAST_MS),
        "prefetch(AUTOTUNE), slow accelerator": (ahead, SLOW_MS),
        "map ×2, prefetch": (two, FAST_MS),
        "prefetch(1)": (rungs["prefetch(1)"], FAST_MS),
        "parallel interleave": (rungs["parallel interleave"], FAST_MS),
        "batch first": (plain(first), FAST_MS),
        "batch first, prefetch": (plain(first.prefetch(2)), FAST_MS),
        "batch first, map ×2, prefetch": (plain(first_two.prefetch(2)), FAST_MS),
        "naive, far storage": (plain(files.map(remote).batch(32)), FAST_MS),
        "prefetch, far storage": (plain(files.map(remote).batch(32).prefetch(2)), FAST_MS),
        "map ×8, prefetch, far storage": (
            wide(files.map(remote, num_parallel_calls=8).batch(32).prefetch(2), 8), FAST_MS,
        ),
        "shards, far storage": (plain(streams(1, None)), FAST_MS),
        "shards, interleave ×4, prefetch, far storage": (plain(streams(4, 4).prefetch(2)), FAST_MS),
        **{name: (rungs[name], FAST_MS) for name in RUNGS},
        **{f"{name}, slow accelerator": (rungs[name], SLOW_MS) for name in RUNGS},
    }  # fmt: skip


def machine(cores: int, folder: Path, seconds: float) -> None:
    """Record all pipelines on so many cores, the fastest round of each, into `folder`."""
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)  # other programs are no part of the model
    import labkit
    from labkit.recording import accelerators
    from labkit.sources import photos

    labkit.setup()
    fastest: dict[str, Any] = {}
    least: dict[str, Any] = {}
    rounds, before = 0, _processor_seconds()
    known = pipelines(photos.load(scale="tiny"))
    end = time.monotonic() + seconds
    longest = 0.0
    while rounds < 2 or time.monotonic() + longest < end:
        begin = time.monotonic()
        for name, (dataset, train_ms) in known.items():
            accelerator = accelerators.modelled(step_ms=train_ms)
            steps = EPOCH if "naive, far" in name or "prefetch, far" in name else 2 * EPOCH
            warmup = EPOCH + 3 if "cache" in name or name.startswith("best") else 3  # a cache is filled first
            trace = labkit.record(dataset, accelerator, steps=steps, warmup=warmup, name=name, progress=False)
            for kept, figure in ((fastest, _step_ms), (least, _work_ms)):
                if name not in kept or figure(trace) < figure(kept[name]):
                    kept[name] = trace
        rounds += 1
        longest = max(longest, time.monotonic() - begin)
    own, every = (now - then for now, then in zip(_processor_seconds(), before, strict=True))
    for kept, use in ((fastest, MEASURED), (least, FITTED)):
        for number, trace in enumerate(kept.values()):
            trace.save(folder / f"{cores}-{use}-{number}.json")
    about = {"rounds": rounds, "others": max(0.0, every - own) / max(every, 1e-9)}
    (folder / f"about-{cores}.json").write_text(json.dumps(about))


def _processor_seconds() -> tuple[float, float]:
    """Return the processor time of this process and that of all programs on the machine, in seconds."""
    own = os.times()
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    idle = ticks[3] + ticks[4]
    return own.user + own.system, (sum(ticks[:8]) - idle) / os.sysconf("SC_CLK_TCK")


def _step_ms(trace: Any) -> float:
    start, end = trace.run.window_ns
    return (end - start) / 1e6 / trace.run.steps


def _work_ms(trace: Any) -> float:
    """Return how long the threads of the pipeline worked, in ms; a sleep is none of it."""
    from labkit.timeline.timeline import Timeline

    lanes = [lane.by_category for lane in Timeline(trace).lanes if lane.kind == "pipeline"]
    return sum(ns for own in lanes for category, ns in own.items() if category not in ("iterator", "read")) / 1e6


def main() -> None:
    """Print a table of predictions and one line of JSON."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    words.add_argument("--folder", type=Path, help="keep the recordings here, or use those that are there")
    words.add_argument("--seconds", type=float, default=150.0, help="for the rounds of each machine")
    given = words.parse_args()
    if given.cores:
        machine(given.cores, given.folder, given.seconds)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        settings = [c for c in (1, 2) if c <= len(os.sched_getaffinity(0))]
        for cores in settings:
            if not list(folder.glob(f"{cores}-*.json")):
                folder.mkdir(parents=True, exist_ok=True)
                words = [sys.executable, __file__, "--cores", str(cores), "--folder", str(folder)]
                subprocess.run([*words, "--seconds", str(given.seconds)], check=True, stdout=subprocess.DEVNULL)
        report(folder, settings)


def report(folder: Path, settings: list[int]) -> None:
    """Predict every case from what `folder` holds, and print it."""
    from labkit import Trace, simulate

    errors = []
    for cores in settings:
        runs, fits = (
            {trace.run.name: trace for trace in map(Trace.load, folder.glob(f"{cores}-{use}-*.json"))}
            for use in (MEASURED, FITTED)
        )
        about = json.loads((folder / f"about-{cores}.json").read_text())
        print(
            f"{cores} {'core' if cores == 1 else 'cores'}; the best of {about['rounds']} rounds; "
            f"other programs took {about['others']:.0%} of the processor time"
        )
        print(f"  {'pipeline':46s}{'fitted on':46s}{'measured':>10s}{'predicted':>11s}{'error':>9s}")
        for case in CASES:
            model = simulate.fit(fits[case.fitted_on])
            predicted = model.predict(steps=40, **case.changes).step_ms
            measured = _step_ms(runs[case.pipeline])
            errors.append(predicted / measured - 1)
            print(f"  {case.pipeline:46s}{case.fitted_on:46s}{measured:7.1f} ms{predicted:8.1f} ms{errors[-1]:+9.1%}")
    size = [abs(error) for error in errors]
    print(f"median error {statistics.median(size):.1%}, worst {max(size):.1%}, {len(size)} pipelines")
    figures = {"median_error": statistics.median(size), "worst_error": max(size)}
    print(json.dumps({k: round(v, 4) for k, v in figures.items()} | {"pipelines": len(size)}))


if __name__ == "__main__":
    main()
