"""Exercises of notebooks 13, compare_loaders, and 13b, describe_a_pipeline_to_dali."""

from __future__ import annotations

import importlib.util
import itertools
import math
from typing import Any

import numpy as np

from labcourse.grading import Unclear, Wrong, exercise
from labcourse.student_code import call, numeric, whole_numbers


@exercise("13.1")
def a_batch_of_samples(function: Any) -> None:
    """``collate(samples)``: uint8 images of shape (samples, height, width, 3), and int64 labels."""
    draw = np.random.default_rng(13)
    samples = [(draw.integers(0, 256, (6, 9, 3), np.uint8), int(label)) for label in draw.integers(0, 1000, 5)]
    # Made before the call: an answer may write into the arrays of its samples.
    right, numbers = np.stack([image for image, _ in samples]), [label for _, label in samples]
    made = call(function, samples)
    if not isinstance(made, (tuple, list)) or len(made) != 2:
        raise Wrong("return two things: the images, and the labels")
    for what, part in zip(("images", "labels"), made, strict=True):
        if isinstance(part, (tuple, list)):
            raise Wrong(f"the {what} are a {type(part).__name__} of single ones: make one array of them")
    images, labels = (np.asarray(part) for part in made)
    if images.shape == (5,) and labels.shape == right.shape:
        raise Wrong("the two are swapped: first the images, then the labels")
    if images.shape != right.shape:
        if images.shape == (5, 3, 6, 9):
            raise Wrong("the colours are in front; here they stay at the end: (samples, height, width, 3)")
        raise Wrong(f"the images have the shape {images.shape}, expected {right.shape}")
    if images.dtype != np.uint8:
        times = f"{images.dtype.itemsize} times the bytes" if images.dtype.itemsize > 1 else "another meaning"
        raise Wrong(f"the images are {images.dtype}, which has {times}; uint8 until the device")
    if not np.array_equal(images, right):
        raise Wrong("the shape is right, the pixels or their order are not those of the samples")
    if labels.shape != (5,):
        raise Wrong(f"the labels have the shape {labels.shape}, expected (5,): one number for each sample")
    if labels.dtype != np.int64:
        raise Wrong(f"the labels are {labels.dtype}, expected int64")
    if labels.tolist() != numbers:
        raise Wrong("the labels are not those of the samples, in their order")


@exercise("13.2")
def numbers_of_a_worker(function: Any) -> None:
    """``numbers(length, workers, worker)``: a part for each worker, all numbers once, parts of nearly one size."""
    for length, workers in ((10, 3), (7, 2), (12, 4), (5, 1), (2, 4)):
        text = f"for {length} photos and {workers} workers"
        parts = []
        for worker in range(workers):
            made = call(function, length, workers, worker)
            parts.append(whole_numbers(made, text, "return the numbers of this one worker, not the parts of all"))
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
        if not isinstance(made, (tuple, list)) or len(made) != 2:
            what = f"a list of {len(made)} samples" if isinstance(made, (tuple, list)) else f"one {type(made).__name__}"
            raise Wrong(f"a batch is {what}, expected two tensors, images and labels: put it together in the worker")
        for what, part in zip(("images", "labels"), made, strict=True):
            kind = type(part).__name__
            if kind == "ndarray":
                raise Wrong(f"the {what} are an array of NumPy, which is pickled on its way: make a tensor of it")
            if kind != "Tensor":
                raise Wrong(f"the {what} are a {kind}, expected one tensor: put it together in the worker")
        images, labels = made
        if str(images.dtype) != "torch.uint8":
            raise Wrong(f"the images are {images.dtype}, expected torch.uint8: small as long as they are on their way")
        expected = (batch, 4, 6, 3)
        if tuple(images.shape) != expected:
            last = found and tuple(images.shape) == (2, 4, 6, 3)
            more = ": leave out the last batch, which is a smaller one" if last else f", expected {expected}"
            raise Wrong(f"with batch={batch} the images of a batch have the shape {tuple(images.shape)}{more}")
        if str(labels.dtype) != "torch.int64" or tuple(labels.shape) != (batch,):
            shape = tuple(labels.shape)
            raise Wrong(f"the labels are {labels.dtype} of the shape {shape}, expected torch.int64 and ({batch},)")
        numbers = [int(label) - 100 for label in labels]
        if any((image != 9 * number).any() for image, number in zip(images, numbers, strict=True)):
            raise Wrong("the pixels and the labels of a batch are not those of the same photos")
        found += numbers
    return found


