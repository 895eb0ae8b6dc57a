"""Pipelines that nobody planted for the tool: what it must say of each, and what it must not say."""

from __future__ import annotations

import re
from collections import Counter

import outside
import pool
import pytest
import tensorflow as tf
from uncrowded import uncrowded

from labkit.common import other_programs
from labkit.recording import accelerators, recorder, work
from labkit.timeline.timeline import Timeline

TRIES = 4
NAMES = [one.name for one in outside.EVERY]
#: Recordings take long: of the second pool every third kind is recorded here, and all by ``benchmarks/diagnosis.py``.
RECORDED = [*pool.FAULTS, *outside.FAULTS[::3]]


def test_there_are_seventy_kinds_in_two_pools_and_some_have_no_fault():
    assert min(len(pool.FAULTS), len(outside.FAULTS)) >= 30
    assert len(NAMES) >= 70
    assert not [name for name, count in Counter(NAMES).items() if count > 1]
    assert sum(not one.causes for one in outside.EVERY) >= 8


def test_what_tensorflow_repairs_itself_is_right_under_its_default_options_only():
    repaired = [one for one in outside.EVERY if one.itself]
    assert {one.itself for one in repaired} == set(pool.ITSELF)
    for one in repaired:
        assert one.under("plain") is one
        assert one.under("defaults").causes >= one.causes
        assert not one.under("defaults").fix


@pytest.mark.sample(1)
@pytest.mark.parametrize("one", outside.EVERY, ids=NAMES)
def test_a_fault_and_its_fix_deliver_as_many_elements(one, tmp_path, album):
    tallies, kinds = [], []
    for fixed in (False, True):
        tally, dataset = work.Tally(), one.build(1, tmp_path, album, fixed)
        for batch in dataset.take(2):
            tally.add(batch)
        tallies.append(tally.work())
        kinds.append([(spec.dtype, spec.shape.rank) for spec in tf.nest.flatten(dataset.element_spec)])
    assert tallies[0].images == tallies[1].images > 0
    assert kinds[0] == kinds[1] or one.name in outside.OTHER_TYPES


@pytest.mark.long
@pytest.mark.parametrize("one", outside.EVERY, ids=NAMES)
def test_a_seed_draws_the_same_pipeline_and_another_seed_another_one(one, tmp_path, album):
    def drawn(seed, folder):
        (tmp_path / folder).mkdir(exist_ok=True)
        dataset = one.build(seed, tmp_path / folder, album)
        shapes = [tuple(array.shape) for array in tf.nest.flatten(next(iter(dataset)))]
        return shapes, pool.Draw(f"{one.name} {seed}", tmp_path, album).random()

    assert drawn(1, "a") == drawn(1, "b")
    assert drawn(1, "a")[1] != drawn(2, "a")[1]


@pytest.mark.long
@pytest.mark.parametrize("options", pool.OPTIONS)
@pytest.mark.parametrize("one", RECORDED, ids=[one.name for one in RECORDED])
def test_the_cause_is_named_and_nothing_that_does_not_help(one, options, tmp_path, album):
    """A recording may leave the question open, and is then made again, with another seed.

    Advice that does not help is never given where a recording had the cores for itself, nor twice beside other
    programs, where the product would refuse to give advice. Right advice must be given where a recording had the
    cores for itself; how often it is given beside other programs is counted by ``benchmarks/diagnosis.py``.
    """
    seen, alone, wrong, one = [], False, 0, one.under(options)
    for seed in range(TRIES):
        accelerator = accelerators.modelled(step_ms=one.step_ms)
        with pool.under(options):
            dataset = one.build(seed, tmp_path, album)
        trace = recorder.record(dataset, accelerator, steps=12, warmup=4, progress=False)
        stalls = Timeline(uncrowded(trace)).stalls
        seen.append((stalls.cause, stalls.blame, stalls.advice))
        beside = (trace.run.host.others or 0) >= other_programs.BUSY
        wrong += bool(re.search(one.never, stalls.advice))
        assert wrong < (2 if beside else 1), seen
        right = stalls.cause in one.causes if one.causes else stalls.cause is None
        if right and re.search(one.says, stalls.advice):
            return
        alone |= not beside and not re.search(pool.OPEN, stalls.advice)
    assert not alone, "\n".join(map(str, seen))
