"""Prediction: stage costs and knobs become an ordinary `Trace`, labelled as modelled, without running anything.

    costs = simulate.Costs(open=2, read=1, map={"decode": 3, "resize": 1}, batch=1, train=60)
    trace = simulate.run(costs, simulate.Knobs(map_calls=4, prefetch=2))

A model fitted to one recorded run answers what another pipeline or machine would do::

    model = simulate.fit(trace)
    print(model.predict(map_calls=4, prefetch=2))
"""

from __future__ import annotations

from labkit.simulate.costs import Costs, Knobs, lognormal, stragglers
from labkit.simulate.fitting import fit
from labkit.simulate.forecast import Forecast, Model, limits
from labkit.timeline.trace import Trace

__all__ = ["Costs", "Forecast", "Knobs", "Model", "fit", "limits", "lognormal", "run", "stragglers"]


def run(
    costs: Costs, knobs: Knobs | None = None, steps: int = 20, seed: int = 0, *, warmup: int = 0,
    name: str | None = None,
) -> Trace:  # fmt: skip
    """Simulate a training job and return what would happen.

    Parameters
    ----------
    costs : Costs
    knobs : Knobs, optional
        By default a naive pipeline on two cores.
    steps : int
        Train steps in the window.
    seed : int
        Equal arguments give equal traces, on every platform. Costs that are drawn do not depend on the knobs.
    warmup : int
        Steps before the window. With 0 the window begins with the wait for the first batch.
    name : str, optional
        What views call the pipeline.

    Returns
    -------
    Trace
        Modelled; its clock starts at 0. Its `run` is the recorder's as far as it applies: ``name``, ``accelerator``,
        ``storage``, ``batch_size`` (of all accelerators together), ``steps``, ``warmup``, ``images``,
        ``first_batch_ns``, ``window_ns``, ``graph``, ``host``; and ``assumptions``, ``costs_ms``, ``knobs``, ``seed``.

    Raises
    ------
    ValueError, TypeError
        If an argument is not what it must be.
    """
    return Model(costs, Knobs() if knobs is None else knobs, name).run(steps, seed, warmup=warmup)
