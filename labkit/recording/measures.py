"""Figures of a run, the table that compares runs, and when a difference may be called one.

`figures` turns a trace into a `Measure`. `Measures` holds one measure per round and pipeline,
prints the table, and answers `speedup` with an interval and a verdict: only
where the work was equal and the effect is larger than the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from labkit.common import other_programs
from labkit.common.numbers import number, one_of, whole
from labkit.common.progress import fast
from labkit.common.table import Table, Tabular
from labkit.recording import equal_work
from labkit.recording.recorder import FAST_WARMUP, Plan, figures, middle, recordable, rounds_of
from labkit.timeline.heading import remarks
from labkit.timeline.run import NOUNS, ORIGINS, Delivered, Measure
from labkit.timeline.trace import Trace
from labkit.timeline.wording import duration

#: How often a measurement may look whether the verdicts are decided, and stop if they are (`looks`).
LOOKS = 4

#: Rounds at which a comparison gives up by default.
LIMIT = 11

#: Coverage of the interval of a speed-up. A test that looks several times is wrong more often than a test that looks
#: once. So each look uses a stricter interval than the usual 95 %, the same one at every look (S. J. Pocock, "Group
#: sequential methods in the design and analysis of clinical trials", Biometrika 64, 1977). With 98.5 % and looks after
#: 5, 7, 9 and 11 rounds, 4 % of the comparisons of two equal pipelines are called different by chance (simulated).
#: After five rounds the interval excludes 1 only if all rounds agree: with one that disagrees, t is at most 4, and 4.09
#: is needed.
LEVEL = 0.985

#: A smaller relative effect is never called: the table would print it as 1.00.
LEAST_EFFECT = 0.005

#: Two pipelines are called alike where the whole interval lies within this relative effect (a test of equivalence;
#: D. J. Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987).
ALIKE = 0.05

#: An interval is shown, and a verdict given, from so many rounds on: the interval of fewer is too wide to say anything.
ROUNDS = 5

#: Pixels of two loaders that differ by more, of 255 on average, are not those of the same photos in the same order.
SAME_PHOTOS = 16

FASTER, SLOWER, NO_DIFFERENCE = "faster", "slower", "no measurable difference"

#: How the verdict of fewer than `ROUNDS` rounds ends.
TOO_FEW = "too few to be sure"

#: The verdict where other programs took too much of the cores (`labkit.common.other_programs.BUSY`). What the times of
#: the processor say may follow.
TOO_BUSY = "no verdict: this machine is busy"

#: How a verdict ends that holds beside other programs, and the ratio beyond which the whole interval then lies. Rounds
#: in turn share the neighbours; who slows all of them down hardly makes one twice as fast as another.
IN_TURN, SURE = " (busy: the size may be off)", 2.0

#: What else is compared beside other programs, as they change little of it, and the ratio beyond which a difference is
#: told: a window may end with more batches prepared ahead than it began with, as much as a tenth of its own.
CPU_TIME, AHEAD = "CPU time", 1.1

#: From so much on a table says that a speed-up is not the ratio of the rates beside it.
APART = 1.15

#: The last columns of a table whose rows are also compared with the row above each.
_ABOVE = ("over the row above", "verdict (row above)")


@dataclass(frozen=True)
class Speedup:
    """How many times faster one pipeline is than another.

    Parameters
    ----------
    median : float
        Median over rounds of the ratio of images per second.
    low, high : float
        Interval of coverage `LEVEL`; NaN after a single round.
    verdict : str
        "faster", "slower", "no measurable difference", or why there is none: "3 of 3 rounds faster, too few to be
        sure", "7 of 11 rounds faster: undecided", one round only, or a busy machine. Beside other programs it may be
        "faster (busy: the size may be off)", or say by how much the CPU time for each element differs.
    rounds : int
    beside : str
        What other programs took, and what follows, where it is too much (`labkit.common.other_programs.sentence`).
    """

    median: float
    low: float
    high: float
    verdict: str
    rounds: int
    beside: str = ""

    @property
    def decided(self) -> bool:
        """Whether there is a verdict, be it on CPU time only: more rounds are not needed."""
        return self.verdict.startswith((FASTER, SLOWER, NO_DIFFERENCE)) or CPU_TIME in self.verdict

    @property
    def ratio(self) -> str:
        """The ratio, with its interval where there are `ROUNDS` rounds, as in ``2.00× (1.90–2.10)``."""
        interval = "" if self.rounds < ROUNDS else f" ({self.low:.2f}–{self.high:.2f})"
        return f"{self.median:.2f}×{interval}"

    def __str__(self) -> str:
        """Return ratio, interval and verdict on one line."""
        return f"{self.ratio} {self.verdict}"


class UnequalWork(ValueError):
    """Two runs did different work, so their speeds cannot be compared."""


def _median_of(runs: Sequence[Measure], field_name: str, words: Callable[[float], str]) -> str:
    values = [value for one in runs if (value := getattr(one, field_name)) is not None]
    return words(float(np.median(values))) if values else "?"


def looks(rounds: int, limit: int) -> list[int]:
    """Return after how many rounds a measurement looks at its verdicts, as in 5, 7, 9, 11: `LOOKS` times at most."""
    return sorted({math.ceil(n) for n in np.linspace(rounds, limit, LOOKS)})


def compare_rates(rates: Sequence[float], base: Sequence[float]) -> Speedup:
    """Return the speed-up of `rates` over `base`, images per second of one run each.

    The interval is Student's t on the logarithms of the ratios, round by round: the rounds were interleaved, which
    cancels a machine that drifts. From `ROUNDS` rounds on there is a verdict. "Faster" and "slower" need three things:
    the interval excludes 1, the median effect exceeds the noise (the scaled median absolute deviation of a single
    ratio), and it exceeds `LEAST_EFFECT`. "No measurable difference" needs an interval within `ALIKE` of 1. Everything
    else is undecided.

    Raises
    ------
    ValueError
        If a rate is not positive, none is given, or the rounds differ in number.
    """
    from scipy import stats

    for given in (rates, base):
        if not len(given) or not all(math.isfinite(r) and r > 0 for r in given):
            raise ValueError(f"rates are {list(given)!r}; allowed: one positive number or more")
    if len(rates) != len(base):
        raise ValueError(f"rounds differ in number: {len(rates)} against {len(base)}")
    effects, n = np.log(rates) - np.log(base), len(rates)
    median = float(np.median(effects))
    if n == 1:
        return Speedup(math.exp(median), math.nan, math.nan, "one repeat has no spread: no verdict", 1)
    mean, margin = effects.mean(), stats.t.ppf((1 + LEVEL) / 2, n - 1) * stats.sem(effects)
    # A wild round can pull the mean away from the median that is quoted; the interval holds both.
    low, high = min(mean - margin, median), max(mean + margin, median)
    if n < ROUNDS:
        verdict = f"{_agreeing(effects, n)}, {TOO_FEW}"
    elif abs(median) > max(stats.median_abs_deviation(effects, scale="normal"), LEAST_EFFECT) and not low <= 0 <= high:
        verdict = FASTER if low > 0 else SLOWER
    elif -math.log1p(ALIKE) <= low <= high <= math.log1p(ALIKE):
        verdict = NO_DIFFERENCE
    else:
        verdict = f"{_agreeing(effects, n)}: undecided"
    return Speedup(math.exp(median), math.exp(low), math.exp(high), verdict, n)


def _agreeing(effects: np.ndarray, rounds: int) -> str:
    """Return how many rounds point the way of most, as in ``7 of 11 rounds faster``."""
    faster, slower = int((effects > 0).sum()), int((effects < 0).sum())
    return f"{max(faster, slower)} of {rounds} rounds {FASTER if faster >= slower else SLOWER}"


@dataclass(frozen=True, eq=False, repr=False)
class Measures(Tabular, Mapping[str, list[Measure]]):
    """Measures of several pipelines, one per round, in the order in which they were given.

    Parameters
    ----------
    rounds : dict of name to list of Measure
    traces : dict of name to Trace
        One trace per name, the one with the median throughput.
    works : dict of name to list of Delivered, optional
        From `labkit.recording.work.Tally.work`, one per round.
    pictures : dict of name to Trace, optional
        Where the rounds were timed without the profiler: one more round each, which the profiler watched.
    above : bool
        Whether the table compares each row with the row above it, too, as where each changes one thing. The verdicts
        are then those of that comparison, and the waits are folded.
    busy_limit : float
        From which share of the cores on, 0 to 1, that other programs took, times give a verdict only where they differ
        by more than `SURE`.

    Raises
    ------
    ValueError
        If there is no pipeline, one has no round, or their rounds differ in number.
    """

    rounds: dict[str, list[Measure]]
    traces: dict[str, Trace]
    works: dict[str, list[Delivered]] = field(default_factory=dict)
    pictures: dict[str, Trace] = field(default_factory=dict)
    above: bool = False
    busy_limit: float = other_programs.BUSY

    def __post_init__(self) -> None:
        """Check that there are rounds to compare."""
        counts = {name: len(r) for name, r in self.rounds.items()}
        if not counts or not all(counts.values()):
            raise ValueError(f"measures need at least one pipeline with one round each, got {counts}")
        if len(set(counts.values())) > 1:
            raise ValueError(f"rounds differ in number: {counts}")

    @classmethod
    def from_traces(cls, traces: Mapping[str, Trace | Sequence[Trace]]) -> Measures:
        """Measure traces, one list per name with one trace per interleaved round.

        Only the trace with the median throughput is kept per name.
        """
        rounds, kept, works = {}, {}, {}
        for name, given in traces.items():
            runs = [given] if isinstance(given, Trace) else list(given)
            if not runs:
                raise ValueError(f"pipeline {name!r} has no trace")
            rounds[name] = [figures(t) for t in runs]
            kept[name] = runs[middle(rounds[name])]
            works[name] = [t.run.work for t in runs if t.run.work]
        return cls(rounds, kept, works)

    def __getitem__(self, name: str) -> list[Measure]:
        """Return the measures of one pipeline, one per round."""
        if name not in self.rounds:
            raise KeyError(f"no pipeline is called {name!r}; allowed: {', '.join(map(repr, self.rounds))}")
        return self.rounds[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names in the order given."""
        return iter(self.rounds)

    def __len__(self) -> int:
        """Return the number of pipelines."""
        return len(self.rounds)

    def trace(self, name: str) -> Trace:
        """Return the trace with the median throughput of `name`, or that of `pictures`."""
        self[name]
        return self.pictures.get(name, self.traces[name])

    def per_image(self, unit: str = "ms") -> dict[str, list[float]]:
        """Return for each pipeline the time that one image took in every round; `unit` is "ms" or "µs"."""
        scale = {"ms": 1e3, "µs": 1e6}[one_of("unit", unit, ("ms", "µs"))]
        return {name: [scale / one.images_per_s for one in rounds] for name, rounds in self.items()}

    def rates(self, name: str) -> list[float]:
        """Return the images per second of a pipeline, one number for each round."""
        return [one.images_per_s for one in self[name]]

    def difference(self, name: str, over: str | None = None) -> str | None:
        """Return one sentence why two pipelines did unequal work, or None; round by round."""
        for mine, theirs in self._work_pairs(name, over):
            if reason := equal_work.difference(mine, theirs, self.noun):
                return reason
        return None

    def equal_work(self, name: str, over: str | None = None) -> str:
        """Return the word of the equal-work column: of all rounds, the least sure (`equal_work.agreement`)."""
        words = [equal_work.agreement(a, b) for a, b in self._work_pairs(name, over)] or ["not recorded"]
        return next((w for w in ("no", "counts only", "same files, another draw") if w in words), words[0])

    def _work_pairs(self, name: str, over: str | None) -> list[tuple[Delivered, Delivered]]:
        over = next(iter(self)) if over is None else over
        self[name], self[over]
        return list(zip(self.works.get(name, []), self.works.get(over, []), strict=False))

    def speedup(self, name: str, over: str | None = None) -> Speedup:
        """Return how many times faster `name` is than `over` (by default the first pipeline).

        Raises
        ------
        KeyError
            If a name is unknown.
        UnequalWork
            If the two did different work; the sentence says what differs.
        """
        over = next(iter(self)) if over is None else over
        if reason := self.difference(name, over):
            raise UnequalWork(f"{name} and {over} are not comparable: {reason}")
        found = compare_rates(self.rates(name), self.rates(over))
        if not self.others >= self.busy_limit:
            return found
        verdict = found.verdict
        if verdict in (FASTER, SLOWER) and (found.low > SURE or found.high < 1 / SURE):
            verdict += IN_TURN
        elif found.rounds > 1:
            verdict = "; ".join(filter(None, (TOO_BUSY, self._cpu_time(name, over))))
        return replace(found, verdict=verdict, beside=self.beside)

    def _cpu_time(self, name: str, over: str) -> str:
        """Return in words by how much the CPU time for each element differs, of all processes; "" where it is open."""
        mine, base = ([one.cpu_ms_per_image or math.nan for one in self[n]] for n in (name, over))
        if not all(ms > 0 for ms in (*mine, *base)):
            return ""
        less, more = compare_rates(base, mine), compare_rates(mine, base)
        for found, word in ((less, "less"), (more, "more")):
            if found.verdict == FASTER and found.low > AHEAD:
                return f"by {CPU_TIME}: {found.ratio} {word} for each {self.noun}"
        same = less.rounds >= ROUNDS and 1 / AHEAD < less.low and less.high < AHEAD
        return f"{NO_DIFFERENCE} in {CPU_TIME}" if same else ""

    @property
    def decided(self) -> bool:
        """Whether there is a verdict on every pipeline that can be compared with the first one."""
        return all(self.difference(name) or self.speedup(name).decided for name in list(self)[1:])

    @property
    def others(self) -> float:
        """Share of the cores, 0 to 1, that other programs took meanwhile; NaN if it is not known."""
        shares = [t.run.host.others for t in self.traces.values() if t.run.host.others is not None]
        return max(shares, default=math.nan)

    @property
    def beside(self) -> str:
        """What other programs took meanwhile, as a sentence; "" if it is not known."""
        cpus = next((t.run.host.cpus for t in self.traces.values()), None)
        return other_programs.sentence(self.others, cpus, self.busy_limit)

    @property
    def noun(self) -> str:
        """What one of the things is called that are counted; "element" where the pipelines do not agree."""
        nouns = {trace.run.noun for trace in self.traces.values()}
        return nouns.pop() if len(nouns) == 1 else NOUNS[-1]

    def table(self) -> Table:
        """Return the table: speed, wait, speed-up and verdict of each pipeline, warnings below, and the rest folded."""
        names, (warnings, how) = list(self), self._notes()
        first = names[0]
        base_rate = self[first][middle(self[first])].images_per_s
        rate, over = f"{self.noun}s/s", f"speed-up over {first}"
        head = ("pipeline", rate, over, *_ABOVE) if self.above else ("pipeline", rate, "wait", over, "verdict")
        rows, uneven = [], []
        for name, base in zip(names, [first, *(names if self.above else [first] * len(names))], strict=False):
            one = self[name][middle(self[name])]
            to_first, verdict = self._compared(name, first)
            cells = [duration(1e6 * one.wait_ms), to_first, verdict]
            if self.above:
                cells = [to_first, *(self._compared(name, base) if name != first else ("", ""))]
            for other in dict.fromkeys((first, base)):
                if reason := self.difference(name, other):
                    warnings.append(f"{name} is not comparable with {other}: {reason}.")
            if to_first and verdict:  # they were compared
                ways = self.speedup(name, first).median, one.images_per_s / base_rate
                uneven += [name] if max(ways) > APART * min(ways) else []
            rows.append((name, f"{one.images_per_s:,.0f}", *cells))
        if uneven:
            why = "the rounds differ, so the speed-up, their median, is not the ratio of the rates"
            warnings.append(f"{', '.join(uneven)}: {why}.")
        if any(CPU_TIME in cell for row in rows for cell in row):
            warnings.append(f"{CPU_TIME} tells of work that is saved; of waits, overlap and speed it says nothing.")
        return Table(head, rows, right=(1,) if self.above else (1, 2), notes=warnings, rule=True, more=how)

    def _compared(self, name: str, over: str) -> tuple[str, str]:
        """Return speed-up and verdict of a pipeline as the table has them."""
        if name == over:
            return "reference", ""
        if self.difference(name, over):
            return "", "not comparable"
        found = self.speedup(name, over)
        return found.ratio, found.verdict

    def _details(self) -> Table:
        """Return the other figures of each pipeline: of the median round, but for first batches and processes."""
        first, tree = next(iter(self)), self.several_kinds
        wait = ("wait",) if self.above else ()  # which stands above else
        head = ("pipeline", f"{self.noun}s/s in all rounds", "step", *wait, "longest wait", "busy", "first batch",
                *((f"CPU/{self.noun}", "memory") if tree else ()), "equal work")  # fmt: skip
        rows = []
        for name, runs in self.items():
            one, rates = runs[middle(runs)], self.rates(name)
            times = one.step_ms, *([one.wait_ms] if wait else []), one.longest_wait_ms
            rows.append((
                name,
                f"{min(rates):,.0f}–{max(rates):,.0f}" if len(rates) > 1 else f"{rates[0]:,.0f}",
                *(duration(1e6 * ms) for ms in times),
                f"{100 * one.busy:.0f} %",
                _median_of(runs, "first_batch_ms", lambda ms: duration(1e6 * ms)),
                *((_median_of(runs, "cpu_ms_per_image", lambda ms: duration(1e6 * ms)),
                   _median_of(runs, "memory_mb", lambda mb: f"{mb:,.0f} MB")) if tree else ()),
                self.equal_work(name) if name != first else "",
            ))  # fmt: skip
        return Table(head, rows, right=range(1, len(head) - 1), rule=True)

    @property
    def several_kinds(self) -> bool:
        """Whether some of them are no tf.data pipelines: processor time and memory then count all their processes."""
        return any(trace.run.loader for trace in self.traces.values())

    def _loader_notes(self) -> Iterator[str]:
        """Yield what else the loaders are, and by how much their pixels differ."""
        first = next(iter(self))
        yield "CPU and memory are those of the process and all that it started (medians; shared memory counts once)."
        for name, trace in self.traces.items():
            if trace.run.loader:
                yield f"{name}: {trace.run.loader}."
        for name in list(self)[1:]:
            if not (pairs := self._work_pairs(name, first)) or equal_work.difference(*pairs[0]):
                continue
            if layout := equal_work.layouts(*pairs[0]):
                yield f"{name}: {layout}."
            if apart := equal_work.pixel_difference(*pairs[0]):
                why = "another order, or random changes" if apart[0] > SAME_PHOTOS else "another decoder or resize"
                words = f"differ by {apart[0]:.1f} of 255 on average, {apart[1]} at most: {why}"
                words = words if apart[1] else "are the same"
                yield f"{name}: the pixels of its first photos {words} (beside {first})."

    def _notes(self) -> tuple[list[str], list[str | Table]]:
        """Return the warnings under the table, and what is folded: how it was measured, and the other figures."""
        count = len(next(iter(self.rounds.values())))
        how: list[str | Table] = ["figures of one round; step and wait are means."]
        if count > 1:
            how = [f"figures of the median round of {count} interleaved rounds; step and wait are means."]
            interval = f", with its {100 * LEVEL:g} % interval" if count >= ROUNDS else ""
            how.append(f"speed-up: the median of the ratios of the single rounds{interval}.")
        consumers = {n: t.run.accelerator.describe for n, t in self.traces.items()}
        if len(set(consumers.values())) == 1:
            consumers = {"": next(iter(consumers.values()))}
        how += [f"accelerator{f' of {n}' if n else ''}: {c}." for n, c in consumers.items() if c]
        origins = sorted({t.run.origin for t in self.traces.values()})
        warnings = [f"runs are {' and '.join(origins)}."] if ORIGINS[1] in origins else []
        how += ["runs are measured."] if origins == [ORIGINS[0]] else []
        if self.pictures:
            how.append("timed without the profiler; the pictures show one more round, which the profiler slows down.")
        how += self._loader_notes() if self.several_kinds else []
        for name, trace in self.traces.items():
            if words := remarks(trace.run):
                warnings.append(f"{name}: {words}")
        if taken := self.beside:
            (warnings if self.others >= min(other_programs.BUSY, self.busy_limit) else how).append(taken)
        if any(self.equal_work(n) == "counts only" for n in list(self)[1:]):
            known = f"nothing in the batches tells the {self.noun}s apart"
            how.append(f"counts only: {known} (no labels, no named files).")
        return warnings, [*how, self._details()]


