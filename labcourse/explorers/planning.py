"""The explorers of `labextras.cluster.capacity`: a plan on paper, and a fleet whose batches are simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any

from labcourse.explorers.controls import Control
from labcourse.explorers.front_end import Reply, Shown
from labextras.cluster import capacity
from labkit.views.picture import Picture

_TENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)

_CONTROLS = (
    Control("accelerators", "accelerators", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000, 4000)),
    Control("hosts", "hosts", (1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000)),
    Control("accelerator", "images per accelerator", (50.0, 100.0, 200.0, 500.0, 920.0, 1170.0, 1786.0, 5000.0), "/s"),
    Control(
        "cores_per_accelerator",
        "cores per accelerator",
        (1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 12.0, 16.0, 24.0, 32.0),
        "cores",
    ),
    Control("cpu_ms_per_image", "work per image", (0.3, 0.5, 1.0, 2.0, 2.5, 3.2, 4.0, 5.0, 8.0, 10.0), "ms"),
    Control("image_kb", "size of an image", (3.0, 10.0, 30.0, 115.0, 150.0, 300.0, 690.0, 1000.0), "kB"),
    Control("dataset_gb", "size of the set", tuple(float(v) for v in _TENS[3:]), "GB"),
    Control("shards", "shards", (1, 2, 4, 8, 16, 32, 64, 80, 128, 256, 512, 1024, 2048, 4096, 8000, 16384)),
    Control("readers_per_host", "readers per host", (1, 2, 4, 8, 16, 32, 64, 128), "files"),
    Control("storage_mb_s", "storage bandwidth", tuple(float(v) for v in _TENS[5:]), "MB/s"),
    Control("storage_requests_s", "storage requests", (100.0, 500.0, 1000.0, 5500.0, 22_000.0, 100_000.0), "/s"),
    Control("request_mb", "size of a request", (0.115, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0), "MB"),
    Control("storage_latency_ms", "wait for a request", (0.0, 0.1, 1.0, 5.0, 10.0, 30.0, 60.0, 100.0, 200.0), "ms"),
    Control("network_mb_s", "network of a host", (125.0, 312.5, 1250.0, 3125.0, 12_500.0), "MB/s"),
    Control("cache_gb_per_host", "cache of a host", (0.0, 10.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0), "GB"),
)

_SHARED = (
    "accelerators",
    "hosts",
    "accelerator",
    "cpu_ms_per_image",
    "storage_mb_s",
    "storage_requests_s",
    "network_mb_s",
)
_FLEET = (
    *(control for control in _CONTROLS if control.name in _SHARED),
    Control("workers", "workers of the service", (0, 1, 2, 4, 8, 12, 16, 24, 32, 64, 128, 190, 256, 512, 800)),
    Control("element_kb", "prepared image", (20.0, 50.0, 115.0, 150.528, 301.056, 602.112), "kB"),
    Control("sharding", "sharding", ("dynamic", "data")),
    Control("slow_workers", "slow workers", (0.0, 0.01, 0.05, 0.1, 0.25, 0.5), "%"),
    Control("step_spread", "spread of a step", (0.0, 0.01, 0.02, 0.05, 0.1, 0.2), "%"),
    Control("failure_hours", "hours to a failure of one", (500.0, 5000.0, 50_700.0, 500_000.0), "h"),
    Control("restart_s", "restart of the job", (0.0, 60.0, 300.0, 600.0, 1800.0, 3600.0), "s"),
    Control("checkpoint_every_s", "between checkpoints", (60.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0), "s"),
    Control("price_per_hour", "price of an accelerator", (0.0, 0.5, 1.0, 1.844, 2.5, 4.916, 10.0), "per hour"),
    Control("worker_price_per_hour", "price of a worker", (0.0, 0.1, 0.34, 0.68, 1.0, 2.0, 4.0), "per hour"),
    Control("watts", "power of an accelerator", (0.0, 100.0, 250.0, 300.0, 400.0, 700.0, 1000.0), "W"),
    Control("worker_watts", "power of a worker", (0.0, 50.0, 120.0, 200.0, 400.0), "W"),
)


class ScaleExplorer(Shown):
    """Sliders over a planner of `labextras.cluster.capacity`; made by `scale` and `fleet`.

    Parameters
    ----------
    title, question : str
    controls : tuple of Control
    make : callable
        From the name of a preset, or from settings, to a plan or a simulation.
    presets : iterable of str
    plan : CapacityPlan or Simulated
        Where the sliders stand when it is opened.
    """

    def __init__(
        self, title: str, question: str, controls: tuple[Control, ...], make: Callable[..., Any],
        presets: Iterable[str], plan: Any,
    ) -> None:  # fmt: skip
        self.plan, self.make = plan, make
        # A setting that is None, as the hours between failures without failures, has no position on a slider.
        controls = tuple(control for control in controls if _settings(plan)[control.name] is not None)
        self.known = {name: make(name) for name in presets}

        def position(plan: Any) -> dict[str, Any]:
            return {control.name: _settings(plan)[control.name] for control in controls}

        buttons = {name: position(one) for name, one in self.known.items()}
        super().__init__(title, question, controls, position(plan), buttons)

    @property
    def picture(self) -> Picture:
        """What limits at the start, against the number of accelerators, or of workers."""
        return self.plan.limits()

    @cached_property
    def panel(self) -> Any:
        """The widget; made when it is first asked for."""
        from labcourse.explorers.panel import ExplorerPanel

        return ExplorerPanel(self)

    def __str__(self) -> str:
        """Return the plan of the start as text."""
        return str(self.plan)

    __repr__ = __str__

    def answer(self, position: Mapping[str, Any]) -> Any:
        """Return the plan of a position of the sliders.

        Raises
        ------
        ValueError
            If the plan is none, as with more hosts than accelerators.
        """
        changed = {k: v for k, v in position.items() if v != self.start[k]}
        if not changed:
            return self.plan
        made = self.make(**asdict(self.plan.setting) | changed)
        # A position that is just a preset keeps its name and its sources.
        return next((p for p in self.known.values() if _settings(p) == _settings(made)), made)

    def reply(self, position: Mapping[str, Any]) -> Reply:
        """Return the plan of a position in words and pictures, or why there is none."""
        try:
            plan = self.answer(position)
            # Drawn at once, so that an error of the drawing is reported like an error of the plan.
            pictures = [plan.limits(), plan.stall()]
        except ValueError as error:  # two sliders that do not fit together, as more hosts than accelerators
            return Reply(f"No plan: {error}.")
        return Reply(f"{plan.headline()} {plan.advice}", lambda: pictures, str(plan))


def _settings(plan: Any) -> dict[str, Any]:
    """Return all settings of a plan; an accelerator such as "V100" is its images per second."""
    return asdict(plan.setting) | {"accelerator": plan.setting.rate}


def scale(preset: str | None = None, **changes: Any) -> ScaleExplorer:
    """Return the explorer of `labextras.cluster.capacity.plan`, opened at its plan of the same arguments.

    A plan is a closed form: a thousand accelerators are as quick to calculate as one, since none of them is simulated.

    Raises
    ------
    ValueError
        If the preset or a field is unknown, or a value is out of range.
    """
    question = "What feeds so many accelerators, what limits first, and what does the stall cost?"
    plan = capacity.plan(preset, **changes)
    return ScaleExplorer("Plan on paper", question, _CONTROLS, capacity.plan, capacity.PRESETS, plan)


def fleet(preset: str | None = "8 accelerators", **changes: Any) -> ScaleExplorer:
    """Return the explorer of `labextras.cluster.capacity.simulate`, opened at its fleet of the same arguments.

    A setting that is None in this fleet, as a price that is not stated, has no slider.

    Raises
    ------
    ValueError
        If the preset or a field is unknown, or a value is out of range.
    """
    question = "How many workers feed so many accelerators, what does a failure cost, and what an epoch?"
    start = capacity.simulate(preset, **changes)
    make = partial(capacity.simulate, seed=start.seed)
    return ScaleExplorer("Scale out, simulated", question, _FLEET, make, capacity.FLEETS, start)
