"""The bytes of a TensorFlow profile (``*.xplane.pb``): planes, lines, and events as columns.

The file is a protobuf message, tsl/profiler/protobuf/xplane.proto. Names and lines are few and
read one by one; events are many and decoded by NumPy, one field of all of them at a time. Fields
without a use here, known or unknown, are skipped. What events mean is the matter of `labkit.recording.tfdata.xplane`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

# A tag is the field number times 8 plus the wire type: 0 a varint, 1 and 5 fixed 8 and 4 bytes, 2 a length and bytes.
_VARINT, _FIXED8, _BYTES, _FIXED4 = 0, 1, 2, 5
_FIXED_SIZE = np.array([0, 8, 0, -1, -1, 4, -1, -1])


class Malformed(Exception):
    """The bytes are not the message that they should be."""


class EventLine(NamedTuple):
    """One thread or GPU stream; `at` and `end` are the byte positions around the body of each of its events."""

    name: str
    timestamp_ns: int
    at: np.ndarray
    end: np.ndarray


class Plane(NamedTuple):
    """One part of the machine: its lines, the names of its events and stats by id, its own numeric stats by name."""

    name: str
    lines: list[EventLine]
    events: dict[int, str]
    stats: dict[int, str]
    values: dict[str, int]


class Events(NamedTuple):
    """Columns of the wanted events of a plane; ``all_…`` cover the unwanted ones, too.

    `line` and `name` are positions in the lines and in the ids given to `events`; `start_ps` and `end_ps`
    count picoseconds from the timestamp of the line; `at` and `end` are byte positions.
    """

    line: np.ndarray
    name: np.ndarray
    start_ps: np.ndarray
    end_ps: np.ndarray
    at: np.ndarray
    end: np.ndarray
    all_lines: np.ndarray
    all_names: np.ndarray


def planes(data: bytes) -> list[Plane]:
    """Return the planes of a file.

    Raises
    ------
    Malformed, IndexError
        If the bytes are no such message, or are cut off.
    """
    return [_plane(data, start, end) for tag, _, start, end in fields(data, 0, len(data)) if tag == 0x0A]


def events(raw: np.ndarray, lines: list[EventLine], ids: np.ndarray, wanted: np.ndarray) -> Events:
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
    at, end = (np.concatenate([np.zeros(0, np.int64), *(line[i] for line in lines)]) for i in (2, 3))
    line = np.repeat(np.arange(len(lines)), [len(line.at) for line in lines])
    cursor, ident, start_ps, duration_ps = at.copy(), *np.zeros((3, len(at)), np.int64)
    # TensorFlow writes the id first; an event that begins otherwise keeps its place for the loop below.
    active = np.flatnonzero(cursor < end)
    active = active[raw[cursor[active]] == 0x08]
    ident[active], cursor[active] = _varints(raw, cursor[active] + 1)
    name = _positions(ids, ident)
    dropped = np.zeros(len(at), bool)
    dropped[active] = ~wanted[name[active]]
    active = np.flatnonzero((cursor < end) & ~dropped)
    while len(active):
        tag, here = _varints(raw, cursor[active])
        encoding = tag & 7
        if encoding.any():
            value, after = np.zeros(len(active), np.int64), here + _FIXED_SIZE[encoding]
            counted = np.flatnonzero((encoding == _VARINT) | (encoding == _BYTES))
            value[counted], after[counted] = _varints(raw, here[counted])
            length = np.where(encoding == _BYTES, value, 0)
            after += length
            if ((length < 0) | (_FIXED_SIZE[encoding] < 0)).any():
                raise Malformed("an event holds a field that does not fit it")
        else:
            value, after = _varints(raw, here)
        if (after > end[active]).any() or tag.min() < 8:
            raise Malformed("an event holds a field that does not fit it")
        for field, column in ((0x08, ident), (0x10, start_ps), (0x18, duration_ps)):
            mask = np.flatnonzero(tag == field)
            column[active[mask]] = value[mask]
        cursor[active] = after
        active = active[after < end[active]]
    name = _positions(ids, ident)
    keep = np.flatnonzero(wanted[name] & ~dropped)
    start_ps, duration_ps = start_ps[keep], duration_ps[keep]
    if len(keep) and (duration_ps.min() < 0 or (start_ps + duration_ps < start_ps).any()):
        raise Malformed("an event lasts less than 0 ps, or for ever")
    return Events(line[keep], name[keep], start_ps, start_ps + duration_ps, at[keep], end[keep], line, name)


def stats_of(data: bytes, at: int, end: int, names: dict[int, str]) -> dict[str, int | str]:
    """Return the stats of the event between two bytes, by name: whole numbers and text, others left out."""
    found = {}
    for tag, _, low, high in fields(data, at, end):
        if tag == 0x22:
            key, value = _stat(data, low, high, names)
            if value is not None:
                found[key] = value
    return found


# -- messages, one by one ----------------------------------------------------------


def _plane(data: bytes, at: int, end: int) -> Plane:
    name, lines, event_names, stat_names, own = "", [], {}, {}, []
    for tag, _, start, after in fields(data, at, end):
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


def _line(data: bytes, at: int, end: int) -> EventLine:
    """Return one line. Only the lengths of events, which separate them, are read one by one."""
    name, timestamp_ns, starts, ends = "", 0, [], []
    while at < end:
        # Almost all events are shorter than 128 bytes and follow each other: this is the loop that counts.
        begin, lengths = at, bytearray()
        append = lengths.append
        while at < end and data[at] == 0x22 and (length := data[at + 1]) < 0x80:
            append(length)
            at += length + 2
        if lengths:
            sizes = np.frombuffer(lengths, np.uint8).astype(np.int64)
            ends.append(begin + np.cumsum(sizes + 2))
            starts.append(ends[-1] - sizes)
            continue
        tag, value, start, at = next(fields(data, at, end))
        if tag == 0x22:
            starts.append(np.array([start]))
            ends.append(np.array([at]))
        elif tag == 0x12:
            name = _text(data, start, at)
        elif tag == 0x18:
            timestamp_ns = value
    if at > end:
        raise Malformed(f"an event runs beyond its line, which ends at byte {end}")
    return EventLine(name, timestamp_ns, *(np.concatenate([np.zeros(0, np.int64), *x]) for x in (starts, ends)))


def _named(data: bytes, at: int, end: int) -> tuple[int, str]:
    """Return one entry of a table of names: a map from an id to a message with the name in field 2."""
    key, name = 0, ""
    for tag, value, start, after in fields(data, at, end):
        if tag == 0x08:
            key = value
        elif tag == 0x12:
            for inner, _, low, high in fields(data, start, after):
                name = _text(data, low, high) if inner == 0x12 else name
    return key, name


def _stat(data: bytes, at: int, end: int, names: dict[int, str]) -> tuple[str, int | str | None]:
    """Return name and value of one stat; a reference stands for a text in the table of names."""
    key, found = 0, None
    for tag, value, start, after in fields(data, at, end):
        if tag == 0x08:
            key = value
        elif tag in (0x18, 0x20):
            found = value
        elif tag == 0x2A:
            found = _text(data, start, after)
        elif tag == 0x38:
            found = names.get(value, "")
    return names.get(key, ""), found


# -- fields and numbers -------------------------------------------------------------


def fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
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
