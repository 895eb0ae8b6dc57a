"""What is known about a run beside its spans: one typed record that every `Trace` carries.

A recording fills all of it that it can measure, a simulation what applies to it, and a test the few facts that it
needs. What is not known is None, or empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field, is_dataclass
from functools import lru_cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from labkit.common.numbers import one_of

#: Where a run comes from; every view prints this word.
ORIGINS = ("measured", "modelled", "simulated")

#: What the things in a batch are called; every view takes its word from `Run.noun`. "element" is what is none of these.
NOUNS = ("image", "clip", "window", "sequence", "text", "row", "element")

#: The nanoseconds that stand for a cycle, where views count time in cycles: as many as a millisecond has.
CYCLE_NS = 1_000_000


def _value(hint: Any, given: Any) -> Any:
    """Return a value as a field of type `hint` holds it; raise TypeError if the field cannot hold it.

    A file of JSON holds a list where a field holds a tuple, and a mapping where a field holds a record.
    """
    for kind in get_args(hint) if isinstance(hint, UnionType) else (hint,):
        base = get_origin(kind) or kind
        if is_dataclass(base) and isinstance(given, dict):
            return base(**given)
        if base is tuple and isinstance(given, (list, tuple)):
            return tuple(_value(get_args(kind)[0], part) for part in given)
        if base is dict and isinstance(given, dict) and is_dataclass(get_args(kind)[1]):
            return {name: _value(get_args(kind)[1], part) for name, part in given.items()}
        if isinstance(given, {int: Integral, float: Real}.get(base, base)):
            return base(given) if base in (int, float) else given
    raise TypeError


@lru_cache
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record)


class _Checked:
    """A record that holds what its fields declare, however JSON spells it."""

    def __post_init__(self) -> None:
        """Check every field."""
        for name, hint in _hints(type(self)).items():
            given = getattr(self, name)
            try:
                value = _value(hint, given)
            except TypeError:
                allowed = getattr(hint, "__name__", str(hint)).replace("NoneType", "None")
                raise ValueError(f"{name} is {given!r:.60}; allowed: {allowed}") from None
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class LoaderFacts(_Checked):
    """A loader that is no tf.data pipeline.

    Parameters
    ----------
    framework : str
        "torch", "grain", "dali", "keras" or "python".
    kind : str
        Its class, as readers know it.
    settings : dict of str to str
        Those that matter for its speed, as a reader sees them; see `workers` and `turned_on`.
    hidden : int
        Processes that may work for it and were not seen, since they began before the recording.
    inside : dict of str to dict of str to float
        Of its calls, by the names of their spans, the share of the time in each function of a library, as in
        ``h5py Dataset.__getitem__``, and of the reader's own, without the word of one; sampled.
    """

    framework: str
    kind: str
    settings: dict[str, str] = field(default_factory=dict)
    hidden: int = 0
    inside: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def workers(self) -> int | None:
        """Worker processes, or threads of a PyDataset; None where it does not say."""
        return int(self.settings["workers"]) if "workers" in self.settings else None

    def turned_on(self, setting: str) -> bool | None:
        """Return whether a setting is on, as ``"pin_memory"``; None where it does not say."""
        return {"True": True, "False": False}.get(self.settings.get(setting))

    def __str__(self) -> str:
        """Return class and settings on one line."""
        name = {"torch": "PyTorch ", "grain": "Grain ", "dali": "DALI ", "keras": "Keras "}.get(self.framework, "")
        return ", ".join([name + self.kind, *(f"{key} {value}" for key, value in self.settings.items())])


@dataclass(frozen=True)
class Accelerator(_Checked):
    """What trained on the batches.

    Parameters
    ----------
    name : str or None
    kind : str or None
        "modelled" (it waits for a published step time), "real", or "software" (a processor that stands in for it).
    source : str or None
        Where the step time of a modelled accelerator was published.
    describe : str or None
        All of this as a sentence.
    """

    name: str | None = None
    kind: str | None = None
    source: str | None = None
    describe: str | None = None


@dataclass(frozen=True)
class Host(_Checked):
    """The machine and its software.

    Parameters
    ----------
    cpus : int or None
        Cores that the process could use.
    tensorflow, python : str or None
        Versions.
    others : float or None
        Share of these cores, 0 to 1, that other programs took while the run, and those beside it, were recorded.
    """

    cpus: int | None = None
    tensorflow: str | None = None
    python: str | None = None
    others: float | None = None


@dataclass(frozen=True)
class Profile(_Checked):
    """What the profiler of TensorFlow did.

    Parameters
    ----------
    events : int or None
        Events that the profiler kept.
    events_per_image : float or None
    profiled_steps : int or None
        Steps that the profiler watched.
    distortion : float or None
        By which share of it an image takes more processor time under the profiler than without, as pairs of short runs
        in turn have shown; None where they did not, or none was needed.
    note : str or None
        What else a reader of the figures must know, in sentences.
    copied_bytes : dict
        Bytes that went into a device and out of it, by the name of the copy, as in ``MemcpyH2D``: of all that the
        profiler saw, where it says so.
    allocated_bytes : dict of str to float
        Bytes that an op or a node asks for in a run, on average, by its name. Empty where TensorFlow's own pool for
        tensors is off, since it alone tells the profiler.
    begun : dict of str to int
        How many iterators the profiler saw begin, by the kind of the dataset, as in ``TensorSlice``.
    """

    events: int | None = None
    events_per_image: float | None = None
    profiled_steps: int | None = None
    distortion: float | None = None
    note: str | None = None
    copied_bytes: dict[str, int] = field(default_factory=dict)
    allocated_bytes: dict[str, float] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ThreadTime(_Checked):
    """What a thread of the process did while the window was recorded; all of it together is the window.

    Parameters
    ----------
    computed_ns : int
        It had a core.
    queued_ns : int
        It was ready, and waited for a core.
    blocked_ns : int
        It slept, or waited for something else: a disk, a lock, another thread. A thread that began later counts as
        blocked before.
    pauses : int
        How often it gave its core away to wait; 0 where that was not counted.
    """

    computed_ns: int
    queued_ns: int
    blocked_ns: int
    pauses: int = 0


@dataclass(frozen=True)
class ProcessorTime(_Checked):
    """Samples of the processor time of the process while the window was recorded, all of its threads together.

    Parameters
    ----------
    at_ns, cpu_ns : tuple of int
        When, on the clock of the trace, and the processor time until then. Nanoseconds.
    queued_ns : int or None
        How long its threads were ready and had no core, all together; None where the system does not count it.
    threads : tuple of ThreadTime
        Those that had a core or waited for one, the busiest first; those that had ended before the window did are not
        among them. Empty where the system does not count it.
    consumer_ns : int or None
        How long the thread that trains computed and waited for a core, both together.
    converting : float
        Share of the samples, of those in which the pipeline called a function of Python, in which TensorFlow made
        tensors of lists or single numbers that it had returned.
    """

    at_ns: tuple[int, ...] = ()
    cpu_ns: tuple[int, ...] = ()
    queued_ns: int | None = None
    threads: tuple[ThreadTime, ...] = ()
    consumer_ns: int | None = None
    converting: float = 0.0


@dataclass(frozen=True)
class OpTime(_Checked):
    """How long an op was open in all threads together, what it calls left out; of it, how long it computed; its calls.

    0 calls stand for "not counted".
    """

    open_ns: int
    computed_ns: int
    calls: int = 0


@dataclass(frozen=True)
class Tree(_Checked):
    """What a process and those that it started took.

    Parameters
    ----------
    processes : int
    cpu_s : float
        Seconds of the processor, after the warm-up.
    memory_mb : float
        At the end; what processes share counts once.
    """

    processes: int
    cpu_s: float
    memory_mb: float


@dataclass(frozen=True)
class Totals(_Checked):
    """All steps after the warm-up, watched or not: their number, their images, and their seconds."""

    steps: int
    images: int
    seconds: float


@dataclass(frozen=True)
class Measure(_Checked):
    """Figures of one run in steady state, after the first batch.

    Parameters
    ----------
    images, steps : int
        What the steady state covers.
    seconds : float
        How long it took.
    images_per_s : float
    step_ms, wait_ms, train_ms : float
        Mean time from one step's end to the next one's, and of its two parts: the wait for a
        batch, and the train step. Milliseconds.
    longest_wait_ms : float
        The longest of the waits, which a mean hides.
    busy : float
        Share of the time that the accelerator worked, 0..1.
    first_batch_ms : float or None
        From before the iterator was made to the first batch in hand.
    cpu_ms_per_image, memory_mb : float or None
        Of the process and those that it started: processor time, and memory at the end.
    """

    images: int
    steps: int
    seconds: float
    images_per_s: float
    step_ms: float
    wait_ms: float
    longest_wait_ms: float
    train_ms: float
    busy: float
    first_batch_ms: float | None
    cpu_ms_per_image: float | None = None
    memory_mb: float | None = None


@dataclass(frozen=True)
class Made(_Checked):
    """What an op makes in one run, or a pipeline in one element: its values, a text for one, and their bytes."""

    values: float
    bytes: float


@dataclass(frozen=True)
class BatchPart(_Checked):
    """A component of the batches.

    Parameters
    ----------
    dtype : str
        All that it had, with a stroke between.
    shape : tuple, or None
        Per image, None where it varied; None altogether where the number of dimensions did.
    digest : str
        Of all shapes that it had.
    name : str
        Its key in a batch that is a dictionary, its place in a tuple, joined by dots; "" where it is not known.
    """

    dtype: str
    shape: tuple[int | None, ...] | None
    digest: str = ""
    name: str = ""


@dataclass(frozen=True)
class LabelSet(_Checked):
    """The labels, whatever their order: a digest, their number, and how often each came, unless they are too many."""

    digest: str
    count: int
    histogram: dict[str, int] | None = None


@dataclass(frozen=True)
class SourceSet(_Checked):
    """What a pipeline reads, whatever the order: number, digest, kind, and the first one's name."""

    count: int
    digest: str
    kind: str
    first: str


