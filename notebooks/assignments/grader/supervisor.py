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
import dataclasses
import errno
import itertools
import json
import multiprocessing
import os
import secrets
import shutil
import signal
import stat
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
from labkit.common.numbers import number

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
    "wrote more files than allowed",
    "tried to start processes",
    "tried to read the answers or the work of others",
    "tried to look into another process",
)
#: Files of a submission, in all; threads beyond those that libraries start.
_MOST_WRITTEN, _MOST_ENTRIES, _MOST_THREADS = isolation.MOST_WRITTEN, 10_000, 500
#: The names of students' folders begin like this; then comes the number of the grader's process.
_PREFIX = "labkit-student-"
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
    resident_mb : int, optional
        Memory that is really taken, which is looked at five times a second; as `memory_mb` by default.
    """

    cpu_s: int = 20
    wall_s: float = 60
    memory_mb: int = 2048
    whole_s: float = 300
    judging_s: float = 20
    resident_mb: int | None = None

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
            resident_mb=self.resident + 1024,
        )

    @property
    def resident(self) -> int:
        """Megabytes that may really be taken."""
        return self.memory_mb if self.resident_mb is None else self.resident_mb

    def __post_init__(self) -> None:
        """Refuse limits that nothing could keep."""
        given = {name: getattr(self, name) for name in ("cpu_s", "wall_s", "memory_mb", "whole_s", "judging_s")}
        least = {"cpu_s": 1, "memory_mb": 256, "resident_mb": 256}
        for name, value in (given | {"resident_mb": self.resident}).items():
            number(name, value, least.get(name, 0.1))


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
    files : Path
        Where its folder is seen from here; inside bubblewrap it lies on a disk of its own.
    hides_output : bool
        Whether the process has been given what students must not know: then its words are in no sentence.
    waits, gives_up : bool
        Whether the process is being waited for; whether the grader gives up what it does with the answers, and must not
        ask for more (see `assignments.grader.evaluation`).

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
        self.hides_output = self.waits = self.gives_up = False
        self.home = self.files = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")).resolve()
        self._wall_s, self._end = _STARTING_S, time.monotonic() + _STARTING_S
        self._files_seen = self._spent_s = 0.0
        self._shared = 0
        self._endless: dict[str, str] = {}
        self._counts = True
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
            if self._in_bubblewrap:
                self.files = Path(f"/proc/{self._watched.pid}/root", *self.home.parts[1:])
                self._counts = not bubblewrap.has_own_disk() or os.access(self.files, os.R_OK)
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
        self._endless.clear()  # it may define them anew, or what they call
        reply = self._ask(f"in code cell {number}", do="cell", source=source, number=number, **self._one(_CELL))
        self.printed.append(readable(reply.get("printed", ""), 10_000))
        self.errors.append(_error(reply))

    def names(self, wanted: Sequence[str]) -> dict[str, Any]:
        """Return those of the names that the student has defined: functions to call from here, and plain data."""
        there = self._ask("after its cells", do="names", names=list(wanted), **self._one(_CALL)).get("value")
        if not isinstance(there, dict):
            raise Stopped("tampered with its answers: a list of names was asked for")
        return {
            name: Function(self, name) if is_function else self.value("after its cells", do="get", name=name)
            for name, is_function in there.items()
            if name in wanted
        }

    def value(self, stage: str, **request: Any) -> Any:
        """Return the plain data that a request is answered with, or raise what was raised there.

        A function that did not end is not called again before a later cell has run: each call takes some of the time
        that is there for all.
        """
        name, one = request["name"], self._one(_CALL)
        reply = {} if name in self._endless else self._ask(stage, **request, **one)
        if (error := _error(reply)) and error[0] == "KeyboardInterrupt" and "was interrupted after" in error[1]:
            within = f"{one['busy_s']:g} s of processor time or {one['wait_s']:g} s of waiting"
            self._endless[name] = f"{name} did not come to an end within {within}"
        if name in self._endless:
            raise DidNotEnd(self._endless[name])
        if error:
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

    def _one(self, share: float) -> dict[str, float]:
        """Return after how many seconds one cell or one call is interrupted: of processor time, and of waiting."""
        busy_s = max(0.05, share * ((1 - _RESERVE) * self.limits.cpu_s - self._spent_s))
        return {"busy_s": round(busy_s, 2), "wait_s": self.limits.wall_s / 2}

    def _ask(self, stage: str, **request: Any) -> dict[str, Any]:
        """Send a request and return the reply; meanwhile let nobody wait for longer than allowed.

        A thread reads and writes, since each may wait for ever: for a process that does not read, or that announces
        a message and does not send it. It ends with the process.
        """
        self.waits = True
        try:
            while self.gives_up:  # the end of the test comes to this thread from outside
                time.sleep(0.01)
            return self._reply(stage, request)
        finally:
            self.waits = False

    def _reply(self, stage: str, request: dict[str, Any]) -> dict[str, Any]:
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
            reply = messages.read(talk.result())
            self._watch(stage)
            if "breach" in reply:
                words = readable(reply["breach"], 300)
                known = next(k for k in _BREACHES if words.startswith(k))
                found = "" if self.hides_output else words.removeprefix(known).strip()
                raise Stopped(f"{known} {f'({found!r}) ' if found else ''}{stage}")
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
            held = self._watched.memory_info()
            # Shared memory stays in use after its pages are released, until it is no longer mapped.
            unseen = max(0, self._shared - getattr(held, "shared", 0))
            if held.rss + unseen > self.limits.resident << 20:
                raise Stopped(f"took more memory than allowed {stage}")
            if self._watched.num_threads() > _MOST_THREADS:
                raise Stopped(f"started more than {_MOST_THREADS} threads {stage}")
        if self._counts and time.monotonic() - self._files_seen > 1:
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
        folders = [self.files]
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
        """Return the bytes of each file that is deleted and still held (Linux): the disk holds it all the same.

        Raises
        ------
        OSError
            If open files are on their way through a socket, where nobody can count them.
        """
        sizes, process = {}, f"/proc/{self._watched.pid}"
        with contextlib.suppress(FileNotFoundError, PermissionError), os.scandir(f"{process}/fd") as handles:
            for handle in handles:
                with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                    place = os.readlink(handle.path)
                    if place.startswith("socket:"):
                        with open(f"{process}/fdinfo/{handle.name}", encoding="ascii") as known:
                            if any(line.startswith("scm_fds:") and int(line.split()[1]) for line in known):
                                raise OSError(errno.EBADF, "open files in a socket")
                    elif place.endswith(" (deleted)"):
                        file = os.stat(handle.path)
                        sizes[file.st_ino] = _bytes(file)
        # A file may be closed and still be mapped. How large it is nobody tells then: as large as a file may be.
        self._shared = 0
        with contextlib.suppress(FileNotFoundError, PermissionError), open(f"{process}/maps", "rb") as maps:
            for line in maps:
                if line.endswith(b" /dev/zero (deleted)\n"):  # so Linux calls memory that is shared with no file
                    first, end = (int(place, 16) for place in line.split()[0].split(b"-"))
                    self._shared += end - first
                elif line.endswith(b" (deleted)\n") and os.fsencode(self.home) in line:
                    sizes.setdefault(int(line.split()[4]), isolation.MOST_FILE)
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
        if not (self._in_bubblewrap or getattr(self, "protections", {}).get("system calls")):
            _end_those_of(self.home)  # what was not kept from starting processes may have left some

    def close(self) -> None:
        """End the process with all that it started, and delete its folder."""
        self._ending.close()


def remove_stale() -> None:
    """Remove what graders that were killed have left: folders of students, and processes that still run in them."""
    for home in Path(tempfile.gettempdir()).resolve().glob(f"{_PREFIX}*-*"):
        try:
            known = home.lstat()
            if not stat.S_ISDIR(known.st_mode) or known.st_uid != os.geteuid():
                continue
            # A number may have been given to another process since.
            if psutil.Process(int(home.name.split("-")[2])).create_time() <= known.st_mtime + 1:
                continue
        except (OSError, ValueError):
            continue
        except psutil.AccessDenied:
            pass  # it is another user's: ours has ended
        except psutil.Error:
            pass
        _end_those_of(home)
        _delete(home)


def _end_those_of(home: Path) -> None:
    """Kill every process that was started for a student's folder, or works in it."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("HOME") == str(home) or Path(process.cwd()).is_relative_to(home):
                process.kill()
                process.wait(_ENDING_S)


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
        """Return what `labcourse.inspection` says of the pipeline that it returned."""
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
