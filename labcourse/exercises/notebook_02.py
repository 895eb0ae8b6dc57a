"""Exercises of notebook 02, overlap_with_prefetch."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import numpy as np

from labcourse import student_code
from labcourse.exercise_pictures import blocks
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import Watched, call

#: Seconds that a thread may take for what it does at once, and in which one that should wait shows that it does not.
_LATE_S, _SOON_S = 8.0, 0.1

#: More elements than any buffer of the check may hold.
_MANY = 1000

_CONSUMER = "labkit's consumer"


def _loaders(source: Watched) -> list[threading.Thread]:
    """Return the threads of the student that took an element."""
    return [thread for thread in source.threads if thread.name != _CONSUMER]


def _within(action: Callable[[], Any], hint: Callable[[], str]) -> Any:
    """Return what an action returns: one that does not come back is left, in a thread of its own."""
    done: futures.Future[Any] = futures.Future()

    def run() -> None:
        try:
            done.set_result(action())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True, name=_CONSUMER).start()
    try:
        return done.result(min(_LATE_S, student_code.LIMIT_S))
    except futures.TimeoutError:
        raise Wrong(hint()) from None


def _until(state: Callable[[], bool], seconds: float = _LATE_S) -> bool:
    """Wait for a state; return whether it came."""
    end = time.monotonic() + seconds
    while not state() and time.monotonic() < end:
        time.sleep(0.002)
    return state()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Print no traceback of a thread: the hint says what it did."""
    before, threading.excepthook = threading.excepthook, lambda args: None
    try:
        yield
    finally:
        threading.excepthook = before


def _made(function: Any, source: Any, depth: int) -> Any:
    """Return the student's generator."""
    made = call(function, source, depth)
    if not isinstance(made, Iterator) or not hasattr(made, "close"):
        raise Wrong(f"return a generator, which yields one element after the other, not {type(made).__name__}")
    return made


def _take(made: Iterator[Any], most: int, got: list[Any]) -> None:
    """Put elements into a list, one by one, so that it says how many came before the next one did not."""
    for element in itertools.islice(made, most):
        got.append(element)


@exercise("02.2")
def prefetched_by_hand(function: Any) -> None:
    """``prefetched(iterable, depth)``: the same elements, loaded by a thread of its own, up to `depth` ahead."""
    with _quiet():
        for elements in (np.arange(3), None, 0, "a text", (1, 2), np.arange(2)), (), ("the only one",):
            for depth in 1, 4:
                _same(function, elements, depth)
        for depth in 1, 3:
            _ahead_within_bounds(function, depth)
        _error_arrives(function)
        for depth in 1, 3:
            for count in _MANY, 1 + depth:  # of as many, the thread waits with its last word
                _ends_with_its_consumer(function, depth, count)


def _same(function: Any, elements: tuple, depth: int) -> None:
    """Compare the elements, each by what it is: arrays cannot be compared by ==."""
    source, got = Watched(elements), []
    made = _made(function, source, depth)

    def late() -> str:
        if len(got) < len(elements):
            return f"after {len(got)} of {len(elements)} elements no other comes: does your thread hand over each?"
        return "behind the last element your consumer waits for ever: let the thread hand over a mark of the end"

    _within(lambda: _take(made, len(elements) + 1, got), late)
    if len(got) > len(elements):
        raise Wrong(f"of {len(elements)} elements you make {len(got)}: the mark of the end is no element")
    if len(got) < len(elements):
        if elements[len(got)] is None:
            raise Wrong("None is an element like any other: take a mark of the end that no element can be")
        raise Wrong(f"{len(elements) - len(got)} of {len(elements)} elements are missing")
    if any(one is not other for one, other in zip(got, elements, strict=True)):
        raise Wrong("the elements are others, or in another order: hand over each as it is, first in, first out")


def _error_arrives(function: Any) -> None:
    """Raise an error behind the second element."""
    broken, got = ValueError("record 3 is damaged"), []
    made = _made(function, Watched((1, 2), broken), 2)
    try:
        _within(lambda: _take(made, 3, got), lambda: "the iterable raised an error, and your consumer waits for ever: "
                "catch it in the thread and hand it over")  # fmt: skip
    except ValueError as error:
        if error is not broken:
            raise
        if len(got) < 2:
            raise Wrong(f"the error came after {len(got)} elements, not after two: let it keep its place") from None
        return
    raise Wrong("the iterable raised an error, and your consumer saw a normal end: hand it over, and raise it there")


def _ahead_within_bounds(function: Any, depth: int) -> None:
    """Hold an element now and then, and look how many were loaded meanwhile."""
    source, got = Watched(range(_MANY)), []
    made = _made(function, source, depth)
    try:
        for held in (1, 2, 7):
            full, more = held + depth, held - len(got)
            _within(lambda more=more: _take(made, more, got), lambda: "no element comes any more")
            if not _loaders(source):
                raise Wrong("the consumer's own thread takes the elements: start a thread that loads them")
            if not _until(lambda full=full: source.taken >= full):
                ahead = f"{source.taken - held} of {depth} elements are loaded ahead"
                raise Wrong(f"while the consumer trains, {ahead}: let your thread load until the buffer is full")
            if _until(lambda full=full: source.taken > full + 1, _SOON_S):  # one more may wait at the full buffer
                ahead = f"{source.taken - held} elements are loaded ahead"
                raise Wrong(f"{ahead}: a buffer of {depth} has no room for them, so make the thread wait")
    finally:
        with contextlib.suppress(Exception):
            _within(made.close, str)


def _ends_with_its_consumer(function: Any, depth: int, count: int) -> None:
    """Take one of so many elements, then stop: nobody takes what the thread has loaded."""
    source, got = Watched(range(count)), []
    made = _made(function, source, depth)
    _within(lambda: _take(made, 1, got), lambda: "no element comes")
    _until(lambda: source.taken > depth)
    time.sleep(_SOON_S)  # until the thread stands at the full buffer
    _within(made.close, lambda: "the consumer stopped, and does not come back: your generator waits for its thread")
    if not _until(lambda: not any(thread.is_alive() for thread in _loaders(source))):
        raise Wrong(
            "the consumer stopped, and your thread waits at the full buffer for ever: in a finally, tell it to stop, "
            "and take one element out, so that it can go on"
        )


@shows("02.2")
def loaded_by_hand(function: Any) -> Any:
    """Draw when each of eight elements is loaded, with room for two: counted in elements, not in seconds."""
    count, depth, seen = 8, 2, []
    source = Watched(range(count))

    def hold(made: Iterator[Any]) -> None:
        """Take the elements, each when no other is loaded any more, and note how many were by then."""
        for _ in itertools.islice(made, count):
            _until(lambda: source.taken >= min(count, len(seen) + depth + 2), _SOON_S)
            seen.append(source.taken)

    with _quiet():
        made = _made(function, source, depth)
        _within(lambda: hold(made), lambda: "the consumer waits for ever")
    lanes = {}
    for k in range(len(seen)):
        begin = next(n for n, taken in enumerate(seen) if taken > k)
        lanes[f"element {k}"] = [("loaded ahead", "batch", begin, k)] * (begin < k) + [("train", "train", k, k + 1)]
    words = "What is loaded ahead waits in the queue, or in the hand of your thread."
    return blocks("Eight elements, room for two: which are loaded while another one trains", "steps", lanes, words)
