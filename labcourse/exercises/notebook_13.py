"""Exercises of notebooks 13, compare_loaders, and 13b, describe_a_pipeline_to_dali."""

from __future__ import annotations

import importlib.util
import itertools
import math
from typing import Any

import numpy as np

from labcourse.exercise_data import alike, array, close, compared, numeric
from labcourse.exercise_pictures import images, parts, photos, record
from labcourse.grading import Unclear, Wrong, exercise, shows
from labcourse.student_code import call, whole_numbers


@exercise("13.1")
def a_batch_of_samples(function: Any) -> None:
    """``collate(samples)``: uint8 images of shape (samples, height, width, 3), and int64 labels."""
    draw = np.random.default_rng(13)
    samples = [(draw.integers(0, 256, (6, 9, 3), np.uint8), int(label)) for label in draw.integers(0, 1000, 5)]
    # Made before the call: an answer may write into the arrays of its samples.
    right, numbers = np.stack([image for image, _ in samples]), [label for _, label in samples]
    made = _images_and_labels(call(function, samples), right.shape)
    for what, part, truth in (("images", made[0], right), ("labels", made[1], numbers)):
        if not np.array_equal(part, truth):
            raise Wrong(f"the {what} are not those of the samples, in their order")


def _images_and_labels(made: Any, shape: tuple[int, ...], where: str = "") -> tuple[Any, Any]:
    """Return the two parts of a batch of uint8 images of some shape and int64 labels, as arrays or as tensors."""
    if not isinstance(made, (tuple, list)) or len(made) != 2:
        raise Wrong(f"{where}a batch is two things: the images, and the labels")
    for what, part, wanted in (("images", made[0], ("uint8", shape)), ("labels", made[1], ("int64", shape[:1]))):
        if isinstance(part, (tuple, list)):
            raise Wrong(f"{where}the {what} are a {type(part).__name__} of single ones: make one array of them")
        part = part if hasattr(part, "dtype") else np.asarray(part)
        got = str(part.dtype).removeprefix("torch."), tuple(part.shape)
        if got != wanted:
            mine, right = ("{} of the shape {}".format(*one) for one in (got, wanted))
            raise Wrong(f"{where}the {what} are {mine}, expected {right}")
    return made


@shows("13.1")
def collated(function: Any) -> Any:
    """Draw a batch of three samples as the student puts it together."""
    labels = [3, 141, 59]
    made = call(function, list(zip(photos(3), labels, strict=True)))
    return record(("images", "labels"), made, (photos(3), np.int64(labels)), "Three samples as one batch.")


def _these(length: int, workers: int) -> str:
    return f"for {length} photos and {workers} workers"


def _parts(function: Any, length: int, workers: int) -> list[list[int]]:
    """Return the numbers that the student gives to each worker."""
    nested = "return the numbers of this one worker, not the parts of all"
    made = (call(function, length, workers, worker) for worker in range(workers))
    return [whole_numbers(one, _these(length, workers), nested) for one in made]


@exercise("13.2")
def numbers_of_a_worker(function: Any) -> None:
    """``numbers(length, workers, worker)``: a part for each worker, all numbers once, parts of nearly one size."""
    for length, workers in ((10, 3), (7, 2), (12, 4), (5, 1), (2, 4)):
        text, parts = _these(length, workers), _parts(function, length, workers)
        got = sorted(n for part in parts for n in part)
        if len(got) > length and workers > 1 and all(sorted(part) == list(range(length)) for part in parts):
            raise Wrong(f"{text}: every worker has all photos, so each photo comes {workers} times")
        if missing := sorted(set(range(length)) - set(got)):
            raise Wrong(f"{text}: nobody has number {missing[0]}")
        if got != list(range(length)):
            twice = next((n for n in got if got.count(n) > 1), None)
            what = f"number {twice} comes twice" if twice is not None else f"there is no number {max(got)}"
            raise Wrong(f"{text}: {what}")
        sizes = [len(part) for part in parts]
        if max(sizes) - min(sizes) > 1:
            raise Wrong(f"{text}: the parts have {sizes} photos; the largest keeps all others waiting")


@shows("13.2")
def numbers_of_three_workers(function: Any) -> Any:
    """Draw ten numbers, and those of each of three workers."""
    return parts("10 photos and 3 workers.", "photos", range(10), "worker", _parts(function, 10, 3))


@exercise("13.3")
def a_loader_of_pytorch(function: Any) -> None:
    """``loader(photos, batch, workers)``: shuffled anew in each epoch, workers that live on, whole uint8 batches."""
    photos = [(np.full((4, 6, 3), 9 * number, np.uint8), 100 + number) for number in range(14)]
    for workers in (2, 1, 0):
        made = _of_pytorch(function, photos, 4, workers)
        if made.num_workers != workers:
            raise Wrong(f"for workers={workers} your loader has {made.num_workers}: num_workers says how many")
        if workers and not made.persistent_workers:
            raise Wrong("workers end with each epoch, and the next starts others: persistent_workers lets them live")
    epochs = [_numbers_of_an_epoch(made, 4) for _ in range(12)]
    in_threes = _numbers_of_an_epoch(_of_pytorch(function, photos, 3, 0), 3)
    for epoch in (*epochs, in_threes):
        if twice := sorted(n for n in epoch if epoch.count(n) > 1):
            raise Wrong(f"photo {twice[0]} comes twice in an epoch: shuffle without replacement")
        if len(epoch) != 12:
            raise Wrong(f"of 14 photos an epoch has {len(epoch)}, expected 12: all that fill whole batches")
    if epochs[0] == sorted(epochs[0]):
        raise Wrong("the photos come in the order of their numbers: shuffle them")
    if epochs.count(epochs[0]) == len(epochs):
        raise Wrong("the photos are shuffled once: each epoch needs an order of its own")
    if missing := sorted(set(range(14)).difference(*epochs)):
        raise Wrong(f"photo {missing[0]} never comes: another photo is left out in each epoch, not always the same")


