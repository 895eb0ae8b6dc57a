"""Fault drills: pipelines with one fault each, to diagnose and to fix.

A drill shows a pipeline (plain tf.data code), its timeline and the numbers of its data. The student names the one fault
that it has, out of all that the catalog knows, and fixes the code; both are checked without a clock. The timeline of a
drill is drawn without causes. The same seed is the same drill on every machine.

A silent drill shows no code: what it delivers is measured, and the fault is named.
"""

from __future__ import annotations

import html
from functools import cached_property
from typing import Any

import labkit
from labcourse import gradebook
from labcourse.drills import data, detectors
from labcourse.drills.case import Case
from labcourse.drills.catalog import FAULTS, TASKS
from labcourse.drills.faults import Fault, same
from labcourse.drills.naming import drawn, listed, named
from labcourse.drills.probe import Probe, compare
from labcourse.drills.silent import SilentDrill, silent
from labcourse.fairness import rules
from labcourse.grading import CheckResult, Wrong, judge
from labcourse.student_code import call
from labkit.common.numbers import whole
from labkit.recording import accelerators
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace
from labkit.views import static

__all__ = ["Drill", "Fault", "SilentDrill", "answer", "diagnoses", "draw", "pool", "seed_of", "silent"]

_STEPS = 10
_PLACES = {"timeline": "timeline", "data": "data (drill.probe())"}


def pool() -> tuple[Fault, ...]:
    """Return all faults, in the order of their diagnoses."""
    return tuple(FAULTS.values())


def diagnoses() -> tuple[str, ...]:
    """Return what can be wrong, in words: the diagnoses of all faults."""
    return tuple(fault.diagnosis for fault in pool())


def draw(seed: int) -> Drill:
    """Return a drill.

    Parameters
    ----------
    seed : int
        From 0 to 10**18. As many seeds in a row as there are faults, counted from 0, draw each fault once.

    Raises
    ------
    ValueError
        If `seed` is no such number.
    """
    return Drill(seed)


def answer(seed: int) -> Fault:
    """Return the fault of a drill, with its diagnosis and ``fixed_code``: for instructors.

    Raises
    ------
    ValueError
        As `draw`.
    """
    return FAULTS[drawn("drills", whole("the seed of a drill", seed, 0, 10**18), FAULTS)]


def seed_of(key: str, start: int = 0) -> int:
    """Return the first seed from `start` on that draws a fault: for instructors who choose one.

    Raises
    ------
    ValueError
        If there is no such fault; the sentence names those there are.
    """
    if key not in FAULTS:
        raise ValueError(f"there is no fault {key!r}; there are: {', '.join(sorted(FAULTS))}")
    return next(seed for seed in range(start, start + 2 * len(FAULTS)) if answer(seed).key == key)


