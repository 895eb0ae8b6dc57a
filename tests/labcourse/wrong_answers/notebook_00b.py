"""Right shape, wrong idea: what students hand in for notebook 00b, and a word of the hint that must come back."""

import numpy as np
import tensorflow as tf

ORDER = sorted(range(64), key=lambda p: (p // 8 + p % 8, p % 8 if (p // 8 + p % 8) % 2 == 0 else p // 8))


def walked(numbers):
    """Walk along diagonals, up where row + column is even, and turn at the edges."""
    made, y, x = np.zeros((8, 8), int), 0, 0
    for number in numbers:
        made[y, x] = number
        ahead, aside, step = (x, y, (-1, 1)) if (y + x) % 2 == 0 else (y, x, (1, -1))
        if ahead == 7 or aside == 0:
            step = (1, 0) if ((y + x) % 2 == 0) == (ahead == 7) else (0, 1)
        y, x = y + step[0], x + step[1]
    return made


def along_one_way(numbers):
    """Fill the diagonals from the top to the bottom, all of them."""
    made = np.zeros((8, 8), int)
    places = (place for total in range(15) for place in np.ndindex(8, 8) if sum(place) == total)
    for place, number in zip(places, numbers, strict=True):
        made[place] = number
    return made


ALONE = {"A": "scale", "B": "code", "C": "quantise", "D": "subsample"}

WRONG = {
    "00.3": [
        (lambda numbers: walked(numbers)[:, ::-1], "number 0 of the 64 belongs into row 0, column 0"),
        (along_one_way, "yours all run the same way"),
        (lambda numbers: np.array(numbers)[np.argsort(ORDER)], "you return the shape (64,), expected (8, 8)"),
    ],
    "00.4": [
        (ALONE | {"D": "code"}, "picture D is not 'code': compare it with the photo"),
        (ALONE | {"A": "quantise", "C": "scale"}, "no wave is left"),
        (ALONE | {"B": "resize"}, "picture B is 'resize'; allowed: 'scale', 'code'"),
    ],
}

RIGHT = {"00.3": [walked, lambda numbers: tf.reshape(tf.gather(numbers, np.argsort(ORDER)), (8, 8))], "00.4": [ALONE]}
