"""Right shape, wrong idea: what students hand in for notebook 11e, and a word of the hint that must come back."""

import numpy as np


def _appended(blocks):
    """Use what only a list has."""
    counted = blocks.copy()
    counted.append(1)
    return 2 * sum(counted)


WRONG = {"11.9": [(lambda one, other: "yes", "True or False")]}

RIGHT = {
    "11.8": [lambda blocks: 2 * (1 + sum(blocks)), _appended],
    "11.9": [
        lambda one, other: not (min(one) <= max(other) and min(other) <= max(one)),
        lambda one, other: np.where(min(one) > max(other) or min(other) > max(one), True, False),
    ],
}
