"""The folder that a card serves: names from outside become files inside it, and nothing else on the disk.

A name is a path from the root of the card, with ``/`` between its parts; more than one are as good as one, but none
stands behind a file. No name leads out: not by ``..``, not by being absolute, and not through a symbolic link.

Whatever is listed can be read under its name, and a walk through the folders ends. So two kinds are left out beside the
links that lead out: names such as ``q?size=7.jpg``, whose end would be taken for parameters, and links to a folder that
lies above them, which would be walked through for ever (what is behind such a link can still be read by its name).
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from labkit.card import protocol
from labkit.card.protocol import Code, Refused


class FileFacts(NamedTuple):
    """What is known about a file or folder; `length` is 0 for a folder."""

    length: int
    mtime_ns: int
    folder: bool


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
        given = Path(folder).expanduser()
        if not given.is_dir():
            raise ValueError(f"the root of a card is {str(folder)!r}; allowed: a folder that exists")
        self.folder = os.path.realpath(given)

    def locate(self, name: str) -> str:
        """Return the real path of a file or folder inside.

        Raises
        ------
        Refused
            If it is not there, or not inside.
        """
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts or "\0" in name:
            raise Refused(Code.PERMISSION_DENIED, f"{name!r} leads out of the card; allowed: a path without '..'")
        try:
            real = os.path.realpath(os.path.join(self.folder, *parts), strict=True)
        except NotADirectoryError:
            raise Refused(Code.FAILED_PRECONDITION, f"a part of {name!r} is a file, not a folder") from None
        except FileNotFoundError:
            raise Refused(Code.NOT_FOUND, f"{name!r} is not on the card") from None
        except OSError as error:  # a loop of links, a name that is too long
            raise Refused(Code.FAILED_PRECONDITION, f"{name!r} cannot be opened: {error.strerror}") from None
        if not _within(real, self.folder):
            raise Refused(Code.PERMISSION_DENIED, f"{name!r} is a link that leads out of the card")
        # Not found, rather than a failed precondition: ``gfile.exists`` says no to the one and breaks off at the other.
        if name.rpartition("/")[2] in ("", ".") and not os.path.isdir(real):
            raise Refused(Code.NOT_FOUND, f"{name!r} is not on the card: without the '/' at its end it is a file")
        return real

    def stat(self, name: str) -> FileFacts:
        """Return what is known about a file or folder; see `locate` for what is refused."""
        try:
            found = os.stat(self.locate(name))
        except OSError as error:
            raise Refused(Code.NOT_FOUND, f"{name!r} is not on the card: {error.strerror}") from None
        folder = stat.S_ISDIR(found.st_mode)
        return FileFacts(0 if folder else found.st_size, found.st_mtime_ns, folder)

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[int]:
        """Open a regular file for reading and give its number; see `locate` for what is refused."""
        handle = self._open(name)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise Refused(Code.FAILED_PRECONDITION, f"{name!r} is not a file; allowed: files, to be read")
            yield handle
        finally:
            os.close(handle)

    def _open(self, name: str) -> int:
        # Without waiting: a pipe that somebody put there would never open.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        if ".." not in name:
            # Linux says where an open file really lies, which is ten times as quick as following links one by one.
            with contextlib.suppress(OSError, ValueError):
                handle = os.open(os.path.join(self.folder, name.lstrip("/")), flags)
                try:
                    if _within(os.readlink(f"/proc/self/fd/{handle}"), self.folder):
                        return handle
                except OSError:
                    pass
                os.close(handle)
        real = self.locate(name)
        try:
            return os.open(real, flags)
        except OSError as error:
            code = Code.PERMISSION_DENIED if isinstance(error, PermissionError) else Code.NOT_FOUND
            raise Refused(code, f"{name!r} cannot be opened: {error.strerror}") from None

    def read(self, name: str, offset: int = 0, count: int | None = None) -> bytes:
        """Return `count` bytes of a file from `offset`, fewer at its end; all of them by default."""
        with self.open(name) as handle:
            left = os.fstat(handle).st_size - offset
            left = max(left if count is None else min(count, left), 0)
            pieces = []
            try:
                while left and (piece := os.pread(handle, min(left, 1 << 30), offset)):
                    pieces.append(piece)
                    offset, left = offset + len(piece), left - len(piece)
            except OSError as error:
                raise Refused(Code.DATA_LOSS, f"{name!r} cannot be read: {error.strerror}") from None
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def list(self, name: str) -> list[str]:
        """Return the names in a folder, sorted; the top of this file says what is left out."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        passed = [self.locate("/".join(parts[:count])) for count in range(len(parts))]
        passed.append(self.locate(name))
        try:
            with os.scandir(passed[-1]) as entries:
                return sorted(entry.name for entry in entries if self._shown(entry, passed))
        except NotADirectoryError:
            raise Refused(Code.FAILED_PRECONDITION, f"{name!r} is a file; allowed: a folder, to be listed") from None
        except OSError as error:
            raise Refused(Code.PERMISSION_DENIED, f"{name!r} cannot be listed: {error.strerror}") from None

    def _shown(self, entry: os.DirEntry[str], passed: list[str]) -> bool:
        """Say whether a name is listed; `passed` are the folders on the way to it, from the root on."""
        if protocol.split(entry.name)[1]:
            return False
        if not entry.is_symlink():
            return True
        real = os.path.realpath(entry.path)
        # Each link of an endless walk would have to lead to a folder that was new on the way: there are so many only.
        return os.path.exists(real) and _within(real, self.folder) and not any(_within(one, real) for one in passed)

    def glob(self, pattern: str) -> list[tuple[str, bool]]:
        """Return (name, is a folder) of everything that matches and is listed, sorted.

        As in TensorFlow, ``*`` stands for any characters but ``/``, ``?`` for one, ``[a-z]`` for one of some, ``[^a]``
        or ``[!a]`` for one of the others, and a backslash takes the meaning from what follows.
        """
        found = [""]
        for part in (part for part in pattern.split("/") if part not in ("", ".")):
            after = []
            plain = re.sub(r"\\(.)", r"\1", part) if not re.search(r"(?<!\\)[*?\[]", part) else None
            wanted = None if plain is not None else matcher(part)
            for base in found:
                join = f"{base}/" if base else ""
                try:
                    names = [plain] if plain is not None else self.list(base)
                    here = [join + name for name in names if wanted is None or wanted.match(name)]
                    after += [name for name in here if plain is None or self.stat(name)]
                except Refused as refusal:
                    if refusal.code == Code.PERMISSION_DENIED and plain == "..":
                        raise
            found = after
        result = []
        for name in found:
            if protocol.split(name)[1]:
                continue
            with contextlib.suppress(Refused):  # gone meanwhile
                result.append((name, self.stat(name).folder))
        return sorted(result)


