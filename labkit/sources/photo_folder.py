"""A folder of the reader's own photos: one folder per class, every file looked at before anything runs.

A photo that cannot be one is an error that names it, at load and not in the middle of a
measurement. Looking costs a read of the first and the last bytes.
"""

from __future__ import annotations

import os
from pathlib import Path

from labkit.sources.photo_files import PhotoFile, bar, generator

#: Files and folders that operating systems and tools leave; names with a leading dot are ignored, too.
_IGNORED = {"thumbs.db", "desktop.ini", "__macosx", "@eadir", "icon\r"}
_KINDS = (
    (b"\x89PNG", "a PNG image"),
    (b"GIF8", "a GIF image"),
    (b"RIFF", "a WebP image or another RIFF file"),
    (b"BM", "a BMP image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"%PDF", "a PDF document"),
)


def scan(folder: Path, progress: bool = True) -> tuple[tuple[str, ...], list[PhotoFile]]:
    """Return the classes (names of the folders, sorted) and the photos, one of each class in turn.

    Raises
    ------
    FileNotFoundError, NotADirectoryError
        If the folder is missing or is a file.
    ValueError
        If it holds no class folder, a class folder holds no photo, or a file is not a whole JPEG.
    """
    if not folder.exists():
        raise FileNotFoundError(f"there is no folder {folder}; photos.load() without a name gives the lab's own photos")
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; name the folder that holds one folder of JPEGs per class")
    inside = _visible(folder)
    classes = [path for path in inside if path.is_dir()]
    loose = [path for path in inside if path.is_file() and _starts(path).startswith(b"\xff\xd8\xff")]
    if loose:
        raise ValueError(f"{loose[0]} lies outside a class: put each JPEG into one folder per class inside {folder}")
    if not classes:
        state = "holds no folder of JPEGs" if inside else "is empty"
        raise ValueError(
            f"{folder} {state}: put each class into a folder of its own, {folder.name}/<class>/<photo>.jpg"
        )
    rows = []
    with bar(0, "checking photos", progress, delay_s=2) as shown:
        for label, place in enumerate(classes):
            files = _visible(place)
            if not files:
                raise ValueError(f"{place} is empty: a class needs at least one JPEG")
            for rank, path in enumerate(files):
                held_out = rank % generator.HELD_OUT_EVERY == generator.HELD_OUT_EVERY - 1
                rows.append(PhotoFile(path, label, rank, _checked(path, folder), held_out))
                shown.update()
    rows.sort(key=lambda row: (row.rank, row.label))
    return tuple(place.name for place in classes), rows


def _visible(folder: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise ValueError(f"{folder} cannot be read: {error.strerror}") from error
    return [folder / name for name in names if not name.startswith(".") and name.lower() not in _IGNORED]


def _checked(path: Path, folder: Path) -> int:
    """Return the size of a JPEG file in bytes."""
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the name of {os.fsencode(path)!r} is not UTF-8: rename the file") from None
    if path.is_dir():
        layout = f"{folder.name}/<class>/<photo>.jpg"
        raise ValueError(f"{path} is a folder within a class: the layout is {layout}; or load {path.parent} itself")
    if not path.is_file():
        raise ValueError(f"{path} is not a file" + (": its link leads nowhere" if path.is_symlink() else ""))
    size, start = path.stat().st_size, _starts(path)
    if not size:
        raise ValueError(f"{path} is an empty file")
    if not start.startswith(b"\xff\xd8\xff"):
        unknown = f"something else (it starts with {start[:8]!r})"
        kind = next((kind for magic, kind in _KINDS if start.startswith(magic)), unknown)
        raise ValueError(f"{path} is not a JPEG file but {kind}: convert it or take it away")
    if not _ends(path, size):
        raise ValueError(f"{path} is cut short: it has no end-of-image marker")
    return size


def _starts(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(16)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error


def _ends(path: Path, size: int) -> bool:
    """Return whether the end marker is there; a camera may have written more behind it."""
    with open(path, "rb") as file:
        file.seek(max(0, size - 64))
        if b"\xff\xd9" in file.read():
            return True
        file.seek(0)
        return b"\xff\xd9" in file.read()
