"""Right shape, wrong idea: what students hand in for notebook 11c, and a word of the hint that must come back."""

WRONG = {}

RIGHT = {"11.5": [lambda a, b, n: 1000 / (a / n + b), lambda a, b, n: n / ((a + b * n) / 1000)]}
