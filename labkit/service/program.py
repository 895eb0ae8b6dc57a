"""What a child of the nursery is that trains: it runs a program of the reader's, and says what came of it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import traceback
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from labkit.common.errors import error_text


class Member(NamedTuple):
    """What a program is told of the process that it runs in.

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
    """How a program ended: whether it returned, what it returned or the error as a sentence, and what it printed."""

    done: bool
    result: Any
    printed: str


def run(told: dict[str, Any], connection: Connection) -> None:
    """Run a program, and stay until the parent closes the connection: others may still need what this process serves.

    Parameters
    ----------
    told : dict
        ``program``, the function and its settings, as cloudpickle packs them; ``addresses``, the ``host:port`` of each
        process, in their order; ``number`` and ``attempt`` as in `Member`.
    connection : Connection
        Takes an `Outcome`.
    """
    addresses, number = told["addresses"], told["number"]
    if len(addresses) > 1:  # how tf.distribute learns who belongs together
        task = {"type": "worker", "index": number}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
    printed, program = io.StringIO(), None
    try:
        program, settings = pickle.loads(told["program"])
        with contextlib.redirect_stdout(printed):
            result = program(Member(number, len(addresses), told["attempt"]), **settings)
        outcome = Outcome(True, result, printed.getvalue())
    except BaseException as error:  # whatever a reader's program raises: the parent says it
        outcome = Outcome(False, f"{error_text(error)[:300]}{_where(error, program)}", printed.getvalue())
    with contextlib.suppress(EOFError, OSError):
        try:
            connection.send(outcome)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            why = f"what it returned cannot be sent to another process: {error_text(error)[:200]}"
            connection.send(Outcome(False, why, outcome.printed))
        connection.recv()


def _where(error: BaseException, program: Any) -> str:
    """Return the line of the program at which an error came up, in words; nothing where it is not known."""
    file = getattr(getattr(program, "__code__", None), "co_filename", None)
    mine = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" (in {mine[-1].name}, line {mine[-1].lineno})" if mine else ""
