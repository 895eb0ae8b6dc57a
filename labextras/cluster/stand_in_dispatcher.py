"""A dispatcher without datasets, in the place of one that has ended: without it, clients would wait for ever."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

#: How often this dispatcher looks for clients that it can forget, in ms.
LOOK_MS = 100

#: Those that answer now, by port.
_dispatchers: dict[int, Any] = {}


def refuse(port: int, datasets: Sequence[Any] | None = None) -> None:
    """Refuse every request at a free port of this machine, until `leave`, or until no dataset is left.

    After an error of the network, a client of tf.data service asks again and again, with pauses of up to 10 s. It stops
    when the answer is that a dataset or a client is not known. TensorFlow's own server gives this answer: a server in
    Python would need the interpreter, which may wait for the request. If another program has the port, it answers.
    """
    import tensorflow as tf
    from tensorflow.core.protobuf.service_config_pb2 import DispatcherConfig
    from tensorflow.data.experimental.service import DispatchServer

    leave(port)
    # It forgets each client after a millisecond, which no public name asks for.
    forgets = DispatcherConfig(port=port, protocol="grpc", client_timeout_ms=1, job_gc_check_interval_ms=LOOK_MS)
    try:
        _dispatchers[port] = mine = DispatchServer(forgets)
    except (RuntimeError, tf.errors.OpError):
        return
    left = list(range(len(datasets or ())))

    def gone() -> None:
        left.pop()
        if not left and _dispatchers.get(port) is mine:
            leave(port)

    for dataset in datasets or ():
        weakref.finalize(dataset, gone).atexit = False


def leave(port: int) -> None:
    """Free a port, so that another server can take it."""
    if (dispatcher := _dispatchers.pop(port, None)) is not None:
        dispatcher.stop()
