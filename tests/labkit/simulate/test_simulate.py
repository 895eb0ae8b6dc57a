import math

import numpy as np
import pytest
from distributions import uniform
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import again

import labkit
from labkit import Timeline, simulate
from labkit.recording import accelerators
from labkit.simulate import Costs, Knobs, Model
from labkit.simulate.draws import DrawnCosts
from labkit.timeline.trace import CATEGORIES

STAGES = {"open": 2, "read": 1, "map": {"decode": 3, "resize": 1}, "batch": 2, "copy": 1, "train": 20}


def step_ms(costs, knobs, steps=12, warmup=12):
    trace = simulate.run(costs, knobs, steps=steps, warmup=warmup)
    start, end = trace.run.window_ns
    return (end - start) / 1e6 / steps


def durations(trace, name):
    return trace.duration_ns[trace.select(name=name)]


whole_ms = st.integers(0, 9)
some_costs = st.builds(
    lambda o, r, d, z, b, c, t: Costs(open=o, read=r, map={"decode": d, "resize": z}, batch=b, copy=c, train=t),
    *[whole_ms] * 5, st.integers(0, 20), st.integers(1, 60),
)  # fmt: skip
some_knobs = st.builds(
    Knobs, batch_size=st.integers(1, 6), cores=st.integers(1, 4), map_calls=st.integers(1, 6),
    cycle_length=st.integers(1, 5), threads=st.one_of(st.none(), st.integers(1, 6)), prefetch=st.integers(0, 3),
    cache_hit=st.sampled_from([0.0, 0.3, 1.0]), latency_ms=st.sampled_from([0.0, 3.0]),
    bandwidth_mb_s=st.sampled_from([None, 20.0]), accelerators=st.integers(1, 3), deterministic=st.booleans(),
    core_gain=st.sampled_from([1.0, 0.7]), map_batches=st.booleans(),
)  # fmt: skip


# -- closed forms --------------------------------------------------------------------


def test_without_prefetch_a_step_is_the_sum_of_all_costs_to_the_nanosecond():
    trace = simulate.run(Costs(**STAGES), Knobs(batch_size=8), steps=5)
    step_ns = 8 * (2 + 1 + 3 + 1) * 10**6 + (2 + 1 + 20) * 10**6
    assert trace.run.window_ns == (0, 5 * step_ns)
    assert np.diff(trace.end_ns[trace.select("train")]).tolist() == [step_ns] * 4


@pytest.mark.long
@given(some_costs, some_knobs)
@settings(max_examples=60)
def test_no_pipeline_is_faster_than_the_least_of_its_limits(costs, knobs):
    bound = min(simulate.limits(costs, knobs).values())
    images = knobs.batch_size * knobs.accelerators
    # The work ahead before the window, and the share of hits in it, may differ a little.
    ahead = (knobs.prefetch + 2) * knobs.batch_size + 3 * knobs.cycle_length
    ahead += knobs.map_calls * (knobs.batch_size if knobs.map_batches else 1)
    slack = 1 + (ahead + 0.1 * 40 * images * (0 < knobs.cache_hit < 1)) / (40 * images)
    assert images / step_ms(costs, knobs, steps=40) * 1e3 <= bound * slack * 1.0001


@pytest.mark.parametrize(
    ("costs", "knobs", "limit"),
    [
        ({"read": 6, "map": 1, "train": 40}, {"cycle_length": 2, "prefetch": 2}, "fetch"),
        ({"read": 6, "map": 1, "train": 40}, {"cycle_length": 8, "prefetch": 2}, "accelerator"),
        ({"read": 1, "map": 8, "train": 40}, {"cycle_length": 2, "prefetch": 2, "map_calls": 2}, "prep"),
        ({"map": 8, "train": 40}, {"cores": 2, "threads": 6, "map_calls": 6, "prefetch": 2}, "cores"),
        ({"map": 1, "batch": 90, "train": 40}, {"map_calls": 16, "cores": 8, "prefetch": 2}, "batching"),
        ({"read": 0, "map": 1, "train": 10}, {"bandwidth_mb_s": 50, "cycle_length": 4, "prefetch": 2}, "storage"),
    ],
)
def test_with_buffers_the_speed_is_the_least_of_fetch_prep_and_accelerator(costs, knobs, limit):
    costs, knobs = Costs(**costs), Knobs(batch_size=16, **knobs)
    bounds = simulate.limits(costs, knobs)
    assert math.isclose(16e3 / step_ms(costs, knobs), min(bounds.values()), rel_tol=0.02)
    assert math.isclose(bounds[limit], min(bounds.values()))
    assert simulate.Model(costs, knobs).predict().limit in [b for b in bounds if bounds[b] == bounds[limit]]


