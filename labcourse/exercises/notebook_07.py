"""Exercises of notebook 07, pack_into_tfrecords."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.example_timeline import drawable, marks, ops, shards
from labcourse.grading import Wrong, exercise, raised, shows
from labcourse.student_code import call, numeric
from labkit.sources import framing


@numeric("07.1", " shards", (30_000, 8), (145, 8), (95, 1), (40, 8), (6, 1), (159, 8), (140, 7), (250, 3), (2_000, 20))
def shard_count(total_mb: int, servers: int) -> Any:
    """``shards_for(total_mb, servers)``: ten a server, fewer where they would be under 10 MB, but one a server."""
    ten, fit = 10 * servers, total_mb // 10
    # Of equal values the last one's hint counts.
    return max(servers, min(ten, fit)), {
        float(max(servers, min(ten, (total_mb - 1) // 10))): "shards of exactly 10 MB are large enough: one more fits",
        float(min(ten, -(-total_mb // 10))): "rounded up, the shards fall below 10 MB",
        total_mb / ten: "that is the size of a shard in MB; how many shards?",
        float(servers): "one a server is the least; take as many as have 10 MB each",
        total_mb / 10: "a number of shards is a whole number, rounded down to keep 10 MB",
        float(max(ten, fit)): "take the smaller of the two counts; 10 MB a shard is a lower bound",
        float(ten): f"ten a server are shards of {total_mb / ten:.1f} MB here, below 10 MB",
        float(fit): f"{fit} shards of 10 MB for {servers} servers: each needs one, and none needs more than ten",
    }


@marks("07.1", "145 MB on eight servers: 10 ms to open, 1 ms a MB.", 145, 8)
def servers_at_work(answer: float) -> Any:
    """Draw eight servers that read the student's number of shards of 145 MB: 10 ms to open, 1 ms a MB."""
    count = drawable(answer, 1000, "shards cannot be written")
    size = 145 / count
    bars, end = shards("server", 8, count, 10, size), -(-count // 8) * (10 + size)
    return bars, [(end, end + 2)], None, f"Yours are {count} shards of {size:.3g} MB."


def _jpeg() -> bytes:
    """Return the bytes of a small photo, which an answer that decodes it can decode."""
    return tf.io.encode_jpeg(tf.zeros([8, 8, 3], tf.uint8)).numpy()


@exercise("07.2")
def parsing(function: Any) -> None:
    """``parse_record(serialized)``: ``(image bytes, label)`` of a record with the features ``photo`` and ``class``."""
    truth = [(_jpeg(), 3), (b"", 0), (b"\xff\xd8\x00third", 9), (b" \t\r\nfourth \n\x00 ", 1000), (b"fifth", -7)]
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
        raise Wrong(
            f"of a single record it is right, but not in a map, which knows no values (no .numpy()): {raised(error)}"
        ) from None


def _parsed(made: Any, image: bytes, label: int) -> None:
    """Check what came of one record."""
    if isinstance(made, dict):
        raise Wrong("that is the dict of all features; return the pair (image, label)")
    if not isinstance(made, (tuple, list)) or len(made) != 2:
        many = f"a {type(made).__name__} of {len(made)}" if isinstance(made, (tuple, list)) else type(made).__name__
        raise Wrong(f"return a pair (image, label), not {many}")
    odd = [p for p in made if isinstance(p, (tuple, dict, tf.SparseTensor, tf.RaggedTensor))]
    if odd:
        kind = type(odd[0]).__name__
        raise Wrong(f"each of the pair must be one value, not a {kind}: return what a FixedLenFeature parses to")
    got = [np.asarray(part) for part in made]
    if got[0].dtype.kind in "iuf" and got[0].ndim:
        raise Wrong("the image is decoded already: the task asks for its bytes, as they are in the record")
    if any(part.shape != () for part in got):
        raise Wrong(f"the shapes are {[part.shape for part in got]}: one value a feature has the shape []")
    if got[0].dtype.kind not in "OS":
        raise Wrong("the first of the pair must be the bytes of the image; are the two swapped?")
    if got[1].dtype.kind not in "iu":
        kind = "text" if got[1].dtype.kind in "OSU" else got[1].dtype
        raise Wrong(f"the class must stay a whole number (int64), yours is {kind}")
    text = f"for the photo {image!r:.40} of class {label} you return {got[0].item()!r:.40} and {got[1]}"
    if bytes(got[0].item()) == image.strip() != image and int(got[1]) == label:
        raise Wrong(f"{text}: blanks, line ends and zeros belong to the bytes of an image, do not strip them")
    if bytes(got[0].item()) == image and not np.iinfo(got[1].dtype).min <= label <= np.iinfo(got[1].dtype).max:
        raise Wrong(f"{text}: {got[1].dtype} does not hold every class")
    if (bytes(got[0].item()), int(got[1])) != (image, label):
        raise Wrong(text)


@shows("07.2")
def parsed(function: Any) -> Any:
    """Draw the ops of the student's function for one record, on a modelled clock."""
    given = (tf.constant(framing.example({"photo": _jpeg(), "class": 3})),)
    return ops(lambda serialized: call(function, serialized), given, "Your function on one record.")


@exercise("07.3")
def hole(function: Any) -> None:
    """``cut(image, top, left, size)``: the image with a black square of `size`, its corner at (top, left)."""
    rng = np.random.default_rng(0)
    cases = [(32, 32, 20, 11, 8), (32, 32, 0, 0, 8), (32, 32, 24, 3, 4), (45, 30, 13, 12, 12), (21, 40, 4, 22, 17)]
    cases.append((20, 30, 3, 18, 12))  # up to the right side
    for height, width, top, left, size in cases:
        image = rng.uniform(0.1, 1, (height, width, 3)).astype(np.float32)
        want = image.copy()
        want[top : top + size, left : left + size] = 0
        try:
            made = call(function, tf.constant(image), top, left, size)
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
        if np.array_equal(got, image):
            raise Wrong("the image comes out unchanged: the result was thrown away, or the square is empty")
        if got.dtype.kind != "f":
            raise Wrong(f"the values became {got.dtype}: keep them float32, from 0 to 1")
        if np.allclose(got, want):
            continue
        of = "" if height == width else f" of {height} x {width} pixels"
        black, text = (got == 0).all(-1), f"for ({top}, {left}, {size}){of} "
        if not black.any():
            raise Wrong(f"{text}no pixel is black: black is 0 in all three colours")
        if np.array_equal(black, (want == 0).all(-1)):
            raise Wrong(f"{text}the square is right, but other pixels changed, too")
        rows, columns = (np.flatnonzero(black.any(axis)) for axis in (1, 0))
        mine = f"{black.sum()} pixels from [{rows[0]}, {columns[0]}] to [{rows[-1]}, {columns[-1]}] are black"
        # A full stripe was cut with an open range; of an inverse square more than half of the pixels are black.
        stripe = (len(rows) == height or len(columns) == width) and 2 * black.sum() < black.size
        whole = ": a range has a start and an end" if stripe else ""
        if height != width and black.sum() == size * size:
            whole = ": height and width may be exchanged somewhere"
        end = f"[{top + size - 1}, {left + size - 1}]"
        raise Wrong(f"{text}{mine}, expected the {size * size} from [{top}, {left}] to {end}{whole}")


@shows("07.3")
def cut_out(function: Any) -> Any:
    """Draw the ops of the student's function for one image, on a modelled clock."""
    made = call(function, tf.ones((32, 32, 3)), 20, 11, 8)
    black = int((np.asarray(made) == 0).all(-1).sum())
    title = f"Your function on one image, {black} of its 1,024 pixels black."
    return ops(lambda image: call(function, image, 20, 11, 8), (tf.ones((32, 32, 3)),), title)
