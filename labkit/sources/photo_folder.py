"""A folder of the reader's own photos: one folder per class, every file looked at before anything runs.

A photo that cannot be one is an error that names it, at load and not in the middle of a
measurement. Looking costs a read of the header and the last bytes.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

from labkit.common.file_formats import PHOTOS, other_format, photo_format
from labkit.common.progress import bar
from labkit.sources.photo_files import PhotoFile, generator

#: Files and folders that operating systems and tools leave; names with a leading dot are ignored, too.
_IGNORED = {"thumbs.db", "desktop.ini", "__macosx", "@eadir", "icon\r"}
#: Of so many files that are no photos the sentence is shown.
_SHOWN = 50
#: Segments that may stand before the data of an image (tables, frames, comments, the camera's), and bare markers.
_SCAN = 0xDA
_HEADER = {*range(0xC0, 0xD0), *range(_SCAN, 0xF0), 0xFE} - {0xC8}
_BARE = {0x00, 0x01, *range(0xD0, 0xD8)}


#: How a PNG file ends: a chunk of no bytes, its name, and its checksum.
_PNG_END = b"IEND\xaeB`\x82"


def scan(
    folder: Path, skip_bad: bool = False, progress: bool = True
) -> tuple[tuple[str, ...], list[PhotoFile], str | None]:
    """Return the classes (names of the folders, sorted), the photos, one of each class in turn, and what is left out.

    Parameters
    ----------
    folder : Path
    skip_bad : bool
        Leave out what is no photo, and say so in a sentence, which is None where nothing is left out.
    progress : bool
        Show a bar where it takes long.

    Raises
    ------
    FileNotFoundError, NotADirectoryError
        If the folder is missing or is a file.
    ValueError
        If it holds no class folder, a class folder holds no photo, or files are no whole photos: all are named.
    """
    if not folder.exists():
        raise FileNotFoundError(f"there is no folder {folder}; photos.load() without a name gives the lab's own photos")
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; name the folder that holds one folder of photos per class")
    inside = _visible(folder)
    classes = [path for path in inside if path.is_dir()]
    bad = []
    for path in inside:
        with contextlib.suppress(OSError):  # beside the classes, only a photo is in the wrong place
            if path.is_file() and photo_format(path.open("rb").read(8)):
                remedy = f"put each photo into one folder per class inside {folder}"
                bad.append(f"{shown(path)} lies outside a class: {remedy}")
    if not classes and not bad:
        state = "holds no folder of photos" if inside else "is empty"
        remedy = f"put each class into a folder of its own, {folder.name}/<class>/<photo>.jpg"
        raise ValueError(f"{folder} {state}: {remedy}")
    rows = []
    with bar(None, "checking photos", not progress, delay_s=2) as step:
        for label, place in enumerate(classes):
            files = _visible(place)
            if not files:
                raise ValueError(f"{shown(place)} is empty: a class needs at least one photo, JPEG or PNG")
            whole = []
            for path in files:
                try:
                    whole.append((path, _checked(path, folder)))
                except ValueError as error:
                    bad.append(str(error))
                step()
            if skip_bad and not whole:
                raise ValueError(f"{shown(place)} holds no whole photo, and a class needs at least one: {bad[-1]}")
            for rank, (path, size) in enumerate(whole):
                held_out = rank % generator.HELD_OUT_EVERY == generator.HELD_OUT_EVERY - 1
                rows.append(PhotoFile(path, label, rank, size, held_out))
    if bad and not skip_bad:
        more = [f"and {len(bad) - _SHOWN:,} more"] if len(bad) > _SHOWN else []
        without = "photos.load(…, skip_bad=True) goes on without"
        many = "\n  ".join([f"{len(bad):,} files are not photos ({without} them):", *bad[:_SHOWN], *more])
        raise ValueError(f"{bad[0]}; {without} it" if len(bad) == 1 else many)
    rows.sort(key=lambda row: (row.rank, row.label))
    left_out = f"left out, as no photos ({len(bad):,} in all): {bad[0]}" if bad else None
    return tuple(place.name for place in classes), rows, left_out


def shown(path: Path) -> str:
    """Return a path as a sentence may hold it: with escapes where a character cannot be printed."""
    return str(path) if str(path).isprintable() else repr(str(path))


def _visible(folder: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise ValueError(f"{shown(folder)} cannot be read: {error.strerror}") from error
    return [folder / name for name in names if not name.startswith(".") and name.lower() not in _IGNORED]


def _checked(path: Path, folder: Path) -> int:
    """Return the size of a photo's file in bytes."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ValueError(f"the name of {os.fsencode(path)!r} is not UTF-8: rename the file or its folder") from None
    try:
        if path.is_dir():
            layout = f"the layout is {folder.name}/<class>/<photo>.jpg; or load {path.parent} itself"
            raise ValueError(f"{shown(path)} is a folder within a class: {layout}")
        if path.exists() and not path.is_file():  # to open a pipe would take for ever
            raise ValueError(f"{shown(path)} is not a file")
        with open(path, "rb") as file:
            return _size(file, shown(path))
    except FileNotFoundError:
        raise ValueError(f"{shown(path)} is not a file: its link leads nowhere, or it was removed meanwhile") from None
    except OSError as error:
        raise ValueError(f"{shown(path)} cannot be read: {error.strerror}") from error


