"""Measures: figures follow from the spans, and no verdict without equal work and an effect above the noise."""

from __future__ import annotations

import gc
import math
import re
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.common.table import Table
from labkit.recording import measures
from labkit.recording.accelerators import modelled
from labkit.recording.measures import NO_DIFFERENCE, TOO_BUSY, Measures, UnequalWork, compare_rates
from labkit.timeline.run import Accelerator, Host, Tree
from labkit.timeline.trace import Span, Trace

MS = 1_000_000
T0 = 1_700_000_000 * 10**9
WORK = {
    "steps": 10, "images": 320, "batch_sizes": {"32": 10}, "components": [], "sources": None,
    "labels": {"digest": "1", "count": 320, "histogram": None}, "order": "fixed", "selects": False,
}  # fmt: skip


def run(step_ms=40.0, wait_ms=10.0, steps=10, batch=32, work=None, kernels=None, **meta):
    """Build a trace of `steps` equal steps."""
    spans, at = [], T0
    for i in range(steps):
        wait, step = round(wait_ms * MS), round(step_ms * MS)
        spans.append(Span("consumer", "wait for batch", "wait", at, wait, i))
        spans.append(Span("consumer", "train step", "train", at + wait, step, i))
        for offset, length in kernels or ():
            spans.append(Span("GPU", "conv", "kernel", at + wait + round(offset * MS), round(length * MS), i))
        at += wait + step
    meta = {"origin": "measured", "images": steps * batch, "batch_size": batch, "warmup": 2, "work": work} | meta
    meta.setdefault("window_ns", [T0, at])
    return Trace.from_spans(spans, {"consumer": "consumer", "GPU": "device"}, **meta)


@given(st.floats(1, 100), st.floats(0, 100), st.integers(1, 30), st.integers(1, 64))
def test_figures_are_those_of_the_spans(step_ms, wait_ms, steps, batch):
    found = measures.figures(run(step_ms, wait_ms, steps, batch))
    assert found.images == steps * batch
    assert found.steps == steps
    assert found.train_ms == pytest.approx(step_ms, abs=1e-5)
    assert found.step_ms == pytest.approx(step_ms + wait_ms, abs=1e-5)
    assert found.wait_ms == pytest.approx(wait_ms, abs=1e-5)
    assert found.busy == pytest.approx(step_ms / (step_ms + wait_ms), abs=1e-5)
    assert found.images_per_s * found.seconds == pytest.approx(found.images)
    assert found.seconds * 1e3 == pytest.approx(steps * (step_ms + wait_ms), rel=1e-5)


def test_the_first_batch_is_apart_from_the_steady_state():
    slow_start = run(first_batch_ns=700 * MS)
    assert measures.figures(slow_start).first_batch_ms == 700
    assert measures.figures(slow_start).images_per_s == measures.figures(run()).images_per_s
    assert measures.figures(run()).first_batch_ms is None


def test_a_window_without_warm_up_leaves_its_first_step_out():
    found = measures.figures(run(steps=10, warmup=0))
    assert (found.steps, found.images) == (9, 288)
    assert found.images_per_s == pytest.approx(32 / 0.050)
    assert measures.figures(run(steps=1, warmup=0)).steps == 1


def test_a_real_accelerator_is_busy_while_its_kernels_run():
    kernels = [(0, 10), (5, 10), (25, 5)]  # two overlap: 20 of 50 ms
    assert measures.figures(run(kernels=kernels, accelerator={"kind": "real"})).busy == pytest.approx(0.4)
    assert measures.figures(run(kernels=kernels, accelerator={"kind": "modelled"})).busy == pytest.approx(0.8)
    assert measures.figures(run(accelerator={"kind": "real"})).busy == pytest.approx(0.8)


def test_a_trace_that_says_too_little_is_refused():
    with pytest.raises(ValueError, match="no train step"):
        measures.figures(run(steps=0))
    with pytest.raises(ValueError, match="how many elements"):
        measures.figures(run(images=None, batch_size=None))


# -- verdicts ------------------------------------------------------------------


def draws(rng, rate, noise, rounds=5):
    return rate * np.exp(rng.normal(0, noise, rounds))


def measured(mine, base):
    """Return the speed-up at which a measurement ends that looks at more and more of its rounds."""
    for count in measures.looks(5, 11):
        found = compare_rates(mine[:count], base[:count])
        if found.decided:
            break
    return found


