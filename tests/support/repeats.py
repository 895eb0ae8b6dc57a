"""Measurements that a busy machine may disturb are repeated; pytest's summary names the tests and their repeats."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

#: Repeats that were made and that were allowed, by the test that runs; `summary` empties them.
made, allowed = Counter(), Counter()


def again(times: int) -> Iterator[int]:
    """Yield 0, 1, … for `times` measurements at most, and count those after the first; leave the loop when one will do.

    A test that measures again must not only wait for the result that it wants: it takes the quickest time, since other
    work makes times longer only, or what most of the measurements say, or it forbids the contrary every time.
    """
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    allowed[test] += times - 1
    for number in range(times):
        made[test] += number > 0
        yield number


def summary(test: str) -> str:
    """Return how often a test measured again, as in ``2 of 5``, and forget it; empty if it did not."""
    repeats, most = made.pop(test, 0), allowed.pop(test, 0)
    return f"{repeats} of {most}" if repeats else ""


def line(reports: list) -> str:
    """Return one line on the repeats of all tests, from the reports of pytest; it says so where there are none."""
    repeats = {report.nodeid: dict(report.user_properties).get("repeats") for report in reports}
    named = [f"{test.rpartition('::')[2]} {count}" for test, count in repeats.items() if count]
    return f"repeats: {', '.join(named) or 'none'}"
