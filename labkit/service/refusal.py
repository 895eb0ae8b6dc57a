"""A dispatcher that knows nothing, in the place of one that does not come back: who asks would wait without end."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

#: How often such a dispatcher looks whom it can forget, in ms.
LOOK_MS = 100

#: Those that answer now, by port.
_dispatchers: dict[int, Any] = {}


def refuse(port: int, datasets: Sequence[Any] | None = None) -> None:
    """Let every question at a free port of this machine be refused, until `leave`, or until no dataset is left.

    tf.data service asks again and again after an error of the network, with pauses of up to 10 s. An answer that a
    dataset or a client is not known ends that. It is TensorFlow's own server that answers: one in Python would need the
    interpreter, which may wait for the question. Where somebody else has taken the port, that one answers.
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
    """Leave a port to whoever comes next."""
    if (dispatcher := _dispatchers.pop(port, None)) is not None:
        dispatcher.stop()
