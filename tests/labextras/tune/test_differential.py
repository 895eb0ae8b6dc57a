"""The differential method: three real runs, the split of one, and what explains that they differ."""

from __future__ import annotations

import time

import numpy as np
import planted
import pytest
import tensorflow as tf
from hypothesis import given
from repeats import again
from test_causes import many, traces, train, wait, walk

from labcourse import ladder
from labextras.tune import diagnosis
from labextras.tune.differential import AGREE, Differential
from labkit import simulate
from labkit.pipelines import options
from labkit.recording import accelerators
from labkit.recording.recorder import RecordingError
from labkit.sources import storage
from labkit.timeline.timeline import Timeline

FAR = storage.Storage("differential: far", 5, float("inf"), "planted")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return planted.Files(tmp_path_factory.mktemp("planted"))


# -- one run ---------------------------------------------------------------------------


@many
@given(traces())
def test_the_shares_of_one_run_add_up_and_none_is_negative(trace):
    split = Timeline(trace).split
    assert split.ingestion + split.prep_stall + split.fetch_stall == pytest.approx(1)
    assert min(vars(split).values()) >= 0


def repeated(steps: int, period: float, spans: list) -> Timeline:
    """Return a timeline of equal steps: (thread, category, start, end) within the period, ms."""
    rows = []
    for i in range(steps):
        for thread, name, category, a, b in spans:
            rows.append((thread, name, category, a + i * period, b + i * period))
    return walk(*rows, warmup=1)


def test_without_overlap_each_stall_is_what_its_work_takes():
    timeline = repeated(6, 20, [wait(0, 10), train(10, 20), ("w", "r", "read", 0, 6), ("w", "d", "decode", 6, 10)])
    assert vars(timeline.split) == pytest.approx({"ingestion": 0.5, "prep_stall": 0.2, "fetch_stall": 0.3})


def test_reads_that_the_accelerator_hides_are_a_fetch_stall_where_prep_alone_would_be_hidden():
    # One thread reads for 10 ms, while the step before it trains, and then decodes for 10 ms.
    timeline = repeated(6, 20, [train(0, 10), wait(10, 20), ("w", "r", "read", 0, 10), ("w", "d", "decode", 10, 20)])
    assert timeline.stalls.shares["prep"] == pytest.approx(0.5)
    assert timeline.stalls.shares["fetch"] == 0
    assert vars(timeline.split) == pytest.approx({"ingestion": 0.5, "prep_stall": 0.0, "fetch_stall": 0.5})


@pytest.mark.parametrize("category", ["decode", "transfer"])
def test_work_in_a_thread_of_its_own_stays_when_the_reads_are_gone(category):
    # The reader is the longer stage: 20 ms; the other's 15 ms are hidden behind it, the accelerator takes 5.
    spans = [train(0, 5), wait(5, 20), ("reader", "r", "read", 0, 20), ("other", "o", category, 1, 16)]
    timeline = repeated(8, 20, spans)
    assert timeline.split.ingestion == pytest.approx(0.25, abs=0.02)
    assert timeline.split.prep_stall == pytest.approx(0.5, abs=0.02)
    assert timeline.split.fetch_stall == pytest.approx(0.25, abs=0.02)


def test_the_way_between_processes_is_a_prep_stall():
    moved = [("w", "pickle", "transfer", 2, 6), ("consumer", "unpickle", "transfer", 6, 10)]
    timeline = repeated(6, 20, [wait(0, 10), train(10, 20), ("w", "r", "read", 0, 2), *moved])
    assert vars(timeline.split) == pytest.approx({"ingestion": 0.5, "prep_stall": 0.4, "fetch_stall": 0.1})


def test_a_run_of_one_step_is_not_split():
    assert vars(walk(wait(0, 1), train(1, 2)).split) == {"ingestion": 1.0, "prep_stall": 0.0, "fetch_stall": 0.0}


