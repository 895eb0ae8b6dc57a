"""Photos packed into TFRecord shards: written aside, resumable, counted, checked.

One folder holds one packing: ``photos-00000-of-00008.tfrecord`` and so on, and ``shards.json``, which says
what the shards were made of and, for each finished one, its records, bytes and SHA-256. A shard without its
entry, or unlike it, is written again. A TFRecord file does not know how many records it should have: the
count in ``shards.json`` is the only way to notice that its end is lost.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from labkit.common.errors import error_text
from labkit.common.files import aside, expanded, write_aside
from labkit.common.numbers import number, one_of, whole
from labkit.common.progress import bar
from labkit.sources import framing
from labkit.sources.photo_files import explained, require_space
from labkit.sources.photos import Photos

MANIFEST = "shards.json"
#: What ``compression`` may be, and the end of the file names. TensorFlow's file readers know no other.
COMPRESSIONS = {"": ".tfrecord", "GZIP": ".tfrecord.gz", "ZLIB": ".tfrecord.zlib"}
#: What ``form`` may be: the bytes of the JPEG file, or its decoded uint8 pixels.
FORMS = ("jpeg", "raw")
#: A serialized ``tf.Example``; see `labkit.sources.framing.example`.
example = framing.example
_FORMAT = "labkit shards 1"
#: What ``shards.json`` says of each shard.
_ENTRY = {"records": int, "bytes": int, "sha256": str}


@dataclass(frozen=True)
class Shards:
    """TFRecord files that together hold one set, in its order, and what each should hold.

    Parameters
    ----------
    name : str
        Of the photos inside.
    paths : tuple of str
        Ready for ``tf.data.TFRecordDataset(shards.paths, shards.compression)``.
    counts, sizes : tuple of int
        Records and bytes on disk of each shard.
    compression : str
        ``""``, ``"GZIP"`` or ``"ZLIB"``.
    form : str
        ``"jpeg"`` or ``"raw"``.
    digests : tuple of str
        The SHA-256 of each shard in hex.
    """

    name: str
    paths: tuple[str, ...]
    counts: tuple[int, ...]
    sizes: tuple[int, ...]
    compression: str
    form: str
    digests: tuple[str, ...]

    @property
    def count(self) -> int:
        """Records in all shards: what a reader must get in one epoch."""
        return sum(self.counts)

    @property
    def bytes(self) -> int:
        """Bytes on disk of all shards."""
        return sum(self.sizes)

    def __len__(self) -> int:
        """Return the number of shards."""
        return len(self.paths)

    def __repr__(self) -> str:
        """Return what the shards hold, the same on every machine that has the same photos."""
        size = f"{self.bytes / 1e6:,.1f} MB{' ' + self.compression if self.compression else ''}"
        return f"Shards({self.name}, {self.form}, {self.count:,} records in {len(self):,} shards, {size})"


class ShardPlan(NamedTuple):
    """How many shards to write, and the bytes of each."""

    shards: int
    shard_bytes: int


def write(
    photos: Photos, folder: str | os.PathLike[str], shards: int = 8, compression: str = "",
    progress: bool | Callable[[int, int], None] | None = None, *, form: str = "jpeg",
) -> Shards:  # fmt: skip
    """Write photos into TFRecord shards, one ``tf.Example`` a photo, in the order of `photos`.

    A shard is written aside and renamed when it is whole. Ctrl-C, a kill or a full disk leave finished
    shards only; the same call again checks them by size and SHA-256, keeps them and writes the others.

    Parameters
    ----------
    photos : Photos
    folder : path
        Holds one packing; made if missing.
    shards : int
        From 1 to the number of photos. Sizes differ by one photo at most.
    compression : {"", "GZIP", "ZLIB"}
    progress : bool or callable, optional
        True shows a bar; a function is called with (photos done, photos in all) after each photo.
    form : {"jpeg", "raw"}
        ``jpeg`` stores the file as it is, see `parse`; ``raw`` stores the decoded uint8 pixels, see `parse_raw`.

    Raises
    ------
    ValueError
        For an impossible setting, if there is no photo, if `folder` holds shards of other photos or settings, or if a
        photo is not decoded.
    OSError
        If a photo is missing or the disk is full: one sentence.
    """
    place = expanded("folder", folder).absolute()
    if not len(photos):
        raise ValueError(f"{photos.name} holds no photo; allowed: one or more")
    shards = whole("shards", shards, 1, len(photos), other=f"for the {len(photos):,} photos of {photos.name}")
    one_of("compression", compression, COMPRESSIONS)
    one_of("form", form, FORMS)
    settings = {"format": _FORMAT, "name": photos.name, "photos": len(photos), "inputs": _fingerprint(photos)}
    settings |= {"form": form, "compression": compression, "of": shards}
    known = _kept(place, settings)
    cuts = np.linspace(0, len(photos), shards + 1).astype(int)
    todo = [i for i in range(shards) if _file(i, settings) not in known]
    done = len(photos) - sum(cuts[i + 1] - cuts[i] for i in todo)
    needed = sum(int(photos.sizes[cuts[i] : cuts[i + 1]].sum()) for i in todo)
    # Before compression; decoded photos are taken as seven times their files.
    require_space(place, needed * (7 if form == "raw" else 1), "writing shards")
    try:
        place.mkdir(parents=True, exist_ok=True)
        for leftover in place.glob(".photos-*.part"):  # what killed processes left half written
            if not psutil.pid_exists(int(leftover.name.split(".")[-2].partition("-")[0])):
                leftover.unlink(missing_ok=True)
        with bar(len(photos), "photos", progress is not True) as step:
            step(done)
            for i in todo:
                name = _file(i, settings)
                with aside(place / name) as part, _packer(part, compression) as put:
                    for example in _examples(photos, range(cuts[i], cuts[i + 1]), form):
                        put(framing.frame(example))
                        done += 1
                        step()
                        if callable(progress):
                            progress(done, len(photos))
                known[name] = {"records": int(cuts[i + 1] - cuts[i]), **identity(place / name)}
                write_aside(place / MANIFEST, json.dumps({**settings, "shards": known}, indent=1))
    except OSError as error:
        raise explained(error, place) from error
    return load(place)


def load(folder: str | os.PathLike[str]) -> Shards:
    """Return the shards that `write` finished in `folder`; nothing is read but ``shards.json``.

    Raises
    ------
    FileNotFoundError
        If there are none.
    ValueError
        If ``shards.json`` is not one of labkit, or shards are still missing.
    """
    place = expanded("folder", folder).absolute()
    found = _manifest(place)
    if found is None:
        raise FileNotFoundError(f"{place} holds no {MANIFEST}: labkit.records.write makes it")
    names = [_file(i, found) for i in range(found["of"])]
    entries = [found["shards"][name] for name in names if name in found["shards"]]
    if len(entries) < len(names):
        have = f"{len(entries)} of {len(names)} shards"
        raise ValueError(f"{place} has {have}: call labkit.records.write again to go on")
    paths = tuple(str(place / name) for name in names)
    counts, sizes, digests = (tuple(entry[key] for entry in entries) for key in _ENTRY)
    return Shards(found["name"], paths, counts, sizes, found["compression"], found["form"], digests)


def parse(serialized: Any) -> tuple[Any, Any]:
    """Return ``(JPEG bytes, label int64)`` of a serialized record, or of a batch of them, shape (n,)."""
    import tensorflow as tf

    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_example(serialized, features)
    return example["image"], example["label"]


def parse_raw(serialized: Any) -> tuple[Any, Any]:
    """Return ``(uint8 pixels of shape (height, width, 3), label int64)`` of one serialized raw record."""
    import tensorflow as tf

    whole = tf.io.FixedLenFeature([], tf.int64)
    features = {"image": tf.io.FixedLenFeature([], tf.string), "height": whole, "width": whole, "label": whole}
    example = tf.io.parse_single_example(serialized, features)
    pixels = tf.io.decode_raw(example["image"], tf.uint8)
    return tf.reshape(pixels, tf.stack([example["height"], example["width"], 3])), example["label"]


def plan(total_bytes: float, servers: int = 1) -> ShardPlan:
    """Return the shards that the rule of thumb asks for: ten for each reading server, 10 MB each or more.

    Ten shards a server let each server read several files at once and share them out evenly; a shard of
    10 MB, better 100 MB, is long enough to read in one go. Where the two disagree, size wins: a small shard
    pays an open for little, while a server needs no more than one shard to have work.

    Parameters
    ----------
    total_bytes : number
        Of all records.
    servers : int
        That read at the same time.

    Raises
    ------
    ValueError
        If one of them is not positive.

    Notes
    -----
    Rule and example (30 GB and 8 servers: 80 shards of 375 MB) from a course's lecture on TFRecords;
    which half gives way is this function's choice.
    """
    total_bytes = number("total_bytes", total_bytes, above=0, unit="of bytes")
    servers = whole("servers", servers, 1)
    shards = min(max(int(total_bytes // 10e6), servers), 10 * servers)
    return ShardPlan(shards, round(total_bytes / shards))


def _fingerprint(photos: Photos) -> str:
    """Return a SHA-256 of the names, sizes and labels: the same wherever the photos' folder lies."""
    rows = zip(photos.paths, photos.sizes.tolist(), photos.labels.tolist(), strict=True)
    lines = (f"{'/'.join(Path(path).parts[-2:])}\t{size}\t{label}\n" for path, size, label in rows)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _manifest(place: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((place / MANIFEST).read_text("utf-8"))
        good = found["format"] == _FORMAT and type(found["of"]) is int and found["of"] > 0
        good &= found["compression"] in COMPRESSIONS and found["form"] in FORMS
        good &= all(type(entry[key]) is kind for entry in found["shards"].values() for key, kind in _ENTRY.items())
        if good and {"name", "inputs", "photos"} <= set(found):
            return found
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise NotADirectoryError(f"{place} is a file; allowed: a folder") from None
    except (ValueError, KeyError, TypeError, AttributeError, IsADirectoryError):
        pass
    raise ValueError(f"{place / MANIFEST} is not of labkit ({_FORMAT}): move that folder away or choose another")


def _kept(place: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of finished shards that are as they should be; refuse those of another packing."""
    if (found := _manifest(place)) is None:
        return {}
    if differs := [key for key in settings if found[key] != settings[key]]:
        said = (f"{key} {found[key]!r}, not {settings[key]!r}" if key != "inputs" else "other files" for key in differs)
        packing = f"shards of another packing ({', '.join(said)})"
        raise ValueError(f"{place} holds {packing}: delete that folder or choose another")
    good, bad = {}, []
    for name, entry in found["shards"].items():
        path = place / name
        if path.is_file() and identity(path) == {key: entry[key] for key in ("bytes", "sha256")}:
            good[name] = entry
        elif path.exists():
            bad.append(name)
    if bad:
        warnings.warn(f"written again, because not as their checksums say: {', '.join(bad)}", stacklevel=3)
    return good


def identity(path: Path) -> dict[str, Any]:
    """Return the ``bytes`` of a file, and their ``sha256`` in hex."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            size += len(block)
    return {"bytes": size, "sha256": digest.hexdigest()}


def _file(index: int, settings: dict[str, Any]) -> str:
    return f"photos-{index:05d}-of-{settings['of']:05d}{COMPRESSIONS[settings['compression']]}"


def _examples(photos: Photos, rows: range, form: str) -> Iterator[bytes]:
    for row in rows:
        image, label = Path(photos.paths[row]).read_bytes(), int(photos.labels[row])
        if form == "jpeg":
            yield framing.example({"image": image, "label": label})
            continue
        import tensorflow as tf

        try:
            pixels = tf.io.decode_jpeg(image, channels=3, dct_method="INTEGER_ACCURATE").numpy()
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(f"{photos.paths[row]} cannot be decoded: {error_text(error)}") from None
        height, width, _ = pixels.shape
        yield framing.example({"image": pixels.tobytes(), "height": height, "width": width, "label": label})


@contextlib.contextmanager
def _packer(path: Path, compression: str) -> Iterator[Callable[[bytes], Any]]:
    """Give a function that writes bytes, compressed as TensorFlow does it: without a name and a time inside."""
    with open(path, "wb") as file:
        pack = zlib.compressobj(wbits=31 if compression == "GZIP" else 15)
        yield (lambda data: file.write(pack.compress(data))) if compression else file.write
        if compression:
            file.write(pack.flush())