@pytest.mark.parametrize(
    ("costs", "knobs", "changes"),
    [
        ({"open": 30, "train": 0.1}, {"batch_size": 1}, {"cycle_length": 64, "prefetch": 1}),
        ({"open": 30, "train": 0.5}, {"batch_size": 8}, {"cycle_length": 256, "prefetch": 1}),
        ({"open": 30, "train": 0.1}, {"batch_size": 1, "accelerators": 2}, {"cycle_length": 24, "prefetch": 4}),
    ],
)
def test_a_forecast_for_files_that_come_in_bursts_has_the_rate_of_all(costs, knobs, changes):
    model = Model(Costs(**costs), Knobs(**knobs))
    bound = min(simulate.limits(model.costs, model.knobs.changed(**changes)).values())
    assert math.isclose(model.predict(**changes).images_per_s, bound, rel_tol=0.02)


# -- conservation ---------------------------------------------------------------------


@given(some_costs, some_knobs, st.integers(0, 3))
@settings(max_examples=60)
def test_every_image_is_read_mapped_and_trained_once(costs, knobs, seed):
    steps, each = 5, knobs.batch_size * knobs.accelerators
    draws = DrawnCosts(costs, knobs, 40 * each + 200 * knobs.batch_size, 40 * knobs.accelerators + 200, seed)
    run = draws.run(steps)
    assert len(set(run.arrived)) == len(run.arrived) >= steps * each
    trained = [batch for batches, *_ in run.taken for batch in batches]
    for work in draws.mapped:
        arrived = trained if knobs.map_batches and work in draws.map else run.arrived
        taken = {element: end - start for _, element, start, end in work.rows if end < run.clock.now}
        assert len({row[1] for row in work.rows}) == len(work.rows)
        assert {element for element in arrived if work.cost_ns(element)} <= {row[1] for row in work.rows}
        assert all(ns >= work.cost_ns(element) - 1e-3 for element, ns in taken.items())
    if knobs.deterministic:
        assert run.arrived == list(range(len(run.arrived)))


@given(some_costs, some_knobs)
@settings(max_examples=40)
def test_no_thread_does_two_things_at_once(costs, knobs):
    trace = simulate.run(costs, knobs, steps=4)
    for number, thread in enumerate(trace.threads):
        nodes = trace.select("iterator") | trace.select("batch")  # a node's span holds what goes on inside it
        mine = trace.where((trace.thread == number) & ~nodes & (trace.duration_ns > 0))
        order = np.argsort(mine.start_ns, kind="stable")
        start, end = mine.start_ns[order], mine.end_ns[order]
        assert (start[1:] >= end[:-1]).all(), thread


@given(some_knobs, st.integers(0, 5))
@settings(max_examples=40)
def test_cores_give_each_operation_what_it_costs_and_no_more_than_there_is(knobs, seed):
    costs = Costs(read=1, map={"decode": uniform(1, 5), "resize": 1}, train=10)
    trace = simulate.run(costs, knobs, steps=4, seed=seed)
    work = trace.where(trace.select("decode") | trace.select("resize"))
    edges = np.unique(np.r_[work.start_ns, work.end_ns])
    running = np.array([((work.start_ns <= a) & (work.end_ns > a)).sum() for a in edges[:-1]])
    speed = np.array([knobs.capacity(int(n)) / n if n else 0.0 for n in running])
    assert (running * speed <= knobs.cores + 1e-9).all()
    given_ns = np.r_[0, np.cumsum(np.diff(edges) * speed)]
    got = given_ns[np.searchsorted(edges, work.end_ns)] - given_ns[np.searchsorted(edges, work.start_ns)]
    inside = work.end_ns < trace.run.window_ns[1]
    resized = inside & work.select("resize")
    assert np.abs(got[resized] - 1e6).max(initial=0) < 50
    assert (got[inside & work.select("decode")] <= 5e6 + 50).all()


