"""What to change in a loader, in its own words, from what its gaps waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labkit.timeline.causes.effort import Effort
from labkit.timeline.causes.thresholds import INTERPRETER_FULL, ONE_BY_ONE
from labkit.timeline.causes.worker_waits import WorkerWaits
from labkit.timeline.intervals import at_least, complement, union_of
from labkit.timeline.lanes import RESTS, Lane
from labkit.timeline.run import LoaderFacts, Run
from labkit.timeline.wording import SAMPLER, SOURCE, TF_DATA

#: How a loader gets more workers, and how it may work further ahead.
_MORE = {
    "torch": "a larger num_workers of the DataLoader",
    "grain": "a larger num_threads of ReadOptions, or worker processes (num_workers)",
    "keras": "more workers of the PyDataset",
    "dali": "a larger num_threads of the pipeline",
    "python": "a pool of threads, or of processes",
}
_AHEAD = {
    "torch": "a larger prefetch_factor",
    "grain": "a larger prefetch_buffer_size of ReadOptions, or per_worker_buffer_size",
    "keras": "a larger max_queue_size",
    "dali": "a larger prefetch_queue_depth",
    "python": "a queue that holds more batches",
}

#: A worker that works for at most this share of the time of the training can keep up with it.
_LESS = 0.9


def advise(cause: str, blame: str | None, lanes: Sequence[Lane], run: Run, efforts: Mapping[str, Effort]) -> str:
    """Return what to change in the loader of a run; see `LoaderAdvice`."""
    return str(LoaderAdvice(cause, blame, lanes, run, efforts))


class LoaderAdvice(WorkerWaits):
    """What to change for the cause that took most, as `str` of it.

    Parameters
    ----------
    cause, blame : str
        The cause to change, and what took most of it.
    lanes : sequence of Lane
        The accelerator first.
    run : Run
        Of a loader.
    efforts : mapping of str to Effort
        Whether its calls compute or wait.
    """

    def __init__(
        self, cause: str, blame: str | None, lanes: Sequence[Lane], run: Run, efforts: Mapping[str, Effort]
    ) -> None:
        super().__init__(lanes, run)
        self.cause, self.blame = cause, blame or "the work"
        self.facts: LoaderFacts = run.loader
        effort = efforts.get(self.blame)
        self.computes = effort.computes if effort else None
        self.more, self.further = _MORE[self.facts.framework], _AHEAD[self.facts.framework]
        if self.facts.framework == "torch" and self.facts.workers == 0:
            self.further = "workers (num_workers=1 or more)"  # without, PyTorch refuses a prefetch_factor
        if self.facts.framework == "grain" and self.facts.kind == "DataLoader":
            # Its own arguments; the others are those of MultiprocessingOptions.
            self.more = self.more.replace("num_workers", "worker_count")
            self.further = self.further.replace("per_worker_buffer_size", "worker_buffer_size")
        if self.processes and self.worker_lanes and self.facts.framework == "python":
            self.more = "more workers"  # a generator around a loader that has some
        # DALI's own threads are not seen; they work beside the consumer all the same, whatever class is around them.
        self.dali = self.facts.framework == "dali" or self.blame.startswith("DALI")
        self.alone = not self.worker_lanes and not self.dali

    def __str__(self) -> str:
        """Return the advice as a sentence."""
        if self.blame.startswith(SAMPLER):
            return (
                f"less work in the sampler: {self.blame} runs in the thread that trains, with any number of workers. "
                "Make the order of an epoch at once, with NumPy, or before the training."
            )
        if self.blame == TF_DATA:
            return (
                "what a recording of the tf.data.Dataset itself advises: this loader waits for its next element, and "
                "what the threads of tf.data do meanwhile is not seen from outside."
            )
        work = self.cause in ("fetch", "prep", "batch", "transfer")
        if work and self.rests:
            return self._ahead()
        if work and self.lacks_cores and not (self.alone or self.dali) and (self.one_core or not self.computes):
            other = "takes turns at the interpreter" if self.one_core else "waits for something else"
            return (
                f"nothing yet: threads waited for a core, so nobody can tell whether {self.blame} needs more cores, or "
                f"{other}. Close other programs and record again."
            )
        return getattr(self, f"_{self.cause}")()

    @property
    def rests(self) -> bool:
        """Whether the accelerator waits for workers of which each needs less time than it trains: a buffer is short."""
        trains = self.trains.busy
        waits = complement(trains, 0, self.trains.window_ns)
        together = union_of(lane.busy for lane in self.worker_lanes)
        awaited = at_least([waits, together], 2).total_ns
        longest = max((lane.busy.total_ns for lane in self.worker_lanes), default=trains.total_ns)
        if self.in_turn:  # each waits for the others
            longest = together.total_ns
        return longest <= _LESS * trains.total_ns and awaited >= waits.total_ns / 2

    @property
    def pauses(self) -> bool:
        """Whether the workers rest for most of the time in which the accelerator trains: they do not work ahead."""
        trains, lanes = self.trains.busy, self.worker_lanes
        both = at_least([trains, union_of(lane.busy for lane in lanes)], 2).total_ns if lanes else 0
        return both < trains.total_ns / 2

    @property
    def around(self) -> bool:
        """Whether the thread that trains prepares more than the workers of the loader, which are there."""
        mine, theirs = (
            sum(lane.by_category.get(kind, 0) for lane in lanes for kind in ("decode", "resize", "map"))
            for lanes in (self.consumer, self.worker_lanes)
        )
        return (self.processes or (self.dali and not self.blame.startswith("DALI"))) and mine > theirs

    def _ahead(self) -> str:
        return f"{self.further}: no worker works for as long as the accelerator does, so a larger buffer bridges this."

    def _fetch(self) -> str:
        if self.alone:
            return (
                f"{self.more}, so that files are read beside the training: {self.blame} runs in the thread that trains."
            )
        at_once = "" if self.lacks_cores else f"more reads at once ({self.more}), "
        return f"{at_once}fewer and larger files, fewer bytes, or a cache in memory."

    def _prep(self) -> str:
        waits = self.computes is False and not self.lacks_cores
        if self.around:
            return f"let the workers of the loader do it: {self.blame} runs in the thread that trains."
        if self.alone and (waits or self.blame == RESTS):
            what = "the loader" if self.blame == RESTS else self.blame
            return (
                f"{self.more}, to work beside the training, unless a library has threads of its own for it, which are "
                f"not seen: {what} waits in the thread that trains, and hardly computes there."
            )
        if self.alone:
            return f"{self.more}, to work beside the training: {self.blame} runs in the thread that trains."
        if self.dali:
            return (
                f"{_MORE['dali']} where cores are free, or less work for the processor: "
                "what DALI's threads do is not seen."
            )
        if self.one_core and self.busy_cores >= INTERPRETER_FULL:
            return (
                f"processes in place of threads: they take turns at the interpreter (GIL), and {self.blame} keeps one "
                "core busy in all. A function that lets go of the interpreter (Pillow, OpenCV, simplejpeg) helps, too."
            )
        if self.in_turn and not self.lacks_cores:
            return (
                f"processes in place of threads if {self.blame} is Python code, which holds the interpreter (GIL), and "
                "else more calls at once: several threads work, one at a time, and keep one core busy in all."
            )
        if waits:
            return (
                f"more calls at once ({self.more}): {self.blame} waits for something else than a core (asleep, for an "
                "answer, or for a lock), and the processor rests."
            )
        if self.pauses:
            return f"{self.further}: workers rest while the accelerator trains, and could make the next batches then."
        if self.at_once < self.cores * ONE_BY_ONE / 2 and self.cores > 1 and not self.lacks_cores:
            return f"{self.more}: {self.blame} runs on {self.at_once:.1f} threads at a time, of {self.cores} cores."
        return (
            f"less work for the processor: {self.blame} keeps {self.at_once:.1f} threads busy on {self.cores} cores, "
            "and more workers gain nothing. A faster decoder (simplejpeg, OpenCV), smaller images, a cache, or more "
            "cores."
        )

    def _batch(self) -> str:
        if self.alone:
            return f"{self.more}, so that batches are made beside the training; and one copy for each batch, in uint8."
        if any(lane.by_category.get("batch") for lane in self.worker_lanes):
            return f"a cheaper {self.blame}: stack arrays once, in uint8 until the device, without a loop in Python."
        return "make batches in the workers, not in the thread that trains; one copy for each, uint8 until the device."

    def _transfer(self) -> str:
        tensors = " Tensors go through shared memory, arrays and lists are pickled." * (self.facts.framework == "torch")
        return (
            f"fewer bytes between processes: uint8 until the device, and batches that are made in the worker.{tensors} "
            "Threads need no transfer, where the work lets go of the interpreter."
        )

    def _start(self) -> str:
        persistent = self.facts.turned_on("persistent_workers")
        if persistent is False and self.blame != SOURCE:
            return "persistent_workers=True: every epoch starts its workers anew."
        if persistent or not self.processes or self.blame == SOURCE:
            return (
                "less to do at the start of each epoch (in __iter__ or the sampler), or a worker that does it beside "
                "the training."
            )
        return "workers that live for more than one epoch, or longer epochs (repeat): every epoch starts them anew."

    def _copy(self) -> str:
        lacks = self.facts.framework == "torch" and not self.facts.turned_on("pin_memory")
        pin = "pin_memory=True, and " * lacks
        return f"{pin}copy the next batch while this one trains; send uint8 or float16."
