"""Right shape, wrong idea: what students hand in for notebook 00, and a word of the hint that must come back."""

WRONG = {
    "00.1": [
        (lambda spans, window: 1 - sum(b - a for a, b in spans) / window, "idle"),
        (lambda spans, window: 100 * sum(b - a for a, b in spans) / window, "percentage"),
        (lambda spans, window: 0.5, "expected"),
        (
            lambda spans, window: sum(b - a for a, b in spans) / ((spans[-1][1] - spans[0][0]) if spans else 1),
            "whole window",
        ),
    ],
    "00.2": [
        (lambda load, train, overlapped: load + train, "hides"),
        (lambda load, train, overlapped: max(load, train), "add up"),
        (lambda load, train, overlapped: train if overlapped else load + train, "faster one"),
    ],
}