COSTS = simulate.Costs(open=1, read=1, map={"decode": 4, "resize": 1}, batch=2, copy=1, train=40)


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"prefetch": 2},
        {"prefetch": 2, "map_calls": 2},
        {"prefetch": 2, "map_calls": 2, "latency_ms": 5.0},
        {"prefetch": 2, "map_calls": 8, "latency_ms": 5.0, "threads": 16},
        {"prefetch": 2, "map_calls": 8, "cores": 8, "latency_ms": 30.0},
        {"prefetch": 4, "map_calls": 8, "cores": 16},
    ],
)
def test_one_modelled_run_and_three_agree_where_nothing_is_noise(knobs):
    def step_ns(costs, **changes):
        trace = simulate.run(costs, simulate.Knobs(**{**knobs, **changes}), steps=30)
        return np.diff(trace.end_ns[trace.select("train", kind="consumer")])[5:].mean()

    stages = {"open": 0, "read": 0, "map": COSTS.map, "batch": 2, "copy": 1, "train": 40}
    cold = step_ns(COSTS)
    warm = step_ns(simulate.Costs(**stages), latency_ms=0.0)
    fast = step_ns(simulate.Costs(**stages | {"map": 0, "batch": 0}), latency_ms=0.0)
    three = (fast / cold, (warm - fast) / cold, (cold - warm) / cold)
    one = Timeline(simulate.run(COSTS, simulate.Knobs(**knobs), steps=30)).split
    assert tuple(vars(one).values()) == pytest.approx(three, abs=AGREE)


# -- three runs --------------------------------------------------------------------------


def sequential(files):
    def build(read):
        mapped = planted.paths(files.small).map(lambda path: ladder.decode(read(path)))
        return options.plain(mapped.batch(planted.BATCH))

    return build


def overlapped(files):
    def build(read):
        mapped = planted.paths(files.small).map(lambda path: ladder.decode(read(path)))
        return options.plain(mapped.batch(planted.BATCH).prefetch(2))

    return build


def prepared(files):
    """Reading is quick; a Python function holds each photo for 4 ms, asleep, so that a busy machine does not matter."""

    def slow(jpeg: bytes) -> np.ndarray:
        time.sleep(0.004)
        return np.frombuffer(jpeg[:64], np.uint8)

    def build(read):
        def prepare(path):
            return tf.ensure_shape(tf.numpy_function(slow, [read(path)], tf.uint8), [64])

        return options.plain(planted.paths(files.small).map(prepare).batch(planted.BATCH).prefetch(2))

    return build


def agreeing(build, accelerator, model, **more) -> Differential:
    """Return the closest of up to five tries: a machine that is busy elsewhere hits the three runs unequally."""
    tries = []
    for _ in again(5):
        tries.append(diagnosis.differential(build, accelerator, storage=model, steps=10, **more))
        if tries[-1].difference <= AGREE:
            break
    return min(tries, key=lambda result: result.difference)


@pytest.mark.alone
@pytest.mark.parametrize(
    ("build", "step_ms", "main"),
    [(sequential, 20, "fetch_stall"), (overlapped, 15, "fetch_stall"), (prepared, 10, "prep_stall")],
)
def test_one_run_and_three_agree_within_five_points(files, build, step_ms, main):
    model = FAR if main == "fetch_stall" else storage.Storage("differential: near", 0.2, float("inf"), "planted")
    result = agreeing(build(files), accelerators.modelled(step_ms=step_ms), model, rounds=1)
    assert result.difference <= AGREE, result
    assert max(("prep_stall", "fetch_stall"), key=lambda stall: getattr(result.three, stall)) == main
    assert sum(vars(result.three).values()) == pytest.approx(1)
    assert result.step_ms["synthetic"] <= 1.5 * result.step_ms["cold"]


@pytest.mark.alone
def test_an_accelerator_that_is_the_limit_has_no_stall(files):
    result = agreeing(overlapped(files), accelerators.modelled(step_ms=80), storage.PRESETS["NVMe"], rounds=1)
    assert result.three.ingestion > 0.85
    assert result.three.fetch_stall < 0.1


