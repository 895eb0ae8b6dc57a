"""Which cause is named for pipelines with one planted bottleneck: a confusion table over several rounds.

    python benchmarks/causes.py

Records the twelve pipelines of ``tests/support/planted.py`` in turn, round by round, and asks the differential method for three
others. The last line is one JSON object: ``right`` of ``of`` recordings whose planted cause (and op, where only one is
right) was named, ``none_blamed`` the recordings of the pipeline without a fault in which anything was blamed,
``advice_right`` those with fitting advice, ``stall_points`` and ``stall_points_worst`` the largest difference between
the shares of one run and of three, median and worst of the pipelines, and ``walk_us_per_gap`` what following a gap
takes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from labcourse import ladder
from labextras.tune import diagnosis
from labkit.common import environment
from labkit.pipelines import options
from labkit.recording import accelerators
from labkit.sources import storage
from labkit.timeline.timeline import Timeline
from labkit.timeline.wording import percent

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
import planted


def stalls(files: Any, rounds: int) -> list[float]:
    """Print the shares of one run and of three, and return their largest differences, in percentage points."""

    def build(after: Any) -> Any:
        def pipeline(read: Any) -> Any:
            return options.plain(
                after(planted.paths(files.small).map(lambda path: ladder.decode(read(path))).batch(planted.BATCH))
            )

        return pipeline

    far = storage.Storage("benchmark: far", 5, float("inf"), "planted")
    near = storage.Storage("benchmark: near", 0.3, float("inf"), "planted")
    cases = {
        "nothing overlaps": (build(lambda batches: batches), far, 20),
        "prefetch(2)": (build(lambda batches: batches.prefetch(2)), far, 15),
        "prefetch(2), near": (build(lambda batches: batches.prefetch(2)), near, 2),
    }
    points = []
    print(f"\n{'shares: one run / three':<26}{'ingestion':>18}{'prep stall':>18}{'fetch stall':>18}{'points':>9}")
    for name, (pipeline, model, step_ms) in cases.items():
        accelerator = accelerators.modelled(step_ms=step_ms)
        result = diagnosis.differential(pipeline, accelerator, storage=model, steps=12, rounds=rounds)
        points.append(100 * result.difference)
        both = zip(vars(result.one).values(), vars(result.three).values(), strict=True)
        cells = "".join(f"{percent(a) + ' / ' + percent(b):>18}" for a, b in both)
        print(f"{name:<26}{cells}{points[-1]:>9.1f}")
    return points


def main() -> None:
    """Print the confusion table and one line of JSON."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--rounds", type=int, default=5)
    given = words.parse_args()
    environment.prepare()

    found: dict[str, list[tuple[str, bool, bool]]] = {plant.name: [] for plant in planted.PLANTS}
    walk_us = []
    with tempfile.TemporaryDirectory() as folder:
        files = planted.Files(Path(folder))
        for number in range(given.rounds):
            for plant in planted.PLANTS if number % 2 == 0 else planted.PLANTS[::-1]:
                timeline = Timeline(plant.record(files))
                begin = time.perf_counter()
                causes = timeline.causes
                walk_us.append((time.perf_counter() - begin) * 1e6 / max(len(causes), 1))
                named, fits = planted.verdict(plant, timeline.stalls)
                found[plant.name].append((timeline.stalls.cause or "none", named, fits))
        columns = ("fetch", "prep", "batch", "copy", "start", "none")
        print(f"{'planted (right cause)':<32}" + "".join(f"{c:>8}" for c in columns) + f"{'op right':>10}{'advice':>8}")
        for plant in planted.PLANTS:
            rows = found[plant.name]
            named = Counter(cause for cause, _, _ in rows)
            cells = "".join(f"{named[c] or '·':>8}" for c in columns)
            right, fits = sum(r for _, r, _ in rows), sum(f for _, _, f in rows)
            print(f"{f'{plant.name} ({plant.cause or None})':<32}{cells}{right:>10}{fits:>8}")
        points = stalls(files, given.rounds)
    every = [row for rows in found.values() for row in rows]
    least = min(sum(rows[number][1] for rows in found.values()) for number in range(given.rounds))
    figures = {
        "right": sum(right for _, right, _ in every),
        "of": len(every),
        "least_right_of_12": least,
        "none_blamed": sum(cause != "none" for cause, _, _ in found["none"]),
        "advice_right": sum(fits for _, _, fits in every),
        "stall_points": round(statistics.median(points), 1),
        "stall_points_worst": round(max(points), 1),
        "walk_us_per_gap": round(statistics.median(walk_us)),
        "rounds": given.rounds,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
