"""The generated photos as files: made in parallel, written aside, resumable, checked.

One folder holds the set, ``<home>/lab_photos_files/<version>-seed<seed>``: a folder of JPEGs per
class, and ``checksums.tsv``, to which one line is added per finished photo (path, bytes, SHA-256).
A photo without its line, or unlike it, is made again. The scales share the files.

Painting runs in plain child processes that receive numbers over a connection. They work from any parent,
a notebook or one that has TensorFlow loaded. They end with it, however it ends: then the connection closes.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import connection
from pathlib import Path
from typing import Any, NamedTuple

from labkit.common import shipped
from labkit.common.environment import cores
from labkit.common.processes import Child
from labkit.common.progress import bar

generator = shipped.module("data/lab_photos", "generator")

LEDGER = "checksums.tsv"
#: The line of a ledger that names its set.
TITLE = f"# {generator.NAME} {generator.VERSION} seed {generator.SEED}"
#: Leftovers of a killed process are removed after so many seconds; a younger file may be one that is being written.
LEFTOVER_S = 3600
# One process for each core is enough: each computes in one thread.
_PAINTER_ENV = {"PYTHONUTF8": "1", "OPENBLAS_NUM_THREADS": "1"}


class Entry(NamedTuple):
    """What the ledger knows of a photo: its size in bytes and its SHA-256 in hex."""

    bytes: int
    sha256: str


class PhotoFile(NamedTuple):
    """One photo of a set: its file, label, number within its class, size in bytes and whether it is held out."""

    path: Path
    label: int
    rank: int
    bytes: int
    held_out: bool


class PhotoFault(NamedTuple):
    """A photo that is not as it should be, and what is wrong with it: one of missing, unlisted, damaged."""

    index: int
    path: Path
    what: str


def folder(home: Path) -> Path:
    """Return the folder of the set of this generator version."""
    return home / "lab_photos_files" / f"{generator.VERSION}-seed{generator.SEED}"


def ledger(place: Path, title: str = TITLE) -> dict[str, Entry]:
    """Return path to `Entry` for every complete line of a ledger; a line cut short by a kill does not count.

    Raises
    ------
    ValueError
        If the ledger is that of another set than `title`.
    """
    try:
        lines = (place / LEDGER).read_text("utf-8", "replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise explained(error, place) from error
    entries = {}
    for line in lines:
        if line.startswith("# ") and line != title and re.fullmatch(r"# \S+ \S+ seed \d+", line):
            raise ValueError(f"{place / LEDGER} is of the set {line[2:]!r}, not {title[2:]!r}: move that folder away")
        fields = line.split("\t")
        if len(fields) == 3 and fields[1].isdecimal() and re.fullmatch("[0-9a-f]{64}", fields[2]):
            entries[fields[0]] = Entry(int(fields[1]), fields[2])
    return entries


def faults(place: Path, count: int, thorough: bool = False) -> list[PhotoFault]:
    """Return what is missing or wrong among the first `count` photos.

    Parameters
    ----------
    thorough : bool
        Read every byte and compare checksums; else presence and size are compared.
    """
    entries = ledger(place)

    def look(index: int) -> PhotoFault | None:
        name = generator.plan(index).file
        path, entry = place / name, entries.get(name)
        try:
            size, what = path.stat().st_size, ""
            if entry is None:
                what = "unlisted"
            elif size != entry.bytes or (thorough and hashlib.sha256(path.read_bytes()).hexdigest() != entry.sha256):
                what = "damaged"
        except (FileNotFoundError, NotADirectoryError):
            what = "missing"
        except OSError:
            what = "damaged"
        return PhotoFault(index, path, what) if what else None

    with ThreadPoolExecutor(cores()) as pool:  # no thread starts where presence and size are all that is compared
        return [fault for fault in (pool.map if thorough else map)(look, range(count)) if fault]


def make(place: Path, indices: Sequence[int], progress: bool = True, workers: int | None = None) -> None:
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
        sweep(place, "*/.*.part")
        with appending(place):
            _paint(place, indices, generator.SEED, progress, min(workers or cores(), len(indices)))
    except OSError as error:
        raise explained(error, place) from error


@contextlib.contextmanager
def appending(place: Path, title: str = TITLE) -> Iterator[Callable[[str, int, str], Any]]:
    """Let the ledger name its set, and give a function that adds (path, bytes, SHA-256) to it.

    Each line is one write, so that two processes may append at once.
    """
    with open(place / LEDGER, "ab+", buffering=0) as file:
        file.seek(0)
        before = file.read()
        # A line that a kill cut short must not swallow the next one.
        torn = b"\n" if before and not before.endswith(b"\n") else b""
        if torn or title.encode() not in before.splitlines():
            file.write(torn + title.encode() + b"\n")
        yield lambda *entry: file.write(generator.line(*entry))


def _paint(place: Path, indices: Sequence[int], seed: int, progress: bool, workers: int) -> None:
    """Let child processes paint, each one photo at a time: where this process is killed, no more are finished.

    Ctrl-C is for this process, which then lets each child finish its photo.

    A child enters its photo into the ledger itself, because nothing interrupts a child: here, Ctrl-C may come between
    a reply and its line.
    """
    left = iter(indices)
    painters: dict[connection.Connection, Child] = {}
    with bar(len(indices), "photos", not progress) as step:
        try:
            for index in itertools.islice(left, workers):
                child = Child("labkit.sources.photo_files", str(place.resolve()), str(seed), env=_PAINTER_ENV)
                painters[child.link] = child
                child.link.send(index)
            busy = set(painters)
            while busy:
                for painter in connection.wait(busy):
                    error = painter.recv()
                    busy.remove(painter)
                    if error is not None:
                        raise error
                    step()
                    for index in itertools.islice(left, 1):
                        painter.send(index)
                        busy.add(painter)
        except (EOFError, ConnectionError):
            raise RuntimeError(f"a painting process ended early: {painters[painter].last_words()}") from None
        finally:
            for painter in painters:  # each may finish its photo
                painter.close()
            for child in painters.values():
                child.wait(30)
                child.end()


def sweep(place: Path, pattern: str) -> None:
    """Remove what killed processes left half written."""
    for leftover in place.glob(pattern):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - leftover.stat().st_mtime > LEFTOVER_S:
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


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
        raise _failure(OSError, errno.ENOSPC, sentence)


def explained(error: OSError, place: Path) -> OSError:
    """Return the error of a write as one sentence that says what to do; others come back as they are."""
    name = Path(os.fsdecode(error.filename)) if isinstance(error.filename, (str, bytes)) else place
    if not (name.is_relative_to(place) or place.is_relative_to(name)):  # a photo that is read, for example
        return error
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        sentence = (
            f"the disk that holds {place} is full: free some space, choose a smaller scale, or set LABKIT_DATA to a "
            "folder on another disk; what is finished is kept, and the next call goes on from there"
        )
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
        sentence = f"{place} cannot be written ({error.strerror}): set LABKIT_DATA to a folder that can"
    elif error.errno == errno.EISDIR:
        sentence = f"{error.filename2 or name} is a folder, where a file should be: move it away"
    else:
        return error
    return _failure(type(error), error.errno, sentence)


def _failure(kind: type[OSError], number: int, sentence: str) -> OSError:
    """Return an error that shows its sentence alone, and still has the number that the system gave it."""
    error = kind(sentence)
    error.errno = number
    return error


if __name__ == "__main__":
    generator.serve(Path(sys.argv[3]), int(sys.argv[4]), connection.Connection(int(sys.argv[1])), LEDGER)
