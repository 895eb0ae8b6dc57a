"""Right shape, wrong idea: what students hand in for notebook 14b, and a word of the hint that must come back."""

import itertools

import numpy as np

WRONG = {
    "14.4": [
        (lambda batch, process, count: batch, "the whole batch"),
        (lambda batch, process, count: batch[process::count], "neighbours"),
        (lambda batch, process, count: batch[process * count : (process + 1) * count], "a part has"),
        (lambda batch, process, count: batch[-(process + 1) * (len(batch) // count) :][: len(batch) // count],
         "the first part"),
        (lambda batch, process, count: len(batch) // count, "return the list"),
        (lambda batch, process, count: np.array_split(batch, count), "not the parts of all"),
        (lambda batch, process, count: sorted(batch)[process * len(batch) // count :][: len(batch) // count],
         "expected"),
    ],
    "14.5": [
        (lambda waits_ms, train_ms, all_reduce_ms: sum(waits_ms) / len(waits_ms) + train_ms + all_reduce_ms, "mean"),
        (lambda waits_ms, train_ms, all_reduce_ms: sum(waits_ms) + train_ms + all_reduce_ms, "at the same time"),
        (lambda waits_ms, train_ms, all_reduce_ms: min(waits_ms) + train_ms + all_reduce_ms, "fastest"),
        (lambda waits_ms, train_ms, all_reduce_ms: waits_ms[0] + train_ms + all_reduce_ms, "process"),
        (lambda waits_ms, train_ms, all_reduce_ms: train_ms + all_reduce_ms, "first waits"),
        (lambda waits_ms, train_ms, all_reduce_ms: max(waits_ms) + train_ms, "takes time, too"),
        (lambda waits_ms, train_ms, all_reduce_ms: max(*waits_ms, train_ms + all_reduce_ms), "comes first"),
        (lambda waits_ms, train_ms, all_reduce_ms: max(waits_ms) + len(waits_ms) * train_ms + all_reduce_ms,
         "all processes train"),
        (lambda waits_ms, train_ms, all_reduce_ms: max(waits_ms) + train_ms + len(waits_ms) * all_reduce_ms,
         "all processes together"),
    ],
    "14.6": [
        (lambda steps, every, deaths: steps, "done again"),
        (lambda steps, every, deaths: steps + sum(deaths), "keeps what was before"),
        (lambda steps, every, deaths: steps + every * len(deaths), "only what was done"),
        (lambda steps, every, deaths: steps + sum(every - step % every for step in deaths), "not to the next"),
        (lambda steps, every, deaths: steps - sum(step % every for step in deaths), "add to the others"),
        (lambda steps, every, deaths: sum(step % every for step in deaths), "in all"),
        (lambda steps, every, deaths: steps + (deaths[-1] % every if deaths else 0), "its own steps"),
        (lambda steps, every, deaths: steps + (deaths[0] % every if deaths else 0), "its own steps"),
    ],
}  # fmt: skip


def _counted(steps, every, deaths):
    """Play it through, step by step."""
    done = total = 0
    for death in [*deaths, steps]:
        total += death - done
        done = death // every * every
    return total


def _grouped(batch, process, count):
    """Cut the batch into parts and take one."""
    numbers = iter(batch)
    parts = [list(itertools.islice(numbers, len(batch) // count)) for _ in range(count)]
    return parts[process]


def _walked(waits_ms, train_ms, all_reduce_ms):
    """Let each process arrive, and wait for the last."""
    arrived = [wait + train_ms for wait in waits_ms]
    return sorted(arrived)[-1] + all_reduce_ms


RIGHT = {
    "14.4": [
        _grouped,
        lambda batch, process, count: np.array_split(batch, count)[process],
        lambda batch, process, count: np.reshape(batch, (count, -1))[process].tolist(),
        lambda batch, process, count: batch[process * (len(batch) // count) :][: len(batch) // count],
        lambda batch, process, count: [n for k, n in enumerate(batch) if k * count // len(batch) == process],
    ],
    "14.5": [
        _walked,
        lambda waits_ms, train_ms, all_reduce_ms: max(wait + train_ms + all_reduce_ms for wait in waits_ms),
        lambda waits_ms, train_ms, all_reduce_ms: np.max(waits_ms) + train_ms + all_reduce_ms,
        lambda w, t, a: sorted(w)[-1] + t + a,
        lambda w, t, a: sum((max(w), t, a)),
    ],
    "14.6": [
        _counted,
        lambda steps, every, deaths: steps + sum(step - step // every * every for step in deaths),
        lambda steps, every, deaths: steps + np.sum(np.array(deaths, int) % every),
        lambda steps, every, deaths: sum([steps, *(divmod(step, every)[1] for step in deaths)]),
        lambda s, e, d: s + sum(d) - e * sum(step // e for step in d),
    ],
}  # fmt: skip


# Other usual wrong ideas, each in one line.
WRONG["14.5"] += [
    (lambda waits, train, reduce: waits[-1] + train + reduce, "last process"),
]


WRONG["14.4"] += [
    (lambda batch, process, count: str(batch), "not str"),
    (
        lambda batch, process, count: list(range(len(batch)))[process * (len(batch) // count) :][: len(batch) // count],
        "places in the batch",
    ),
]
WRONG["14.5"] += [
    (lambda waits, train, reduce: sorted(waits)[-2:][0] + train + reduce, "you return 21.5 ms, expected 26.5"),
    (lambda waits, train, reduce: np.median(waits) + train + reduce, "you return 19 ms, expected 26.5"),
    (lambda waits, train, reduce: max(*waits, train) + reduce, "all three add up"),
    (lambda waits, train, reduce: max(waits) + reduce, "all three add up"),
    (lambda waits, train, reduce: (max(waits) + train + reduce) / 1000, "milliseconds"),
]
WRONG["14.6"] += [
    (lambda steps, every, deaths: steps + len(deaths), "not one"),
    (lambda steps, every, deaths: steps * (1 + len(deaths)), "from the beginning"),
    (lambda steps, every, deaths: steps + sum(min(n % every, every - n % every) for n in deaths), "expected 31"),
]


def _split(batch, process, count):
    import tensorflow as tf

    return tf.split(batch, count)[process]


RIGHT["14.4"] += [
    _split,
    lambda batch, process, count: (batch[k] for k in range(len(batch)) if k * count // len(batch) == process),
]
