"""Objects over HTTP, as a bucket of a cloud delivers them: a server on this machine, and a reader for it.

The server is a process of its own, so that its work is not counted as the reader's. It waits before each answer, which
stands for the way through a network: the bytes are real, the delay is modelled.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from labkit.common import processes
from labkit.common.numbers import number, one_of, whole
from labkit.timeline.wording import NETWORK

#: The faults that can be planted in an object. ``busy``: the server answers 503 (service unavailable) to the first two
#: requests, and then delivers the object; ``down``: it answers 503 to every request; ``hang``: it takes the request and
#: does not answer; ``half``: it says how long the object is, sends half of it, and closes the connection.
FAULTS = ("busy", "down", "hang", "half")
#: Requests that a busy object refuses.
_REFUSALS = 2
#: Seconds until the server must be ready, and until it must have ended.
START_TIMEOUT_S = 30
_STOP_S = 5
_HOST = "127.0.0.1"
#: Answers that may be others a moment later: the server is busy, or it or one behind it failed.
_BUSY, _FAILED = {429, 503}, {500, 502, 504}
#: Encodings whose bytes are not those of the object; others, as aws-chunked, only say how it was sent.
_PACKED = {"gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"}


class ObjectError(OSError):
    """An object did not arrive whole; the sentence names it, and says what to do."""


class ObjectStore:
    """A server of objects that runs as long as a ``with`` block, and never longer than this process.

    It speaks HTTP/1.1 and keeps connections open. Any number of requests are served at the same time.

    Parameters
    ----------
    objects : mapping of str to path or bytes
        What it serves, by name: a file, or bytes.
    delay_ms : float
        Milliseconds that it waits before each answer, 0 or more.
    faults : mapping of str to str, optional
        Which of `FAULTS` is planted in which object.

    Attributes
    ----------
    names : tuple of str
        The objects in their order.
    address : str
        Host and port, as in ``127.0.0.1:8080``; only while it runs.

    Raises
    ------
    ValueError
        If there is no object, a fault or its object is unknown, or the delay is no such number.
    FileNotFoundError
        If a file is missing.
    """

    def __init__(
        self, objects: Mapping[str, str | Path | bytes], delay_ms: float = 30, faults: Mapping[str, str] | None = None
    ) -> None:
        if not objects:
            raise ValueError("objects is empty; allowed: at least one name with a file or bytes")
        self.names, self._objects = tuple(objects), dict(objects)
        self.delay_ms = number("delay_ms", delay_ms, 0, 60_000, unit="of milliseconds")
        self.faults = dict(faults or {})
        for name, fault in self.faults.items():
            one_of("the object of a fault", name, self.names)
            one_of(f"the fault of {name}", fault, FAULTS)
        for content in self._objects.values():
            if not isinstance(content, bytes) and not Path(content).is_file():
                raise FileNotFoundError(f"{content} is not there, or no file; allowed: files and bytes")
        self._child: processes.Child | None = None
        self._port = 0

    def __repr__(self) -> str:
        """Return what it serves and how, the same on every machine."""
        faults = f", {len(self.faults)} with a fault" if self.faults else ""
        return f"ObjectStore({len(self.names):,} objects{faults}, modelled delay {self.delay_ms:g} ms)"

    @property
    def address(self) -> str:
        """Host and port.

        Raises
        ------
        ObjectError
            If it does not run.
        """
        if self._child is None:
            raise ObjectError("the object store does not run: use it inside of its with block")
        return f"{_HOST}:{self._port}"

    def __enter__(self) -> ObjectStore:
        """Start the server; it is ready when this returns."""
        held = {n: c if isinstance(c, bytes) else Path(c).absolute() for n, c in self._objects.items()}
        child = processes.Child("labextras.extract.object_store", polite_s=_STOP_S)
        try:
            child.answer(START_TIMEOUT_S)
            self._port = child.ask((held, self.delay_ms / 1e3, self.faults), START_TIMEOUT_S)
        except processes.ChildError as error:
            raise ObjectError(f"the object store did not start: {error}") from None
        self._child = child
        return self

    def __exit__(self, *_: Any) -> None:
        """Stop the server."""
        self._child.end()
        self._child = None


class Reader:
    """Reads objects over HTTP, and asks again where a server is busy; each thread of a process has its own connection.

    Parameters
    ----------
    address : str
        Host and port.
    timeout_s : float
        Seconds that a whole answer may take, from the request to its last byte.
    retries : int
        How often it asks again after a 429, 500, 502, 503 or 504, a timeout, or a connection that broke.
    backoff_s : float
        Seconds before it asks again; twice as long each further time. It waits longer where a busy server says so
        (``Retry-After``), up to `timeout_s`.

    Raises
    ------
    ValueError
        If a number is out of bounds.
    """

    def __init__(self, address: str, timeout_s: float = 5, retries: int = 4, backoff_s: float = 0.05) -> None:
        self.address = str(address)
        self.timeout_s = number("timeout_s", timeout_s, above=0, unit="of seconds")
        self.retries = whole("retries", retries, least=0)
        self.backoff_s = number("backoff_s", backoff_s, 0, unit="of seconds")
        self._links: dict[tuple[int, int], http.client.HTTPConnection] = {}

    def read(self, name: str | bytes) -> bytes:
        """Return a whole object, by its name, which TensorFlow hands over as bytes.

        Raises
        ------
        ObjectError
            One sentence that names the object, what the server did, and what to do.
        """
        name = name.decode() if isinstance(name, bytes) else name
        wait_s = 0.0
        for again in range(self.retries + 1):
            if again:
                time.sleep(max(wait_s, self.backoff_s * 2 ** (again - 1)))
            wait_s = 0.0
            try:
                status, head, data = self._ask(name)
            except TimeoutError:
                problem = f"gave no answer within {self.timeout_s:g} s; see whether the server works, or wait longer"
            except http.client.IncompleteRead as error:
                problem = f"ended after {len(error.partial):,} bytes; nothing of it was used, so read it again later"
            except ConnectionRefusedError:
                raise ObjectError(f"object {name}: no server answers at {self.address}; start it") from None
            except (http.client.HTTPException, OSError) as error:
                problem = f"lost its connection to {self.address} ({type(error).__name__}); read it again later"
            else:
                if status == 200:
                    encoding = head.get("Content-Encoding", "")
                    if _PACKED.intersection(re.split("[ ,]+", encoding.casefold())):
                        raise ObjectError(f"object {name} is stored in the encoding {encoding}; store it as it is")
                    return data
                if status not in _BUSY | _FAILED:
                    do = "check the name" if status == 404 else "to ask again does not help, see why it is not sent"
                    raise ObjectError(f"object {name}: the server at {self.address} answers {status}; {do}")
                pause = head.get("Retry-After", "")
                wait_s = min(float(pause), self.timeout_s) if pause.isdecimal() else 0.0
                problem = f"did not come, the server failed ({status}); see whether it works, or read it later"
                if status in _BUSY:
                    problem = f"was refused, the server is busy ({status}); read with fewer connections, or later"
        raise ObjectError(f"object {name} {problem} (asked {self.retries + 1} times)")

    def dataset(self, names: Sequence[str], connections: int = 8) -> Any:
        """Return a dataset of the bytes of objects, in the order of their names, read over several connections.

        Parameters
        ----------
        names : sequence of str
        connections : int
            Requests at the same time.

        Returns
        -------
        tf.data.Dataset of string, shape ()
            An object that does not arrive ends it with the error of `read`; no object is left out.
        """
        import tensorflow as tf

        @tf.autograph.experimental.do_not_convert
        def fetch(name: Any) -> Any:
            return tf.ensure_shape(tf.numpy_function(self.read, [name], tf.string, name=NETWORK), [])

        options = tf.data.Options()
        options.threading.private_threadpool_size = whole("connections", connections, 1, 256)
        listed = tf.data.Dataset.from_tensor_slices(tf.constant(list(names), tf.string))
        return listed.map(fetch, num_parallel_calls=connections).with_options(options)

    def _ask(self, name: str) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, header and body of one answer, over the connection of this thread of this process."""
        own = os.getpid(), threading.get_ident()
        link = self._links.pop(own, None) or http.client.HTTPConnection(self.address, timeout=self.timeout_s)
        until, data = time.monotonic() + self.timeout_s, bytearray()
        with contextlib.ExitStack() as unless_whole:
            # What is left of an answer must not be taken for the next one.
            unless_whole.callback(link.close)
            # Python's server takes two slashes at the beginning for one.
            link.request("GET", "/" + quote(name, safe="" if name.startswith("/") else "/"))
            line = link.sock
            line.settimeout(self.timeout_s)
            with link.getresponse() as answer:
                while answer.length != 0 and not answer.isclosed():
                    # The time of one piece bounds no answer that comes in many.
                    line.settimeout(max(until - time.monotonic(), 1e-6))
                    data += answer.read1(1 << 20)
            if answer.length:
                raise http.client.IncompleteRead(bytes(data), answer.length)
            unless_whole.pop_all()
        self._links[own] = link
        return answer.status, answer.headers, bytes(data)


