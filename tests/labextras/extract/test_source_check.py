"""A check of a source counts what TensorFlow delivers of it, or names what TensorFlow stops at."""

from __future__ import annotations

import csv
import json
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from labextras.extract import source_check

TYPES = {"path": str, "label": int, "size": float}
DTYPES = [tf.string, tf.int64, tf.float32]


def rows_of(path):
    return list(tf.data.experimental.CsvDataset(str(path), DTYPES, header=True))


def write(path, *lines):
    path.write_text("\n".join(["path,label,size", *lines, ""]), encoding="utf-8")
    return path


def test_good_rows_are_counted(tmp_path):
    path = write(tmp_path / "a.csv", "a.jpg,3,1", '"b, ""c"".jpg",-4,2.5e3', "ü.jpg, 5 ,.5")
    assert source_check.csv(path, **TYPES) == len(rows_of(path)) == 3


BAD = [
    ("b.jpg,cat,1", "line 3: label is 'cat'; allowed: a whole number"),
    ("b.jpg,1.0,1", "line 3: label is '1.0'; allowed: a whole number"),
    ("b.jpg,1_0,1", "line 3: label is '1_0'; allowed: a whole number"),
    pytest.param(f"b.jpg,{'1' * 5000},1", f"line 3: label is '{'1' * 39}; allowed: a whole number", id="5,000 digits"),
    (f"b.jpg,{2**63},1", f"line 3: label is '{2**63}'; allowed: a whole number"),
    ("b.jpg,,1", "line 3: label is ''; allowed: a whole number"),
    ("b.jpg,1,", "line 3: size is ''; allowed: a number"),
    ("b.jpg,1,big", "line 3: size is 'big'; allowed: a number"),
    (",1,1", "line 3: path is ''; allowed: a text that is not empty"),
    ("b.jpg,1", "line 3: 2 fields in place of 3"),
    ("b.jpg,1,1,x", "line 3: 4 fields in place of 3"),
]


@pytest.mark.parametrize(("line", "words"), BAD)
def test_what_stops_tensorflow_is_named_with_file_line_and_column(tmp_path, line, words):
    path = write(tmp_path / "photos.csv", "a.jpg,3,1", line, "c.jpg,3,1", "d.jpg,x,1")
    with pytest.raises(tf.errors.InvalidArgumentError):
        rows_of(path)
    with pytest.raises(ValueError, match="photos") as error:
        source_check.csv(path, **TYPES)
    assert str(error.value) == f"photos.csv, {words} (bad rows: 2 of 4); correct them before a job reads the file"


def test_a_quote_that_is_never_closed_is_named(tmp_path):
    path = write(tmp_path / "photos.csv", "a.jpg,3,1", '"b.jpg,3,1')
    with pytest.raises(tf.errors.InvalidArgumentError):
        rows_of(path)
    with pytest.raises(ValueError, match=r"photos\.csv, line 3: unexpected end of data"):
        source_check.csv(path, **TYPES)


@pytest.mark.parametrize("line", ['"path";"label"', '"path,label'])
def test_a_header_with_a_quote_in_the_wrong_place_is_named(tmp_path, line):
    """The first is what a spreadsheet writes where a comma stands in a number."""
    path = tmp_path / "photos.csv"
    path.write_text(f'{line}\n"a.jpg";3\n')
    with pytest.raises(ValueError, match=r"^photos\.csv, line 1: .+; expected.*: path, label$"):
        source_check.csv(path, path=str, label=int)


@pytest.mark.parametrize("line", ['a"b.jpg,3,1', ' "a.jpg",3,1', 'a.jpg,3"",1'])
def test_a_quote_inside_a_field_is_named(tmp_path, line):
    path = write(tmp_path / "photos.csv", '"a, ""b"".jpg",3,1', line)
    with pytest.raises(tf.errors.InvalidArgumentError):
        rows_of(path)
    with pytest.raises(ValueError, match=r"photos\.csv, line 3: "):
        source_check.csv(path, **TYPES)