def _size(file: BinaryIO, name: str) -> int:
    size, start = os.fstat(file.fileno()).st_size, file.read(16)
    if not size:
        raise ValueError(f"{name} is an empty file")
    kind = photo_format(start)
    if kind is None:
        other = other_format(start)
        found = f"a {' '.join(other)}" if other else f"something else (it starts with {start[:8]!r})"
        raise ValueError(f"{name} is not a JPEG or PNG file but {found}: convert it or take it away")
    data, end = (_data(file, name), b"\xff\xd9") if kind == "JPEG" else (_png_data(file, name), _PNG_END)
    for begin in (max(data, size - 64), data):  # a camera may have written more behind the end marker
        file.seek(begin)
        if end in file.read():
            return size
    raise ValueError(f"{name} is cut short: it has no end-of-image marker")


def _png_data(file: BinaryIO, name: str) -> int:
    """Return the byte behind the header of a PNG file (PNG specification, 5.6 and 11.2.1), which must be whole."""
    file.seek(len(PHOTOS["PNG"]))
    header = file.read(25)  # length, "IHDR", 13 bytes, checksum
    if len(header) < 25:
        raise ValueError(f"{name} is cut short: it ends inside its header, before an end-of-image marker")
    if header[4:8] != b"IHDR" or struct.unpack(">I", header[21:])[0] != zlib.crc32(header[4:21]):
        raise ValueError(f"{name} is a damaged PNG file: its header does not agree with its checksum")
    if header[16:18] == b"\x10\0":
        ways = "which libraries turn into 8 bits each in its own way: store it with 8"
        raise ValueError(f"{name} is a grey PNG of 16 bits, {ways}")
    return file.tell()


def _data(file: BinaryIO, name: str) -> int:
    """Return the byte behind the header, where the data of the image begin.

    The end marker counts from there on: a camera's header holds a small picture with an end marker of its own.
    """
    file.seek(2)
    while True:
        byte = file.read(1)
        while byte not in (b"", b"\xff"):  # decoders pass over bytes that are no marker
            byte = file.read(1)
        while byte == b"\xff":
            byte = file.read(1)
        if not byte:
            raise ValueError(f"{name} is cut short: it ends inside its header, before an end-of-image marker")
        if byte[0] in _BARE:
            continue
        at, length = file.tell() - 2, int.from_bytes(file.read(2), "big")
        if byte[0] not in _HEADER or length < 2:
            raise ValueError(f"{name} is a damaged JPEG file: no segment of a header begins at byte {at}")
        file.seek(length - 2, os.SEEK_CUR)
        if byte[0] == _SCAN:
            return file.tell()
