"""The bytes of a TensorFlow profile (``*.xplane.pb``): planes, lines, and events as columns.

The file is a protobuf message, tsl/profiler/protobuf/xplane.proto. Names and lines are few and
read one by one; events are many and decoded by NumPy, one field of all of them at a time. Fields
without a use here, known or unknown, are skipped. What events mean is the matter of `labkit.xplane`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

# A tag is the field number times 8 plus the wire type: 0 a varint, 1 and 5 fixed 8 and 4 bytes, 2 a length and bytes.
_VARINT, _FIXED8, _BYTES, _FIXED4 = 0, 1, 2, 5


class Malformed(Exception):
    """The bytes are not the message that they should be."""


class Line(NamedTuple):
    """One thread or GPU stream; `at` holds the byte position of each of its events."""

    name: str
    timestamp_ns: int
    at: list[int]


class Plane(NamedTuple):
    """One part of the machine: its lines, the names of its events and stats by id, its own numeric stats by name."""

    name: str
    lines: list[Line]
    events: dict[int, str]
    stats: dict[int, str]
    values: dict[str, int]


class Events(NamedTuple):
    """Columns of the wanted events of a plane; ``all_…`` cover the unwanted ones, too.

    `line` and `name` are positions in the lines and in the ids given to `events`; `start_ps` and `end_ps`
    count picoseconds from the timestamp of the line; `at` is the byte position.
    """

    line: np.ndarray
    name: np.ndarray
    start_ps: np.ndarray
    end_ps: np.ndarray
    at: np.ndarray
    all_lines: np.ndarray
    all_names: np.ndarray


def planes(data: bytes) -> list[Plane]:
    """Return the planes of a file.

    Raises
    ------
    Malformed, IndexError
        If the bytes are no such message, or are cut off.
    """
    return [_plane(data, start, end) for tag, _, start, end in _fields(data, 0, len(data)) if tag == 0x0A]


def events(raw: np.ndarray, lines: list[Line], ids: np.ndarray, wanted: np.ndarray) -> Events:
    """Decode the events of `lines`, all at once; the unwanted ones go after their first field.

    Parameters
    ----------
    raw : ndarray of uint8
        The file.
    ids : ndarray of int64, shape (n,)
        Ids of event names, in rising order.
    wanted : ndarray of bool, shape (n + 1,)
        Which names to keep; the last entry stands for an id that is not in `ids`.

    Raises
    ------
    Malformed, IndexError
        If an event does not fit its line, or lasts less than 0 ps.
    """
    at = np.array([position for line in lines for position in line.at], np.int64)
    line = np.repeat(np.arange(len(lines)), [len(line.at) for line in lines])
    length, cursor = _varints(raw, at)
    end = cursor + length
    columns = {0x08: np.zeros(len(at), np.int64), 0x10: np.zeros(len(at), np.int64), 0x18: np.zeros(len(at), np.int64)}
    active, first = np.flatnonzero(cursor < end), True
    while len(active):
        tag, here = _varints(raw, cursor[active])
        value, after = np.zeros(len(active), np.int64), here.copy()
        counted = np.isin(tag & 7, (_VARINT, _BYTES))
        value[counted], after[counted] = _varints(raw, here[counted])
        skip = np.select([tag & 7 == _BYTES, tag & 7 == _FIXED8, tag & 7 == _FIXED4, counted], [value, 8, 4, 0], -1)
        after += skip
        if ((skip < 0) | (after < here) | (after > end[active]) | (tag < 8)).any():
            raise Malformed("an event holds a field that does not fit it")
        for field, column in columns.items():
            mask = tag == field
            column[active[mask]] = value[mask]
        cursor[active] = after
        unfinished = after < end[active]
        if first:
            unfinished &= (tag != 0x08) | wanted[_positions(ids, columns[0x08][active])]
            first = False
        active = active[unfinished]
    name = _positions(ids, columns[0x08])
    keep = np.flatnonzero(wanted[name])
    start_ps, duration_ps = columns[0x10][keep], columns[0x18][keep]
    if len(keep) and (duration_ps.min() < 0 or (start_ps + duration_ps < start_ps).any()):
        raise Malformed("an event lasts less than 0 ps, or for ever")
    return Events(line[keep], name[keep], start_ps, start_ps + duration_ps, at[keep], line, name)


def stats_of(data: bytes, at: int, names: dict[int, str]) -> dict[str, int | str]:
    """Return the stats of the event at byte `at` by name: whole numbers and text, others left out."""
    length, start = _varint(data, at)
    found = {}
    for tag, _, low, high in _fields(data, start, start + length):
        if tag == 0x22:
            key, value = _stat(data, low, high, names)
            if value is not None:
                found[key] = value
    return found


# -- messages, one by one ----------------------------------------------------------


def _plane(data: bytes, at: int, end: int) -> Plane:
    name, lines, event_names, stat_names, own = "", [], {}, {}, []
    for tag, _, start, after in _fields(data, at, end):
        if tag == 0x12:
            name = _text(data, start, after)
        elif tag == 0x1A:
            lines.append(_line(data, start, after))
        elif tag in (0x22, 0x2A):
            (event_names if tag == 0x22 else stat_names).update([_named(data, start, after)])
        elif tag == 0x32:
            own.append((start, after))
    stats = [_stat(data, start, after, stat_names) for start, after in own]
    return Plane(name, lines, event_names, stat_names, {k: v for k, v in stats if isinstance(v, int)})


def _line(data: bytes, at: int, end: int) -> Line:
    name, timestamp_ns, found = "", 0, []
    append = found.append
    while at < end:
        # An event of less than 128 bytes, as almost all are: this is the loop that counts.
        if data[at] == 0x22 and data[at + 1] < 0x80:
            append(at + 1)
            at += data[at + 1] + 2
            continue
        tag, value, start, after = next(_fields(data, at, end))
        if tag == 0x22:
            append(at + 1)
        elif tag == 0x12:
            name = _text(data, start, after)
        elif tag == 0x18:
            timestamp_ns = value
        at = after
    if at > end:
        raise Malformed(f"an event runs beyond its line, which ends at byte {end}")
    return Line(name, timestamp_ns, found)


def _named(data: bytes, at: int, end: int) -> tuple[int, str]:
    """Return one entry of a table of names: a map from an id to a message with the name in field 2."""
    key, name = 0, ""
    for tag, value, start, after in _fields(data, at, end):
        if tag == 0x08:
            key = value
        elif tag == 0x12:
            for inner, _, low, high in _fields(data, start, after):
                name = _text(data, low, high) if inner == 0x12 else name
    return key, name


def _stat(data: bytes, at: int, end: int, names: dict[int, str]) -> tuple[str, int | str | None]:
    """Return name and value of one stat; a reference stands for a text in the table of names."""
    key, found = 0, None
    for tag, value, start, after in _fields(data, at, end):
        if tag == 0x08:
            key = value
        elif tag in (0x18, 0x20):
            found = value
        elif tag == 0x2A:
            found = _text(data, start, after)
        elif tag == 0x38:
            found = names.get(value, "")
    return names.get(key, ""), found


# -- wire format -------------------------------------------------------------------


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (tag, value, start, end) of each field of a message: the value of a varint, the range of bytes."""
    while at < end:
        tag, at = _varint(data, at)
        value, start = 0, at
        if tag & 7 == _VARINT:
            value, at = _varint(data, at)
        elif tag & 7 == _BYTES:
            length, start = _varint(data, at)
            at = start + length
        elif tag & 7 in (_FIXED8, _FIXED4):
            at += 8 if tag & 7 == _FIXED8 else 4
        else:
            raise Malformed(f"there is no field at byte {start - 1}")
        if at > end or at < start or tag < 8:
            raise Malformed(f"the field at byte {start} does not fit into its message")
        yield tag, value, start, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at `at` as a signed number of 64 bits, and the position after it."""
    value, shift = data[at] & 0x7F, 7
    while data[at] & 0x80:
        at += 1
        value |= (data[at] & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise Malformed(f"the number before byte {at} is longer than 64 bits")
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value, at + 1


def _varints(raw: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Decode one varint at each position: the values (int64) and the positions after them."""
    byte = raw[at]
    value, after = (byte & 0x7F).astype(np.int64), at + 1
    more, shift = np.flatnonzero(byte & 0x80), 7
    while len(more):
        if shift > 63:
            raise Malformed("a number in an event is longer than 64 bits")
        byte = raw[after[more]]
        value[more] |= (byte & 0x7F).astype(np.int64) << shift
        after[more] += 1
        more, shift = more[byte >= 0x80], shift + 7
    return value, after


def _positions(ids: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the position of each value in the rising `ids`, or ``len(ids)`` where it is not there."""
    if not len(ids):
        return np.zeros(len(values), np.int64)
    position = np.minimum(np.searchsorted(ids, values), len(ids) - 1)
    return np.where(ids[position] == values, position, len(ids))


def _text(data: bytes, start: int, end: int) -> str:
    return data[start:end].decode("utf-8", "replace")
