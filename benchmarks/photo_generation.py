"""How many photos a second the generator makes: painted, encoded, written and listed, on two cores.

Run as ``python benchmarks/photo_generation.py``. Each round makes fresh photos in a fresh folder,
once with one painting process and once with two, in turn. The last line is one JSON object:
``images_per_s`` is the median on two cores, start-up of the processes included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from labkit.common.environment import cores
from labkit.sources import photo_files


def rate(workers: int, first: int, count: int) -> float:
    """Return photos per second for `count` photos from number `first` on, made by `workers` processes."""
    with tempfile.TemporaryDirectory() as place:
        started = time.perf_counter()
        photo_files.make(Path(place), range(first, first + count), progress=False, workers=workers)
        return count / (time.perf_counter() - started)


def main() -> None:
    """Print a table of rounds and one line of JSON."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--photos", type=int, default=320, help="per round and variant")
    given = words.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    if cores() < 2:
        sys.exit(f"this benchmark needs two cores; this process may use {cores()}")

    rates: dict[int, list[float]] = {1: [], 2: []}
    print(f"{'round':>6} {'1 process':>12} {'2 processes':>12}   photos/s")
    for number in range(given.rounds):
        for workers, found in rates.items():
            found.append(rate(workers, number * given.photos, given.photos))
        print(f"{number + 1:>6} {rates[1][-1]:>12.1f} {rates[2][-1]:>12.1f}")
    for word, figure in (("median", statistics.median), ("lowest", min), ("highest", max)):
        print(f"{word:>6} {figure(rates[1]):>12.1f} {figure(rates[2]):>12.1f}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_ms = (used.ru_utime + used.ru_stime) * 1e3 / (2 * given.rounds * given.photos)
    print(f"processor time: {cpu_ms:.1f} ms a photo, which noise of other programs hardly touches")
    figures = {
        "images_per_s": statistics.median(rates[2]),
        "images_per_s_low": min(rates[2]),
        "images_per_s_high": max(rates[2]),
        "images_per_s_one_core": statistics.median(rates[1]),
        "cpu_ms_per_image": cpu_ms,
        "rounds": given.rounds,
        "photos": given.photos,
    }
    print(json.dumps({key: round(value, 1) for key, value in figures.items()}))


if __name__ == "__main__":
    main()
