"""Damaged TFRecord shards: find what is wrong and where, save what is whole, and plant damage for a lesson.

TensorFlow reads a file up to its first bad record. Its error names neither file nor record, and it does not
notice some losses: a file that ends early between two records looks like a shorter file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from labkit.common.errors import error_text as error_text
from labkit.common.files import expanded, write_aside
from labkit.common.numbers import one_of, whole
from labkit.sources import framing
from labkit.sources.records import Shards, identity

#: The damage that `plant` knows, and what it does to a shard.
KINDS = {
    "flip": "one bit of a record's payload is flipped",
    "cut": "the file ends inside a record's payload",
    "cut between": "the file ends before a record, after the one before it",
    "tail": "three bytes are added at the end",
    "empty": "the file has no bytes",
}


class Damage(NamedTuple):
    """What is wrong, and where: file name, record (from 0) and byte, counted in the unpacked file."""

    shard: str
    record: int
    byte: int
    what: str

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.shard}, record {self.record:,}, byte {self.byte:,}: {self.what}"


@dataclass(frozen=True)
class DamageReport:
    """What `find` found.

    Parameters
    ----------
    faults : tuple of Damage
    whole : int
        Records that are whole, those behind a damaged one included.
    expected : int
        Records that should be there.
    """

    faults: tuple[Damage, ...]
    whole: int
    expected: int

    @property
    def lost(self) -> int:
        """Records that are not whole or not there."""
        return self.expected - self.whole

    def __repr__(self) -> str:
        """Return the count, then a line for each fault."""
        head = f"{self.whole:,} of {self.expected:,} records are whole"
        return "\n".join([head, *(f"  {fault}" for fault in self.faults)])


def find(shards: Shards) -> DamageReport:
    """Read every byte of shards, without TensorFlow, and report what is damaged and where.

    They know their counts and checksums, so that records missing at the end are found, too, and whole ones of another
    file.
    """
    faults, whole = [], 0
    for path, count, digest in zip(map(Path, shards.paths), shards.counts, shards.digests, strict=True):
        seen, marked = 0, len(faults)
        try:
            for record in framing.scan(path, shards.compression):
                if record.fault:
                    faults.append(Damage(path.name, record.index, record.byte, record.fault))
                seen += not record.fault
        except OSError as error:
            faults.append(Damage(path.name, 0, 0, f"the file cannot be read ({error.strerror})"))
        if seen != count and len(faults) == marked:
            size = path.stat().st_size
            faults.append(Damage(path.name, seen, size, f"ends after {seen:,} whole records; {count:,} were written"))
        elif len(faults) == marked and identity(path)["sha256"] != digest:
            words = "whole, but not the file that was written: its SHA-256 is another one"
            faults.append(Damage(path.name, 0, 0, words))
        whole += seen
    return DamageReport(tuple(faults), whole, shards.count)


def rescue(shards: Shards) -> Iterator[bytes]:
    """Yield the payload of every whole record, those behind a damaged one included.

    Slower than TensorFlow's reader, and what is lost is lost in silence: for use after `find`.
    """
    for path in filter(os.path.isfile, shards.paths):
        yield from (record.payload for record in framing.scan(path, shards.compression) if not record.fault)


def plant(
    shards: Shards, kind: str, folder: str | os.PathLike[str], *, shard: int | None = None, record: int | None = None
) -> Shards:
    """Copy shards to `folder`, damage one of the copies on purpose, and return the copies.

    Parameters
    ----------
    shards : Shards
        Whole ones, which are not compressed; they stay as they are.
    kind : str
        One of `KINDS`.
    folder : path
        Not the one they are in.
    shard, record : int, optional
        Where; else in the middle.

    Raises
    ------
    ValueError
        For an unknown kind or place, or compressed shards.
    """
    one_of("kind", kind, KINDS)
    if shards.compression:
        raise ValueError(f"the shards are compressed ({shards.compression}); allowed: shards whose records can be seen")
    shard = whole("shard", len(shards) // 2 if shard is None else shard, 0, len(shards) - 1)
    count = shards.counts[shard]
    record = whole("record", count // 2 if record is None else record, 0, count - 1)
    target = expanded("folder", folder).absolute()
    if target == Path(shards.paths[0]).parent:
        raise ValueError(f"folder is {target}, where the whole shards are; name another one")
    target.mkdir(parents=True, exist_ok=True)
    paths = tuple(str(target / Path(path).name) for path in shards.paths)
    for path, copy in zip(shards.paths, paths, strict=True):
        shutil.copyfile(path, copy)
    found = next(entry for entry in framing.scan(paths[shard]) if entry.index == record)
    data, middle = bytearray(Path(paths[shard]).read_bytes()), found.byte + framing.HEAD + len(found.payload) // 2
    if kind == "flip":
        data[middle] ^= 1
    elif kind == "tail":
        data += b"abc"
    else:
        del data[{"cut": middle, "cut between": found.byte, "empty": 0}[kind] :]
    write_aside(paths[shard], bytes(data))
    return replace(shards, paths=paths)
