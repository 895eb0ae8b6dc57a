"""Right shape, wrong idea: what students hand in for notebook 01, and a word of the hint that must come back."""

import operator


def _no_else(before, after):
    rounds = list(zip(before, after, strict=True))
    if all(b > a for a, b in rounds):
        return "faster"
    if all(b < a for a, b in rounds):
        return "slower"


def _every(before, after):
    rounds = list(zip(before, after, strict=True))
    if all(b > a for a, b in rounds):
        return "faster"
    return "slower" if all(b < a for a, b in rounds) else "no difference"


def _no_round_rose(before, after):
    rose = list(map(operator.lt, before, after))
    return "faster" if all(rose) else "no difference" if any(rose) else "slower"


WRONG = {
    "01.3": [
        (lambda before, after: "faster", "not faster, but slower"),
        (lambda before, after: "better", "not 'better'"),
        (_no_else, "your function returns"),
        (_no_round_rose, "as fast as before"),
    ]
}

RIGHT = {
    "01.3": [
        _every,
        lambda before, after: (
            "faster"
            if all(map(operator.lt, before, after))
            else ["no difference", "slower"][all(map(operator.gt, before, after))]
        ),
    ]
}
