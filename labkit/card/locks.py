"""The lock of a card's name: a file that says who is the card of that name, removed when nobody is any more."""

from __future__ import annotations

import os
from pathlib import Path


def take(path: str | os.PathLike[str]) -> int | None:
    """Lock the file of a name and return its number; None where another process holds it.

    The file is made where it is missing, and empty: no number of a dead process is left in it. Closing the number lets
    go of it. Who holds it may remove it, and only who holds it does: a lock on a file that has been removed meanwhile
    locks nothing, so it is looked for there, and taken anew where it is another file by now.
    """
    import fcntl

    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                os.ftruncate(handle, 0)
                return handle
        except FileNotFoundError:
            pass
        except BlockingIOError:
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def sweep(place: Path, name: str) -> None:
    """Remove what a card of a name has in a folder, or has left there: the lock last, which the caller holds."""
    for end in (".sock", ".new", ".lock"):
        (place / f"{name}{end}").unlink(missing_ok=True)