def test_a_photo_in_base64_is_no_field_that_is_too_long(tmp_path):
    before = csv.field_size_limit()
    path = write(tmp_path / "photos.csv", "a" * 200_000 + ",3,1")
    assert source_check.csv(path, **TYPES) == len(rows_of(path)) == 1
    assert csv.field_size_limit() == before


def test_the_columns_must_be_named(tmp_path):
    path = write(tmp_path / "photos.csv", "a.jpg,3,1")
    with pytest.raises(ValueError, match=r"expected: the columns with their types, as label=int$"):
        source_check.csv(path)


def test_zeros_before_a_whole_number_do_not_count(tmp_path):
    path = write(tmp_path / "photos.csv", f"a.jpg,-{'0' * 5000}7,1")
    assert source_check.csv(path, **TYPES) == len(rows_of(path)) == 1


@pytest.mark.parametrize(("kind", "word"), [(tf.int64, "tf.int64"), ("int", "'int'"), (3, "3")])
def test_a_type_that_is_none_of_python_is_named(tmp_path, database, kind, word):
    path = write(tmp_path / "photos.csv", "a.jpg,3,1")
    with pytest.raises(ValueError, match=f"column label is {word}; allowed: int, float, str$"):
        source_check.csv(path, path=str, label=kind)
    with pytest.raises(ValueError, match=f"column label is {word}; allowed: int, float, str, bytes$"):
        source_check.sqlite(database, "select label from photos", label=kind)


def test_text_in_another_encoding_is_named_by_file_and_line(tmp_path):
    path = tmp_path / "photos.csv"
    path.write_bytes("path,label\na.jpg,3\nü.jpg,3\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"^photos\.csv, line 3: path is b'\\xfc\.jpg'; allowed: text in UTF-8"):
        source_check.csv(path, path=str, label=int)
    path.write_bytes("größe,label\n1,3\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"^photos\.csv, line 1 is not UTF-8"):
        source_check.csv(path, größe=int, label=int)


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    path = tmp_path / "photos.csv"
    path.write_text("path,label,size\na.jpg,3,1\n", encoding="utf-8-sig")
    assert source_check.csv(path, **TYPES) == len(rows_of(path)) == 1


def refuses(read):
    try:
        read()
    except (ValueError, tf.errors.InvalidArgumentError):
        return True
    return False


@pytest.mark.long
@given(st.text(alphabet="0123456789+-.eE x", max_size=6).filter(lambda text: text.strip() == text))
def test_the_check_lets_pass_what_tensorflow_reads_as_a_whole_number_and_nothing_else(field):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.csv")
        path.write_text(f"label,end\n{field},1\n")
        source = tf.data.experimental.CsvDataset(str(path), [tf.int64] * 2, header=True)
        assert refuses(lambda: source_check.csv(path, label=int, end=int)) == refuses(lambda: list(source))


def test_another_header_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("label,path\n1,a.jpg\n")
    with pytest.raises(ValueError, match=r"a\.csv has the columns label, path; expected: path, label"):
        source_check.csv(path, path=str, label=int)
    path.write_text("")
    with pytest.raises(ValueError, match=r"a\.csv has no columns; expected: path, label"):
        source_check.csv(path, path=str, label=int)
    with pytest.raises(ValueError, match="the type of column path is 'bytes'; allowed: "):
        source_check.csv(path, path=bytes)


FIELDS = {"caption": str, "number": int, "size": float, "new": bool}
WHOLE = {"caption": "ü", "number": 3, "size": 1, "new": True}


def objects(path, *made):
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in made), encoding="utf-8")
    return path


