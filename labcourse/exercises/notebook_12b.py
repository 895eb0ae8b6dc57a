"""Exercises of notebook 12b, extract_text_and_tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.exercise_data import array, compared
from labcourse.exercise_pictures import blocks, in_turn
from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import pull_with_timeout


def _table(vocabulary: list[str], line: str, length: int) -> tuple[str, list[str], np.ndarray, int]:
    """Return a line, a vocabulary, a table with a row for each of its words and two more, and a number of rows."""
    return line, vocabulary, np.random.default_rng(12).normal(size=(2 + len(vocabulary), 3)).astype(np.float32), length


def _rows(function: Any, line: str, vocabulary: list[str], table: np.ndarray, length: int) -> list[int]:
    """Return which rows of the table the student's vectors are; -1 is none of them."""
    got = array(function, line, vocabulary, table, length)
    where = _line(None, line, vocabulary, table, length)
    known = [vocabulary.index(word) + 2 if word in vocabulary else 1 for word in line.split()]
    if got.ndim == 1 and got.dtype.kind in "iuf" and len(got) and got.tolist()[: len(known)] == known[: len(got)]:
        raise Wrong(f"{where}: these are the numbers of the words; return the rows of the table that they name")
    if got.ndim != 2 or got.shape[1] != table.shape[1] or got.dtype.kind not in "iuf":
        words = f"you return {got.dtype} of the shape {got.shape}, expected {(length, table.shape[1])}"
        raise Wrong(f"{where}: {words}")
    return [next((n for n, own in enumerate(table) if np.allclose(row, own, atol=1e-6)), -1) for row in got]


def _line(rows: Any, line: str, vocabulary: list[str], table: np.ndarray, length: int) -> str:
    return f"for the line {line!r} and {length} rows"


def _other_rows(rows: list[int], right: list[int], case: tuple, every: Any) -> str:
    """Return how many rows came, or which are not right."""
    line, _, _, length = case
    if not line.split():
        return ": there is no word, so only row 0 comes; split() finds none, split(' ') an empty one"
    if len(rows) != len(right):
        return f": {len(rows)} rows came, expected {length}: one for each word and then row 0"
    if -1 in rows:
        return f": number {rows.index(-1)} of your rows is no row of the table"
    return f": you return the rows {rows} of the table, expected {right}"


#: A vocabulary, and lines of its words and of others; the last line has more words than rows.
_KNOWN = ["photo", "a", "large", "circle"]
_LINES = ("photo a purple circle", 4), ("a large large star", 7), ("zebra", 3), ("a photo of a large circle", 3)
_OTHERS = ("a circle a star a star", 8), ("", 2), ("circle", 1)
_CASES = [*(_table(_KNOWN, *one) for one in _LINES), *(_table(["circle", "a"], *one) for one in _OTHERS)]


@compared("12.4", *_CASES, read=_rows, where=_line, differs=_other_rows)
def vectors_of_words(line: str, vocabulary: list[str], table: np.ndarray, length: int) -> Any:
    """``vectors(line, vocabulary, table, length)``: rows of a table for the first words, unknown ones, and the rest."""
    known = [vocabulary.index(word) + 2 if word in vocabulary else 1 for word in line.split()]

    def filled(rows: list[int], row: int = 0) -> list[int]:
        return (rows + [row] * length)[:length]

    return filled(known), {
        "row 0 fills up to length rows, and of a longer line the first words stay": known,
        "a line of more words than rows keeps its first ones, not the last": filled(known[-length:]),
        "a word that is not known is left out; its vector is row 1": filled([row for row in known if row != 1]),
        "a word that is not known has row 1; row 0 only fills up": filled([row if row != 1 else 0 for row in known]),
        "row 0 fills up; row 1 is for words that are not known": filled(known, 1),
    }


@shows("12.4")
def rows_of_a_line(function: Any) -> Any:
    """Draw the words of a line, and below them the rows of the table that the student returns."""
    case = _table(_KNOWN, "a photo of a circle", 7)
    lanes = {"line": in_turn(case[0].split()), "your rows": in_turn(_rows(function, *case))}
    known = ", ".join(f"{word} {row}" for row, word in enumerate(case[1], 2))
    return blocks("Vectors of a line, 7 rows.", "places", lanes, f"Rows of the table: {known}; -1 is none of them.")


