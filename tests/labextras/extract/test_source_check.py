"""A check of a source counts what TensorFlow delivers of it, or names what TensorFlow stops at."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from labextras.extract import source_check

TYPES = {"path": str, "label": int, "size": float}


def rows_of(path):
    return list(tf.data.experimental.CsvDataset(str(path), [tf.string, tf.int64, tf.float32], header=True))


def lines_of(path):
    return list(tf.data.TextLineDataset(str(path)).as_numpy_iterator())


def write(path, *lines, head="path,label,size"):
    path.write_text("\n".join([head, *lines, ""]), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "line",
    [
        '"b, ""c"".jpg",-4,2.5e3',
        "ü.jpg, 5 ,.5",
        pytest.param("a" * 200_000 + ",3,1", id="a photo in base64"),
        pytest.param(f"a.jpg,-{'0' * 5000}7,1", id="zeros in front"),
    ],
)
def test_good_rows_are_counted(tmp_path, line):
    path = write(tmp_path / "a.csv", "a.jpg,3,1", line)
    assert source_check.csv(path, **TYPES) == len(rows_of(path)) == 2
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert source_check.csv(path, **TYPES) == 2, "a byte order mark is no part of the first column"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("b.jpg,cat,1", "label is 'cat'; allowed: a whole number"),
        ("b.jpg,1.0,1", "label is '1.0'; allowed: a whole number"),
        ("b.jpg,1_0,1", "label is '1_0'; allowed: a whole number"),
        pytest.param(f"b.jpg,{'1' * 5000},1", f"label is '{'1' * 39}; allowed: a whole number", id="5,000 digits"),
        (f"b.jpg,{2**63},1", f"label is '{2**63}'; allowed: a whole number"),
        ("b.jpg,,1", "label is ''; allowed: a whole number"),
        ("b.jpg,1,", "size is ''; allowed: a number"),
        (",1,1", "a field is empty; allowed: a text that is not empty"),
        ("b.jpg,1", "2 fields in place of 3"),
        ("b.jpg,1,1,x", "4 fields in place of 3"),
        ('a"b.jpg,3,1', "a field has a quote inside; allowed: quotes around a whole field, and those inside doubled"),
        (' "a.jpg",3,1', "a field has a quote inside; allowed: quotes around a whole field, and those inside doubled"),
    ],
)
def test_what_stops_tensorflow_is_named_with_file_line_and_column(tmp_path, line, words):
    path = write(tmp_path / "photos.csv", "a.jpg,3,1", line, "c.jpg,3,1", "d.jpg,x,1")
    with pytest.raises(tf.errors.InvalidArgumentError):
        rows_of(path)
    with pytest.raises(ValueError, match="photos") as error:
        source_check.csv(path, **TYPES)
    words = f"photos.csv, line 3: {words} (bad rows: 2 of 4); correct them before a job reads the file"
    assert str(error.value) == words


@pytest.mark.parametrize(
    ("head", "line", "types", "words"),
    [
        ("path,label,size", '"b.jpg,3,1', TYPES, r"photos\.csv, line 2: unexpected end of data \(bad rows: 1 of 1\)"),
        # What a spreadsheet writes where a comma stands in a number.
        ('"path";"label"', "a.jpg;3", {"path": str}, r"^photos\.csv, line 1: "),
        ("label,path", "1,a", {"path": str}, r"photos\.csv has the columns label, path; expected: path$"),
        ("", "", {"path": str}, r"photos\.csv has no columns; expected: path$"),
        ("path", "a", {}, "expected: the columns with their types, as label=int$"),
        ("path", "a", {"path": bytes}, "the type of column path is 'bytes'; allowed: int, float, str$"),
        ("path", "a", {"path": tf.int64}, "the type of column path is 'tf.int64'; allowed: int, float, str$"),
        ("path", "a", {"path": "int"}, "the type of column path is .*'int'.*; allowed: int, float, str$"),
    ],
)
def test_another_header_or_type_is_refused(tmp_path, head, line, types, words):
    path = write(tmp_path / "photos.csv", *filter(None, [line]), head=head)
    with pytest.raises(ValueError, match=words):
        source_check.csv(path, **types)


def test_text_in_another_encoding_is_named_by_file_and_line(tmp_path):
    path = tmp_path / "photos.csv"
    path.write_bytes("path,label\na.jpg,3\nü.jpg,3\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"^photos\.csv, line 3: path is '\\udcfc\.jpg'; allowed: a text in UTF-8"):
        source_check.csv(path, path=str, label=int)
    path.write_bytes("größe,label\n1,3\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"^photos\.csv, line 1 is not UTF-8"):
        source_check.csv(path, größe=int, label=int)


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
        path = write(Path(folder, "a.csv"), f"{field},1", head="label,end")
        source = tf.data.experimental.CsvDataset(str(path), [tf.int64] * 2, header=True)
        assert refuses(lambda: source_check.csv(path, label=int, end=int)) == refuses(lambda: list(source))


FIELDS = {"caption": str, "number": int, "size": float, "new": bool}
WHOLE = {"caption": "ü", "number": 3, "size": 1, "new": True}


def objects(path, *made):
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in made), encoding="utf-8")
    return path


def test_whole_objects_of_json_lines_are_counted(tmp_path):
    path = objects(tmp_path / "photos.jsonl", WHOLE, WHOLE | {"caption": "", "size": 2.5, "more": None}, "{}")
    assert source_check.json_lines(path) == len(lines_of(path)) == 3
    path.write_text(json.dumps(WHOLE) + "\r\n")
    assert source_check.json_lines(path, **FIELDS) == 1
    path.write_bytes(b"")
    assert source_check.json_lines(path, **FIELDS) == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (WHOLE | {"number": "2"}, "number is '2'; allowed: a whole number"),
        (WHOLE | {"number": True}, "number is True; allowed: a whole number"),
        (WHOLE | {"number": 2**63}, f"number is {2**63}; allowed: a whole number"),
        (WHOLE | {"size": float("nan")}, "size is nan; allowed: a number"),
        (WHOLE | {"caption": None}, "caption is NULL; allowed: a text"),
        (WHOLE | {"caption": "\ud83d"}, r"caption is '\ud83d'; allowed: a text in UTF-8"),
        (WHOLE | {"new": 1}, "new is 1; allowed: true or false"),
        ({"caption": "a"}, "number is not there; allowed: a whole number"),
        ([3], "'[3]' is no object; allowed: one whole object in each line"),
        ("", "'' is no JSON (Expecting value at character 1); allowed: one whole object in each line"),
        ('{"a": 1}, ', """'{"a": 1},' is no JSON (Extra data at character 9); allowed: one whole object"""),
        pytest.param("[" * 100_000, "is no JSON (", id="nested"),
        pytest.param('{"a": ' + "1" * 5000 + "}", "is no JSON (Exceeds the limit", id="5,000 digits"),
        ('{"a": "b}', """'{"a": "b}' is no JSON (Unterminated string starting at character 7); allowed: """),
        ('{"a": "b', """'{"a": "b' ends inside an object; allowed: """),
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


@pytest.mark.parametrize("read", [source_check.text_lines, source_check.json_lines])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"ein gr\xfcner Kreis", r"the text is b'ein gr\\xfcner Kreis'; allowed: text in UTF-8"),
        ("ёж ".encode() * 5 + b"\xff ok", r"the text is b'\\xff ok'; allowed: text in UTF-8"),
        # A spreadsheet begins a text with a mark, which becomes a part of the first word.
        ("{}".encode("utf-8-sig"), "the text begins with a byte order mark; allowed: text in UTF-8 without one"),
        ("{}".encode("utf-16-le"), "the text has a zero byte, as UTF-16 has; allowed: text in UTF-8"),
    ],
)
def test_bytes_that_are_no_text_are_named_by_file_and_line(tmp_path, read, text, words):
    path = tmp_path / "captions.txt"
    path.write_bytes(b"{}\r\n" + text + b"\n\xfc\n{}")
    assert lines_of(path)[1] == text, "nobody is told"
    with pytest.raises(ValueError, match=rf"^captions\.txt, line 2: {words} \(bad lines: 2 of 4\); "):
        read(path)
    with pytest.raises(FileNotFoundError, match="gone is not there"):
        read(tmp_path / "gone")


@pytest.mark.long
@given(st.text(alphabet="ab \nü", max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_as_many_lines_are_counted_as_tensorflow_delivers(text, end):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.txt")
        path.write_text(text, encoding="utf-8", newline=end)
        assert source_check.text_lines(path) == len(lines_of(path))


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


def table(path, columns, rows):
    with sqlite3.connect(path) as link:
        link.execute(f"create table photos (id integer primary key, {columns})")
        link.executemany(f"insert into photos ({columns}) values ({', '.join('?' * len(rows[0]))})", rows)
    link.close()
    return path


@pytest.fixture
def database(tmp_path):
    return table(tmp_path / "photos.sqlite", "label", [(n,) for n in range(7)])


def labels(path, query):
    return list(tf.data.experimental.SqlDataset("sqlite", str(path), query, (tf.int64,)))


@pytest.mark.parametrize("end", [" where id > 3", " ; ", " -- all of them", " /* all */"])
def test_the_rows_of_a_query_are_counted_however_it_ends(database, end):
    query = "select label from photos" + end
    assert source_check.sqlite(database, query) == len(labels(database, query)) == (4 if "id" in end else 7)


@pytest.mark.parametrize("types", [{"name": str, "label": int}, {}])
@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((None, 2), "name is NULL; allowed: a text in UTF-8"),
        (("c", None), "label is NULL; allowed: a whole number"),
        (("d", "cat"), "label is 'cat'; allowed: a whole number"),
        ((b"e", 1), "name is b'e'; allowed: a text in UTF-8"),
    ],
)
def test_a_null_or_another_type_is_named_which_tensorflow_delivers_as_nothing(tmp_path, types, row, words):
    path = table(tmp_path / "photos.sqlite", "name, label", [("a", 1), row, ("a", 1)])
    query = "select name, label from photos order by id"
    silent = tf.data.experimental.SqlDataset("sqlite", str(path), query, (tf.string, tf.int64))
    assert len(list(silent)) == 3
    with pytest.raises(ValueError, match="photos") as error:
        source_check.sqlite(path, query, **types)
    words = f"photos.sqlite, row 2: {words} (bad rows: 1 of 3); correct them, or leave them out in the query"
    assert str(error.value) == words


def test_columns_of_a_query_are_compared_by_name_and_type(database):
    query = "select id, label, label / 2.0 as half, 'ü' as name, x'00' as photo from photos"
    kinds = {"id": int, "label": float, "half": float, "name": str, "photo": bytes}
    assert source_check.sqlite(database, query, **kinds) == source_check.sqlite(database, query) == 7


@pytest.mark.parametrize(
    ("query", "types", "words"),
    [
        ("select id, label from photos", {"id": int}, r"photos\.sqlite answers .* columns id, label; expected: id$"),
        ("select id from photos", {"id": list}, "the type of column id is 'list'; allowed: "),
        ("-- nothing", {}, "'-- nothing' with no columns; expected: a query"),
        ("select null as n", {}, r"row 1: n is NULL; allowed: no NULL \(bad rows: 1 of 1\)"),
        ("select cat from photos", {}, r"photos\.sqlite cannot answer 'select cat from .*: no such column: cat; "),
        ("select 1; select 2", {}, r"photos\.sqlite cannot answer 'select 1; select 2': .* statement .*[a-z]; "),
    ],
)
def test_a_query_that_does_not_fit_is_refused_in_one_sentence(database, query, types, words):
    with pytest.raises(ValueError, match=words):
        source_check.sqlite(database, query, **types)


def test_a_file_that_is_no_database_is_refused_and_none_is_made(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.sqlite is not there"):
        source_check.sqlite(tmp_path / "gone.sqlite", "select 1")
    assert not (tmp_path / "gone.sqlite").exists()
    (tmp_path / "text").write_text("path,label\n" * 200)
    with pytest.raises(ValueError, match=r"text cannot answer 'select label .*: file is not a database"):
        source_check.sqlite(tmp_path / "text", "select label from photos")


def test_a_database_that_somebody_writes_is_refused_and_then_whole(database):
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("begin exclusive")
        with pytest.raises(OSError, match=r"photos\.sqlite is locked by another program"):
            source_check.sqlite(database, "select label from photos", timeout_s=0.01)
    assert source_check.sqlite(database, "select label from photos") == 7
