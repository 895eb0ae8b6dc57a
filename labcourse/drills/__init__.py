"""Drills: pipelines of which one thing is wrong, or nothing, to diagnose from a recording and to fix.

A drill shows its timeline and the numbers of its data, and its code only after a diagnosis. The reader names what is
wrong, out of all that can be: how the pipeline is written, its data, its memory, the machine, or nothing. Then the
code is fixed. Both are checked without a clock: timelines come from a modelled machine, and are drawn without causes.
The same seed is the same drill on every machine.

A silent drill shows no code: what it delivers is measured, and the fault is named.
"""

from __future__ import annotations

import html
import itertools
import textwrap
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from labcourse import gradebook
from labcourse.drills import data, machine
from labcourse.drills.case import Case
from labcourse.drills.naming import drawn, listed, named
from labcourse.drills.sick_jobs import BLOCK, GROUPS, WORDS, SickJob, job
from labcourse.drills.silent import SilentDrill, silent
from labcourse.drills.writing import build, written
from labcourse.fairness import rules
from labcourse.grading import CheckResult, Wrong, judge
from labcourse.student_code import call
from labkit.common.numbers import whole
from labkit.common.table import Table
from labkit.pipelines.structure import nodes
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace
from labkit.timeline.wording import percent
from labkit.views import static

__all__ = ["Diagnoses", "Drill", "DrillAnswer", "SilentDrill", "answer", "diagnoses", "draw", "seed_of", "silent"]

#: How much less busy than the healthy pipeline a fix may keep the accelerator, and how much busier than the faulty one
#: it must keep it to count as a change at all.
_SLACK, _BETTER = 0.06, 0.04

_SENTENCES = {key: WORDS["faults"][key]["diagnosis"] for keys in GROUPS.values() for key in keys}


class Diagnoses(tuple[str, ...]):
    """What can be wrong; it prints in groups, with one numbering."""

    __slots__ = ()

    def _groups(self) -> Iterator[tuple[str, int, tuple[str, ...]]]:
        first = 0
        for group, keys in GROUPS.items():
            yield WORDS["groups"][group], first + 1, self[first : first + len(keys)]
            first += len(keys)

    def __repr__(self) -> str:
        """Return headings, and a line for each diagnosis."""
        lines = ([head, *listed(words, first)] for head, first, words in self._groups())
        return "\n".join(itertools.chain.from_iterable(lines))

    def _repr_html_(self) -> str:
        lists = (
            f"<p><strong>{head}</strong></p><ol start='{first}'>"
            f"{''.join(f'<li>{html.escape(text)}</li>' for text in words)}</ol>"
            for head, first, words in self._groups()
        )
        return "".join(lists)


def diagnoses() -> Diagnoses:
    """Return what can be wrong, in words: waits, data, memory, the machine, nothing."""
    return Diagnoses(_SENTENCES.values())


class DrillAnswer(NamedTuple):
    """What a drill is: its ``key``, the right ``diagnosis``, and both codes."""

    key: str
    diagnosis: str
    code: str
    fixed_code: str


def draw(seed: int, booked: bool = True) -> Drill:
    """Return a drill.

    Parameters
    ----------
    seed : int
        From 0 to 10**18. As many seeds in a row as a block has, 84, counted from 0, draw each diagnosis at least once;
        28 of them are faults of the machine.
    booked : bool
        Whether what is checked counts as the reader's own work; what a notebook solves for everybody does not.

    Raises
    ------
    ValueError
        If `seed` is no such number.
    """
    return Drill(seed, booked)


def _key(seed: int) -> str:
    return drawn("drills", whole("the seed of a drill", seed, 0, 10**18), BLOCK).partition(" ")[0]


def answer(seed: int) -> DrillAnswer:
    """Return what a drill is: for instructors.

    Raises
    ------
    ValueError
        As `draw`.
    """
    _key(seed)
    it = job(int(seed))
    return DrillAnswer(it.key, _SENTENCES[it.key], written(it.broken, it.names), written(it.fixed, it.names))


def seed_of(key: str, start: int = 0) -> int:
    """Return the first seed from `start` on that draws a diagnosis: for instructors who choose one.

    Raises
    ------
    ValueError
        If there is no such key; the sentence names those there are.
    """
    if key not in _SENTENCES:
        raise ValueError(f"there is no fault {key!r}; there are: {', '.join(sorted(_SENTENCES))}")
    return next(seed for seed in range(start, start + 2 * len(BLOCK)) if _key(seed) == key)


