"""Loaders that nobody planted for the tool: what it must say of each, and what it must not say."""

from __future__ import annotations

import re
from collections import Counter

import loader_pool
import pytest
from uncrowded import uncrowded

import labkit
from labkit.common import other_programs
from labkit.timeline.timeline import Timeline

pytestmark = [pytest.mark.loaders, pytest.mark.alone]

TRIES = 4
NAMES = [one.name for one in loader_pool.FAULTS]


def rate(one, folder, album, seed, fixed):
    accelerator = labkit.accelerators.modelled(step_ms=one.step_ms)
    loader = one.build(seed, folder, album, fixed)
    found = labkit.measure(
        {one.name: loader}, accelerator, steps=12, warmup=3, repeats=1, profile=False, progress=False
    )
    return found.rates(one.name)[0]


def test_there_are_enough_kinds_of_each_framework():
    assert not [name for name, count in Counter(NAMES).items() if count > 1]
    kinds = Counter(name.partition("_")[0] for name in NAMES)
    assert kinds["torch"] >= 12
    assert kinds["grain"] >= 6


@pytest.mark.parametrize("one", loader_pool.FAULTS, ids=NAMES)
def test_the_cause_is_named_and_nothing_that_does_not_help(one, tmp_path, album):
    """A recording beside other programs, or one that leaves the question open, may be made again, with another seed.

    Advice that does not help is never given.
    """
    seen, alone = [], False
    for seed in range(TRIES):
        accelerator = labkit.accelerators.modelled(step_ms=one.step_ms)
        trace = labkit.record(one.build(seed, tmp_path, album), accelerator, steps=14, warmup=4, progress=False)
        stalls = Timeline(uncrowded(trace)).stalls
        seen.append(
            (stalls.cause, stalls.blame, stalls.advice, {k: round(v, 2) for k, v in stalls.shares.items() if v})
        )
        assert not re.search(one.never, stalls.advice), seen
        right = stalls.cause in one.causes if one.causes else stalls.cause is None
        if right and re.search(one.says, stalls.advice):
            return
        open_still = stalls.advice.startswith("nothing yet")
        alone |= (trace.run.host.others or 0) < other_programs.BUSY and not open_still
    assert not alone, "\n".join(map(str, seen))


@pytest.mark.parametrize("one", [one for one in loader_pool.FAULTS if one.fix and one.causes], ids=lambda one: one.name)
def test_the_fix_is_faster(one, tmp_path, album):
    """What a machine that is busy hides for one round shows in the best of some."""
    ratios = []
    for seed in range(TRIES):
        ratios.append(rate(one, tmp_path, album, seed, True) / rate(one, tmp_path, album, seed, False))
        if ratios[-1] > 1.15:
            return
    raise AssertionError(f"{one.name}: fixed is {ratios} times as fast")
