"""The generated photos as files: made in parallel, written aside, resumable, checked.

One folder holds one set, ``<home>/lab_photos_files/<version>-seed<seed>``: a folder of JPEGs per
class, and ``checksums.tsv``, to which one line is added per finished photo (path, bytes, SHA-256).
A photo without its line, or unlike it, is made again. The scales share the files.

Painting runs in plain child processes that read numbers from a pipe. They work from any parent, a
notebook or one that has TensorFlow loaded, and end with it however it ends: then the pipe closes.
"""

from __future__ import annotations

import errno
import hashlib
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from labkit.common import shipped
from labkit.common.progress import fast, kind

generator = shipped.module("data/lab_photos", "generator")

LEDGER = "checksums.tsv"
#: Older leftovers of a killed process are removed; younger ones may still be in somebody's hand.
LEFTOVER_S = 3600
_PAINTER = (
    "import sys, pathlib; sys.path.insert(0, sys.argv[1]); from lab_photos import generator; "
    "generator.serve(pathlib.Path(sys.argv[2]), int(sys.argv[3]), sys.stdin, sys.stdout)"
)


class Entry(NamedTuple):
    """What the ledger knows of a photo: its size in bytes and its SHA-256 in hex."""

    bytes: int
    sha256: str


class Fault(NamedTuple):
    """A photo that is not as it should be, and what is wrong with it: one of missing, unlisted, damaged."""

    index: int
    path: Path
    what: str


def _cores() -> int:
    """Return how many cores this process may use, which a container may limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def folder(home: Path, seed: int = generator.SEED) -> Path:
    """Return the folder of the set of this generator version and `seed`."""
    return home / "lab_photos_files" / f"{generator.VERSION}-seed{seed}"


def title(seed: int) -> str:
    """Return the line that says which set a ledger belongs to."""
    return f"# {generator.NAME} {generator.VERSION} seed {seed}"


def ledger(place: Path, title: str) -> dict[str, Entry]:
    """Return path to `Entry` for every complete line of a ledger; a line cut short by a kill does not count.

    Raises
    ------
    ValueError
        If the ledger says that it belongs to another set than `title`.
    """
    try:
        lines = (place / LEDGER).read_text("utf-8", "replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    entries = {}
    for line in lines:
        if line.startswith("# ") and line != title and re.fullmatch(r"# \S+ \S+ seed \d+", line):
            raise ValueError(f"{place / LEDGER} is of the set {line[2:]!r}, not {title[2:]!r}: move that folder away")
        fields = line.split("\t")
        if len(fields) == 3 and fields[1].isdecimal() and re.fullmatch("[0-9a-f]{64}", fields[2]):
            entries[fields[0]] = Entry(int(fields[1]), fields[2])
    return entries


def faults(place: Path, count: int, seed: int = generator.SEED, thorough: bool = False) -> list[Fault]:
    """Return what is missing or wrong among the first `count` photos.

    Parameters
    ----------
    thorough : bool
        Read every byte and compare checksums; else presence and size are compared.
    """
    entries = ledger(place, title(seed))

    def look(index: int) -> Fault | None:
        name = generator.plan(index, seed).file
        path = place / name
        try:
            size = path.stat().st_size
            if (entry := entries.get(name)) is None:
                return Fault(index, path, "unlisted")
            if size != entry.bytes or (thorough and hashlib.sha256(path.read_bytes()).hexdigest() != entry.sha256):
                return Fault(index, path, "damaged")
        except (FileNotFoundError, NotADirectoryError):
            return Fault(index, path, "missing")
        except OSError:
            return Fault(index, path, "damaged")
        return None

    if not thorough:
        return [fault for fault in map(look, range(count)) if fault]
    with ThreadPoolExecutor(_cores()) as pool:
        return [fault for fault in pool.map(look, range(count)) if fault]


def make(
    place: Path,
    indices: Sequence[int],
    seed: int = generator.SEED,
    progress: bool = True,
    workers: int | None = None,
) -> None:
    """Make the photos with these numbers, with a progress bar.

    Ctrl-C, a kill or a full disk leave finished photos only; a later call makes the others.

    Parameters
    ----------
    workers : int, optional
        Painting processes; else one per core that this process may use.

    Raises
    ------
    OSError
        If the disk fills up or the folder cannot be written: one sentence that says what to do.
    """
    if not indices:
        return
    try:
        for name in generator.CLASSES:
            (place / name).mkdir(parents=True, exist_ok=True)
        _sweep(place)
        with Ledger(place, title(seed)) as lines:
            _paint(place, indices, seed, lines, progress, min(workers or _cores(), len(indices)))
    except OSError as error:
        raise explained(error, place) from error


class Ledger:
    """The open end of a ledger: each line is one write, so that two processes may append at once."""

    def __init__(self, place: Path, title: str) -> None:
        self._file = open(place / LEDGER, "ab+", buffering=0)
        self._file.seek(0)
        before = self._file.read()
        # A line that a kill cut short must not swallow the next one.
        torn = b"\n" if before and not before.endswith(b"\n") else b""
        if torn or title.encode() not in before.splitlines():
            self._file.write(torn + title.encode() + b"\n")

    def add(self, line: str) -> None:
        """Append one line ``path <tab> bytes <tab> sha256``."""
        self._file.write(line.encode() + b"\n")

    def __enter__(self) -> Ledger:
        """Return the ledger itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()


