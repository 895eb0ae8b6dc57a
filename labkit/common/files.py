"""Files that are either whole or as they were before."""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path


def write_aside(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write `content` to a neighbour of `path` and rename it, so that a kill leaves the old file.

    Text is written as UTF-8, and compressed where the name ends in ``.gz``; bytes are written as they are.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        content = content.encode()
        if path.suffix == ".gz":
            content = gzip.compress(content, mtime=0)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # mkstemp makes files private; a result is as readable as any file its owner creates.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(aside, 0o666 & ~umask)
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
    return path
