"""What a source will deliver, before a job reads it: rows of a CSV or a query, lines of text or JSON, records.

TensorFlow stops at a bad row of a CSV in the middle of an epoch, and its error names neither the file nor the line. It
delivers a NULL of a database as 0 or as an empty text, and bytes that are no text as a word. These functions read a
source once, without TensorFlow, and refuse a bad source in one sentence before the training begins, so that no row is
left out in silence. They return the number of elements, to be compared with the number that arrives.
"""

from __future__ import annotations

import codecs
import contextlib
import csv as csv_files
import json
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote

from labkit.common.numbers import one_of, whole

#: What a field of a CSV may be: the words of an error, and what the whole field must match.
_FIELDS = {
    "int": ("a whole number", re.compile(r"\s*[+-]?\d+\s*", re.ASCII)),
    "float": ("a number", re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)),
    "str": ("a text that is not empty", re.compile(r".+", re.DOTALL)),
}
#: A row of a CSV as TensorFlow reads it, and what is wrong with one that Python alone reads.
_FIELD = r'(?:"[^"]*(?:""[^"]*)*"|[^",\r\n]*)'
_ROW = re.compile(rf"{_FIELD}(?:,{_FIELD})*[\r\n]*")
_QUOTE = "a field has a quote inside; allowed: quotes around a whole field, and those inside doubled"
#: What a value of a query may be: the words of an error, and the types that SQLite may deliver.
_VALUES = {
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "str": ("a text", (str,)),
    "bytes": ("bytes", (bytes,)),
}
#: What a value of a JSON line may be, in the same form, and the largest number that fits into a tensor.
_MEMBERS = {kind: _VALUES[kind] for kind in ("int", "float", "str")} | {"bool": ("true or false", (bool,))}
_LARGEST = {"int": 2**63 - 1, "float": sys.float_info.max}
#: What is left of a line of JSON from its fault on where a writer was interrupted: nothing, or half a word or number.
_HALF = re.compile(r"[\w.+\\-]*")


def csv(path: str | os.PathLike[str], /, **columns: type) -> int:
    """Return the number of rows of a CSV file in UTF-8 whose first line names its columns.

    Where a file is cut off inside its last field, what is left of the field can look whole, so compare the number and
    the last row.

    Parameters
    ----------
    path : path
    **columns : {int, float, str}
        The columns by name, in their order. No field may be empty.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the header or a row is bad: the sentence names file, line, column and value, and counts the bad rows.
    """
    path = _file(path)
    return _count(path, _csv_rows(path, _kinds(columns, _FIELDS)), "correct them before a job reads the file")


def text_lines(path: str | os.PathLike[str], /) -> int:
    """Return the number of lines of a text file in UTF-8, as `tf.data.TextLineDataset` delivers them.

    The dataset hands on bytes that are no UTF-8 and a byte order mark, and a word then has two spellings. A text that
    is cut off looks whole, so compare the number and the last line.

    Parameters
    ----------
    path : path

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a line is no UTF-8, begins with a byte order mark or has a zero byte: the sentence names file, line and
        what is wrong, and counts the bad lines.
    """
    path = _file(path)
    return _count(path, _lines(path, lambda line: ""), "save the file as UTF-8", "lines")


def json_lines(path: str | os.PathLike[str], /, **columns: type) -> int:
    """Return the number of lines of a file in UTF-8 of which each is one JSON object.

    Parameters
    ----------
    path : path
    **columns : {int, float, str, bool}
        Fields by name that each object must have, none of them null; those that are not named may be anything.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a line is no object, as where a writer was interrupted, or a field is bad: the sentence names file, line,
        field and value, and counts the bad lines. A file that ends after a whole line is taken for whole, so compare
        the number.
    """
    path, kinds = _file(path), _kinds(columns, _MEMBERS)
    found = _lines(path, lambda line: _misfit(line, kinds))
    return _count(path, found, "correct them before a job reads the file", "lines")


def fixed_length(path: str | os.PathLike[str], record_bytes: int) -> int:
    """Return the number of records of a binary file whose records all have one length.

    Parameters
    ----------
    path : path
    record_bytes : int
        Bytes of a record, 1 or more.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If its last record is not whole: its writer was interrupted, or its records have another length. A file that
        ends after a whole record is taken for whole, so compare the number.
    """
    path, record_bytes = _file(path), whole("record_bytes", record_bytes, 1)
    size = path.stat().st_size
    records, more = divmod(size, record_bytes)
    if more:
        raise ValueError(
            f"{path.name} ends inside a record: its {size:,} bytes are {records:,} records of {record_bytes:,} and "
            f"{more:,} bytes more; write it again, or cut it to {size - more:,} bytes to read what is whole"
        )
    return records


