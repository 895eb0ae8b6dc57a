"""What an explorer answers: a simulated timeline, its figures in words, and the ideal min(F, P, G) beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from labkit import simulate
from labkit.simulate import Costs, Knobs
from labkit.timeline import Timeline
from labkit.trace import Trace
from labkit.wording import percent


@dataclass(frozen=True)
class Ideal:
    """Rates of the three parts of a job, if each had nothing to wait for; images per second.

    Parameters
    ----------
    fetch, prep, train : float
        F, P and G of DS-Analyzer (VLDB 2021, section 5.1): what storage and its readers deliver, what cores and map
        calls prepare, what the accelerators train. Infinite where the part takes no time.
    prep_by : str
        What limits the preparation: cores, calls, or the thread that makes batches.
    together : float
        What the calls of a map deliver that opens and reads, too: there fetch and preparation do not overlap. Infinite
        where an interleave fetches on threads of its own.
    """

    fetch: float
    prep: float
    train: float
    prep_by: str
    together: float = math.inf

    @property
    def rate(self) -> float:
        """The bound min(F, P, G), images per second."""
        return min(self.fetch, self.prep, self.train)

    @property
    def limit(self) -> str:
        """Which of the three is lowest, in words; the accelerator wins a tie."""
        if self.train <= self.rate * (1 + 1e-9):
            return "the accelerator (G)"
        return f"preparation (P), its {self.prep_by}" if self.prep <= self.rate * (1 + 1e-9) else "fetch (F)"


def ideal(costs: Costs, knobs: Knobs) -> Ideal:
    """Return the closed form of speed = min(F, P, G) for a pipeline whose parts overlap perfectly.

    It is an upper bound. Where one thing waits for another, as without a prefetch, less is reached.
    """
    mean, miss = costs.mean_ms, 1 - knobs.cache_hit
    stages = ("open", "read")
    transfer = 0.0 if knobs.bandwidth_mb_s is None else miss * knobs.image_kb / knobs.bandwidth_mb_s
    fetch_ms = miss * (knobs.latency_ms + sum(mean[s] for s in stages)) + transfer
    map_ms, batch_ms = sum(mean[name] for name in costs.operations), mean["batch"] / knobs.batch_size
    core_ms = miss * sum(mean[s] for s in stages if not costs.asleep(s))
    core_ms += sum(mean[n] for n in costs.operations if not costs.asleep(n))
    core_ms += 0.0 if costs.asleep("batch") else batch_ms
    prep = {"cores": _rate(knobs.cores, core_ms)}
    if knobs.map_calls == 1:
        calls = 1
        prep["one thread"] = _rate(1, map_ms + batch_ms)  # it maps and makes batches, in turn
    else:
        calls = knobs.pool
        prep["calls"], prep["one thread that makes batches"] = _rate(calls, map_ms), _rate(1, batch_ms)
    inline = knobs.cycle_length == 1
    fetch = min(_rate(calls if inline else knobs.cycle_length, fetch_ms), _rate(1, transfer))
    by = min(prep, key=prep.__getitem__)
    step_ms = mean["train"] / knobs.accelerator_speed + mean["copy"]
    train = _rate(knobs.batch_size * knobs.accelerators, step_ms)
    held_ms = fetch_ms + map_ms + (batch_ms if knobs.map_calls == 1 else 0.0)
    return Ideal(fetch, prep[by], train, by, _rate(calls, held_ms) if inline else math.inf)


def _rate(many: float, each_ms: float) -> float:
    """Return how many a second, if `many` at once take `each_ms`."""
    return many / each_ms * 1e3 if each_ms > 0 else math.inf


@dataclass(frozen=True, eq=False)
class Answer:
    """A position of an explorer's sliders, simulated.

    Parameters
    ----------
    title : str
    costs : Costs
    knobs : Knobs
    trace : Trace
        Modelled.
    note : str
        One sentence of the explorer's own, or nothing.
    """

    title: str
    costs: Costs
    knobs: Knobs
    trace: Trace
    note: str = ""

    @cached_property
    def timeline(self) -> Timeline:
        """The timeline of the trace."""
        return Timeline(self.trace)

    @cached_property
    def ideal(self) -> Ideal:
        """The closed form beside it."""
        return ideal(self.costs, self.knobs)

    @property
    def headline(self) -> str:
        """Busy share, step time, images per second, the ideal, and which part limits it, in two or three sentences."""
        t, best = self.timeline, self.ideal
        parts = [f"{name} {_images(rate)}" for name, rate in (("F", best.fetch), ("P", best.prep), ("G", best.train))]
        many = self.knobs.accelerators
        who = f"{many} accelerators" if many > 1 else "accelerator"
        text = (
            f"{who.capitalize()} busy {percent(t.busy)}, step time {_short(t.step_ms)} ms, "
            f"{_images(t.images_per_s or 0.0)} images/s (modelled). "
            f"Ideal: min({', '.join(parts)}) = {_images(best.rate)} images/s, limited by {best.limit}."
        )
        if best.together < 0.98 * best.rate:
            text += f" The same threads fetch and prepare, in turn: at most {_images(best.together)} images/s."
        return f"{text} {self.note}".strip()

    def faster_than(self, other: Answer) -> float:
        """Return how many times more images per second this one trains than `other`."""
        return (self.timeline.images_per_s or 0.0) / (other.timeline.images_per_s or math.inf)


def answer(title: str, costs: Costs, knobs: Knobs, note: str = "", steps: int = 16) -> Answer:
    """Simulate one position of the sliders, in steady state: the window begins when every buffer had time to fill."""
    trace = simulate.run(costs, knobs, steps=steps, warmup=2 + knobs.prefetch, name=title)
    return Answer(title, costs, knobs, trace, note)


def _images(rate: float) -> str:
    return "no limit" if math.isinf(rate) else _short(rate)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
