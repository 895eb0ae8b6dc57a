"""Advice that is applied: changes of a pipeline are written, built, compared with it, and measured beside it.

Plumber (Kuchnik et al., MLSys 2022) rewrote pipelines on a fork of TensorFlow. Here the stock one does: what
`labextras.tune.rewrite` reads can be built again. A change is kept only if it delivers the same elements, and if the
table calls it faster.
"""

from __future__ import annotations

import contextlib
import difflib
import html
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from labextras.tune import calls, equality, rewrite
from labkit.common.numbers import number, whole
from labkit.common.progress import fast, optional_bar
from labkit.common.table import Table, Tabular
from labkit.pipelines import memory
from labkit.pipelines.structure import is_dataset
from labkit.recording import measures, recorder
from labkit.recording.accelerators import check_accelerator
from labkit.recording.recorder import FAST_WARMUP, rounds_of
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace

#: Seconds of one round of a trial, about, and the fewest and most steps of it.
ROUND_S, STEPS = 0.6, (3, 20)
#: Rounds that are added to a trial where its verdict is open.
MORE = 2
#: From this busy share on, the accelerator is the limit, and nothing is tried.
ENOUGH = 0.95
#: Seconds of the longest epoch that a cache is tried on.
EPOCH_S = 3.0
#: Batches of the longest epoch that a recording waits for, so that a cache is full.
FILLED = 100
#: One reading of elements may take this part of `seconds`: a twentieth.
READINGS = 20
#: Events of a recording, and seconds that it takes beside its steps: to start the profiler, and to read what it wrote.
EVENTS, RECORDING_S = 50_000, 2.0
#: Said where no change answers the advice.
OUT_OF_REACH = (
    "What the advice asks for is inside of a function, or in the data: that is not rewritten here. What else may help "
    "is tried."
)


@dataclass(frozen=True)
class Trial:
    """A change that was tried.

    Parameters
    ----------
    change : str
        What was changed, in a few words.
    elements : str
        Whether it delivers the same elements, what differs, or why it cannot be built or compared.
    speedup : labkit.recording.measures.Speedup or None
        Over the pipeline as it was before this change; None where the elements differ, or nothing was measured.
    """

    change: str
    elements: str
    speedup: measures.Speedup | None = None

    @property
    def kept(self) -> bool:
        """Whether the change was kept: it is faster."""
        return self.speedup is not None and self.speedup.verdict.startswith(measures.FASTER)


@dataclass(frozen=True, repr=False)
class Improvement(Tabular):
    """What `improve` found.

    Parameters
    ----------
    dataset : tf.data.Dataset
        The pipeline with all changes that were kept; the given one where there are none.
    original, written : labextras.tune.calls.Written
        The calls before and after.
    trials : tuple of Trial
        In the order in which they were tried.
    notes : tuple of str
        Sentences for under the table: why nothing more was tried, and what is left to do.
    """

    dataset: Any
    original: calls.Written
    written: calls.Written
    trials: tuple[Trial, ...]
    notes: tuple[str, ...] = ()

    @property
    def kept(self) -> list[str]:
        """The names of the changes that were kept."""
        return [one.change for one in self.trials if one.kept]

    @property
    def code(self) -> str:
        """The improved pipeline as Python; functions stand there by their names."""
        return self.written.code()

    @property
    def diff(self) -> str:
        """What to change in the code, line by line; empty where nothing was kept."""
        lines = difflib.ndiff(self.original.code().splitlines(), self.code.splitlines())
        return "\n".join(line for line in lines if not line.startswith("?")) if self.kept else ""

    def table(self) -> Table:
        """One row for each change that was tried."""
        head = ("change", "speed-up over the pipeline so far", "verdict", "elements", "kept")
        rows = []
        for one in self.trials:
            seen = (one.speedup.ratio, one.speedup.verdict) if one.speedup else ("", "not measured")
            rows.append((one.change, *seen, one.elements, "yes" if one.kept else "no"))
        return Table(head, rows or [("no change was tried", "", "", "", "")], (), self.notes, rule=True)

    def __repr__(self) -> str:
        """Return the table, and the changes of the code."""
        return "\n\n".join(filter(None, (str(self.table()), self.diff)))

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() + (f"<pre>{html.escape(self.diff)}</pre>" if self.diff else "")