def sqlite(path: str | os.PathLike[str], query: str, /, timeout_s: float = 1, **columns: type) -> int:
    """Return the number of rows of a query of an SQLite database.

    Call it before a pipeline reads the database. `tf.data.experimental.SqlDataset` makes an empty database where there
    is none, does not wait for a lock, and delivers a NULL or a text as the number 0.

    Parameters
    ----------
    path : path
    query : str
        As for the dataset.
    timeout_s : float
        Seconds to wait for another program that writes.
    **columns : {int, float, str, bytes}
        The columns of the query by name, in their order. Without them each row must have the types of the first.
        No value may be NULL.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    OSError
        If another program has locked it for so long.
    ValueError
        If it is no database, the query does not fit it, or a row is bad: the sentence names file, row, column and
        value, and counts the bad rows.
    """
    path, kinds = _file(path), _kinds(columns, _VALUES)
    try:
        return _count(path, _query_rows(path, query, timeout_s, kinds), "correct them, or leave them out in the query")
    except (sqlite3.Error, sqlite3.Warning) as error:  # before Python 3.12 two statements are a warning
        why = str(error).rstrip(".")
    if "locked" in why:
        raise OSError(
            f"{path.name} is locked by another program that writes to it; wait for it, or read a copy of the file"
        )
    raise ValueError(f"{path.name} cannot answer {query!r}: {why}; check the file and the query")


# -- one reader: each parser yields the place of a row, and what is wrong with it ------------------------------


def _count(path: Path, rows: Iterable[tuple[str, str]], do: str, what: str = "rows") -> int:
    """Return the number of rows, or raise the first fault, with the number of faults and what to do."""
    bad, first, number = 0, "", 0
    for place, fault in rows:
        number += 1
        if fault:
            bad, first = bad + 1, first or f"{place}: {fault}"
    if bad:
        raise ValueError(f"{path.name}, {first} (bad {what}: {bad:,} of {number:,}); {do}")
    return number


def _csv_rows(path: Path, kinds: dict[str, str]) -> Iterator[tuple[str, str]]:
    read: list[str] = []  # the lines of a row as they are in the file: its fields do not show where quotes are
    wanted = ", ".join(kinds) or "the columns with their types, as label=int"
    # A byte order mark is no part of the first name; bytes that are no UTF-8 are found in their row.
    with _long_fields(), path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        lines = csv_files.reader((read.append(line) or line for line in file), strict=True)
        try:
            head = next(lines, [])
        except csv_files.Error as error:
            raise ValueError(f"{path.name}, line 1: {error}; expected, with commas between them: {wanted}") from None
        if not all(map(_is_utf8, head)):
            raise ValueError(f"{path.name}, line 1 is not UTF-8; save the file as UTF-8")
        _expect(list(kinds), head, f"{path.name} has", wanted)
        read.clear()
        try:
            for row in lines:
                yield f"line {lines.line_num}", _fault(row, kinds) or ("" if _ROW.fullmatch("".join(read)) else _QUOTE)
                read.clear()
        except csv_files.Error as error:
            yield f"line {lines.line_num}", str(error)


