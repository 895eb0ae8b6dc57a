"""Which exercises there are, and in which module each is, so that a notebook imports its own exercises alone."""

from __future__ import annotations

import importlib

#: By module of `labcourse.exercises`, the numbers that it registers when it is imported.
_MODULES = {
    "notebook_00": "00.1 00.2",
    "notebook_01": "01.1 01.2 01.3",
    "notebook_02": "02.1 02.2 02.3",
    "notebook_03": "03.1 03.2 03.3",
    "notebook_04": "04.1 04.2 04.3",
    "notebook_05": "05.1 05.2 05.3",
    "notebook_06": "06.1 06.2 06.3",
    "notebook_07": "07.1 07.2 07.3",
    "notebook_08": "08.1 08.2 08.3",
    "notebook_09": "09.1 09.2",
    "notebook_10": "10.1 10.2 10.3",
    "notebook_11": "11.1 11.2 11.3 11.4",
    "notebook_11c": "11.5 11.6 11.7",
    "notebook_11d": "11.10 11.11",
    "notebook_11e": "11.8 11.9",
    "notebook_11f": "11.12 11.13",
    "notebook_12": "12.1 12.2 12.3",
    "notebook_12b": "12.4 12.5",
    "notebook_13": "13.1 13.2 13.3 13.4 13.5",
    "notebook_14": "14.1 14.2 14.3",
    "notebook_14b": "14.4 14.5 14.6",
    "notebook_16": "16.1 16.2",
}
_MODULE_OF = {number: module for module, together in _MODULES.items() for number in together.split()}


def numbers() -> tuple[str, ...]:
    """Return the numbers of all exercises, ``"NN.k"`` for notebook NN, exercise k, in the order of their text."""
    return tuple(sorted(_MODULE_OF))


def load(number: str) -> None:
    """Import the module of one exercise, which registers what checks it and what draws it."""
    importlib.import_module(f"labcourse.exercises.{_MODULE_OF[number]}")
