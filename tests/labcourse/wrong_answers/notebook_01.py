"""Right shape, wrong idea: what students hand in for notebook 01, and a word of the hint that must come back."""

import operator
import statistics
from decimal import Decimal

import numpy as np


def _naive(dataset):
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return dataset.with_options(options)


def _in_parallel(dataset):
    return _naive(dataset.cache().map(lambda x: x, num_parallel_calls=-1).prefetch(-1))


def _most(before, after):
    won = sum(b > a for a, b in zip(before, after, strict=True))
    return "faster" if 2 * won > len(before) else "slower" if 2 * won < len(before) else "no difference"


def _by_five_percent(middle):
    def verdict(before, after):
        gain = middle(after) / middle(before)
        return "faster" if gain > 1.05 else "slower" if gain < 0.95 else "no difference"

    return verdict


def _first_and_last(before, after):
    if after[0] > before[0] and after[-1] > before[-1]:
        return "faster"
    return "slower" if after[0] < before[0] and after[-1] < before[-1] else "no difference"


def _none_worse(before, after):
    rounds = list(zip(before, after, strict=True))
    if all(b >= a for a, b in rounds):
        return "faster"
    return "slower" if all(b <= a for a, b in rounds) else "no difference"


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


def _never_faster(before, after):
    found = _every(before, after)
    return "slower" if all(b <= a for a, b in zip(before, after, strict=True)) else found


def _clearly(before, after):
    if _every([1.05 * a for a in before], after) == "faster":
        return "faster"
    return "slower" if _every(before, [1.05 * b for b in after]) == "slower" else "no difference"


def _sorted_in_place(before, after):
    before.sort()
    after.sort()
    return _every(before, after)


def _no_return(step, batch):
    rate = 1000 * batch / step  # noqa: F841 - that is the mistake


def _twice_as_wide(dataset):
    import tensorflow as tf

    return _naive(dataset.map(lambda x: tf.stack([x, x])))


def _in_a_function(dataset):
    import tensorflow as tf

    return tf.function(_naive)(dataset)


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


def _by_half_a_percent(before, after):
    ratios = [b / a for a, b in zip(before, after, strict=True)]
    return "faster" if min(ratios) > 1.005 else "slower" if max(ratios) < 0.995 else "no difference"


def _one_option_after_the_other(dataset):
    import tensorflow as tf

    untuned, unwritten = tf.data.Options(), tf.data.Options()
    untuned.autotune.enabled = False
    unwritten.experimental_optimization.apply_default_optimizations = False
    return dataset.with_options(untuned).with_options(unwritten)


def _in_groups(dataset):
    import tensorflow as tf

    tune, write = tf.data.experimental.AutotuneOptions(), tf.data.experimental.OptimizationOptions()
    tune.enabled = write.apply_default_optimizations = False
    options = tf.data.Options()
    options.autotune, options.experimental_optimization = tune, write
    return dataset.with_options(options=options)


def _on_its_own(dataset):
    import tensorflow as tf

    options = tf.data.Options().merge(dataset.options())
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    options.deterministic = True
    return dataset.with_options(options)


def _by_sign(before, after):
    signs = np.sign(np.subtract(after, before))
    return np.select([(signs > 0).all(), (signs < 0).all()], ["faster", "slower"], "no difference").item()


def _by_set(before, after):
    ways = {(b > a) - (b < a) for a, b in zip(before, after, strict=True)}
    return {1: "faster", -1: "slower"}.get(ways.pop() if len(ways) == 1 else 0, "no difference")


def _by_where(before, after):
    gains = np.subtract(after, before)
    return np.where((gains > 0).all(), "faster", np.where((gains < 0).all(), "slower", "no difference"))


def _until_one_differs(before, after):
    verdict = None
    for a, b in zip(before, after, strict=True):
        way = "no difference" if a == b else "faster" if b > a else "slower"
        if verdict not in (None, way):
            return "no difference"
        verdict = way
    return verdict


