"""Calling what a student wrote: within a time limit, with a hint for whatever it returns, raises or delivers."""

from __future__ import annotations

import contextlib
import decimal
import inspect
import itertools
import math
import numbers
import signal
import threading
import types
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

from labcourse.grading import Unclear, Wrong, answered, raised
from labextras.tune import timed_reading

#: Seconds that one call of an answer, or one element of its dataset, may take: none needs one.
LIMIT_S = 20.0

#: A list of whole numbers is longer in no exercise; a generator may have no end.
_MOST_NUMBERS = 10_000

# The byte code of functions that do nothing, as this version of Python writes it, with a docstring and without.
_STUBS = {
    code.co_code
    for docstring in ("", "'What it does.'\n ")
    for body in ("...", "pass", "return None")
    for code in compile(f"def stub():\n {docstring}{body}", "a stub", "exec").co_consts
    if isinstance(code, types.CodeType)
}


#: Seconds that `call` lets an answer take, where that is less than for a first look at it.
answer_within: ContextVar[float] = ContextVar("answer_within", default=math.inf)


class TooLong(BaseException):
    """The time of a call is up. It is no Exception, so that an answer's own ``except Exception`` does not catch it."""


def call(function: Any, *arguments: Any) -> Any:
    """Call the student's function; None from the first call means that it is still the stub."""
    if not callable(function):
        raise Wrong(f"pass the function itself, not {type(function).__name__} {function!r:.40}")
    text = for_case(arguments)
    try:
        with limited(answer_within.get()):
            # Copies, so that an answer that changes its lists changes neither the truth nor a hint.
            result = function(*(list(a) if isinstance(a, list) else a for a in arguments))
    except TooLong:
        raise Wrong(f"{text}your function does not come back: look for a loop that never ends") from None
    except (Wrong, Unclear, NotImplementedError):
        raise
    except Exception as error:
        if not text:
            raise
        raise Wrong(text + raised(error)) from None
    if result is None and (answered.get() or not _is_stub(function)):
        raise Wrong(f"{text}your function returns nothing: a return is missing")
    if result is None:
        raise NotImplementedError
    answered.set(True)
    return result


def for_case(arguments: tuple) -> str:
    """Return ``for (…) ``, or nothing where the arguments are no plain values that can be read."""
    text = f"for ({', '.join(map(str, arguments))}) "
    return text if all(isinstance(a, (int, float, list)) for a in arguments) and "array(" not in text else ""


def _is_stub(function: Any) -> bool:
    """Return whether the code of a function does nothing, or whether it has no Python code."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is None or code.co_code in _STUBS


@contextlib.contextmanager
def limited(seconds: float = math.inf) -> Iterator[None]:
    """Raise `TooLong` after so many seconds, `LIMIT_S` at most.

    It does nothing where this thread may not set the alarm clock, or something else has set it.
    """
    mine = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return

    def end(*_: Any) -> None:
        raise TooLong

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, min(LIMIT_S, seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def pull_with_timeout(dataset: Any, limit_s: float | None = None, total_s: float = math.inf) -> list[Any]:
    """Return all elements of a finite dataset, as tensors.

    Parameters
    ----------
    dataset : tf.data.Dataset
    limit_s : float, optional
        Seconds to wait for each element; by default `LIMIT_S`.
    total_s : float
        Seconds to wait for all elements.

    Raises
    ------
    Wrong
        If an element does not come in time; then TensorFlow is asked to stop.
    """
    found: list[Any] = []
    try:
        for element in timed_reading.elements(dataset, LIMIT_S if limit_s is None else limit_s, total_s):
            found.append(element)
    except TimeoutError:
        seen = f"after {len(found)} elements no other comes" if found else "no element comes"
        late = f" within {total_s:g} s" if math.isfinite(total_s) else ""
        text = "look for a loop that never ends, or a filter that lets nothing through"
        raise Wrong(f"{seen} out of your dataset{late}: {text}") from None
    return found


def value(function: Any, *arguments: Any) -> float:
    """Return the number that the student's function makes: a Python number, a scalar of NumPy or of TensorFlow."""
    got = call(function, *arguments)
    plain = unwrapped(got)
    if isinstance(plain, bool) or not isinstance(plain, (numbers.Real, decimal.Decimal)):
        raise Wrong(f"{for_case(arguments)}return one number, not {type(got).__name__}")
    return float(plain)


def unwrapped(made: Any) -> Any:
    """Return the Python value of a scalar of NumPy or of TensorFlow, and anything else as it is."""
    return np.asarray(made).item() if getattr(made, "shape", None) == () else made


def whole_numbers(made: Any, text: str, nested: str) -> list[int]:
    """Return the whole numbers that the student's function made, in a list or in anything that can be walked through.

    Parameters
    ----------
    made : object
    text : str
        Written in front of a hint: for which input.
    nested : str
        The hint for lists in the places of numbers.

    Raises
    ------
    Wrong
        If there is anything else in it.
    """
    if not isinstance(unwrapped(made), Iterable) or isinstance(made, (str, bytes, dict)):
        raise Wrong(f"{text}: return the list of the numbers, not {type(made).__name__}")
    found = [unwrapped(one) for one in itertools.islice(made, _MOST_NUMBERS + 1)]
    if len(found) > _MOST_NUMBERS:
        raise Wrong(f"{text}: you return more than {_MOST_NUMBERS:,} numbers: does your list have an end?")
    if any(isinstance(one, Iterable) and not isinstance(one, (str, bytes)) for one in found):
        raise Wrong(f"{text}: {nested}")
    for one in found:
        if not isinstance(one, numbers.Real) or not float(one).is_integer():
            raise Wrong(f"{text}: return whole numbers, not {one!r:.40}")
    return [int(one) for one in found]


class Watched:
    """Elements that student code takes one after the other, and what it does with them.

    Parameters
    ----------
    elements : iterable
    error : Exception, optional
        Raised behind the last of them.

    Attributes
    ----------
    taken, delivered, ahead : int
        How many were taken; how many came back, as far as `passed` saw them; the most that were taken and not back.
    threads : set of threading.Thread
        Which took one.
    """

    def __init__(self, elements: Iterable[Any], error: Exception | None = None) -> None:
        self.elements, self.error = elements, error
        self.taken = self.delivered = self.ahead = 0
        self.threads: set[threading.Thread] = set()

    def __iter__(self) -> Iterator[Any]:
        """Yield the elements, and note who takes them."""
        for element in self.elements:
            self.threads.add(threading.current_thread())
            self.taken += 1
            self.ahead = max(self.ahead, self.taken - self.delivered)
            yield element
        if self.error is not None:
            raise self.error

    def passed(self, made: Iterable[Any]) -> Iterator[Any]:
        """Yield what the student made of them, each counted when it comes."""
        for one in made:
            self.delivered += 1
            yield unwrapped(one)
