"""From what the processes wrote to one trace on one clock."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from labextras.loaders.loader_facts import Loader
from labextras.loaders.shared_spans import Process
from labkit.timeline.lanes import GET, PIPE, PUT, RESTS, WORK
from labkit.timeline.nesting import depths
from labkit.timeline.run import OpTime, Profile, Run
from labkit.timeline.trace import CATEGORIES, Thread, Trace
from labkit.timeline.wording import WITH_CONSUMER, WORKER

#: A span of code that blocks now and then is work where the thread computed, or was ready to, for this share of it.
COMPUTED = 0.4

#: Library threads that only hand over would be a lane each; a thread is left out where nothing of it is work.
_WORK = frozenset(CATEGORIES.index(word) for word in WORK)


def to_trace(
    processes: Sequence[Process], loader: Loader, window_ns: tuple[int, int], clocks: Mapping[str, tuple[int, int]],
    ready: float, hidden: int = 0,
) -> Trace:  # fmt: skip
    """Return the spans of all processes.

    Parameters
    ----------
    processes : sequence of Process
        What `labextras.loaders.shared_spans.read` found.
    loader : Loader
    window_ns : (int, int)
        When the window began, from where on the times of ops count, and its end, which is that of spans that are open.
    clocks : mapping of str to (int, int)
        For threads by their numbers in the system, how long they had a core in the window, and waited for one, in ns.
    ready : float
        Share of the time in which threads that wanted a core had one, for threads that are not in `clocks`.
    hidden : int
        Processes that may work for the loader, and write nothing.

    Returns
    -------
    Trace
        On the clock of the processes. Its `run` holds the time of each op and the number of events.
    """
    since_ns, now_ns = window_ns
    names: dict[str, int] = {}
    threads: dict[Thread, int] = {}
    rows: list[np.ndarray] = []
    times: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    me = os.getpid()
    numbers = _numbers([one for one in processes if one.pid != me], now_ns)
    alone = not hidden and not any(_works_beside(process, me) for process in processes)
    for process in processes:
        records = process.records
        if not len(records):
            continue
        end = _ends(process, now_ns)
        # Of a span that was open when the window began, the share inside it counts.
        inside = np.clip((end - since_ns) / np.maximum(end - records["start"], 1), 0, 1)
        own_ns, own_cpu, parent, unknown = _own(process, end, inside, clocks)
        least = 0.0 if alone else COMPUTED * _had_core(process, clocks, ready)
        category, name = _categories(process, own_cpu >= least * np.maximum(own_ns, 1))
        part_of = within_calls(process, name, parent)
        name, category = name[part_of], category[part_of]
        idle = [i for i, (text, kind) in process.names.items() if text in (RESTS, GET, PUT) and kind == "iterator"]
        resting = np.isin(name, idle)
        resting &= (parent < 0) | resting[parent]  # at a queue, it waits for another thread
        called = _called(process, end)
        no_step = np.full(len(records), -1)
        table = np.stack([records["start"], end - records["start"], name, records["thread"], category, no_step])
        for number in np.unique(records["thread"]).tolist():
            # A thread that waits for its next task rests; only in the thread that drives the others it is a wait.
            rests = resting & (not process.threads.get(number, {"main": True})["main"])
            mine = table[:, (records["thread"] == number) & ~rests]
            if called[number].startswith("labkit ") or not _WORK.intersection(mine[4].tolist()):
                continue
            thread = Thread(_lane(process, number, called, numbers, me), "pipeline")
            mine[3] = threads.setdefault(thread, len(threads))
            mine[2] = [names.setdefault(process.names[i][0], len(names)) for i in mine[2].tolist()]
            rows.append(mine)
        if process.pid != me and (ready_ns := _is_ready(process)) > process.started_ns:
            thread = threads.setdefault(Thread(f"worker {numbers[process.pid]}", "pipeline"), len(threads))
            of = names.setdefault(WORKER, len(names)), thread, CATEGORIES.index("other"), -1
            rows.append(np.array([process.started_ns, ready_ns - process.started_ns, *of], np.int64)[:, None])
        works = np.isin(category, list(_WORK))
        called_ones = (inside > 0) & (part_of == np.arange(len(name)))
        sums = own_ns * inside, own_cpu * inside, own_ns * inside * unknown, called_ones
        for i in np.unique(name[works]).tolist():
            which = works & (name == i)
            total = times[process.names[i][0]]
            for place, some in enumerate(sums):
                total[place] += int(some[which].sum())
    columns = np.concatenate(rows, axis=1) if rows else np.zeros((6, 0), np.int64)
    run = Run(
        "measured",
        loader=replace(loader.facts, hidden=hidden, inside=_inside(processes)),
        # Whether an op computes or waits is not known where most of its time is not.
        op_times={
            name: OpTime(own, min(cpu, own), calls)
            for name, (own, cpu, lost, calls) in times.items()
            if 2 * lost <= own
        },
        dropped_spans=int(any(process.dropped for process in processes)),
        profiler=Profile(events=columns.shape[1]),
    )
    return Trace.of_columns(columns, names, threads, run)


def _inside(processes: Sequence[Process]) -> dict[str, dict[str, float]]:
    """Return for each op the share of its time that was seen in each function of a library."""
    counted = sum((process.inside for process in processes), Counter[tuple[str, str]]())
    total: Counter[str] = Counter()
    for (op, _), count in counted.items():
        total[op] += count
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for (op, called), count in counted.items():
        if called:
            found[op][called] = count / total[op]
    return dict(found)


def _works_beside(process: Process, me: int) -> bool:
    """Tell whether a process works in another thread than the consumer's: where none does, the consumer does all."""
    works = [i for i, (_, kind) in process.names.items() if kind in WORK]
    main = [number for number, facts in process.threads.items() if facts["main"]] if process.pid == me else []
    records = process.records
    return bool((np.isin(records["name"], works) & ~np.isin(records["thread"], main)).any())


