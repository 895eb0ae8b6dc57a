"""Calling what a student wrote: within a time limit, with a hint for whatever it returns or raises."""

from __future__ import annotations

import contextlib
import decimal
import functools
import inspect
import itertools
import math
import numbers
import signal
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.fairness import rules, timeouts
from labcourse.grading import Unclear, Wrong, answered, exercise, raised
from labkit.pipelines import options
from labkit.pipelines.structure import DatasetNode

# Datasets that change no element, and not the time when an element is made.
_PLAIN = ("_OptionsDataset", "_AssertCardinalityDataset")

# Seconds for a look at all cases, once one is wrong: it chooses the hint, and no student waits long for that.
_LOOK_S = 1.0

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


#: Of a numeric exercise: takes the arguments of a case, returns the right number and hints by wrong numbers.
Truth = Callable[..., tuple[float, dict[float, str]]]


class _TooLong(BaseException):
    """The time of a call is up. It is no Exception, so that an answer's own ``except Exception`` does not catch it."""


def call(function: Any, *arguments: Any) -> Any:
    """Call the student's function; None from the first call means that it is still the stub."""
    if not callable(function):
        raise Wrong(f"pass the function itself, not {type(function).__name__} {function!r:.40}")
    given = _given(arguments)
    try:
        with _limited(timeouts.LIMIT_S):
            # Copies, so that an answer that changes its lists changes neither the truth nor a hint.
            result = function(*(list(a) if isinstance(a, list) else a for a in arguments))
    except _TooLong:
        raise Wrong(f"{given}your function does not come back: look for a loop that never ends") from None
    except (Wrong, Unclear, NotImplementedError):
        raise
    except Exception as error:
        if not given:
            raise
        raise Wrong(given + raised(error)) from None
    if result is None and (answered.get() or not _is_stub(function)):
        raise Wrong(f"{given}your function returns nothing: a return is missing")
    if result is None:
        raise NotImplementedError
    answered.set(True)
    return result


def _given(arguments: tuple) -> str:
    """Return ``for (…) ``, or nothing where the arguments are no plain values that can be read."""
    plain = all(isinstance(a, (int, float, list)) for a in arguments)
    text = ", ".join(map(str, arguments)) if plain else "array("
    return "" if "array(" in text else f"for ({text}) "


def _is_stub(function: Any) -> bool:
    """Return whether the code of a function does nothing, or whether it has no Python code."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is None or code.co_code in _STUBS


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise `_TooLong` after so many seconds.

    It does nothing where this thread may not set the alarm clock, or something else has set it.
    """
    free = (
        hasattr(signal, "setitimer")
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    )
    if not free:
        yield
        return

    def end(*_: Any) -> None:
        raise _TooLong

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def value(function: Any, *arguments: Any) -> float:
    """Return the number that the student's function makes: a Python number, a scalar of NumPy or of TensorFlow."""
    got = call(function, *arguments)
    plain = unwrapped(got)
    if isinstance(plain, bool) or not isinstance(plain, (numbers.Real, decimal.Decimal)):
        raise Wrong(f"{_given(arguments)}return one number, not {type(got).__name__}")
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


def per(whole: float, part: float) -> float:
    """Return whole / part, or infinity if the part is 0, so that a picture can be drawn of any answer."""
    return whole / part if part else math.inf


def numeric(exercise_number: str, unit: str, *cases: tuple) -> Callable[[Truth], Truth]:
    """Register an exercise whose answer is a function that returns a number.

    The decorated function takes the arguments of a case. It returns the number that is right, and the hint for each
    usual wrong idea, by the number that the idea gives.

    Parameters
    ----------
    exercise_number : str
        ``"NN.k"``: notebook NN, exercise k.
    unit : str
        Written behind the numbers of a hint.
    *cases : tuple
        Arguments for the student's function.
    """

    def register(truth: Truth) -> Truth:
        @exercise(exercise_number)
        def check(function: Any) -> None:
            expected = [truth(*arguments) for arguments in cases]
            # An answer may be slow: each case is called once, and not before it is asked for.
            got = functools.cache(lambda number: value(function, *cases[number]))

            def everywhere(fits: Callable[..., bool], numbers: Iterable[int], otherwise: bool) -> bool:
                """Return whether all these cases fit, or `otherwise` if one of them fails or takes too long."""
                try:
                    with _limited(_LOOK_S):
                        return all(fits(got(number), *expected[number]) for number in numbers)
                except (Wrong, _TooLong):
                    return otherwise

            hinted = [number for number, (_, hints) in enumerate(expected) if hints]
            rounds = functools.partial(everywhere, _rounded, range(len(cases)), False)
            follows = functools.partial(everywhere, _known, hinted, True)
            for number, arguments in enumerate(cases):
                _compare(got(number), arguments, *expected[number], unit, rounds, follows)

        return truth

    return register


def _compare(
    got: float,
    arguments: tuple,
    expected: float,
    hints: dict[float, str],
    unit: str,
    rounds: Callable[[], bool],
    follows: Callable[[], bool],
) -> None:
    if _near(got, expected):
        return
    text = f"{_given(arguments)}you return {got:g}{unit}"
    for idea, hint in hints.items():
        # Another idea may give the same number once; who has this one has numbers of known ideas in every case.
        if _near(got, idea) and follows():
            raise Wrong(f"{text}: {hint}")
    # A wrong number may be near the right one once; who rounds does so in every case.
    if f"{got:g}" == f"{expected:g}" or (got not in (0, 1) and _rounded(got, expected) and rounds()):
        text = f"{_given(arguments)}you return {got:.10g}{unit}, expected {expected:.10g}{unit}: do not round"
        raise Wrong(text)
    raise Wrong(f"{text}, expected {expected:g}{unit}")