def test_whole_objects_of_json_lines_are_counted(tmp_path):
    path = objects(tmp_path / "photos.jsonl", WHOLE, WHOLE | {"caption": "", "size": 2.5, "more": None}, "{}")
    assert source_check.json_lines(path) == len(list(tf.data.TextLineDataset(str(path)))) == 3
    path.write_text(json.dumps(WHOLE) + "\r\n")
    assert source_check.json_lines(path, **FIELDS) == 1
    path.write_bytes(b"")
    assert source_check.json_lines(path, **FIELDS) == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (WHOLE | {"number": "2"}, "number is '2'; allowed: a whole number"),
        (WHOLE | {"number": 2.0}, "number is 2.0; allowed: a whole number"),
        (WHOLE | {"number": True}, "number is true; allowed: a whole number"),
        (WHOLE | {"number": 2**63}, f"number is {2**63}; allowed: a whole number"),
        (WHOLE | {"size": float("nan")}, "size is NaN; allowed: a number"),
        (WHOLE | {"size": 10**400}, f"size is {'1' + 39 * '0'}; allowed: a number"),
        (WHOLE | {"caption": None}, "caption is null; allowed: a text"),
        (WHOLE | {"caption": "\ud83d"}, r"caption is '\ud83d'; allowed: a text"),
        (WHOLE | {"new": 1}, "new is 1; allowed: true or false"),
        ({"caption": "a"}, "number is not there; allowed: a whole number"),
        ([3], "'[3]' is no object; allowed: one whole object in each line"),
        ("", "'' is no JSON (Expecting value at character 1); allowed: one whole object in each line"),
        ('{"a": 1}, ', """'{"a": 1}, ' is no JSON (Extra data at character 9); allowed: one whole object"""),
        ('{"a" 1}', """'{"a" 1}' is no JSON (Expecting ':' delimiter at character 6); allowed: one whole object"""),
        ('{"a": [1,', """'{"a": [1,' ends inside an object; allowed: one whole object in each line"""),
        ("{'a': 1}", "is no JSON (Expecting property name enclosed in double quotes at character 2); allowed: "),
        pytest.param("[" * 100_000, "is no JSON (", id="nested"),
        pytest.param('{"a": ' + "1" * 5000 + "}", "is no JSON (Exceeds the limit", id="5,000 digits"),
        ('{"a": "b\tc"}', r"""'{"a": "b\tc"}' is no JSON (Invalid control character at character 9); allowed: """),
        ('{"a": "b}', """'{"a": "b}' is no JSON (Unterminated string starting at character 7); allowed: """),
        ("{'a': 1},", "is no JSON (Expecting property name enclosed in double quotes at character 2); allowed: "),
        ('{"a" 1},', """'{"a" 1},' is no JSON (Expecting ':' delimiter at character 6); allowed: """),
        ('{"a": 1 "b": 2},', """'{"a": 1 "b": 2},' is no JSON (Expecting ',' delimiter at character 9); allowed: """),
        ('{"a": "b', """'{"a": "b' ends inside an object; allowed: """),
        ('{"a": {"b": 1}', """'{"a": {"b": 1}' ends inside an object; allowed: """),
        ('{"a": tru', """'{"a": tru' ends inside an object; allowed: """),
    ],
)
def test_a_bad_line_of_json_is_named_with_file_line_field_and_value(tmp_path, line, words):
    path = objects(tmp_path / "photos.jsonl", WHOLE, line, WHOLE, WHOLE | {"number": None}, WHOLE)
    with pytest.raises(ValueError, match=r"^photos\.jsonl, line 2: ") as error:
        source_check.json_lines(path, **FIELDS)
    assert words in str(error.value)
    assert str(error.value).endswith(" (bad lines: 2 of 5); correct them before a job reads the file")


def test_json_lines_that_are_cut_off_anywhere_are_refused_or_fewer(tmp_path):
    path = objects(tmp_path / "photos.jsonl", *[WHOLE | {"part": {"of": [1, "}"]}}] * 3)
    whole = path.read_bytes()
    for end in range(1, len(whole)):
        path.write_bytes(whole[:end])
        *before, last = whole[:end].split(b"\n")
        if last in (b"", whole.split(b"\n")[0]):
            assert source_check.json_lines(path, **FIELDS) == len(before) + bool(last)
            continue
        with pytest.raises(ValueError, match=rf"^photos\.jsonl, line {len(before) + 1}: "):
            source_check.json_lines(path, **FIELDS)


