"""A student's process from the grader's side: started, asked, watched, ended.

The grader holds the truth, the process holds the student's functions, and only data passes between them. So a student
can replace labkit, the checks, `==` or the whole interpreter in that process: the right answers are not in it, and what
is right is not decided there. Time, memory, and what may be reached are limited by bubblewrap, where it is at hand, and
by `assignments.grader.isolation`.
"""

from __future__ import annotations

import builtins
import concurrent.futures
import contextlib
import itertools
import json
import multiprocessing
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

import labkit
from assignments.grader import bubblewrap, isolation, messages

_GRADER, _LABKIT = Path(__file__).resolve().parent, Path(labkit.__file__).resolve().parent
#: The folder of the grader is in nobody's search path when a student's code runs: the problem sets lie beside it.
_START = """
import sys
sys.path.insert(0, sys.argv.pop())
from assignments.grader import code_runner
del sys.path[0]
code_runner.main(int(sys.argv.pop()))
"""

#: What the process may say that it tried. What follows is quoted: a student can write into the pipe, too.
_BREACHES = (
    "took more memory than allowed",
    "tried to start processes",
    "tried to read the answers or the work of others",
    "tried to look into another process",
)
#: Files of a submission, in all; threads beyond those that libraries start.
_MOST_WRITTEN, _MOST_ENTRIES, _MOST_THREADS = 512 << 20, 10_000, 500
#: Seconds until a process has started: TensorFlow's import is in them, and the student's limits are not.
_STARTING_S = 180.0
#: A process whose pipe has closed ends within so many seconds, or it has closed the pipe itself.
_ENDING_S = 5


class Stopped(Exception):
    """The student's process had to be ended, or ended itself; the message is a sentence for the instructor."""


