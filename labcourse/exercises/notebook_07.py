"""Exercises of notebook 07, pack_into_tfrecords."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.exercise_data import close, compared, numeric, shown_as_images
from labcourse.exercise_pictures import photos, record
from labcourse.grading import Wrong, exercise, raised, shows
from labcourse.student_code import call
from labkit.sources import framing


@numeric("07.1", " shards", (145, 8), (30_000, 8), (95, 1), (40, 8), (6, 1), (159, 8), (140, 7), (250, 3), (2_000, 20))
def shard_count(total_mb: int, servers: int) -> Any:
    """``shards_for(total_mb, servers)``: ten a server, fewer where they would be under 10 MB, but one a server."""
    ten, fit = 10 * servers, total_mb // 10
    return max(servers, min(ten, fit)), {
        "rounded up, the shards fall below 10 MB": min(ten, -(-total_mb // 10)),
        "a number of shards is a whole number, rounded down to keep 10 MB": total_mb / 10,
        "take the smaller of the two counts; 10 MB a shard is a lower bound": max(ten, fit),
        "ten a server are shards below 10 MB here": ten,
        "so many have 10 MB, but each server needs a shard, and none needs more than ten": fit,
    }


@exercise("07.2")
def parsing(function: Any) -> None:
    """``parse_record(serialized)``: ``(image bytes, label)`` of a record with the features ``photo`` and ``class``."""
    small = tf.io.encode_jpeg(tf.zeros([8, 8, 3], tf.uint8)).numpy()  # which an answer that decodes it can decode
    truth = [(small, 3), (b"", 0), (b"\xff\xd8\x00third", 9), (b" \t\r\nfourth \n\x00 ", 1000), (b"fifth", -7)]
    truth.append((b"sixth", 70_000))
    for image, label in truth:
        record = tf.constant(framing.example({"photo": image, "class": label}))
        _parsed(call(function, record), image, label)
    _in_a_map(function, record)
    for missing, rest in (("class", {"photo": b"first"}), ("photo", {"class": 3})):
        with contextlib.suppress(tf.errors.OpError, Wrong, IndexError, KeyError):
            call(function, tf.constant(framing.example(rest)))
            words = f"a record without {missing} is damaged, and your function makes a value up for it (default_value)"
            break
    else:
        return
    raise Wrong(words)


def _in_a_map(function: Any, record: Any) -> None:
    """Refuse an answer that needs the value of a record, which no map has."""

    def mapped(serialized: Any) -> Any:
        return tuple(call(function, serialized))

    try:
        next(iter(tf.data.Dataset.from_tensors(record).map(mapped)))
    except Exception as error:
        words = f"but not in a map, which knows no values (no .numpy()): {raised(error)}"
        raise Wrong(f"of a single record it is right, {words}") from None


def _parsed(made: Any, image: bytes, label: int) -> None:
    """Check what came of one record."""
    if not isinstance(made, (tuple, list)) or len(made) != 2:
        raise Wrong(f"return a pair (image, label), not {type(made).__name__}")
    if odd := [p for p in made if isinstance(p, (tuple, dict, tf.SparseTensor, tf.RaggedTensor))]:
        kind = type(odd[0]).__name__
        raise Wrong(f"each of the pair must be one value, not a {kind}: return what a FixedLenFeature parses to")
    got = [np.asarray(part) for part in made]
    shapes, kinds = [part.shape for part in got], [part.dtype.kind for part in got]
    if shapes != [(), ()] or kinds[0] not in "OS" or kinds[1] not in "iu":
        mine = " and ".join(f"{part.dtype} of the shape {part.shape}" for part in got)
        raise Wrong(f"the pair is the bytes of the image, not decoded, and a whole number, of shape (); yours: {mine}")
    text = f"for the photo {image!r:.40} of class {label} you return {got[0].item()!r:.40} and {got[1]}"
    if bytes(got[0].item()) == image.strip() != image and int(got[1]) == label:
        raise Wrong(f"{text}: blanks, line ends and zeros belong to the bytes of an image, do not strip them")
    if (bytes(got[0].item()), int(got[1])) != (image, label):
        raise Wrong(text)


@shows("07.2")
def parsed(function: Any) -> Any:
    """Draw what the student's function parses of one record."""
    photo = tf.io.encode_jpeg(photos(1)[0], quality=95).numpy()
    made = call(function, tf.constant(framing.example({"photo": photo, "class": 3})))
    return record(("photo", "class"), made, (photo, np.int64(3)), "One record, as your function parses it.")