def measure(
    variants: Mapping[str, Any], accelerator: Any, *, steps: int | None = 20, warmup: int = 2, repeats: int = 5,
    limit: int | None = None, progress: bool | None = None, profile: bool = True,
    busy_limit: float = other_programs.BUSY,
) -> Measures:  # fmt: skip
    """Record several pipelines in interleaved rounds, so that a machine that drifts hits all alike.

    Every round records each pipeline once, starting with another one each time. While a verdict is open, rounds are
    added, in up to three portions (`looks`).

    Parameters
    ----------
    variants : mapping of name to tf.data.Dataset, or to any other loader
        The first one is what the others are compared with.
    accelerator, steps, warmup, progress
        As in `record`. Where LABKIT_FAST is set, the first batch is all of the warm-up.
    repeats : int
        Rounds of the first look; with five or more, the table has a useful spread and verdicts. If LABKIT_FAST is set,
        there is one round, and no round is added: enough to run every line, too few for a verdict.
    limit : int, optional
        Rounds at which the measurement ends, whatever the verdicts are. If it equals `repeats`, no round is added. By
        default it is 11, or `repeats` if that is below five: so few rounds ask for no verdict.
    profile : bool
        False times all rounds by the clock alone, and then records one more round, only for the pictures. For small
        elements the profiler takes more time than their own work, and a speed-up would be one of the profiler.
        Where LABKIT_FAST is set, the one round is that for the pictures.
    busy_limit : float
        From which share of the cores on, 0 to 1, that other programs take, a verdict needs more than times that differ
        by a little. A larger one insists: the table then says what they took.

    Returns
    -------
    labkit.measures.Measures

    Raises
    ------
    ValueError, TypeError, RecordingError
        As `record`; the sentence names the pipeline.
    """
    if not isinstance(variants, Mapping) or not variants or not all(isinstance(n, str) and n for n in variants):
        raise ValueError(f"variants is {variants!r:.80}; allowed: a dict of name to tf.data.Dataset, at least one")
    plan = Plan(accelerator, steps, warmup, progress=progress)
    if fast():
        plan.warmup, profile = FAST_WARMUP, True
    variants = {name: recordable(dataset) for name, dataset in variants.items()}
    for name, dataset in variants.items():
        plan.check(dataset, name)
    repeats = whole("repeats", repeats, least=1)
    busy_limit = number("busy_limit", busy_limit, 0, 1, other="(share of the cores)")
    if limit is None:
        limit = max(repeats, LIMIT) if repeats >= ROUNDS else repeats
    at = looks(repeats, whole("limit", limit, least=repeats, other="(repeats)"))
    at, one = [rounds_of(repeats)] if fast() else at, plan.trace if profile else plan.timed

    def measured(traces: dict[str, list[Trace]]) -> Measures:
        return replace(Measures.from_traces(traces), busy_limit=busy_limit)

    found = measured(plan.rounds(variants, at, "measuring", one, lambda traces: measured(traces).decided))
    if not profile:
        pictures = plan.rounds(variants, [1], "one round for pictures")
        found.pictures.update((name, one) for name, [one] in pictures.items())
    for kept in (found.traces, found.pictures):
        kept.update({name: trace.with_run(repeats=tuple(found[name])) for name, trace in kept.items()})
    return found
