"""What to change in a loader, in its own words, from what its gaps waited for."""

from __future__ import annotations

from labkit.recording.loaders.described import Loader
from labkit.timeline.causes.thresholds import INTERPRETER_FULL, ONE_BY_ONE, QUEUED
from labkit.timeline.intervals import union_of
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace

#: What each framework calls workers, and how a loader gets more of them.
_WORKERS = {
    "torch": "num_workers of the DataLoader",
    "grain": "num_threads of ReadOptions, or worker processes (num_workers)",
    "keras": "workers of the PyDataset",
    "dali": "num_threads of the pipeline",
    "python": "a pool of threads, or of processes",
}
_AHEAD = {
    "torch": "a larger prefetch_factor",
    "grain": "a larger prefetch_buffer_size of ReadOptions, or worker_buffer_size",
    "keras": "a larger max_queue_size",
    "dali": "a larger prefetch_queue_depth",
    "python": "a queue that holds more batches",
}


def advise(trace: Trace, loader: Loader) -> dict[str, str]:
    """Return what to change for the cause that took most; empty where there is nothing to change."""
    timeline = Timeline(trace)
    stalls = timeline.stalls
    if stalls.cause is None:
        return {}
    own = _Advice(timeline, loader)
    sentence = getattr(own, stalls.cause)()
    if own.rests and stalls.cause in ("fetch", "prep", "batch", "transfer"):
        sentence = f"{_AHEAD[loader.framework]}: the workers rest longer than the accelerator waits."
    return {stalls.cause: sentence}


class _Advice:
    """What is known about a run, and a sentence for each cause."""

    def __init__(self, timeline: Timeline, loader: Loader) -> None:
        self.timeline, self.loader, self.run = timeline, loader, timeline.run
        self.blame = timeline.stalls.blame or "the work"
        self.effort = timeline.efforts.get(self.blame)
        self.cores = self.run.host.cpus or 1
        self.more = _WORKERS[loader.framework]
        self.alone = not any(lane.name != "in the consumer's thread" for lane in self._working())

    def _working(self) -> list:
        return [lane for lane in self.timeline.lanes if lane.kind == "pipeline" and lane.share >= 0.01]

    @property
    def at_once(self) -> float:
        """How many threads of all processes work at once, on average over the time that any does."""
        works = [lane.busy for lane in self._working()]
        total = union_of(works).total_ns if works else 0
        return sum(work.total_ns for work in works) / total if total else 0.0

    @property
    def rests(self) -> bool:
        """Whether the workers rest, while the accelerator trains, for longer than it waits."""
        return not self.alone and self.timeline.overlap_ns["accelerator"] >= self.timeline.idle_ns

    @property
    def queued(self) -> bool:
        """Whether threads were ready, and waited for a core, for much of the window."""
        ns = self.run.processor.queued_ns if self.run.processor else None
        return ns is not None and ns >= QUEUED * self.timeline.span_ns

    @property
    def takes_turns(self) -> bool:
        """Whether threads of one process take turns at the interpreter: together they keep about one core busy."""
        threads = [lane for lane in self._working() if not lane.name.startswith("worker ")]
        work = union_of([lane.busy for lane in threads]).total_ns if threads else 0
        crowd = sum(lane.busy.total_ns for lane in threads) / work if work else 0
        computed = sum(one.computed_ns for one in self.run.op_times.values()) / max(1, self.timeline.span_ns)
        return crowd >= ONE_BY_ONE and INTERPRETER_FULL <= computed <= 1.3 and self.cores > 1 and not self.queued

    def fetch(self) -> str:
        if self.alone:
            return f"reads beside the training, and several at once: {self.more}. {self.blame} runs in the thread that trains."
        return f"more reads at once ({self.more}), fewer and larger files, fewer bytes, or a cache in memory."

    def prep(self) -> str:
        waits = self.effort is not None and self.effort.computes is False
        if self.alone:
            return f"work beside the training: {self.more}. {self.blame} runs in the thread that trains."
        if self.takes_turns:
            return (
                f"processes in place of threads: the threads take turns at the interpreter (GIL), and {self.blame} keeps "
                "one core busy in all. A function that lets go of the interpreter (OpenCV, Pillow, simplejpeg) helps, too."
            )
        if waits:
            return (
                f"more calls at once ({self.more}): {self.blame} waits for something else than a core (asleep, or for an "
                "answer), and the processor rests."
            )
        if self.at_once < min(ONE_BY_ONE, self.cores) and self.cores > 1:
            return f"more of it at once: {self.more}. {self.blame} runs on {self.at_once:.1f} threads at a time, of {self.cores} cores."
        turn = " Workers wait for a core: more of them gain nothing." if self.queued else ""
        return (
            f"less work for the processor: {self.blame} keeps {self.at_once:.1f} threads busy on {self.cores} cores. A "
            f"faster decoder (simplejpeg, OpenCV), smaller images, a cache of what is made again, or more cores.{turn}"
        )

    def batch(self) -> str:
        where = "in the thread that trains" if self.alone else "in a worker"
        help_ = f"{self.more}, so that batches are made beside the training; and " if self.alone else ""
        return f"{help_}one copy for each batch: stack arrays of the final type once, uint8 until the device. {self.blame} runs {where}."

    def transfer(self) -> str:
        torch = (
            " Tensors of PyTorch go through shared memory, arrays and lists are pickled."
            if self.loader.framework == "torch"
            else ""
        )
        return (
            f"fewer bytes between processes: uint8 until the device, and batches that are made in the worker.{torch} Threads "
            "need no transfer, where the work lets go of the interpreter."
        )

    def start(self) -> str:
        if self.loader.framework == "torch" and self.loader.settings.get("persistent_workers") == "False":
            return "persistent_workers=True: every epoch starts its workers anew."
        return "longer epochs, or workers that live for more than one: every epoch starts them anew."

    def copy(self) -> str:
        pin = "pin_memory=True, and " if self.loader.framework == "torch" else ""
        return f"{pin}copy the next batch while this one trains; send uint8 or float16."
