"""What passes between the grader and a student's process: plain data, and nothing that runs."""

from __future__ import annotations

import contextlib
import enum
import functools
import itertools
import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from assignments.grader import messages
from assignments.grader.messages import Array, Many, Text


def back(value):
    """What arrives of a value, there and back through bytes."""
    return messages.unpack(messages.read(messages.encode(messages.Reply(value=messages.pack(value)))).value)


WHOLE = st.integers(-(2**63), 2**63 - 1)
PLAIN = st.recursive(
    st.none() | st.booleans() | WHOLE | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | WHOLE, inner),
    max_leaves=20,
)


@pytest.mark.long
@given(PLAIN)
def test_plain_data_comes_back_as_it_was(value):
    assert back(value) == value
    assert type(back(value)) is type(value)


def test_what_a_loop_can_take_arrives_as_a_list():
    for made in ((v for v in [1, 2]), map(abs, [1, -2]), {1: 0, 2: 0}.keys(), range(1, 3), reversed([2, 1])):
        assert back(made) == [1, 2]
    assert len(back(itertools.repeat(0))) == 100_000


@given(
    arrays.arrays(
        st.sampled_from([np.int64, np.float32, np.uint8, np.bool_]), arrays.array_shapes(min_dims=0, min_side=0)
    )
)
def test_arrays_come_back_with_dtype_and_shape(value):
    made = back(value)
    assert made.dtype == value.dtype
    assert made.shape == value.shape
    np.testing.assert_array_equal(made, value)


KINDS = st.sampled_from(["Many", "Array", "Bytes", "Text", "list", "tuple", "set", "dict", "int", "float", "name", "d"])


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | KINDS,
        lambda i: st.lists(i) | st.dictionaries(st.sampled_from(["type", "kind", "of", "shape", "dtype", "data"]), i),
        max_leaves=12,
    )
)
def test_forged_replies_are_refused_or_plain(value):
    with contextlib.suppress(ValueError):  # and nothing else
        messages.unpack(messages.read(json.dumps({"value": value}).encode()).value)


class Stall(str, enum.Enum):
    FETCH = "fetch"


@pytest.mark.parametrize(
    ("value", "arrived"),
    [
        (Fraction(1, 3), 1 / 3),
        (Decimal("0.25"), 0.25),
        (Decimal("nan"), pytest.approx(float("nan"), nan_ok=True)),
        (Stall.FETCH, "fetch"),
        ({frozenset({frozenset({1}), (2, frozenset())})}, {frozenset({frozenset({1}), (2, frozenset())})}),
        ({(1, frozenset({2})): {3}}, {(1, frozenset({2})): {3}}),
    ],
)
def test_numbers_words_and_sets_of_other_kinds_are_data(value, arrived):
    assert back(value) == arrived


def test_what_is_no_data_is_named_in_pythons_own_words():
    with pytest.raises(TypeError, match="'object' and 'int'"):
        back(object()) - 1
    assert repr(back(2**63)) == "<a whole number of over 64 bits>"
    assert repr(back(np.zeros((10**12, 0)))) == "<an array of the shape (1000000000000, 0)>"
    assert repr(back({f"{n}" for n in range(1001)})) == "<a set or dict of more than 1,000 entries>"
    assert (
        len({type(value) for value in messages.unpack(Many("list", [Text("name", str(n)) for n in range(999)]))}) <= 101
    )


BUSY = {
    "an array without bytes": Array("d", [10**12, 0], b""),
    "one of two kinds of rows": Array("d", [0, 10**6, 10**6], b""),
    "rows of many arrays": Many("list", [Array("?", [10_000, 0], b"")] * 51),
    "numbers of many arrays": Many("list", [Array("?", [100_000], bytes(100_000))] * 6),
    "nested": functools.reduce(lambda inner, _: Many("list", [inner]), range(5000), 1),
    "no number": Text("float", "many"),
    "a shape that lies": Array("d", [3], b"12345678"),
    "a key without a value": Many("dict", [1]),
    "a name": Many("set", [Many("list", [])]),
}


@pytest.mark.parametrize("way", BUSY)
def test_what_would_keep_the_grader_busy_or_lies_is_no_reply(way):
    with pytest.raises(ValueError, match="not in the format of replies"):
        messages.unpack(BUSY[way])


def test_a_message_of_another_form_or_of_many_entries_is_not_read_at_all():
    for data in (b'{"value":[]}', b"[" + b"[]," * 300_000 + b"0]", b'{"ended":"and won"}', b'{"id":0}'):
        with pytest.raises(ValueError, match=r"more than 600,000 brackets|not in the format of messages"):
            messages.read(data)
    assert repr(back([[(n, n)] for n in range(90_000)])) == "<an answer of too many entries>"


@pytest.mark.parametrize("long", ["x" * 3_000_000, b"x" * 3_000_000], ids=["text", "bytes"])
@pytest.mark.parametrize("others", [[0] * 300, [np.zeros(300)]], ids=["values", "an array"])
def test_a_long_text_beside_many_numbers_is_no_array(long, others):
    """In one array each of them would take as much room as the text; alone, or beside a few, it comes through."""
    assert repr(back([long, *others])) == "<texts too long for so many values>"
    assert back([long, 1]) == [long, 1]
    assert back(["x" * 1000] * 9000) == ["x" * 1000] * 9000
