"""Numbers and words that callers give: one way to check them, and one sentence that says what is allowed."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Collection, Iterable
from numbers import Real
from typing import Any


def whole(
    name: str, value: Any, least: int | None = None, most: int | None = None, *, unit: str = "", other: str = ""
) -> int:
    """Return `value` as an int if it is a whole number within its limits.

    Parameters
    ----------
    name : str
        What the error calls the number.
    value : object
        An int, or what counts as one for indexing, such as a NumPy integer; never a bool.
    least, most : int, optional
        The smallest and the largest number that is allowed.
    unit : str
        Follows "a whole number" in the error, as in ``"of pixels"``.
    other : str
        Ends the error: what is allowed besides, as in ``"or None for all"``.

    Raises
    ------
    ValueError
        If it is not; the sentence names the number, its value and what is allowed.

    Examples
    --------
    >>> whole("steps", 20, least=1)
    20
    >>> whole("steps", 0, least=1)
    Traceback (most recent call last):
    ValueError: steps is 0; allowed: a whole number of 1 or more
    """
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = None
    return _held(name, value, found, "a whole number", least, most, unit, other)


def number(
    name: str, value: Any, least: float | None = None, most: float | None = None, *, above: float | None = None,
    unit: str = "", other: str = "",
) -> float:  # fmt: skip
    """Return `value` as a float if it is a finite number within its limits.

    Parameters
    ----------
    name, least, most, unit, other
        As in `whole`.
    value : object
        A real number, of Python or NumPy; never a bool or a text.
    above : float, optional
        A limit that the number must exceed.

    Raises
    ------
    ValueError
        As in `whole`.

    Examples
    --------
    >>> number("step_ms", 2, above=0)
    2.0
    >>> number("step_ms", -1, above=0, unit="of milliseconds")
    Traceback (most recent call last):
    ValueError: step_ms is -1; allowed: a number of milliseconds above 0
    """
    found = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    return _held(name, value, found if math.isfinite(found) else None, "a number", least, most, unit, other, above)


def ranged(
    check: Callable[..., Any], least: float, most: float, default: Any = dataclasses.MISSING, *,
    optional: bool = False, other: str = "",
) -> Any:  # fmt: skip
    """Return a field of a dataclass that `check_ranges` holds to a range.

    Parameters
    ----------
    check : callable
        `whole` or `number`.
    least, most, other
        As in `whole`.
    default : object, optional
    optional : bool
        Whether None is allowed, too.
    """
    return dataclasses.field(default=default, metadata={"range": (check, least, most, optional, other)})


def check_ranges(record: Any) -> None:
    """Check the fields of a dataclass that `ranged` made, in their order; call it in ``__post_init__``.

    Raises
    ------
    ValueError
        As in `whole`.

    Examples
    --------
    >>> @dataclasses.dataclass
    ... class Setting:
    ...     hosts: int = ranged(whole, 1, 8, default=1)
    ...     __post_init__ = check_ranges
    >>> Setting(hosts=9)
    Traceback (most recent call last):
    ValueError: hosts is 9; allowed: a whole number from 1 to 8
    """
    for name, (check, least, most, optional, other) in (
        (field.name, field.metadata["range"]) for field in dataclasses.fields(record) if "range" in field.metadata
    ):
        value = getattr(record, name)
        if value is None and optional:
            continue
        found = check(name, value, least, most, other=other)
        if check is whole or not isinstance(value, (int, float)):  # numbers of NumPy overflow
            object.__setattr__(record, name, found)


def one_of(name: str, value: Any, allowed: Iterable[Any]) -> Any:
    """Return `value` if it is one of those that are allowed.

    Parameters
    ----------
    name : str
        What the error calls the value.
    value : object
    allowed : iterable

    Raises
    ------
    ValueError
        If it is none of them; the sentence names the value and lists what is allowed.

    Examples
    --------
    >>> one_of("dtype", "uint8", ["uint8", "float32"])
    'uint8'
    >>> one_of("compression", "ZIP", ["", "GZIP"])
    Traceback (most recent call last):
    ValueError: compression is 'ZIP'; allowed: '', GZIP
    """
    known = list(allowed)
    if value not in known:
        raise ValueError(f"{name} is {value!r}; allowed: {', '.join(str(one) or repr(one) for one in known)}")
    return value


def unit_of(unit: str, value: float) -> str:
    """Return the word of a unit after a number: of what is counted one by one, that for one of it."""
    one = value == 1 and unit in ("batches", "calls", "cores", "files", "images", "steps", "threads")
    return unit.removesuffix("es" if unit == "batches" else "s") if one else unit


def truth(name: str, value: Any) -> bool:
    """Return `value` if it is True or False.

    Raises
    ------
    TypeError
        If it is not; the sentence names `name` and the value.

    Examples
    --------
    >>> truth("live", "yes")
    Traceback (most recent call last):
    TypeError: live is 'yes'; allowed: True or False
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {value!r:.60}; allowed: True or False")
    return value


def check_names(what: str, given: Iterable[str], allowed: Collection[str]) -> None:
    """Check the names of what a caller gives, such as keyword arguments.

    Parameters
    ----------
    what : str
        What the error calls a thing of such a name.
    given, allowed : iterable of str

    Raises
    ------
    ValueError
        If a name is not allowed; the sentence lists those that are.

    Examples
    --------
    >>> check_names("knob", ["coers"], ["cores", "prefetch"])
    Traceback (most recent call last):
    ValueError: there is no knob 'coers'; allowed: cores, prefetch
    """
    for name in given:
        if name not in allowed:
            raise ValueError(f"there is no {what} {name!r}; allowed: {', '.join(allowed)}")


def _held(
    name: str, value: Any, found: Any, kind: str, least: float | None, most: float | None, unit: str, other: str,
    above: float | None = None,
) -> Any:  # fmt: skip
    """Return the number `found` in a value; raise the sentence where there is none, or it is not within its limits."""
    low, high = -math.inf if least is None else least, math.inf if most is None else most
    if found is not None and low <= found <= high and (above is None or found > above):
        return found
    words = [kind, *([unit] if unit else [])]
    if least is not None and most is not None:
        words.append(f"from {least:,.10g} to {most:,.10g}")
    elif least is not None:
        words.append(f"{'' if unit else 'of '}{least:,.10g} or more")
    elif above is not None:
        words.append(f"above {above:,.10g}" + ("" if most is None else f" and at most {most:,.10g}"))
    elif most is not None:
        words.append(f"of at most {most:,.10g}")
    if other:
        words.append(other)
    try:
        shown = f"{value!r:.60}"
    except ValueError:  # Python prints no number of more than 4,300 digits
        shown = "too long to be printed"
    raise ValueError(f"{name} is {shown}; allowed: {' '.join(words)}")
