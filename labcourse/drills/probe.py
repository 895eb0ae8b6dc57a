"""The data of a drill in numbers, beside those of the healthy pipeline: symptoms, and no diagnosis."""

from __future__ import annotations

from typing import Any

import numpy as np

from labcourse.drills import data, faults
from labcourse.drills.data import Delivery
from labkit.common.table import Table


class Probe(Table):
    """A table of what comes and what should come, a row for each number of the data."""

    __repr__ = Table.__str__


def compare(fault: faults.Fault, case: Any, name: str) -> Probe:
    """Run the faulty pipeline and the healthy one, and put their numbers side by side."""
    pipelines = (fault.pipeline, faults.build(fault.fixed_code))
    comes, should = (_numbers(data.read(p(case), case, fault.task, fault.share)) for p in pipelines)
    rows = [(what, number, should[what]) for what, number in comes.items()]
    return Probe(("", "comes", "should come"), rows, caption=f"Two epochs of {name}")


def _numbers(facts: Delivery) -> dict[str, str]:
    groups = facts.groups
    shifts = {k: facts.shift[facts.labels == k][[0, -1]] for k in (0, 1) if k in facts.labels}
    bright = facts.base[facts.nearest] > 210 / 255
    colours = facts.images.mean(axis=(0, 1, 2))
    own = facts.images.reshape(len(facts.images), -1)
    return {
        "sizes of batches": ", ".join(map(str, sorted(set(facts.sizes), reverse=True))),
        "photos that come in epoch 1": f"{len(set(facts.epochs[0].tolist()))} of {facts.epoch}",
        "batches of epoch 1 that epoch 2 repeats": f"{len(groups[0] & groups[1])} of {len(groups[0])}",
        "labels that belong to their photo": f"{100 * np.mean(facts.nearest == facts.labels):.0f} %",
        "darkest and brightest pixel": f"{own.min():.3f} to {own.max():.3f}",
        "mean of red, green, blue": ", ".join(f"{c:.2f}" for c in colours),
        "mean of the first eight rows": f"{facts.images[:, :8].mean():.2f}",
        "mean where the original is brightest": f"{facts.images[bright].mean():.2f}",
        **{
            f"photo {k} against its original, first and last time": f"{first:+.3f} and {last:+.3f}"
            for k, (first, last) in shifts.items()
        },
        "spread of that difference within a photo": f"{np.median(facts.roughness):.3f}",
    }
