"""The bytes of a TensorFlow profile (``*.xplane.pb``): planes, lines, and events as columns.

The file is a protobuf message, tsl/profiler/protobuf/xplane.proto. Protobuf reads its planes, lines and names. Events
are many: protobuf hands over their bytes, and NumPy decodes one field of all of them at a time. Fields without
a use here, known or unknown, are skipped. What events mean is the matter of `labkit.recording.tfdata.xplane`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from labkit.sources.message_classes import message_classes

#: The fields that are read: their numbers and types, "*" for those that come many times. Text stays bytes, since it may
#: be damaged. Both kinds of whole numbers in a stat are read with a sign, so that an id is the same number in either.
_FIELDS = {
    "Space": {"planes": (1, "Plane*")},
    "Plane": {"name": (2, "bytes"), "lines": (3, "Line*"), "events": (4, "Named*"), "stats": (5, "Named*"),
              "own": (6, "Stat*")},
    "Line": {"name": (2, "bytes"), "timestamp_ns": (3, "int64"), "events": (4, "bytes*")},
    "Named": {"id": (1, "int64"), "entry": (2, "Entry")},
    "Entry": {"name": (2, "bytes")},
    "Event": {"stats": (4, "Stat*")},
    "Stat": {"id": (1, "int64"), "unsigned": (3, "int64"), "signed": (4, "int64"), "text": (5, "bytes"),
             "reference": (7, "int64")},
}  # fmt: skip

# The wire type is the last three bits of a tag: 0 a varint, 1 and 5 fixed 8 and 4 bytes, 2 a length and bytes.
_VARINT, _BYTES = 0, 2
_FIXED_SIZE = np.array([0, 8, 0, -1, -1, 4, -1, -1])


class Malformed(Exception):
    """The bytes are not the message that they should be."""


class EventLine(NamedTuple):
    """One thread or GPU stream; `data` holds its events without a gap, `sizes` their lengths in bytes."""

    name: str
    timestamp_ns: int
    data: bytes
    sizes: np.ndarray


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
    count picoseconds from the timestamp of the line; `at` and `end` are byte positions in `data`.
    """

    line: np.ndarray
    name: np.ndarray
    start_ps: np.ndarray
    end_ps: np.ndarray
    at: np.ndarray
    end: np.ndarray
    all_lines: np.ndarray
    all_names: np.ndarray
    data: bytes

    def stats(self, row: int, names: dict[int, str]) -> dict[str, int | str]:
        """Return the stats of one event by name: whole numbers and text, others left out."""
        return _stats(_parse("Event", self.data[self.at[row] : self.end[row]]).stats, names)


def planes(data: bytes) -> list[Plane]:
    """Return the planes of a file.

    Raises
    ------
    Malformed
        If the bytes are no such message, or are cut off.
    """
    found = []
    for plane in _parse("Space", data).planes:
        lines = []
        for line in plane.lines:
            events = line.events[:]
            sizes = np.fromiter(map(len, events), np.int64, len(events))
            lines.append(EventLine(_text(line.name), line.timestamp_ns, b"".join(events), sizes))
        events, stats = ({one.id: _text(one.entry.name) for one in table} for table in (plane.events, plane.stats))
        values = {name: value for name, value in _stats(plane.own, stats).items() if isinstance(value, int)}
        found.append(Plane(_text(plane.name), lines, events, stats, values))
    return found


def events(lines: list[EventLine], ids: np.ndarray, wanted: np.ndarray) -> Events:
    """Decode the events of `lines`, all at once; the unwanted ones go after their first field.

    Parameters
    ----------
    lines : list of EventLine
    ids : ndarray of int64, shape (n,)
        Ids of event names, in rising order.
    wanted : ndarray of bool, shape (n + 1,)
        Which names to keep; the last entry stands for an id that is not in `ids`.

    Raises
    ------
    Malformed, IndexError
        If an event does not fit its line, or lasts less than 0 ps.
    """
    data = b"".join(line.data for line in lines)
    raw, sizes = np.frombuffer(data, np.uint8), np.concatenate([np.zeros(0, np.int64), *(one.sizes for one in lines)])
    end = np.cumsum(sizes)
    at = end - sizes
    line = np.repeat(np.arange(len(lines)), [len(one.sizes) for one in lines])
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
    return Events(line[keep], name[keep], start_ps, start_ps + duration_ps, at[keep], end[keep], line, name, data)


@lru_cache(maxsize=1)
def _messages() -> dict[str, Any]:
    """Return protobuf's class for each message in `_FIELDS`."""
    return message_classes(_FIELDS)


def _parse(message: str, data: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return _messages()[message].FromString(data)
    except DecodeError as error:
        raise Malformed(str(error)) from None


def _stats(stats: Iterable[Any], names: dict[int, str]) -> dict[str, int | str]:
    """Return the values of stats by name; a reference stands for a text in the table of names."""
    found = {}
    for stat in stats:
        given = {field.name: value for field, value in stat.ListFields()}
        name = names.get(given.pop("id", 0), "")
        for kind, value in given.items():
            found[name] = names.get(value, "") if kind == "reference" else _text(value) if kind == "text" else value
    return found


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


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
