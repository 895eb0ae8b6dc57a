"""Right shape, wrong idea: what students hand in for notebook 13, and a word of the hint that must come back."""

import functools
import itertools
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


def _loader(**settings):
    """Return the right answer with other settings; those that are functions get what the answer got."""

    def loader(photos, batch, workers):
        from torch.utils.data import DataLoader

        given = {"dataset": photos, "batch_size": batch, "shuffle": True, "num_workers": workers, "drop_last": True}
        given |= {"persistent_workers": workers > 0}
        for name, one in settings.items():
            given[name] = one(photos, batch, workers) if callable(one) and name != "collate_fn" else one
        return DataLoader(**given)

    return loader


def _by_sampler(make):
    """Return an answer with the order of a sampler of its own."""
    return _loader(shuffle=False, sampler=lambda photos, batch, workers: make(photos))


def _once(photos):
    import torch

    return torch.randperm(len(photos)).tolist()


def _random(photos):
    import torch

    return torch.utils.data.RandomSampler(photos)


def _batches_of_numbers(photos, batch, workers):
    import torch

    numbers = torch.utils.data.BatchSampler(_random(photos), batch, drop_last=True)
    persistent = workers > 0
    return torch.utils.data.DataLoader(
        photos, batch_sampler=numbers, num_workers=workers, persistent_workers=persistent
    )


def _tensors(samples, images=lambda them: them, labels=lambda them: them):
    """Put a batch together, each part changed by a function."""
    import torch

    first, second = zip(*samples, strict=True)
    return images(torch.from_numpy(np.stack(first))), labels(torch.tensor(second))


def _changed(**parts):
    return _loader(collate_fn=functools.partial(_tensors, **parts))


class _Turned:
    """The photos in the wrong order, with the labels of others."""

    def __init__(self, photos):
        self.photos = photos

    def __len__(self):
        return len(self.photos)

    def __getitem__(self, number):
        return self.photos[number][0], self.photos[-1 - number][1]


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


NEEDS_LOADERS = {"13.3"}

WRONG = {
    "13.1": [
        (lambda samples: (tuple(image for image, _ in samples), np.arange(len(samples))), "make one array"),
        (lambda samples: np.stack([image for image, _ in samples]), "two things"),
        (_collate(lambda them: np.stack(them).astype(np.float32)), "the images are float"),
        (_collate(lambda them: np.stack(them)[::-1]), "their order"),
        (_collate(labels=lambda them: np.array(sorted(them), np.int64)), "not those of the samples"),
    ],
    "13.2": [
        (lambda length, workers, worker: list(range(length)), "every worker has all"),
        (lambda length, workers, worker: list(range(worker, length, workers + 1)), "nobody has number"),
        (lambda length, workers, worker: list(range(length)) if worker == 0 else [], "keeps all others waiting"),
        (lambda length, workers, worker: [*range(worker, length, workers), *range(worker, length, workers)], "twice"),
        (lambda length, workers, worker: length // workers, "3 workers: return the list of the numbers, not int"),
        (lambda length, workers, worker: itertools.count(worker, workers), "does your list have an end"),
    ],
    "13.3": [
        (_loader(dataset=lambda photos, batch, workers: photos[:12]), "never comes"),
        (lambda photos, batch, workers: photos, "DataLoader, not list"),
        (_loader(num_workers=0, persistent_workers=False), "for workers=2 your loader has 0"),
        (_loader(persistent_workers=False), "persistent_workers lets"),
        (_loader(persistent_workers=True), "persistent_workers option needs num_workers > 0"),
        (_loader(shuffle=False), "in the order of their"),
        (_by_sampler(_once), "shuffled once"),
        (_loader(drop_last=False), "shape (2, 4, 6, 3)"),
        (_loader(batch_size=5, drop_last=False), "with batch=4"),
        (_loader(dataset=lambda photos, batch, workers: photos[:8]), "an epoch has 8"),
        (_loader(dataset=lambda photos, batch, workers: _Turned(photos)), "not those of the same"),
        (_loader(collate_fn=lambda samples: samples), "a batch is two things"),
        (_loader(collate_fn=_collate()), "pickled on its way"),
        (_changed(images=lambda them: them.permute(0, 3, 1, 2)), "shape (4, 3, 4, 6)"),
    ],
    "13.4": [
        (lambda ms, batch, step, cores: min(cores, int(ms * batch / step) + 1), "expected"),
        (lambda ms, batch, step, cores: min(8, math.ceil(ms * batch / step)), "you return 8 workers, expected 4"),
    ],
    "13.5": [(lambda boxes: boxes[:2], "expected (6, 4)"), (lambda boxes: 1 - boxes[:, [2, 3, 0, 1]], "the box")],
}

RIGHT = {
    "13.1": [
        _filled,
        lambda samples: [np.array([image for image, _ in samples]), np.int64([label for _, label in samples])],
    ],
    "13.2": [_blocks, lambda length, workers, worker: np.arange(worker, length, workers)],
    "13.3": [_loader(), _batches_of_numbers],
    "13.4": [_counted, lambda image_ms, batch, step_ms, cores: math.ceil(min(cores, image_ms * batch / step_ms))],
    "13.5": [_mirrored, lambda boxes: np.abs(boxes[:, [2, 1, 0, 3]] - [1, 0, 1, 0])],
}
