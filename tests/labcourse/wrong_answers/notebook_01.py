"""Right shape, wrong idea: what students hand in for notebook 01, and a word of the hint that must come back."""

import operator
from decimal import Decimal

import numpy as np


def _naive(dataset):
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return dataset.with_options(options)


def _no_else(before, after):
    rounds = list(zip(before, after, strict=True))
    if all(b > a for a, b in rounds):
        return "faster"
    if all(b < a for a, b in rounds):
        return "slower"


def _every(before, after):
    rounds = list(zip(before, after, strict=True))
    if all(b > a for a, b in rounds):
        return "faster"
    return "slower" if all(b < a for a, b in rounds) else "no difference"


def _four_rounds(before, after):
    return _every([before[i] for i in range(4)], [after[i] for i in range(4)])


def _no_return(step, batch):
    rate = 1000 * batch / step  # noqa: F841 - that is the mistake


def _with(**more):
    """Return an answer that is right but for one option too many."""

    def naive(dataset):
        import tensorflow as tf

        options = tf.data.Options()
        for name, value in more.items():
            *groups, last = name.split("__")
            place = options
            for group in groups:
                place = getattr(place, group)
            setattr(place, last, value)
        return _naive(dataset).with_options(options)

    return naive


def _one_option_after_the_other(dataset):
    import tensorflow as tf

    untuned, unwritten = tf.data.Options(), tf.data.Options()
    untuned.autotune.enabled = False
    unwritten.experimental_optimization.apply_default_optimizations = False
    return dataset.with_options(untuned).with_options(unwritten)


WRONG = {
    "01.1": [
        (_no_return, "a return is missing"),
    ],
    "01.2": [
        (lambda dataset: _naive(dataset.prefetch(2)), "more than options"),
        (lambda dataset: dataset, "rewrites"),
        (lambda dataset: dataset.take(3), "drop_remainder, take,"),
        (_with(deterministic=False), "options.deterministic is"),
        (_with(experimental_optimization__inject_prefetch=True), "switches one of the"),
    ],
    "01.3": [
        (lambda before, after: "faster", "not faster, but slower"),
        (lambda before, after: "better", "not 'better'"),
        (_no_else, "your function returns"),
        (_four_rounds, "IndexError"),
    ],
}

RIGHT = {
    "01.1": [
        lambda step, batch: Decimal(1000 * batch) / Decimal(step),
        lambda step, batch: np.divide(batch, step / 1000),
    ],
    "01.2": [
        _one_option_after_the_other,
        lambda dataset: dataset.apply(_naive),
    ],
    "01.3": [
        _every,
        lambda before, after: (
            "faster"
            if all(map(operator.lt, before, after))
            else ["no difference", "slower"][all(map(operator.gt, before, after))]
        ),
    ],
}
