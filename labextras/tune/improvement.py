"""Advice that is applied: changes of a pipeline are written, built, compared with it, and measured beside it.

Plumber (Kuchnik et al., MLSys 2022) rewrote pipelines on a fork of TensorFlow. Here the stock one does: what
`labextras.tune.rewrite` reads can be built again. A change is kept only if it delivers the same elements, and if the
table calls it faster.
"""

from __future__ import annotations

import difflib
import html
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from labextras.tune import calls, equality, rewrite
from labkit.common import other_programs
from labkit.common.numbers import number, whole
from labkit.common.progress import optional_bar
from labkit.common.table import Table, Tabular
from labkit.pipelines import memory
from labkit.recording import measures, recorder
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace

#: Seconds of one round of a trial, about, and the fewest and most steps of it.
ROUND_S, STEPS = 0.6, (4, 20)

#: Rounds that are added to a trial where its verdict is open.
MORE = 2

#: From this busy share on, the accelerator is the limit, and nothing is tried.
ENOUGH = 0.95
#: Seconds of the longest epoch that a cache is tried on.
EPOCH_S = 3.0
#: Batches of the longest epoch that a recording waits for, so that a cache is full.
FILLED = 100


@dataclass(frozen=True)
class Trial:
    """A change that was built.

    Parameters
    ----------
    change : str
        What was changed, in a few words.
    elements : str
        Whether it delivers the same elements, or what differs.
    speedup : labkit.recording.measures.Speedup or None
        Over the pipeline as it was before this change; None where the elements differ, or nothing was measured.
    before, after : float
        Images per second, the median round of each; NaN where nothing was measured.
    kept : bool
    """

    change: str
    elements: str
    speedup: measures.Speedup | None = None
    before: float = math.nan
    after: float = math.nan
    kept: bool = False


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
    trace : Trace
        A recording of `dataset`.
    by_hand : tuple of str
        Changes that cannot be built here, each as lines of a diff.
    notes : tuple of str
        Sentences for under the table.
    """

    dataset: Any
    original: calls.Written
    written: calls.Written
    trials: tuple[Trial, ...]
    trace: Trace
    by_hand: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

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
        return _diff(self.original, self.written)

    def table(self) -> Table:
        """One row for each change that was tried."""
        rows = []
        for one in self.trials:
            rates = ("", "") if math.isnan(one.after) else (f"{one.before:,.0f}", f"{one.after:,.0f}")
            ratio, verdict = (one.speedup.ratio, one.speedup.verdict) if one.speedup else ("", "not measured")
            rows.append((one.change, *rates, ratio, verdict, one.elements, "yes" if one.kept else "no"))
        head = ("change", "images/s before", "after", "speed-up", "verdict", "elements", "kept")
        return Table(head, rows or [("nothing to try", "", "", "", "", "", "")], (1, 2), self.notes, rule=True)

    def __repr__(self) -> str:
        """Return the table, the changes of the code, and what is left to do by hand."""
        return "\n\n".join([str(self.table()), *filter(None, (self.diff, *self._hand()))])

    def _repr_html_(self) -> str:
        blocks = filter(None, (self.diff, *self._hand()))
        return self.table()._repr_html_() + "".join(f"<pre>{html.escape(block)}</pre>" for block in blocks)

    def _hand(self) -> Iterator[str]:
        for one in self.by_hand:
            yield f"by hand, neither checked nor measured, for it cannot be built here:\n{one}"


def improve(
    dataset: Any,
    accelerator: Any,
    *,
    repeats: int = 5,
    seconds: float = 180,
    progress: bool | None = None,
) -> Improvement:
    """Write a pipeline in other ways, and keep what delivers the same elements faster.

    Each change is measured in interleaved rounds beside the pipeline as it was before; a pipeline that ends is repeated
    for that. When a change is kept, the next ones are tried on the new pipeline, those that were refused once more.

    Parameters
    ----------
    dataset : tf.data.Dataset
        Batched. Its functions are traced again for each change.
    accelerator : Modelled or Real
        The consumer; see `labkit.accelerators`.
    repeats : int
        Rounds of each trial, and two more where its verdict is open; LABKIT_FAST allows one.
    seconds : float
        No trial begins later than this, in seconds.
    progress : bool, optional
        A progress bar: True, False, or by default one that shows up when it takes long.

    Returns
    -------
    Improvement

    Raises
    ------
    ValueError, TypeError, RecordingError
        As `labkit.record`; ValueError if `seconds` is not positive.
    """
    whole("repeats", repeats, least=1)
    number("seconds", seconds, 1e-3, 1e6, unit="of seconds")
    search = _Search(calls.read(dataset), accelerator, repeats, time.monotonic() + seconds)
    with optional_bar(progress, None, "improving") as tick:
        search.run(tick)
    return search.found(dataset)


class _Search:
    """The changes that were tried so far, and the pipeline with those that were kept."""

    def __init__(self, written: calls.Written, accelerator: Any, repeats: int, ends: float) -> None:
        self.original = self.written = written
        self.accelerator, self.repeats, self.ends = accelerator, repeats, ends
        self.trials: list[Trial] = []
        self.notes: list[str] = []
        # A pipeline that cannot be recorded is refused by `record` itself, before its elements are read.
        recorder.record(_endless(written), accelerator, steps=1, warmup=1, progress=False)
        self.reference = equality.Reference(written)
        self.trace = self.record()

    def record(self) -> Trace:
        """Record the pipeline as it is; behind the epoch in which a cache is filled, as it is then for good."""
        epoch = self.reference.batches or 0
        caches = any(call.method == "cache" for call in self.written.calls) and epoch <= FILLED
        warmup = 2 + epoch * caches
        return recorder.record(_endless(self.written), self.accelerator, steps=12, warmup=warmup, progress=False)

    def run(self, tick: Callable[[], Any]) -> None:
        """Try the changes until none is left, or the time is up."""
        while (timeline := Timeline(self.trace)).busy < ENOUGH:
            for change in filter(self.open, self.offered(timeline)):
                if time.monotonic() > self.ends:
                    self.notes.append("The time was up before every change was tried.")
                    return
                trial = self.tried(change)
                self.trials.append(trial)
                tick()
                if trial.speedup and trial.speedup.verdict == measures.TOO_BUSY:
                    self.notes.append("Other programs hold the cores: close them and try again.")
                    return
                if trial.kept:
                    self.written = change.written
                    self.trace = self.record()
                    break
            else:
                return

    def open(self, change: rewrite.Change) -> bool:
        """Tell whether a change is to be tried: it never was, or once, before another one was kept."""
        names = [one.change for one in self.trials if not one.kept]
        last = max((i for i, one in enumerate(self.trials) if one.kept), default=-1)
        since = [one.change for one in self.trials[last + 1 :]]
        return change.name not in since and names.count(change.name) < 2

    def offered(self, timeline: Timeline) -> Iterator[rewrite.Change]:
        """Yield the changes that suit what the recording found."""
        stalls = timeline.stalls
        effort = timeline.efforts.get(stalls.blame or "")
        waits = stalls.cause == "fetch" or (effort is not None and effort.computes is False)
        return rewrite.changes(self.written, waits=waits, fits=_fits)

    def tried(self, change: rewrite.Change) -> Trial:
        """Build a change, compare its elements, measure it."""
        try:
            elements = self.reference.compared(change)
        except Exception as error:  # the function of a reader may refuse in any way, as one that cannot take a batch
            return Trial(change.name, f"cannot be built: {type(error).__name__}")
        if elements not in equality.FINE:
            return Trial(change.name, elements)
        step_s = self.trace.span_ns / 1e9 / max(1, self.trace.run.steps)
        steps, warmup = int(min(max(ROUND_S / step_s, STEPS[0]), STEPS[1])), 2
        if change.stored:
            if self.reference.batches is None or self.reference.batches * step_s > EPOCH_S:
                return Trial(change.name, f"{elements}; an epoch is too long to try it here")
            warmup = self.reference.batches + 2
        both = {"before": _endless(self.written), "after": _endless(change.written)}
        found = measures.measure(
            both, self.accelerator, steps=steps, warmup=warmup, repeats=self.repeats, limit=self.repeats + MORE,
            progress=False, profile=False,
        )  # fmt: skip
        rates = found.rates("after"), found.rates("before")
        speedup = measures.compare_rates(*rates)
        if found.others >= other_programs.BUSY:
            speedup = replace(speedup, verdict=measures.TOO_BUSY)
        after, before = (float(np.median(one)) for one in rates)
        return Trial(change.name, elements, speedup, before, after, speedup.verdict == "faster")

    def found(self, dataset: Any) -> Improvement:
        """Return the result."""
        stalls = Timeline(self.trace).stalls
        left = f"to blame now: {stalls.blame or stalls.cause}. " if stalls.cause else ""
        notes = [*self.notes, f"{left}Next: {stalls.advice}"]
        kept = any(one.kept for one in self.trials)
        hand = tuple(_diff(self.written, one.written) for one in rewrite.by_hand(self.written))
        return Improvement(
            self.written.build() if kept else dataset,
            self.original, self.written, tuple(self.trials), self.trace, hand, tuple(notes),
        )  # fmt: skip


def _endless(written: calls.Written) -> Any:
    """Return a pipeline that does not end."""
    dataset = written.build()
    return dataset if int(dataset.cardinality()) == -1 else dataset.repeat()


def _fits(written: calls.Written) -> bool:
    """Tell whether the elements of an epoch fit into memory."""
    try:
        return memory.estimate(written.once().build()).high_bytes <= memory.SHARE * memory.available()[0]
    except ValueError:  # it never ends, or its length is unknown
        return False


def _diff(before: calls.Written, after: calls.Written) -> str:
    """Return what differs between two pipelines as code, with their other lines around it."""
    lines = difflib.ndiff(before.code().splitlines(), after.code().splitlines())
    return "" if before is after else "\n".join(line for line in lines if not line.startswith("?"))
