"""A fitted model: the costs and knobs of a recorded run, and what it says about other knobs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from labkit.common.numbers import check_names, whole
from labkit.simulate.assumptions import assumptions
from labkit.simulate.costs import STAGES, Costs, Knobs
from labkit.simulate.simulated_trace import simulated
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace
from labkit.timeline.wording import duration

_STEPS = 24


@dataclass(frozen=True)
class Forecast:
    """Figures of a modelled run in steady state.

    Parameters
    ----------
    step_ms : float
        Mean time from one train step's end to the next one's.
    images_per_s : float
    busy : float
        Share of the time in which the accelerators work, 0 to 1.
    limit : str
        What the speed is bounded by first; see `limits`.
    noun : str
        As in `labkit.timeline.run.Run`.
    """

    step_ms: float
    images_per_s: float
    busy: float
    limit: str
    noun: str = "image"

    def __str__(self) -> str:
        """Return the figures on one line."""
        return (
            f"predicted: step {duration(1e6 * self.step_ms)}, {self.images_per_s:,.0f} {self.noun}s/s, "
            f"accelerator busy {self.busy:.0%}, limited by {self.limit}"
        )


@dataclass(frozen=True, eq=False)
class Model:
    """Costs and knobs of a run; make one with `labkit.simulate.fit`, or from figures of your own.

    Parameters
    ----------
    costs : Costs
    knobs : Knobs
        Those of the run.
    name : str or None
    accelerator, source : str
        What views call the accelerator, and where its time comes from.
    notes : list of str
        How the costs were found.
    noun : str
        As in `labkit.timeline.run.Run`.
    """

    costs: Costs
    knobs: Knobs = field(default_factory=Knobs)
    name: str | None = None
    accelerator: str = "train step"
    source: str = "stated by the reader"
    notes: list[str] = field(default_factory=list)
    noun: str = "image"

    def __post_init__(self) -> None:
        """Refuse what are no costs or knobs; TypeError."""
        _check_kinds(self.costs, self.knobs)

    def changed(self, **changes: Any) -> Model:
        """Return the model of another pipeline or machine.

        Parameters
        ----------
        **changes
            Knobs by name, as ``map_calls=4``, and costs by name, as ``train=30`` or ``read=0.1``. Another
            ``batch_size`` changes the costs per batch in proportion, unless they are given, too (for an accelerator
            whose step has a fixed part, give ``train=accelerator.step_ns(batch_size) / 1e6``).

        Raises
        ------
        ValueError
            If there is no such knob or cost, or its value is out of range.
        """
        known = vars(self.knobs)
        check_names("knob or cost", changes, [*known, *STAGES, "sleeps"])
        knobs = self.knobs.changed(**{n: v for n, v in changes.items() if n in known})
        grown = knobs.batch_size / self.knobs.batch_size
        costs = {n: getattr(self.costs, n) * grown for n in ("batch", "copy", "train")} if grown != 1 else {}
        costs |= {n: v for n, v in changes.items() if n not in known}
        return replace(self, costs=replace(self.costs, **costs) if costs else self.costs, knobs=knobs)

    def run(self, steps: int = 20, seed: int = 0, *, warmup: int = 0, **changes: Any) -> Trace:
        """Return the modelled trace of the pipeline with some knobs or costs changed; see `changed`."""
        model = self.changed(**changes)
        labels = {"name": self.accelerator, "source": self.source}
        return simulated(model.costs, model.knobs, steps, warmup, seed, self.name, labels, self.noun)

    def predict(self, *, steps: int = _STEPS, seed: int = 0, **changes: Any) -> Forecast:
        """Return step time, speed and busy share in steady state with some knobs or costs changed; see `changed`.

        Where a cycle of files is more than a step, `steps` is raised to whole turns of it.
        """
        model = self.changed(**changes)
        steps, warmup = whole_turns(model.knobs, whole("steps", steps, 1), min(model.knobs.prefetch, 8) + 3)
        timeline = Timeline(model.run(steps, seed, warmup=warmup))
        bounds = limits(model.costs, model.knobs)
        return Forecast(
            step_ms=timeline.span_ns / 1e6 / steps,
            images_per_s=float(timeline.images_per_s or np.inf),
            busy=timeline.busy,
            limit=min(bounds, key=lambda b: bounds[b]) if model.knobs.prefetch else "taking turns",
            noun=self.noun,
        )

    def __str__(self) -> str:
        """Return costs, knobs and every assumption as some lines of text."""
        title = "Model" if self.name is None else f"Model of {self.name!r}"
        knobs = ", ".join(f"{name} {value}" for name, value in vars(self.knobs).items())
        lines = [f"{title}: what follows is modelled, not measured", f"  {self.costs}", f"  knobs: {knobs}"]
        lines += [f"  found: {note}" for note in self.notes]
        lines += ["  assumed:", *(f"    - {text}" for text in assumptions(self.costs, self.knobs, self.noun))]
        return "\n".join(lines)

    __repr__ = __str__


def whole_turns(knobs: Knobs, steps: int, warmup: int) -> tuple[int, int]:
    """Return steps and warm-up of a window, raised to whole turns of a cycle that holds more than a step takes.

    Files of a cycle get ahead of each other and then come at once: only whole turns have the rate of all.
    """
    turn = math.ceil(knobs.cycle_length / (knobs.batch_size * knobs.accelerators))
    return (steps, warmup) if turn == 1 else (turn * math.ceil(steps / turn), warmup + 2 * turn)


def limits(costs: Costs, knobs: Knobs) -> dict[str, float]:
    """Return what bounds the speed, each in images per second, inf where there is no bound.

    The speed of a pipeline with enough buffers is the least of these, speed = min(F, P, G) (Mohan et al., VLDB 2021):
    ``fetch`` and ``storage`` bound F, ``prep``, ``cores`` and ``batching`` P, and ``accelerator`` G.

    Parameters
    ----------
    costs : Costs
    knobs : Knobs

    Returns
    -------
    dict of str to float
        ``storage`` : its bandwidth. ``fetch`` : the threads that open and read. ``prep`` : the threads that map.
        ``batching`` : the thread that makes batches. ``cores`` : all work on them. ``accelerator`` : copy and train.

    Raises
    ------
    TypeError
        If `costs` or `knobs` are none.
    """
    _check_kinds(costs, knobs)
    mean, miss = costs.mean_ms, 1.0 - knobs.cache_hit
    size = knobs.batch_size
    transfer = knobs.image_kb / knobs.bandwidth_mb_s if knobs.bandwidth_mb_s else 0.0
    fetch = miss * (mean["open"] + mean["read"] + knobs.latency_ms + transfer)
    mapping = 1 / size if knobs.map_batches else 1  # share of the map's costs that an image pays
    prepare = mapping * sum(mean[name] for name in costs.map)
    batch = mean["batch"] / size
    per_image = {"open": miss, "read": miss, **dict.fromkeys(costs.map, mapping), "batch": 1 / size}
    work = sum(mean[name] * share for name, share in per_image.items() if not costs.asleep(name))
    apart, mapped = knobs.cycle_length > 1, knobs.map_calls > 1
    inline = prepare if apart or knobs.map_batches else fetch + prepare
    if knobs.map_batches and not apart:  # the thread that makes batches opens and reads
        batch += fetch
    step = mean["copy"] + mean["train"]

    def rate(many: float, ms: float) -> float:
        return many * 1e3 / ms if ms > 0 else float("inf")

    return {
        "storage": rate(1, miss * transfer),
        "fetch": rate(knobs.cycle_length, fetch) if apart else float("inf"),
        "prep": rate(knobs.pool if mapped else 1, inline),
        "batching": rate(1, batch + (0.0 if mapped else inline)),
        "cores": rate(knobs.capacity(knobs.cores), work),
        "accelerator": rate(knobs.accelerators * size, step),
    }


def _check_kinds(costs: Costs, knobs: Knobs) -> None:
    for what, given, kind in (("costs", costs, Costs), ("knobs", knobs, Knobs)):
        if not isinstance(given, kind):
            raise TypeError(f"{what} is a {type(given).__name__}; allowed: simulate.{kind.__name__}(…)")
