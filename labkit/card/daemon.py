"""The card: a process of its own that owns a device, and serves files and preprocessed images over a Unix socket.

    python -m labkit.card.daemon '{"name": "card0", "root": "/photos", ...}'

is what `labkit.card.process` runs. TensorFlow never comes into this process. It says one line on its standard output
when it is ready, or why it is not, and ends by SIGTERM, or when the process that keeps it ends, however that ends.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from labkit.card import locks, protocol, shards
from labkit.card.files import Root
from labkit.card.protocol import Code, Malformed, Op, Recipe, Refused
from labkit.card.worker import Worker, counter

#: So long may a client take over one message before it is left alone, in seconds.
PATIENCE_S = 60
#: Bytes that one answer may have: what is asked for beyond comes with the next question.
ANSWER_LIMIT = 64 << 20
#: Shards whose places are remembered.
SHARDS = 256


class Card:
    """What a card knows and can do, apart from sockets.

    Parameters
    ----------
    root : Root
    worker : Worker
    facts : dict
        What `labkit.card.status` shows beside the counts.
    """

    def __init__(self, root: Root, worker: Worker, facts: dict[str, Any]) -> None:
        self.root, self.worker, self.facts = root, worker, facts
        self._served = 0
        self._shards: OrderedDict[tuple[Any, ...], Future[shards.Index]] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, op: int, name: str, offset: int, count: int) -> tuple[list[bytes | memoryview], int]:
        """Return the pieces of the payload of a reply, and its kind.

        Raises
        ------
        Refused
            With the code and the sentence of the reply.
        """
        self._served += 1
        if op == Op.STATUS:
            return [json.dumps(self.status()).encode()], protocol.PLAIN
        path, query = protocol.split(name)
        recipe = protocol.recipe(query)
        if op == Op.GLOB:
            found = self.root.glob(path)
            if query:
                return _names([f"{name}?{query}" for name, folder in found if not folder]), protocol.PLAIN
            return _names([name for name, _ in found]), protocol.PLAIN
        if op == Op.LIST:
            if query:
                raise Refused(Code.INVALID_ARGUMENT, _NO_FOLDER)
            return _names(self.root.list(path)), protocol.PLAIN
        if op == Op.STAT:
            return [protocol.STATISTICS.pack(*self.stat(path, query, recipe))], protocol.PLAIN
        if op == Op.READ:
            return self.read(path, recipe, offset, count)
        raise Refused(Code.INVALID_ARGUMENT, f"the operation is {op}; allowed: {', '.join(o.name for o in Op)}")

    def status(self) -> dict[str, Any]:
        """Return facts and counts."""
        work = self.worker
        counts = {"requests": self._served, "images": work.images, "batches": work.batches, "largest": work.largest}
        return {**self.facts, **counts}

    def stat(self, path: str, query: str, recipe: Recipe | None) -> tuple[int, int, bool]:
        """Return length, time of change in ns, and whether it is a folder; the length is that of what is read."""
        entry = self.root.stat(path)
        if entry.folder:
            if query:
                raise Refused(Code.INVALID_ARGUMENT, _NO_FOLDER)
            return 0, entry.mtime_ns, True
        if recipe is None:
            return entry.length, entry.mtime_ns, False
        return self.index(path, recipe).length if _is_shard(path) else recipe.nbytes, entry.mtime_ns, False

    def read(self, path: str, recipe: Recipe | None, offset: int, count: int) -> tuple[list[Any], int]:
        """Return the pieces of the reply to READ, and its kind.

        A file as it is: the bytes that are asked for. An image: all its pixels. A shard: the records around these
        bytes, each whole, and fewer of them than were asked for where one of them fails.
        """
        count = min(count, ANSWER_LIMIT)
        if recipe is None:
            return [protocol.PLACE.pack(offset), self.root.read(path, offset, count)], protocol.PLAIN
        if not _is_shard(path):
            image = self.root.read(path)
            return [protocol.PLACE.pack(0), self.worker.submit(image, recipe, counter(path)).result()], protocol.PLAIN
        index = self.index(path, recipe)
        wanted = index.covering(offset, count)
        if not wanted:
            if index.fault:
                raise Refused(Code.DATA_LOSS, index.fault)
            return [protocol.PLACE.pack(index.length)], protocol.RECORDS
        pieces: list[Any] = [protocol.PLACE.pack(index.records[wanted[0]].place)]
        try:
            for made in self._records(path, recipe, index, wanted):
                pieces += [struct.pack("<I", len(made)), made]
        except Refused:
            if len(pieces) == 1:
                raise
        return pieces, protocol.RECORDS

    def _records(self, path: str, recipe: Recipe, index: shards.Index, wanted: range) -> Any:
        """Yield the payload of each record with pixels in it, up to the first that fails."""
        waiting = []
        for number in wanted:
            try:
                payload = shards.payload(self.root, path, number, index.records[number])
                example = shards.example(payload, recipe.feature)
            except Refused as refusal:
                waiting.append((number, b"", None, refusal))
                break
            future = self.worker.submit(payload[slice(*example.jpeg)], recipe, counter(path, number))
            waiting.append((number, payload, example, future))
        for number, payload, example, future in waiting:
            if example is None:
                raise future
            try:
                yield example.replaced(payload, future.result())
            except Refused as refusal:
                where = f"record {number} of {path!r}, at byte {index.records[number].byte - shards.HEAD:,}"
                raise Refused(refusal.code, f"{where}: {refusal}") from None

    def index(self, path: str, recipe: Recipe) -> shards.Index:
        """Return the places of the records of a shard; remembered until the file changes, and made once at a time."""
        entry = self.root.stat(path)
        key = (path, entry.length, entry.mtime_ns, recipe.nbytes, recipe.feature)
        with self._lock:
            found = self._shards.get(key)
            mine = found is None
            if mine:
                found = self._shards[key] = Future()
                while len(self._shards) > SHARDS:
                    self._shards.popitem(last=False)
            self._shards.move_to_end(key)
        if mine:
            try:
                found.set_result(shards.index(self.root, path, recipe))
            except BaseException as error:
                with self._lock:
                    self._shards.pop(key, None)
                found.set_exception(error)
        return found.result()


_NO_FOLDER = "a folder takes no parameters; allowed: a file, or a pattern such as photos/*.jpg?size=224"


def _names(names: list[str]) -> list[bytes]:
    text = b"".join(name.encode("utf-8", "surrogateescape") + b"\0" for name in names)
    if len(text) > ANSWER_LIMIT:
        raise Refused(Code.RESOURCE_EXHAUSTED, f"{len(names):,} names match, too many for one answer; ask for fewer")
    return [text]


def _is_shard(path: str) -> bool:
    if path.endswith(protocol.PACKED):
        raise Refused(Code.INVALID_ARGUMENT, f"{path!r} is compressed; allowed with a size: {protocol.SHARD}, JPEG")
    return path.endswith(protocol.SHARD)


# -- sockets ----------------------------------------------------------------------


def converse(card: Card, peer: socket.socket) -> None:
    """Answer the questions of one client, one after the other, until it leaves or talks nonsense."""
    with contextlib.suppress(OSError, Malformed), peer:
        while head := _receive(peer, protocol.REQUEST.size, patience_s=None):
            op, length, ident, offset, count = protocol.request_head(head)
            name = _receive(peer, length).decode("utf-8", "surrogateescape")
            code, kind = Code.OK, protocol.PLAIN
            try:
                payload, kind = card.answer(op, name, offset, count)
            except Refused as refusal:
                code, payload = refusal.code, [str(refusal).encode("utf-8", "replace")]
            except MemoryError:
                code, payload = Code.RESOURCE_EXHAUSTED, [f"no memory left for {name!r}".encode("utf-8", "replace")]
            except Exception as error:
                sentence = f"the card failed at {name!r}: {type(error).__name__}: {error}"
                code, payload = Code.INTERNAL, [sentence.encode("utf-8", "replace")]
            _send(peer, protocol.pack_reply(ident, code, payload, kind))


def _send(peer: socket.socket, pieces: list[bytes | memoryview]) -> None:
    peer.settimeout(PATIENCE_S)
    if len(pieces) > 500:  # one call takes 1024 at most
        pieces = [b"".join(pieces)]
    sent = peer.sendmsg(pieces)
    for piece in pieces:
        if sent < len(piece):
            peer.sendall(memoryview(piece)[sent:])
        sent = max(sent - len(piece), 0)


def _receive(peer: socket.socket, count: int, patience_s: float | None = PATIENCE_S) -> bytes:
    """Return `count` bytes; none at all if the client has left before the first."""
    peer.settimeout(patience_s)
    data = bytearray()
    while len(data) < count:
        piece = peer.recv(count - len(data))
        if not piece:
            if data:
                raise Malformed("the client left in the middle of a message")
            break
        data += piece
        peer.settimeout(PATIENCE_S)
    return bytes(data)


def accept(card: Card, listener: socket.socket) -> None:
    """Give every client a thread."""
    while True:
        try:
            peer, _ = listener.accept()
        except OSError:  # no file numbers left, for the moment
            time.sleep(0.05)
            continue
        threading.Thread(target=converse, args=(card, peer), name="client", daemon=True).start()


# -- life and death ---------------------------------------------------------------


def leave_with(parent: int, leave: Callable[[], None]) -> None:
    """Call `leave` when the process that keeps this card has ended: its pipe closes, or this one gets another parent.

    The kernel's own word for it, PR_SET_PDEATHSIG, is not asked: it comes once for every *thread* of a parent that is
    killed, and the second one ends this process at once where LLVM, which compiles kernels here, has put handlers of
    its own in the place of ours: while the first one is served they are the default.
    """

    def watch() -> None:
        while os.getppid() == parent:
            ready, _, _ = select.select([0], [], [], 0.5)
            if ready and not os.read(0, 1024):
                break
        leave()

    threading.Thread(target=watch, name="watch", daemon=True).start()


def prove(worker: Worker) -> None:
    """Preprocess one image, so that kernels are compiled, and a device that does not work is found out at the start."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (64, 48), (200, 120, 40)).save(file, "JPEG", quality=90)
    worker.submit(file.getvalue(), Recipe(224)).result()


