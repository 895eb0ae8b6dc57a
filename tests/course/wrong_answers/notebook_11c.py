"""Right shape, wrong idea: what students hand in for notebook 11c, and a word of the hint that must come back."""

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
}
