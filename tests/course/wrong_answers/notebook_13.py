"""Right shape, wrong idea: what students hand in for notebook 13, and a word of the hint that must come back."""

import math

import numpy as np


def _collate(images=lambda them: np.stack(them), labels=lambda them: np.array(them, np.int64)):
    def collate(samples):
        return images([image for image, _ in samples]), labels([label for _, label in samples])

    return collate


def _filled(samples):
    """Fill arrays that are there already."""
    images = np.empty((len(samples), *samples[0][0].shape), np.uint8)
    labels = np.empty(len(samples), np.int64)
    for i, (image, label) in enumerate(samples):
        images[i], labels[i] = image, label
    return [images, labels]


WRONG = {
    "13.1": [
        (lambda samples: np.stack([image for image, _ in samples]), "two things"),
        (_collate(lambda them: np.stack(them).astype(np.float32)), "4 times the bytes"),
        (_collate(lambda them: np.stack(them).astype(np.int8)), "another meaning"),
        (_collate(lambda them: np.stack(them).transpose(0, 3, 1, 2)), "colours are in front"),
        (_collate(lambda them: np.concatenate(them)), "expected (5, 6, 9, 3)"),
        (_collate(lambda them: np.stack(them)[::-1]), "their order"),
        (_collate(labels=lambda them: np.array(them, np.int32)), "expected int64"),
        (_collate(labels=lambda them: np.array(them)[:, None]), "one number for each sample"),
        (_collate(labels=lambda them: np.array(sorted(them), np.int64)), "not those of the samples"),
    ],
    "13.2": [
        (lambda length, workers, worker: list(range(length)), "every worker has all photos"),
        (lambda length, workers, worker: list(range(worker, length, workers + 1)), "nobody has number"),
        (lambda length, workers, worker: list(range(length // workers * worker, length // workers * (worker + 1))),
         "nobody has number"),
        (lambda length, workers, worker: list(range(length)) if worker == 0 else [], "keeps all others waiting"),
        (lambda length, workers, worker: list(range(worker, length + 1, workers)), "there is no number"),
        (lambda length, workers, worker: [*range(worker, length, workers), *range(worker, length, workers)], "twice"),
    ],
    "13.3": [
        (lambda image_ms, batch, step_ms, cores: math.ceil(image_ms * batch / step_ms), "gain nothing"),
        (lambda image_ms, batch, step_ms, cores: min(cores, image_ms * batch / step_ms), "round up"),
        (lambda image_ms, batch, step_ms, cores: min(cores, image_ms * batch // step_ms), "rounded down"),
        (lambda image_ms, batch, step_ms, cores: step_ms / (image_ms * batch), "other way round"),
        (lambda image_ms, batch, step_ms, cores: max(cores, -(-image_ms * batch // step_ms)), "min, not max"),
    ],
    "13.4": [
        (lambda boxes: boxes, "nothing has changed"),
        (lambda boxes: boxes[:2], "expected (6, 4)"),
        (lambda boxes: np.abs(boxes - [1, 0, 1, 0]), "change places, too"),
        (lambda boxes: boxes[:, [2, 1, 0, 3]], "from the other side"),
        (lambda boxes: np.abs(boxes - [0, 1, 0, 1])[:, [0, 3, 2, 1]], "upside down"),
        (lambda boxes: 1 - boxes[:, [2, 3, 0, 1]], "keeps the height"),
        (lambda boxes: boxes * 0.5, "became"),
    ],
}  # fmt: skip


def _mirrored(boxes):
    """Box by box, as a list."""
    return [[1 - right, top, 1 - left, bottom] for left, top, right, bottom in boxes]


def _blocks(length, workers, worker):
    """Give each worker a block of neighbours."""
    return [int(n) for n in np.array_split(np.arange(length), workers)[worker]]


def _counted(image_ms, batch, step_ms, cores):
    """Add workers until they are enough."""
    number = 1
    while number < cores and number * step_ms < image_ms * batch:
        number += 1
    return float(number)


RIGHT = {"13.1": [_filled], "13.2": [_blocks], "13.3": [_counted], "13.4": [_mirrored]}
