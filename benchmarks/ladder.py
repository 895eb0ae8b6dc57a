"""Every rung of the walk beside the limit of this machine, in turn.

    python benchmarks/ladder.py

Photos of the lab (batch 32, float32 224×224, page cache warm) go into a consumer that takes no time; each round drives
every rung and decodes the same photos with libjpeg-turbo alone on all cores: the limit (``simplejpeg``, with its fast
transform and its fast colours, from bytes that are in memory, as those of the best rung are). Pipelines with a cache
have had their first epoch. Then naive and the last rung feed a modelled accelerator whose step takes 0.6 times as long
as naive takes to load a batch on this machine.

The last line is one JSON object. Ratios are medians over the rounds of ratios within a round: ``best_over_limit``
(the best rung that decodes in every epoch), ``best_over_guide`` (over parallel map, batch, prefetch, as in the guide
of TensorFlow), ``cached_over_guide`` (the last rung: pixels in memory, augmentation fresh). ``busy_naive`` and
``busy_last`` are shares of the time that the modelled accelerator was busy.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import labkit
from labcourse import ladder
from labkit.common import environment
from labkit.recording import accelerators, measures, recorder
from labkit.sources import photos
from labkit.timeline.timeline import Timeline

LIMIT, GUIDE, BEST = "limit: decode alone", "parallel map, the guide", "best"
NAIVE, LAST = ladder.RUNGS[0].name, ladder.RUNGS[-1].name


def decode_alone(album: Any, images: int) -> float:
    """Return images/s of libjpeg-turbo on all cores; it releases the interpreter's lock while it decodes."""
    import simplejpeg

    def one(data: bytes) -> None:
        simplejpeg.decode_jpeg(data, "RGB", fastdct=True, fastupsample=True)

    kept = [Path(path).read_bytes() for path in album.paths[:images]]
    with ThreadPoolExecutor(environment.cores()) as pool:
        begin = time.perf_counter()
        list(pool.map(one, itertools.islice(itertools.cycle(kept), images), chunksize=8))
        return images / (time.perf_counter() - begin)


def rate(dataset: Any, steps: int) -> float:
    """Return images/s over `steps` batches in steady state.

    As many batches are skipped as a prefetch could hold ready: they were made before the clock started.
    """
    batches = iter(dataset)
    for _ in range(6):
        next(batches)
    begin = time.perf_counter()
    for _ in range(steps):
        next(batches)
    return steps * ladder.BATCH / (time.perf_counter() - begin)


def hungry(naive: Any) -> Any:
    """Return a modelled accelerator that the naive pipeline keeps busy for little more than a third of the time."""
    loading = recorder.record(naive, accelerators.modelled(step_ms=1), steps=12, progress=False)
    return accelerators.modelled(step_ms=round(0.6 * Timeline(loading).wait_ms), name="hungry")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=24, help="batches of a rung in each round")
    arguments = parser.parse_args()

    labkit.setup()
    album = photos.load()
    pipelines = ladder.build(album)
    images = arguments.steps * ladder.BATCH
    rates: dict[str, list[float]] = {name: [] for name in [*pipelines, LIMIT]}
    names = list(rates)
    for round_number in range(arguments.rounds):
        turn = round_number % len(names)
        for name in names[turn:] + names[:turn]:
            rates[name].append(decode_alone(album, images) if name == LIMIT else rate(pipelines[name], arguments.steps))
    consumer = hungry(pipelines[NAIVE])
    fed = {name: pipelines[name] for name in (NAIVE, LAST)}
    busy = measures.measure(fed, consumer, steps=20, repeats=5, limit=5, progress=False)

    def over(name: str, base: str) -> list[float]:
        return sorted(a / b for a, b in zip(rates[name], rates[base], strict=True))

    print(f"{'rung':<26}{'images/s':>9}{'min':>7}{'max':>7}{'÷ naive':>9}{'÷ guide':>9}{'÷ limit':>9}")
    for name, row in rates.items():
        ratios = "".join(f"{statistics.median(over(name, base)):>9.2f}" for base in (NAIVE, GUIDE, LIMIT))
        print(f"{name:<26}{statistics.median(row):>9,.0f}{min(row):>7,.0f}{max(row):>7,.0f}{ratios}")
    print(f"\nfeeding {consumer.describe()}\n{busy}\n")
    found = {"best_over_limit": (BEST, LIMIT), "best_over_guide": (BEST, GUIDE), "cached_over_guide": (LAST, GUIDE)}
    figures: dict[str, Any] = {}
    for key, pair in found.items():
        ratios = over(*pair)
        figures[key] = round(statistics.median(ratios), 3)
        figures[f"{key}_range"] = [round(ratios[0], 3), round(ratios[-1], 3)]
    for key, name in (("busy_naive", NAIVE), ("busy_last", LAST)):
        figures[key] = round(statistics.median(m.busy for m in busy[name]), 3)
    print(json.dumps({**figures, "rounds": arguments.rounds, "cores": environment.cores()}))


if __name__ == "__main__":
    main()