def _within(real: str, folder: str) -> bool:
    """Say whether a real path is a folder, or lies in it."""
    return real == folder or real.startswith(os.path.join(folder, ""))


def matcher(part: str) -> re.Pattern[str]:
    """Return the expression for one part of a pattern.

    Raises
    ------
    Refused
        If a bracket is not closed.
    """
    text, at = "", 0
    while at < len(part):
        sign, at = part[at], at + 1
        if sign == "*":
            text += ".*"
        elif sign == "?":
            text += "."
        elif sign == "\\" and at < len(part):
            text, at = text + re.escape(part[at]), at + 1
        elif sign == "[":
            end = part.find("]", at + 1 + (part[at : at + 1] in ("^", "!")))
            if end < 0:
                raise Refused(Code.INVALID_ARGUMENT, f"the pattern {part!r} has a [ without a ]")
            inside, at = part[at:end], end + 1
            turned = inside[:1] in ("^", "!")
            body = re.sub(r"([\\\[\]^&~|])", r"\\\1", inside[turned:])
            text += f"[{'^' if turned else ''}{body}]"
        else:
            text += re.escape(sign)
    try:
        return re.compile(rf"(?s:{text})\Z")
    except re.error:
        raise Refused(Code.INVALID_ARGUMENT, f"the pattern {part!r} has a range that runs backwards") from None
