"""Right shape, wrong idea: what students hand in for notebook 01, and a word of the hint that must come back."""

WRONG = {
    "01.1": [
        (lambda step, batch: batch / step, "1000"),
        (lambda step, batch: 1000 / step, "steps per second"),
        (lambda step, batch: step / batch, "inverse"),
    ],
    "01.2": [
        (lambda dataset: dataset, "rewrites"),
        (lambda dataset: dataset.prefetch(1), "rewrites"),
        (lambda dataset: dataset.take(3), "elements changed"),
        (lambda dataset: list(dataset), "tf.data.Dataset"),
    ],
    "01.3": [
        (lambda before, after: "faster" if sum(after) > sum(before) else "slower", "noise"),
        (lambda before, after: "no difference", "round by round"),
        (lambda before, after: "faster", "more is"),
        (lambda before, after: "better", "not 'better'"),
    ],
}