def test_bytes_that_are_no_text_are_named_by_file_and_line(tmp_path):
    path = tmp_path / "captions.txt"
    path.write_bytes(b"a green bird\r\n\n" + "ein grüner Kreis\nü".encode("latin-1"))
    assert len(list(tf.data.TextLineDataset(str(path)))) == 4, "nobody is told"
    words = (
        r"captions\.txt, line 3: the text is b'ein gr\\xfcner Kreis'; allowed: text in UTF-8 \(bad lines: 2 of 4\); "
    )
    with pytest.raises(ValueError, match=words):
        source_check.text_lines(path)
    with pytest.raises(ValueError, match=r"^captions\.txt, line 1: .* \(bad lines: 4 of 4\); correct them"):
        source_check.json_lines(path)
    with pytest.raises(FileNotFoundError, match="gone is not there"):
        source_check.text_lines(tmp_path / "gone")


def test_bytes_that_are_no_text_are_shown_behind_letters_that_are_not_english(tmp_path):
    path = tmp_path / "captions.txt"
    path.write_bytes("ёж ".encode() * 5 + b"\xff ok")
    with pytest.raises(ValueError, match=r"line 1: the text is b'\\xff ok'; allowed: text in UTF-8"):
        source_check.text_lines(path)


@pytest.mark.parametrize("read", [source_check.text_lines, source_check.json_lines])
@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("utf-8-sig", "the text begins with a byte order mark; allowed: text in UTF-8 without one"),
        ("utf-16-le", "the text has a zero byte, as UTF-16 has; allowed: text in UTF-8"),
    ],
)
def test_text_that_only_looks_like_utf_8_is_named(tmp_path, read, encoding, words):
    """A spreadsheet begins a text with a mark, which becomes a part of the first word."""
    path = tmp_path / "captions.txt"
    path.write_text("{}\n{}", encoding=encoding)
    assert b"\0" in path.read_bytes() or "\ufeff{}".encode() in list(
        tf.data.TextLineDataset(str(path)).as_numpy_iterator()
    )
    with pytest.raises(ValueError, match=rf"^captions\.txt, line 1: {words} \(bad"):
        read(path)