def _ends(process: Process, now_ns: int) -> np.ndarray:
    """Return the end of each span: of one that is open, now, or the last sign of life of a process that has gone."""
    records = process.records
    ends = records["start"] + np.maximum(records["duration"], 0)
    return np.where(records["duration"] < 0, np.maximum(_last(process, now_ns), records["start"]), ends)


def _last(process: Process, now_ns: int) -> int:
    """Return the last sign of life of a process: now, where it still runs."""
    records = process.records
    ends = records["start"] + np.maximum(records["duration"], 0)
    return int(ends.max(initial=process.began_ns)) if _has_ended(process.pid) else now_ns


def _has_ended(pid: int) -> bool:
    """Tell whether a process has ended, whether its parent has waited for it (else it is a zombie) or not."""
    import psutil

    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def _own(
    process: Process, end: np.ndarray, inside: np.ndarray, clocks: Mapping[str, tuple[int, int]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the time of each span without those inside it, on the clock and of the processor.

    And which span each is in, -1 for none; and of whom the processor time is not known: it is 0 there.
    """
    records, length, cpu = process.records, end - process.records["start"], process.records["cpu"].copy()
    stacks: dict[int, list[int]] = defaultdict(list)
    stops, outer = end.tolist(), np.full(len(records), -1)
    for i, (start, thread) in enumerate(zip(records["start"].tolist(), records["thread"].tolist(), strict=True)):
        stack = stacks[thread]
        while stack and stops[stack[-1]] <= start:
            stack.pop()
        if stack:
            outer[i] = stack[-1]
        stack.append(i)
    _share_out(process, length, inside, cpu, outer < 0, clocks)
    unknown = cpu < 0
    cpu[unknown] = 0
    less_ns, less_cpu, inner = np.zeros(len(records), np.int64), np.zeros(len(records), np.int64), outer >= 0
    np.add.at(less_ns, outer[inner], length[inner])
    np.add.at(less_cpu, outer[inner], cpu[inner])
    return np.maximum(length - less_ns, 0), np.maximum(cpu - less_cpu, 0), outer, unknown


def _share_out(
    process: Process, length: np.ndarray, inside: np.ndarray, cpu: np.ndarray, outermost: np.ndarray,
    clocks: Mapping[str, tuple[int, int]],
) -> None:  # fmt: skip
    """Give open spans what their thread computed beside all that was closed; what may wait for others waits."""
    records, is_open = process.records, process.records["duration"] < 0
    waits = np.isin(records["name"], [i for i, (_, kind) in process.names.items() if kind.endswith("iterator")])
    cpu[is_open & waits] = 0
    for number in np.unique(records["thread"][is_open & ~waits]).tolist():
        if (clock := _clock(process, number, clocks)) is not None:
            mine = records["thread"] == number
            closed = (np.maximum(cpu, 0) * inside)[mine & outermost & ~is_open].sum()
            time = (length * inside)[mine & outermost & is_open].sum()
            share = min(1, max(0, clock[0] - closed) / max(1, time))
            cpu[mine & is_open & ~waits] = length[mine & is_open & ~waits] * share


def _clock(process: Process, number: int, clocks: Mapping[str, tuple[int, int]]) -> tuple[int, int] | None:
    """Return how long a thread had a core in the window, and waited for one; None where nobody knows."""
    return clocks.get(str(process.threads.get(number, {}).get("native")))


def _had_core(process: Process, clocks: Mapping[str, tuple[int, int]], ready: float) -> np.ndarray:
    """Return for each span the share of the time in which its thread had a core when it wanted one.

    A thread of its own measure: one that wakes for a moment on a busy machine is queued for most of it, and still
    waits; its neighbours that compute say nothing about it.
    """
    found = np.full(len(process.records), ready)
    for number in np.unique(process.records["thread"]).tolist():
        computed, queued = _clock(process, number, clocks) or (0, 0)
        if computed:
            found[process.records["thread"] == number] = computed / (computed + queued)
    return found


def _categories(process: Process, computes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the category of each span, and the number of its name."""
    name = process.records["name"].astype(np.int64)
    first, other = np.zeros(len(name), np.int64), np.zeros(len(name), np.int64)
    for i in np.unique(name).tolist():
        one, _, second = process.names.get(i, ("", "other"))[1].partition(":")
        first[name == i], other[name == i] = CATEGORIES.index(one), CATEGORIES.index(second or one)
    return np.where(computes, first, other), name


def within_calls(process: Process, name: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Return for each span the one that it is part of: itself, or the reader's call that talks to another process."""
    texts = {i: text for i, (text, _) in process.names.items()}
    pipes = [i for i, text in texts.items() if text in (*PIPE, "pickle", "unpickle")]
    part_of = np.arange(len(name))
    for i in np.flatnonzero(np.isin(name, pipes)).tolist():
        outer = parent[i]
        while outer >= 0 and not texts.get(name[outer], "").endswith((".__getitem__", "collate")):
            outer = parent[outer]
        part_of[i] = outer if outer >= 0 else i
    return part_of


def _numbers(workers: Sequence[Process], now_ns: int) -> dict[int, int]:
    """Give each worker process a number: one that begins when another one has ended takes its place."""
    lives = sorted((process.started_ns, _last(process, now_ns), process.pid) for process in workers)
    start, end, pids = np.array(lives, np.int64).reshape(-1, 3).T
    return dict(zip(pids.tolist(), depths(start, end).tolist(), strict=True))


def _called(process: Process, end: np.ndarray) -> dict[int, str]:
    """Return what each thread is called: one that begins when one of its kind has ended takes its place and its name.

    A pool that is made for each batch has threads of new numbers each time, and is as busy as one that lives on.
    """
    kinds: dict[str, list[tuple[int, str]]] = defaultdict(list)
    numbers, first_rows, thread_of = np.unique(process.records["thread"], return_index=True, return_inverse=True)
    starts, ends = process.records["start"][first_rows], np.zeros(len(numbers), np.int64)
    np.maximum.at(ends, thread_of, end)
    for i in np.argsort(first_rows).tolist():  # the records are in the order of their starts
        called = process.threads.get(int(numbers[i]), {"called": "a thread"})["called"]
        called = called.replace("QueueFeederThread", "sends")
        kinds[re.sub(r"\d+", "", called)].append((i, called))
    found = {}
    for those in kinds.values():
        names, these = {}, [i for i, _ in those]
        for place, (i, called) in zip(depths(starts[these], ends[these]).tolist(), those, strict=True):
            found[int(numbers[i])] = names.setdefault(place, called)
    return found


def _lane(process: Process, number: int, called: dict[int, str], numbers: dict[int, int], me: int) -> str:
    """Return what the lane of a thread is called."""
    main = process.threads.get(number, {"main": False})["main"]
    if process.pid == me:
        return WITH_CONSUMER if main else f"thread {called[number]}"
    return f"worker {numbers[process.pid]}" + ("" if main else f" · {called[number]}")


def _is_ready(process: Process) -> int:
    """Return when a worker has started: with the first thing that its framework does after a ``worker_init_fn``.

    Workers of Grain begin with a step of Grain, and all other workers with the wait for their first task. A process
    that hands something over before that is not such a worker.
    """
    records, kinds = process.records, {i: text for i, (text, _) in process.names.items()}
    of_grain = np.isin(records["name"], [i for i, text in kinds.items() if text.startswith("Grain ")])
    main = [number for number, facts in process.threads.items() if facts["main"]]
    at_queue = np.isin(records["name"], [i for i, text in kinds.items() if text in (GET, PUT)])
    does = records[of_grain if of_grain.any() else at_queue & np.isin(records["thread"], main)]
    waits = len(does) > 0 and kinds[int(does["name"][0])] != PUT
    return int(does["start"][0]) if waits else process.began_ns


def open_spans(processes: Sequence[Process], now_ns: int) -> Iterator[tuple[str, bool]]:
    """Yield a sentence for each worker process with an open span, and whether the process still runs."""
    me = os.getpid()
    numbers = _numbers([one for one in processes if one.pid != me], now_ns)
    for process in processes:
        is_open = process.records["duration"] < 0
        # Of several threads, the one that works for the loader is the first.
        main = [number for number, facts in process.threads.items() if facts["main"]]
        mine = is_open & np.isin(process.records["thread"], main)
        which = mine if mine.any() else is_open
        if process.pid == me or not which.any():
            continue
        inside = [process.names[i][0] for i in process.records["name"][which].tolist() if i in process.names]
        runs = not _has_ended(process.pid)
        length = (_ends(process, now_ns)[which][-1] - process.records["start"][which][-1]) / 1e6
        place = " > ".join(inside[-3:])
        when = f"has been in {place} for {length:,.0f} ms" if runs else f"was in {place} when it ended"
        yield f"worker {numbers[process.pid]} {when}", runs
