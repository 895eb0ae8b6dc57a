"""The challenge: no remedy wins two jobs, what the clock cannot read is no zero, and a judged answer is handed in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tensorflow as tf
from remedies import NEEDED, REMEDIES, augmented, far_wide, loaded

from labcourse import challenge, fairness, gradebook, grading, handin
from labcourse.challenge.jobs import JOBS, TARGET
from labcourse.fairness.timing import simulate
from labkit.pipelines import memory
from labkit.pipelines.options import naive

EXERCISES = {"far": "09.2", "small": "09.3", "costly": "09.4"}


def busy(name, function):
    return 1 - challenge.clocked(challenge.job(name), function).idle


@pytest.mark.parametrize("name", JOBS)
def test_each_job_needs_its_own_remedy_and_those_of_the_other_jobs_fail(name):
    """Not only because of their memory: on the clock, too."""
    assert sorted(NEEDED.values()) == ["batched", "cached", "wide"]
    guide = busy(name, JOBS[name].guide)
    assert guide < 0.6
    for remedy, function in REMEDIES[name].items():
        wanted = remedy == NEEDED[name]
        assert grading.check(EXERCISES[name], function).passed == wanted, remedy
        reached = busy(name, function)
        assert (reached > 0.95) if wanted else (reached < guide + 0.02), remedy


def every_remedy(files):
    """All three at once, in the job of small records."""
    records = files.interleave(tf.data.TFRecordDataset, cycle_length=16, num_parallel_calls=16)
    return records.batch(256).cache().map(challenge.parse, num_parallel_calls=16).prefetch(2)


def test_all_remedies_together_do_not_win_either():
    assert "no element comes a second time" in grading.check("09.3", every_remedy).hint


def in_two_halves(files):
    return far_wide(files.shard(2, 0)).concatenate(far_wide(files.shard(2, 1)))


def test_what_the_clock_cannot_read_is_inconclusive_and_no_zero(monkeypatch):
    monkeypatch.setattr(gradebook, "session", gradebook.Journal())
    assert gradebook.check("09.2", in_two_halves).status == grading.INCONCLUSIVE
    assert gradebook.session.exercises["09.2"]["tries"] == 0


def in_turn(files):
    small = files.map(loaded).map(lambda image, label: (tf.cast(image, tf.uint8), label))
    return small.cache().map(augmented).batch(32)


def test_of_epochs_under_one_seed_no_cache_is_accused():
    tf.random.set_seed(1)
    try:
        hint = grading.check("09.4", in_turn).hint
    finally:
        tf.random.set_seed(None)
    assert hint.startswith("the photos are augmented alike in both epochs: each epoch draws")
    assert "cache" not in hint


@pytest.mark.parametrize("change", ["unbatch", "repeat"])
def test_what_has_wrong_elements_is_drawn_all_the_same(change):
    shown = grading.show("09.2", lambda files: getattr(far_wide(files), change)())
    assert not isinstance(shown, grading.CheckResult), shown


def test_the_page_for_instructors_says_what_the_guide_reaches():
    page = (Path(__file__).parents[2] / "docs" / "instructors" / "grading.md").read_text(encoding="utf-8")
    shares = [f"{100 * busy(name, this.guide):.0f} %" for name, this in JOBS.items()]
    assert "The guide's pipeline reaches {}, {} and {}.".format(*shares) in page


def test_memory_is_that_of_the_whole_job():
    """A uint8 for each value, a label, and what a cached tensor takes beside its values."""
    one = 224 * 224 * 3 + 8 + 2 * memory.OVERHEAD
    assert challenge.judging.right(challenge.job("costly"), in_turn) == 3_000 * one
    held = challenge.judging.right(challenge.job("costly"), lambda files: in_turn(files).prefetch(4))
    assert held == 3_000 * one + 4 * (32 * (224 * 224 * 3 * 4 + 8) + 2 * memory.OVERHEAD)


@pytest.mark.parametrize("name", JOBS)
def test_the_card_says_the_costs_that_the_clock_counts(name):
    this = challenge.job(name)
    numbers = set(map(float, re.findall(r"[\d.]+(?= ms)", this.clock)))
    assert numbers == {
        cost for k, v in this.costs.items() if k != "parseone" for cost in v.values() if cost is not True
    }
    assert f"{TARGET:.0%}" in repr(this)
    kinds = [spec.dtype for spec in this.guide(this.files(1)).element_spec]
    assert kinds == [tf.float32, tf.int64]
    assert f"batches of {this.batch} pairs" in " ".join(repr(this).split())


def test_one_record_costs_a_call_and_its_work_even_inside_of_map_fn():
    costs = challenge.job("small").costs
    assert costs["parseone"]["ms"] == costs["parse"]["call_ms"] + costs["parse"]["ms"]


def test_a_job_that_is_none_is_refused_with_the_names_of_those_there_are():
    with pytest.raises(ValueError, match=r"job is 'near'; allowed: far, small, costly"):
        challenge.job("near")


# -- measured ----------------------------------------------------------------------------


@pytest.fixture
def session(monkeypatch):
    """A gradebook of a new session, and measurements of one round."""
    monkeypatch.setenv("LABKIT_FAST", "1")
    monkeypatch.setattr(gradebook, "session", gradebook.Journal())
    return gradebook


@pytest.mark.long
@pytest.mark.parametrize("name", JOBS)
def test_a_judged_answer_is_measured_drawn_put_on_the_ladder_and_handed_in(name, session, album, capsys):
    mine = REMEDIES[name][NEEDED[name]]
    assert challenge.judge(name, mine).passed
    said = capsys.readouterr().out
    assert f"speed-up over {name}: guide" in said
    assert f"Timeline of '{name}: mine': measured" in said
    rung = re.compile(r"^ *(guide|try \d+), [\d.]+ [kM]B +accelerator busy", re.MULTILINE)
    assert rung.findall(said) == ["guide", "try 1"]
    assert challenge.judge(name, mine).passed
    assert rung.findall(capsys.readouterr().out) == ["guide", "try 1", "try 2"]
    document = handin.collect()
    (gain,) = document["speedups"]
    assert (gain["name"], gain["over"]) == (f"{name}: mine", f"{name}: guide")
    shares = {run["name"]: run["busy"] for run in document["runs"]}
    assert shares[f"{name}: mine, simulated"] == pytest.approx(busy(name, mine))
    assert set(shares) == {f"{name}: guide", f"{name}: mine", f"{name}: mine, simulated"}


def stub(files): ...  # your code


def without_a_return(files):
    far_wide(files)


@pytest.mark.parametrize(
    ("answer", "status", "word"),
    [
        (None, grading.OPEN, "write your answer"),
        (stub, grading.OPEN, "write your answer"),
        (without_a_return, grading.FAILED, "returns nothing"),
        (lambda files: files, grading.FAILED, "challenge.decode"),
        (REMEDIES["far"]["cached"], grading.FAILED, "second time"),
        (lambda: 0, grading.FAILED, "TypeError"),
        (3, grading.FAILED, "pass the function itself"),
    ],
)
def test_what_cannot_be_measured_gets_a_sentence_and_no_run(answer, status, word, session):
    found = challenge.judge("far", answer)
    assert (found.status, word in found.hint) == (status, True), found
    assert not gradebook.session.runs


# -- the clock ---------------------------------------------------------------------------


def source(threads):
    return tf.data.Dataset.range(24).with_options(naive(threads))


def test_stages_that_share_the_cores_are_no_faster_on_more_threads():
    work = fairness.Stage("work", 5)

    def time(threads, **how):
        made = source(threads).map(work, num_parallel_calls=threads)
        return simulate(made, (work,), 0, cores=2, **how).makespan_ms

    assert time(2, shared=True) == time(8, shared=True) == pytest.approx(24 * 5 / 2)
    assert time(8) == pytest.approx(24 * 5 / 8)


def test_stages_asleep_share_nothing():
    wait = fairness.Stage("wait", 5, asleep=True)
    made = source(8).map(wait, num_parallel_calls=8)
    assert simulate(made, (wait,), 0, cores=2, shared=True).makespan_ms == pytest.approx(24 * 5 / 8)


def test_the_warm_up_counts_neither_as_idle_time_nor_in_the_trace():
    load = fairness.Stage("load", 5)
    kept = source(2).map(load).cache().repeat(3)
    timing = simulate(kept, (load,), 5, warmup=24)
    assert timing.steps == 72
    assert timing.idle == pytest.approx(0)
    assert timing.trace.run.steps == 48
    assert timing.trace.span_ns == pytest.approx(48 * 5e6)
    assert simulate(kept, (load,), 5).idle > 0.2
    with pytest.raises(ValueError, match="not one element"):
        simulate(kept, (load,), 5, warmup=72)


def test_a_file_of_records_in_an_interleave_is_its_records(tmp_path):
    paths = [str(tmp_path / name) for name in "abc"]
    parse = fairness.Stage("parse", 1)
    files = tf.data.Dataset.from_tensor_slices(paths).with_options(naive(2))
    for made in (
        files.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=2),
        tf.data.TFRecordDataset(files),
        tf.data.TFRecordDataset(files, num_parallel_reads=2),
    ):
        counted = made.map(lambda record: parse(tf.strings.length(record))).batch(5)
        assert simulate(counted, (parse,), 1, records=10).steps == 6
