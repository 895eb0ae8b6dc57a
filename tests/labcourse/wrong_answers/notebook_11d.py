"""Right shape, wrong idea: what students hand in for notebook 11d, and a word of the hint that must come back."""

WRONG = {
    "11.10": [
        (lambda rate, side, size: rate * side * side * 3 * size, "million"),
        (lambda rate, side, size: rate * side * side * 3 * size / 2**20, "MiB"),
        (lambda rate, side, size: rate * side * side * size / 1e6, "three channels"),
        (lambda rate, side, size: rate * side * 3 * size / 1e6, "side × side"),
        (lambda rate, side, size: rate * side * side * 3 / 1e6, "bytes_per_value"),
        (lambda rate, side, size: side * side * 3 * size / 1e6, "one image"),
        (lambda rate, side, size: rate * side * side * 24 * size / 1e6, "megabits"),
    ],
    "11.11": [
        (lambda d, a, t, g: max(d, t + g) / max(d + a, t), "slow"),
        (lambda d, a, t, g: (d + a + t) / (d + t + g), "sums"),
        (lambda d, a, t, g: max(d + a, t) / max(d, t), "train step add up"),
        (lambda d, a, t, g: max(d + a, t) / max(d, t, g), "train step add up"),
        (lambda d, a, t, g: max(d, a, t) / max(d, t + g), "share the cores of the host"),
        (lambda d, a, t, g: max(d + a, t) / (t + g), "decoding stays"),
        (lambda d, a, t, g: (d + a) / d, "may be the longest"),
        (lambda d, a, t, g: 1 - max(d, t + g) / max(d + a, t), "share of time"),
        (lambda d, a, t, g: max(d + a, t) - max(d, t + g), "time that is saved"),
    ],
}

RIGHT = {
    "11.10": [
        lambda rate, side, size: rate * side**2 * 3 * size * 1e-6,
        lambda rate, side, size: sum([side * side * size] * 3) * rate / 10**6,
        lambda rate, side, size: rate / 1e6 * pow(side, 2) * size * 3,
        lambda rate, side, size: 3 * size * (side / 1000) ** 2 * rate,
        lambda *given: given[0] * given[1] * given[1] * given[2] / (1e6 / 3),
    ],
    "11.11": [
        lambda d, a, t, g: sorted([d + a, t])[-1] / sorted([d, t + g])[-1],
        lambda d, a, t, g: (d + a if d + a > t else t) / (d if d > t + g else t + g),
        lambda d, a, t, g: min(max(d + a, t) / d, max(d + a, t) / (t + g)),
        lambda d, a, t, g: max((d + a) / max(d, t + g), t / max(d, t + g)),
        lambda d, a, t, g: 1 / (max(d, t + g) / max(a + d, t)),
    ],
}


# Other usual wrong ideas, each in one line.
WRONG["11.10"] += [
    (lambda rate, side, size: rate * side**2 * 4 * size / 1e6, "no fourth one"),
    (lambda rate, side, size: rate * side**2 * 12 / 1e6, "do not write 4"),
]


WRONG["11.10"] += [
    (lambda rate, side, size: rate * side**2 * 3 * size / 1e3, "kilobytes"),
    (lambda rate, side, size: rate * side**2 * 3 * size / 2**30, "GiB"),
]
WRONG["11.11"] += [
    (lambda d, a, t, g: max(d + a, t) / max(d, t + g) - 1, "one more"),
    (lambda d, a, t, g: max(1, max(d + a, t) / max(d, t + g)), "also make the job slower"),
    (lambda d, a, t, g: a / g, "you return 1.5 times, expected"),
]
