"""Workers in a recording of another loader than tf.data, and whether they wait for a core or for the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from labkit.timeline.causes.effort import computed, queued, wanted
from labkit.timeline.causes.per_gap import CORE, GIL
from labkit.timeline.causes.thresholds import ASKS, INTERPRETER_FULL, ONE_BY_ONE, ONE_CORE, QUEUED, TAKES_TURNS
from labkit.timeline.intervals import union_of
from labkit.timeline.lanes import Lane
from labkit.timeline.run import Run
from labkit.timeline.wording import WITH_CONSUMER

#: A lane is a worker if it works for at least this share of the window.
_WORKER = 0.01

#: The share of the time without computing from which it counts as mostly waiting for a core, or the interpreter.
_MOSTLY = 0.5


class WorkerWaits:
    """Workers, and whether they wait for a core, or for the interpreter.

    Parameters
    ----------
    lanes : sequence of Lane
        The accelerator first.
    run : Run
        Of a loader.
    """

    def __init__(self, lanes: Sequence[Lane], run: Run) -> None:
        self.run, self.trains, self.cores = run, lanes[0], run.host.cpus or 1
        working = [lane for lane in lanes if lane.kind == "pipeline" and lane.share >= _WORKER]
        # Beside other processes, the lanes of each begin with its name.
        self._prefix = lanes[0].name.removesuffix("accelerator")
        self.processes = any(self._name(lane).startswith("worker ") for lane in lanes)
        self.worker_lanes = [lane for lane in working if self._name(lane) != WITH_CONSUMER]
        self.consumer = [lane for lane in working if self._name(lane) == WITH_CONSUMER]
        # True if all workers are threads of the consumer's own process.
        self.threads = all(self._name(lane).startswith("thread ") for lane in self.worker_lanes)

    def _name(self, lane: Lane) -> str:
        return lane.name.removeprefix(self._prefix)

    @cached_property
    def at_once(self) -> float:
        """How many threads of all processes work at once, on average over the time that any does."""
        any_ns = union_of(lane.busy for lane in self.worker_lanes).total_ns
        return sum(lane.busy.total_ns for lane in self.worker_lanes) / any_ns if any_ns else 0.0

    @cached_property
    def lacks_cores(self) -> bool:
        """Whether ops that were open without computing were mostly ready, and waited for a core."""
        waited = sum(one.open_ns - one.computed_ns for one in self.run.op_times.values())
        return queued(self.run) >= max(QUEUED * self.trains.window_ns, _MOSTLY * waited)

    @cached_property
    def asks(self) -> bool | None:
        """Whether threads woke all the time to ask for the interpreter while ops waited; None where nobody counted."""
        threads = self.run.processor.threads if self.run.processor else ()
        counted = any(one.pauses for one in threads)
        if not counted or computed(self.run) < _MOSTLY * self._all_of_it * self._asked_ns:  # most have ended before
            return None
        asked = sum(one.blocked_ns for one in threads if one.pauses * 1e9 >= ASKS * one.blocked_ns)
        waited = sum(one.open_ns for one in self.run.op_times.values()) - self._all_of_it * self._asked_ns
        return asked >= _MOSTLY * (waited - queued(self.run))

    @cached_property
    def _asked_ns(self) -> int:
        return sum(one.computed_ns for one in self.run.op_times.values())

    @cached_property
    def _works_ns(self) -> int:
        lanes = self.worker_lanes
        return max(1, union_of(lane.busy for lane in lanes).total_ns if lanes else self.trains.window_ns)

    @cached_property
    def _processes_ns(self) -> float:
        """How long all processes had a core: exact if it was recorded, else estimated from the calls with a clock."""
        return self.run.tree.cpu_s * 1e9 if self.run.tree else self._asked_ns

    @cached_property
    def _all_of_it(self) -> float:
        """A factor for the processor time of ops, which is a sample: all ops took no more of it than all processes."""
        return min(1.0, self._processes_ns / max(1, self._asked_ns))

    def share(self, name: str) -> float:
        """Return the share of its time in which an op had a core; its calls are a sample, see `_all_of_it`."""
        one = self.run.op_times[name]
        return self._all_of_it * one.computed_ns / max(1, one.open_ns)

    @cached_property
    def held_up(self) -> dict[str, dict[int, float]]:
        """The share of the time of each op in which its calls waited for a core, or for the interpreter, by cause.

        The computed time of an op is known as a sum over the window, and so is the share of the time in which ready
        threads had a core. The rest may be a wait for anything. It counts as a wait for the interpreter on three
        conditions: the threads of one process keep about one core busy, they would do so if all of them were in this
        op, and they were recorded when they asked for the interpreter.
        """
        crowded = queued(self.run) >= QUEUED * self.trains.window_ns
        several = self.asks and self.threads and self.at_once >= ONE_BY_ONE and self.cores > 1 and not self.lacks_cores
        turns = several and TAKES_TURNS <= self._processes_ns / self._works_ns <= ONE_CORE
        found = {}
        for name, one in self.run.op_times.items():
            share = self.share(name)
            ready = wanted(share, one.open_ns, self.run) if crowded else share
            found[name] = {CORE: ready - share}
            if turns and share * self.at_once >= INTERPRETER_FULL:
                found[name][GIL] = 1 - ready
        return found