# -- the process of the server -----------------------------------------------------------------------


class _Handler(BaseHTTPRequestHandler):
    """Answers GET: after the delay, with an object, or with what its fault does."""

    protocol_version = "HTTP/1.1"  # the older one closes the connection after each answer
    wbufsize = -1  # head and body leave together
    disable_nagle_algorithm = True
    server: _Objects

    def do_GET(self) -> None:
        name, server = unquote(self.path[1:]), self.server
        time.sleep(server.delay_s)
        fault = server.faults.get(name)
        if fault == "hang":
            threading.Event().wait()
        with server.lock:
            server.asked[name] += 1
            refused = fault == "down" or (fault == "busy" and server.asked[name] <= _REFUSALS)
        status, data = 503 if refused else 404, b""
        with contextlib.suppress(KeyError, OSError):
            if not refused:  # a file is read again for each request, so that it is not kept in memory
                found = server.objects[name]
                status, data = 200, found if isinstance(found, bytes) else found.read_bytes()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if fault == "half" else data)
        self.close_connection |= fault == "half"

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


class _Objects(socketserver.ThreadingTCPServer):
    """A server with a thread for each connection."""

    daemon_threads, request_queue_size = True, 256

    def __init__(self, objects: Mapping[str, Path | bytes], delay_s: float, faults: Mapping[str, str]) -> None:
        super().__init__((_HOST, 0), _Handler)
        self.objects, self.delay_s, self.faults = objects, delay_s, faults
        self.lock, self.asked = threading.Lock(), Counter[str]()

    def handle_error(self, *_: Any) -> None:
        """Pass over it: a reader that goes away is no fault."""


def _serve() -> None:
    """Serve until the parent ends."""
    processes.leave_with_parent(lambda: os._exit(0))
    with processes.link_to_parent() as link:
        link.send("ready")
        server = _Objects(*link.recv())
        link.send(server.server_address[1])
    with server:
        server.serve_forever()


if __name__ == "__main__":
    _serve()