@dataclass(frozen=True)
class Limits:
    """What a submission may use.

    Parameters
    ----------
    cpu_s : int
        Processor seconds of the whole process, imports included. A loop without an end ends here, and a slow or
        busy machine does not make it shorter.
    wall_s : float
        Seconds until an answer to one request, or the end of one cell, must be there. Ends what waits without an end.
    memory_mb : int
        Address space.
    whole_s : float
        Seconds for the whole submission: many cells that each wait a little would keep the others from their grades.
    """

    cpu_s: int = 20
    wall_s: float = 60
    memory_mb: int = 2048
    whole_s: float = 300

    def with_tensorflow(self) -> Limits:
        """Return the limits of a notebook that uses TensorFlow: importing it alone takes seconds and maps gigabytes."""
        return Limits(self.cpu_s + 40, self.wall_s + 60, self.memory_mb + 8192, self.whole_s + 60)

    def __post_init__(self) -> None:
        """Refuse limits that nothing could keep."""
        for name, least in (("cpu_s", 1), ("wall_s", 0.1), ("memory_mb", 256), ("whole_s", 0.1)):
            if not getattr(self, name) >= least:
                raise ValueError(f"{name} is {getattr(self, name)}; allowed: {least} or more")


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
    in_bubblewrap : bool, optional
        Whether bubblewrap starts it; by default, if that can be used here.

    Attributes
    ----------
    protections : dict of str to bool
        Which protections hold on this machine; the names are those of `isolation.MISSING`.
    printed, errors : list
        Of each cell: what it printed; ``(type, message)`` of its exception, or None.

    Raises
    ------
    Stopped
        If a cell did what is not allowed.
    RuntimeError
        If the process does not start.
    """

    def __init__(
        self,
        cells: Sequence[str],
        forbidden: Sequence[Path],
        limits: Limits,
        tensorflow: bool = False,
        in_bubblewrap: bool | None = None,
    ) -> None:
        if os.name != "posix":
            raise OSError("submissions are run with limits that only Linux and macOS have: grade on one of these")
        self.limits = limits
        self.printed: list[str] = []
        self.errors: list[tuple[str, str] | None] = []
        self.home = Path(tempfile.mkdtemp(prefix="labkit-student-")).resolve()
        self._wall_s, self._end = _STARTING_S, time.monotonic() + _STARTING_S
        self._files_seen = self._spent_s = 0.0
        self._in_bubblewrap = bubblewrap.works() if in_bubblewrap is None else in_bubblewrap
        self._ending = contextlib.ExitStack()  # what comes last goes first
        self._ending.callback(_delete, self.home)
        readable = [*isolation.python_folders(), _LABKIT, _GRADER]
        try:
            self._launch(bubblewrap.command(self.home, readable, forbidden) if self._in_bubblewrap else [])
            try:
                self.protections: dict[str, bool] = self._ask(
                    "while it started",
                    parent=os.getpid(),
                    home=str(self.home),
                    readable=[str(path) for path in readable],
                    forbidden=[str(path) for path in forbidden],
                    tensorflow=tensorflow,
                    cpu_s=limits.cpu_s,
                    memory_mb=limits.memory_mb,
                    in_bubblewrap=self._in_bubblewrap,
                )["value"]
            except Stopped as stop:  # nothing of the student's has run yet: it is this machine's fault
                raise RuntimeError(f"a student's process {stop}") from None
            self._wall_s, self._end = limits.wall_s, time.monotonic() + limits.whole_s
            with contextlib.suppress(psutil.Error):  # bubblewrap's own processes stand before it
                self._watched = [self._watched, *self._watched.children(recursive=True)][-1]
            for source in cells:
                self.run(source)
        except BaseException:
            self.close()
            raise

    def _launch(self, before: list[str]) -> None:
        """Start Python behind the words of bubblewrap, if there are any; keep one end of a pipe."""
        self._connection, theirs = multiprocessing.Pipe()
        self._ending.enter_context(self._connection)
        self._talking = concurrent.futures.ThreadPoolExecutor(1)
        self._ending.callback(self._talking.shutdown)
        with theirs:
            self.process = subprocess.Popen(
                [*before, sys.executable, "-c", _START, str(theirs.fileno()), str(_GRADER.parent.parent)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self.home,
                env=_environment(self.home),
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        self._watched = psutil.Process(self.process.pid)
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
        reply = self._ask(f"in code cell {number}", do="cell", source=source, number=number)
        self.printed.append(readable(reply.get("printed", ""), 10_000))
        self.errors.append(_error(reply))

    def names(self, wanted: Sequence[str]) -> dict[str, Any]:
        """Return those of the names that the student has defined: functions to call from here, and plain data."""
        there = self._ask("after its cells", do="names", names=list(wanted)).get("value")
        if not isinstance(there, dict):
            raise Stopped("tampered with its answers: a list of names was asked for")
        return {
            name: Function(self, name) if is_function else self.value("after its cells", do="get", name=name)
            for name, is_function in there.items()
            if name in wanted
        }

    def value(self, stage: str, **request: Any) -> Any:
        """Return the plain data that a request is answered with, or raise what was raised there."""
        reply = self._ask(stage, **request)
        if error := _error(reply):
            kind, words = error
            found = getattr(builtins, kind, None)
            fits = isinstance(found, type) and issubclass(found, Exception) and found is not UnicodeDecodeError
            try:
                raised = found(words) if fits else RuntimeError(words)
            except TypeError:
                raised = RuntimeError(words)
            raised.by_student = True
            raise raised
        try:
            return messages.unpack(reply.get("value"))
        except ValueError as problem:
            raise Stopped(f"tampered with its answers: {problem}") from None

    def _ask(self, stage: str, **request: Any) -> dict[str, Any]:
        """Send a request and return the reply; meanwhile let nobody wait for longer than allowed.

        A thread reads and writes, since each may wait for ever: for a process that does not read, or that announces
        a message and does not send it. It ends with the process.
        """
        request["id"] = secrets.token_hex(8)
        deadline = time.monotonic() + self._wall_s
        talk = self._talking.submit(_talk, self._connection, json.dumps(request).encode())
        while not talk.done():
            now = time.monotonic()
            if now > deadline:
                raise Stopped(f"did not come to an end within {self._wall_s:g} s {stage}")
            if now > self._end:
                raise Stopped(f"did not come to an end within {self.limits.whole_s:g} s in all {stage}")
            self._watch(stage)
            concurrent.futures.wait([talk], 0.2)
        try:
            reply = json.loads(talk.result())
            self._watch(stage)
            if "breach" in reply:
                words = readable(reply["breach"], 300)
                known = next(k for k in _BREACHES if words.startswith(k))
                said = words.removeprefix(known).strip()
                raise Stopped(f"{known} {f'({said!r}) ' if said else ''}{stage}")
            if reply["id"] != request["id"]:
                raise Stopped(f"sent an answer that nobody asked for {stage}")
        except (EOFError, ConnectionError):
            raise Stopped(self._how_it_ended(stage)) from None
        except OSError:
            most = f"{messages.MOST_BYTES >> 20} MB"
            raise Stopped(f"answered with more than {most}, or wrote into the pipe of the grader {stage}") from None
        except (ValueError, TypeError, KeyError, RecursionError, StopIteration):
            raise Stopped(f"wrote into the pipe of the grader {stage}") from None
        return reply

    def _watch(self, stage: str) -> None:
        """Look at what the system does not limit: memory (on some), threads, all files together."""
        with contextlib.suppress(psutil.Error):
            times = self._watched.cpu_times()
            self._spent_s = times.user + times.system
            if self._watched.memory_info().rss > self.limits.memory_mb << 20:
                raise Stopped(f"took more memory than allowed {stage}")
            if self._watched.num_threads() > _MOST_THREADS:
                raise Stopped(f"started more than {_MOST_THREADS} threads {stage}")
        if time.monotonic() - self._files_seen > 1:
            self._files_seen = time.monotonic()
            entries = written = 0
            try:
                for size in itertools.chain(self._deleted_files(), self._files()):
                    entries, written = entries + 1, written + size
                    if entries > _MOST_ENTRIES or written > _MOST_WRITTEN:
                        raise Stopped(f"wrote more files than allowed {stage}")
            except OSError as error:  # a folder without rights, or a path too long for the system
                raise Stopped(f"wrote files where they cannot be counted ({error.strerror}) {stage}") from None

    def _files(self) -> Iterator[int]:
        """Yield the bytes of each file in its folder; a folder has none."""
        folders = [self.home]
        while folders:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folders.pop()) as inside:
                for entry in inside:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    folders += [entry.path] if is_folder else []
                    size = 0
                    with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                        size = 0 if is_folder else _bytes(entry.stat(follow_symlinks=False))
                    yield size

    def _deleted_files(self) -> list[int]:
        """Return the bytes of each file that is deleted and still open (Linux): the disk holds it all the same."""
        sizes = {}
        with contextlib.suppress(OSError), os.scandir(f"/proc/{self._watched.pid}/fd") as handles:
            for handle in handles:
                with contextlib.suppress(OSError):  # closed meanwhile
                    if os.readlink(handle.path).endswith(" (deleted)"):
                        file = os.stat(handle.path)
                        sizes[file.st_dev, file.st_ino] = _bytes(file)
        return list(sizes.values())

    def _how_it_ended(self, stage: str) -> str:
        try:
            code = self.process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            return f"closed the pipe of the grader {stage}"
        if self._in_bubblewrap and code > 128:
            code = 128 - code  # so bubblewrap says which signal ended what it started
        if code == -signal.SIGSYS:
            return f"used the system calls of another architecture {stage}"
        if code == -signal.SIGXCPU or (code == -signal.SIGKILL and self._spent_s > 0.8 * self.limits.cpu_s):
            return f"did not come to an end within {self.limits.cpu_s} s of processor time {stage}"
        if code < 0:
            name = next((s.name for s in signal.Signals if s == -code), f"signal {-code}")
            return f"crashed its process ({name}) {stage}"
        return f"ended its own process (exit status {code}) {stage}"

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        with contextlib.suppress(psutil.Error):  # bubblewrap goes before what it has started
            self._watched.wait(_ENDING_S)

    def close(self) -> None:
        """End the process with all that it started, and delete its folder."""
        self._ending.close()


def _bytes(file: os.stat_result) -> int:
    """Return what a file takes: its blocks may lie behind its end, and its end behind its blocks."""
    return max(file.st_size, 512 * file.st_blocks)


def _talk(connection: Connection, data: bytes) -> bytes:
    with contextlib.suppress(BrokenPipeError):  # it has ended: reading says how
        connection.send_bytes(data)
    return connection.recv_bytes(messages.MOST_BYTES)


def _error(reply: dict[str, Any]) -> tuple[str, str] | None:
    """Return the type and the words of the exception that a reply tells of, or None."""
    error = reply.get("error")
    parts = [readable(part, 500) for part in error[:2]] if isinstance(error, list) else []
    return (*parts, "", "")[:2] if error else None


class Function:
    """A student's function, called in the student's process: data in, data out."""

    def __init__(self, student: StudentProcess, name: str) -> None:
        self._student = student
        self.__name__ = name

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return what it returned, or raise what it raised."""
        return self._call(arguments, keywords, do="call")

    def inspect_pipeline(self, *arguments: Any, most: int) -> Any:
        """Return what `labkit.course.inspection` says of the pipeline that it returned."""
        return self._call(arguments, {}, do="inspect", most=most)

    def _call(self, arguments: tuple, keywords: dict[str, Any], **request: Any) -> Any:
        sent = {"arguments": messages.pack(arguments), "keywords": messages.pack(keywords)}
        return self._student.value(f"when {self.__name__} was called", name=self.__name__, **sent, **request)


def readable(value: Any, most: int) -> str:
    """Return text that every file and terminal can take, cut off: half of a surrogate pair becomes its number."""
    return str(value)[:most].encode("utf-8", "backslashreplace").decode()


def _delete(folder: Path) -> None:
    """Delete a folder, however deep, and whatever rights it has been given."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        if folder.exists():
            subprocess.run([*command, str(folder)], check=False, stderr=subprocess.DEVNULL)


def _environment(home: Path) -> dict[str, str]:
    """Return all that the process learns of its surroundings."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(_LABKIT.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "MPLBACKEND": "Agg",
        "OPENBLAS_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "CUDA_VISIBLE_DEVICES": "",
    }
