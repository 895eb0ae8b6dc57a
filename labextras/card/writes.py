"""What a card does that may be written to: files are written aside, and renamed when they are whole.

A file that is being written lies in the folder `UNFINISHED` of the card until COMMIT, which renames it. So every name
of the card stands for a whole file at any time: the old one, or the new one. What is not finished is removed: as soon
as a piece of it cannot be written; `GRACE_S` after its writer has left; when the card stops; and after a card that was
killed by the next one that may be written to, which tells a leftover by the lock that nobody holds. ``limit_bytes``
bounds all that is unfinished together.

Of two that write one file, the last that commits wins. Appending begins with a copy of the file; COMMIT refuses it
where the file was changed meanwhile by somebody else, whose bytes would be lost.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labextras.card import process, protocol
from labextras.card.protocol import Code, Op, Refused, Request
from labextras.card.root import FileFacts, Root, refusing

#: Files that may be written at once.
OPEN_LIMIT = 256
#: Seconds that an unfinished file stays when the connection of its writer has ended: a repeated request comes at once.
GRACE_S = 5.0
#: Changes of which the card knows that they are done, should they be asked for again.
REMEMBERED = 4096


class Unfinished:
    """A file that is being written.

    Parameters
    ----------
    name : str
        That it will have.
    aside : Path
        Where it lies.
    handle : int
        Its descriptor; it holds the lock that tells the file from a leftover.
    client : object
        The connection that has asked for it last; None when that has ended.
    """

    def __init__(self, name: str, aside: Path, handle: int, client: Any) -> None:
        self.name, self.aside, self.handle, self.client = name, aside, handle, client
        self.length = self.begun = 0
        self.appends_to: FileFacts | None = None
        self.lock = threading.Lock()

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write bytes at a place of the file, all of them; the same ones again change nothing."""
        with self.lock, refusing(self.name, "written"):
            while data and self.handle >= 0:
                count = os.pwrite(self.handle, data, offset)
                offset, data = offset + count, memoryview(data)[count:]

    def close(self) -> None:
        """Remove what is left aside."""
        self.aside.unlink(missing_ok=True)
        with self.lock:
            os.close(self.handle)
            self.handle = -1


