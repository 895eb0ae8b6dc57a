"""Right shape, wrong idea: what students hand in for notebook 11c, and a word of the hint that must come back."""

WRONG = {}

RIGHT = {
    "11.5": [
        lambda a, b, n: 1000 / (a / n + b),
        lambda a, b, n: n / ((a + b * n) / 1000),
    ],
    "11.6": [
        lambda photos, epochs, batch: len(range(batch, photos * epochs + 1, batch)),
        lambda photos, epochs, batch: divmod(photos * epochs, batch)[0],
    ],
    "11.7": [
        lambda a, b, share: next(n for n in range(1, 10_000) if n / (a + b * n) >= share / b),
        lambda a, b, share: -(-share * a // (b - share * b)),
    ],
}
