"""What the tests of the card share: a folder of small images whose pixels are known, and a place for sockets."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import tempfile
from pathlib import Path

import numpy as np
import psutil
from PIL import Image
from waiting import until

SIZE = 8


def room() -> Path:
    """Return a new folder with a short name: a socket's path has about 100 bytes, pytest's may take all."""
    return Path(tempfile.mkdtemp(prefix="lk", dir="/tmp" if os.path.isdir("/tmp") else None))


@contextlib.contextmanager
def own_folder():
    """Let the cards of this process have their sockets in a short place of their own, which is empty at the end."""
    before, given = os.environ.get("LABKIT_CARDS"), room()
    os.environ["LABKIT_CARDS"] = str(given)
    place = given / f"labkit-{os.getuid()}"
    yield place
    if before is None:
        del os.environ["LABKIT_CARDS"]
    else:
        os.environ["LABKIT_CARDS"] = before
    assert not left(place)
    assert not processes(place)
    shutil.rmtree(given)


def jpeg(number: int, width: int = 24, height: int = 16) -> bytes:
    """Return a small JPEG unlike that of any other number below 4096."""
    rng = np.random.default_rng(number)
    colours = rng.integers(0, 256, (2, 3, 3), np.uint8)
    file = io.BytesIO()
    image = Image.fromarray(colours).resize((width, height), Image.BILINEAR)
    image.save(file, "JPEG", quality=90, subsampling=number % 3)
    return file.getvalue()


def expected(data: bytes, size: int = SIZE) -> np.ndarray:
    """Return what TensorFlow makes of a JPEG: float32 of shape (size, size, 3), not rounded."""
    import tensorflow as tf

    return tf.image.resize(tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE"), (size, size)).numpy()


def kill(running) -> None:
    """Kill the process of a card at once, as a crash or a power cut would: its socket stays behind."""
    os.kill(running.status().pid, signal.SIGKILL)
    until(lambda: not running.running, "the card to end")


def processes(folder) -> list[int]:
    """Return the processes that are cards with their sockets in a folder, however they were started."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        words = process.info["cmdline"] or []
        if "labextras.card.daemon" in words and str(folder) in words[-1] and process.info["status"] != "zombie":
            found.append(process.info["pid"])
    return found


def left(folder) -> list[str]:
    """Return every file in a folder of cards: sockets, locks and whatever else."""
    return sorted(os.listdir(folder))
