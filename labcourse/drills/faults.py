"""A fault: the healthy pipeline, the edit that brings the fault in, its name in words, and how it shows."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType
from typing import Any

import numpy as np
import tensorflow as tf


@dataclass(frozen=True)
class Fault:
    """One fault of the catalog.

    Parameters
    ----------
    key : str
        For instructors and tests; students see `diagnosis`.
    diagnosis : str
        What is wrong, in one sentence: the right answer of its drill.
    sign : str
        How such a fault shows: the hint for students who name it where it is not, or did not fix it.
    fixed_code : str
        Source of the healthy pipeline: a function ``pipeline(case)`` of plain tf.data.
    edits : tuple of (str, str)
        What to replace in that source, and by what, to bring the fault in.
    shows_in : str
        ``timeline`` or ``data``: where to look for it.
    task : str
        A key of `labcourse.drills.catalog.TASKS`.
    case : dict
        What its material has of its own; see `labcourse.drills.case.Case`.
    once : bool
        Whether each photo is to be read and decoded in the first epoch only.
    share : float
        Part of the photos that an epoch is to hold.
    step_ms : float
        Train step of the modelled accelerator beside it.
    """

    key: str
    diagnosis: str
    sign: str
    fixed_code: str
    edits: tuple[tuple[str, str], ...]
    shows_in: str = "timeline"
    task: str = "plain"
    case: dict[str, Any] = field(default_factory=dict)
    once: bool = False
    share: float = 1.0
    step_ms: float = 10.0

    @property
    def ordered_anew(self) -> bool:
        """Whether each epoch of the healthy pipeline has an order of its own."""
        return ".shuffle(" in self.fixed_code

    @cached_property
    def code(self) -> str:
        """Source of the faulty pipeline, as students see it."""
        return edited(self.fixed_code, *self.edits)

    @cached_property
    def pipeline(self) -> Callable[[Any], Any]:
        """The faulty pipeline: ``pipeline(case)`` returns its dataset."""
        return build(self.code)


def edited(source: str, *edits: tuple[str, str]) -> str:
    """Return a source text in which each edit has replaced one place.

    Raises
    ------
    ValueError
        If an edit does not fit exactly one place.
    """
    for old, new in edits:
        if source.count(old) != 1:
            raise ValueError(f"the edit {old!r} fits {source.count(old)} places of the source; allowed: 1")
        source = source.replace(old, new)
    return source


def build(source: str) -> Callable[[Any], Any]:
    """Return the function ``pipeline`` of a source text; TensorFlow and NumPy are there as tf and np."""
    # Errors and AutoGraph look the source up by this name, so that two sources must not share one.
    file = f"<pipeline {hashlib.sha256(source.encode()).hexdigest()[:8]}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"tf": tf, "np": np}
    exec(compile(source, file, "exec"), space)
    return space["pipeline"]


def same(one: Any, other: Any) -> bool:
    """Return whether two functions have the same code, whatever their names, and however it is laid out."""
    first, second = (getattr(function, "__code__", None) for function in (one, other))
    return first is not None and second is not None and _comparable(first) == _comparable(second)


def _comparable(code: CodeType) -> tuple[Any, ...]:
    inside = tuple(_comparable(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, inside
