"""Fault drills: sick pipelines to diagnose and to mend.

A drill shows a pipeline (plain tf.data code), its timeline and the numbers of its data. The student names the one fault
that it has, out of all that the pool knows, and mends the code; both are checked without a clock. The timeline of a
drill is drawn without causes. The same seed is the same drill on every machine.
"""

from __future__ import annotations

import hashlib
import html
import numbers
from functools import cached_property, lru_cache
from typing import Any

from labkit.course import gradebook
from labkit.course.drills.faults import POOL, TASKS, Fault, same
from labkit.course.grading import FAILED, OPEN, PASSED, Result, Wrong, raised

__all__ = ["Drill", "Fault", "answer", "diagnoses", "draw", "pool", "seed_of"]

_STEPS = 10
_LARGEST = 10**18


@lru_cache(maxsize=1)
def pool() -> tuple[Fault, ...]:
    """Return all faults, in the order of their diagnoses."""
    from labkit.course.drills import pixels, reading, waiting  # noqa: F401 - importing them fills the pool

    return tuple(sorted(POOL.values(), key=lambda fault: fault.diagnosis))


def diagnoses() -> tuple[str, ...]:
    """Return what can be wrong, in words: the diagnoses of all faults of the pool."""
    return tuple(fault.diagnosis for fault in pool())


def draw(seed: int) -> Drill:
    """Return a drill.

    Parameters
    ----------
    seed : int
        From 0 to 10**18. As many seeds in a row as the pool has faults, counted from 0, draw each fault once.

    Raises
    ------
    ValueError
        If `seed` is no such number.
    """
    return Drill(seed)


def answer(seed: int) -> Fault:
    """Return the fault of a drill, with its diagnosis and ``mended_code``: for instructors.

    Raises
    ------
    ValueError
        As `draw`.
    """
    whole = isinstance(seed, numbers.Integral) and not isinstance(seed, bool)
    if not whole or not 0 <= seed <= _LARGEST:
        shown = "far too large or small" if whole and abs(seed) > _LARGEST else repr(seed)
        raise ValueError(f"the seed of a drill is {shown}; allowed: a whole number from 0 to 10**18")
    block, place = divmod(int(seed), len(pool()))

    def rank(fault: Fault) -> str:
        return hashlib.sha256(f"labkit drills {block} {fault.key}".encode()).hexdigest()

    return sorted(pool(), key=rank)[place]


def seed_of(key: str, start: int = 0) -> int:
    """Return the first seed from `start` on that draws a fault: for instructors who choose one.

    Raises
    ------
    ValueError
        If there is no such fault; the sentence names those there are.
    """
    keys = [fault.key for fault in pool()]
    if key not in keys:
        raise ValueError(f"there is no fault {key!r}; there are: {', '.join(sorted(keys))}")
    return next(seed for seed in range(start, start + 2 * len(keys)) if answer(seed).key == key)


