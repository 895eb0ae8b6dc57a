"""The card: a process of its own that owns a device, and serves files and preprocessed images over a Unix socket.

`labextras.card.process` starts it, and sends it its settings first. TensorFlow is never loaded in this process. If it
cannot start, its last line of output says why. It ends by SIGTERM, or with the process that started it as its keeper,
however that process ends.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import connection
from pathlib import Path
from typing import Any

import msgspec

from labextras.card import process, protocol, shards
from labextras.card.protocol import Code, MessageError, Op, Recipe, Refused, Request
from labextras.card.root import FileFacts, Root
from labextras.card.worker import COPY_IN, COPY_OUT, Worker
from labextras.card.writes import Writes
from labkit.common import processes
from labkit.sources import framing

#: Bytes of a file that one reply may have: what is wanted beyond comes with the next request.
REPLY_LIMIT = 64 << 20
#: Bytes of records that are made at once, even if fewer are wanted: enough of them to fill a batch.
RECORDS_AHEAD = 4 << 20
#: Shards whose records are remembered.
SHARDS = 256


class Server:
    """What a card knows and can do, apart from sockets.

    Parameters
    ----------
    root : Root
    worker : Worker
    facts : Running
        What `labextras.card.status` shows, without the counts.
    writes : Writes, optional
        What is done where the card may be written to; without it the card is read only.
    """

    def __init__(self, root: Root, worker: Worker, facts: process.Running, writes: Writes | None = None) -> None:
        self.root, self.worker, self.facts, self.writes = root, worker, facts, writes
        self._requests = 0
        self._lock = threading.Lock()
        self._index = functools.lru_cache(SHARDS)(
            lambda path, length, feature, *_: shards.index(root, path, length, feature)
        )

    def answer(self, request: Request, client: Any = None) -> list[bytes | memoryview]:
        """Return the pieces of the payload of a reply.

        Raises
        ------
        Refused
            With the code and the sentence of the reply.
        """
        self._requests += 1
        op, name = request.op, request.name
        if op == Op.STATUS:
            counts = {count: getattr(self.worker, count) for count in ("images", "batches", "largest")}
            facts = {"requests": self._requests, "cpu_s": time.process_time(), **counts}
            return [msgspec.json.encode(msgspec.structs.replace(self.facts, **facts))]
        if op == Op.SPANS:
            return [msgspec.json.encode(self.worker.spans(request.offset, request.offset + request.count))]
        if Op.BEGIN <= op <= Op.RENAME:
            if self.writes is None:
                how = "Card(..., writable=True) or `labkit card start --writable` starts one that may be changed"
                raise Refused(Code.PERMISSION_DENIED, f"{name!r}: the card {self.facts.name} is only read; {how}")
            return self.writes.answer(request, client)
        path, query = protocol.split(name)
        recipe = protocol.recipe(query)
        if op == Op.GLOB:
            behind = f"?{query}" if query else ""
            return _names([found + behind for found, folder in self.root.glob(path) if not (folder and query)])
        if op == Op.LIST:
            return _names(self.root.list(path))
        if op == Op.STAT:
            entry = self.root.stat(path)
            length = entry.length
            if recipe and not entry.folder:
                length = self.index(path, recipe).length if _is_shard(path) else recipe.nbytes
            return [protocol.STATISTICS.pack(length, entry.mtime_ns, entry.folder)]
        if op == Op.READ:
            return self.read(path, recipe, request.offset, request.count)
        raise Refused(Code.INVALID_ARGUMENT, f"the operation is {op}; allowed: {', '.join(o.name for o in Op)}")

    def read(self, path: str, recipe: Recipe | None, offset: int, count: int) -> list[bytes | memoryview]:
        """Return the pieces of the payload of a reply to READ.

        A file as it is: the bytes that are wanted. An image: all its pixels. A shard: the records around these
        bytes, each whole, and fewer of them than were wanted where one of them fails.
        """
        if recipe is None:
            count = min(count, REPLY_LIMIT)
            with self.worker.noted(COPY_IN, "read"):
                data, facts = self.root.read(path, offset, count)
            end = offset + len(data) if len(data) < count else protocol.UNKNOWN
            return [protocol.STRETCH.pack(offset, end, _version(facts)), data]
        if not _is_shard(path):
            with self.worker.noted(COPY_IN, "read"):
                data, facts = self.root.read(path)
            pixels = self.worker.submit(data, recipe).result()
            return [protocol.STRETCH.pack(0, recipe.nbytes, _version(facts)), pixels]
        facts = self.root.stat(path)
        index = self.index(path, recipe)
        wanted = index.covering(offset, min(max(count, RECORDS_AHEAD), REPLY_LIMIT))
        if not wanted and index.fault:
            raise Refused(Code.DATA_LOSS, index.fault)
        place = index.places[wanted[0]].seen if wanted else index.length
        length = protocol.UNKNOWN if index.fault else index.length
        pieces = [protocol.STRETCH.pack(place, length, _version(facts))]
        try:
            for payload in self._payloads(path, recipe, index, wanted):
                pieces += [framing.header(len(payload)), payload, framing.checksum(payload)]
        except Refused:
            if len(pieces) == 1:
                raise
        if self.root.stat(path) != facts:
            raise Refused(Code.FAILED_PRECONDITION, f"{path!r} was changed while it was read; open it again")
        return pieces

    def _payloads(self, path: str, recipe: Recipe, index: shards.Index, wanted: range) -> Iterator[bytes]:
        """Yield the payload of each record with pixels in it, up to the first that fails."""
        submitted = []
        for number in wanted:
            place = index.places[number]
            with self.worker.noted(COPY_IN, "read"):
                record, _ = self.root.read(path, place.byte, place.length)
            example = shards.Example(record, recipe.feature)
            submitted.append((number, example, self.worker.submit(example.jpeg, recipe)))
        for number, example, pixels in submitted:
            try:
                made = pixels.result()
            except Refused as refusal:
                where = shards.place_in_words(path, number, index.places[number].byte)
                raise Refused(refusal.code, f"{where}: {refusal}") from None
            yield example.replaced(made)

    def index(self, path: str, recipe: Recipe) -> shards.Index:
        """Return where the records of a shard are; remembered until the file changes, and made one at a time."""
        entry = self.root.stat(path)
        with self._lock:
            return self._index(path, recipe.nbytes, recipe.feature, entry)


def _version(facts: FileFacts) -> int:
    return hash(facts) % 2**64


def _names(names: list[str]) -> list[bytes]:
    text = b"".join(name.encode("utf-8", "surrogateescape") + b"\0" for name in names)
    if len(text) > REPLY_LIMIT:
        raise Refused(Code.RESOURCE_EXHAUSTED, f"{len(names):,} names match, too many for one reply; ask for fewer")
    return [text]


def _is_shard(path: str) -> bool:
    if path.endswith((".tfrecord.gz", ".tfrecord.zlib")):  # the records with pixels would have to be packed again
        raise Refused(Code.INVALID_ARGUMENT, f"{path!r} is compressed; allowed with a size: .tfrecord, JPEG")
    return path.endswith(".tfrecord")


# -- sockets ----------------------------------------------------------------------


def answer_client(server: Server, client: connection.Connection) -> None:
    """Answer the requests of one client, one after the other, until it leaves or sends something else."""
    with contextlib.ExitStack() as end, contextlib.suppress(OSError, EOFError, MessageError), client:
        if server.writes:
            end.callback(server.writes.left, client)
        while True:
            request = protocol.unpack_request(client.recv_bytes(protocol.REQUEST.size + protocol.PIECE_LIMIT))
            code = Code.OK
            try:
                payload = server.answer(request, client)
            except Refused as refusal:
                code, payload = refusal.code, [str(refusal).encode("utf-8", "replace")]
            except Exception as error:
                sentence = f"the card failed at {request.name!r}: {type(error).__name__}: {error}"
                code, payload = Code.INTERNAL, [sentence.encode("utf-8", "replace")]
            sent = server.worker.noted(COPY_OUT, "send") if request.op == Op.READ else contextlib.nullcontext()
            with sent:
                client.send_bytes(protocol.pack_reply(request.id, code, payload))


# -- start and end ----------------------------------------------------------------


def run(place: Path, link: connection.Connection) -> None:
    """Run a card until the process gets a signal to end. Does not return.

    Parameters
    ----------
    place : path
        Of its socket and its lock, without their endings: the name of the card, in the folder of all cards.
    link : connection.Connection
        Brings the settings: ``root``, ``device`` (part of a name, or None), ``keeper`` (whether the card ends with its
        parent), ``limit_bytes`` (see `Writes`; None for a card that is only read). Takes True when the card serves.
    """
    settings = link.recv()
    # A process that only looks whether a card holds the lock releases it at once.
    lock = process.take(f"{place}.lock", timeout_s=1)
    if lock is None:
        sys.exit(f"a card called {place.name} runs already")
    os.pwrite(lock, str(os.getpid()).encode(), 0)

    def leave(code: int = 0) -> None:
        # The lock of the name is still held, so that only files of this card are removed. Nothing else is waited for:
        # threads may be in a kernel that does not end, or in a driver that cannot be unloaded.
        try:
            for call in at_end:
                call()
            process.remove(place.parent, place.name)
        finally:
            os._exit(code)

    at_end: list[Callable[[], Any]] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: leave())
    if settings["keeper"]:
        processes.leave_with_parent(leave)
    try:
        serve(settings, place, link, at_end)
    except Exception as error:
        print(" ".join(str(error).split()) or type(error).__name__, file=sys.stderr, flush=True)
        leave(1)


def check_worker(worker: Worker) -> None:
    """Preprocess one image, so that kernels are compiled, and a device that does not work is noticed at the start."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (64, 48), (200, 120, 40)).save(file, "JPEG", quality=90)
    worker.submit(file.getvalue(), Recipe(224)).result()