@numeric(
    "13.4",
    " workers",
    (5, 64, 100, 8),
    (3, 32, 100, 8),
    (7, 64, 50, 4),
    (10, 30, 100, 16),
    (2, 16, 60, 2),
    (50, 256, 60, 256),
    (40, 20, 12, 128),
    (10.01, 30, 60, 16),
)
def workers_for(image_ms: float, batch: int, step_ms: float, cores: int) -> Any:
    """``workers(image_ms, batch, step_ms, cores)``: the work of a batch, in steps, rounded up; the cores at most."""
    need = image_ms * batch / step_ms
    return min(cores, math.ceil(need)), {
        float(min(cores, math.ceil(need)) + 1): "one too many: fewer keep the accelerator busy, too",
        float(cores): "that is the most; as many as make the batch in time are enough",
        float(min(cores, math.ceil(step_ms / (image_ms * batch)))): "the work of a batch, by the time of a step",
        float(math.floor(need) + 1): "one too many: so many make the batch exactly in time",
        float(max(cores, math.ceil(need))): "the cores are the most, not the least: min, not max",
        math.ceil(need): "more workers than cores gain nothing",
        float(min(cores, math.ceil(image_ms / step_ms))): "the work of a step is that of a whole batch",
        need: "there is no part of a worker: round up, and no more than the cores",
        min(cores, need): "there is no part of a worker: round up",
        float(math.floor(need)): "rounded down, the accelerator waits: round up",
        float(min(cores, math.floor(need))): "rounded down, the accelerator waits: round up",
        step_ms / (image_ms * batch): "the other way round: the work of a batch, by the time of a step",
    }  # fmt: skip


@exercise("13.5")
def mirrored_boxes(function: Any) -> None:
    """``flipped(boxes)``: left and right change places, each counted from the other side; top and bottom stay."""
    corners = np.random.default_rng(4).uniform(0, 1, (6, 2, 2)).astype(np.float32)
    boxes = np.sort(corners, axis=1).reshape(6, 4)
    made = np.asarray(call(function, boxes.copy()))
    right = np.stack([1 - boxes[:, 2], boxes[:, 1], 1 - boxes[:, 0], boxes[:, 3]], axis=1)
    if made.shape != right.shape:
        raise Wrong(f"the boxes have the shape {made.shape}, expected {right.shape}")
    for wrong, hint in (
        (boxes, "nothing has changed"),
        (right[:, [2, 1, 0, 3]], "left is larger than right: they change places, too"),
        (boxes[:, [2, 1, 0, 3]], "left and right only changed places; count them from the other side"),
        (np.stack([boxes[:, 0], 1 - boxes[:, 3], boxes[:, 2], 1 - boxes[:, 1]], axis=1), "upside down: not the height"),
        (right - np.array([1, 0, 1, 0]), "left is negative: the other side is at 1, so count from there"),
        (right + np.array([223, 0, 223, 0]), "the places are shares from 0 to 1, not pixels"),
        (
            np.stack([1 - boxes[:, 0] - boxes[:, 2], *boxes[:, 1:].T], axis=1),
            "the third number is the right side, not a width",
        ),
        (right * np.array([224, 1, 224, 1]), "the places are shares from 0 to 1, not pixels"),
        (right * 224, "the places are shares from 0 to 1, not pixels"),
        (right.round(2), "the places are rounded: keep them as exact as they were"),
        (np.trunc(right), "the places are rounded to whole numbers; they are shares from 0 to 1"),
        (right[::-1], "the boxes come in another order"),
        (1 - boxes, "left and right do not change places so, and top and bottom stay as they are"),
        (np.stack([*boxes.T[:2], right[:, 2], boxes[:, 3]], axis=1), "only right changed; left is the mirrored right"),
        (np.concatenate([right[:1], boxes[1:]]), "only the first box is mirrored"),
        (
            np.stack([right[:, 0], *boxes[:, 1:].T], axis=1),
            "only left changed, or left was overwritten before it was read: copy it first; boxes[:, 0] is no copy",
        ),
        (1 - boxes[:, [2, 3, 0, 1]], "left and right and also top and bottom; a mirror keeps the height"),
    ):
        if np.allclose(made, wrong, atol=1e-5):
            raise Wrong(hint)
    if not np.allclose(made, right, atol=1e-5):
        was, now = (np.asarray(all_, float)[0].round(2).tolist() for all_ in (boxes, made))
        raise Wrong(f"the box {was} became {now}")
