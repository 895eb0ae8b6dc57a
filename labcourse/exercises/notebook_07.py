"""Exercises of notebook 07, pack_into_tfrecords."""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.exercise_data import alike, close, compared, shown_as_images
from labcourse.exercise_pictures import blocks, in_turn, photos, record
from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise, raised, shows
from labcourse.student_code import Watched, call
from labkit.sources import framing

#: Records of a shard of exercise 07.2; two of them, by the field that they lack, far from all other numbers in errors.
_RECORDS, _LACKING = 131, {"class": 17, "photo": 29}


def _truth() -> list[tuple[bytes, int]]:
    """Return the images and classes of a shard."""
    small = tf.io.encode_jpeg(tf.zeros([8, 8, 3], tf.uint8)).numpy()  # which an answer that decodes it can decode
    truth = [(small, 3), (b"", 0), (b"\xff\xd8\x00third", 9), (b" \t\r\nfourth \n\x00 ", 1000), (b"fifth", -7)]
    return truth + [(b"photo %d" % number, 70_000 + number) for number in range(len(truth), _RECORDS)]


def _shard(place: Path, truth: list[tuple[bytes, int]], lacks: str = "") -> str:
    """Write a shard; where a field is named, one record lacks it."""
    path = place / f"{lacks or 'whole'}.tfrecord"
    with open(path, "wb") as file:
        for number, pair in enumerate(truth):
            features = dict(zip(("photo", "class"), pair, strict=True))
            if _LACKING.get(lacks) == number:
                del features[lacks]
            file.write(framing.frame(framing.example(features)))
    return str(path)


@exercise("07.2")
def reading(function: Any) -> None:
    """``read_shard(path)``: ``(image bytes, label)`` of each record; an error says which one lacks a field."""
    truth = _truth()
    with tempfile.TemporaryDirectory() as room:
        got, error = _read(function, _shard(Path(room), truth))
        for made, pair in zip(got, truth, strict=False):
            _parsed(made, *pair)
        if error is not None:
            raise Wrong(f"the first shard is whole, and {raised(error)}")
        if len(got) != _RECORDS:
            raise Wrong(f"{len(got)} of {_RECORDS} records come out of a shard that is whole")
        for field, number in _LACKING.items():
            got, error = _read(function, _shard(Path(room), truth, field))
            _named(field, number, len(got), error)
            for made, pair in zip(got, truth[:number], strict=False):
                _parsed(made, *pair)


def _until_error(made: Any, most: int) -> tuple[list[Any], Exception | None]:
    """Return the elements that come before an error, one more than `most` at the most, and the error."""
    found: list[Any] = []
    try:
        for element in itertools.islice(made, most + 1):
            found.append(element)
    except (Wrong, NotImplementedError):
        raise
    except Exception as error:
        return found, error
    return found, None


def _iterable(function: Any, *arguments: Any) -> Any:
    """Return the dataset or the generator that the student's function makes."""
    made = call(function, *arguments)
    if not isinstance(made, Iterable) or isinstance(made, (str, bytes, dict, tuple)):
        raise Wrong(f"return a dataset or a generator, not {type(made).__name__}")
    return made


def _read(function: Any, path: str) -> tuple[list[Any], Exception | None]:
    """Return the elements that come before an error of the student's reader, and the error."""
    made = _iterable(function, path)
    if isinstance(made, tf.data.Dataset):
        rules.nothing_left_in(made)
    found, error = call(_until_error, made, _RECORDS)
    if len(found) > _RECORDS:
        raise Wrong("the reader never ends: take away a repeat")
    return found, error


def _named(field: str, number: int, arrived: int, error: Exception | None) -> None:
    """Refuse a reader that is silent about a missing field, or does not say where it is missing."""
    lacks = f"record {number} has no {field}"
    if error is None and arrived == _RECORDS:
        raise Wrong(f"{lacks}, and your reader makes a value up for it (default_value, or an empty tensor)")
    if error is None:
        lost = f"{_RECORDS - arrived} of {_RECORDS} records left out without a word"
        raise Wrong(f"{lacks}, and nothing is raised: {lost}")
    text = raised(error)
    if field not in text:
        raise Wrong(f"{lacks}, and the error does not name the field: {text}")
    numbers = re.findall(r"(?<![\d.])\d+(?![\d.]*\d)", text)
    if str(number + 1) in numbers and str(number) not in numbers:
        raise Wrong(f"{lacks}, and the error says {number + 1}: count the records from 0, as damage.find does")
    if str(number) not in numbers:
        raise Wrong(f"{lacks}, and the error does not say which record it is: {text}")


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
    """Draw the first record of the student's reader, and say what it says where the class of a record is missing."""
    photo = tf.io.encode_jpeg(photos(1)[0], quality=95).numpy()
    truth = [(photo, 3), *_truth()[1:]]
    with tempfile.TemporaryDirectory() as room:
        whole, _ = _read(function, _shard(Path(room), truth))
        _, error = _read(function, _shard(Path(room), truth, "class"))
    says = "nothing is raised" if error is None else raised(error).replace("your answer", "it").rstrip(".")
    title = f"The first record of your reader. Where record {_LACKING['class']} has no class, {says}."
    return record(("photo", "class"), whole[0] if whole else (), (photo, np.int64(3)), title)


def _image(height: int, width: int, *square: int) -> tuple[np.ndarray, int, int, int]:
    """Return an image without a black pixel, and where to cut."""
    image = np.random.default_rng(height * width).uniform(0.1, 1, (height, width, 3)).astype(np.float32)
    return image, *square


