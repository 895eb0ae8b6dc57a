"""The explorers of `labextras.cluster.capacity`: a plan on paper, and a fleet whose batches are simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import cached_property
from typing import Any

from labcourse.explorers.controls import Control
from labcourse.explorers.front_end import Reply, Shown
from labcourse.explorers.notebook_explorers import CONTROLS
from labextras.cluster import capacity
from labkit.views.picture import Picture

_SHARED = "accelerators hosts accelerator cpu_ms_per_image storage_mb_s storage_requests_s network_mb_s".split()


class ScaleExplorer(Shown):
    """Sliders over a planner of `labextras.cluster.capacity`; made by `scale` and `fleet`.

    Parameters
    ----------
    title, question : str
    controls : iterable of Control
    make : callable
        From the name of a preset, or from settings, to a plan or a simulation.
    presets : iterable of str
    plan : CapacityPlan or Simulated
        Where the sliders stand when it is opened.
    """

    def __init__(
        self, title: str, question: str, controls: Iterable[Control], make: Callable[..., Any],
        presets: Iterable[str], plan: Any,
    ) -> None:  # fmt: skip
        self.plan, self.make, controls = plan, make, tuple(controls)
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

    def reply(self, position: Mapping[str, Any], drawn: bool = True) -> Reply:
        """Return the plan of a position in words and, if it is `drawn`, in pictures; or why there is none."""
        try:
            plan = self.answer(position)
            # Drawn at once, so that an error of the drawing is reported like an error of the plan.
            pictures = [plan.limits(), plan.stall()] if drawn else []
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
    return ScaleExplorer("Plan on paper", question, CONTROLS["plan"].values(), capacity.plan, capacity.PRESETS, plan)


def fleet(preset: str | None = "8 accelerators", **changes: Any) -> ScaleExplorer:
    """Return the explorer of `labextras.cluster.capacity.simulate`, opened at its fleet of the same arguments.

    Raises
    ------
    ValueError
        If the preset or a field is unknown, or a value is out of range.
    """
    question = "How many workers feed so many accelerators, what does a failure cost, and what an epoch?"
    controls = (*(CONTROLS["plan"][name] for name in _SHARED), *CONTROLS["fleet"].values())
    start = capacity.simulate(preset, **changes)
    return ScaleExplorer("Scale out, simulated", question, controls, capacity.simulate, capacity.FLEETS, start)
