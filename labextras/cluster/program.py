"""A child of the fork server that trains: it runs a program of the reader, and reports how the program ended."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import pickle
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import IO, Any, NamedTuple

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


def pack(value: Any, parts: Iterable[tuple[str, Any]]) -> bytes:
    """Return an object as bytes for another process.

    Parameters
    ----------
    value : object
    parts : iterable of (name, object)
        What it consists of, to say which of them it is that cannot be sent.

    Raises
    ------
    ClusterError
        If it cannot be sent.
    """
    import cloudpickle

    try:
        return cloudpickle.dumps(value, 5)
    except Exception as error:  # whatever an object says that cannot be pickled
        for name, part in parts:
            try:
                cloudpickle.dumps(part, 5)
            except Exception as own:
                raise ClusterError(f"{name} cannot be sent to another process: {error_text(own)[:200]}") from error
        raise ClusterError(f"it cannot be sent to another process: {error_text(error)[:200]}") from error


def needs(program: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a function needs of the notebook around it, by name."""
    with contextlib.suppress(TypeError, ValueError):  # an object that can be called; a name without a value as yet
        found = inspect.getclosurevars(program)
        for name, value in {**found.globals, **found.nonlocals}.items():
            yield f"{name}, which {program.__name__} uses,", value


def _returned(result: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a program returned, one by one where there are several."""
    if isinstance(result, dict):
        yield from ((f"what it returned as {name!r:.60}", value) for name, value in result.items())
    elif isinstance(result, (list, tuple)):
        yield from ((f"item {number} of what it returned", value) for number, value in enumerate(result))
    yield "what it returned", result


def run(job: dict[str, Any], connection: Connection) -> None:
    """Run a program, and stay until the parent closes the connection: others may still need what this process serves.

    Parameters
    ----------
    job : dict
        ``program``, the function and its settings, as `pack` packs them; ``folder`` and ``path``, where the notebook
        is, and where it finds modules; ``addresses``, the ``host:port`` of each process, in their order; ``number`` and
        ``attempt`` as in `Member`.
    connection : Connection
        Takes the files of all that is printed, and of all warnings and errors, which are there whatever becomes of
        this process, and an `Outcome`.
    """
    for descriptor in (1, 2):  # of C++, and of processes that the program starts, too
        with _log() as log:
            os.dup2(log.fileno(), descriptor)
            reduction.send_handle(connection, log.fileno(), os.getppid())
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
        outcome = Outcome(True, pack(result, _returned(result)))
    except ClusterError as error:
        outcome = Outcome(False, str(error))
    except BaseException as error:  # whatever a reader's program raises: the parent says it
        outcome = Outcome(False, f"{error_text(error)[:300]}{_where(error, program)}")
    with contextlib.suppress(EOFError, OSError):
        connection.send(outcome)
        connection.recv()


def _log() -> IO[bytes]:
    """Return a file for what is printed; where no disk has room for one, what is printed is lost."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "r+b")


def _where(error: BaseException, program: Any) -> str:
    """Return the line of the program at which an error came up, in words; nothing where it is not known."""
    file = getattr(getattr(program, "__code__", None), "co_filename", None)
    mine = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" (in {mine[-1].name}, line {mine[-1].lineno})" if mine else ""
