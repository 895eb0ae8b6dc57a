"""The differential method: three runs of one pipeline show what fetching costs, and what preparing costs.

With synthetic data the job runs as fast as it can ingest. With all data in memory it shows what preparing adds, and
from cold storage it shows what fetching adds (DS-Analyzer: Mohan and others, "Analyzing and Mitigating Data Stalls in
DNN Training", VLDB 2021). The table also has the figures of the cold run alone.
"""

from __future__ import annotations

import inspect
import os
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from labkit.common.numbers import whole
from labkit.common.table import Table, Tabular
from labkit.recording import recorder
from labkit.sources import storage
from labkit.timeline.causes import Split, Stalls
from labkit.timeline.timeline import Timeline
from labkit.timeline.wording import percent

#: Shares of the two methods that differ by more are explained.
AGREE = 0.05


@dataclass(frozen=True, repr=False)
class Differential(Tabular):
    """What three runs say, and what one of them says alone.

    Parameters
    ----------
    name, accelerator, source : str
        The pipeline, the consumer, and where the cold run fetched from.
    step_ms : dict of str to float
        Mean step of the runs ``synthetic``, ``in memory`` and ``cold``, medians over the rounds; milliseconds.
    three : Split
        Shares of the cold run's time by the three runs.
    one : Split
        The same, estimated from the cold run alone (`labkit.Timeline.split`); median over the rounds.
    waited : Stalls
        What the gaps of the cold run waited for, instant by instant (`labkit.Timeline.stalls`).
    rounds : int
    """

    name: str
    accelerator: str
    source: str
    step_ms: dict[str, float]
    three: Split
    one: Split
    waited: Stalls
    rounds: int

    @property
    def difference(self) -> float:
        """The largest difference between the shares of three runs and of one, 0 to 1."""
        return max(abs(a - b) for a, b in zip(vars(self.three).values(), vars(self.one).values(), strict=True))

    def notes(self) -> list[str]:
        """Return what explains the differences, in sentences."""
        lines, without, waited = [], self.three.fetch_stall, self.waited.shares["fetch"]
        wait = f"the gaps wait for fetch during {percent(waited)} of the time"
        if without - waited > AGREE:
            lines.append(
                f"Masked time: {wait}, and without fetch {percent(without)} goes: what else the gaps wait for would "
                "then be hidden behind the accelerator, which now hides the reads."
            )
        elif without - waited < -AGREE:
            lines.append(
                f"Unmasked time: {wait}, but without fetch only {percent(without)} goes: other work, now hidden behind "
                "the reads, comes to light."
            )
        if self.difference > AGREE:
            lines.append(
                f"One run and three differ by {100 * self.difference:.0f} percentage points: the single run cannot see "
                "what changes when reads are gone (work that then competes for cores), or the machine was not "
                "equally busy in all runs; measure more rounds."
            )
        return lines or [f"One run and three agree within {100 * AGREE:.0f} percentage points; little time is masked."]

    def table(self) -> Table:
        """Return the table: shares by three runs, by one run, and what the gaps waited for."""
        w = self.waited.shares
        taken = w["framework"] + w["copy"]  # synthetic batches are handed over and copied, too
        gaps = (1 - sum(w.values()) + taken, sum(w.values()) - w["fetch"] - taken, w["fetch"])
        words = ("ingestion", "prep stall", "fetch stall")
        both = zip(words, vars(self.three).values(), vars(self.one).values(), gaps, strict=True)
        steps = ", ".join(f"{name} {ms:,.1f} ms" for name, ms in self.step_ms.items())
        return Table(
            ("share of the cold run", "three runs", "one run", "gaps"),
            [(word, percent(a), percent(b), percent(c)) for word, a, b, c in both],
            right=(1, 2, 3),
            notes=self.notes(),
            caption=(
                f"Stalls of {self.name} on {self.accelerator}\ncold: {self.source}\n"
                f"a step: {steps} ({self.rounds} round{'s' * (self.rounds > 1)}, medians)"
            ),
        )


