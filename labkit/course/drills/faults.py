"""A fault: the pipeline that has it, its name in words, how it shows, and the one edit that mends it."""

from __future__ import annotations

import inspect
import linecache
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

#: What the pipeline should deliver, by kind of patient.
TASKS = {
    "plain": "every photo once an epoch, as float32 from 0 to 1, in batches",
    "random": "every photo once an epoch, as float32 from 0 to 1, each made brighter or darker as a whole by a number "
    "drawn anew from -0.2 to 0.2 (and clipped), in batches",
    "brighter": "every photo once an epoch, 60 of 255 steps brighter and clipped at white, as float32 from 0 to 1, in "
    "batches",
    "erased": "every photo once an epoch, its first eight rows black, as float32 from 0 to 1, in batches",
}


@dataclass(frozen=True)
class Fault:
    """One fault of the pool.

    Parameters
    ----------
    key : str
        For instructors and tests; students see `diagnosis`.
    diagnosis : str
        What is wrong, in one sentence: the right answer of its drill.
    sign : str
        How such a fault shows: the hint for those who name it where it is not, or did not mend it.
    seen : str
        ``timeline`` or ``data``: where to look for it.
    pipeline : callable
        ``pipeline(case)`` returns the sick dataset.
    edits : tuple of (str, str)
        What to replace in its source, and by what, to mend it.
    task : str
        A key of `TASKS`.
    case : dict
        What its material has of its own; see `labkit.drills.case.Case`.
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
    seen: str
    pipeline: Callable[[Any], Any]
    edits: tuple[tuple[str, str], ...]
    task: str = "plain"
    case: dict[str, Any] = field(default_factory=dict)
    once: bool = False
    share: float = 1.0
    step_ms: float = 10.0

    @property
    def ordered_anew(self) -> bool:
        """Whether each epoch of the healthy pipeline has an order of its own."""
        return ".shuffle(" in self.mended_code

    @property
    def code(self) -> str:
        """Source of the sick pipeline: plain tf.data."""
        source = textwrap.dedent(inspect.getsource(self.pipeline))
        return source[source.index("def pipeline(") :].rstrip() + "\n"

    @property
    def mended_code(self) -> str:
        """Source of the healthy pipeline, for instructors.

        Raises
        ------
        ValueError
            If an edit does not fit the source exactly once.
        """
        source = self.code
        for old, new in self.edits:
            if source.count(old) != 1:
                raise ValueError(f"the edit {old!r} of {self.key} fits {source.count(old)} places; allowed: 1")
            source = source.replace(old, new)
        return source


POOL: dict[str, Fault] = {}


def fault(key: str, diagnosis: str, sign: str, *edits: tuple[str, str], **more: Any) -> Callable[[Any], Any]:
    """Put the decorated pipeline into the pool."""

    def register(pipeline: Callable[[Any], Any]) -> Callable[[Any], Any]:
        POOL[key] = Fault(key, diagnosis, sign, more.pop("seen", "timeline"), pipeline, edits, **more)
        return pipeline

    return register


def same(one: Any, other: Any) -> bool:
    """Return whether two functions have the same code, whatever their names, and however it is laid out."""
    first, second = (getattr(function, "__code__", None) for function in (one, other))
    return first is not None and second is not None and _essence(first) == _essence(second)


def _essence(code: CodeType) -> tuple[Any, ...]:
    inside = tuple(_essence(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, inside


def build(source: str, name: str) -> Callable[[Any], Any]:
    """Return the function ``pipeline`` of a source text; TensorFlow and NumPy are there as tf and np."""
    import numpy as np
    import tensorflow as tf

    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # for errors and AutoGraph
    space: dict[str, Any] = {"tf": tf, "np": np}
    exec(compile(source, file, "exec"), space)
    return space["pipeline"]