@dataclass(frozen=True)
class Delivered(_Checked):
    """What a pipeline delivered; see `labkit.recording.work.Tally`.

    Parameters
    ----------
    steps, images : int
    batch_sizes : dict of str to int
        How many batches had this size.
    components : tuple of BatchPart
    labels : LabelSet or None
    sources : SourceSet or None
    order : str
        "fixed" or "varies", read from the pipeline.
    selects : bool
        Whether the pipeline picks some of its elements.
    identity : str
        What tells its images from others.
    padded : float or None
        Share of the values of the first batch, 0 to 1, that only fill rows up.
    pixels : str or None
        Some of the first batch, see `labkit.recording.work.sample`.
    unordered, to_device, random : bool or None
    packed : str or None
        See `labkit.recording.work.settings`.
    element : Made or None
        One element, on average over the first batch.
    to_the_end : bool
        Whether it was driven to the end of its data, for a whole epoch.
    """

    steps: int = 0
    images: int = 0
    batch_sizes: dict[str, int] = field(default_factory=dict)
    components: tuple[BatchPart, ...] = ()
    labels: LabelSet | None = None
    sources: SourceSet | None = None
    order: str = "fixed"
    selects: bool = False
    identity: str = "counts and shapes only"
    padded: float | None = None
    pixels: str | None = None
    unordered: bool | None = None
    to_device: bool | None = None
    random: bool | None = None
    packed: str | None = None
    element: Made | None = None
    to_the_end: bool = False


