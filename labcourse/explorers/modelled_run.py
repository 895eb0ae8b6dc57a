"""What an explorer answers: a simulated timeline, its figures in words, and the limit of each of its three parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from labkit import simulate
from labkit.simulate import Costs, Knobs
from labkit.simulate.forecast import whole_turns
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace
from labkit.timeline.wording import percent

_STEPS, _FEWEST, _IMAGES = 16, 4, 1500


@dataclass(frozen=True)
class Ideal:
    """Rates of the three parts of a job, if each had nothing to wait for; images per second.

    Parameters
    ----------
    fetch, prep, train : float
        F, P and G of DS-Analyzer (VLDB 2021, section 5.1): what storage and its readers deliver, what cores and map
        calls prepare, what the accelerators train. Infinite where the part takes no time.
    limit : str
        Which of the three is lowest, in words; the accelerator wins a tie. Of the preparation it says what limits that:
        cores, calls, or the thread that makes batches.
    together : float
        A closer bound: less than the least of the three where the calls of a map open and read, too, so that fetch and
        preparation do not overlap, or share cores.
    """

    fetch: float
    prep: float
    train: float
    limit: str
    together: float

    @property
    def rate(self) -> float:
        """The bound min(F, P, G), images per second."""
        return min(self.fetch, self.prep, self.train)


def ideal(costs: Costs, knobs: Knobs) -> Ideal:
    """Return the closed form of speed = min(F, P, G) for a pipeline whose parts overlap perfectly.

    It is an upper bound. Where one thing waits for another, as without a prefetch, less is reached. F is what would be
    fetched if nothing had to be prepared, P what would be prepared if everything were there; see `simulate.limits`.
    """
    nothing = dict.fromkeys(costs.map, 0.0)
    fetched = simulate.limits(replace(costs, map=nothing, batch=0.0, train=1.0), knobs)
    here = knobs.changed(latency_ms=0.0, bandwidth_mb_s=None)
    prepared = simulate.limits(replace(costs, open=0.0, read=0.0, train=1.0), here)
    prep = {"cores": prepared["cores"]}
    if knobs.map_calls == 1:
        prep["one thread"] = prepared["batching"]  # it maps and makes batches, in turn
    else:
        prep |= {"calls": prepared["prep"], "one thread that makes batches": prepared["batching"]}
    by = min(prep, key=prep.__getitem__)
    every = simulate.limits(costs, knobs)
    train, fetch = every["accelerator"], min(fetched[bound] for bound in ("storage", "fetch", "prep"))
    parts = {"the accelerator (G)": train, f"preparation (P), its {by}": prep[by], "fetch (F)": fetch}
    limit = next(name for name, rate in parts.items() if rate <= min(parts.values()) * (1 + 1e-9))
    return Ideal(fetch, prep[by], train, limit, min(every.values()))


@dataclass(frozen=True, eq=False)
class ModelledRun:
    """A position of an explorer's sliders, simulated.

    Parameters
    ----------
    costs : Costs
    knobs : Knobs
    trace : Trace
        Modelled.
    note : str
        One sentence of the explorer's own, or nothing.
    """

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
        """Busy share, step time and images per second in a sentence, and the note."""
        t, many = self.timeline, self.knobs.accelerators
        subject = f"{many} accelerators" if many > 1 else "accelerator"
        speed = f"step {_short(t.step_ms)} ms, {_short(t.images_per_s or 0.0)} images/s (modelled)."
        return f"{subject.capitalize()} busy {percent(t.busy)}, {speed} {self.note}".strip()

    def bars(self, full: float) -> dict[str, Any]:
        """Return F, P and G as bars for the browser, which end at `full` images per second.

        ``words`` of each, its ``length`` in percent, the class ``end``, "beyond" where it is longer, whether it is the
        ``lowest`` (more than one where they read alike), and the ``verdict``, which only a reader sees who has said
        which one limits the job.
        """
        best = self.ideal
        rates, least = (best.fetch, best.prep, best.train), _short(best.rate)
        words = [_short(rate) for rate in rates]
        verdict = f"The lowest is {best.limit}: at most {least} images/s"
        if best.together < 0.98 * best.rate:
            verdict += f"; sharing threads or cores, {_short(best.together)}"
        length = [round(100 * min(1.0, rate / full), 1) for rate in rates]
        end = ["beyond" * (rate > full) for rate in rates]
        each = {"words": words, "length": length, "end": end, "lowest": [one == least for one in words]}
        return {**each, "verdict": f"{verdict}.", "scale": f"Bars: 0 to {full:,.0f} images/s."}

    def faster_than(self, other: ModelledRun) -> float:
        """Return how many times more images per second this one trains than `other`."""
        return (self.timeline.images_per_s or 0.0) / (other.timeline.images_per_s or math.inf)


def answer(title: str, costs: Costs, knobs: Knobs, note: str = "") -> ModelledRun:
    """Simulate one position of the sliders, in steady state: the window begins when every buffer had time to fill.

    16 steps are enough for a picture; fewer where a step takes many images, so that the answer comes at once.
    """
    each = knobs.batch_size * knobs.accelerators
    steps = min(_STEPS, max(_FEWEST, _IMAGES // each))
    warmup = 2 + math.ceil(knobs.prefetch / knobs.accelerators)
    steps, warmup = whole_turns(knobs, steps, warmup)
    return ModelledRun(costs, knobs, simulate.run(costs, knobs, steps=steps, warmup=warmup, name=title), note)


def _short(value: float) -> str:
    if math.isinf(value):
        return "no limit"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