def _image(height: int, width: int, *square: int) -> tuple[np.ndarray, int, int, int]:
    """Return an image without a black pixel, and where to cut."""
    image = np.random.default_rng(height * width).uniform(0.1, 1, (height, width, 3)).astype(np.float32)
    return image, *square


def _cut(function: Any, image: np.ndarray, *square: int) -> np.ndarray:
    """Return what the student's function makes of an image."""
    height, width, _ = image.shape
    try:
        made = call(function, tf.constant(image), *square)
    except Exception as error:
        if height == width or isinstance(error, NotImplementedError):
            raise
        words = "is right for square images only; height and width may be exchanged"
        raise Wrong(f"for {height} x {width} pixels {raised(error)}: it {words}") from None
    if isinstance(made, (tuple, dict)):
        raise Wrong(f"return the image alone, not a {type(made).__name__}")
    got = np.asarray(made)
    if got.shape != image.shape:
        raise Wrong(f"the shape is {got.shape}, of an image that had {image.shape}")
    if got.dtype.kind != "f":
        raise Wrong(f"the values became {got.dtype}: keep them float32, from 0 to 1")
    return got


def _what_is_black(got: np.ndarray, right: np.ndarray, case: tuple, every: Any) -> str:
    """Return which pixels are black, and which should be."""
    height, width, _ = got.shape
    _, top, left, size = case
    black = (got == 0).all(-1)
    if not black.any():
        return "no pixel is black: black is 0 in all three colours"
    if np.array_equal(black, (right == 0).all(-1)):
        return "the square is right, but other pixels changed, too"
    rows, columns = (np.flatnonzero(black.any(axis)) for axis in (1, 0))
    mine = f"{black.sum()} pixels from [{rows[0]}, {columns[0]}] to [{rows[-1]}, {columns[-1]}] are black"
    # A full stripe was cut with an open range; of an inverse square more than half of the pixels are black.
    stripe = (len(rows) == height or len(columns) == width) and 2 * black.sum() < black.size
    whole = ": a range has a start and an end" if stripe else ""
    if height != width and black.sum() == size * size:
        whole = ": height and width may be exchanged somewhere"
    end = f"[{top + size - 1}, {left + size - 1}]"
    return f"{mine}, expected the {size * size} from [{top}, {left}] to {end}{whole}"


@compared(
    "07.3",
    _image(32, 32, 20, 11, 8),
    _image(32, 32, 0, 0, 8),
    _image(32, 32, 24, 3, 4),
    _image(45, 30, 13, 12, 12),
    _image(21, 40, 4, 22, 17),
    _image(20, 30, 3, 18, 12),  # up to the right side
    read=_cut,
    same=close,
    where=lambda got, image, top, left, size: (
        f"for ({top}, {left}, {size}) " + f"of {len(image)} x {image.shape[1]} pixels " * (len(image) != image.shape[1])
    ),
    differs=_what_is_black,
)
def hole(image: np.ndarray, top: int, left: int, size: int) -> Any:
    """``cut(image, top, left, size)``: the image with a black square of `size`, its corner at (top, left)."""
    right = np.array(image)
    right[top : top + size, left : left + size] = 0
    return right, {"the image comes out unchanged: the result was thrown away, or the square is empty": image}


_SQUARE = "A square of 12 × 12 pixels with its corner at (20, 11)."
shown_as_images("07.3", lambda: (photos(1)[0] / np.float32(255), 20, 11, 12), _SQUARE)
