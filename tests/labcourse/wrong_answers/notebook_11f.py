"""Right shape, wrong idea: what students hand in for notebook 11f, and a word of the hint that must come back."""

import numpy as np


def counts(labels):
    return np.bincount(labels)[labels]


WRONG = {
    "11.12": [
        (lambda image, light, label, weight: (image, light, label, weight), "a tuple of 4"),
        (lambda image, light, label, weight: ({"image": image, "light": light}, label), "a tuple of 2"),
        (lambda image, light, label, weight: ((image, light), label, weight), "in a dict by their names"),
        (lambda image, light, label, weight: ({"image": image, "light": light}, weight, label), "and you put weight"),
        (lambda image, light, label, weight: ({"image": light, "light": image}, label, weight), "and you put light"),
        (lambda image, light, label, weight: ({"image": image}, label, weight), "are named ['image']"),
        (lambda image, light, label, weight: {"image": image, "light": light, "label": label}, "a dict alone"),
        (lambda image, light, label, weight: [{"image": image, "light": light}, label, weight], "a list"),
        (lambda image, light, label, weight: ({"image": image, "light": light}, {"a": label}, weight), "one output"),
        (lambda image, light, label, weight: ({"image": image, "light": light}, label, 2 * weight), "something else"),
    ],
    "11.13": [
        (lambda labels, classes: 1 / counts(labels), "the mean is"),
        (lambda labels, classes: len(labels) / counts(labels), "the mean is 2"),
        (lambda labels, classes: counts(labels), "larger weights"),
        (lambda labels, classes: counts(labels) / counts(labels).mean(), "larger weights"),
        (lambda labels, classes: len(labels) / (classes * np.bincount(labels)), "one weight for each class"),
        (lambda labels, classes: len(labels) // (classes * counts(labels)), "rounded"),
        (lambda labels, classes: np.ones(len(labels)), "should be equal"),
        (lambda labels, classes: (1 - counts(labels) / len(labels)) * 2, "the mean is 0.75"),
    ],
}

RIGHT = {
    "11.12": [
        lambda image, light, label, weight: ({"light": light, "image": image}, label, weight),
        lambda image, light, label, weight: (dict(image=image, light=light), label, weight),
        lambda *given: (dict(zip(("image", "light"), given, strict=False)), *given[2:]),
        lambda image, light, *rest: ({"image": image} | {"light": light}, *rest),
        lambda image, light, label, weight: tuple([{"image": image, "light": light}, label, weight]),
    ],
    "11.13": [
        lambda labels, classes: len(labels) / counts(labels) / classes,
        lambda labels, classes: (1 / counts(labels)) / (1 / counts(labels)).mean(),
        lambda labels, classes: [len(labels) / (classes * list(labels).count(one)) for one in labels],
        lambda labels, classes: (len(labels) / classes / np.bincount(labels, minlength=classes)).take(labels),
        lambda labels, classes: np.float32(len(labels) / (classes * counts(labels))),
    ],
}


WRONG["11.12"] += [
    (
        lambda image, light, label, weight: (
            {"image": image * weight[:, None, None, None], "light": light},
            label,
            weight,
        ),
        "something else",
    ),
]
