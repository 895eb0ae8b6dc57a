"""The data of a patient in numbers, beside those of a healthy pipeline: symptoms, and no diagnosis."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.course.drills import data, faults
from labkit.course.drills.data import Facts


@dataclass(frozen=True, repr=False)
class Probe:
    """A table of what comes and what should come.

    Parameters
    ----------
    name : str
    rows : tuple of (what, comes, should come)
    """

    name: str
    rows: tuple[tuple[str, str, str], ...]

    @property
    def different(self) -> tuple[str, ...]:
        """What is not as it should be; random numbers may differ a little from run to run."""
        return tuple(what for what, one, other in self.rows if one != other)

    def __repr__(self) -> str:
        """Return the table as text."""
        table = [("", "comes", "should come"), *self.rows]
        wide = [max(len(row[i]) for row in table) for i in range(3)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, wide, strict=True)).rstrip() for row in table]
        return "\n".join([f"Two epochs of {self.name}", *lines])

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{word}</th>' for word in ("", "comes", "should come"))
        body = "".join(
            f'<tr><th scope="row" style="text-align:left">{html.escape(what)}</th>'
            f"<td>{html.escape(one)}</td><td>{html.escape(other)}</td></tr>"
            for what, one, other in self.rows
        )
        return f"<table><caption>Two epochs of {self.name}</caption><tr>{head}</tr>{body}</table>"


def compare(fault: faults.Fault, case: Any, name: str) -> Probe:
    """Run a patient and its healthy version, and put their numbers side by side."""
    both = []
    for pipeline in (fault.pipeline, faults.build(fault.mended_code, "a healthy pipeline")):
        both.append(_numbers(data.read(pipeline(case), case, fault.task, fault.share)))
    return Probe(name, tuple((what, one, both[1][what]) for what, one in both[0].items()))


def _numbers(facts: Facts) -> dict[str, str]:
    first, again = (facts.labels[i * facts.epoch : (i + 1) * facts.epoch] for i in (0, 1))
    batch = max(facts.sizes)
    groups = [{frozenset(e[i : i + batch].tolist()) for i in range(0, len(e), batch)} for e in (first, again)]
    places = {label: int(np.flatnonzero(facts.labels == label)[0]) for label in (0, 1) if label in facts.labels}
    then = {k: int(np.flatnonzero(facts.labels == k)[-1]) for k in places}
    bright = facts.base[facts.nearest] > 210 / 255
    colours = facts.images.mean(axis=(0, 1, 2))
    own = facts.images.reshape(len(facts.images), -1)
    return {
        "sizes of batches": ", ".join(map(str, sorted(set(facts.sizes), reverse=True))),
        "photos that come in epoch 1": f"{len(set(first.tolist()))} of {facts.epoch}",
        "batches of epoch 1 that epoch 2 repeats": f"{len(groups[0] & groups[1])} of {len(groups[0])}",
        "labels that belong to their photo": f"{100 * np.mean(facts.nearest == facts.labels):.0f} %",
        "darkest and brightest pixel": f"{own.min():.3f} to {own.max():.3f}",
        "mean of red, green, blue": ", ".join(f"{c:.2f}" for c in colours),
        "mean of the first eight rows": f"{facts.images[:, :8].mean():.2f}",
        "mean where the original is brightest": f"{facts.images[bright].mean():.2f}",
        **{
            f"photo {k} against its original, first and last time": (
                f"{facts.shift[i]:+.3f} and {facts.shift[then[k]]:+.3f}"
            )
            for k, i in places.items()
        },
        "spread of that difference within a photo": f"{np.median(facts.roughness):.3f}",
    }