def test_work_beyond_the_cores_is_slowed_down_and_sleep_is_not():
    knobs = Knobs(batch_size=4, cores=1, threads=4, map_calls=4, prefetch=2)
    busy = simulate.run(Costs(map={"decode": 5}, train=1), knobs)
    idle = simulate.run(Costs(map={"decode": 5}, train=1, sleeps=("decode",)), knobs)
    assert durations(busy, "decode")[8:40].tolist() == [20_000_000] * 32
    assert set(durations(idle, "decode")[:40].tolist()) == {5_000_000}


def test_what_a_core_adds_is_what_is_stated():
    costs, knobs = Costs(map=4, train=1), Knobs(batch_size=8, cores=4, map_calls=4, prefetch=2)
    full, less = step_ms(costs, knobs), step_ms(costs, knobs.changed(core_gain=0.5))
    assert math.isclose(less / full, 4 / 2.5, rel_tol=1e-3)


def test_reads_of_one_instant_share_the_bandwidth():
    costs = Costs(map=0, train=1)
    alone = simulate.run(costs, Knobs(batch_size=4, bandwidth_mb_s=100, image_kb=500))
    shared = simulate.run(costs, Knobs(batch_size=4, bandwidth_mb_s=100, image_kb=500, cycle_length=4, prefetch=1))
    assert set(durations(alone, "read").tolist()) == {5_000_000}
    assert durations(shared, "read")[0] == 20_000_000


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_hit_is_neither_opened_nor_read_yet_mapped(share):
    trace = simulate.run(Costs(**STAGES), Knobs(batch_size=32, cache_hit=share, latency_ms=1), steps=8)
    assert len(durations(trace, "decode")) == 256
    assert len(durations(trace, "read")) == len(durations(trace, "open")) == round(256 * (1 - share))


@pytest.mark.parametrize("prefetch", [0, 2])
def test_mapping_whole_batches_takes_the_time_of_batching_and_is_map_work(prefetch):
    costs, knobs = Costs(read=1, map={"call": 3, "work": 5}, batch=2, train=4), Knobs(batch_size=8, prefetch=prefetch)
    trace = simulate.run(costs, knobs.changed(map_batches=True), steps=6, warmup=3)
    assert step_ms(costs, knobs.changed(map_batches=True)) == step_ms(Costs(read=1, batch=2 + 3 + 5, train=4), knobs)
    assert Timeline(trace).per_image_ms["map"] == pytest.approx((3 + 5) / 8, rel=0.2)
    assert set(durations(trace, "work").tolist()) == {5_000_000}
    assert trace.run.graph[-2:] == (f"{trace.run.graph[-3]}::BatchV2", f"{trace.run.graph[-3]}::BatchV2::Map")
    assert simulate.fit(trace).costs.mean_ms["batch"] == pytest.approx(10, rel=0.05)


def test_accelerators_step_together_each_with_a_batch_of_its_own():
    trace = simulate.run(Costs(map=1, train=50), Knobs(batch_size=8, accelerators=3, prefetch=4), steps=6, warmup=3)
    timeline = Timeline(trace)
    assert timeline.images == 6 * 3 * 8
    assert timeline.step_ms == 50
    kernels = trace.where(trace.select("kernel", kind="device"))
    assert sorted({trace.threads[t].name for t in kernels.thread}) == [f"accelerator {n}" for n in (1, 2, 3)]
    assert len(kernels) == 18


# -- more is never slower, with constant costs ------------------------------------------


def test_one_straggler_holds_up_those_in_order_and_not_the_others():
    costs = Costs(read=simulate.stragglers(1, 60, 0.05), map=0.5, train=5)
    knobs = Knobs(batch_size=16, cycle_length=8, map_calls=2, prefetch=2)
    ordered, free = (step_ms(costs, knobs.changed(deterministic=d), steps=30) for d in (True, False))
    assert free < 0.8 * ordered
    arrived = DrawnCosts(costs, knobs.changed(deterministic=False), 4096, 256, 0).run(30).arrived
    assert arrived != sorted(arrived)