def improve(
    dataset: Any, accelerator: Any, *, repeats: int = 5, seconds: float = 180, progress: bool | None = None
) -> Improvement:
    """Write a pipeline in other ways, and keep what delivers the same elements faster.

    The pipeline is recorded, and what the advice of the recording asks for is tried first (`rewrite.Change.answers`),
    then what belongs to the same topic, then the rest. Each change is measured in interleaved rounds beside the
    pipeline as it was before; a pipeline that ends is repeated for that. When a change is kept, the new pipeline is
    recorded, and all are tried on it. Beside busy programs, only what is at least twice as fast is kept.

    Parameters
    ----------
    dataset : tf.data.Dataset, or a DataLoader of PyTorch
        Batched. Of a loader, workers, whole batches in one call, and batches prepared ahead are tried. Functions of a
        dataset are traced again for each change.
    accelerator : Modelled or Real
        The consumer; see `labkit.accelerators`.
    repeats : int
        Rounds of each trial, and two more where its verdict is open; LABKIT_FAST allows one.
    seconds : float
        Nothing is begun that would last longer than what is left of this, and a trial that does is given up; a batch
        that is under way is waited for.
    progress : bool, optional
        A progress bar: True, False, or by default one that shows up when it takes long.

    Returns
    -------
    Improvement

    Raises
    ------
    ValueError, TypeError, RecordingError
        As `labkit.record`; ValueError if `seconds` is not positive.
    TimeoutError
        If no batch comes in half of `seconds`, or in 25 of them.
    """
    whole("repeats", repeats, least=1)
    number("seconds", seconds, 1e-3, 1e6, unit="of seconds")
    driven = recorder.recordable(dataset)
    written = driven.written if hasattr(type(driven), "written") and not is_dataset(driven) else calls.read(dataset)
    search = Search(written, accelerator, repeats, seconds)
    with optional_bar(progress, None, "improving") as tick:
        search.run(tick)
    return search.found(dataset)


class Search:
    """The changes that were tried so far, and the pipeline with those that were kept."""

    def __init__(self, written: calls.Written, accelerator: Any, repeats: int, seconds: float) -> None:
        self.original = self.written = written
        self.repeats, self.ends = repeats, time.monotonic() + seconds
        check_accelerator(accelerator)
        self.accelerator = Until(accelerator, self.ends)
        self.trials: list[Trial] = []
        self.notes: list[str] = []
        self.trace: Trace | None = None
        read_s = min(equality.READ_S, seconds / READINGS)
        try:
            self.reference = equality.Reference(written, read_s)
            self.pace = self.reference.pace
            if any(call.method == "shuffle" for call in written.every):  # it fills its buffer first
                try:
                    self.pace = equality.FirstElements.of(_endless(written), read_s / 2, equality.PATIENCE * read_s)
                except TimeoutError:
                    self.pace = equality.FirstElements(first_s=math.inf)
        except TimeoutError:
            raise
        except Exception:  # `record` says it better
            recorder.record(_endless(written), accelerator, steps=1, warmup=1, progress=False)
            raise
        self.train_s = 0.0
        self.record()

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.ends - time.monotonic()

    def record(self) -> None:
        """Record the pipeline as it is, if there is time; behind the epoch in which a cache is filled."""
        epoch = self.reference.batches or 0
        caches = any(call.method == "cache" for call in self.written.calls) and epoch <= FILLED
        warmup = 2 + epoch * caches
        step_s = max(self.pace.batch_s + self.train_s, 1e-3)
        affordable = (self.left() - self.pace.first_s - RECORDING_S * (self.trace is not None)) / 2 / step_s
        if affordable < warmup + 2:
            return
        steps = int(min(affordable - warmup, 12))
        with contextlib.suppress(TimeUp):
            plan = {"steps": steps, "warmup": warmup, "max_events": EVENTS, "progress": False}
            self.trace = self.accelerator.driving(recorder.record, _endless(self.written), self.accelerator, **plan)
            self.train_s = self.trace.run.repeats[0].train_ms / 1e3

    def run(self, tick: Callable[[], Any]) -> None:
        """Try the changes until none is left, or the time is up."""
        refused: set[str] = set()
        late: list[str] = []
        while self.trace is not None and (timeline := Timeline(self.trace)).busy < ENOUGH:
            stalls = timeline.stalls
            wanted = (*stalls.rules, stalls.cause or "")
            known = {one.change for one in self.trials}  # what was refused before another change was kept comes last
            offered = sorted(_changes(self.written), key=lambda one: (one.promise(wanted), one.name in known))
            if not self.trials and offered and offered[0].promise(wanted) > 0:
                self.notes.append(OUT_OF_REACH)
            for change in offered:
                if (code := change.written.code()) in refused:
                    continue
                trial = self.tried(change)
                if trial is None:
                    late.append(change.name)
                    continue
                self.trials.append(trial)
                tick()
                if trial.kept:
                    refused, late, self.written = set(), [], change.written
                    self.record()
                    break
                refused.add(code)
            else:
                break
        else:
            if self.trace is not None:
                busy = f"The accelerator is busy for {timeline.busy:.0%} of the time"
                self.notes.append(f"{busy}: no change can gain much.")
        if late or self.trace is None:
            names = ", ".join(dict.fromkeys(late)) or "any change"
            slow = f"its first batch takes {self.pace.first_s:.2g} s, and each of the others {self.pace.batch_s:.2g} s"
            slow = slow if math.isfinite(self.pace.first_s) else "its shuffle buffer takes too long to fill"
            self.notes.append(f"The time was up before {names} was tried ({slow}); seconds= allows more.")

    def tried(self, change: rewrite.Change) -> Trial | None:
        """Build a change, compare its elements, measure it; None where the time does not allow that."""
        own_s = self.pace.first_s + (STEPS[0] + 2) * (self.pace.batch_s + 2 * self.train_s)
        if self.repeats * own_s > self.left():
            return None
        elements = self.reference.compared(change)
        if elements not in equality.FINE:
            return Trial(change.name, elements)
        new, warmup = self.reference.pace, 2
        if change.stored:
            if self.reference.batches is None or self.reference.batches * self.pace.batch_s > EPOCH_S:
                return Trial(change.name, f"{elements}; an epoch is too long to try it here")
            warmup = self.reference.batches + 2
        both_s = self.pace.batch_s + new.batch_s + 2 * self.train_s
        steps = int(min(max(2 * ROUND_S / max(both_s, 1e-3), STEPS[0]), STEPS[1]))
        first_s = self.pace.first_s + max(self.pace.first_s, new.first_s)
        if self.repeats * (first_s + (steps + warmup) * both_s) > self.left():
            return None
        both = {"before": _endless(self.written), "after": _endless(change.written)}
        plan = recorder.Plan(self.accelerator, steps, FAST_WARMUP if fast() else warmup, progress=False)
        looks = [rounds_of(self.repeats)] if fast() else measures.looks(self.repeats, self.repeats + MORE)
        try:
            traces = self.accelerator.driving(
                plan.rounds, both, looks, change.name, plan.timed, lambda so_far: measured_rounds(so_far).decided
            )
        except TimeUp:
            return None
        trial = Trial(change.name, elements, measured_rounds(traces).speedup("after"))
        if trial.kept:
            self.pace = equality.FirstElements(first_s=max(self.pace.first_s, new.first_s), batch_s=new.batch_s)
        return trial

    def found(self, dataset: Any) -> Improvement:
        """Return the result."""
        busy = (one.speedup.beside for one in self.trials if one.speedup and one.speedup.beside)
        self.notes += list(busy)[:1]
        if self.written.unread:
            unread = "that step cannot be built again from the dataset"
            self.notes.append(f"Nothing before {self.written.unread} was changed: {unread}.")
        if self.trace is not None:
            stalls = Timeline(self.trace).stalls
            left = f"to blame now: {stalls.blame or stalls.cause}. " if stalls.cause else ""
            self.notes.append(f"{left}Next: {stalls.advice}")
        improved = dataset if self.written is self.original else self.written.build()
        improved = improved if is_dataset(improved) else getattr(improved, "loader", improved)
        return Improvement(improved, self.original, self.written, tuple(self.trials), tuple(self.notes))


