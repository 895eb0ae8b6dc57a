"""A child of the fork server that trains: it runs a program of the reader, and reports how the program ended."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sys
import tempfile
import traceback
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from labextras.cluster.elements import ClusterError
from labkit.common.errors import error_text


class Member(NamedTuple):
    """What a program knows of the process that it runs in.

    Parameters
    ----------
    number, count : int
        Which one of how many, from 0. Process 0 is the *chief*, whose checkpoint counts.
    attempt : int
        How often all processes have been started before, because one of them had died.
    """

    number: int
    count: int
    attempt: int


class Outcome(NamedTuple):
    """How a program ended: whether it returned; what it returned, packed, or the error as a sentence."""

    done: bool
    result: Any


def pack(value: Any, what: str) -> bytes:
    """Return an object as bytes for another process; ClusterError, which says `what` it is, if it cannot be sent."""
    import cloudpickle

    try:
        return cloudpickle.dumps(value, 5)
    except Exception as error:  # whatever an object says that cannot be pickled
        hint = "Tensors, datasets and models belong to the process that made them: make them there"
        said = error_text(error)[:200].rstrip(".")
        raise ClusterError(f"{what} cannot be sent to another process: {said}. {hint}") from error


def run(job: dict[str, Any], connection: Connection) -> None:
    """Run a program, and stay until the parent closes the connection: others may still need what this process serves.

    Parameters
    ----------
    job : dict
        ``program``, the function and its settings, as `pack` packs them; ``folder`` and ``path``, where the notebook
        is, and where it finds modules; ``addresses``, the ``host:port`` of each process, in their order; ``number`` and
        ``attempt`` as in `Member`; ``printed`` and ``warned``, files for what it prints, and for warnings and errors.
    connection : Connection
        Takes an `Outcome`.
    """
    for descriptor, file in ((1, job["printed"]), (2, job["warned"])):  # of C++, and of what the program starts, too
        with open(file, "wb") as log:
            os.dup2(log.fileno(), descriptor)
    tempfile.tempdir = None  # what a program makes is not to end with this process
    os.register_at_fork(after_in_child=connection.close)  # its end is that of this process, not of one forked from it
    addresses, number = job["addresses"], job["number"]
    if len(addresses) > 1:  # how tf.distribute learns who belongs together
        task = {"type": "worker", "index": number}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
    program = None
    try:
        os.chdir(job["folder"])
        sys.path[:] = job["path"]
        program, settings = pickle.loads(job["program"])
        result = program(Member(number, len(addresses), job["attempt"]), **settings)
        outcome = Outcome(True, pack(result, "what it returned"))
    except ClusterError as error:
        outcome = Outcome(False, str(error))
    except BaseException as error:  # whatever a reader's program raises: the parent says it
        outcome = Outcome(False, f"{error_text(error)[:300]}{_where(error, program)}")
    with contextlib.suppress(EOFError, OSError):
        connection.send(outcome)
        connection.recv()


def _where(error: BaseException, program: Any) -> str:
    """Return the line of the program at which an error came up, in words; nothing where it is not known."""
    file = getattr(getattr(program, "__code__", None), "co_filename", None)
    mine = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" (in {mine[-1].name}, line {mine[-1].lineno})" if mine else ""
