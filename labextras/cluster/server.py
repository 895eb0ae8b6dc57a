"""A child of the fork server that is a dispatcher or a worker of tf.data service, and gets commands by a connection."""

from __future__ import annotations

import contextlib
from multiprocessing.connection import Connection
from typing import Any

from labkit.common.errors import error_text


def serve(role: str, settings: dict[str, Any], connection: Connection) -> None:
    """Run a server until its parent closes the connection.

    Parameters
    ----------
    role : str
        ``dispatcher`` or ``worker``.
    settings : dict
        Of `tf.data.experimental.service.DispatcherConfig`, or of ``WorkerConfig``.
    connection : Connection
        The answer to each command goes back on it: ``(True, what)``, or ``(False, sentence)``. The first one is that of
        the start. Commands are ``profile``, which starts TensorFlow's profiler, and ``profiled``, which stops it; the
        answer is the `labkit.timeline.trace.Trace` of what it saw.
    """
    from tensorflow.data.experimental import service

    from labkit.recording.tfdata.driver import Session

    dispatcher, session = (service.DispatchServer, service.DispatcherConfig), None
    make, config = dispatcher if role == "dispatcher" else (service.WorkerServer, service.WorkerConfig)
    with contextlib.suppress(EOFError, OSError):
        try:
            _server = make(config(**settings))  # it serves as long as the name refers to it
        except Exception as error:  # whatever TensorFlow raises: the parent says it
            connection.send((False, error_text(error)[:300]))
            return
        connection.send((True, None))
        while True:
            command = connection.recv()
            try:
                if command == "profile":
                    begun = Session()
                    begun.start()  # it refuses where one runs, and leaves that one alone
                    session, answer = begun, None
                else:
                    answer = session.stop()
                connection.send((True, answer))
            except Exception as error:
                connection.send((False, error_text(error)[:300]))
