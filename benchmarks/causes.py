"""Which cause is named for pipelines with one planted bottleneck: a confusion table over several rounds.

    python benchmarks/causes.py

Records the twelve pipelines of ``tests/support/planted.py`` in turn, round by round. The last line is one JSON object:
``right`` of ``of`` recordings whose planted cause (and op, where only one is right) was named, ``none_blamed`` the
recordings of the pipeline without a fault in which anything was blamed, ``advice_right`` those with fitting advice, and
``walk_us_per_gap`` what following a gap takes.
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

from labkit.common import environment
from labkit.timeline.timeline import Timeline

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
import planted


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
    every = [row for rows in found.values() for row in rows]
    least = min(sum(rows[number][1] for rows in found.values()) for number in range(given.rounds))
    figures = {
        "right": sum(right for _, right, _ in every),
        "of": len(every),
        "least_right_of_12": least,
        "none_blamed": sum(cause != "none" for cause, _, _ in found["none"]),
        "advice_right": sum(fits for _, _, fits in every),
        "walk_us_per_gap": round(statistics.median(walk_us)),
        "rounds": given.rounds,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
