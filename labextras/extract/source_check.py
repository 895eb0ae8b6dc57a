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

#: What a value may be, by its type: the words of an error, and the types of Python that hold it.
_KINDS = {
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "str": ("a text in UTF-8", (str,)),
    "bytes": ("bytes", (bytes,)),
    "bool": ("true or false", (bool,)),
}
_CORRECT = "correct them before a job reads the file"
_LARGEST = {"int": 2**63 - 1, "float": sys.float_info.max}  # that fits into a tensor
#: A field of a CSV that is a number.
_NUMBERS = {
    "int": re.compile(r"\s*[+-]?\d+\s*", re.ASCII),
    "float": re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE),
}
#: A row of a CSV as TensorFlow reads it, and what is wrong with one that Python alone reads.
_FIELD = r'(?:"[^"]*(?:""[^"]*)*"|[^",\r\n]*)'
_ROW = re.compile(rf"{_FIELD}(?:,{_FIELD})*[\r\n]*")
_EMPTY = "a field is empty; allowed: a text that is not empty"
_QUOTE = "a field has a quote inside; allowed: quotes around a whole field, and those inside doubled"


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
    path, kinds = _file(path), _kinds(columns, "int", "float", "str")
    return _count(path, _csv_rows(path, kinds))


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
    return _count(path, _lines(path, lambda line: ""), "lines", "save the file as UTF-8")


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
    path, kinds = _file(path), _kinds(columns, "int", "float", "str", "bool")
    return _count(path, _lines(path, lambda line: _no_object(line, kinds)), "lines")


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
        are = f"its {size:,} bytes are {records:,} records of {record_bytes:,} and {more:,} bytes more"
        do = f"write it again, or cut it to {size - more:,} bytes to read what is whole"
        raise ValueError(f"{path.name} ends inside a record: {are}; {do}")
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
    path, kinds = _file(path), _kinds(columns, "int", "float", "str", "bytes")
    try:
        rows = _query_rows(path, query, timeout_s, kinds)
        return _count(path, rows, do="correct them, or leave them out in the query")
    except (sqlite3.Error, sqlite3.Warning) as error:  # before Python 3.12 two statements are a warning
        why = str(error).rstrip(".")
    if "locked" in why:
        raise OSError(f"{path.name} is locked by another program that writes to it; wait, or read a copy of the file")
    raise ValueError(f"{path.name} cannot answer {query!r}: {why}; check the file and the query")


# -- one reader: each parser yields the place of a row, and what is wrong with it ------------------------------


def _count(path: Path, rows: Iterable[tuple[str, str]], what: str = "rows", do: str = _CORRECT) -> int:
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
    with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        csv_files.field_size_limit(sys.maxsize)  # in place of 128 kB: a photo in base64 is longer
        lines = csv_files.reader((read.append(line) or line for line in file), strict=True)
        try:
            head = next(lines, [])
            if not all(map(_is_utf8, head)):
                raise ValueError(f"{path.name}, line 1 is not UTF-8; save the file as UTF-8")
            _expect(list(kinds), head, f"{path.name} has", wanted)
            read.clear()
            for row in lines:
                wrong = f"{len(row)} fields in place of {len(kinds)}" if len(row) != len(kinds) else ""
                wrong = wrong or _misfit(dict(zip(kinds, map(_value, row, kinds.values()), strict=True)), kinds)
                wrong = wrong or (_EMPTY if "" in row else "" if _ROW.fullmatch("".join(read)) else _QUOTE)
                yield f"line {lines.line_num}", wrong
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
        for number, row in enumerate(answer, 1):
            values = dict(zip(names, row, strict=True))
            kinds = kinds or {name: type(value).__name__ for name, value in values.items()}
            yield f"row {number}", _misfit(values, kinds)


def _expect(columns: list[str], found: list[str], has: str, wanted: str) -> None:
    """Refuse other columns than those that are expected."""
    if found != columns:
        seen = f"the columns {', '.join(found)}" if found else "no columns"
        raise ValueError(f"{has} {seen}; expected: {wanted}")


def _file(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there, or no file")
    return path


def _kinds(columns: dict[str, type], *allowed: str) -> dict[str, str]:
    """Return the name of the type of each column, which must be one of those that are allowed."""
    given = {name: kind.__name__ if isinstance(kind, type) else repr(kind) for name, kind in columns.items()}
    return {name: one_of(f"the type of column {name}", kind, allowed) for name, kind in given.items()}


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


def _no_object(line: str, kinds: dict[str, str]) -> str:
    """Return what is wrong with a line of JSON, or nothing."""
    line, whole = line.strip(), "allowed: one whole object in each line"
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:  # a number of more digits than Python reads, a deep nesting
        if line.startswith("{") and not line.endswith(("}", ",")):
            return f"{line!r:.40} ends inside an object; {whole}"
        why = str(error).partition(";")[0]
        if isinstance(error, json.JSONDecodeError):
            why = f"{error.msg.removesuffix(' at')} at character {error.colno}"
        return f"{line!r:.40} is no JSON ({why}); {whole}"
    return _misfit(found, kinds) if isinstance(found, dict) else f"{line!r:.40} is no object; {whole}"


def _value(field: str, kind: str) -> str | int | float:
    """Return what a field of a CSV holds: a number where its form is that of one."""
    if kind == "str" or not _NUMBERS[kind].fullmatch(field):
        return field
    number = Decimal(field)  # since Python makes no int of thousands of digits
    return float(number) if kind == "float" else int(number) if -(2**63) <= number < 2**63 else field


def _misfit(values: dict[str, object], kinds: dict[str, str]) -> str:
    """Return which value is not of its kind, or nothing: of a row, an object or the answer to a query alike."""
    for name, kind in kinds.items():
        words, types = _KINDS.get(kind, ("no NULL", ()))
        if name not in values:
            return f"{name} is not there; allowed: {words}"
        value, most = values[name], _LARGEST.get(kind)
        fits = isinstance(value, types) and isinstance(value, bool) == (kind == "bool")
        fits = fits and (kind != "str" or _is_utf8(value))
        if not fits or (most and not -most - 1 <= value <= most):
            return f"{name} is {'NULL' if value is None else f'{value!r:.40}'}; allowed: {words}"
    return ""
