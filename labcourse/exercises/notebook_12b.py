"""Exercises of notebook 12b, extract_text_and_tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise
from labcourse.student_code import call, nothing_left_in, pipeline, same_options, values

#: Vocabulary, clean lines, and how many rows each has.
_LINES = [
    (["photo", "a", "large", "circle"], ("photo a purple circle", 4), ("a large large star", 7), ("zebra", 3)),
    (["circle", "a"], ("a circle a star a star", 8), ("", 2), ("circle", 1)),
]


@exercise("12.4")
def vectors_of_words(function: Any) -> None:
    """``vectors(line, vocabulary, table, length)``: the rows of a table for words, for unknown ones, and to fill up."""
    draw = np.random.default_rng(12)
    for vocabulary, *lines in _LINES:
        table = draw.normal(size=(2 + len(vocabulary), 3)).astype(np.float32)
        for line, length in lines:
            made = call(function, line, list(vocabulary), table.copy(), length)
            known = [vocabulary.index(word) + 2 if word in vocabulary else 1 for word in line.split()]
            where = f"for the line {line!r} and {length} rows: "
            _rows(np.asarray(made), table, known, known + [0] * (length - len(known)), where)


def _rows(got: np.ndarray, table: np.ndarray, known: list[int], right: list[int], where: str) -> None:
    """Refuse an array that does not hold the rows of a table that are right."""
    if got.ndim == 1 and got.dtype.kind in "iuf" and got.tolist() in (known, right):
        raise Wrong(f"{where}these are the numbers of the words; return the rows of the table that they name")
    if got.ndim != 2 or got.shape[1] != table.shape[1] or got.dtype.kind not in "iuf":
        raise Wrong(f"{where}you return {got.dtype} of the shape {got.shape}, expected {(len(right), table.shape[1])}")
    places = [next((n for n, own in enumerate(table) if np.allclose(row, own, atol=1e-6)), -1) for row in got]
    if places == right:
        return
    fill, words, once = right[len(known) :], [n for n in known if n != 1], list(dict.fromkeys(known))
    for idea, hint in (
        (known, f"row 0 fills up to {len(right)} rows"),
        (words, "a word that is not known is left out; its vector is row 1"),
        (words + [0] * (len(right) - len(words)), "a word that is not known is left out; its vector is row 1"),
        (once + [0] * (len(right) - len(once)), "a word that comes twice has two rows"),
        ([n if n != 1 else 0 for n in right], "a word that is not known has row 1; row 0 only fills up"),
        ([n if n != 1 else len(table) - 1 for n in right], "row 1 is for a word that is not known, not the last row"),
        ([*fill, *known], "row 0 fills up at the end, behind the words"),
        (known + [1 for _ in fill], "row 0 fills up; row 1 is for words that are not known"),
        (known + [-1 for _ in fill], "row 0 of the table fills up, which is no row of zeros"),
        (known[::-1] + fill, "the words come in another order"),
        (sorted(known) + fill, "the words come in another order"),
    ):
        if places == idea:
            raise Wrong(f"{where}{hint}")
    if not known:
        raise Wrong(f"{where}there is no word, so only row 0 comes; split() finds none, split(' ') an empty one")
    for less in (1, 2):
        if places[: len(known)] == [n - less if n > 1 else n for n in known]:
            raise Wrong(f"{where}the first word of the vocabulary has row 2, behind the two special ones")
    if len(places) != len(right):
        raise Wrong(f"{where}{len(places)} rows came, one for each word and then row 0 are {len(right)}")
    if -1 in places:
        raise Wrong(f"{where}number {places.index(-1)} of your rows is no row of the table")
    raise Wrong(f"{where}you return the rows {places} of the table, expected {right}")


_NUMBERS = {word: number for number, word in enumerate(["", "[UNK]", "a", "red", "photo", "circle", "of", "two"])}
_TEXTS = (
    ["Photo 1: a RED circle!", "a  red dog", "", "Two photos of a circle - of two", " A circle."],
    ["red", "Photo 7", "A circle of red", "a!", "Photo of two circle s", "12", "a large red photo, of a dog", "two"],
)


@exercise("12.5")
def batches_of_numbers(function: Any) -> None:
    """``encoded(lines, clean, lookup, size)``: batches of lines, cleaned, split, looked up, and filled up with 0."""
    for texts, size in ((_TEXTS[0] + _TEXTS[1], 4), (_TEXTS[1] + _TEXTS[0][:1], 3)):
        _encoded(function, texts, size)


def _clean(text: str) -> str:
    return " ".join(re.sub(r"[^a-z ]", "", text.lower()).split())


def _encoded(function: Any, texts: list[str], size: int) -> None:
    """Check the answer on some lines."""
    calls: list[str] = []  # one name for each call, which may come from several threads at once

    def batchwise(name: str, of_one: Callable[[str], Any], dtype: Any) -> Callable[[Any], Any]:
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

    clean, lookup = batchwise("clean", _clean, tf.string), batchwise("lookup", lambda w: _NUMBERS.get(w, 1), tf.int64)
    given = tf.data.Dataset.from_tensor_slices(texts)
    made = pipeline(function, given, clean, lookup, size)
    dtype = getattr(made.element_spec, "dtype", tf.int64)
    if dtype == tf.string:
        raise Wrong("these are still words: lookup makes numbers of them")
    got = values(made, len(texts))
    if dtype != tf.int64:
        raise Wrong(f"the numbers are {dtype.name}, expected int64, as lookup returns them")
    if "clean" not in calls:
        raise Wrong("clean is never called, so 'Circle!' and 'circle' are two words")
    lines = [[_NUMBERS.get(word, 1) for word in _clean(text).split()] for text in texts]
    want = [_filled(lines[first : first + size]) for first in range(0, len(lines), size)]
    for name in ("clean", "lookup"):
        if calls.count(name) > len(got):
            raise Wrong(f"{name} is called {calls.count(name)} times for {len(got)} batches: batch first, then call it")
    if got != want:
        raise Wrong(_what_differs(got, want, lines))
    for name in ("clean", "lookup"):
        if calls.count(name) < len(want):
            raise Wrong(f"{name} works on several batches in one call: call it once for each batch of {size} lines")
    if rules.chain(made).any_order:
        raise Wrong("the order may vary from run to run (deterministic=False), and nobody asked for that")
    nothing_left_in(made)
    same_options(made, given)


def _filled(rows: list[list[int]]) -> list[list[int]]:
    """Return rows of one length, that of the longest one."""
    longest = max(map(len, rows))
    return [row + [0] * (longest - len(row)) for row in rows]


def _what_differs(got: list[Any], want: list[list[list[int]]], lines: list[list[int]]) -> str:
    """Return what is wrong with batches of numbers."""
    ranks = {np.ndim(one) for one in got}
    if ranks == {1}:
        if [len(one) for one in got] == [len(one) for one in want]:
            return "one number came for each line: split the clean lines into words, and look those up"
        return "single lines came out, not batches"
    if ranks != {2}:
        return f"a batch has the rank {max(ranks, default=0)}, expected 2: lines and words"
    sizes, right = [len(one) for one in got], [len(one) for one in want]
    if sizes == right[:-1]:
        return "the last batch is lost: a smaller one counts, too (drop_remainder)"
    if sum(sizes) == sum(map(bool, lines)) < sum(right):
        return "a line without a word is lost; it stays a line, of zeros only"
    if sizes != right:
        return f"batches of {sizes} lines came, expected {right}"
    flat, wanted = ([row for one in batches for row in one] for batches in (got, want))
    bare = [list(np.trim_zeros(row, "b")) for row in flat]
    if bare == lines:
        return f"a batch is filled up to {max(map(len, flat))} words: fill up to the longest line of its own batch only"
    if sorted(bare) == sorted(lines):
        return "the lines come in another order"
    if flat == [[number or 1 for number in row] for row in wanted]:
        return 'lines are filled up with 1, as if by unknown words; fill up with the text "", whose number is 0'
    if any(0 in row for row in bare):
        return "a 0 stands before a word: clean lines before you split them, and fill up at the end"
    if any(len(mine) < len(own) for mine, own in zip(flat, wanted, strict=True)):
        return "lines are cut off: a batch is as wide as its longest line"
    first = next(n for n, (mine, own) in enumerate(zip(flat, wanted, strict=True)) if mine != own)
    return f"line {first} became {flat[first]!r:.60}, expected {wanted[first]!r:.60}"
