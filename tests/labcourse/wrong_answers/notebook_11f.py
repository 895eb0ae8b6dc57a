"""Right shape, wrong idea: what students hand in for notebook 11f, and a word of the hint that must come back."""

import numpy as np


def counts(labels):
    return np.bincount(labels)[labels]


WRONG = {
    "11.12": [
        (lambda image, light, label, weight: (image, light, label, weight), "you return tuple"),
        (lambda image, light, label, weight: ((image, light), label, weight), "in a dict by their names"),
        (lambda image, light, label, weight: ({"image": image, "light": light}, weight, label), "and you put weight"),
        (lambda image, light, label, weight: ({"image": image}, label, weight), "are named ['image']"),
        (lambda image, light, label, weight: ({"image": image, "light": light}, {"a": label}, weight), "one output"),
        (lambda image, light, label, weight: ({"image": image, "light": light}, label, 2 * weight), "something else"),
    ],
    "11.13": [
        (lambda labels, classes: 1 / counts(labels), "the mean is"),
        (lambda labels, classes: counts(labels) / counts(labels).mean(), "the sums of the classes"),
        (lambda labels, classes: len(labels) / (classes * np.bincount(labels)), "one weight for each class"),
    ],
}

RIGHT = {
    "11.12": [
        lambda image, light, label, weight: ({"light": light, "image": image}, label, weight),
        lambda image, light, label, weight: (dict(image=image, light=light), label, weight),
    ],
    "11.13": [
        lambda labels, classes: (len(labels) / classes / np.bincount(labels, minlength=classes)).take(labels),
        lambda labels, classes: np.float32(len(labels) / (classes * counts(labels))),
    ],
}