class TimeUp(Exception):
    """The time of a search is up."""


class Until:
    """An accelerator that refuses to train when the time is up, so that whatever drives it ends."""

    def __init__(self, accelerator: Any, ends: float) -> None:
        self._accelerator, self._ends = accelerator, ends

    def __getattr__(self, name: str) -> Any:
        """Return what the accelerator has."""
        return getattr(self._accelerator, name)

    def step(self, *batch: Any) -> None:
        """Train on a batch."""
        if time.monotonic() > self._ends:
            raise TimeUp
        self._accelerator.step(*batch)

    def driving(self, job: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Return what a job returns that trains here, called with what is given.

        Raises
        ------
        TimeUp
            If the time was up first.
        """
        try:
            return job(*given, **named)
        except recorder.RecordingError as error:
            if isinstance(error.__cause__, TimeUp):
                raise TimeUp from None
            raise


def measured_rounds(traces: dict[str, list[Trace]]) -> measures.Measures:
    """Return the measures of a trial. That the elements are the same is known, in whatever order they come."""
    return replace(measures.Measures.from_traces(traces), works={})


def _changes(written: calls.Written) -> Iterator[rewrite.Change]:
    """Yield other ways to write a pipeline, or a loader that knows them itself."""
    if isinstance(written, calls.Written):
        yield from rewrite.changes(written, fits=_fits)
    else:
        yield from (rewrite.Change(*one, swapped=swapped) for *one, swapped in written.changes())


def _endless(written: calls.Written) -> Any:
    """Return a pipeline that does not end; of a loader, a drive begins one epoch after the other."""
    dataset = written.build()
    return dataset if not is_dataset(dataset) or int(dataset.cardinality()) == -1 else dataset.repeat()


def _fits(written: calls.Written) -> bool:
    """Tell whether the elements of an epoch fit into memory."""
    try:
        return memory.estimate(written.without("repeat").build()).high_bytes <= memory.SHARE * memory.available()[0]
    except ValueError:  # it never ends, or its length is unknown
        return False
