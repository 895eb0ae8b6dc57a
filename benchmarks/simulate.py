"""How fast a pipeline is simulated.

    python benchmarks/simulate.py

Settings as the explorers of the notebooks offer them, in turn, round by round: from costs and knobs to the finished
Trace. The last line is one JSON object: ``spans_per_s`` of the settings of a notebook together (median of rounds, spans
of all settings over the time of all), ``notebook_ms``, the slowest of them, and ``explorer_ms``, the slowest answer
of an explorer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

from labcourse import explorers
from labkit import Timeline, simulate
from labkit.views.layout import TimelineLayout

COSTS = simulate.Costs(
    open=2,
    read=simulate.lognormal(1.0, 0.5),
    map={"decode": simulate.lognormal(3, 0.3), "resize": 1, "augment": 2},
    batch=2,
    copy=1,
    train=60,
)
SETTINGS = {
    "one thread": {},
    "prefetch": {"prefetch": 2},
    "four map calls": {"map_calls": 4, "cores": 4, "prefetch": 2},
    "eight readers, four map calls": {"cycle_length": 8, "map_calls": 4, "cores": 4, "prefetch": 2},
    "eight readers on one link, any order": {
        "cycle_length": 8, "map_calls": 4, "cores": 4, "prefetch": 2, "bandwidth_mb_s": 200, "deterministic": False,
    },
    "sixteen map calls, four accelerators": {"map_calls": 16, "cores": 16, "prefetch": 4, "accelerators": 4},
}  # fmt: skip


def main() -> None:
    """Print a table of medians and one line of JSON."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--rounds", type=int, default=15)
    words.add_argument("--steps", type=int, default=30)
    given = words.parse_args()

    seconds: dict[str, list[float]] = {name: [] for name in SETTINGS}
    lanes: dict[str, list[float]] = {name: [] for name in SETTINGS}
    spans: dict[str, int] = {}
    for _ in range(given.rounds):
        for name, knobs in SETTINGS.items():
            begin = time.perf_counter()
            trace = simulate.run(COSTS, simulate.Knobs(**knobs), steps=given.steps)
            seconds[name].append(time.perf_counter() - begin)
            spans[name] = len(trace)
            begin = time.perf_counter()
            Timeline(trace)
            lanes[name].append(time.perf_counter() - begin)
    print(f"{given.steps} steps of 32 images, medians of {given.rounds} rounds")
    print(f"  {'setting':40s}{'spans':>8s}{'trace':>11s}{'timeline':>11s}{'spans/s':>13s}")
    for name, times in seconds.items():
        median = statistics.median(times)
        print(
            f"  {name:40s}{spans[name]:8,d}{median * 1e3:8.1f} ms{statistics.median(lanes[name]) * 1e3:8.1f} ms"
            f"{spans[name] / median:13,.0f}"
        )
    rounds = [sum(times) for times in zip(*seconds.values(), strict=True)]
    single = {name: statistics.median(times) for name, times in seconds.items() if "accelerators" not in name}
    answers = explorer_ms(given.rounds)
    slowest = max(answers, key=lambda name: answers[name])
    print(
        f"explorers, from a button to the bytes that the page draws: {len(answers)} buttons, medians"
        f" of {given.rounds} rounds"
    )
    print(f"  median {statistics.median(answers.values()):.1f} ms, slowest {answers[slowest]:.1f} ms ({slowest})")
    figures = {
        "spans_per_s": round(sum(spans.values()) / statistics.median(rounds)),
        "notebook_ms": round(max(single.values()) * 1e3, 1),
        "explorer_ms": round(answers[slowest], 1),
    }
    print(json.dumps(figures))


def explorer_ms(rounds: int) -> dict[str, float]:
    """Return the median time of each button of each notebook's explorer: simulation, lanes, gaps, causes, layout."""
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        for number in explorers.SHEETS:
            explorer = explorers.explore(number)
            for label in explorer.sheet.positions:
                begin = time.perf_counter()
                TimelineLayout([explorer.answer(label).timeline]).encode()
                times.setdefault(f"{number}: {label}", []).append((time.perf_counter() - begin) * 1e3)
    return {name: statistics.median(each) for name, each in times.items()}


if __name__ == "__main__":
    main()
