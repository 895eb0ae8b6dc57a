"""A student's process from the grader's side: started, asked, watched, ended.

The grader holds the truth, the process holds the student's functions, and only data passes between them. So a student
can replace labkit, the checks, `==` or the whole interpreter in that process: the right answers are not in it, and what
is right is not decided there. Time, memory, and what may be reached are limited by `labkit.assignments.confine`.
"""

from __future__ import annotations

import builtins
import contextlib
import itertools
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from labkit.assignments import wire

_PACKAGE = Path(__file__).resolve().parent.parent

#: What the process may say that it tried. What follows is quoted: a student can write into the pipe, too.
_BREACHES = (
    "took more memory than allowed",
    "tried to use the network",
    "tried to start processes",
    "tried to read the answers or the work of others",
    "tried to look into another process",
)
#: Files of a submission, in all; threads beyond those that libraries start.
_MOST_WRITTEN, _MOST_ENTRIES, _MOST_THREADS = 512 << 20, 10_000, 500
#: A process whose pipe has closed ends within so many seconds, or it has closed the pipe itself.
_PATIENCE_S = 5


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


class Student:
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

    Attributes
    ----------
    walls : dict of str to bool
        Which walls stand on this machine.
    printed, errors : list
        Of each cell: what it printed; ``[type, message]`` of its exception, or None.

    Raises
    ------
    Stopped
        If a cell did what is not allowed.
    """

    def __init__(
        self, cells: Sequence[str], forbidden: Sequence[Path], limits: Limits, tensorflow: bool = False
    ) -> None:
        if os.name != "posix":
            raise OSError("submissions are run with limits that only Linux and macOS have: grade on one of these")
        self.limits = limits
        self._end = time.monotonic() + limits.whole_s
        self._looked = 0.0
        self.home = Path(tempfile.mkdtemp(prefix="labkit-student-")).resolve()
        self._rest = b""
        self._stage = "while it started"
        self.walls: dict[str, bool] = {}
        self.printed: list[str] = []
        self.errors: list[list[str] | None] = []
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "labkit.assignments.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self.home,
                env=_environment(self.home),
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(self.home, ignore_errors=True)
            raise
        os.set_blocking(self.process.stdin.fileno(), False)
        try:
            self._send(
                {
                    "parent": os.getpid(),
                    "home": str(self.home),
                    "readable": [str(path) for path in _readable()],
                    "forbidden": [str(path) for path in forbidden],
                    "tensorflow": tensorflow,
                    "cpu_s": limits.cpu_s,
                    "memory_mb": limits.memory_mb,
                }
            )
            self.walls = self._next("walls")["walls"]
            for source in cells:
                self.run(source)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Student:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self.close()

    def run(self, source: str) -> None:
        """Run one more cell; note what it printed and how it failed."""
        self._send({"do": "cell", "source": source})
        self._stage = f"in code cell {len(self.printed) + 1}"
        said = self._next("cell")
        error = said.get("error")
        self.printed.append(readable(said.get("text", ""), 10_000))
        self.errors.append([readable(part, 500) for part in error][:2] if isinstance(error, list) else None)

    def names(self, wanted: Sequence[str]) -> dict[str, Any]:
        """Return those of the names that the student has defined: functions to call from here, and plain data."""
        there = self._ask(do="names", names=list(wanted))
        if not isinstance(there, dict):
            raise Stopped("tampered with its answers: a list of names was asked for")
        return {
            name: Function(self, name) if is_function else _plain(self._ask(do="get", name=name))
            for name, is_function in there.items()
            if name in wanted
        }

    def _ask(self, **request: Any) -> Any:
        request["id"] = secrets.token_hex(8)
        self._stage = f"when {request['name']} was called" if request["do"] in ("call", "look") else "after its cells"
        self._send(request)
        said = self._next("id")
        if said["id"] != request["id"]:
            raise Stopped("sent an answer that nobody asked for")
        if said.get("error"):
            kind, words = (*(readable(part, 500) for part in list(said["error"])[:2]), "", "")[:2]
            found = getattr(builtins, kind, None)
            fits = isinstance(found, type) and issubclass(found, Exception) and found is not UnicodeDecodeError
            try:
                raised = found(words) if fits else RuntimeError(words)
            except TypeError:
                raised = RuntimeError(words)
            raised.by_student = True
            raise raised
        return said.get("value")

    def _send(self, message: Any) -> None:
        """Write a message; a process that does not read must not hold up the grader, and a pipe holds only so much."""
        data, pipe = memoryview(wire.line(message)), self.process.stdin.fileno()
        deadline = time.monotonic() + self.limits.wall_s
        while data:
            self._in_time(deadline)
            _, ready, _ = select.select([], [pipe], [], 0.2)
            try:
                data = data[os.write(pipe, data) :] if ready else data
            except BlockingIOError:
                continue
            except OSError:
                return  # it has ended: reading says how

    def _in_time(self, deadline: float) -> None:
        """Let nobody wait for longer than allowed, and look at what the process takes meanwhile."""
        now = time.monotonic()
        if now > deadline:
            raise Stopped(f"did not come to an end within {self.limits.wall_s:g} s {self._stage}")
        if now > self._end:
            raise Stopped(f"did not come to an end within {self.limits.whole_s:g} s in all {self._stage}")
        self._watch()

    def _next(self, key: str) -> dict[str, Any]:
        """Return the next message, which must have a key."""
        deadline = time.monotonic() + self.limits.wall_s
        while b"\n" not in self._rest:
            self._in_time(deadline)
            ready, _, _ = select.select([self.process.stdout], [], [], 0.2)
            if ready:
                data = os.read(self.process.stdout.fileno(), 1 << 20)
                if not data:
                    raise Stopped(self._ended())
                self._rest += data
                if len(self._rest) > wire.MOST_BYTES:
                    raise Stopped(f"answered with more than {wire.MOST_BYTES >> 20} MB {self._stage}")
        self._watch()
        text, self._rest = self._rest.split(b"\n", 1)
        try:
            message = json.loads(text)
            if "breach" in message:
                words = readable(message["breach"][1], 300)
                known = next(k for k in _BREACHES if words.startswith(k))
                said = words.removeprefix(known).strip()
                raise Stopped(f"{known} {f'({said!r}) ' if said else ''}{self._stage}")
            message[key]
        except (ValueError, TypeError, KeyError, IndexError, RecursionError, StopIteration):
            raise Stopped(f"wrote into the pipe of the grader {self._stage}") from None
        return message

    def _watch(self) -> None:
        """Look at what the system does not limit: memory (on some), threads, all files together."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.process.pid)
            if process.memory_info().rss > self.limits.memory_mb << 20:
                raise Stopped(f"took more memory than allowed {self._stage}")
            if process.num_threads() > _MOST_THREADS:
                raise Stopped(f"started more than {_MOST_THREADS} threads {self._stage}")
        if time.monotonic() - self._looked > 1:
            self._looked = time.monotonic()
            self._watch_files()

    def _watch_files(self) -> None:
        entries = written = 0
        for size in itertools.chain(self._deleted(), self._kept()):
            entries, written = entries + 1, written + size
            if entries > _MOST_ENTRIES or written > _MOST_WRITTEN:
                raise Stopped(f"wrote more files than allowed {self._stage}")

    def _kept(self) -> Iterator[int]:
        """Yield the bytes of each file in its folder; a folder has none."""
        folders = [self.home]
        while folders:
            try:
                with os.scandir(folders.pop()) as inside:
                    for entry in inside:
                        is_folder = entry.is_dir(follow_symlinks=False)
                        folders += [entry.path] if is_folder else []
                        yield 0 if is_folder else entry.stat(follow_symlinks=False).st_size
            except OSError:
                continue  # deleted meanwhile, or a path too long for the system: its parents were counted

    def _deleted(self) -> list[int]:
        """Return the bytes of each file that is deleted and still open (Linux): the disk holds it all the same."""
        sizes = {}
        with contextlib.suppress(OSError), os.scandir(f"/proc/{self.process.pid}/fd") as handles:
            for handle in handles:
                with contextlib.suppress(OSError):  # closed meanwhile
                    if os.readlink(handle.path).endswith(" (deleted)"):
                        file = os.stat(handle.path)
                        sizes[file.st_dev, file.st_ino] = file.st_size
        return list(sizes.values())

    def _ended(self) -> str:
        spent = 0.0
        with contextlib.suppress(psutil.Error):  # it is there until it is waited for
            times = psutil.Process(self.process.pid).cpu_times()
            spent = times.user + times.system
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_PATIENCE_S)
        if self.process.returncode is None:
            return f"closed the pipe of the grader {self._stage}"
        code = self.process.returncode
        if code == -signal.SIGSYS:
            return f"tried to use the network, past Python, {self._stage}"
        if code == -signal.SIGXCPU or (code == -signal.SIGKILL and spent > 0.8 * self.limits.cpu_s):
            return f"did not come to an end within {self.limits.cpu_s} s of processor time {self._stage}"
        if code < 0:
            name = next((s.name for s in signal.Signals if s == -code), f"signal {-code}")
            return f"crashed its process ({name}) {self._stage}"
        return f"ended its own process (exit status {code}) {self._stage}"

    def close(self) -> None:
        """End the process with all that it started, and delete its folder."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        _delete(self.home)


class Function:
    """A student's function, called in the student's process: data in, data out."""

    def __init__(self, student: Student, name: str) -> None:
        self._call = _calls(student, name, "call")
        self._look = _calls(student, name, "look")
        self.__name__ = name

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return what it returned, or raise what it raised."""
        return self._call(*arguments, **keywords)