@pytest.mark.long
@pytest.mark.parametrize("draw", ["normal", "heavy tails"])
def test_equal_pipelines_are_called_different_in_one_run_of_twenty_at_most(draw):
    """Each look at the same rounds is another chance to be wrong, and the promise is about all of them together."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.05, (2, 2000, 11)) if draw == "normal" else 0.05 * rng.standard_t(3, (2, 2000, 11))
    verdicts = [measured(mine, base).verdict for mine, base in zip(*np.exp(noise), strict=True)]
    assert verdicts.count("faster") + verdicts.count("slower") <= 0.05 * 2000


def test_equal_pipelines_on_a_quiet_machine_are_called_equal():
    rng = np.random.default_rng(2)
    verdicts = [measured(draws(rng, 300, 0.01, 11), draws(rng, 300, 0.01, 11)).verdict for _ in range(300)]
    assert verdicts.count(NO_DIFFERENCE) >= 0.94 * 300


def test_a_true_difference_of_one_half_is_found_in_ten_percent_noise():
    rng = np.random.default_rng(2)
    verdicts = [measured(draws(rng, 450, 0.1, 11), draws(rng, 300, 0.1, 11)).verdict for _ in range(300)]
    assert verdicts.count("faster") >= 0.95 * 300
    assert "slower" not in verdicts


@given(st.lists(st.tuples(st.floats(1, 1e4), st.floats(1, 1e4)), min_size=5, max_size=5))
def test_five_rounds_give_a_verdict_only_where_all_of_them_point_its_way(pairs):
    """This is the rule of exercise 01.3, and the interval asks for more."""
    mine, base = zip(*pairs, strict=True)
    verdict = compare_rates(mine, base).verdict
    if verdict in ("faster", "slower"):
        assert all(m > b if verdict == "faster" else m < b for m, b in pairs)


def test_what_is_undecided_is_said_in_rounds():
    assert compare_rates([2, 2, 2], [1, 1, 1]).verdict == "3 of 3 rounds faster, too few to be sure"
    assert compare_rates([1, 1, 3, 1], [2, 2, 2, 2]).verdict == "3 of 4 rounds slower, too few to be sure"
    noisy = [1.3, 1.2, 0.8, 1.1, 1.4, 0.9, 1.2, 0.7, 1.1, 1.2, 0.9]
    assert compare_rates(noisy, [1.0] * 11).verdict == "7 of 11 rounds faster: undecided"
    assert not compare_rates(noisy, [1.0] * 11).decided


@given(st.integers(1, 30), st.integers(0, 60))
def test_a_measurement_looks_first_at_its_rounds_last_at_its_limit_and_four_times_at_most(first, more):
    found = measures.looks(first, first + more)
    assert (found[0], found[-1]) == (first, first + more)
    assert found == sorted(set(found))
    assert len(found) <= 4


def test_drift_of_the_machine_cancels_in_interleaved_rounds():
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(100):
        drift = np.exp(rng.normal(0, 0.25, 5))
        result = compare_rates(draws(rng, 390, 0.03) * drift, draws(rng, 300, 0.03) * drift)
        found += result.verdict == "faster"
    assert found >= 95


@pytest.mark.sample(1)
@pytest.mark.parametrize("factor", [0.05, 0.3, 3, 20])
@pytest.mark.parametrize("rounds", [3, 5, 9, 20])
def test_a_wild_round_never_turns_a_verdict_round(factor, rounds):
    rng = np.random.default_rng(4)
    for _ in range(100):
        fast, slow = draws(rng, 450, 0.05, rounds), draws(rng, 300, 0.05, rounds)
        fast[rng.integers(rounds)] *= factor
        result = compare_rates(fast, slow)
        assert "slower" not in result.verdict
        assert result.low <= result.median <= result.high
        mirrored = compare_rates(slow, fast)
        assert "faster" not in mirrored.verdict


@pytest.mark.long
@given(st.lists(st.tuples(st.floats(1, 1e4), st.floats(1, 1e4)), min_size=2, max_size=12))
def test_swapping_the_two_inverts_the_speed_up(pairs):
    a, b = zip(*pairs, strict=True)
    there, back = compare_rates(a, b), compare_rates(b, a)
    assert there.median * back.median == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1)
    assert there.decided == back.decided
    if there.decided:
        assert {there.verdict, back.verdict} in ({NO_DIFFERENCE}, {"faster", "slower"})


def test_one_repeat_has_no_verdict():
    result = compare_rates([600], [300])
    assert result.verdict == "one repeat has no spread: no verdict"
    assert math.isnan(result.low)
    assert str(result) == "2.00× one repeat has no spread: no verdict"


def test_without_any_noise_only_an_effect_that_can_be_seen_counts():
    assert compare_rates([300] * 5, [300] * 5).verdict == NO_DIFFERENCE
    assert compare_rates([300.001] * 5, [300] * 5).verdict == NO_DIFFERENCE
    assert compare_rates([330] * 5, [300] * 5).verdict == "faster"
    assert compare_rates([270] * 5, [300] * 5).verdict == "slower"


@pytest.mark.parametrize("rates", [[], [0.0], [-1.0], [math.nan], [math.inf]])
def test_rates_that_make_no_sense_are_refused(rates):
    with pytest.raises(ValueError, match="rates are"):
        compare_rates(rates, [1.0])


# -- the table -------------------------------------------------------------------


def rounds(rate, count=5, noise=0.02, seed=0, **keywords):
    """Return traces of `count` rounds at about `rate` images per second."""
    rng = np.random.default_rng(seed)
    periods = [32e3 / (rate * math.exp(rng.normal(0, noise))) for _ in range(count)]
    return [run(step_ms=p * 0.6, wait_ms=p * 0.4, work=keywords.get("work", WORK), **{
        k: v for k, v in keywords.items() if k != "work"
    }) for p in periods]  # fmt: skip


def folded(table):
    """Return the other figures of each row of a table of measures, by name and heading."""
    (details,) = (part for part in table.table().more if isinstance(part, Table))
    return {row[0]: dict(zip(details.head, row, strict=True)) for row in details.rows}


@pytest.mark.parametrize("above", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5, 11])
@pytest.mark.parametrize("others", [0.0, 0.9])
def test_a_table_of_measures_has_five_columns_that_fit_beside_the_sidebar_of_a_window_of_900_pixels(
    above, count, others
):
    """In HTML a cell breaks between words, but for numbers and their units, so the longest word says how wide it is."""
    names = ("naive, tf.data's defaults", "prefetch(AUTOTUNE)", "parallel interleave")
    host = Host(cpus=2, others=others)
    traces = {
        name: [t.with_run(host=host) for t in rounds(rate, count, seed=rate)]
        for name, rate in zip(names, (100, 1234, 1250), strict=True)
    }
    table = replace(Measures.from_traces(traces), above=above).table()
    assert len(table.head) == 5
    assert table.head[0] == "pipeline"
    assert table.head[-1].startswith("verdict")
    columns = list(zip(*table.rows, strict=True))
    broken = [column if i in table.right else [word for cell in column for word in cell.split()]
              for i, column in enumerate(columns)]  # fmt: skip
    longest = [max(map(len, [*head.split(), *words])) for head, words in zip(table.head, broken, strict=True)]
    letter, padding, area = 7, 13, 520  # pixels: the widest digits, both sides of a cell, the area of outputs
    assert sum(longest) * letter + len(longest) * padding <= area


def test_what_warns_does_not_fold_and_how_it_was_measured_does():
    note, busy = "the profiler itself distorts this run", "close other programs"
    base = {"profiler": {"note": note}, "host": {"cpus": 2, "others": 0.9}, "accelerator": {"describe": "a V100"}}
    found = Measures.from_traces({"a": rounds(300, **base), "b": rounds(600, **base, work=WORK | {"images": 160})})
    above, below = found._repr_html_().split("<details>")
    for words in (note, busy, "not comparable with a"):
        assert words in above
        assert words not in below
    for words in ("interleaved rounds", "a V100", "longest wait", "equal work"):
        assert words in below
        assert words not in above
    quiet = Measures.from_traces({"a": rounds(300, host={"cpus": 2, "others": 0.1})})
    assert "0.2 of 2 cores" in quiet._repr_html_().split("<details>")[1]


def test_a_table_says_where_the_median_of_ratios_is_not_the_ratio_of_the_rates():
    """Each pair says 1.5 times; the median rates, of other rounds, say the contrary."""
    base = [run(step_ms=32e3 / rate, wait_ms=0, work=WORK) for rate in (100, 100, 400, 400, 400)]
    mine = [run(step_ms=32e3 / rate, wait_ms=0, work=WORK) for rate in (150, 150, 200, 600, 600)]
    uneven, even = Measures.from_traces({"a": base, "b": mine}), Measures.from_traces({"a": base, "b": base})
    said = "b: the rounds differ, so the speed-up, their median, is not the ratio of the rates."
    assert said in uneven.table().notes
    assert said not in even.table().notes


def test_a_wait_has_the_unit_of_its_size():
    for ms, words in ((1234, "1,234 ms"), (12.34, "12.3 ms"), (0.0042, "4.20 µs"), (0, "0 ms")):
        found = Measures.from_traces({"a": [run(wait_ms=ms)]})
        assert found.table().rows[0][2] == folded(found)["a"]["longest wait"] == words
        assert "0.00" not in str(found)


def test_rows_that_follow_each_other_are_compared_with_the_row_above_too():
    found = Measures.from_traces({n: rounds(r, seed=r) for n, r in (("naive", 300), ("two", 600), ("three", 400))})
    table = replace(found, above=True).table()
    assert table.head[2:4] == ("speed-up over naive", "over the row above")
    assert table.rows[0][2:] == ("reference", "", "")
    assert table.rows[2][2:] == (found.speedup("three").ratio, found.speedup("three", over="two").ratio, "slower")
    assert found.table().rows[2][4] == "faster"


def test_the_noun_is_that_of_all_runs_and_no_image_is_counted_where_there_is_none():
    """A pipeline of rows is compared, explained and refused without a word of images."""
    unequal = {name: [t.with_run(noun="element", accelerator=Accelerator("m", "modelled", None, "a V100"))
                      for t in rounds(rate, work=work)]
               for name, rate, work in (("rows", 300, WORK), ("half", 600, WORK | {"images": 160}),
                                        ("alike", 300, WORK | {"labels": None}))}  # fmt: skip
    found = Measures.from_traces(unequal)
    assert found.table().head[1] == "elements/s"
    assert "160 elements in 10 steps" in str(found)
    for words in (str(found), found._repr_html_(), found.difference("half")):
        assert "image" not in words
    mixed = Measures.from_traces({"photos": rounds(300), "rows": unequal["rows"]})
    assert (mixed.noun, Measures.from_traces({"photos": rounds(300)}).noun) == ("element", "image")


def test_the_table_shows_medians_spread_and_a_verdict_for_equal_work():
    v100 = {"kind": "modelled", "describe": "modelled V100"}
    table = Measures.from_traces(
        {
            "naive": rounds(300, seed=1, noise=0.005, first_batch_ns=800 * MS, accelerator=v100),
            "prefetch": rounds(600, seed=2, accelerator=v100),
            "same": rounds(300, seed=3, noise=0.005, accelerator=v100),
        }
    )
    assert table.table().head == ("pipeline", "images/s", "wait", "speed-up over naive", "verdict")
    naive, prefetch, same = table.table().rows
    assert naive[3:] == ("reference", "")
    assert prefetch[3:] == (table.speedup("prefetch").ratio, "faster")
    assert same[4] == NO_DIFFERENCE
    lines, details = str(table).splitlines(), folded(table)
    assert all(words in lines[2] for words in naive)
    assert details["naive"]["first batch"] == "800.0 ms"
    assert details["prefetch"]["first batch"] == "?"
    assert details["prefetch"]["equal work"] == "yes"
    assert details["prefetch"]["images/s in all rounds"] in "\n".join(lines[lines.index("how this was measured:") :])
    assert "modelled V100" in str(table)
    assert "runs are measured" in str(table)
    assert repr(table) == str(table)


def test_a_row_adds_up_with_its_neighbours():
    """A median of waits would hide the one long wait of which the busy share tells."""
    spans, t = [], T0
    for i in range(16):
        wait = (200 if i % 8 == 7 else 1) * MS
        spans += [Span("consumer", "wait", "wait", t, wait, i), Span("consumer", "step", "train", t + wait, 30 * MS, i)]
        t += wait + 30 * MS
    late = Trace.from_spans(spans, kinds={"consumer": "consumer"}, batch_size=32, window_ns=(T0, t))
    found = Measures.from_traces({"a": [late]})
    (_, rate, shown, *_), cells = found.table().rows[0], folded(replace(found, above=True))["a"]
    step, wait, longest = (float(cells[name].removesuffix(" ms")) for name in ("step", "wait", "longest wait"))
    assert "wait" not in folded(found)["a"], "it stands in the table"
    assert float(rate) == pytest.approx(32_000 / step, rel=0.01)
    assert wait + 30 == pytest.approx(step, abs=0.1)
    assert float(cells["busy"].removesuffix(" %")) == pytest.approx(100 * 30 / step, abs=0.6)
    assert (longest, shown) == (200, cells["wait"])


@pytest.mark.parametrize("count", [2, 4, 5, 9])
def test_an_interval_is_shown_from_five_rounds_on(count):
    table = Measures.from_traces({"naive": rounds(300, count=count), "fast": rounds(600, count=count)})
    assert bool(re.search(r"×\s?\(", str(table))) == ("interval" in str(table)) == (count >= 5)
    assert "the median of the ratios of the single rounds" in str(table), "which two medians need not give"


@given(st.lists(st.tuples(st.floats(1, 1e4), st.floats(1, 1e4)), min_size=1, max_size=11))
def test_the_ratio_lies_within_what_the_spreads_of_the_two_rates_allow(pairs):
    """So the three numbers of a row never contradict each other, even where their medians come from other rounds."""
    mine, base = zip(*pairs, strict=True)
    ratio = compare_rates(mine, base).median
    assert min(mine) / max(base) * (1 - 1e-9) <= ratio <= max(mine) / min(base) * (1 + 1e-9)


def test_the_notebook_shows_the_same_cells_and_escapes_names():
    table = Measures.from_traces({"<naive>": rounds(300), "fast & good": rounds(600)})
    html = table._repr_html_()
    assert "&lt;naive&gt;" in html
    assert "fast &amp; good" in html
    assert "<naive>" not in html
    assert table.speedup("fast & good").ratio in html.replace("&#8288;", "")
    assert "color" not in html


def test_unequal_work_is_not_compared():
    table = Measures.from_traces({"naive": rounds(300), "half": rounds(600, work=WORK | {"images": 160})})
    with pytest.raises(UnequalWork, match="half and naive are not comparable: different counts"):
        table.speedup("half")
    text = str(table)
    assert "not comparable" in text
    assert "half is not comparable with naive: different counts: 160 images" in text
    assert "faster" not in text


def test_work_that_nothing_identifies_is_said_to_be_counted_only():
    anonymous = WORK | {"labels": None}
    table = Measures.from_traces({"a": rounds(300, work=anonymous), "b": rounds(600, work=anonymous)})
    assert table.equal_work("b") == "counts only"
    assert "counts only: nothing in the batches" in str(table)


def test_a_note_of_the_profiler_is_passed_on():
    table = Measures.from_traces({"tiny": rounds(300, profiler={"note": "the profiler itself distorts this run"})})
    assert "tiny: the profiler itself distorts this run" in str(table)


def test_the_median_trace_is_kept_and_no_other():
    runs = rounds(300, count=5, noise=0.2)
    table = Measures.from_traces({"a": runs})
    assert table.rates("a") == [m.images_per_s for m in table["a"]]
    rates = sorted(table.rates("a"))
    assert measures.figures(table.trace("a")).images_per_s == rates[2]
    kept = [weakref.ref(t) for t in runs]
    del runs
    gc.collect()
    assert [ref() for ref in kept if ref() is not None] == [table.trace("a")]


@pytest.mark.parametrize(("others", "verdict"), [(None, "faster"), (0.1, "faster"), (0.25, TOO_BUSY), (0.9, TOO_BUSY)])
def test_no_verdict_where_other_programs_took_a_quarter_of_the_cores(others, verdict):
    """The figures stay: they were measured; only the conclusion is left out, and the line below the table says why."""
    quiet = {"a": rounds(300, seed=1), "b": rounds(450, seed=2)}
    traces = {n: [t.with_run(host=Host(cpus=2, others=others)) for t in runs] for n, runs in quiet.items()}
    table, found = Measures.from_traces(traces), Measures.from_traces(traces).speedup("b")
    assert found.verdict == verdict
    assert found.median == Measures.from_traces(quiet).speedup("b").median
    told = f"Other programs took {2 * others:.1f} of 2 cores." if others is not None else ""
    assert (told in str(table)) if told else ("programs" not in str(table))
    assert found.beside == (table.beside if verdict == TOO_BUSY else "")


def beside(others, rates, cpu_ms, count=5, noise=0.02):
    """Return measures of two pipelines at these rates, that take so much CPU time for each image."""
    traces = {}
    for seed, (name, rate, ms) in enumerate(zip("ab", rates, cpu_ms, strict=True)):
        rng = np.random.default_rng(seed)
        traces[name] = [
            t.with_run(
                host=Host(cpus=2, others=others), tree=ms and Tree(1, 0.32 * ms * math.exp(rng.normal(0, noise)), 100.0)
            )
            for t in rounds(rate, count, noise, seed)
        ]
    return Measures.from_traces(traces)


@pytest.mark.parametrize(
    ("rates", "cpu_ms", "says"),
    [
        ((300, 450), (6, 3), "less for each image"),
        ((300, 200), (3, 6), "more for each image"),
        ((300, 450), (5, 5), "no measurable difference in CPU time"),
        ((300, 450), (5, 4.9), "no measurable difference in CPU time"),
        ((300, 450), (None, 5), None),
        ((300, 900), (5, 5), "faster (busy: the size may be off)"),
        ((900, 300), (5, 3), "slower (busy: the size may be off)"),
    ],
)
def test_beside_other_programs_work_that_is_saved_and_large_effects_are_told(rates, cpu_ms, says):
    table = beside(0.9, rates, cpu_ms)
    found = table.speedup("b")
    assert found.verdict == TOO_BUSY if says is None else says in found.verdict
    assert found.decided == (says is not None)
    assert found.verdict in str(table)
    assert found.beside == table.beside
    assert ("of waits, overlap and speed it says nothing" in str(table)) == ("CPU time" in found.verdict)
    assert beside(0.1, rates, cpu_ms).speedup("b").verdict in ("faster", "slower"), "a quiet machine needs none of it"


@given(st.floats(1, 20), st.floats(1 / 3, 3), st.floats(0.2, 6))
def test_what_is_told_beside_other_programs_is_never_the_contrary(cpu_ms, ratio, speed):
    """CPU time says less only where it is less, and a verdict on times stands only beyond twice."""
    found = beside(0.5, (300, 300 * speed), (cpu_ms, cpu_ms * ratio)).speedup("b").verdict
    assert ("less" not in found) or ratio < 1
    assert ("more" not in found) or ratio > 1
    assert not found.startswith("faster") or speed > 2
    assert not found.startswith("slower") or speed < 0.5


def test_rounds_that_disagree_tell_nothing_beside_other_programs():
    for count, noise in ((5, 1.0), (2, 0.02)):
        assert beside(0.9, (300, 900), (6, 3), count, noise).speedup("b").verdict == TOO_BUSY


@pytest.mark.parametrize(("limit", "others", "insists"), [(0.6, 0.45, True), (0.6, 0.7, False), (1, 0.97, True)])
def test_a_larger_limit_insists_and_the_table_carries_the_word(limit, others, insists):
    found = replace(beside(others, (300, 450), (None, None)), busy_limit=limit)
    assert found.speedup("b").verdict == ("faster" if insists else TOO_BUSY)
    words = f"Measured beside other programs: {2 * others:.1f} of 2 cores, allowed by busy_limit={limit:g}."
    assert (words in found._repr_html_().split("<details>")[0]) == insists
    strict = replace(beside(0.1, (300, 450), (None, None)), busy_limit=0.05)
    assert strict.speedup("b").verdict == TOO_BUSY
    assert "From 5 % of the cores on" in str(strict)


@pytest.mark.parametrize("limit", [-0.1, 1.5, math.nan, "0.5", None, True])
def test_a_limit_that_is_no_share_is_refused(limit):
    with pytest.raises(ValueError, match=r"busy_limit is .*; allowed: a number"):
        measures.measure({"a": iter([])}, modelled(step_ms=1), busy_limit=limit)


def test_measures_are_a_mapping_in_the_order_given():
    table = Measures.from_traces({"z": rounds(300), "a": rounds(400), "m": rounds(500)})
    assert list(table) == ["z", "a", "m"]
    assert table.speedup("a", over="m").median < 1
    assert table.speedup("z").median == 1
    with pytest.raises(KeyError, match="no pipeline is called 'b'"):
        table.trace("b")


@pytest.mark.parametrize("traces", [{}, {"a": []}])
def test_measures_of_nothing_are_refused(traces):
    with pytest.raises(ValueError, match=r"no trace|at least one"):
        Measures.from_traces(traces)


def test_interleaved_rounds_must_pair_up():
    with pytest.raises(ValueError, match="differ in number"):
        Measures.from_traces({"a": rounds(300, count=3), "b": rounds(300, count=4)})


def test_the_time_of_an_image_is_one_over_the_rate():
    found = Measures.from_traces({"a": [run(30, 10), run(10, 10)]})
    assert found.per_image("ms")["a"] == pytest.approx([40 / 32, 20 / 32])
    assert found.per_image("µs")["a"] == pytest.approx([40e3 / 32, 20e3 / 32])
    with pytest.raises(ValueError, match="unit is 's'"):
        found.per_image("s")
