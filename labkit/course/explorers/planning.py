"""The explorer of `labkit.simulate.capacity`: accelerators, hosts, shards and a storage service as sliders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from typing import Any

from labkit.course.explorers import colab_page
from labkit.course.explorers.controls import Control
from labkit.course.explorers.shown import Shown
from labkit.simulate import capacity as scales
from labkit.views.picture import Picture

_TENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)


def _controls() -> tuple[Control, ...]:
    """Return the sliders, each at its default of `labkit.simulate.capacity.Setting`."""
    defaults = asdict(scales.Setting())
    rate = scales.Setting().rate
    return tuple(
        Control(name, label, values, rate if name == "accelerator" else defaults[name], unit)
        for name, label, values, unit in (
            ("accelerators", "accelerators", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000, 4000), ""),
            ("hosts", "hosts", (1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000), ""),
            ("accelerator", "images per accelerator", (50.0, 100.0, 200.0, 500.0, 920.0, 1170.0, 1786.0, 5000.0), "/s"),
            ("cores_per_accelerator", "cores per accelerator", (1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 12.0, 16.0, 24.0, 32.0),
             "cores"),
            ("cpu_ms_per_image", "work per image", (0.3, 0.5, 1.0, 2.0, 2.5, 3.2, 4.0, 5.0, 8.0, 10.0), "ms"),
            ("image_kb", "size of an image", (3.0, 10.0, 30.0, 115.0, 150.0, 300.0, 690.0, 1000.0), "kB"),
            ("dataset_gb", "size of the set", tuple(float(v) for v in _TENS[3:]), "GB"),
            ("shards", "shards", (1, 2, 4, 8, 16, 32, 64, 80, 128, 256, 512, 1024, 2048, 4096, 8000, 16384), ""),
            ("readers_per_host", "readers per host", (1, 2, 4, 8, 16, 32, 64, 128), "files"),
            ("storage_mb_s", "storage bandwidth", tuple(float(v) for v in _TENS[5:]), "MB/s"),
            ("storage_requests_s", "storage requests", (100.0, 500.0, 1000.0, 5500.0, 22_000.0, 100_000.0), "/s"),
            ("request_mb", "size of a request", (0.115, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0), "MB"),
            ("storage_latency_ms", "wait for a request", (0.0, 0.1, 1.0, 5.0, 10.0, 30.0, 60.0, 100.0, 200.0), "ms"),
            ("network_mb_s", "network of a host", (125.0, 312.5, 1250.0, 3125.0, 12_500.0), "MB/s"),
            ("cache_gb_per_host", "cache of a host", (0.0, 10.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0), "GB"),
        )
    )  # fmt: skip


class ScaleExplorer(Shown):
    """Sliders over `labkit.simulate.capacity.plan`; made by `scale`.

    Parameters
    ----------
    start : CapacityPlan
        Where the sliders stand when it is opened.
    """

    def __init__(self, start: scales.CapacityPlan) -> None:
        self.start = start
        self.controls = _controls()

    @property
    def picture(self) -> Picture:
        """What limits at the start, against the number of accelerators."""
        return self.start.limits()

    def __str__(self) -> str:
        """Return the plan of the start as text."""
        return str(self.start)

    __repr__ = __str__

    @cached_property
    def panel(self) -> Any:
        """The widget, an `ipywidgets.VBox`; made when it is first asked for."""
        from labkit.course.explorers.panel import PlanPanel

        return PlanPanel(self).box

    @property
    def page(self) -> colab_page.Page:
        """The sliders as they are shown in Colab; new at every showing."""
        return colab_page.of_plan(self)

    def position(self, plan: scales.CapacityPlan) -> dict[str, Any]:
        """Return where the sliders stand for a plan."""
        found = asdict(plan.setting) | {"accelerator": plan.setting.rate}
        return {control.name: found[control.name] for control in self.controls}

    def answer(self, position: Mapping[str, Any]) -> scales.CapacityPlan:
        """Return the plan of a position of the sliders.

        Raises
        ------
        ValueError
            If the plan is none, as with more hosts than accelerators.
        """
        opened = self.position(self.start)
        changed = {k: v for k, v in position.items() if v != opened[k]}
        if not changed:
            return self.start
        made = scales.plan(**asdict(self.start.setting) | changed)
        # What is just a preset keeps its name and its sources.
        known = (scales.plan(name) for name in scales.PRESETS)
        return next((p for p in known if _same(p.setting, made.setting)), made)


def _same(one: scales.Setting, other: scales.Setting) -> bool:
    """Tell whether two settings are the same plan: "V100" is its images per second, too."""
    return asdict(one) | {"accelerator": one.rate} == asdict(other) | {"accelerator": other.rate}


def scale(preset: str | None = None, **changes: Any) -> ScaleExplorer:
    """Return the explorer of `labkit.simulate.capacity`, opened at its `plan` of the same arguments.

    Raises
    ------
    ValueError
        If the preset or a field is unknown, or a value is out of range.
    """
    return ScaleExplorer(scales.plan(preset, **changes))