def _calls(student: Student, name: str, do: str) -> Callable:
    def call(*arguments: Any, most: int = 0, **keywords: Any) -> Any:
        sent = {"arguments": wire.pack(arguments), "keywords": wire.pack(keywords), "most": most}
        return _plain(student._ask(do=do, name=name, **sent))

    return call


def readable(value: Any, most: int) -> str:
    """Return text that every file and terminal can take, cut off: half of a surrogate pair becomes its number."""
    return str(value)[:most].encode("utf-8", "backslashreplace").decode()


def _delete(folder: Path) -> None:
    """Delete a folder, however deep."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        pass
    if folder.exists():
        subprocess.run(["rm", "-rf", str(folder)], check=False, stderr=subprocess.DEVNULL)


def _plain(value: Any) -> Any:
    try:
        return wire.unpack(value)
    except ValueError as error:
        raise Stopped(f"tampered with its answers: {error}") from None


def _environment(home: Path) -> dict[str, str]:
    """Return all that the process learns of its surroundings."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(_PACKAGE.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "MPLBACKEND": "Agg",
        "OPENBLAS_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "CUDA_VISIBLE_DEVICES": "",
    }


def _readable() -> list[Path]:
    """Return Python's own folders, those of its packages, and labkit; never the checkout around labkit."""
    found = {Path(sys.prefix), Path(sys.base_prefix), _PACKAGE}
    found |= {Path(p).resolve() for p in sys.path if p and Path(p).is_dir() and "site-packages" in Path(p).parts}
    found |= {Path(p).resolve() for p in sys.path if p and Path(p).is_dir() and "dist-packages" in Path(p).parts}
    return sorted(found)