def run(settings: dict[str, Any]) -> None:
    """Be a card until told to stop; say one line when it is ready, or why it cannot be. Does not return.

    Parameters
    ----------
    settings : dict
        ``name``, ``root``, ``folder`` (where sockets lie), ``device`` (part of a name, or None), ``parent``
        (a process to leave with, or None).
    """
    # What drivers print is no answer of ours: only the one line goes where it is waited for.
    said = os.dup(1)
    os.dup2(2, 1)
    place = Path(settings["folder"]) / settings["name"]
    lock = _take(f"{place}.lock")
    if lock is None:
        _say(said, {"error": f"a card called {settings['name']} runs already"})
        os._exit(1)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    door = threading.RLock()  # a signal may come while this thread has it

    def leave(code: int = 0) -> None:
        # The lock is still held: no files but ours can lie there, and no socket comes while we have the door. Threads
        # may sit in a kernel that does not end, or in a driver that does not like to be unloaded: nothing else is
        # waited for.
        with door:
            try:
                locks.sweep(place.parent, place.name)
            finally:
                os._exit(code)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: leave())
    if settings["parent"] is not None:
        leave_with(settings["parent"], leave)
    try:
        serve(settings, place, door, lambda: _say(said, {"ready": True}))
    except Exception as error:
        _say(said, {"error": str(error) or type(error).__name__})
        leave(1)