def _paint(place: Path, indices: Sequence[int], seed: int, lines: Ledger, progress: bool, workers: int) -> None:
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[str] = queue.SimpleQueue()
    for index in indices:
        todo.put(index)
    with tempfile.TemporaryFile() as complaints, bar(len(indices), "photos", progress) as shown:
        painters = [_painter(place, seed, complaints) for _ in range(workers)]
        errands = [threading.Thread(target=_errand, args=(p, todo, done), daemon=True) for p in painters]
        try:
            for errand in errands:
                errand.start()
            for _ in indices:
                reply = done.get()
                if reply.startswith("!"):
                    raise OSError(*_trouble(reply))
                if not reply:
                    complaints.seek(0)
                    last = complaints.read().decode(errors="replace").strip().rpartition("\n")[2]
                    raise RuntimeError(
                        f"a painting process ended early: {last or 'it left no message; was it killed?'}"
                    )
                lines.add(reply.rstrip("\n"))
                shown.update()
        finally:
            _dismiss(painters, errands, todo)
            # What was finished meanwhile counts too; on a full disk its line may not fit.
            while not done.empty():
                if (reply := done.get()) and not reply.startswith("!"):
                    lines.add(reply.rstrip("\n"))


def _painter(place: Path, seed: int, complaints: Any) -> subprocess.Popen[str]:
    package = shipped.folder("data/lab_photos")
    return subprocess.Popen(
        [sys.executable, "-c", _PAINTER, str(package.parent), str(place.resolve()), str(seed)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, encoding="utf-8",
        # Ctrl-C is for the parent, which then lets each child finish the photo in its hand.
        start_new_session=True,
        env={**os.environ, "PYTHONUTF8": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip


def _errand(painter: subprocess.Popen[str], todo: queue.SimpleQueue[int], done: queue.SimpleQueue[str]) -> None:
    """Hand one number at a time to a painter, so that an orphan has at most one photo left to do."""
    while True:
        try:
            index = todo.get_nowait()
        except queue.Empty:
            return
        try:
            painter.stdin.write(f"{index}\n")
            painter.stdin.flush()
            reply = painter.stdout.readline()
        except (OSError, ValueError):
            reply = ""
        done.put(reply)
        if not reply.endswith("\n"):
            return


def _dismiss(painters: Iterable[Any], errands: Iterable[threading.Thread], todo: queue.SimpleQueue[int]) -> None:
    try:
        while not todo.empty():
            todo.get()
        for errand in errands:
            if errand.ident is not None:
                errand.join(timeout=30)
    finally:
        for painter in painters:
            try:
                painter.stdin.close()
                painter.wait(timeout=5)
            except (OSError, subprocess.TimeoutExpired):
                pass
            finally:
                painter.kill()
                painter.wait()
                painter.stdout.close()


def _trouble(reply: str) -> tuple[int, str]:
    _, number, message = reply.rstrip("\n").split("\t", 2)
    return int(number), message


def _sweep(place: Path) -> None:
    """Remove what killed processes left half written."""
    for leftover in place.glob("*/.*.part"):
        try:
            if time.time() - leftover.stat().st_mtime > LEFTOVER_S:
                leftover.unlink()
        except FileNotFoundError:
            pass


def bar(total: int, what: str, progress: bool, delay_s: float = 0) -> Any:
    """Return a progress bar; silent if not wanted or when LABKIT_FAST is set."""
    silent = not progress or fast()
    return kind()(total=total, desc=what, unit="photo", disable=silent, delay=delay_s)


def require_space(place: Path, needed: int, what: str) -> None:
    """Refuse early if `needed` bytes will not fit where `place` is.

    Raises
    ------
    OSError
        Naming the place, what is needed and what is free.
    """
    there = next(p for p in [place, *place.parents] if p.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        sentence = (
            f"{what} needs {needed / 1e6:,.0f} MB in {place}, where {free / 1e6:,.0f} MB are free: free some space, "
            "choose a smaller scale, or set LABKIT_DATA to a folder on another disk"
        )
        full = OSError(sentence)
        full.errno = errno.ENOSPC
        raise full


def explained(error: OSError, place: Path) -> OSError:
    """Return the error of a write as one sentence that says what to do; others come back as they are."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        sentence = (
            f"the disk that holds {place} is full: free some space, choose a smaller scale, or set LABKIT_DATA to a "
            "folder on another disk; what is finished is kept, and the next call goes on from there"
        )
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
        sentence = f"{place} cannot be written ({error.strerror}): set LABKIT_DATA to a folder that can"
    else:
        return error
    plain = type(error)(sentence)
    plain.errno = error.errno
    return plain
