"""How an answer to a job is judged: its elements, its memory, the simulated clock, and a measurement beside the guide.

The first three decide, and say the same on every machine. The measurement says what the answer gains here.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from labcourse import fairness, gradebook, grading
from labcourse.challenge.jobs import CORES, JOBS, MEMORY, TARGET, ChallengeJob, contrast
from labcourse.fairness import rules
from labcourse.fairness.stages import called_in
from labcourse.grading import Unclear, Wrong
from labcourse.student_code import pull_with_timeout
from labkit.common.numbers import one_of
from labkit.pipelines import memory, same_elements
from labkit.pipelines.structure import draws, nodes
from labkit.recording import accelerators
from labkit.recording.measures import measure
from labkit.recording.recorder import figures
from labkit.views import ladder_chart

#: Copies of the files that the clock sees, epochs of them where there are several, and steps before it counts.
_COPIES, _EPOCHS, _WARMUP = 5, 3, 2

#: By the kind of a step that holds elements, the setting that says how many.
_HOLDS = {"Prefetch": "_buffer_size", "Shuffle": "_buffer_size", "ParallelMap": "_num_parallel_calls"}
_CACHES = ("Cache", "MemoryCache")

#: By job, the rungs of this session: traces of the guide and of each answer, by words.
_LADDERS: dict[str, dict[str, Any]] = {}


def job(name: str) -> ChallengeJob:
    """Return a job of the challenge, ``far``, ``small`` or ``costly``; printed, it is its card.

    Raises
    ------
    ValueError
        If there is no such job.
    """
    return JOBS[one_of("job", name, JOBS)]


def _made(this: ChallengeJob, function: Any, copies: int = 1) -> Any:
    """Return what the reader's function makes of the files with which answers are checked."""
    with fairness.at_once():
        return rules.pipeline(function, this.files(copies))


def right(this: ChallengeJob, function: Any) -> float:
    """Check the elements of an answer, and return the bytes that its caches and buffers take in the whole job.

    Raises
    ------
    labcourse.grading.Wrong
        With the hint that fits.
    """
    answer, truth = _made(this, function), _made(this, this.guide)
    if "DatasetSpec" in repr(answer.element_spec):
        raise Wrong("the elements are datasets: interleave or flat_map opens what fetch returns, and map does not")
    chain, random = rules.chain(answer), this.stages[-1].name == "augment"
    names = {name.removesuffix("one") for step in chain.every for name in called_in(step)}
    if lacking := sorted({name.removesuffix("one") for name in this.costs} - names):
        name = lacking[0].replace("read", "fetch")
        raise Wrong(f"challenge.{name} is not called in a function of the pipeline, so the clock cannot count it")
    rules.nothing_left_in(answer, "Take")
    rules.bounded(chain, ordered=False, most=10**9)
    taken = _memory(this, answer)
    (_augmented if random else rules.data)(answer, truth, ordered=False)
    if (total := sum(taken.values())) > MEMORY:
        largest = max(taken, key=taken.__getitem__)
        keep = (
            "no element comes a second time in this job",
            "a whole number from 0 to 255 fits into one byte, a float32 takes four",
        )
        why = keep[this.again] if largest == "cache" else "a few are enough"
        took = f"caches and buffers take {memory.size(total)} in the whole job, {memory.size(MEMORY)} are there"
        raise Wrong(f"{took}. Most of it is the {largest}: {why}")
    return total


def _augmented(answer: Any, truth: Any, ordered: bool) -> None:
    """Check two epochs of photos that are augmented at random, as `rules.data` checks others."""
    if reason := same_elements.other_spec(answer.element_spec, truth.element_spec):
        raise Wrong(reason)
    rules.data(*(epoch.map(lambda _, label: label) for epoch in (answer, truth)), ordered=ordered)
    levels = []
    for _ in range(2):
        images, labels = (np.concatenate(part) for part in zip(*pull_with_timeout(answer), strict=True))
        dark, bright = (255 * images[:, rows].mean((1, 2, 3)) for rows in (slice(0, 80), slice(-80, None)))
        if max(np.abs(bright - dark - contrast(labels)).max(), np.abs((dark + bright) / 2 - 128).max() - 32) > 2:
            raise Wrong("the pixels are not those of decode, then augment, or they stand beside another label")
        levels.append((dark + bright)[np.argsort(labels)])
    if np.mean(np.abs(levels[0] - levels[1]) < 1e-3) > 0.5:
        frozen = any(node.kind in _CACHES and draws((node, *node.upstream)) for node in nodes(answer))
        why = "the cache stands behind augment and froze it" if frozen else "each epoch draws the numbers of one seed"
        raise Wrong(f"the photos are augmented alike in both epochs: {why}")


def _memory(this: ChallengeJob, answer: Any) -> dict[str, float]:
    """Return the bytes of caches, as large as the whole job makes them, and of buffers, each by what holds them."""
    taken = Counter()
    for node in nodes(answer):  # a cache inside of an interleave keeps nothing for the next epoch
        if rules.in_a_file(node):
            raise Wrong("this machine has no disk to write to: cache() without a file name keeps elements in memory")
        if node.kind in _CACHES:
            try:
                kept = memory.estimate(node.upstream[0].dataset, sample=2 * this.elements(1)).bytes
            except ValueError:
                raise Wrong("the cache never ends, because it stands behind repeat: the lab runs the epochs") from None
            taken["cache"] += kept * this.total / this.elements(1)
        elif node.kind in _HOLDS:
            held = node.number(_HOLDS[node.kind])
            held = held if held >= 0 else CORES  # tf.data chooses about as many
            one = memory.estimate(node.dataset, elements=1, sample=1).element_bytes
            taken[f"{node.kind.removeprefix('Parallel').lower()} with {held:,} elements"] += one * held
    return taken