def _cut(function: Any, image: np.ndarray, *square: int) -> np.ndarray:
    """Return what the student's function makes of an image."""
    got = alike(call(function, tf.constant(image), *square), image)
    if got.dtype.kind != "f":
        raise Wrong(f"the values became {got.dtype}: keep them float32, from 0 to 1")
    return got


def _what_is_black(got: np.ndarray, right: np.ndarray, case: tuple, every: Any) -> str:
    """Return how many pixels are black, and which should be."""
    _, top, left, size = case
    black = (got == 0).all(-1)
    if np.array_equal(black, (right == 0).all(-1)):
        return ": the square is right, but other pixels changed, too"
    turned = "height and width may be exchanged; " if black.sum() == size * size else ""
    wanted = f"expected the {size * size} from [{top}, {left}] to [{top + size - 1}, {left + size - 1}]"
    return f": {black.sum()} pixels are black in all three colours, {turned}{wanted}"


def _square(got: np.ndarray, image: np.ndarray, top: int, left: int, size: int) -> str:
    sides = f" of {len(image)} x {image.shape[1]} pixels" * (len(image) != image.shape[1])
    return f"for ({top}, {left}, {size}){sides}"


#: Height and width of an image, and where to cut; the last square reaches up to the right side.
_CUTS = (32, 32, 20, 11, 8), (32, 32, 0, 0, 8), (32, 32, 24, 3, 4), (45, 30, 13, 12, 12)
_CUTS += (21, 40, 4, 22, 17), (20, 30, 3, 18, 12)


@compared("07.3", *(_image(*cut) for cut in _CUTS), read=_cut, same=close, where=_square, differs=_what_is_black)
def hole(image: np.ndarray, top: int, left: int, size: int) -> Any:
    """``cut(image, top, left, size)``: the image with a black square of `size`, its corner at (top, left)."""

    def black(*place: slice) -> np.ndarray:
        made = np.array(image)
        made[place] = 0
        return made

    rows, columns = slice(top, top + size), slice(left, left + size)
    return black(rows, columns), {
        "the image comes out unchanged: the result was thrown away, or the square is empty": image,
        "a range has a start and an end: whole rows are black": black(rows, slice(None)),
        "a range has a start and an end: all behind the corner is black": black(slice(top, None), slice(left, None)),
        "height and width are exchanged: the first index of an image is the row": black(columns, rows),
    }


_SQUARE = "A square of 12 × 12 pixels with its corner at (20, 11)."
shown_as_images("07.3", lambda: (photos(1)[0] / np.float32(255), 20, 11, 12), _SQUARE)


@exercise("07.4")
def counting(function: Any) -> None:
    """``counted(dataset, expected)``: the same elements, and an error at the end of an epoch of another number."""
    for there, expected in ((5, 5), (0, 0), (53, 64), (3, 0), (0, 16), (17, 16)):
        given = _numbers(there)
        made = _counted(function, given, expected)
        for epoch in (1, 2) if isinstance(made, tf.data.Dataset) else (1,):
            got, error = call(_until_error, given.passed(made), there)
            _told(there, expected, got, error, given, epoch)
            given.taken = given.delivered = given.ahead = 0


def _numbers(there: int) -> Watched:
    return Watched([3 * n + 1 for n in range(there)])


def _counted(function: Any, given: Watched, expected: int) -> Any:
    """Return what the student's function makes of numbers as a dataset."""
    signature = tf.TensorSpec([], tf.int64)
    dataset = tf.data.Dataset.from_generator(lambda: iter(given), output_signature=signature)
    return _iterable(function, dataset, expected)


def _told(there: int, expected: int, got: list, error: Exception | None, given: Watched, epoch: int) -> None:
    """Refuse a count that changes elements, costs a second reading or the memory of an epoch, or says nothing."""
    where = f"of {there} records, where {expected} are expected"
    where += " in the second epoch" if epoch == 2 else ""
    if got != given.elements[: len(got)]:
        raise Wrong(f"{where}: the elements are not those of the dataset")
    if there == expected:
        if error is not None:
            raise Wrong(f"{where}, nothing is wrong, and yet {raised(error)}")
        if len(got) < there:
            raise Wrong(f"{where}, only {len(got)} come")
    if given.taken > there:
        raise Wrong(f"{where}, {given.taken} are read: count while they pass, and do not read the data a second time")
    if there > expected and error is None:
        raise Wrong(f"{where}, nothing is raised: more records than expected are wrong, too")
    if there != expected and error is None:
        raise Wrong(f"{where}, nothing is raised: the job goes on, and nobody knows")
    if there < expected and len(got) < there:
        raise Wrong(f"{where}, only {len(got)} are delivered before the error: it belongs at the end")
    if given.ahead == there > 10:
        raise Wrong(f"{where}, all are read before the first one is delivered: that keeps an epoch in memory")
    if there < expected and not all(re.search(rf"(?<!\d){n}(?!\d)", raised(error)) for n in (there, expected)):
        raise Wrong(f"{where}, the error does not say both numbers: {raised(error)}")


@shows("07.4")
def epochs_of_records(function: Any) -> Any:
    """Draw what comes of a complete epoch, of one that lacks records, and of one that has too many."""
    lanes, says = {}, []
    for name, there in (("complete", 6), ("two are lost", 4), ("one too many", 7)):
        given = _numbers(there)
        got, error = call(_until_error, given.passed(_counted(function, given, 6)), there)
        end = [("error", "train", len(got), len(got) + 1.5)] if error is not None else []
        lanes[name] = [*in_turn(range(len(got))), *end]
        says.append(f"{name}: {'no error' if error is None else raised(error).rstrip('.')}")
    return blocks("Three epochs where six records are expected", "records", lanes, "; ".join(says) + ".")
