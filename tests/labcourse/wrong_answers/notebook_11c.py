"""Right shape, wrong idea: what students hand in for notebook 11c, and a word of the hint that must come back."""

from math import ceil, floor

WRONG = {
    "11.5": [
        (lambda a, b, n: n / (a + b * n), "milliseconds"),
        (lambda a, b, n: 1000 / (a + b * n), "whole batch"),
        (lambda a, b, n: (a + b * n) / n, "inverse"),
        (lambda a, b, n: 1000 / b, "very large"),
        (lambda a, b, n: 1000 / (a + b), "once for each step"),
        (lambda a, b, n: 1000 * n / (a + b), "each image"),
    ],
    "11.6": [
        (lambda photos, epochs, batch: photos // batch * epochs, "repeat"),
        (lambda photos, epochs, batch: -(-photos // batch) * epochs, "repeat"),
        (lambda photos, epochs, batch: -(-photos * epochs // batch), "dropped"),
        (lambda photos, epochs, batch: photos * epochs / batch, "whole number"),
        (lambda photos, epochs, batch: photos * epochs, "not batches"),
    ],
    "11.7": [
        (lambda a, b, share: share * a / ((1 - share) * b), "whole number"),
        (lambda a, b, share: floor(share * a / ((1 - share) * b)), "round up"),
        (lambda a, b, share: floor(share * a / ((1 - share) * b)) + 1, "at least"),
        (lambda a, b, share: ceil(a / b), "whatever the share"),
        (lambda a, b, share: ceil(a / ((1 - share) * b)), "whole step"),
        (lambda a, b, share: ceil(share * a / b), "without end"),
        (lambda a, b, share: ceil((1 - share) * a / (share * b)), "other share"),
        (lambda a, b, share: ceil(share * b / ((1 - share) * a)), "longer fixed part"),
        (lambda a, b, share: ceil(share / b), "is a rate"),
        (lambda a, b, share: next(n for n in (1, 8, 32, 128, 512, 2048) if n * b >= share * (a + n * b)), "expected"),
    ],
}

RIGHT = {
    "11.5": [
        lambda a, b, n: 1000 / (a / n + b),
        lambda a, b, n: n / ((a + b * n) / 1000),
        lambda a, b, n: 1e3 * n / sum([a, *[b] * n]),
        lambda a, b, n: (lambda step: n * (1 / step) * 1000)(a + n * b),
        lambda a, b, n: n * (1e-3 * a + 1e-3 * b * n) ** -1,
    ],
    "11.6": [
        lambda photos, epochs, batch: len(range(batch, photos * epochs + 1, batch)),
        lambda photos, epochs, batch: divmod(photos * epochs, batch)[0],
        lambda photos, epochs, batch: int(photos * epochs / batch),
        lambda photos, epochs, batch: (photos * epochs - photos * epochs % batch) / batch,
        lambda photos, epochs, batch: sum([photos] * epochs) // batch,
    ],
    "11.7": [
        lambda a, b, share: next(n for n in range(1, 10_000) if n / (a + b * n) >= share / b),
        lambda a, b, share: -(-share * a // (b - share * b)),
        lambda a, b, share: ceil(a / b / (1 / share - 1)),
        lambda a, b, share: 1 + sum(n * b < share * (a + n * b) for n in range(1, 2_000)),
        lambda a, b, share: 1 + max([n for n in range(2_000) if n / (a + b * n) < share / b]),
    ],
}


WRONG["11.5"] += [
    (lambda a, b, n: 1e6 * n / (a + b * n), "1000 milliseconds"),
    (lambda a, b, n: a + b * n, "time of a step"),
]
WRONG["11.6"] += [
    (lambda photos, epochs, batch: photos * epochs % batch, "left over"),
    (lambda photos, epochs, batch: photos * epochs // batch + 1, "you return 27"),
]
WRONG["11.7"] += [(lambda a, b, share: ceil(share / (1 - share)), "how long is the fixed part")]
