"""Right shape, wrong idea: what students hand in for notebook 11d, and a word of the hint that must come back."""

WRONG = {}

RIGHT = {
    "11.10": [
        lambda rate, side, size: rate * side**2 * 3 * size * 1e-6,
        lambda rate, side, size: sum([side * side * size] * 3) * rate / 10**6,
    ],
    "11.11": [
        lambda d, a, t, g: sorted([d + a, t])[-1] / sorted([d, t + g])[-1],
        lambda d, a, t, g: (d + a if d + a > t else t) / (d if d > t + g else t + g),
    ],
}