def serve(settings: dict[str, Any], place: Path, link: connection.Connection, at_end: list[Callable[[], Any]]) -> None:
    """Take the device, open the socket, say so, and answer for ever; `at_end` gets what is to be called at the end."""
    root, limit = Root(settings["root"]), settings["limit_bytes"]
    writes = None if limit is None else Writes(root, limit)
    if writes:
        at_end.append(writes.close)

    from labextras.offload.opencl import drivers

    drivers.prepare(alone=True)
    from labextras import offload

    device = offload.choose(settings["device"])
    worker = Worker(offload.Engine(device.opencl))
    kind = f"{device.name} ({device.kind}, {device.platform})"
    facts = process.Running(place.name, os.getpid(), root.folder, kind, writes is not None)
    server = Server(root, worker, facts, writes)
    check_worker(worker)
    # Renamed into place: a socket at this path belongs to a card that accepts connections, or it is a leftover.
    aside = f"{place}.new"
    Path(aside).unlink(missing_ok=True)
    listener = connection.Listener(aside, "AF_UNIX", backlog=256)
    os.replace(aside, f"{place}.sock")
    link.send(True)
    while True:
        try:
            client = listener.accept()
        except OSError:  # no descriptors left, for the moment
            time.sleep(0.05)
            continue
        threading.Thread(target=answer_client, args=(server, client), name="client", daemon=True).start()


if __name__ == "__main__":
    run(Path(sys.argv[3]), processes.link_to_parent(None))
