"""Sliders and buttons as plain data: the values to choose from, their unit, and what a choice means."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from labkit.common.numbers import number, one_of, unit_of, whole

Value = Any  # a number, or a word where there is no unit


@dataclass(frozen=True)
class Control:
    """One slider.

    Parameters
    ----------
    name, label : str
        The word for code, and the words for people.
    values : tuple of number, or of str
        What may be chosen, rising.
    unit : str
        Written behind the value; none for words.
    """

    name: str
    label: str
    values: tuple[Value, ...]
    unit: str = ""

    @property
    def in_words(self) -> bool:
        """Whether it chooses between words."""
        return isinstance(self.values[0], str)

    def text(self, value: Value) -> str:
        """Return a value with its unit."""
        if self.in_words:
            return value
        if self.unit == "%":
            return f"{100 * value:g} %"
        if self.unit == "MB/s" and 1000 <= value < math.inf:  # a slider has room for ten signs
            return f"{value / 1000:,.4g} GB/s"
        if math.isinf(value):
            return "no limit"
        return f"{value:,.{'3g' if value < 1000 else '0f'}} {unit_of(self.unit, value)}".strip()

    def check(self, value: Value) -> Value:
        """Return a value that may be chosen; a number between two of the list is fine.

        Raises
        ------
        ValueError
            If it is none.
        """
        if self.in_words:
            return one_of(self.name, value, self.values)
        low, high = min(self.values), max(self.values)
        unit = f"({self.unit})" if self.unit and self.unit != "%" else ""
        if all(isinstance(v, int) for v in self.values):
            return whole(self.name, value, low, high, other=unit)
        return math.inf if value == high == math.inf else number(self.name, value, low, high, other=unit)

    def reaching(self, values: Iterable[Value]) -> Control:
        """Return a slider that reaches these values, too."""
        if self.in_words:
            return self
        return replace(self, values=tuple(sorted({*self.values, *values})))