def _near(got: float, expected: float) -> bool:
    return math.isclose(got, expected, rel_tol=1e-6, abs_tol=1e-9)


def _known(got: float, expected: float, hints: dict[float, str]) -> bool:
    """Tell whether a number is the right one or that of a usual wrong idea."""
    return any(_near(got, idea) for idea in (expected, *hints))


def _rounded(got: float, expected: float, *_: Any) -> bool:
    """Tell whether a number is the expected one, or what rounding makes of it."""
    if _near(got, expected):
        return True
    digits = range(7) if math.isfinite(expected) else ()
    return got in {around(expected * 10**d) / 10**d for d in digits for around in (math.floor, round, math.ceil)}


def pipeline(function: Any, *arguments: Any) -> Any:
    """Return the dataset that the student's function makes, as Python built it: a graph no longer tells its steps."""
    made = call(function, *arguments)
    if isinstance(made, tf.data.Options):
        raise Wrong("return a tf.data.Dataset, not its Options: with_options() gives a new one")
    rules.dataset(made)
    if type(made).__name__ == "_VariantDataset":
        raise Wrong("return the dataset without tf.function around your answer")
    return made


def with_options(function: Any, *arguments: Any) -> tuple[Any, Any]:
    """Return the dataset that the student's function makes of twelve numbers, the numbers unchanged, and these."""
    given = tf.data.Dataset.range(12)
    made = pipeline(function, given, *arguments)
    if values(made, 12) != list(range(12)):
        raise Wrong("the elements changed: with_options() alone must not add, drop or reorder any")
    return made, given


def same_options(made: Any, given: Any, **asked: str) -> None:
    """Refuse a dataset with other options of tf.data than those of `given` and those that are asked for.

    Parameters
    ----------
    made, given : tf.data.Dataset
    **asked : str
        Text of the value that an option should have, by its name with ``__`` for a dot.

    Raises
    ------
    Wrong
        If an option that nobody asked for has another value. Order kept is what TensorFlow does by default.
    """
    before, after = ({"deterministic": "True", **options.changed(dataset)} for dataset in (given, made))
    wanted = before | {name.replace("__", "."): value for name, value in asked.items()}
    for name in sorted(wanted.keys() | after.keys()):
        if after.get(name) != wanted.get(name):
            value = after.get(name, "back at its default")
            raise Wrong(f"options.{name} is {value}, and nobody asked for that: leave all other options as they are")


#: What a try leaves in a pipeline, and what becomes of it.
_LEFT_IN = {
    "Take": "of longer data it lets the beginning through only",
    "Cache": "it keeps everything that passes it in memory, and nobody asked for that",
    "Snapshot": "it writes everything that passes it to files, and nobody asked for that",
}


def nothing_left_in(made: Any, *kinds: str) -> None:
    """Refuse a pipeline in which a step of a try was left, whether its elements show it or not.

    Parameters
    ----------
    made : tf.data.Dataset
    *kinds : str
        Steps to look for: ``"Take"``, ``"Cache"``, ``"Snapshot"``; all of them by default.

    Raises
    ------
    Wrong
        If one stands in it. ``take(-1)`` takes all.
    """
    for step in rules.chain(made).every:
        if step.kind in (kinds or _LEFT_IN) and step.settings.get("count", 0) >= 0:
            call_ = f"{step.kind.lower()}({step.settings.get('count', '')})"
            raise Wrong(f"{call_} is left in your answer: {_LEFT_IN[step.kind]}")


def in_a_file(node: DatasetNode) -> bool:
    """Tell whether a node of a pipeline keeps elements in a file."""
    return "Snapshot" in node.kind or (node.kind == "Cache" and tf.get_static_value(node.dataset._filename) != b"")


def elements(made: Any, most: int) -> list[Any]:
    """Return the elements of the student's dataset, and one more where there are more than `most`."""
    rules.dataset(made)
    spec = made.element_spec
    if isinstance(spec, (tuple, dict)):
        kind = "dicts" if isinstance(spec, dict) else "pairs" if len(spec) == 2 else f"tuples of {len(spec)}"
        raise Wrong(f"{kind} came out of the dataset: each element must be one tensor")
    if isinstance(spec, tf.data.DatasetSpec):
        raise Wrong("the elements are themselves datasets, no tensors: take away window()")
    if not isinstance(spec, tf.TensorSpec):
        kind = type(spec).__name__.removesuffix("Spec")
        raise Wrong(f"{kind}s came out of the dataset: each element must be one plain tensor")
    if made.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise Wrong("the dataset never ends: take away repeat()")
    return [element.numpy() for element in timeouts.pull_with_timeout(made.take(most + 1))]


def values(made: Any, most: int) -> list[Any]:
    """Return what `elements` does as plain Python values and lists, which can be compared."""
    return [np.asarray(element).tolist() for element in elements(made, most)]


def bare(made: Any) -> Any:
    """Return a dataset without the options and the stated length at its end."""
    while type(made).__name__ in _PLAIN:
        made = made._input_dataset
    return made


def source(elements: int, naive: bool = True) -> Any:
    """Return the numbers from 0 as a dataset, by default under the options of a naive pipeline."""
    made = tf.data.Dataset.range(elements)
    return options.plain(made) if naive else made
