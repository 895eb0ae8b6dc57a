"""Advice that is applied: changes of a pipeline are written, built, compared with it, and measured beside it.

Plumber (Kuchnik et al., MLSys 2022) rewrote pipelines on a fork of TensorFlow. Here the stock one does: what
`labextras.tune.rewrite` reads can be built again. A change is kept only if it delivers the same elements, and if the
table calls it faster.
"""

from __future__ import annotations

import difflib
import html
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from labextras.tune import calls, equality, rewrite
from labkit.common import other_programs
from labkit.common.errors import error_text
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
#: A speed-up beside busy programs counts where its interval begins above this: they slow both down, in turn.
SURE = 2.0
#: One reading of elements may take this part of `seconds`: a twentieth.
READINGS = 20


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
        return self.speedup is not None and self.speedup.verdict == measures.FASTER


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
        rows = [
            (one.change, *((one.speedup.ratio, one.speedup.verdict) if one.speedup else ("", "not measured")),
             one.elements, "yes" if one.kept else "no")
            for one in self.trials
        ]  # fmt: skip
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

    First what its structure shows is tried (prefetch, several files, parallel calls), then what saves work. Each change
    is measured in interleaved rounds beside the pipeline as it was before; a pipeline that ends is repeated for that.
    When a change is kept, all are tried on the new pipeline.

    Parameters
    ----------
    dataset : tf.data.Dataset
        Batched. Its functions are traced again for each change.
    accelerator : Modelled or Real
        The consumer; see `labkit.accelerators`.
    repeats : int
        Rounds of each trial, and two more where its verdict is open; LABKIT_FAST allows one.
    seconds : float
        Nothing is begun that would last longer than what is left of this, in seconds.
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
    search = _Search(calls.read(dataset), accelerator, repeats, seconds)
    with optional_bar(progress, None, "improving") as tick:
        search.run(tick)
    return search.found(dataset)


class _Search:
    """The changes that were tried so far, and the pipeline with those that were kept."""

    def __init__(self, written: calls.Written, accelerator: Any, repeats: int, seconds: float) -> None:
        self.original = self.written = written
        self.accelerator, self.repeats, self.ends = accelerator, repeats, time.monotonic() + seconds
        self.trials: list[Trial] = []
        self.notes: list[str] = []
        try:
            self.reference = equality.Reference(written, min(equality.READ_S, seconds / READINGS))
        except TimeoutError:
            raise
        except Exception:  # `record` says it better
            recorder.record(_endless(written), accelerator, steps=1, warmup=1, progress=False)
            raise
        self.step_s = self.reference.batch_s
        self.trace = self.record()

    def left(self) -> float:
        return self.ends - time.monotonic()

    def record(self) -> Trace:
        """Record the pipeline as it is; behind the epoch in which a cache is filled, as it is then for good."""
        epoch = self.reference.batches or 0
        caches = any(call.method == "cache" for call in self.written.calls) and epoch <= FILLED
        steps, warmup = int(min(max(self.left() / 4 / max(self.step_s, 1e-3), 2), 12)), 2 + epoch * caches
        trace = recorder.record(_endless(self.written), self.accelerator, steps=steps, warmup=warmup, progress=False)
        self.step_s = trace.span_ns / 1e9 / max(1, trace.run.steps)
        return trace

    def run(self, tick: Callable[[], Any]) -> None:
        """Try the changes until none is left, or the time is up."""
        refused: set[str] = set()
        while (timeline := Timeline(self.trace)).busy < ENOUGH:
            stalls = timeline.stalls
            effort = timeline.efforts.get(stalls.blame or "")
            waits = stalls.cause == "fetch" or (effort is not None and effort.computes is False)
            known = {one.change for one in self.trials}  # what was refused before another change was kept comes last
            offered = rewrite.changes(self.written, waits=waits, fits=_fits)
            for change in sorted(offered, key=lambda one: one.name in known):
                if (code := change.written.code()) in refused:
                    continue
                trial = self.tried(change) if self.left() > 0 else None
                if trial is None:
                    self.notes.append(f"The time was up before {change.name} was tried; seconds= allows more.")
                    return
                self.trials.append(trial)
                tick()
                if trial.kept:
                    refused, self.written = set(), change.written
                    self.trace = self.record()
                    break
                refused.add(code)
            else:
                return
        self.notes.append(f"The accelerator is busy for {timeline.busy:.0%} of the time: no change can gain much.")

    def tried(self, change: rewrite.Change) -> Trial | None:
        """Build a change, compare its elements, measure it; None where the time does not allow that."""
        try:
            elements = self.reference.compared(change)
        except Exception as error:  # the function of a reader may refuse in any way, as one that cannot take a batch
            why = error_text(error).rpartition(" * ")[2]  # of a function that TensorFlow wrote anew: its line, and why
            return Trial(change.name, f"cannot be built or compared: {why:.160}")
        if elements not in equality.FINE:
            return Trial(change.name, elements)
        steps, warmup = int(min(max(ROUND_S / self.step_s, STEPS[0]), STEPS[1])), 2
        if change.stored:
            if self.reference.batches is None or self.reference.batches * self.step_s > EPOCH_S:
                return Trial(change.name, f"{elements}; an epoch is too long to try it here")
            warmup = self.reference.batches + 2
        # All rounds, the one for pictures, and as long again for a recording at the end.
        if 2 * (self.repeats + MORE + 2) * (steps + warmup) * self.step_s > self.left():
            return None
        both = {"before": _endless(self.written), "after": _endless(change.written)}
        found = measures.measure(
            both, self.accelerator, steps=steps, warmup=warmup, repeats=self.repeats, limit=self.repeats + MORE,
            progress=False, profile=False,
        )  # fmt: skip
        speedup = measures.compare_rates(found.rates("after"), found.rates("before"))
        if found.others >= other_programs.BUSY and not speedup.low > SURE:
            speedup = replace(speedup, verdict=measures.TOO_BUSY, beside=found.beside)
        return Trial(change.name, elements, speedup)

    def found(self, dataset: Any) -> Improvement:
        """Return the result."""
        tried = (one.speedup for one in self.trials if one.speedup)
        self.notes += [speedup.beside for speedup in tried if speedup.verdict == measures.TOO_BUSY][:1]
        if self.written.unknown:
            self.notes.append(
                f"Nothing before {self.written.unknown} was changed: that step cannot be built again from the dataset."
            )
        stalls = Timeline(self.trace).stalls
        left = f"to blame now: {stalls.blame or stalls.cause}. " if stalls.cause else ""
        improved = dataset if self.written is self.original else self.written.build()
        notes = (*self.notes, f"{left}Next: {stalls.advice}")
        return Improvement(improved, self.original, self.written, tuple(self.trials), notes)


def _endless(written: calls.Written) -> Any:
    """Return a pipeline that does not end."""
    dataset = written.build()
    return dataset if int(dataset.cardinality()) == -1 else dataset.repeat()


def _fits(written: calls.Written) -> bool:
    """Tell whether the elements of an epoch fit into memory."""
    try:
        return memory.estimate(written.without("repeat").build()).high_bytes <= memory.SHARE * memory.available()[0]
    except ValueError:  # it never ends, or its length is unknown
        return False