class Drill:
    """One sick pipeline; `draw` makes it.

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
    case : labkit.drills.case.Case
        What it reads from; ``pipeline(drill.case)`` runs a version of your own.
    dataset : tf.data.Dataset
        The sick pipeline.
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
    def case(self) -> Any:
        """The material of the pipeline, on storage that takes its time."""
        return self._case()

    def _case(self, **more: Any) -> Any:
        from labkit.course.drills.case import Case

        return Case(**{"seed": self.seed, **self._fault.case, **more})

    @cached_property
    def dataset(self) -> Any:
        """The sick pipeline."""
        return self._fault.pipeline(self.case)

    @property
    def accelerator(self) -> Any:
        """The modelled accelerator beside it."""
        from labkit.recording import accelerators

        return accelerators.modelled(step_ms=self._fault.step_ms)

    def record(self, pipeline: Any) -> Any:
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
        # A name of its own: in what is handed in, sick and mended runs are two.
        return self._record(pipeline(self.case), f"{self.name}, yours")

    def _record(self, dataset: Any, name: str) -> Any:
        import labkit

        return labkit.record(dataset, self.accelerator, steps=_STEPS, warmup=1, name=name, progress=False)

    @cached_property
    def trace(self) -> Any:
        """Ten steps of the sick pipeline."""
        return self._record(self.dataset, self.name)

    @cached_property
    def timeline(self) -> Any:
        """Its lanes and gaps, without what the gaps wait for."""
        from labkit.timeline.timeline import Timeline

        return Timeline(self.trace, explain=False)

    def probe(self) -> Any:
        """Return the numbers of the data in two epochs: what comes, and what should come.

        Returns
        -------
        labkit.drills.probe.Probe
        """
        from labkit.course.drills import probe

        case = self._case(latency_ms=0)
        return probe.compare(self._fault, case, self.name)

    def diagnose(self, diagnosis: Any) -> Result:
        """Check a diagnosis.

        Parameters
        ----------
        diagnosis : str or int
            One of `diagnoses`, or its number from 1 on.

        Returns
        -------
        Result
            It never raises; a wrong one says how the fault that was named would show.
        """
        return gradebook.result(self.judge_diagnosis(diagnosis))

    def judge_diagnosis(self, diagnosis: Any) -> Result:
        """Return what `diagnose` does, and enter nothing into the session."""
        name = f"{self.name}, diagnosis"
        if diagnosis is None:
            return Result(name, OPEN, "nothing to check yet: choose one of drill.diagnoses")
        chosen = _chosen(diagnosis, self.diagnoses)
        if chosen is None:
            return Result(name, FAILED, f"that is none of the diagnoses; name one, or its number, 1 to {len(pool())}")
        if chosen == self._fault.diagnosis:
            self._named = True
            return Result(name, PASSED)
        (other,) = (fault for fault in pool() if fault.diagnosis == chosen)
        return Result(
            name, FAILED, f"of that fault you would see: {other.sign}; look again, in the {_WHERE[other.seen]}"
        )

    def mend(self, pipeline: Any) -> Result:
        """Check a mended pipeline: its data are those of a right one, and its graph has no fault of the pool.

        Parameters
        ----------
        pipeline : callable
            ``pipeline(case)`` returns a dataset built on the sources of `case`, as the sick one does.

        Returns
        -------
        Result
            It never raises.
        """
        return gradebook.result(self.judge_mend(pipeline))

    def judge_mend(self, pipeline: Any) -> Result:
        """Return what `mend` does, and enter nothing into the session."""
        name = f"{self.name}, mend"
        if pipeline is None:
            return Result(name, OPEN, "nothing to check yet: write a function pipeline(case)")
        if not callable(pipeline):
            return Result(name, FAILED, f"pass the function itself, not {type(pipeline).__name__} {pipeline!r:.40}")
        # Photos that nobody has seen; none is quite white, or dividing by its maximum would be as good as by 255.
        case = self._case(seed=self.seed + 1, latency_ms=0, white=235)
        try:
            dataset = pipeline(case)
            if dataset is None:
                return Result(name, OPEN, "nothing to check yet: your function returns None")
            found = _examine(self._fault, dataset, case)
        except NotImplementedError as error:
            if str(error).strip():  # TensorFlow's, about NumPy in a graph; a stub says nothing
                return Result(name, FAILED, raised(error))
            return Result(name, OPEN, "nothing to check yet: write a function pipeline(case)")
        except Wrong as wrong:
            return Result(name, FAILED, str(wrong))
        except Exception as error:
            return Result(name, FAILED, f"your pipeline raised {type(error).__name__}: {error!s:.300}")
        if not found:
            return Result(name, PASSED)
        if self._fault.key in found:
            # The sign would name the fault to everybody who hands the code in as it is.
            sign = self._fault.sign if self._named else "its fault is still there; name it, then this says how it shows"
            return Result(name, FAILED, f"it is not mended: {sign}")
        other = POOL[found[0]]
        # Who hands in another patient as it is would be told what that one has.
        sign = "that of the patient whose code this is" if same(pipeline, other.pipeline) else other.sign
        return Result(name, FAILED, f"that fault is gone, but now there is another: {sign}")

    def __repr__(self) -> str:
        """Return task, code and diagnoses: the same text on every machine."""
        lines = [f"{self.name}: a patient that should deliver {self.task}.", "", self.code, "What is wrong with it?"]
        return "\n".join([*lines, *(f"{i:>3}  {text}" for i, text in enumerate(self.diagnoses, 1))])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return what a notebook shows: the code, the timeline and the list, as a page and as text."""
        from labkit.views import static

        picture = static.draw(self.timeline, title=self.name)
        data, metadata = picture._repr_mimebundle_()
        shown = "".join(f"<li>{html.escape(text)}</li>" for text in self.diagnoses)
        alt = html.escape(metadata["image/png"]["alt"])
        page = (
            f"<p><strong>{self.name}</strong>: a patient that should deliver {html.escape(self.task)}.</p>"
            f"<pre>{html.escape(self.code)}</pre>"
            f'<img src="data:image/png;base64,{data["image/png"]}" alt="{alt}" style="max-width:100%">'
            f"<p>What is wrong with it?</p><ol>{shown}</ol>"
        )
        return {"text/plain": f"{self!r}\n\n{picture.text}", "text/html": page}


_WHERE = {"timeline": "timeline", "data": "data (drill.probe())"}


def _chosen(diagnosis: Any, texts: tuple[str, ...]) -> str | None:
    """Return one of `texts`, given in words or by its number."""
    if isinstance(diagnosis, numbers.Integral) and not isinstance(diagnosis, bool):
        return texts[diagnosis - 1] if 1 <= diagnosis <= len(texts) else None
    if not isinstance(diagnosis, str):
        return None
    plain = {" ".join(text.lower().split()).rstrip("."): text for text in texts}
    return plain.get(" ".join(diagnosis.lower().split()).rstrip("."))


def _examine(fault: Fault, dataset: Any, case: Any) -> list[str]:
    """Return the keys of all faults that a pipeline has; raise `Wrong` if its data are wrong in another way."""
    import tensorflow as tf

    from labkit.course.drills import data, detectors

    if not isinstance(dataset, tf.data.Dataset):
        raise Wrong(f"return a tf.data.Dataset, not {type(dataset).__name__}")
    if not case.feeds(dataset):
        raise Wrong("build the pipeline on the sources of case (case.photos, case.shards, …)")
    detectors.refuse(dataset)
    if "case.records" in fault.code and any(n.dataset is case.photos for n in detectors.nodes(dataset)):
        raise Wrong("this patient reads files of records; keep to those (case.shards, case.flat, …)")
    found = detectors.find(dataset, case)
    if fault.key in found:
        return found  # what stands in the graph need not run
    facts = data.read(dataset, case, fault.task, fault.share)
    found = list(dict.fromkeys([*found, *data.find(facts)]))
    if found:
        return found
    if fault.once and not detectors.keeps_work(dataset):
        raise Wrong("no cache keeps what is read and decoded: the work of the first epoch comes again in the second")
    buffer = detectors.largest_shuffle(dataset)
    if fault.ordered_anew and not buffer:
        raise Wrong("nothing shuffles the photos; each epoch is to have an order of its own")
    if fault.ordered_anew and 1 < buffer < case.batch:  # of one, the order tells
        raise Wrong(f"photos are shuffled in a buffer of {buffer}; allowed: {case.batch} (a batch) or more")
    data.judge(facts, detectors.keeps_order(dataset), fault.ordered_anew)
    return []
