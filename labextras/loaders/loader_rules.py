"""The rules of advice for a loader, in its own words, and the facts that they look at."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from labkit.advice import BUSY, REFUSAL, RULES, Advice, Facts, Rule, advise
from labkit.advice.rule import HANDING_OVER, UNLESS, UNSEEN
from labkit.common import other_programs
from labkit.timeline.causes.effort import Effort, computed
from labkit.timeline.causes.thresholds import INTERPRETER_FULL, LEAST, MANY_CALLS, ONE_BY_ONE, ONE_CORE
from labkit.timeline.causes.worker_waits import WorkerWaits
from labkit.timeline.intervals import at_least, complement, union_of
from labkit.timeline.lanes import PIPE, RESTS, Lane
from labkit.timeline.run import Run
from labkit.timeline.wording import SAMPLER, SOURCE, TF_DATA, duration

#: How a loader gets more workers, and how it may work further ahead.
_MORE = {
    "torch": "a larger num_workers of the DataLoader (loaders.count_workers says how many pay)",
    "grain": "a larger num_threads of ReadOptions, or worker processes (num_workers; of a DataLoader worker_count)",
    "keras": "more workers (workers= of a PyDataset, and use_multiprocessing=True where Python computes)",
    "dali": "a larger num_threads of the pipeline",
    "python": "a pool of threads or processes, or more of them",
}
_AHEAD = {
    "torch": "a larger prefetch_factor",
    "grain": "a larger prefetch_buffer_size of ReadOptions, or buffer of the workers (per_worker_buffer_size)",
    "keras": "a larger max_queue_size",
    "dali": "a larger prefetch_queue_depth",
    "python": "a queue that holds more batches",
}

#: Without workers, PyTorch refuses a prefetch_factor.
_WORKERS = "workers (num_workers=1 or more)"

#: A worker that works for at most this share of the time of the training can keep up with it.
_LESS = 0.9

#: What answers the time that calls take inside of some libraries.
_REMEDIES = {
    "h5py zarr": "chunks as they are read: one element a chunk, or whole chunks in order with a shuffle behind",
    "datasets": "arrays in place of lists: declare the features (Array3D), set_format('numpy'), and map() once before",
    "pandas pyarrow": "arrays in place of a table: take its values once (to_numpy) and index these",
    "tokenizers transformers": "tokenise once before the training, and store the ids",
    "NpzFile": "arrays that are taken out of the archive once (each index unpacks a whole one again), or .npy files",
    "zipfile tarfile": "one archive that stays open: open it once in each worker, or unpack it before the training",
    "BaseProxy": "an array, a shared tensor, or what workers inherit in place of a manager, which answers each access",
    "multiprocessing filelock": "a reader of its own for each worker, without the lock: more workers wait in the line",
}
#: What is said of any other.
_ONCE = "the same once before the training, where it is not random"
#: From this share of the time of a call on, a function of a library is what it does.
_MOST = 0.5
#: A call of fewer microseconds is short beside what it takes to make it, to collate its element and to hand it over.
_SHORT_US = 50

#: What calls the functions of a dataset for one batch.
FETCH = "fetch a batch"

#: What is blamed, in the word of a sentence.
_WORDS = {RESTS: "the loader", TF_DATA: "tf.data"}

_WORK = ("fetch", "prep", "batch", "transfer")
_PIXELS = ("decode", "resize")
_NO_WORK = ("iterator", "other")
_MADE = ("fetch", "prep", "batch")


class WorkerFacts(Facts):
    """What is known of a run of a loader, beside what is known of any run.

    Parameters
    ----------
    more, further : str
        What gives it more workers, and what lets them work further ahead.
    threads, cores : float, int
        Threads of all processes that work at once, on average, and cores.
    hidden : bool
        Processes may work for it that began before the recording.
    outside : bool
        What is to blame runs in no worker, however many there are.
    alone : bool
        The thread that trains works, and nobody else,
    around : bool
        or it does what workers, which are there, could do.
    dali : bool
        Threads of DALI work, which are not seen.
    turns : bool
        Threads of one process take turns, and keep one core busy in all.
    few : bool
        Fewer threads work than there are cores.
    restarts : bool
        Every epoch starts the workers anew.
    called, inside, remedy : str, float, str
        The function of a library in which the calls spend most of their time, percent of it, and what helps.
    short : str
        The function that makes so many short calls.
    shards : str
        How many workers have something to do, where a stream has nothing for the others.
    tokens : bool
        The batches hold rows of whole numbers, as of texts.
    shared : bool
        Workers of PyTorch make the batches, and hand them over in shared memory.
    cheaper, as_bytes : str
        What makes decoding cheaper, where there is any; what makes a batch smaller that holds pixels as floats.
    """


LOADER_RULES = (
    Rule("loader.hidden-processes", WorkerFacts(UNSEEN, hidden=True),
        REFUSAL + "what processes do that began before the recording is not seen; let the loader start its workers in "
        "the recording."),
    Rule("loader.outside-workers", WorkerFacts("prep", "sampler Sorted", outside=True),
        "less work in {blame}, which runs in no worker, however many there are: make the order of an epoch before the "
        "training. If it is a tf.data.Dataset, record that itself.", also=_WORK),
    Rule("loader.whole-batches",
        WorkerFacts("prep", "Table.__getitem__", calls=2048, call_time="12.0 µs", short="Table.__getitem__"),
        "whole batches in one call before more workers: {short} is called for each element, {calls:,.0f} calls a batch "
        "of {call_time} each. In PyTorch: __getitems__ of the dataset, or sampler=BatchSampler(…) with "
        "batch_size=None; a stream may yield whole batches.", also=_MADE),
    Rule("loader.library",
        WorkerFacts("prep", "Rows.__getitem__", called="h5py Dataset.__getitem__", inside=93, remedy="smaller chunks"),
        "{remedy}: {called} takes {inside:.0f} % of the time of {blame}", also=("fetch",), goes_on=True),
    Rule("loader.tokens", WorkerFacts("prep", "Texts.__getitem__", tokens=True),
        "where {blame} makes tokens of texts: tokenise once before the training, and store the ids",
        also=("batch",), goes_on=True),
    Rule("loader.shards", WorkerFacts("prep", "next of Stream", shards="1 of 4"),
        "as many shards as workers, or more: {shards} workers have something to do, as each takes whole shards.",
        also=("fetch",)),
    Rule("loader.longer-epochs", WorkerFacts("prep", "next of Stream", epochs=True),
        "less to do when an epoch begins, or longer epochs (repeat): what is waited for most is the first batch of an "
        "epoch, before which no queue is filled.", also=_WORK),
    Rule("loader.decoder",
        WorkerFacts("prep", "PIL decode", others="other programs took 1.8 of 2 cores", crowded=True, cheaper="smaller"),
        "less work for the processor: a faster decoder (simplejpeg, OpenCV), or smaller images", goes_on=True),
    # Fewer bytes between processes lower the load, on any machine.
    Rule("loader.busy", WorkerFacts("prep", "PIL decode", others="other programs took 1.8 of 2 cores", crowded=True),
        BUSY, also=(*_MADE, "copy", UNSEEN)),
    Rule("loader.unseen", WorkerFacts(UNSEEN),
        REFUSAL + "nobody saw what ran in most of the gaps. Where threads or processes of your own make the batches, "
        "loaders.known('module.function') shows their functions."),
    Rule("loader.ahead", WorkerFacts("prep", "PIL decode", rests=True, further="a larger prefetch_factor"),
        "{further}: workers rest while the accelerator trains, so a larger buffer bridges this.", also=_WORK),
    Rule("loader.needs-cores", WorkerFacts("prep", "PIL decode", needs_cores=True),
        REFUSAL + "threads waited for a core, so nobody can tell whether {blame} needs more cores, or waits for "
        "something else. Close other programs and record again.", also=_MADE),
    Rule("loader.let-workers", WorkerFacts("prep", "cv2.resize", around=True),
        "let the workers of the loader do it: {blame} runs in the thread that trains.", also=_MADE),
    Rule("loader.beside-training", WorkerFacts("prep", "PIL decode", alone=True, more=_MORE["torch"]),
        "{more}, to work beside the training, or less work in {blame}: it takes the time of the thread that trains.",
        also=_MADE),
    Rule("loader.dali", WorkerFacts("prep", "DALI's threads", dali=True),
        "a larger num_threads of the pipeline where cores are free, or less work for the processor: what DALI's "
        "threads do is not seen."),
    Rule("loader.processes", WorkerFacts("prep", "spin", turns=True),
        "processes in place of threads: they take turns, as at the interpreter (GIL), and {blame} keeps one core busy "
        "in all. A function that lets go of the interpreter (Pillow, OpenCV, simplejpeg) helps, too.",
        also=(HANDING_OVER,)),  # a train step that waits for the interpreter, too
    Rule("loader.more-calls", WorkerFacts("prep", "load", waits=True, more=_MORE["torch"]),
        "more calls at once ({more}): {blame} waits for something else than a core (asleep, for an answer, or for a "
        "lock), and the processor rests.{unless}"),
    Rule("loader.more-workers", WorkerFacts("prep", "PIL decode", few=True, more=_MORE["torch"], threads=1.0, cores=2),
        "{more}: {blame} runs on {threads:.1f} threads at a time, of {cores} cores."),
    Rule("loader.less-work", WorkerFacts("prep", "PIL decode", threads=2.0, cores=2),
        "less work for the processor: {blame} keeps {threads:.1f} threads busy on {cores} cores, and more workers gain "
        "nothing. {cheaper}Do less in each call, cache what is not random, or take more cores."),
    Rule("loader.cheaper-batch", WorkerFacts("batch", "numpy.stack"),
        "less work in {blame}: arrays stacked once{as_bytes}, no loop in Python, and nothing beside it."),
    Rule("loader.hand-over", WorkerFacts("transfer", "unpickle", shared=True),
        "larger batches, or fewer tensors in each{as_bytes}: PyTorch's workers make them and hand them over in shared "
        "memory already, and each tensor has a cost of its own. Where elements are cheap to make, try num_workers=0."),
    Rule("loader.fewer-bytes", WorkerFacts("transfer", "copy to shared memory"),
        "fewer bytes between processes: make the batch in the worker{as_bytes}, and hand it over in shared memory."),
    Rule("loader.more-reads", WorkerFacts("fetch", "file read", more=_MORE["torch"]),
        "more reads at once ({more}), fewer and larger files, fewer bytes, or a cache in memory.{unless}"),
    Rule("loader.lasting-workers", WorkerFacts("start", "start a worker process", restarts=True),
        "workers that live for more than one epoch (PyTorch: persistent_workers=True), or longer epochs (repeat): "
        "every epoch starts them anew."),
)  # fmt: skip


def advise_loader(known: Facts, lanes: Sequence[Lane], run: Run, efforts: Mapping[str, Effort]) -> Advice | None:
    """Return what to change in the loader of a run; None for a run of none, or where processes wait for each other.

    Parameters
    ----------
    known : Facts
        What is known of any run.
    lanes : sequence of Lane
        The accelerator first.
    run : Run
    efforts : mapping of str to Effort
        Whether its calls compute or wait.
    """
    if run.loader is None or known["together"]:
        return None
    workers = Workers(lanes, run)
    effort = efforts.get(blame := workers.blamed(known["blame"]))
    computes = effort.computes if effort else None
    found = WorkerFacts(**known | workers.facts(known["cause"], blame, computes))
    return advise(found, (*LOADER_RULES, *RULES))


class Workers(WorkerWaits):
    """The workers of a loader, and the names of its arguments."""

    @cached_property
    def one_core(self) -> bool:
        """Whether threads of the consumer's process want to work at once, and keep no more than one core busy."""
        several = self.threads and self.at_once >= ONE_BY_ONE and self.cores > 1 and self.asks is not False
        return several and self.busy_cores <= ONE_CORE

    @cached_property
    def in_turn(self) -> bool:
        """Whether several threads work one after the other and keep a core busy, for a reason that is not recorded.

        The interpreter lets calls of less than 5 ms end before another thread has its turn, so they never overlap.
        """
        several = self.threads and len(self.worker_lanes) > 1 and self.at_once < ONE_BY_ONE
        return several and self.cores > 1 and INTERPRETER_FULL <= self.busy_cores <= ONE_CORE

    @cached_property
    def children_compute(self) -> bool:
        """Whether much of the cores goes to processes that leave no spans, as programs that calls start."""
        theirs_ns = self._processes_ns - self._asked_ns - computed(self.run)
        return theirs_ns >= other_programs.BUSY * self.cores * self.trains.window_ns

    @cached_property
    def busy_cores(self) -> float:
        """How many cores all ops together keep busy while any worker works; a pause says nothing of the interpreter."""
        return self._asked_ns * self._all_of_it / self._works_ns

    def blamed(self, blame: str) -> str:
        """Return the reader's function in place of what only calls it, and is held up in between on a busy machine."""
        own_ns = {name: one.open_ns for name, one in self.run.op_times.items()}
        theirs = [n for n in own_ns if n.startswith("next of ") or n.endswith((".__getitem__", "collate"))]
        theirs = {*theirs} - {f"next of {self.run.loader.kind}"} if blame == FETCH else ()
        return max(theirs, key=own_ns.__getitem__, default=blame)

    def facts(self, cause: str, blame: str, computes: bool | None) -> dict[str, object]:
        """Return the facts of a cause and what is to blame for it, which computes, waits, or neither is known."""
        # DALI's own threads are not seen; they work beside the consumer all the same, whatever class is around them.
        own = blame.startswith("DALI")
        dali = self.run.loader.framework == "dali" or own
        alone = not self.worker_lanes and not dali
        batches = any(lane.by_category.get("batch") for lane in self.worker_lanes)
        around = self._around(dali and not own) if cause == "prep" else cause == "batch" and not alone and not batches
        waits = computes is False and not self.lacks_cores and not self.children_compute
        turns = (self.one_core and self.busy_cores >= INTERPRETER_FULL) or (self.in_turn and not self.lacks_cores)
        without = self.run.loader.framework == "torch" and self.run.loader.workers == 0
        pauses = self._pauses() and cause == "prep" and not (around or alone or dali or turns or waits)
        others = (self.run.host.others or 0.0) >= other_programs.BUSY
        return {
            **self._short_calls(),
            "shards": self._shards(blame),
            # Where the pipe itself takes long, the bytes go through it: arrays, and no tensors in shared memory.
            "shared": self.run.loader.framework == "torch" and batches and blame not in PIPE,
            "cheaper": "A faster decoder (simplejpeg, OpenCV), or smaller images. " if self._decodes else "",
            "as_bytes": ", in uint8 until it is on the device" if self._floats else "",
            "blame": _WORDS.get(blame, blame),
            **self._library(blame, computes),
            "more": _MORE[self.run.loader.framework],
            "further": _WORKERS if without else _AHEAD[self.run.loader.framework],
            "threads": self.at_once,
            "cores": self.cores,
            "hidden": bool(self.run.loader.hidden),
            "outside": blame.startswith(SAMPLER) or blame == TF_DATA,
            "rests": pauses or self._keep_up(),
            "needs_cores": others and self.lacks_cores and not (alone or dali) and (self.one_core or not computes),
            "alone": alone,
            "around": around,
            "dali": dali,
            "turns": turns,
            "waits": waits,
            "unless": UNLESS if computes is False and self.at_once >= ONE_BY_ONE else "",
            "few": self.at_once < self.cores * ONE_BY_ONE / 2 and self.cores > 1 and not self.lacks_cores,
            "restarts": self.processes and blame != SOURCE and not self.run.loader.turned_on("persistent_workers"),
        }

    def seconds(self) -> tuple[float, float, float]:
        """Return for how long workers, or the consumer without them, compute and wait, and the consumer beside them."""
        mine, theirs = (
            sum(ns for lane in lanes for kind, ns in lane.by_category.items() if kind not in _NO_WORK) / 1e9
            for lanes in (self.consumer, self.worker_lanes)
        )
        open_ns = sum(one.open_ns for one in self.run.op_times.values())
        computed = 1.0 if self.lacks_cores else min(1.0, self._all_of_it * self._asked_ns / max(1, open_ns))
        work, beside = (theirs, mine) if theirs else (mine, 0.0)
        return computed * work, (1 - computed) * work, beside

    def _short_calls(self) -> dict[str, float]:
        """Return the calls for an element, of which there are many in a batch and each is short; empty without them."""
        steps = max(1, len(set(self.trains.step.tolist()) - {-1}))
        for name, one in self.run.op_times.items():
            short = one.calls and one.open_ns < 1e3 * _SHORT_US * one.calls
            if short and name.endswith(".__getitem__") and one.calls >= MANY_CALLS * steps:
                return {"calls": one.calls / steps, "call_time": duration(one.open_ns / one.calls), "short": name}
        return {}

    def _shards(self, blame: str) -> str:
        """Return how many workers work, where the others get nothing of a stream."""
        lanes = [one for one in self.worker_lanes if self._name(one).startswith("worker ")]
        spent = [sum(ns for kind, ns in one.by_category.items() if kind not in _NO_WORK) for one in lanes]
        work = sum(ns >= LEAST * self.trains.window_ns for ns in spent)
        several = self.run.loader.workers or 0
        return f"{work} of {several}" if blame.startswith("next of ") and 0 < work < several else ""

    def _library(self, blame: str, computes: bool | None) -> dict[str, object]:
        """Return in which function of a library the calls to blame spend their time, and what answers that."""
        inside = self.run.loader.inside.get(blame, {})
        called = max(inside, key=lambda name: inside[name], default="")
        other = {"tokens": self.run.noun == "sequence" and computes is not False}
        if called.startswith(" "):  # a function of the reader's own
            return other | ({"blame": f"{blame} (most of it:{called})"} if inside[called] >= _MOST else {})
        package, *parts = re.split("[ .]", called)
        share = sum(part for name, part in inside.items() if name.partition(" ")[0] == package)
        remedy = next((w for names, w in _REMEDIES.items() if {package, *parts}.intersection(names.split())), "")
        if share < _MOST or not (remedy or (computes and package not in ("torch", "numpy"))):
            return other
        return {"called": called, "inside": 100 * share, "remedy": remedy or _ONCE}

    @cached_property
    def _decodes(self) -> bool:
        """Whether workers decode or resize for a share of the window."""
        spent = sum(lane.by_category.get(kind, 0) for lane in (*self.worker_lanes, *self.consumer) for kind in _PIXELS)
        return spent >= LEAST * self.trains.window_ns

    @cached_property
    def _floats(self) -> bool:
        """Whether a batch holds pixels as floating-point numbers."""
        parts = self.run.work.components if self.run.work and self.run.noun == "image" else ()
        return any("float" in part.dtype and part.shape and len(part.shape) >= 2 for part in parts)

    def _keep_up(self) -> bool:
        """Tell whether the accelerator waits for workers of which each needs less time than it trains."""
        trains = self.trains.busy
        waits = complement(trains, 0, self.trains.window_ns)
        together = union_of(lane.busy for lane in self.worker_lanes)
        awaited = at_least([waits, together], 2).total_ns
        longest = max((lane.busy.total_ns for lane in self.worker_lanes), default=trains.total_ns)
        if self.in_turn:  # each waits for the others
            longest = together.total_ns
        return longest <= _LESS * trains.total_ns and awaited >= waits.total_ns / 2

    def _pauses(self) -> bool:
        """Tell whether the workers rest for most of the time in which the accelerator trains."""
        trains, lanes = self.trains.busy, self.worker_lanes
        both = at_least([trains, union_of(lane.busy for lane in lanes)], 2).total_ns if lanes else 0
        return both < trains.total_ns / 2

    def _around(self, dali: bool) -> bool:
        """Tell whether the thread that trains prepares more than workers of the loader, or of DALI, which are there."""
        mine, theirs = (
            sum(lane.by_category.get(kind, 0) for lane in lanes for kind in ("decode", "resize", "map"))
            for lanes in (self.consumer, self.worker_lanes)
        )
        return (self.processes or dali) and mine > theirs