@dataclass(frozen=True)
class WrittenNode(_Checked):
    """A node of a tf.data pipeline as its author wrote it, before TensorFlow rewrites it.

    Parameters
    ----------
    kind : str
        The name of its class without ``Dataset`` and version: ``Map``, ``ParallelMap``, ``Prefetch``.
    settings : dict of str to int
        Its whole numbers and truths, as ``num_parallel_calls``; -1 stands for AUTOTUNE.
    ops : tuple of str
        The types of the operations in its functions.
    looped : tuple of str
        Those of them that stand in the body of a loop, as ``tf.map_fn`` makes one.
    """

    kind: str
    settings: dict[str, int] = field(default_factory=dict)
    ops: tuple[str, ...] = ()
    looped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run(_Checked):
    """What is known about a run beside its spans.

    Parameters
    ----------
    origin : str
        Whether the run was measured, modelled, or simulated cycle by cycle, one of `ORIGINS`.
    name : str or None
        What views call the run.
    accelerator : Accelerator
    storage : str or None
        "modelled" where a modelled storage held reads up.
    batch_size : int or None
        Images of a step, of all accelerators together.
    steps, warmup : int or None
        Train steps in the window, and steps before it, the first batch included.
    images : int or None
        Images trained on in the window, or whatever else `noun` says that they are.
    first_batch_ns : int or None
        From before the iterator was made to the first batch in hand, nanoseconds.
    window_ns : tuple of two int, or None
        Start of the first wait and end of the last train step, nanoseconds on the clock of the trace.
    graph : tuple of str
        Paths of the tf.data nodes that ran.
    node_names : dict of str to str
        The names that the author of the pipeline gave to nodes, by path.
    written : tuple of WrittenNode
        The nodes of a tf.data pipeline as its author wrote them, from its end to its sources.
    options : dict of str to str
        The tf.data options that differ from the defaults of TensorFlow.
    work : Delivered or None
        What the pipeline delivered, where it was recorded.
    noun : str
        What views call one of the things that a batch holds, one of `NOUNS`, see `labkit.recording.work.noun`. Where
        nothing says, as in traces of older versions, they are images.
    time_unit : str
        What views count time in, "ms" or "cycle". In a trace of cycles the units are parts of a circuit: their spans of
        category ``map`` are values that move, others are called ``blocked`` or ``starved``. The consumer takes
        (``train``), has nothing to take (``wait``), or rests (``iterator``), which is no gap.
    job : Totals or None
    processor : ProcessorTime or None
    loader : LoaderFacts or None
        What was recorded, where it is no tf.data pipeline.
    op_times : dict of str to OpTime
        By the name of the op, where each of its spans was measured.
    made : dict of str to Made
        What ops and nodes of the pipeline make in one run, by their names, where that is known.
    tree : Tree or None
    profiler : Profile
    repeats : tuple of Measure
        The figures of every repeat of this run.
    host : Host
    device : dict of str to str
        ``name``, ``platform`` and ``version`` of an OpenCL device.
    dropped_spans : int
        Spans that were not kept, so that a long run fits into memory.
    assumptions : tuple of str
        What a model takes for granted, in sentences.
    costs_ms : dict of str to float
        Mean costs of a simulation, by the name of the stage, see `labkit.simulate.Costs`.
    knobs : dict
        Settings of a simulation, the fields of `labkit.simulate.Knobs`.
    sleeps : tuple of str
        Names of the operations that take time without a core.
    seed : int or None
        The seed of a simulation.
    advice : dict of str to str
        What to change, by cause, where the maker of the trace knows it better than `labkit.timeline.causes`.
    summary : str or None
        What a heading says, where the maker of the trace knows it better than `labkit.timeline.heading`.

    Raises
    ------
    ValueError
        If a field holds another type, `origin` is unknown, or `window_ns` is no pair of rising integers.
    """

    origin: str
    name: str | None = None
    accelerator: Accelerator = Accelerator()
    storage: str | None = None
    batch_size: int | None = None
    steps: int | None = None
    warmup: int | None = None
    images: int | None = None
    first_batch_ns: int | None = None
    window_ns: tuple[int, int] | None = None
    graph: tuple[str, ...] = ()
    node_names: dict[str, str] = field(default_factory=dict)
    written: tuple[WrittenNode, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    work: Delivered | None = None
    noun: str = "image"
    time_unit: str = "ms"
    job: Totals | None = None
    processor: ProcessorTime | None = None
    loader: LoaderFacts | None = None
    op_times: dict[str, OpTime] = field(default_factory=dict)
    made: dict[str, Made] = field(default_factory=dict)
    tree: Tree | None = None
    profiler: Profile = Profile()
    repeats: tuple[Measure, ...] = ()
    host: Host = Host()
    device: dict[str, str] = field(default_factory=dict)
    dropped_spans: int = 0
    assumptions: tuple[str, ...] = ()
    costs_ms: dict[str, float] = field(default_factory=dict)
    knobs: dict[str, Any] = field(default_factory=dict)
    sleeps: tuple[str, ...] = ()
    seed: int | None = None
    advice: dict[str, str] = field(default_factory=dict)
    summary: str | None = None

    @property
    def of_cycles(self) -> bool:
        """Whether it is that of a circuit, whose time is counted in cycles."""
        return self.time_unit == "cycle"

    def images_of(self, steps: int) -> int | None:
        """Return the images that the train steps of the window took, None where nothing says."""
        return self.batch_size * steps if self.images is None and self.batch_size else self.images

    def __post_init__(self) -> None:
        """Check every field, and those with a rule of their own."""
        super().__post_init__()
        one_of("origin", self.origin, ORIGINS)
        one_of("noun", self.noun, NOUNS)
        if self.window_ns is not None and (len(self.window_ns) != 2 or self.window_ns[1] < self.window_ns[0]):
            raise ValueError(
                f"window_ns is {self.window_ns!r:.80}; allowed: start and end in integer nanoseconds, in this order"
            )