WRONG = {
    "01.1": [
        (lambda step, batch: batch / step, "1000"),
        (lambda step, batch: 1000 / step, "steps per second"),
        (lambda step, batch: step / batch, "inverse"),
        (lambda step, batch: 1000 // step * batch, "do not round"),
        (lambda step, batch: round(1000 * batch / step, 3), "you return 106.667 images/s, expected 106.6666667"),
        (lambda step, batch: int(1000 * batch / step), "do not round"),
        (_no_return, "a return is missing"),
    ],
    "01.2": [
        (lambda dataset: dataset, "rewrites"),
        (lambda dataset: dataset.prefetch(1), "rewrites"),
        (lambda dataset: dataset.take(3), "elements changed"),
        (lambda dataset: list(dataset), "tf.data.Dataset"),
        (lambda dataset: _naive(dataset).repeat(), "never ends"),
        (lambda dataset: _naive(dataset.prefetch(2)), "more than options"),
        (_in_parallel, "more than options"),
        (lambda dataset: _naive(dataset).options(), "with_options() gives a new one"),
        (_twice_as_wide, "elements changed"),
        (_in_a_function, "without tf.function"),
        (_with(deterministic=False), "options.deterministic is False, and nobody asked"),
        (_with(experimental_optimization__inject_prefetch=True), "switches one of the rewrites on again"),
        (_with(experimental_optimization__map_parallelization=True), "switches one of the rewrites on again"),
        (_with(threading__private_threadpool_size=1), "options.threading.private_threadpool_size is 1, and nobody"),
    ],
    "01.3": [
        (lambda before, after: "faster" if sum(after) > sum(before) else "slower", "noise"),
        (lambda before, after: "no difference", "round by round"),
        (lambda before, after: "faster", "more is"),
        (lambda before, after: "better", "not 'better'"),
        (lambda before, after: np.greater(after, before), "not array"),
        (_most, "round 3 is not faster"),
        (_by_five_percent(statistics.mean), "round 3 is not faster"),
        (_by_five_percent(statistics.median), "round 3 is not faster"),
        (_first_and_last, "round 3 is not faster"),
        (_none_worse, "round 2 is not faster"),
        (_no_else, "your function returns nothing"),
        (lambda before, after: _every(before[1:], after[1:]), "round 1 is not faster"),
        (lambda before, after: _every(before[:-1], after[:-1]), "round 3 is not faster"),
        (lambda before, after: _every(before[:3], after[:3]), "round 5 is not faster"),
        (_four_rounds, "IndexError"),
        (_never_faster, "round 2 is not slower"),
        (_clearly, "every round got faster, if only by 1 %"),
        (_by_half_a_percent, "every round got faster, if only by 0.02 %"),
        (lambda before, after: _every([int(x) for x in before], [int(x) for x in after]), "if only by 0.02 %"),
        (_sorted_in_place, "before [100.0, 104.0, 98.0, 101.0], after [200.0, 104.0, 199.0, 203.0]: round 2"),
    ],
}

RIGHT = {
    "01.1": [
        lambda step, batch: Decimal(1000 * batch) / Decimal(step),
        lambda step, batch: batch * step**-1 * 1e3,
        lambda step, batch: np.divide(batch, step / 1000),
        lambda step, batch: sum([1 / (step / 1000)] * batch),
        lambda step, batch: (lambda second: second / step * batch)(1_000),
    ],
    "01.2": [
        _one_option_after_the_other,
        _in_groups,
        _on_its_own,
        lambda dataset: dataset.apply(_naive),
        _with(experimental_optimization__inject_prefetch=False, experimental_optimization__map_fusion=False),
    ],
    "01.3": [
        _every,
        _by_sign,
        _by_set,
        _by_where,
        _until_one_differs,
        lambda before, after: (
            "faster"
            if all(map(operator.lt, before, after))
            else ["no difference", "slower"][all(map(operator.gt, before, after))]
        ),
    ],
}


# Other usual wrong ideas, each in one line.
WRONG["01.1"] += [
    (lambda step, batch: 32_000 / step, "do not write 32"),
    (lambda step, batch: batch / (step * 1000), "multiply by 1000"),
]


WRONG["01.1"] += [
    (lambda step, batch: step * batch / 1000, "divide by the step"),
    (lambda step, batch: 60_000 * batch / step, "per minute"),
]
WRONG["01.3"] += [
    (lambda before, after: _every([round(x) for x in before], [round(x) for x in after]), "if only by 0.10 %"),
]


def _by_tensor(before, after):
    import tensorflow as tf

    gains = tf.subtract(after, before)
    slower = tf.where(tf.reduce_max(gains) < 0, "slower", "no difference")
    return tf.where(tf.reduce_min(gains) > 0, "faster", slower)


RIGHT["01.3"] += [_by_tensor]
