"""A student's process from the grader's side: started, asked, watched, ended.

The grader holds the truth, the process holds the student's functions, and only data passes between them. So a student
can replace labkit, the checks, `==` or the whole interpreter in that process: the right answers are not in it, and what
is right is not decided there. What may be reached is limited by `assignments.grader.box`.
"""

from __future__ import annotations

import builtins
import concurrent.futures
import contextlib
import dataclasses
import multiprocessing
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from assignments.grader import box, messages
from assignments.grader.messages import Reply, Request

GRADER = Path(__file__).resolve().parent
#: What a student's code may import of the lab.
PARTS = [Path(s.origin).resolve().parent for s in map(find_spec, ("labkit", "labcourse", "labextras")) if s]
#: The folder of the grader is in nobody's search path when a student's code runs: the problem sets lie beside it.
_START = """
import sys
sys.path.insert(0, sys.argv.pop())
from assignments.grader import code_runner
del sys.path[0]
code_runner.main(int(sys.argv.pop()))
"""

#: Threads beyond those that libraries start; what bubblewrap's first process starts: its second, and Python.
_MOST_THREADS, _IN_A_BOX = 500, 2
#: A submission ends where the machine has less memory left than this: what no process owns is seen by nothing else.
LEAST_FREE = 512 << 20
#: Seconds until a process has started: TensorFlow's import is in them, and the student's limits are not.
_STARTING_S = 180.0
#: Of the processor time that is left, what one cell or one call may take: whatever loops, some is left for the others.
#: Packages are imported in cells.
_CELL, _CALL = 1 / 2, 1 / 3
#: So much of the limit is left out of that: on busy cores the clock of the limit, which counts ticks, may run ahead.
_RESERVE = 1 / 5
#: A process whose pipe has closed ends within so many seconds, or it has closed the pipe itself.
_ENDING_S = 5


class Stopped(Exception):
    """The student's process had to be ended, or ended itself; the message is a sentence for the instructor."""


class DidNotEnd(Exception):
    """A call of a student's function was interrupted; the message is a sentence for the student."""

    by_student = True


@dataclass(frozen=True)
class Limits:
    """What a submission may use.

    Parameters
    ----------
    cpu_s : int
        Processor seconds of the whole process, imports included; a slow or busy machine does not make them shorter. A
        cell is interrupted after about half of those that are left, a call after a third; what cannot be interrupted
        ends with all of them.
    wall_s : float
        Seconds until an answer to one request, or the end of one cell, must be there. Ends what waits without an end.
        A cell or a call is interrupted after half of them, so that it alone is lost.
    memory_mb : int
        Address space.
    whole_s : float
        Seconds for the whole submission: many cells that each wait a little would keep the others from their grades.
    judging_s : float
        Seconds for which the grader itself works on one test; waiting for an answer is not in them.
    resident_mb : int
        Memory that is really taken, which is looked at five times a second.
    """

    cpu_s: int = 20
    wall_s: float = 60
    memory_mb: int = 2048
    whole_s: float = 300
    judging_s: float = 20
    resident_mb: int = 2048

    def with_tensorflow(self) -> Limits:
        """Return the limits of a notebook that uses TensorFlow: importing it alone takes seconds and half a gigabyte.

        Of what it maps, some megabytes for each of its threads, it takes little.
        """
        return dataclasses.replace(
            self,
            cpu_s=self.cpu_s + 40,
            wall_s=self.wall_s + 60,
            memory_mb=self.memory_mb + 4096 + 128 * (os.cpu_count() or 1),
            whole_s=self.whole_s + 60,
            resident_mb=self.resident_mb + 1024,
        )