def _lines(path: Path, fault: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            yield f"line {number}", _no_text(line) or fault(line.decode())


def _query_rows(path: Path, query: str, timeout_s: float, kinds: dict[str, str]) -> Iterator[tuple[str, str]]:
    place = f"file:{quote(str(path.absolute()))}?mode=ro"
    with contextlib.closing(sqlite3.connect(place, timeout_s, uri=True)) as database:
        database.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        answer = database.execute(query)
        names = [name for name, *_ in answer.description or ()]
        wanted = ", ".join(kinds) or "a query that has some"
        _expect(list(kinds) or names or [""], names, f"{path.name} answers {query!r} with", wanted)
        expected = list(kinds.values())
        for number, row in enumerate(answer, 1):
            expected = expected or [type(value).__name__ for value in row]
            yield f"row {number}", _wrong(row, names, expected)


def _expect(columns: list[str], found: list[str], has: str, wanted: str) -> None:
    """Refuse other columns than those that are expected."""
    if found != columns:
        seen = f"the columns {', '.join(found)}" if found else "no columns"
        raise ValueError(f"{has} {seen}; expected: {wanted}")


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    """Let fields be longer than the usual 128 kB, as a photo in base64 is."""
    limit = csv_files.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv_files.field_size_limit(limit)


def _file(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there, or no file")
    return path


def _kinds(columns: dict[str, type], allowed: Iterable[str]) -> dict[str, str]:
    """Return the name of the type of each column, which must be one of those that are allowed."""
    for name, kind in columns.items():
        if not isinstance(kind, type):  # a type of TensorFlow, for example
            raise ValueError(f"the type of column {name} is {kind!r}; allowed: {', '.join(allowed)}")
    return {name: one_of(f"the type of column {name}", kind.__name__, allowed) for name, kind in columns.items()}


def _is_utf8(text: str) -> bool:
    """Tell whether a text can be written as UTF-8: one that was read with its wrong bytes, or from JSON, may not."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _no_text(line: bytes) -> str:
    """Return why a line is no text in UTF-8, or nothing."""
    if line.startswith(codecs.BOM_UTF8):
        return "the text begins with a byte order mark; allowed: text in UTF-8 without one"
    if b"\0" in line:
        return "the text has a zero byte, as UTF-16 has; allowed: text in UTF-8"
    try:
        line.decode()
    except UnicodeDecodeError as error:
        # A few letters before the fault; those that are not ASCII are written so long that they would hide it.
        before = re.search(rb"[ -~]{0,10}\Z", line[: error.start])
        return f"the text is {line[before.start() :].strip()!r:.40}; allowed: text in UTF-8"
    return ""


def _misfit(line: str, kinds: dict[str, str]) -> str:
    """Return what is wrong with a line of JSON, or nothing."""
    line = line.rstrip("\r\n")
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        message, left = error.msg.removesuffix(" at"), line.rstrip()[error.pos :]
        half = not left.endswith("}") if message.startswith("Unterminated") else _HALF.fullmatch(left)
        inside = half and line.lstrip().startswith("{") and message != "Extra data"
        why = "ends inside an object" if inside else f"is no JSON ({message} at character {error.colno})"
        return f"{line!r:.40} {why}; allowed: one whole object in each line"
    except (ValueError, RecursionError) as error:  # a number of more digits than Python reads, a deep nesting
        return f"{line!r:.40} is no JSON ({str(error).partition(';')[0]}); allowed: one whole object in each line"
    if not isinstance(found, dict):
        return f"{line!r:.40} is no object; allowed: one whole object in each line"
    for name, kind in kinds.items():
        words, types = _MEMBERS[kind]
        if name not in found:
            return f"{name} is not there; allowed: {words}"
        value, most = found[name], _LARGEST.get(kind)
        fits = isinstance(value, types) and isinstance(value, bool) == (kind == "bool")
        if not fits or (most and not -most - 1 <= value <= most) or (kind == "str" and not _is_utf8(value)):
            shown = repr(value) if isinstance(value, str) else json.dumps(value)
            return f"{name} is {shown:.40}; allowed: {words}"
    return ""


def _fault(row: list[str], kinds: dict[str, str]) -> str:
    """Return what is wrong with a row of a CSV, or nothing."""
    if len(row) != len(kinds):
        return f"{len(row)} fields in place of {len(kinds)}"
    for (name, kind), field in zip(kinds.items(), row, strict=True):
        words, form = _FIELDS[kind]
        if not _is_utf8(field):
            return f"{name} is {field.encode('utf-8', 'surrogateescape')!r:.40}; allowed: text in UTF-8"
        # As a Decimal, since Python makes no int of thousands of digits.
        if not form.fullmatch(field) or (kind == "int" and not -(2**63) <= Decimal(field) < 2**63):
            return f"{name} is {field!r:.40}; allowed: {words}"
    return ""


def _wrong(row: tuple[object, ...], names: list[str], kinds: list[str]) -> str:
    """Return what is wrong with a row of a query, or nothing."""
    for name, kind, value in zip(names, kinds, row, strict=True):
        words, types = _VALUES.get(kind, ("no NULL", ()))
        if not isinstance(value, types):
            return f"{name} is {'NULL' if value is None else f'{value!r:.40}'}; allowed: {words}"
    return ""
