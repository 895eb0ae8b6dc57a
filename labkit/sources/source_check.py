"""What a source will deliver, before a job reads it: the rows of a CSV, the records of a binary file, a query's rows.

TensorFlow stops at a bad row in the middle of an epoch, and its error names neither the file nor the line. These
functions read a source once, without TensorFlow, and refuse a bad one in one sentence before the training begins, so
that no row is left out in silence. They return the number of elements, to be compared with what arrives.
"""

from __future__ import annotations

import contextlib
import csv as csv_files
import os
import re
import sqlite3
from pathlib import Path
from urllib.parse import quote

from labkit.common.numbers import one_of, whole

#: What a field of a CSV may be: the words of an error, and what the whole field must match.
_FIELDS = {
    "int": ("a whole number", re.compile(r"\s*[+-]?\d+\s*", re.ASCII)),
    "float": ("a number", re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)),
    "str": ("a text that is not empty", re.compile(r".+", re.DOTALL)),
}


def csv(path: str | os.PathLike[str], /, **columns: type) -> int:
    """Return the number of rows of a CSV file whose first line names its columns.

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
    path, bad, rows = _file(path), [], 0
    kinds = {name: one_of(f"the type of column {name}", kind.__name__, _FIELDS) for name, kind in columns.items()}
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv_files.reader(file, strict=True)
        head = next(lines, [])
        if head != list(columns):
            found = f"the columns {', '.join(head)}" if head else "no columns"
            raise ValueError(f"{path.name} has {found}; expected: {', '.join(columns)}")
        try:
            for row in lines:
                rows += 1
                if fault := _fault(row, kinds):
                    bad.append(f"line {lines.line_num}: {fault}")
        except csv_files.Error as error:
            bad.append(f"line {lines.line_num}: {error}")
            rows += 1
    if bad:
        raise ValueError(
            f"{path.name}, {bad[0]} (bad rows: {len(bad):,} of {rows:,}); correct them before a job reads the file"
        )
    return rows


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


def sqlite(path: str | os.PathLike[str], query: str, timeout_s: float = 1) -> int:
    """Return the number of rows of a query of an SQLite database.

    Call it before a pipeline reads the database. `tf.data.experimental.SqlDataset` makes an empty database where there
    is none, and does not wait for a lock.

    Parameters
    ----------
    path : path
    query : str
        As for the dataset.
    timeout_s : float
        Seconds to wait for another program that writes.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    OSError
        If another program has locked it for so long.
    ValueError
        If it is no database, or the query does not fit it.
    """
    path = _file(path)
    place = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(place, timeout_s, uri=True)) as database:
            (rows,) = database.execute(f"select count(*) from ({query})").fetchone()
    except sqlite3.Error as error:
        if "locked" in str(error):
            words = (
                f"{path.name} is locked by another program that writes to it; wait for it, or read a copy of the file"
            )
            raise OSError(words) from None
        raise ValueError(f"{path.name} cannot answer {query!r}: {error}; check the file and the query") from None
    return rows


def _file(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there, or no file")
    return path


def _fault(row: list[str], kinds: dict[str, str]) -> str:
    """Return what is wrong with a row of a CSV, or nothing."""
    if len(row) != len(kinds):
        return f"{len(row)} fields in place of {len(kinds)}"
    for (name, kind), field in zip(kinds.items(), row, strict=True):
        words, form = _FIELDS[kind]
        if not form.fullmatch(field) or (kind == "int" and not -(2**63) <= int(field) < 2**63):
            return f"{name} is {field!r:.40}; allowed: {words}"
    return ""
