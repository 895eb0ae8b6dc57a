"""Make the lab's photos: which picture comes next, how it is encoded, and the process that writes files.

NumPy and Pillow only. The bytes of one photo depend on its seed, its number and the JPEG
encoder inside Pillow, never on how many are made, on the machine or on the number of cores,
so a smaller scale is a prefix of a larger one.

What real photo sets have, and this one draws in these shares (of all photos):

- long side: 500 px 78 %, 330-480 px 12 %, 640 px 6 %, 800 px 3 %, 1024 px 1 %; sides in the
  proportion 4:3 58 %, 3:2 25 %, 16:9 4 %, 1:1 4 %, between 1.05 and 1.6 the other 9 %; a quarter upright;
- colour sampling 4:2:0 84 %, 4:4:4 7 %, 4:2:2 5 %, grey 4 %;
- restart markers 3 %, progressive 3 %, an EXIF orientation other than upright 5 %: the stored pixels
  are turned, and a decoder that ignores the tag, as TensorFlow's does, sees them turned.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import numbers
import os
import struct
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple, TypeVar

from PIL import Image

from .painter import Dice, paint
from .shapes import SHAPES

#: Changes whenever a pixel or a byte of any photo does.
VERSION = "1.0.0"
SEED = 0
NAME = "lab_photos"
#: Photos per scale; each scale holds the smaller ones.
SCALES = {"tiny": 160, "small": 1280, "full": 12800}
CLASSES = tuple(SHAPES)
#: Of every eight photos of a class, the last is held out for validation.
HELD_OUT_EVERY = 8
#: Bytes of an average photo, as in ImageNet (1.28 million records in about 147 GB).
MEAN_BYTES = 115_000

T = TypeVar("T")


class Shot(NamedTuple):
    """What is decided about a photo before it is painted; sides in pixels as stored."""

    index: int
    label: int
    width: int
    height: int
    sampling: str
    quality: int
    restart_rows: int
    progressive: bool
    orientation: int

    @property
    def file(self) -> str:
        """Path below the set's folder: one folder per class."""
        return f"{CLASSES[self.label]}/{self.index:06d}.jpg"

    @property
    def held_out(self) -> bool:
        """Whether the photo belongs to the validation split."""
        return self.index // len(CLASSES) % HELD_OUT_EVERY == HELD_OUT_EVERY - 1


def plan(index: int, seed: int = SEED) -> Shot:
    """Decide label, size and encoding of photo number `index`.

    Raises
    ------
    ValueError
        If `index` or `seed` is negative or no whole number.
    """
    for name, value in (("index", index), ("seed", seed)):
        if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 0:
            raise ValueError(f"{name} is {value!r}; it must be a whole number, 0 or larger")
    dice = Dice(seed, index, 0)
    long = _pick(dice, (78, 500), (12, dice.between(330, 480)), (6, 640), (3, 800), (1, 1024))
    ratio = _pick(dice, (58, (3, 4)), (25, (2, 3)), (4, (9, 16)), (4, (1, 1)), (9, (dice.between(62, 95), 100)))
    short = long * ratio[0] // ratio[1]
    sampling = _pick(dice, (84, "4:2:0"), (7, "4:4:4"), (5, "4:2:2"), (4, "grey"))
    width, height = (short, long) if dice.below(4) == 0 else (long, short)
    return Shot(
        index=index, label=index % len(CLASSES), width=width, height=height, sampling=sampling,
        quality=_pick(dice, (20, dice.between(83, 89)), (48, dice.between(90, 92)), (32, dice.between(93, 96))),
        restart_rows=_pick(dice, (97, 0), (2, 1), (1, 4)), progressive=dice.below(100) < 3,
        orientation=_pick(dice, (95, 1), (2, 6), (2, 8), (1, 3)),
    )  # fmt: skip


def make(index: int, seed: int = SEED) -> bytes:
    """Return photo number `index` as a JPEG file."""
    shot = plan(index, seed)
    return encode(shot, scene(shot, seed))


def scene(shot: Shot, seed: int = SEED) -> Image.Image:
    """Return the pixels of a shot as they are stored: mode YCbCr, or L for a grey photo."""
    # Orientation 6 is shown turned right, 8 turned left, 3 upside down: store the opposite.
    undo = {1: None, 3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}
    sideways = shot.orientation in (6, 8)
    height, width = (shot.width, shot.height) if sideways else (shot.height, shot.width)
    planes = paint(Dice(seed, shot.index, 1), CLASSES[shot.label], height, width)
    planes = [Image.fromarray(plane) for plane in planes]
    image = planes[0] if shot.sampling == "grey" else Image.merge("YCbCr", planes)
    turn = undo[shot.orientation]
    return image if turn is None else image.transpose(turn)


def encode(shot: Shot, image: Image.Image) -> bytes:
    """Return the JPEG file of a shot."""
    options = {"quality": shot.quality, "progressive": shot.progressive}
    if shot.sampling != "grey":
        options["subsampling"] = shot.sampling
    if shot.restart_rows:
        options["restart_marker_rows"] = shot.restart_rows
    if shot.orientation != 1:
        # TIFF header, one directory of one entry: tag 0x0112, one 16-bit number.
        options["exif"] = b"Exif\0\0MM\0*" + struct.pack(">IHHHIHHI", 8, 1, 0x0112, 3, 1, shot.orientation, 0, 0)
    file = io.BytesIO()
    image.save(file, "JPEG", **options)
    return file.getvalue()


def write(folder: Path, index: int, seed: int = SEED) -> tuple[str, int, str]:
    """Write one photo below `folder`, aside and renamed; return its path there, its bytes and its SHA-256.

    Raises
    ------
    OSError
        If the disk is full or the folder may not be written.
    """
    data = make(index, seed)
    name = plan(index, seed).file
    path = folder / name
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        aside.write_bytes(data)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    return name, len(data), hashlib.sha256(data).hexdigest()


def line(path: str, size: int, sha256: str) -> bytes:
    """Return the line of a ledger for a finished photo; it is one write, so that several processes may add to one."""
    return f"{path}\t{size}\t{sha256}\n".encode()


def serve(folder: Path, seed: int, requests: Connection, ledger: str) -> None:
    """Make the photos whose numbers come in, one at a time, until the other end of `requests` closes.

    A line is added to the file `ledger` of the folder for each photo: path, bytes, SHA-256. Then the reply to its
    number is None, or the `OSError` that was raised. The process at the other end may be interrupted or killed at any
    moment: this one ends after the photo that it is making, and its line.
    """
    with contextlib.suppress(EOFError, OSError), open(folder / ledger, "ab", buffering=0) as lines:
        while True:
            index, reply = requests.recv(), None
            try:
                lines.write(line(*write(folder, index, seed)))
            except OSError as error:
                reply = error
            requests.send(reply)


def _pick(dice: Dice, *choices: tuple[int, T]) -> T:
    """Return one of the choices, each with its percentage."""
    ticket = dice.below(100)
    for percent, choice in choices:
        if ticket < percent:
            return choice
        ticket -= percent
    raise ValueError(f"the percentages of {choices!r} do not add up to 100")