_NUMBERS = {word: number for number, word in enumerate(["", "[UNK]", "a", "red", "photo", "circle", "of", "two"])}
_TEXTS = (
    ["Photo 1: a RED circle!", "a  red dog", "", "Two photos of a circle - of two", " A circle."],
    ["red", "Photo 7", "A circle of red", "a!", "Photo of two circle s", "12", "a large red photo, of a dog", "two"],
)


@exercise("12.5")
def batches_of_numbers(function: Any) -> None:
    """``encoded(lines, clean, lookup, size)``: batches of lines, cleaned, split, looked up, and filled up with 0."""
    for texts, size in ((_TEXTS[0] + _TEXTS[1], 4), (_TEXTS[1] + _TEXTS[0][:1], 3)):
        calls: list[str] = []  # one name for each call, which may come from several threads at once
        clean = _batchwise("clean", calls, _clean, tf.string)
        lookup = _batchwise("lookup", calls, lambda word: _NUMBERS.get(word, 1), tf.int64)
        given = tf.data.Dataset.from_tensor_slices(texts)
        made = rules.pipeline(function, given, clean, lookup, size)
        if getattr(made.element_spec, "dtype", tf.int64) == tf.string:
            raise Wrong("these are still words: lookup makes numbers of them")
        lines = [[_NUMBERS.get(word, 1) for word in _clean(text).split()] for text in texts]
        whole, longest = len(lines) // size * size, max(map(len, lines))
        ideas = {
            "the last batch is lost: a smaller one counts, too (drop_remainder)": _filled(lines[:whole], size),
            "a line without a word is lost; it stays a line, of zeros only": _filled([n for n in lines if n], size),
            'lines are filled up with 1, as if unknown; fill up with "", whose number is 0': _filled(lines, size, 1),
            "fill up to the longest line of its own batch only": _filled(lines, size, width=longest),
        }
        rules.data(made, _filled(lines, size), ordered=True, ideas=ideas)
        batches = -(-len(lines) // size)
        for name in ("clean", "lookup"):
            if name not in calls:
                raise Wrong(f"{name} is never called, so 'Circle!' and 'circle' are two words")
            if calls.count(name) != batches:
                many = f"{name} is called {calls.count(name)} times for {batches} batches"
                raise Wrong(f"{many}: batch first, then call it once for each batch of {size} lines")
        rules.nothing_else(made, given)


@shows("12.5")
def two_batches(function: Any) -> Any:
    """Draw two batches of two lines as the student makes them."""
    given = tf.data.Dataset.from_tensor_slices(_TEXTS[0][:4])
    of_words = _batchwise("lookup", [], lambda word: _NUMBERS.get(word, 1), tf.int64)
    made = pull_with_timeout(rules.pipeline(function, given, _batchwise("clean", [], _clean, tf.string), of_words, 2))
    lines = {
        f"batch {b}, line {k}": in_turn(line) for b, of in enumerate(made, 1) for k, line in enumerate(of.numpy(), 1)
    }
    return blocks("Four lines in batches of two.", "places in a line", lines, f"The lines {_TEXTS[0][:4]}.")


def _clean(text: str) -> str:
    return " ".join(re.sub(r"[^a-z ]", "", text.lower()).split())


def _batchwise(name: str, calls: list[str], of_one: Callable[[str], Any], dtype: Any) -> Callable[[Any], Any]:
    """Return a function of a tensor of texts, dense or ragged, that notes its calls."""

    def count(given: Any) -> np.ndarray:
        calls.append(name)
        given = np.asarray(given, object)  # a single text comes as bytes
        return np.array([of_one(one.decode()) for one in given.flat], dtype.as_numpy_dtype).reshape(given.shape)

    def called(given: Any) -> Any:
        if isinstance(given, tf.RaggedTensor):
            return given.with_flat_values(called(given.flat_values))
        given = tf.convert_to_tensor(given, tf.string)
        return tf.ensure_shape(tf.numpy_function(count, [given], dtype), given.shape)

    return called


def _filled(rows: list[list[int]], size: int, fill: int = 0, width: int | None = None) -> Any:
    """Return batches of so many rows, filled up to one length, by default that of the longest one."""
    lines = tf.data.Dataset.from_tensor_slices(tf.ragged.constant(rows, tf.int64, ragged_rank=1))
    lines = lines.map(lambda line: line.to_tensor() if isinstance(line, tf.RaggedTensor) else line)
    return lines.padded_batch(size, [width], tf.constant(fill, tf.int64))
