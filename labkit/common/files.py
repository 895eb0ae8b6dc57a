"""Files that are either whole or as they were before, and their names."""

from __future__ import annotations

import contextlib
import gzip
import os
import secrets
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path


def expanded(what: str, path: str | os.PathLike[str]) -> Path:
    """Return a path with the home folder in place of a ``~`` at its beginning.

    Raises
    ------
    ValueError
        If no such home folder is known; `what` is what the sentence calls the path.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ValueError(f"{what} is {str(path)!r}, whose ~ is not known here; allowed: a path without ~") from None


def new_folder(kind: str) -> Path:
    """Return the name of a temporary folder, ``labkit-`` and `kind` first, which is not made as yet.

    Who keeps the name before making the folder can remove it, wherever an interrupt comes.
    """
    return Path(tempfile.gettempdir(), f"labkit-{kind}-{secrets.token_hex(8)}")


@contextlib.contextmanager
def aside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a name beside `path` to write to; rename it to `path` when all went well, remove it when not.

    The name ends in ``.part`` and is another one in each thread of each process.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    place = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        yield place
        os.replace(place, path)
    except BaseException:
        place.unlink(missing_ok=True)
        raise


def write_aside(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write `content` to a neighbour of `path` and rename it, so that a kill leaves the old file.

    Text is written as UTF-8, and compressed where the name ends in ``.gz``; bytes are written as they are.
    """
    path = Path(path)
    if isinstance(content, str):
        content = content.encode()
        if path.suffix == ".gz":
            content = gzip.compress(content, mtime=0)
    with aside(path) as place:
        place.write_bytes(content)
    return path


def utf8_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file in UTF-8, without the byte order mark that it may have.

    Raises
    ------
    ValueError
        If it is in another encoding; the sentence names the file and the line.
    """
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path} is not UTF-8 (line {line}); save it as UTF-8") from None