def _of_pytorch(function: Any, *arguments: Any) -> Any:
    """Return the DataLoader that the answer makes; without PyTorch nobody can tell whether it is right."""
    there = importlib.util.find_spec("torch") is not None
    try:
        made = call(function, *arguments)
    except Exception as error:
        if there or isinstance(error, (Wrong, NotImplementedError)):  # a stub is open, whatever is installed
            raise
    if not there:
        raise Unclear("nothing is checked, since PyTorch is not installed here: pip install torch, then run again")
    if not any(kind.__module__.startswith("torch.") and kind.__name__ == "DataLoader" for kind in type(made).__mro__):
        raise Wrong(f"return a torch.utils.data.DataLoader, not {type(made).__name__}")
    return made


def _numbers_of_an_epoch(loader: Any, batch: int) -> list[int]:
    """Return the numbers of the photos of an epoch in batches of `batch`; the first batch that is wrong is refused."""
    found = []
    for made in itertools.islice(loader, 15):
        images, labels = _images_and_labels(made, (batch, 4, 6, 3), f"with batch={batch} ")
        if kinds := {type(part).__name__ for part in made} - {"Tensor"}:
            words = "put them together in the worker, as one tensor: an array is pickled on its way"
            raise Wrong(f"the images or the labels are a {kinds.pop()}: {words}")
        numbers = [int(label) - 100 for label in labels]
        if any((image != 9 * number).any() for image, number in zip(images, numbers, strict=True)):
            raise Wrong("the pixels and the labels of a batch are not those of the same photos")
        found += numbers
    return found


@numeric(
    "13.4", " workers", (5, 64, 100, 8), (3, 32, 100, 8), (7, 64, 50, 4), (10, 30, 100, 16), (2, 16, 60, 2),
    (50, 256, 60, 256), (40, 20, 12, 128), (10.01, 30, 60, 16),
)  # fmt: skip
def workers_for(image_ms: float, batch: int, step_ms: float, cores: int) -> Any:
    """``workers(image_ms, batch, step_ms, cores)``: the work of a batch, in steps, rounded up; the cores at most."""
    need = image_ms * batch / step_ms
    return min(cores, math.ceil(need)), {
        "that is the most; as many as make the batch in time are enough": cores,
        "more workers than cores gain nothing": math.ceil(need),
        "the work of a step is that of a whole batch": min(cores, math.ceil(image_ms / step_ms)),
        "there is no part of a worker: round up": min(cores, need),
        "rounded down, the accelerator waits: round up": min(cores, math.floor(need)),
    }


_BOXES = np.sort(np.random.default_rng(4).uniform(0, 1, (6, 2, 2)).astype(np.float32), axis=1).reshape(6, 4)


def _boxes(function: Any, boxes: np.ndarray) -> np.ndarray:
    return alike(array(function, boxes), boxes)


def _became(made: np.ndarray, boxes: np.ndarray) -> str:
    return "the box {} became {}".format(*(each[0].round(2).tolist() for each in (boxes, made)))


@compared("13.5", (_BOXES,), read=_boxes, same=close, where=_became, differs=lambda *_: "")
def mirrored_boxes(boxes: np.ndarray) -> Any:
    """``flipped(boxes)``: left and right change places, each counted from the other side; top and bottom stay."""
    left, top, right, bottom = boxes.T
    mirrored = np.stack([1 - right, top, 1 - left, bottom], axis=1)
    overwritten = np.stack([1 - right, top, right, bottom], axis=1)
    return mirrored, {
        "nothing has changed": boxes,
        "left is larger than right: they change places, too": mirrored[:, [2, 1, 0, 3]],
        "left and right only changed places; count them from the other side": boxes[:, [2, 1, 0, 3]],
        "upside down: not the height": np.stack([left, 1 - bottom, right, 1 - top], axis=1),
        "only left changed, or left was overwritten before it was read: copy it first": overwritten,
    }


@shows("13.5")
def boxes_on_a_photo(function: Any) -> Any:
    """Draw boxes on a photo, and on the mirrored photo those of the student and the right ones."""
    photo, boxes = photos(1)[0], np.float32([[0.1, 0.2, 0.45, 0.6], [0.5, 0.55, 0.95, 0.9]])

    def framed(image: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        made = image.copy()
        for left, top, right, bottom in (47 * np.clip(np.nan_to_num(boxes), 0, 1)).round().astype(int):
            made[[top, bottom], min(left, right) : max(left, right) + 1] = 255
            made[min(top, bottom) : max(top, bottom) + 1, [left, right]] = 255
        return made

    mine, right = (framed(photo[:, ::-1], made) for made in (_boxes(function, boxes), mirrored_boxes(boxes)[0]))
    return images({"": (framed(photo, boxes), mine, right)}, "Two boxes on a photo.")
