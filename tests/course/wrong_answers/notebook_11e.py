"""Right shape, wrong idea: what students hand in for notebook 11e, and a word of the hint that must come back."""

from statistics import mean, median

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