# -- one seed, one trace -----------------------------------------------------------------


def test_costs_that_are_drawn_do_not_depend_on_the_knobs():
    costs = Costs(map={"decode": simulate.lognormal(3, 0.5)}, train=5)
    alone = simulate.run(costs, Knobs(batch_size=4), steps=8)
    crew = simulate.run(costs, Knobs(batch_size=4, cores=8, map_calls=8, prefetch=2), steps=8)
    assert sorted(durations(alone, "decode")[:8]) == sorted(durations(crew, "decode")[:8])


def test_samples_of_a_trace_are_drawn_as_they_are():
    measured = np.array([1.0, 2.0, 7.0])
    drawn = durations(simulate.run(Costs(map={"decode": measured}, train=1), Knobs(), steps=8), "decode")
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [1_000_000, 2_000_000, 7_000_000]
    assert counts.min() >= 84


@pytest.mark.parametrize("values", [simulate.lognormal(3, 0.5), simulate.lognormal(3, 2)])
def test_distributions_have_the_mean_that_they_state_and_rise(values):
    assert math.isclose(values.mean(), 3, rel_tol=1e-12)
    assert (np.diff(values) >= 0).all()
    assert math.isclose(simulate.lognormal(3, 0.5).std(), 1.5, rel_tol=0.02)


# -- an ordinary trace ---------------------------------------------------------------------


def test_a_simulation_is_a_modelled_trace_with_the_assumptions_on_it(tmp_path):
    trace = simulate.run(Costs(**STAGES), Knobs(map_calls=2, prefetch=2), steps=6, name="a plan")
    assert trace.run.origin == "modelled"
    assert {t.kind for t in trace.threads} == {"consumer", "pipeline", "device"}
    categories = {CATEGORIES[c] for c in np.unique(trace.category)}
    assert categories == {"wait", "train", "read", "decode", "resize", "batch", "iterator", "copy"}
    assert len(trace.run.assumptions) >= 8
    assert all(text.endswith(".") for text in trace.run.assumptions)
    again = labkit.Trace.load(trace.save(tmp_path / "a.json"))
    assert again.run == trace.run
    text = str(Timeline(trace))
    assert "modelled" in text
    assert "a plan" in text


@pytest.mark.parametrize(
    ("changes", "knobs", "cause", "blame"),
    [
        ({"read": 9}, {"prefetch": 2}, "fetch", "read"),
        ({"open": 20}, {"prefetch": 2, "cycle_length": 4}, "fetch", "open"),
        ({"map": {"decode": 9, "resize": 1}}, {"prefetch": 2, "map_calls": 2}, "prep", "decode"),
        ({"batch": 400}, {"prefetch": 2}, "batch", "BatchV2"),
        ({"copy": 300, "train": 300}, {"prefetch": 2}, "copy", "copy"),
        ({"train": 500}, {"prefetch": 2}, None, None),
    ],
)
def test_the_cause_of_a_planted_bottleneck_is_named_in_a_modelled_trace(changes, knobs, cause, blame):
    stalls = Timeline(simulate.run(Costs(**STAGES | changes), Knobs(**knobs), warmup=3)).stalls
    assert (stalls.cause, stalls.blame) == (cause, blame)


# -- models ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"prefetch": 2},
        {"prefetch": 2, "map_calls": 2},
        {"prefetch": 2, "map_calls": 8, "cores": 8},
        {"prefetch": 2, "train": 150},
        {"prefetch": 2, "accelerators": 2, "map_calls": 4, "cores": 4},
        {"cache_hit": 1.0},
        {"latency_ms": 10},
        {"batch_size": 16},
    ],
)
def test_a_naive_run_tells_what_another_machine_or_pipeline_would_do(changes):
    costs = Costs(open=2, read=1, map={"decode": simulate.lognormal(3, 0.4), "resize": 1}, batch=2, copy=1, train=40)
    known = Model(costs, Knobs())
    fitted = simulate.fit(known.run(16))
    assert math.isclose(fitted.predict(**changes).step_ms, known.predict(**changes).step_ms, rel_tol=0.04)