@pytest.mark.alone
def test_real_files_are_dropped_before_a_cold_run_and_read_before_a_warm_one(files):
    dataset = sequential(files)(tf.io.read_file)
    result = diagnosis.differential(
        dataset, accelerators.modelled(step_ms=5), paths=files.small, steps=2, warmup=1, rounds=2, name="real files"
    )
    assert "24 real files" in result.source
    assert result.rounds == 2
    assert "real files" in str(result)


# -- words ---------------------------------------------------------------------------------


def example(three, one, waited_prep=0.0, waited_fetch=0.5) -> Differential:
    from labkit.timeline.causes import Split

    rest = 1 - three[0] - waited_prep - waited_fetch
    timeline = walk(wait(0, 100 * (waited_fetch + waited_prep + rest)), train(100 * (1 - three[0]), 100),
                    ("w", "r", "read", 0, 100 * waited_fetch),
                    ("w", "d", "decode", 100 * waited_fetch, 100 * (waited_fetch + waited_prep)))  # fmt: skip
    steps = {"synthetic": 10.0, "in memory": 15.0, "cold": 20.0}
    return Differential("a <pipeline>", "an accelerator", "far", steps, Split(*three), Split(*one), timeline.stalls, 1)


def test_agreement_is_said_and_a_difference_is_explained():
    same = example((0.5, 0.0, 0.5), (0.48, 0.02, 0.5))
    assert "agree within 5 percentage points" in str(same)
    masked = example((0.5, 0.0, 0.5), (0.5, 0.0, 0.5), waited_prep=0.4, waited_fetch=0.1)
    assert "Masked time" in str(masked)
    unmasked = example((0.25, 0.5, 0.25), (0.25, 0.5, 0.25), waited_fetch=0.75)
    assert "Unmasked time" in str(unmasked)
    apart = example((0.5, 0.0, 0.5), (0.5, 0.2, 0.3))
    assert apart.difference == pytest.approx(0.2)
    assert "differ by 20 percentage points" in str(apart)


def test_text_and_table_hold_the_same_figures_and_escape_names():
    result = example((0.5, 0.0, 0.5), (0.48, 0.02, 0.5))
    page = result._repr_html_()
    assert "a &lt;pipeline&gt;" in page
    for _, *cells in result.table().rows:
        for cell in cells:
            assert cell in str(result)
            assert cell.replace("<", "&lt;").replace(">", "&gt;") in page
    assert repr(result) == str(result)


@pytest.mark.parametrize(
    ("pipeline", "more", "words"),
    [
        (lambda read: None, {}, "exactly one of storage="),
        (lambda read: None, {"storage": "floppy"}, "storage is 'floppy'; allowed: page cache"),
        (lambda: None, {"storage": "HDD"}, "takes no argument"),
        (7, {"storage": "HDD"}, "pipeline is of type int"),
        (lambda read: None, {"storage": "HDD", "rounds": 0}, "rounds is 0; allowed"),
        (lambda read: None, {"paths": ["/no/such/file"]}, "/no/such/file does not exist"),
        (lambda read: 3, {"storage": "HDD"}, "int"),
    ],
)
def test_bad_input_gets_one_sentence(pipeline, more, words):
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=words):
        diagnosis.differential(pipeline, accelerators.modelled(step_ms=5), **more)


def test_a_pipeline_that_is_empty_or_fails_is_refused_as_record_refuses_it():
    names = tf.data.Dataset.from_tensor_slices(["/no/such/file"] * 4)
    for dataset, words in ((names.take(0), "the pipeline is empty"), (names, "/no/such/file")):
        with pytest.raises((ValueError, RecordingError), match=words):
            diagnosis.differential(
                lambda read, paths=dataset: paths.map(read).batch(2), accelerators.modelled(step_ms=5), storage="HDD"
            )


def test_a_finished_dataset_cannot_be_given_another_storage():
    with pytest.raises(ValueError, match="allowed: a function of read"):
        diagnosis.differential(tf.data.Dataset.range(3), accelerators.modelled(step_ms=5), storage="HDD")