class StudentProcess:
    """One submission's process; a context manager.

    Parameters
    ----------
    cells : sequence of str
        The student's code cells in order, tests left out.
    forbidden : sequence of Path
        Where answers, grades and others' submissions are.
    limits : Limits
    tensorflow : bool
        Whether the cells need it.
    trust : bool
        Whether it runs without the box.

    Attributes
    ----------
    printed, errors : list
        Of each cell: what it printed; ``(type, message)`` of its exception, or None.
    waits : bool
        Whether the process is being waited for, so that the grader itself does nothing.

    Raises
    ------
    Stopped
        If a cell did what is not allowed.
    RuntimeError
        If the process does not start, or the machine has no memory left.
    ValueError
        If there is no box here, and `trust` is false.
    """

    def __init__(
        self,
        cells: Sequence[str],
        forbidden: Sequence[Path],
        limits: Limits,
        tensorflow: bool = False,
        trust: bool = False,
    ) -> None:
        if not trust:
            box.require()
        self.limits = limits
        self.printed: list[str] = []
        self.errors: list[tuple[str, str] | None] = []
        self.waits = False
        self._wall_s, self._end = _STARTING_S, time.monotonic() + _STARTING_S
        self._spent_s = 0.0
        self._trust = trust
        self._ending = contextlib.ExitStack()  # what comes last goes first
        try:
            self._launch(forbidden)
            job = messages.Job(limits.cpu_s, limits.memory_mb, tensorflow, os.getpid() if trust else None)
            try:
                self._ask("while it started", job)
            except Stopped as stop:  # nothing of the student's has run yet: it is this machine's fault
                raise RuntimeError(f"a student's process {stop}") from None
            self._wall_s, self._end = limits.wall_s, time.monotonic() + limits.whole_s
            with contextlib.suppress(psutil.Error, OSError):
                self._watched = [self._first, *self._first.children(recursive=True)][-1]
                # Where memory is short for the system, it ends this process before any other.
                Path(f"/proc/{self._watched.pid}/oom_score_adj").write_text("1000", encoding="ascii")
            for source in cells:
                self.run(source)
        except BaseException:
            self.close()
            raise

    def _launch(self, forbidden: Sequence[Path]) -> None:
        """Start Python, in a box or in a folder of its own; keep one end of a pipe."""
        home, before = box.HOME, []
        if self._trust:
            folder = tempfile.TemporaryDirectory(prefix="labkit-student-", ignore_cleanup_errors=True)
            home = Path(self._ending.enter_context(folder)).resolve()
        else:
            before = box.command([*PARTS, GRADER], forbidden)
        self._connection, theirs = multiprocessing.Pipe()
        self._ending.enter_context(self._connection)
        self._talking = concurrent.futures.ThreadPoolExecutor(1)
        self._ending.callback(self._talking.shutdown)
        nobody, prints = os.pipe()  # no device of the machine: root could change it through an open file
        os.close(nobody)
        with theirs, open(prints, "wb") as output:
            process = subprocess.Popen(
                [*before, sys.executable, "-c", _START, str(theirs.fileno()), str(GRADER.parent.parent)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=home if self._trust else "/",
                env=_environment(home),
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        self.process, self._first = process, psutil.Process(process.pid)
        self._watched = self._first
        self._ending.callback(self._kill)

    def __enter__(self) -> StudentProcess:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self.close()

    def run(self, source: str) -> None:
        """Run one more cell; note what it printed and how it failed."""
        number = len(self.printed) + 1
        reply = self._ask(f"in code cell {number}", self._request("cell", _CELL, source=source, number=number))
        self.printed.append(reply.printed)
        self.errors.append(reply.error)

    def names(self, wanted: Sequence[str]) -> dict[str, Any]:
        """Return those of the names that the student has defined: functions to call from here, and plain data."""
        stage = "after its cells"
        there = _unpacked(self._ask(stage, self._request("names", _CALL, names=list(wanted))))
        if not isinstance(there, dict):
            raise Stopped("tampered with its answers: a list of names was asked for")
        return {
            name: Function(self, name) if is_function else self.value(stage, "get", name)
            for name, is_function in there.items()
            if name in wanted
        }

    def value(self, stage: str, do: str, name: str, **more: Any) -> Any:
        """Return the plain data that a request is answered with, or raise what was raised there."""
        request = self._request(do, _CALL, name=name, **more)
        reply = self._ask(stage, request)
        if reply.error and reply.error[0] == "KeyboardInterrupt" and "was interrupted after" in reply.error[1]:
            within = f"{request.busy_s:g} s of processor time or {request.wait_s:g} s of waiting"
            raise DidNotEnd(f"{name} did not come to an end within {within}")
        if reply.error:
            kind, words = reply.error
            found = getattr(builtins, kind, None)
            fits = isinstance(found, type) and issubclass(found, Exception) and found is not UnicodeDecodeError
            try:
                raised = found(words) if fits else RuntimeError(words)
            except TypeError:
                raised = RuntimeError(words)
            raised.by_student = True
            raise raised
        return _unpacked(reply)

    def _request(self, do: str, share: float, **more: Any) -> Request:
        """Return a request that says after how many seconds it is interrupted: of processor time, and of waiting."""
        busy_s = max(0.05, share * ((1 - _RESERVE) * self.limits.cpu_s - self._spent_s))
        return Request(secrets.token_hex(8), do, round(busy_s, 2), self.limits.wall_s / 2, **more)

    def _ask(self, stage: str, request: Request | messages.Job) -> Reply:
        """Send a request and return the reply; meanwhile let nobody wait for longer than allowed.

        A thread reads and writes, since each may wait for ever: for a process that does not read, or that announces
        a message and does not send it. It ends with the process.
        """
        deadline = time.monotonic() + self._wall_s
        self.waits = True
        try:
            talk = self._talking.submit(_talk, self._connection, messages.encode(request))
            while not talk.done():
                now = time.monotonic()
                if now > deadline:
                    raise Stopped(f"did not come to an end within {self._wall_s:g} s {stage}")
                if now > self._end:
                    raise Stopped(f"did not come to an end within {self.limits.whole_s:g} s in all {stage}")
                self._watch(stage)
                concurrent.futures.wait([talk], 0.2)
        finally:
            self.waits = False
        try:
            reply = messages.read(talk.result())
        except (EOFError, ConnectionError):
            raise Stopped(self._how_it_ended(stage)) from None
        except OSError:
            most = f"{messages.MOST_BYTES >> 20} MB"
            raise Stopped(f"answered with more than {most}, or wrote into the pipe of the grader {stage}") from None
        except ValueError:
            raise Stopped(f"wrote into the pipe of the grader {stage}") from None
        self._watch(stage)
        if reply.ended:
            raise Stopped(f"{reply.ended} {stage}")
        if reply.id != getattr(request, "id", ""):
            raise Stopped(f"sent an answer that nobody asked for {stage}")
        return reply

    def _watch(self, stage: str) -> None:
        """Look at what the system does not limit: memory that is really taken, threads, other processes."""
        if psutil.virtual_memory().available < LEAST_FREE:
            raise RuntimeError(f"less than {LEAST_FREE >> 20} MB of memory are left on this machine")
        with contextlib.suppress(psutil.Error):
            times = self._watched.cpu_times()
            self._spent_s = times.user + times.system
            if self._watched.memory_info().rss > self.limits.resident_mb << 20:
                raise Stopped(f"took more memory than allowed {stage}")
            if self._watched.num_threads() > _MOST_THREADS:
                raise Stopped(f"started more than {_MOST_THREADS} threads {stage}")
            if not self._trust and len(self._first.children(recursive=True)) > _IN_A_BOX:
                raise Stopped(f"started other processes {stage}")

    def _how_it_ended(self, stage: str) -> str:
        try:
            code = self.process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            return f"closed the pipe of the grader {stage}"
        if not self._trust and code > 128:
            code = 128 - code  # so bubblewrap says which signal ended what it started
        if code == -signal.SIGXCPU or (code == -signal.SIGKILL and self._spent_s > 0.8 * self.limits.cpu_s):
            return f"did not come to an end within {self.limits.cpu_s} s of processor time {stage}"
        if code < 0:
            name = next((s.name for s in signal.Signals if s == -code), f"signal {-code}")
            return f"crashed its process ({name}) {stage}"
        return f"ended its own process (exit status {code}) {stage}"

    def _kill(self) -> None:
        processes = [self._first]
        with contextlib.suppress(psutil.Error):
            processes += self._first.children(recursive=True)
        for process in processes:  # the end of the first process in a box is that of all
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, _ENDING_S)
        self.process.wait()

    def close(self) -> None:
        """End the process with all that it started, and delete its folder."""
        self._ending.close()


def _unpacked(reply: Reply) -> Any:
    try:
        return messages.unpack(reply.value)
    except ValueError as problem:
        raise Stopped(f"tampered with its answers: {problem}") from None


def _talk(connection: Connection, data: bytes) -> bytes:
    with contextlib.suppress(BrokenPipeError):  # it has ended: reading says how
        connection.send_bytes(data)
    return connection.recv_bytes(messages.MOST_BYTES)


class Function:
    """A student's function, called in the student's process: data in, data out."""

    def __init__(self, student: StudentProcess, name: str) -> None:
        self._student = student
        self.__name__ = name

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return what it returned, or raise what it raised."""
        return self._call("call", arguments, keywords)

    def inspect_pipeline(self, *arguments: Any, most: int) -> Any:
        """Return what `labcourse.inspection` says of the pipeline that it returned."""
        return self._call("inspect", arguments, {}, most=most)

    def _call(self, do: str, arguments: tuple, keywords: dict[str, Any], **more: Any) -> Any:
        sent = {"arguments": messages.pack(arguments), "keywords": messages.pack(keywords), **more}
        return self._student.value(f"when {self.__name__} was called", do, self.__name__, **sent)


def _environment(home: Path) -> dict[str, str]:
    """Return all that the process learns of its surroundings."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(map(str, [PARTS[0].parent, *box.packages()])),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "MPLBACKEND": "Agg",
        "OPENBLAS_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "CUDA_VISIBLE_DEVICES": "",
    }