def _take(path: str) -> int | None:
    """Take the lock of a name; who only looks whether a card holds it lets go of it at once."""
    for _ in range(40):
        if (lock := locks.take(path)) is not None:
            return lock
        time.sleep(0.025)
    return None


def _say(where: int, line: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(where, json.dumps(line).encode() + b"\n")
    os.close(where)


def serve(settings: dict[str, Any], place: Path, door: Any, ready: Callable[[], None]) -> None:
    """Take the device, open the socket, and answer for ever; `ready` is called as soon as it can be asked.

    The socket is made with the lock `door` held.
    """
    root = Root(settings["root"])

    from labkit.offload.opencl import drivers

    drivers.prepare(alone=True)
    from labkit import offload

    device = offload.choose(settings["device"])
    worker = Worker(offload.Engine(device.opencl))
    facts = {
        "name": settings["name"],
        "pid": os.getpid(),
        "root": root.folder,
        "device": f"{device.name} ({device.kind}, {device.platform})",
        "since": time.time(),
    }
    card = Card(root, worker, facts)
    prove(worker)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        # Renamed into place, so that nobody ever finds a socket that nobody listens on, but a stale one.
        aside = f"{place}.new"
        Path(aside).unlink(missing_ok=True)
        with door:
            listener.bind(aside)
            listener.listen(256)
            os.replace(aside, f"{place}.sock")
        threading.Thread(target=accept, args=(card, listener), name="door", daemon=True).start()
        ready()
        threading.Event().wait()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
