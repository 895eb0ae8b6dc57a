"""Right shape, wrong idea: what students hand in for notebook 11e, and a word of the hint that must come back."""

from statistics import mean, median

import numpy as np

WRONG = {
    "11.8": [
        (lambda blocks: 2 * sum(blocks), "first convolution"),
        (lambda blocks: 1 + 2 * sum(blocks), "outside"),
        (lambda blocks: 2 + sum(blocks), "two convolutions"),
        (lambda blocks: 2 + 2 * len(blocks), "stages"),
        (lambda blocks: 2 + 2 * sum(blocks) + len(blocks) - 1, "shortcuts"),
        (lambda blocks: 2 + 6 * blocks[0], "expected"),
    ],
    "11.9": [
        (lambda one, other: min(one) > max(other), "both directions"),
        (lambda one, other: mean(one) != mean(other), "overlap"),
        (lambda one, other: min(one) >= max(other) or min(other) >= max(one), "touch"),
        (lambda one, other: max(one) > max(other), "both directions"),
        (lambda one, other: abs(median(one) - median(other)) > 2, "alone"),
        (lambda one, other: all(a > b for a, b in zip(one, other, strict=False)), "both directions"),
        (lambda one, other: "yes", "True or False"),
    ],
}


def _appended(blocks):
    """Use what only a list has."""
    counted = blocks.copy()
    counted.append(1)
    return 2 * sum(counted)


RIGHT = {
    "11.8": [
        lambda blocks: 2 * (1 + sum(blocks)),
        lambda blocks: 1 + sum(2 * count for count in blocks) + 1,
        lambda blocks: len([1, *(k for count in blocks for k in range(2 * count)), 1]),
        lambda blocks: sum(blocks) * 2.0 + 2,
        lambda blocks: sum(map(sum, zip(blocks, blocks, strict=True))) + 2,
        _appended,
    ],
    "11.9": [
        lambda one, other: not (min(one) <= max(other) and min(other) <= max(one)),
        lambda one, other: all(a > b for a in one for b in other) or all(a < b for a in one for b in other),
        lambda one, other: (
            len({(a > b) - (a < b) for a in one for b in other} | {0}) == 2 and all(a != b for a in one for b in other)
        ),
        lambda one, other: sorted(one)[0] > sorted(other)[-1] or sorted(one)[-1] < sorted(other)[0],
        lambda one, other: max(min(one) - max(other), min(other) - max(one)) > 0,
        lambda one, other: np.where(min(one) > max(other) or min(other) > max(one), True, False),
    ],
}


# Other usual wrong ideas, each in one line.
WRONG["11.8"] += [
    (lambda blocks: 3 + 2 * sum(blocks), "pooling"),
    (lambda blocks: 2 + 6 * blocks[0], "for ([3, 4, 6, 3]) you return"),
]


def _beyond_their_deviations(one, other):
    deviations = [np.std(runs, ddof=1) if len(runs) > 1 else 0 for runs in (one, other)]
    return bool(abs(mean(one) - mean(other)) > sum(deviations))


WRONG["11.8"] += [
    (lambda blocks: 2 * (sum(blocks) + 2), "one layer each"),
    (lambda blocks: 4 * sum(blocks) + 2, "not four"),
    (lambda blocks: 2 * sum(blocks[1:]) + 2, "you return 28 layers, expected 34"),
]
WRONG["11.9"] += [
    (lambda one, other: round(min(one)) > round(max(other)) or round(min(other)) > round(max(one)), "do not round"),
    (_beyond_their_deviations, "however far the runs"),
]