def clocked(this: ChallengeJob, function: Any, drawn: bool = False) -> Any:
    """Return what the simulated clock says about an answer whose elements are right: a `labcourse.fairness.Timing`.

    Where it is only `drawn`, the elements may be wrong.

    Raises
    ------
    labcourse.grading.Unclear
        If the clock cannot read it.
    """
    steps = this.elements(_COPIES) // this.batch
    epochs, warmup = (_EPOCHS, steps) if this.again else (1, _WARMUP)
    how = {"cores": CORES, "records": this.records, "warmup": warmup, "shared": True}
    how["steps"] = steps * epochs if drawn else None
    with contextlib.suppress(ValueError):
        timing = fairness.simulate(_made(this, function, _COPIES).repeat(epochs), this.stages, this.train_ms, **how)
        if drawn or timing.steps == steps * epochs:
            return timing
    raise Unclear("the simulated clock cannot read this pipeline: write one chain of steps that the notebooks use")


def grade(this: ChallengeJob, function: Any) -> None:
    """Grade an answer to a job without any measurement: elements, memory, and the simulated clock.

    Raises
    ------
    labcourse.grading.Wrong
        With the hint that fits.
    labcourse.grading.Unclear
        If the clock cannot read the pipeline.
    """
    right(this, function)
    _by_clock(this, function)


def _by_clock(this: ChallengeJob, function: Any) -> None:
    """Grade an answer whose elements and memory are right, by the simulated clock alone."""
    timing = clocked(this, function)
    gradebook.run(timing.trace, figures(timing.trace), f"{this.name}: mine, simulated")
    if 1 - timing.idle >= TARGET:
        return
    answer = _made(this, function)
    chain = rules.chain(answer)
    cached = (node.ops for cache in nodes(answer) if cache.kind in _CACHES for node in cache.upstream)
    seen = {step.kind for step in chain.every}.union(*map(called_in, chain.every), *cached)
    remedied = {"far": "ParallelInterleave" in seen, "small": "parseone" not in seen, "costly": "DecodeJpeg" in seen}
    few = f"look for what still takes turns, or for too few at the same time (AUTOTUNE makes {CORES} calls here)"
    advice = few if remedied[this.name] else this.slow
    shares = f"{1 - timing.idle:.0%} of the time (the guide: {1 - clocked(this, this.guide).idle:.0%})"
    raise Wrong(f"on the simulated clock the accelerator is busy {shares}, {TARGET:.0%} are asked for: {advice}")


def judge(name: str, mine: Callable[[Any], Any]) -> grading.CheckResult:
    """Check an answer to a job; measure it in turn with the guide, draw both, and put it on the ladder.

    Parameters
    ----------
    name : str
        The job: ``far``, ``small`` or ``costly``.
    mine : callable
        ``mine(files)`` returns one epoch of the job as a ``tf.data.Dataset``.

    Returns
    -------
    CheckResult
        What the elements, the memory and the simulated clock say. Where elements or memory are wrong, nothing is
        measured.

    Raises
    ------
    ValueError
        If there is no such job.
    """
    from IPython.display import display

    from labkit.views.widget import show

    this, taken, rungs = job(name), {}, _LADDERS.setdefault(name, {})
    functions = {f"{name}: guide": this.guide, f"{name}: mine": mine}

    def check(_: Any) -> None:
        # The answer first: it may still be the stub.
        taken.update({label: right(this, function) for label, function in reversed(functions.items())})

    found = grading.judge(f"job {name}", check, mine)
    if not found.passed:
        return found
    measured = _measured(this, {label: function(this.files(0)) for label, function in functions.items()})
    traces = {label: measured.trace(label) for label in functions}
    for words, (label, trace) in zip(("guide", f"try {max(len(rungs), 1)}"), traces.items(), strict=True):
        rungs[f"{words}, {memory.size(taken[label])}"] = trace
    display(measured)
    display(show(*traces.values(), labels=tuple(traces), steps=4))
    last = dict([*rungs.items()][-ladder_chart.MOST :])
    display(ladder_chart.draw(last, title=f"The ladder of job {name}, with the memory of the whole job"))
    return grading.judge(f"job {name}", lambda answer: _by_clock(this, answer), mine)


def _measured(this: ChallengeJob, variants: dict[str, Any]) -> Any:
    """Measure pipelines of a job in turn, an epoch each, and enter them into the gradebook."""
    for dataset in variants.values() if this.again else ():
        for _ in dataset:  # the first epoch, which does not count
            pass
    accelerator, by_clock = accelerators.modelled(step_ms=this.train_ms), this.name == "small"
    # To record small elements takes longer than their work.
    measured = measure(variants, accelerator, steps=None, warmup=1, profile=not by_clock)
    # They do the same work, as was checked; in another order, the warm-up of each leaves out other elements.
    measured = replace(measured, works={})
    gradebook.comparison(measured)
    return measured