class Writes:
    """The changes of one card.

    Parameters
    ----------
    root : Root
    limit_bytes : int
        That all unfinished files together may have.
    """

    def __init__(self, root: Root, limit_bytes: int) -> None:
        self.root, self.limit_bytes = root, limit_bytes
        self._open: dict[int, Unfinished] = {}
        self._done: deque[int] = deque(maxlen=REMEMBERED)
        self._lock = threading.RLock()
        self._mask = os.umask(0o077)
        os.umask(self._mask)
        self._calls: dict[int, Callable[..., Any]] = {
            Op.MAKE_FOLDER: os.mkdir,
            Op.DELETE: os.unlink,
            Op.DELETE_FOLDER: os.rmdir,
            Op.DELETE_TREE: lambda place: shutil.rmtree(place) if os.path.isdir(place) else os.unlink(place),
            Op.RENAME: os.rename,
        }
        for left in Path(root.unfinished).glob("*"):
            if (handle := process.take(left)) is not None:
                left.unlink()
                os.close(handle)
        self.close()

    def answer(self, request: Request, client: Any) -> list[bytes]:
        """Do what is asked for, once, and return the pieces of the payload of a reply.

        Raises
        ------
        Refused
            With the code and the sentence of the reply.
        """
        token = request.count
        if request.op == Op.BEGIN:
            return [protocol.BEGUN.pack(self._begin(request.name, token, bool(request.offset), client))]
        if request.op == Op.WRITE:
            self._write(token, request.offset, request.data, client)
        elif request.op == Op.COMMIT:
            self._commit(token, request.offset, client)
        else:
            names = [protocol.plain(name) for name in request.name.split("\0")]
            with self._lock, refusing(names[0], "changed"):
                if token not in self._done:
                    self._calls[request.op](*map(self.root.place, names))
                    self._done.append(token)
        return []

    def left(self, client: Any) -> None:
        """Take note that a connection has ended: what it was writing stays for `GRACE_S`."""
        for token, file in list(self._open.items()):
            if file.client is client:
                file.client = None
                timer = threading.Timer(GRACE_S, self._expire, [token])
                timer.daemon = True
                timer.start()

    def close(self) -> None:
        """Remove all that is not finished; nothing is waited for."""
        for file in list(self._open.values()):
            file.aside.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            os.rmdir(self.root.unfinished)

    def _begin(self, name: str, token: int, appends: bool, client: Any) -> int:
        """Open a file aside and return how many bytes it has; those of the file so far where it `appends`."""
        name = protocol.plain(name)
        if name.endswith("/"):
            raise Refused(Code.FAILED_PRECONDITION, f"{name!r} ends as a folder does; allowed: the name of a file")
        with self._lock, refusing(name, "written"):
            if token in self._open:
                return self._open[token].begun
            if len(self._open) >= OPEN_LIMIT:
                sentence = f"{OPEN_LIMIT} files are being written, as many as a card can hold; close one first"
                raise Refused(Code.RESOURCE_EXHAUSTED, sentence)
            facts = self._facts(name, self.root.place(name))
            os.makedirs(self.root.unfinished, 0o700, exist_ok=True)
            aside = Path(self.root.unfinished, f"{token:016x}")
            file = self._open[token] = Unfinished(name, aside, process.take(aside), client)
        if appends:
            file.appends_to, file.begun = facts, facts.length
            try:
                while piece := self.root.read(name, file.length, protocol.PIECE_LIMIT)[0] if facts.length else b"":
                    self._write(token, file.length, piece, client)
            except Refused:
                self._drop(token)
                raise
        return file.begun

    @staticmethod
    def _facts(name: str, place: str) -> FileFacts:
        """Return what is at a place where a file is to be: nothing, or a file."""
        try:
            found = os.lstat(place)
        except FileNotFoundError:
            return FileFacts(0, 0, False, 0)
        if not stat.S_ISREG(found.st_mode):
            raise Refused(Code.FAILED_PRECONDITION, f"{name!r} is there and is not a file; allowed: files")
        return FileFacts.of(found)

    def _file(self, token: int, client: Any) -> Unfinished:
        file = self._open.get(token)
        if file is None:
            why = "the card was started again, or had given it up"
            raise Refused(Code.FAILED_PRECONDITION, f"the card holds no such unfinished file: {why}; write it again")
        file.client = client
        return file

    def _write(self, token: int, offset: int, data: bytes, client: Any) -> None:
        file = self._file(token, client)
        try:
            with self._lock:
                if offset > file.length:
                    raise Refused(Code.INVALID_ARGUMENT, f"{file.name!r} has no byte before {offset}; allowed: no gap")
                length = max(file.length, offset + len(data))
                if sum(one.length for one in self._open.values()) - file.length + length > self.limit_bytes:
                    allowed = f"{self.limit_bytes:,} bytes in all files that are not whole yet"
                    sentence = f"{file.name!r} does not fit on the card; allowed: {allowed} (limit_bytes of the card)"
                    raise Refused(Code.RESOURCE_EXHAUSTED, sentence)
                file.length = length
            file.write(offset, data)
        except Refused:
            self._drop(token)
            raise

    def _commit(self, token: int, length: int, client: Any) -> None:
        """Give a file its name."""
        if token in self._done:
            return
        file = self._file(token, client)
        try:
            if file.length != length:
                raise Refused(Code.DATA_LOSS, f"{file.name!r} came with {file.length:,} of its {length:,} bytes")
            with file.lock, refusing(file.name, "written"):
                if token in self._done:
                    return
                os.fsync(file.handle)
                with self._lock:
                    place = self.root.place(file.name)
                    facts = self._facts(file.name, place)
                    if file.appends_to not in (None, facts):
                        why = "was changed while it was appended to; allowed: one that appends at a time"
                        raise Refused(Code.FAILED_PRECONDITION, f"{file.name!r} {why}")
                    mode = stat.S_IMODE(os.stat(place).st_mode) if facts.inode else 0o666 & ~self._mask
                    os.chmod(file.aside, mode)
                    os.rename(file.aside, place)
                    self._done.append(token)
        finally:
            self._drop(token)

    def _expire(self, token: int) -> None:
        if (file := self._open.get(token)) and file.client is None:
            self._drop(token)

    def _drop(self, token: int) -> None:
        with self._lock:
            file = self._open.pop(token, None)
        if file:
            file.close()