def test_a_model_says_what_it_found_and_what_it_assumes():
    model = simulate.fit(simulate.run(Costs(**STAGES), Knobs(prefetch=2), name="photos"))
    text = str(model)
    assert "Model of 'photos'" in text
    assert "modelled, not measured" in text
    assert "decode 3" in text
    assert "assumed:" in text
    assert all(assumption in text for assumption in model.run(3).run.assumptions)
    assert repr(model) == text
    assert " at 0x" not in text
    assert "images/s" in str(model.predict(map_calls=2))


def test_costs_are_shared_out_among_threads_that_shared_the_cores():
    crowded = Knobs(batch_size=16, cores=2, threads=6, map_calls=6, prefetch=2)
    model = simulate.fit(simulate.run(Costs(map={"decode": 4}, train=5), crowded, steps=16, warmup=2))
    assert math.isclose(model.costs.mean_ms["decode"], 4, rel_tol=0.03)


@pytest.mark.alone
def test_a_model_of_a_recorded_run_knows_its_pipeline_and_repeats_it():
    """What it predicts of another pipeline is measured by ``benchmarks/prediction.py``."""
    import tensorflow as tf

    from labkit.sources import photos, storage

    far = storage.Storage("far", 10, math.inf, "chosen for this test")

    def small(path, label):
        return tf.image.resize(tf.io.decode_jpeg(far.read(path), channels=3, ratio=8), [16, 16]), label

    files, fast = photos.load(scale="tiny").files().repeat(), accelerators.modelled(step_ms=5)
    for calls in (None, 1):
        mapped = labkit.plain(files.map(small, num_parallel_calls=calls).batch(8))
        for _ in again(3):
            trace = labkit.record(mapped, fast, steps=4, progress=False)
            model = simulate.fit(trace)
            if 0.7 < (share := model.predict().step_ms / Timeline(trace).step_ms) < 1.4:
                break
        assert (model.knobs.batch_size, model.knobs.map_calls) == (8, 1), "a parallel map of one call is not two"
        assert (model.knobs.prefetch == 0) or calls
        assert model.costs.sleeps == ("read",)
        assert 0.7 < share < 1.4


# -- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Costs(), "costs are all 0"),
        (lambda: Costs(read=-1), "cost read is -1; allowed: milliseconds from 0"),
        (lambda: Costs(map={"read": 1}), "map has an operation 'read'"),
        (lambda: Costs(batch=[[1, 2]]), "cost batch is .* one-dimensional"),
        (lambda: Costs(train=1, sleeps=("train it",)), "sleeps names 'train it'; allowed: open, read, map, batch"),
        (lambda: Knobs(batch_size=0), "batch_size is 0; allowed: a whole number from 1 to 65,536"),
        (lambda: Knobs(bandwidth_mb_s=0), "bandwidth_mb_s is 0; .* or None for no limit"),
        (lambda: Knobs(deterministic="yes"), "deterministic is 'yes'"),
        (lambda: Knobs().changed(coers=2), "there is no knob 'coers'; allowed: batch_size, cores"),
        (lambda: Model(Costs(train=1)).predict(trian=2), "there is no knob or cost 'trian'"),
        (lambda: simulate.run(Costs(train=1), steps=0), "steps is 0; allowed: a whole number of 1 or more"),
        (lambda: simulate.lognormal(3, 9), "spread is 9; allowed: a number from 0 to 5"),
    ],
)
def test_bad_input_is_one_sentence_that_names_it(make, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        make()
    assert "\n" not in str(error.value)


def test_only_costs_knobs_and_traces_are_taken():
    with pytest.raises(TypeError, match=r"costs is a dict; allowed: simulate\.Costs"):
        simulate.run({"train": 1})
    with pytest.raises(TypeError, match="trace is a str; allowed: a Trace"):
        simulate.fit("run.json")
    empty = simulate.run(Costs(train=1))
    with pytest.raises(ValueError, match="accelerators is 0; allowed: a whole number from 1 to 4,096"):
        simulate.fit(empty.with_run(knobs={"accelerators": 0}))
    with pytest.raises(ValueError, match="nothing to fit"):
        simulate.fit(empty.where(~empty.select("train")))