@pytest.mark.long
@given(st.text(alphabet="ab \nü", max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_as_many_lines_are_counted_as_tensorflow_delivers(text, end):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.txt")
        path.write_text(text, encoding="utf-8", newline=end)
        assert source_check.text_lines(path) == len(list(tf.data.TextLineDataset(str(path))))


def test_records_of_a_fixed_length_are_counted_and_half_a_record_is_refused(tmp_path):
    path = tmp_path / "photos.bin"
    for size in (0, 30):
        path.write_bytes(bytes(size))
        assert source_check.fixed_length(path, 10) == len(list(tf.data.FixedLengthRecordDataset(str(path), 10)))
    path.write_bytes(bytes(1034))
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(tf.data.FixedLengthRecordDataset(str(path), 10))
    with pytest.raises(ValueError, match="photos") as error:
        source_check.fixed_length(path, 10)
    assert str(error.value) == (
        "photos.bin ends inside a record: its 1,034 bytes are 103 records of 10 and 4 bytes more; "
        "write it again, or cut it to 1,030 bytes to read what is whole"
    )


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "photos.sqlite"
    with sqlite3.connect(path) as link:
        link.execute("create table photos (id integer primary key, label integer)")
        link.executemany("insert into photos (label) values (?)", [(n,) for n in range(7)])
    link.close()
    return path


def labels(path, query):
    return list(tf.data.experimental.SqlDataset("sqlite", str(path), query, (tf.int64,)))


def test_the_rows_of_a_query_are_counted(database):
    query = "select label from photos where id % 2 = 1 order by id"
    assert source_check.sqlite(database, query) == len(labels(database, query)) == 4


@pytest.mark.parametrize("end", [";", " ; ", " -- all of them", "; -- all of them", " /* all */"])
def test_a_query_may_end_as_tensorflow_lets_it_end(database, end):
    query = "select label from photos" + end
    assert source_check.sqlite(database, query) == len(labels(database, query)) == 7


ROWS = [("a", 1), (None, 2), ("c", None), ("d", "cat"), (b"e", 1.5)]


@pytest.mark.parametrize("types", [{"name": str, "label": int}, {}])
@pytest.mark.parametrize(
    ("order", "words"),
    [
        ([0, 1, 2], "row 2: name is NULL; allowed: a text (bad rows: 2 of 3)"),
        ([0, 2], "row 2: label is NULL; allowed: a whole number (bad rows: 1 of 2)"),
        ([0, 0, 3, 0], "row 3: label is 'cat'; allowed: a whole number (bad rows: 1 of 4)"),
        ([0, 4], "row 2: name is b'e'; allowed: a text (bad rows: 1 of 2)"),
    ],
)
def test_a_null_or_another_type_is_named_which_tensorflow_delivers_as_nothing(tmp_path, types, order, words):
    path, query = tmp_path / "photos.sqlite", "select name, label from photos order by id"
    with sqlite3.connect(path) as link:
        link.execute("create table photos (id integer primary key, name, label)")
        link.executemany("insert into photos (name, label) values (?, ?)", [ROWS[n] for n in order])
    link.close()
    silent = tf.data.experimental.SqlDataset("sqlite", str(path), query, (tf.string, tf.int64))
    assert len(list(silent)) == len(order)
    with pytest.raises(ValueError, match="photos") as error:
        source_check.sqlite(path, query, **types)
    assert str(error.value) == f"photos.sqlite, {words}; correct them, or leave them out in the query"


def test_columns_of_a_query_are_compared_by_name_and_type(database):
    query = "select id, label, label / 2.0 as half, 'ü' as name, x'00' as photo from photos"
    kinds = {"id": int, "label": float, "half": float, "name": str, "photo": bytes}
    assert source_check.sqlite(database, query, **kinds) == source_check.sqlite(database, query) == 7
    with pytest.raises(ValueError, match=r"photos\.sqlite answers .* id, label, half, .*; expected: id, label$"):
        source_check.sqlite(database, query, id=int, label=int)
    with pytest.raises(ValueError, match="the type of column id is 'list'; allowed: "):
        source_check.sqlite(database, query, id=list)
    with pytest.raises(ValueError, match="'-- nothing' with no columns; expected: a query"):
        source_check.sqlite(database, "-- nothing")
    with pytest.raises(ValueError, match=r"row 1: n is NULL; allowed: no NULL \(bad rows: 1 of 1\)"):
        source_check.sqlite(database, "select null as n")


def test_a_missing_database_is_refused_and_not_made(tmp_path):
    path = tmp_path / "gone.sqlite"
    with pytest.raises(FileNotFoundError, match=r"gone\.sqlite is not there"):
        source_check.sqlite(path, "select 1")
    assert not path.exists()


def test_a_query_or_a_file_that_does_not_fit_is_refused_in_one_sentence(database, tmp_path):
    with pytest.raises(ValueError, match=r"photos\.sqlite cannot answer 'select cat from .*: no such column: cat; "):
        source_check.sqlite(database, "select cat from photos")
    with pytest.raises(ValueError, match=r"photos\.sqlite cannot answer 'select 1; select 2': .* statement .*[a-z]; "):
        source_check.sqlite(database, "select 1; select 2")
    (tmp_path / "text").write_text("path,label\n" * 200)
    with pytest.raises(ValueError, match=r"text cannot answer 'select label .*: file is not a database"):
        source_check.sqlite(tmp_path / "text", "select label from photos")


LOCKS = """
import sqlite3, sys
link = sqlite3.connect(sys.argv[1], isolation_level=None)
link.execute("begin exclusive")
print("locked", flush=True)
input()
"""


def test_a_database_that_another_program_writes_is_refused_and_then_whole(database):
    query = "select label from photos"
    writer = subprocess.Popen(
        [sys.executable, "-c", LOCKS, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert writer.stdout.readline().strip() == b"locked"
    with pytest.raises(OSError, match=r"photos\.sqlite is locked by another program"):
        source_check.sqlite(database, query, timeout_s=0.01)
    with pytest.raises(tf.errors.UnavailableError):
        labels(database, query)
    writer.communicate(b"\n")
    assert source_check.sqlite(database, query) == len(labels(database, query)) == 7