class Drill:
    """One pipeline with a fault; `draw` makes it.

    Attributes
    ----------
    seed : int
    name : str
        ``drill 7``.
    task : str
        What the pipeline should deliver.
    code : str
        The pipeline as it is: a function ``pipeline(case)``.
    diagnoses : tuple of str
        What can be wrong; one of them is.
    case : labcourse.drills.case.Case
        What it reads from; ``pipeline(drill.case)`` runs a version of your own.
    dataset : tf.data.Dataset
        The faulty pipeline.
    trace, timeline : Trace, Timeline
        Some steps of it beside a modelled accelerator, recorded when first asked for. The timeline is drawn without
        causes; `labkit.Timeline` of the trace tells them.
    """

    def __init__(self, seed: int) -> None:
        fault = answer(seed)
        self.seed, self.name = int(seed), f"drill {seed}"
        self.task, self.code = TASKS[fault.task], fault.code
        if fault.share < 1:
            self.task = self.task.replace("every photo", "the first half of the photos, each")
        if fault.once:
            self.task += ", and read and decode each of them in the first epoch only"
        if fault.ordered_anew:
            self.task += ", shuffled anew for each epoch (with a buffer of a batch or more)"
        self.diagnoses = diagnoses()
        self._named = False

    @property
    def _fault(self) -> Fault:
        """The fault is looked up and not kept: vars(drill) would print it."""
        return answer(self.seed)

    @cached_property
    def case(self) -> Case:
        """The material of the pipeline, on storage that takes its time."""
        return self._case()

    def _case(self, **more: Any) -> Case:
        return Case(**{"seed": self.seed, **self._fault.case, **more})

    @cached_property
    def dataset(self) -> Any:
        """The faulty pipeline."""
        return self._fault.pipeline(self.case)

    @property
    def accelerator(self) -> Any:
        """The modelled accelerator beside it."""
        return accelerators.modelled(step_ms=self._fault.step_ms)

    def record(self, pipeline: Any) -> Trace:
        """Record another version of the pipeline on the same material, to compare.

        Parameters
        ----------
        pipeline : callable
            ``pipeline(case)`` returns a dataset.

        Returns
        -------
        Trace
            ``drill 7, yours``.
        """
        # A name of its own: what is handed in tells the faulty run from the fixed one.
        return self._record(pipeline(self.case), f"{self.name}, yours")

    def _record(self, dataset: Any, name: str) -> Trace:
        return labkit.record(dataset, self.accelerator, steps=_STEPS, warmup=1, name=name, progress=False)

    @cached_property
    def trace(self) -> Trace:
        """Ten steps of the faulty pipeline."""
        return self._record(self.dataset, self.name)

    @cached_property
    def timeline(self) -> Timeline:
        """Its lanes and gaps, without what the gaps wait for."""
        return Timeline(self.trace, explain=False)

    def probe(self) -> Probe:
        """Return the numbers of the data in two epochs: what comes, and what should come.

        Returns
        -------
        labcourse.drills.probe.Probe
        """
        return compare(self._fault, self._case(latency_ms=0), self.name)

    def delivered(self, pipeline: Any) -> data.Delivery:
        """Return what two epochs of ``pipeline(case)`` deliver, without waiting for the modelled storage."""
        case = self._case(latency_ms=0)
        return data.read(pipeline(case), case, self._fault.task, self._fault.share)

    def diagnose(self, diagnosis: Any) -> CheckResult:
        """Check a diagnosis.

        Parameters
        ----------
        diagnosis : str or int
            One of `diagnoses`, or its number from 1 on.

        Returns
        -------
        CheckResult
            It never raises; a wrong one says how the fault that was named would show.
        """
        return gradebook.result(self.judge_diagnosis(diagnosis))

    def judge_diagnosis(self, diagnosis: Any) -> CheckResult:
        """Return what `diagnose` does, and enter nothing into the gradebook."""
        return judge(f"{self.name}, diagnosis", self._check_diagnosis, diagnosis, "choose one of drill.diagnoses")

    def _check_diagnosis(self, diagnosis: Any) -> None:
        chosen = FAULTS[named(diagnosis, {key: fault.diagnosis for key, fault in FAULTS.items()})]
        if chosen.key != self._fault.key:
            place = _PLACES[chosen.shows_in]
            raise Wrong(f"if that were the fault, you would see this: {chosen.sign}. Look again, in the {place}")
        self._named = True

    def fix(self, pipeline: Any) -> CheckResult:
        """Check a fixed pipeline: its data are those of a right one, and its graph has no fault of the catalog.

        Parameters
        ----------
        pipeline : callable
            ``pipeline(case)`` returns a dataset built on the sources of `case`, as the faulty one does.

        Returns
        -------
        CheckResult
            It never raises.
        """
        return gradebook.result(self.judge_fix(pipeline))

    def judge_fix(self, pipeline: Any) -> CheckResult:
        """Return what `fix` does, and enter nothing into the gradebook."""
        return judge(f"{self.name}, fix", self._check_fix, pipeline, "write a function pipeline(case)")

    def _check_fix(self, pipeline: Any) -> None:
        # New photos. No photo is fully white: else a division by its maximum would give the same as a division by 255.
        case = self._case(seed=self.seed + 1, latency_ms=0, white=235)
        found = _examine(self._fault, call(pipeline, case), case)
        if self._fault.key in found:
            # The sign would name the fault to everybody who hands the code in as it is.
            sign = self._fault.sign if self._named else "its fault is still there; name it, then this says how it shows"
            raise Wrong(f"it is not fixed: {sign}")
        if found:
            other = FAULTS[found[0]]
            # The sign would name the fault of another drill to everybody who hands its code in as it is.
            sign = "that of the drill whose code this is" if same(pipeline, other.pipeline) else other.sign
            raise Wrong(f"that fault is gone, but now there is another: {sign}")

    def __repr__(self) -> str:
        """Return task, code and diagnoses: the same text on every machine."""
        lines = [f"{self.name}: a pipeline that should deliver {self.task}.", "", self.code, "What is wrong with it?"]
        return "\n".join([*lines, *listed(self.diagnoses)])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return what a notebook shows: the code, the timeline and the list, as a page and as text."""
        picture = static.draw(self.timeline, title=self.name)
        shown = "".join(f"<li>{html.escape(text)}</li>" for text in self.diagnoses)
        page = (
            f"<p><strong>{self.name}</strong>: a pipeline that should deliver {html.escape(self.task)}.</p>"
            f"<pre>{html.escape(self.code)}</pre>{picture.html()}<p>What is wrong with it?</p><ol>{shown}</ol>"
        )
        return {"text/plain": f"{self!r}\n\n{picture.text}", "text/html": page}


def _examine(fault: Fault, dataset: Any, case: Any) -> list[str]:
    """Return the keys of all faults that a pipeline has; raise `Wrong` if its data are wrong in another way."""
    rules.dataset(dataset)
    if not case.feeds(dataset):
        raise Wrong("build the pipeline on the sources of case (case.photos, case.shards, …)")
    detectors.refuse(dataset)
    if "case.records" in fault.code and any(n.dataset is case.photos for n in detectors.nodes(dataset)):
        raise Wrong("this drill reads files of records; keep to those (case.shards, case.flat, …)")
    found = detectors.find(dataset, case)
    if fault.key in found:
        return found  # a fault that the graph shows is found without running it
    facts = data.read(dataset, case, fault.task, fault.share)
    found = list(dict.fromkeys([*found, *data.find(facts)]))
    if found:
        return found
    if fault.once and not detectors.keeps_work(dataset):
        raise Wrong("no cache keeps what is read and decoded: the work of the first epoch comes again in the second")
    buffer = detectors.largest_shuffle(dataset)
    if fault.ordered_anew and not buffer:
        raise Wrong("nothing shuffles the photos; each epoch is to have an order of its own")
    if fault.ordered_anew and 1 < buffer < case.batch:  # a buffer of one shows in the order
        raise Wrong(f"photos are shuffled in a buffer of {buffer}; allowed: {case.batch} (a batch) or more")
    data.judge(facts, detectors.keeps_order(dataset), fault.ordered_anew)
    return []
