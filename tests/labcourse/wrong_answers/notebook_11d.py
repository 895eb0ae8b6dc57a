"""Right shape, wrong idea: what students hand in for notebook 11d, and a word of the hint that must come back."""

WRONG = {}

RIGHT = {
    "11.11": [
        lambda d, a, t, g: sorted([d + a, t])[-1] / sorted([d, t + g])[-1],
        lambda d, a, t, g: (d + a if d + a > t else t) / (d if d > t + g else t + g),
    ]
}