class Drill:
    """One pipeline, of which one thing is wrong, or nothing; `draw` makes it.

    Attributes
    ----------
    seed : int
    name : str
        ``drill 7``.
    task : str
        What the pipeline should deliver.
    sheet : str
        The machine that was ordered for it.
    diagnoses : Diagnoses
        What can be wrong; one of them is right.
    code : str
        The pipeline as it is, a function ``pipeline(case)``; before the first diagnosis a sentence that says so.
    case : labcourse.drills.case.Case
        What it reads from; ``pipeline(drill.case)`` runs a version of your own.
    dataset : tf.data.Dataset
        The pipeline as it is.
    trace, timeline : Trace, Timeline
        Some steps of it on a modelled machine. The timeline is drawn without causes; `labkit.Timeline` of the trace
        tells them.
    """

    def __init__(self, seed: int, booked: bool = True) -> None:
        it = answer(seed)
        self.seed, self.name = int(seed), f"drill {seed}"
        self.task, self.sheet = self._job.task, WORDS["sheet"].format_map(vars(self._job.ordered))
        self.diagnoses = diagnoses()
        self._booked, self._committed, self._named, self._written = booked, False, False, it.code

    @property
    def _job(self) -> SickJob:
        """The job is looked up and not kept: vars(drill) would print it."""
        return job(self.seed)

    @property
    def code(self) -> str:
        """The pipeline as it is, once a diagnosis was tried."""
        return self._written if self._committed else WORDS["locked"].format(name=self.name)

    @cached_property
    def case(self) -> Case:
        """The material of the pipeline."""
        return Case(self.seed, self._job.material)

    @cached_property
    def dataset(self) -> Any:
        """The pipeline as it is."""
        return build(self._written)(self.case)

    def record(self, pipeline: Any) -> Trace:
        """Record another version of the pipeline on the same machine, to compare.

        Parameters
        ----------
        pipeline : callable
            ``pipeline(case)`` returns a dataset.

        Returns
        -------
        Trace
            ``drill 7, yours``.

        Raises
        ------
        labcourse.grading.Wrong
            If the modelled machine cannot run it.
        """
        # A name of its own: what is handed in tells the faulty run from the fixed one.
        return self._run(pipeline(self.case), self.case, f"{self.name}, yours").trace

    def _run(self, dataset: Any, case: Case, name: str) -> machine.Recording:
        return machine.record(dataset, case, self._job.machine, name)

    @cached_property
    def _given(self) -> machine.Recording:
        return self._run(self.dataset, self.case, self.name)

    @property
    def trace(self) -> Trace:
        """Fifteen steps of the pipeline as it is."""
        return self._given.trace

    @cached_property
    def timeline(self) -> Timeline:
        """Its lanes and gaps, without what the gaps wait for."""
        return Timeline(self.trace, explain=False)

    def probe(self) -> Table:
        """Return the numbers of the data in two epochs, and of the memory: what comes, and what should come.

        Returns
        -------
        labkit.common.table.Table
        """
        memory = self._given.held, self._job.machine.room
        return data.compare(data.read(self.dataset, self.case), memory, self.name)

    def delivered(self, pipeline: Any) -> data.Delivery:
        """Return what two epochs of ``pipeline(case)`` deliver."""
        return data.read(pipeline(self.case), self.case)

    def diagnose(self, diagnosis: Any) -> CheckResult:
        """Check a diagnosis; the first one also opens `code`, right or wrong.

        Parameters
        ----------
        diagnosis : str or int
            One of `diagnoses`, or its number from 1 on.

        Returns
        -------
        CheckResult
            It never raises; a wrong one says how what was named would show.
        """
        return self._judge("diagnosis", self._check_diagnosis, diagnosis, "choose one of drill.diagnoses")

    def _judge(self, what: str, check: Any, answer: Any, untried: str) -> CheckResult:
        result = judge(f"{self.name}, {what}", check, answer, untried)
        return gradebook.result(result) if self._booked else result

    def _check_diagnosis(self, diagnosis: Any) -> None:
        chosen = named(diagnosis, _SENTENCES)
        self._committed = True
        if chosen != self._job.key:
            place = "in the data (drill.probe())" if chosen in GROUPS["data"] else "in the timeline"
            raise Wrong(f"if that were so, you would see this: {WORDS['faults'][chosen]['sign']}. Look again, {place}")
        self._named = True

    def fix(self, pipeline: Any) -> CheckResult:
        """Check a fixed pipeline: it delivers what it should, keeps up with the accelerator, and fits into memory.

        Where nothing is wrong, or no code mends the machine, the pipeline as it is passes.

        Parameters
        ----------
        pipeline : callable
            ``pipeline(case)`` returns a dataset built on the sources of `case`, as the drill's own does.

        Returns
        -------
        CheckResult
            It never raises.
        """
        return self._judge("fix", self._check_fix, pipeline, "write a function pipeline(case)")

    def _check_fix(self, pipeline: Any) -> None:
        case, key = Case(self.seed + 1, self._job.material), self._job.key  # other photos
        dataset = call(pipeline, case)
        rules.dataset(dataset)
        if not case.feeds(dataset):
            raise Wrong("build the pipeline on the sources of case (case.photos, case.files, …)")
        if any(node.captured for node in nodes(dataset)):
            advice = "build on the sources of case without such a wrap"
            raise Wrong(f"a dataset inside a function cannot be examined: {advice}")
        facts = data.read(dataset, case)
        for fault in sorted(data.find(facts), key=lambda fault: fault != key):
            self._refuse(fault)
        chain = rules.chain(dataset)
        data.judge(facts, keeps_order=not chain.any_order)
        kinds = [step.kind for step in chain.steps]
        if "Repeat" in kinds and "Cache" in kinds[kinds.index("Repeat") :]:
            self._refuse("unfinished_cache")
        mine = self._run(dataset, case, self.name)
        good = self._run(build(answer(self.seed).fixed_code)(case), case, self.name)
        for left_out in sorted(good.library - mine.library):
            raise Wrong(f"it leaves out case.{left_out}, which the job needs")
        behind = chain.steps[max(k for k, kind in enumerate(kinds) if "Batch" in kind) :]
        ahead = sum(step.settings.get("buffer_size", 0) for step in behind if step.kind == "Prefetch") * case.batch
        if max(mine.held, ahead) > self._job.machine.room:
            self._refuse(key if key in GROUPS["memory"] else "huge_buffer")
        busy, before, possible = (Timeline(run.trace).busy for run in (mine, self._given, good))
        if busy < possible - _SLACK:
            if busy < before + _BETTER:
                self._refuse(key)
            said = f"the accelerator is busy {percent(busy, 0)}, and {percent(possible, 0)} is possible"
            raise Wrong(f"it waits less than before, but {said}: look at labkit.show(drill.record(…)) for what is left")

    def _refuse(self, fault: str) -> None:
        """Refuse a pipeline for a fault that it has; the drill's own is named to those only who named it."""
        sign = WORDS["faults"][fault]["sign"]
        if fault != self._job.key:
            raise Wrong(f"that fault may be gone, but now there is another: {sign}")
        if not self._named:
            sign = "its fault is still there; name it, then this says how it shows"
        raise Wrong(f"it is not fixed: {sign}")

    def __repr__(self) -> str:
        """Return task and diagnoses, and the code once a diagnosis was tried: the same text on every machine."""
        told = f"{self.name}: a pipeline that should deliver {self.task}.", f"Ordered for it: {self.sheet}."
        lines = [*(textwrap.fill(line, 79) for line in told), ""]
        return "\n".join([*lines, self.code, "", "What is wrong?", repr(self.diagnoses)])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return what a notebook shows: task, timeline and list, and the code, as a page and as text."""
        picture = static.draw(self.timeline, title=self.name)
        page = (
            f"<p><strong>{self.name}</strong>: a pipeline that should deliver {html.escape(self.task)}.</p>"
            f"<p>Ordered for it: {self.sheet}.</p>{picture.html()}<pre>{html.escape(self.code)}</pre>"
            f"<p>What is wrong?</p>{self.diagnoses._repr_html_()}"
        )
        return {"text/plain": f"{self!r}\n\n{picture.text}", "text/html": page}
