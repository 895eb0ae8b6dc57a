"""The folder that a card serves: names from outside become files inside it, and nothing else on the disk.

A name is a path from the root of the card, with ``/`` between its parts. Several ``/`` count as one, and no ``/``
follows the name of a file. No name leads out: not by ``..``, not by an absolute path, and not through a symbolic link.

Every listed name can be read, and a walk through the folders ends. So a listing leaves out links that lead out, and two
other kinds of names. The end of a name like ``q?size=7.jpg`` would be taken for parameters. Through a link to a folder
above it, a walk would never end; a file behind this link can still be read by its name.

Changes are stricter: they go through no link at all, and make no name that a listing would leave out. `UNFINISHED`, the
folder in which files are written aside, cannot be read, listed or changed by any name.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import re
import stat
from collections.abc import Iterator
from typing import NamedTuple

from labextras.card import protocol
from labextras.card.protocol import Code, Refused
from labkit.common.files import expanded

#: The folder, in that which a card serves, of the files that are not whole yet; see `labextras.card.writes`.
UNFINISHED = ".labkit-unfinished"


class FileFacts(NamedTuple):
    """What is known about a file or folder; `length` is 0 for a folder. Two files never have the same facts."""

    length: int
    mtime_ns: int
    folder: bool
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileFacts:
        """Return the facts in what the system says."""
        folder = stat.S_ISDIR(found.st_mode)
        return cls(0 if folder else found.st_size, found.st_mtime_ns, folder, found.st_ino)


class Root:
    """A folder as a boundary.

    Parameters
    ----------
    folder : path

    Raises
    ------
    ValueError
        If there is no such folder.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        given = expanded("the root of a card", folder)
        if not given.is_dir():
            raise ValueError(f"the root of a card is {str(folder)!r}; allowed: a folder that exists")
        self.folder = os.path.realpath(given)
        self.unfinished = os.path.join(self.folder, UNFINISHED)

    def locate(self, name: str) -> str:
        """Return the real path of a file or folder inside.

        Raises
        ------
        Refused
            If it is not there, or not inside.
        """
        with refusing(name):
            real = os.path.realpath(os.path.join(self.folder, *_parts(name)), strict=True)
        if not _within(real, self.folder):
            raise Refused(Code.PERMISSION_DENIED, f"{name!r} is a link that leads out of the card")
        if _within(real, self.unfinished):
            raise Refused(Code.NOT_FOUND, f"{name!r} is not on the card")
        _check_end(name, real)
        return real

    def stat(self, name: str) -> FileFacts:
        """Return what is known about a file or folder; see `locate` for what is refused."""
        real = self.locate(name)
        with refusing(name):
            return FileFacts.of(os.stat(real))

    def place(self, name: str) -> str:
        """Return the path at which a file or folder is made, changed or removed; its folder is there.

        Raises
        ------
        Refused
            If the name leads out or through a link, is that of the root, or could not be listed.
        """
        parts = _parts(name)
        if any(protocol.split(part)[1] for part in parts):
            allowed = "names in which no = follows the last ?"
            raise Refused(Code.INVALID_ARGUMENT, f"{name!r} would be read with parameters; allowed: {allowed}")
        path = os.path.join(self.folder, *parts)
        if path in (self.folder, self.unfinished):
            raise Refused(Code.PERMISSION_DENIED, f"{name!r} stays as it is; allowed: files and folders of the card")
        if self.locate("/".join(parts[:-1])) != os.path.dirname(path) or os.path.islink(path):
            raise Refused(Code.PERMISSION_DENIED, f"{name!r} leads through a link; a card changes nothing behind one")
        _check_end(name, path)
        return path

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[int]:
        """Open a regular file for reading and give its descriptor; see `locate` for what is refused."""
        real = self.locate(name)
        with refusing(name):
            # Non-blocking: opening a named pipe would wait for a writer for ever.
            handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise Refused(Code.FAILED_PRECONDITION, f"{name!r} is not a file; allowed: files, to be read")
            yield handle
        finally:
            os.close(handle)

    def read(self, name: str, offset: int = 0, count: int | None = None) -> tuple[bytes, FileFacts]:
        """Return `count` bytes of a file from `offset`, fewer at its end, all of them by default; and its facts."""
        with self.open(name) as handle, refusing(name):
            facts = FileFacts.of(os.fstat(handle))
            left = max(facts.length - offset, 0)
            left = left if count is None else min(count, left)
            return os.pread(handle, left, offset) if left else b"", facts

    def list(self, name: str) -> list[str]:
        """Return the names in a folder, sorted; the top of this file says what is left out."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        passed = [self.locate("/".join(parts[:count])) for count in range(len(parts))]
        passed.append(self.locate(name))
        with refusing(name), os.scandir(passed[-1]) as entries:
            return sorted(entry.name for entry in entries if self._shown(entry, passed))

    def _shown(self, entry: os.DirEntry[str], passed: list[str]) -> bool:
        """Return whether a name is listed; `passed` are the folders on the way to it, the root first."""
        if protocol.split(entry.name)[1] or entry.path == self.unfinished:
            return False
        if not entry.is_symlink():
            return True
        real = os.path.realpath(entry.path)
        # Each link of an endless walk would have to lead to a folder that was new on the way: there are so many only.
        return os.path.exists(real) and _within(real, self.folder) and not any(_within(one, real) for one in passed)

    def glob(self, pattern: str) -> list[tuple[str, bool]]:
        """Return (name, is a folder) of everything that matches and is listed, sorted.

        As in TensorFlow, ``*`` stands for any characters but ``/``, and ``?`` for a single character. ``[a-z]`` stands
        for a character of this range, ``[^a]`` or ``[!a]`` for any other character. A backslash quotes the next
        character.
        """
        found = [""]
        for part in (part for part in pattern.split("/") if part not in ("", ".")):
            bases, found, wanted = found, [], _matcher(part)
            for base in bases:
                with contextlib.suppress(Refused):  # a file, or removed meanwhile
                    found += [f"{base}/{name}".lstrip("/") for name in self.list(base) if wanted.match(name)]
        result = []
        for name in found:
            with contextlib.suppress(Refused):
                result.append((name, self.stat(name).folder))
        return sorted(result)


#: For each error of the system the code of a refusal; any other is a failed precondition.
_CODES = {
    errno.ENOENT: Code.NOT_FOUND,
    errno.ENOTDIR: Code.NOT_FOUND,  # what would be in a file: ``gfile.exists`` returns False, as on the disk
    errno.EEXIST: Code.ALREADY_EXISTS,
    errno.EACCES: Code.PERMISSION_DENIED,
    errno.EROFS: Code.PERMISSION_DENIED,
    errno.EIO: Code.DATA_LOSS,
    errno.ENOSPC: Code.RESOURCE_EXHAUSTED,
    errno.EDQUOT: Code.RESOURCE_EXHAUSTED,
}


@contextlib.contextmanager
def refusing(name: str, what: str = "read") -> Iterator[None]:
    """Make errors of the system refusals: `name` cannot be `what`."""
    try:
        yield
    except OSError as error:
        why = f"cannot be {what}: {error.strerror}"
        if error.errno == errno.ENOENT:
            why = "is not on the card"
        raise Refused(_CODES.get(error.errno, Code.FAILED_PRECONDITION), f"{name!r} {why}") from None


def _parts(name: str) -> list[str]:
    """Return the parts of a name; `Refused` where it leads out."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise Refused(Code.PERMISSION_DENIED, f"{name!r} leads out of the card; allowed: a path without '..'")
    return parts


def _check_end(name: str, real: str) -> None:
    """Refuse the name of a file with a slash at its end."""
    # Not found, not a failed precondition: ``gfile.exists`` returns False for the one and raises for the other.
    if name.rpartition("/")[2] in ("", ".") and os.path.isfile(real):
        raise Refused(Code.NOT_FOUND, f"{name!r} is not on the card: without the '/' at its end it is a file")


def _within(real: str, folder: str) -> bool:
    """Return whether a real path is a folder, or lies in it."""
    return real == folder or real.startswith(os.path.join(folder, ""))


def _matcher(part: str) -> re.Pattern[str]:
    """Return the regular expression for one part of a pattern, written as Python's `fnmatch` has it."""

    def as_python(found: re.Match[str]) -> str:
        if found[0] == "[^":
            return "[!"
        return f"[{found[1]}]" if found[1] in "*?[" else found[1]

    return re.compile(fnmatch.translate(re.sub(r"\\(.)|\[\^", as_python, part, flags=re.DOTALL)))
