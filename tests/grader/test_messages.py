"""What passes between the grader and a student's process: plain data, and nothing that runs."""

from __future__ import annotations

import contextlib
import enum
import functools
import itertools
import json
from decimal import Decimal
from fractions import Fraction

import nbformat
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from assignments.grader import messages
from assignments.grader.evaluation import evaluate

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@pytest.mark.long
@given(PLAIN)
def test_plain_data_comes_back_as_it_was(value):
    back = messages.unpack(json.loads(json.dumps(messages.pack(value))))
    assert back == value
    assert type(back) is type(value)


def test_what_a_loop_can_take_arrives_as_a_list():
    for made in ((v for v in [1, 2]), map(abs, [1, -2]), {1: 0, 2: 0}.keys(), range(1, 3), reversed([2, 1])):
        assert messages.unpack(json.loads(json.dumps(messages.pack(made)))) == [1, 2]
    assert len(messages.unpack(messages.pack(itertools.repeat(0)))) == 100_000


@given(
    arrays.arrays(
        st.sampled_from([np.int64, np.float32, np.uint8, np.bool_]), arrays.array_shapes(min_dims=0, min_side=0)
    )
)
def test_arrays_come_back_with_dtype_and_shape(value):
    back = messages.unpack(json.loads(json.dumps(messages.pack(value))))
    assert back.dtype == value.dtype
    assert back.shape == value.shape
    np.testing.assert_array_equal(back, value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda i: st.lists(i) | st.dictionaries(st.sampled_from(list("ifbodltsna")), i, max_size=1),
        max_leaves=8,
    )
)
def test_forged_replies_are_refused_or_plain(message):
    with contextlib.suppress(ValueError):  # and nothing else
        messages.unpack(message)


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "forged",
    ["[]", "7", "{}", '{"breach": []}', '{"id": "0", "value": 1}', '{"cell": 0, "error": 5}', "not json", "[" * 5000],
)
@pytest.mark.parametrize("framed", [True, False])
def test_a_student_who_writes_into_the_pipe_gains_nothing(forged, framed):
    frame = len(forged).to_bytes(4, "big") if framed else b""
    each = f"try: os.write(n, {frame!r} + {forged!r}.encode())\n    except OSError: pass"
    write = f"import os\nfor n in range(3, 20):\n    {each}"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(write), nbformat.v4.new_code_cell("x = 1")])
    test = nbformat.v4.new_code_cell("assert f(1) == 3")
    test.metadata["nbgrader"] = {"grade": True, "solution": False, "grade_id": "t"}
    notebook.cells.append(test)
    judged = evaluate(notebook, [])
    assert judged.failures["t"]


class Stall(str, enum.Enum):
    FETCH = "fetch"


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (Fraction(1, 3), 1 / 3),
        (Decimal("0.25"), 0.25),
        (Decimal("nan"), pytest.approx(float("nan"), nan_ok=True)),
        (Stall.FETCH, "fetch"),
        ({frozenset({frozenset({1}), (2, frozenset())})}, {frozenset({frozenset({1}), (2, frozenset())})}),
        ({(1, frozenset({2})): {3}}, {(1, frozenset({2})): {3}}),
    ],
)
def test_numbers_words_and_sets_of_other_kinds_are_data(value, back):
    assert messages.unpack(messages.pack(value)) == back


def test_what_is_no_data_is_named_in_pythons_own_words():
    stand_in = messages.unpack(messages.pack(object()))
    with pytest.raises(TypeError, match="'object' and 'int'"):
        stand_in - 1


def test_a_small_message_makes_no_large_value():
    """Neither an array of many rows without bytes, nor a set whose entries are all compared with each other."""
    with pytest.raises(ValueError, match="not in the format of replies"):
        messages.unpack({"a": ["d", [10**12, 0], ""]})
    with pytest.raises(ValueError, match="not in the format of replies"):
        messages.unpack({"a": ["d", [0, 10**6, 10**6], ""]})
    alike = [(2**61 - 1) * n for n in range(100_000)]
    for message in ({"s": alike}, {"d": [[n, None] for n in alike]}):
        assert isinstance(messages.unpack(message), messages.Opaque)
    stand_ins = messages.unpack({"l": [messages.pack(object())] * 10_000})
    assert len({type(stand_in) for stand_in in stand_ins}) == 1


#: Tuples of one hash: Python gives -1 and -2 the same.
ALIKE = [{"t": [-1 - (n >> bit & 1) for bit in range(10)]} for n in range(1000)]


@pytest.mark.parametrize(
    "message",
    [
        {"a": ["d", [10**6, 0], ""]},
        {"l": [(2**61 - 1) * n for n in range(5000)]},
        {"l": [{"s": [{"i": str((2**61 - 1) * n)} for n in range(1000)]}] * 3},
        {"l": ALIKE},
        {"d": [[key, None] for key in ALIKE]},
        functools.reduce(lambda inner, _: {"l": [inner]}, range(100), 1),
    ],
    ids=["rows without numbers", "whole numbers", "in sets", "tuples", "keys", "nested"],
)
def test_what_would_keep_the_grader_busy_is_no_reply(message):
    with pytest.raises(ValueError, match="not in the format of replies"):
        messages.unpack(message)


def test_values_that_only_look_alike_are_let_through():
    pairs = [(sign, n) for n in range(3000) for sign in (-1, -2)]
    assert messages.unpack(messages.pack(pairs)) == pairs


def test_a_message_of_many_entries_is_not_read_at_all():
    with pytest.raises(ValueError, match="more than 300,000 entries"):
        messages.read(b"[" + b"[]," * 200_000 + b"0]")


@pytest.mark.parametrize("long", ["x" * 3_000_000, b"x" * 3_000_000], ids=["text", "bytes"])
@pytest.mark.parametrize("others", [[0] * 300, [np.zeros(300)]], ids=["values", "an array"])
def test_a_long_text_beside_many_numbers_is_no_array(long, others):
    """In one array each of them would take as much room as the text; alone, or beside a few, it comes through."""
    back = messages.unpack(json.loads(json.dumps(messages.pack([long, *others]))))
    assert repr(back) == "<texts too long for so many values>"
    assert messages.unpack(messages.pack([long, 1])) == [long, 1]
    assert messages.unpack(messages.pack(["x" * 1000] * 9000)) == ["x" * 1000] * 9000


def test_types_with_many_names_become_one():
    made = messages.unpack({"l": [{"o": str(n)} for n in range(1000)]})
    assert len({type(value) for value in made}) <= 101


def test_an_array_of_too_many_rows_is_named_on_its_own_side():
    back = messages.unpack(messages.pack(np.zeros((10**12, 0))))
    assert repr(back) == "<an array of the shape (1000000000000, 0)>"
