"""Right shape, wrong idea: what students hand in for notebook 11d, and a word of the hint that must come back."""

WRONG = {
    "11.7": [
        (lambda rate, side, size: rate * side * side * 3 * size, "million"),
        (lambda rate, side, size: rate * side * side * 3 * size / 2**20, "MiB"),
        (lambda rate, side, size: rate * side * side * size / 1e6, "three channels"),
        (lambda rate, side, size: rate * side * 3 * size / 1e6, "side × side"),
        (lambda rate, side, size: rate * side * side * 3 / 1e6, "bytes_per_value"),
        (lambda rate, side, size: side * side * 3 * size / 1e6, "one image"),
        (lambda rate, side, size: rate * side * side * 24 * size / 1e6, "megabits"),
    ],
}