def differential(
    pipeline: Any,
    accelerator: Any,
    *,
    storage: Any = None,
    paths: Iterable[str | os.PathLike[str]] | None = None,
    steps: int = 20,
    rounds: int = 3,
    warmup: int = 2,
    name: str = "the pipeline",
) -> Differential:
    """Run a pipeline with synthetic data, from memory and from cold storage, in turn.

    Parameters
    ----------
    pipeline : callable or tf.data.Dataset
        ``pipeline(read)`` returns the dataset, which reads each file by ``read(path)`` in place of
        ``tf.io.read_file(path)``. Or a dataset that reads real files; then `paths` says which.
    accelerator : Modelled or Real
        The consumer; see `labkit.accelerators`.
    storage : Storage or str, optional
        Where the cold run reads from: a model of `labkit.storage`, or the name of a preset.
    paths : iterable of paths, optional
        Real files: read once before a run from memory, and dropped from the page cache before a cold one. Give enough
        of them for all steps and the warm-up: what is read twice is not cold.
    steps, warmup : int
        Of each run; see `labkit.record`.
    rounds : int
        How often all three are run.
    name : str

    Returns
    -------
    Differential

    Raises
    ------
    ValueError, TypeError
        If not exactly one of `storage` and `paths` is given, `pipeline` cannot be run cold with it or is empty, or a
        number is not what it must be.
    RecordingError
        If the pipeline or the train step fails.
    """
    import tensorflow as tf

    cold, warm, fill, source = _sources(pipeline, storage, paths)
    rounds = whole("rounds", rounds, least=1)
    fill(True)
    built = warm()
    if not hasattr(built, "element_spec"):
        raise TypeError(f"pipeline returned a {type(built).__name__}; allowed: a tf.data.Dataset")
    # A pipeline that cannot be recorded is refused by `record` itself, before its first batch is taken.
    recorder.record(built, accelerator, steps=1, warmup=1, progress=False)
    synthetic = tf.data.Dataset.from_tensors(next(iter(built.take(1)))).repeat().prefetch(2)
    builders = {"synthetic": lambda: synthetic, "in memory": warm, "cold": cold}
    step_ns: dict[str, list[float]] = {run: [] for run in builders}
    found: list[Timeline] = []
    for number in range(rounds):
        for run in list(builders) if number % 2 == 0 else list(builders)[::-1]:
            fill(run == "in memory")
            trace = recorder.record(builders[run](), accelerator, steps=steps, warmup=warmup, progress=False)
            timeline = Timeline(trace)
            # From batch to batch: the first wait of a window knows nothing of the step before it.
            step_ns[run].append(_mean_step(timeline))
            if run == "cold":
                found.append(timeline)
    means = {run: statistics.median(values) for run, values in step_ns.items()}
    ones = [t.split for t in found]
    one = Split(*(statistics.median(getattr(s, f) for s in ones) for f in vars(ones[0])))
    middle = sorted(found, key=_mean_step)[len(found) // 2]
    return Differential(
        name, accelerator.describe(), source, {run: ns / 1e6 for run, ns in means.items()}, _three(means), one,
        middle.stalls, rounds,
    )  # fmt: skip


def _three(means: dict[str, float]) -> Split:
    """Return the shares; a run that noise made longer than a slower one adds nothing."""
    cold = means["cold"]
    warm = min(means["in memory"], cold)
    fast = min(means["synthetic"], warm)
    return Split(fast / cold, (warm - fast) / cold, (cold - warm) / cold)


def _mean_step(timeline: Timeline) -> float:
    ends = timeline.waits.end
    if len(ends) < 2:
        raise ValueError(f"steps must be 2 or more to tell how long one takes, the window holds {len(ends)}")
    return float(ends[-1] - ends[0]) / (len(ends) - 1)


def _sources(pipeline: Any, model: Any, paths: Any) -> tuple[Callable, Callable, Callable, str]:
    """Return what builds the cold and the warm pipeline, what prepares the page cache, and the source in words."""
    import tensorflow as tf

    if (model is None) == (paths is None):
        raise ValueError("differential needs exactly one of storage= (a model) and paths= (real files)")
    is_dataset = isinstance(pipeline, tf.data.Dataset)
    if not is_dataset and not callable(pipeline):
        kind = type(pipeline).__name__
        raise TypeError(f"pipeline is of type {kind}; allowed: a function of read, or a tf.data.Dataset")
    if not is_dataset and not inspect.signature(pipeline).parameters:
        raise TypeError("pipeline takes no argument; allowed: a function that gets read, to use for tf.io.read_file")
    if model is not None:
        if is_dataset:
            raise ValueError("a finished dataset cannot read from modelled storage; allowed: a function of read")
        model = storage.PRESETS.get(model, model) if isinstance(model, str) else model
        if not isinstance(model, storage.Storage):
            raise ValueError(f"storage is {model!r}; allowed: {', '.join(storage.PRESETS)}, or a Storage")
        return lambda: pipeline(model.read), lambda: pipeline(tf.io.read_file), lambda _: None, model.describe()
    files = [os.fspath(p) for p in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]

    def fill(memory: bool) -> None:
        if not memory:
            storage.evict(files)
        for file in files if memory else []:
            with open(file, "rb") as data:
                while data.read(1 << 22):
                    pass

    storage.resident(files)  # raises the sentence about a path that is no file
    build = (lambda: pipeline) if is_dataset else (lambda: pipeline(tf.io.read_file))
    return build, build, fill, f"{len(files):,} real files, dropped from the page cache"
