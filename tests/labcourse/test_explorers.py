"""Explorers: the same position always gives the same answer, and everybody gets it, with a widget or without."""

from __future__ import annotations

import json
import math
import re
from html import unescape

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from IPython.core.formatters import DisplayFormatter

from labcourse import explorers
from labcourse.explorers import modelled_run
from labcourse.explorers.front_end import MODULE, style
from labcourse.explorers.panel import ExplorerPanel, TimelinePanel
from labextras.cluster import capacity
from labkit import simulate
from labkit.timeline.timeline import Timeline
from labkit.views import ladder_chart

#: CSS pixels of an output of JupyterLab, with its list of files open, where the window has 1280 and 900.
WIDTHS = (848, 468)

NOTEBOOKS = [f"{number:02d}" for number in range(8)]
BUTTONS = [(name, label) for name, sheet in explorers.SHEETS.items() for label in sheet.positions]


@st.composite
def places(draw, names=tuple(NOTEBOOKS)):
    """An explorer, and a position of all its sliders."""
    sheet = explorers.SHEETS[draw(st.sampled_from(names))]
    return sheet.name, {c.name: draw(st.sampled_from(c.values)) for c in sheet.controls}


#: One thread fills 32 files in turn, and a step of one image takes 1 ms: they come at once, then none for long.
BURSTS = ("03", {"cycle_length": 32, "latency_ms": 0, "bandwidth_mb_s": 10, "threads": 1, "straggler": 1,
                 "order": "in order", "train_ms": 1, "batch_size": 1})  # fmt: skip
#: Eight calls share one core: when a short window begins, eight images are nearly made.
BEGUN = ("04", {"calls": 8, "cores": 1, "work_ms": 1, "train_ms": 0.5, "batch_size": 1})


def go(panel, position):
    """Move sliders as the browser does: all at once, by their places."""
    panel.places = panel.explorer.places(panel.position | position)


@pytest.mark.long
@settings(max_examples=60)
@given(places())
@example(place=BURSTS)
@example(place=BEGUN)
def test_a_pipeline_is_never_faster_than_the_ideal(place):
    name, position = place
    answer = explorers.explore(name).answer(**position)
    best = answer.ideal
    assert best.rate == min(best.fetch, best.prep, best.train)
    assert best.together <= best.rate * (1 + 1e-9)
    varies = position.get("spread") or position.get("straggler", 1) > 1 or 0 < position.get("hit_share", 0) < 1
    if not varies:  # costs that vary have a mean of their own in a short window
        # Work from before the window is taken in it: one image of each thread, and a buffer.
        threads = sum(lane.kind == "pipeline" for lane in answer.timeline.lanes)
        begun = threads / (answer.timeline.span_ns / 1e9)
        assert answer.timeline.images_per_s <= 1.1 * best.together + begun


@pytest.mark.parametrize(
    ("changes", "fetch", "prep", "train", "limit"),
    [
        ({}, 500, 200, 400, "preparation (P), its one thread"),
        ({"map_calls": 2, "cycle_length": 8}, 4000, 500, 400, "the accelerator (G)"),
        ({"map_calls": 2, "cycle_length": 8, "accelerators": 4}, 4000, 500, 1600, "preparation (P), its calls"),
        ({"map_calls": 2, "cycle_length": 8, "bandwidth_mb_s": 10.0}, 100, 500, 400, "fetch (F)"),
        ({"map_calls": 8, "threads": 8, "accelerators": 4}, 4000, 1000, 1600, "its one thread that makes batches"),
        ({"map_calls": 8, "cores": 1, "accelerators": 4}, 500, 200, 1600, "preparation (P), its cores"),
        ({"cache_hit": 1.0}, float("inf"), 200, 400, "preparation (P), its one thread"),
    ],
)
def test_the_three_rates_are_those_on_paper(changes, fetch, prep, train, limit):
    costs = simulate.Costs(open=1.0, read=1.0, map={"decode": 3.0, "resize": 1.0}, batch=16.0, train=40.0)
    best = modelled_run.ideal(costs, simulate.Knobs(**{"batch_size": 16, "cores": 16} | changes))
    assert (best.fetch, best.prep, best.train) == pytest.approx((fetch, prep, train))
    assert limit in best.limit


@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "label"), BUTTONS)
def test_every_button_leads_to_a_modelled_run_and_its_figures_in_words(name, label):
    answer = explorers.explore(name).answer(label)
    timeline = answer.timeline
    assert answer.trace.run.origin == "modelled"
    rate = timeline.images_per_s
    assert f"{f'{rate:,.0f}' if rate >= 100 else f'{rate:.3g}'} images/s (modelled)" in answer.headline
    assert re.search(r"busy .*%, step .* ms, .* images/s \(modelled\)\.", answer.headline)
    assert answer.bars(1)["verdict"].startswith(f"The lowest is {answer.ideal.limit}: at most ")


def test_the_four_timelines_of_the_seeds_are_four_buttons_of_notebook_00():
    explorer = explorers.explore("00")
    one, ahead, many, several = (explorer.answer(label) for label in explorer.sheet.positions)
    knobs = [
        (a.knobs.map_calls > 1, a.knobs.prefetch > 0, a.knobs.accelerators > 1) for a in (one, ahead, many, several)
    ]
    assert knobs == [(False, False, False), (False, True, False), (True, True, False), (True, True, True)]
    speeds = [a.timeline.images_per_s for a in (one, ahead, many, several)]
    assert speeds[0] < 0.9 * speeds[1] < 0.5 * speeds[2] < 0.5 * speeds[3]
    assert one.timeline.busy < ahead.timeline.busy < 0.5 < 0.9 < many.timeline.busy


@pytest.mark.parametrize(
    ("name", "slow", "quick"),
    [
        ("01", {"open_ms": 30}, {"open_ms": 0.1}),
        ("02", {"spread": 2, "prefetch": 1}, {"spread": 2, "prefetch": 8}),
        ("03", {"cycle_length": 1}, {"cycle_length": 16}),
        ("03", {"straggler": 10, "cycle_length": 16}, {"straggler": 10, "cycle_length": 16, "order": "any order"}),
        ("03", {"bandwidth_mb_s": 10, "cycle_length": 16}, {"bandwidth_mb_s": 3000, "cycle_length": 16}),
        ("04", {"calls": 8, "cores": 2}, {"calls": 8, "cores": 8}),
        ("04", {"calls": 1, "cores": 8}, {"calls": 8, "cores": 8}),
        ("05", {"place": "none"}, {"place": "after read"}),
        ("05", {"place": "after read"}, {"place": "after resize"}),
        ("05", {"place": "after resize", "hit_share": 0.35}, {"place": "after resize", "hit_share": 1.0}),
        ("06", {"form": "map, then batch"}, {"form": "batch, then map"}),
        ("07", {"image_kb": 690, "decode_ms": 0, "bandwidth_mb_s": 50}, {"image_kb": 115, "bandwidth_mb_s": 50}),
        ("07", {"image_kb": 115, "bandwidth_mb_s": 3000}, {"image_kb": 690, "decode_ms": 0, "bandwidth_mb_s": 3000}),
    ],
)
def test_each_explorer_shows_the_effect_that_its_notebook_is_about(name, slow, quick):
    explorer = explorers.explore(name)
    assert explorer.answer(**quick).faster_than(explorer.answer(**slow)) > 1.2


def test_batching_first_gains_nothing_on_photos():
    explorer = explorers.explore("06", work_us=4000)
    gain = explorer.answer(form="batch, then map").faster_than(explorer.answer(form="map, then batch"))
    assert 0.98 < gain < 1.05


@pytest.mark.long
@settings(max_examples=15)
@given(places(), places())
def test_an_answer_depends_on_the_position_and_on_nothing_before_it(place, other):
    name, position = place
    used, fresh = explorers.explore(name), explorers.explore(name)
    if other[0] == name:
        used.answer(**other[1])
    a, b = used.answer(**position), fresh.answer(**position)
    assert a.headline == b.headline
    assert str(a.timeline) == str(b.timeline)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "label"), BUTTONS)
def test_the_bars_are_the_three_speeds_and_the_lowest_is_the_limit(name, label):
    explorer = explorers.explore(name)
    answer = explorer.answer(label)
    bars, best = answer.bars(explorer.full), answer.ideal
    rates = (best.fetch, best.prep, best.train)
    assert best.rate < explorer.full, "the bar that limits is seen as a whole"
    for k, (rate, words) in enumerate(zip(rates, bars["words"], strict=True)):
        assert words == "no limit" or math.isclose(float(words.replace(",", "")), rate, rel_tol=0.006)
        assert bars["lowest"][k] == (bars["words"][rates.index(best.rate)] == words)
        shown = (100, "beyond") if rate > explorer.full else (round(100 * rate / explorer.full, 1), "")
        assert (bars["length"][k], bars["end"][k]) == shown


def test_all_positions_of_an_explorer_have_bars_of_one_scale():
    explorer = explorers.explore("04")
    panel, scales = TimelinePanel(explorer), set()
    for position in [*explorer.positions.values(), {"train_ms": 0.2}, {"work_ms": 20}]:
        go(panel, position)
        scales.add(panel.reply["bars"]["scale"])
    assert scales == {"Bars: 0 to 1,000 images/s."}
    assert scales.pop() in panel.html


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_nothing_says_which_speed_is_the_lowest_before_the_reader_has(name):
    explorer = explorers.explore(name)
    panel = TimelinePanel(explorer)
    for label, position in explorer.positions.items():
        go(panel, position)
        known = explorer.others[label]
        page = panel.html + panel.reply["words"] + panel.reply["bars"]["html"]
        told = (str(explorer), explorer.picture.alt, explorer.picture.text, unescape(page))
        hints = (known.bars(explorer.full)["verdict"], "lowest", f"limited by {known.ideal.limit}")
        assert not [hint for text in told for hint in hints if hint in text]


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_moving_sliders_and_pressing_buttons_shows_what_answer_says(name):
    explorer = explorers.explore(name)
    panel = TimelinePanel(explorer)
    assert panel.reply["words"] == explorer.first.headline
    for position in explorer.positions.values():
        go(panel, position)
        assert panel.position == explorer.start | position
        shown = explorer.answer(**panel.position)
        words = panel.reply["words"]
        assert words.startswith(shown.headline)
        changed = [c for c in explorer.controls if panel.position[c.name] != explorer.start[c.name]]
        assert all(f"{c.label}: {c.text(panel.position[c.name])}" in panel.reply["changed"] for c in changed)
        assert str(shown.timeline) in str(panel.timeline)
    *others, last = panel.places
    panel.places = [*others, last + 1 if last == 0 else last - 1]
    shown = explorer.answer(**panel.position)
    assert panel.reply["words"].startswith(shown.headline)
    assert "times the opening speed" in panel.reply["words"]
    go(panel, explorer.start)
    assert panel.reply["words"] == explorer.first.headline, "and back again"


@pytest.mark.long
def test_every_position_gets_an_answer_of_its_own_even_where_the_words_are_equal():
    panel = ExplorerPanel(explorers.scale("DGX-1V"))
    answers = []
    panel.observe(answers.append, "reply")
    go(panel, {"hosts": 64})
    go(panel, {"shards": 1})
    first, second = (change["new"] for change in answers)
    assert first["words"] == second["words"]
    assert second["places"] == panel.places


def opened(chromium, panel, kernel=None):
    """Return a page that holds a panel in the state of a real one; `kernel` answers to places, nothing without it."""
    state = json.dumps({"html": panel.html, "spec": panel.spec, "places": panel.places, "reply": panel.reply})
    source = MODULE.read_text(encoding="utf-8").replace("export default { render };", "window.render = render;")
    page = chromium.new_page(viewport={"width": 1280, "height": 720})
    page.clock.install()
    here = "<div id='here'><div></div><div class='labkit-explorer-lanes'></div></div>"
    page.set_content(f"<!doctype html><title>t</title><body data-jp-theme-light='true'>{here}")
    page.add_style_tag(content=style())
    page.add_script_tag(content=source.replace("export function", "function"))
    page.expose_function("ask", kernel or (lambda places: None))
    page.evaluate(f"""() => {{ const state = {state}, handlers = {{}};
      window.model = {{ get: (k) => state[k], off: () => {{}}, on: (what, then) => {{ handlers[what] = then; }},
        save_changes: () => ask(state.places).then((reply) => reply && model.set('reply', reply)),
        set: (k, v) => {{ state[k] = v; handlers['change:' + k]?.(); }} }};
      render({{ model, el: document.getElementById('here').firstChild }}); }}""")
    return page


@pytest.mark.browser
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_row_is_a_button_that_sets_all_sliders_and_all_of_it_fits_on_a_small_screen(name, chromium):
    explorer = explorers.explore(name)
    panel = TimelinePanel(explorer)

    def kernel(places):
        panel.places = places
        return panel.reply

    page = opened(chromium, panel, kernel)
    rows, sliders = page.locator("button:has(svg)"), page.locator("label > :is(input, select)")
    bars, marks = page.locator("[data-part=bars] button"), page.get_by_text("◀")
    assert [row.locator("span").inner_text() for row in rows.all()] == list(explorer.positions)
    for number, (label, position) in enumerate(explorer.positions.items()):
        for slider in page.get_by_role("slider").all():
            slider.focus()
            page.keyboard.press("End" if number % 2 else "Home")
        assert marks.count() == 0
        row = rows.nth(number)
        row.focus()
        page.keyboard.press("Enter")
        assert [int(slider.input_value()) for slider in sliders.all()] == explorer.places(position)
        assert [row.get_attribute("aria-pressed") for row in rows.all()].index("true") == number
        page.wait_for_function(
            "words => document.querySelector('[role=status]').textContent.startsWith(words)",
            arg=explorer.others[label].headline,
        )
        known, verdict = explorer.others[label].bars(explorer.full), page.locator("[data-part=verdict]")
        assert "Which of the three" in verdict.inner_text()
        assert marks.count() == 0
        assert {bar.get_attribute("aria-pressed") for bar in bars.all()} == {"false"}
        chosen = number % 3
        bars.nth(chosen).focus()
        page.keyboard.press("Enter")
        assert verdict.inner_text() == f"{'Yes.' if known['lowest'][chosen] else 'No.'} {known['verdict']}"
        assert ["◀" in bar.inner_text() for bar in bars.all()] == known["lowest"]
        draw(page, panel)
        for width in WIDTHS:
            page.locator("#here").evaluate("(e, width) => { e.style.width = `${width}px`; }", width)
            page.wait_for_function(FITTED)
            assert page.evaluate(CUT) == []
            assert page.locator("#here").bounding_box()["height"] <= 500
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("make", [explorers.scale, explorers.fleet])
def test_sliders_and_chart_of_a_plan_fit_on_a_small_screen(make, chromium):
    page = opened(
        chromium, ExplorerPanel(make("64 accelerators" if make is explorers.fleet else "a thousand accelerators"))
    )
    for width in (1100, 848, 700):
        page.locator("#here").evaluate("(e, width) => { e.style.width = `${width}px`; }", width)
        page.evaluate("Promise.all(Array.from(document.images, (image) => image.decode()))")
        assert page.locator("#here").bounding_box()["height"] <= 500
    page.close()


#: Whether the lanes are painted as wide as they may be now.
FITTED = """() => { const root = document.querySelector('.labkit-timeline[data-painted]');
  return root && !root.timeline.frame && Math.abs(root.timeline.width - (root.clientWidth - 16)) < 1; }"""

#: What is wider than its place, and lanes that are higher.
CUT = """() => { const { timeline } = document.querySelector('.labkit-timeline');
  const wide = [...document.querySelectorAll('.labkit-explorer :is(button, label, small, span, p)')].filter((e) =>
    !e.matches('[role=status] p + p') && e.clientWidth && e.scrollWidth > e.clientWidth + 1);
  return wide.map((e) => e.textContent).concat(timeline.plan.height > timeline.lanesHeight() ? ['lanes'] : []); }"""


def draw(page, panel):
    """Show the timeline of a panel below it, as the box of both does."""
    page.evaluate(
        """html => { const lanes = document.createRange().createContextualFragment(html);
        document.querySelector('.labkit-explorer-lanes').replaceChildren(lanes); }""",
        panel.timeline.html(),
    )


@pytest.mark.browser
def test_a_widget_whose_kernel_is_gone_asks_to_run_the_cell_again(chromium):
    """A real browser and the state of a real panel; a model without a kernel keeps what is set and answers nothing."""
    panel = TimelinePanel(explorers.explore("02"))
    page = opened(chromium, panel)
    status, first = page.get_by_role("status"), panel.reply["words"]
    rows = page.locator("button:has(svg)")
    rows.nth(1).click()
    page.clock.run_for(9_000)
    assert status.text_content() == first
    page.clock.run_for(2_000)
    assert status.text_content().endswith("run this cell again. The picture shows the last answer.")
    rows.nth(2).click()
    page.evaluate("model.set('reply', { ...model.get('reply'), words: 'late' })")
    page.clock.run_for(60_000)
    assert status.text_content() == "late", "an answer ends the wait"
    page.close()


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_slider_has_a_label_and_values_with_units(name):
    explorer = explorers.explore(name)
    panel = TimelinePanel(explorer)
    for control, words in zip(explorer.controls, panel.spec["sliders"], strict=True):
        assert f'aria-label="{control.label}"' in panel.html
        assert len(set(words)) == len(words), "two values that read alike cannot be told apart"
        unit = control.unit[:3].replace("MB/", "B/s")
        assert all(unit in text or text == "no limit" for text in words)
        assert all(len(text) <= 10 for text in words) or control.in_words, "a slider has room for ten signs"
    assert 'aria-live="polite"' in panel.html
    tips = re.findall(r'<button [^>]*title="([^"]+)"><span>([^<]+)</span><svg .*?<small>([^<]+)</small>', panel.html)
    assert [unescape(label) for _, label, _ in tips] == list(explorer.positions)
    assert [unescape(tip) for tip, _, _ in tips] == [explorer.words(p) for p in explorer.positions.values()]
    assert [figures for *_, figures in tips] == [ladder_chart.figures(r.timeline) for r in explorer.others.values()]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "make", [lambda n=n: explorers.explore(n) for n in NOTEBOOKS] + [lambda: explorers.scale("DGX-2"), explorers.fleet]
)
def test_without_widgets_there_is_a_picture_and_its_text(make):
    explorer = make()
    data, metadata = explorer._repr_mimebundle_()
    assert data["image/png"]
    assert metadata["image/png"]["alt"]
    assert explorer.picture.html() in data["text/html"].replace(re.search("\n<figcap.*", data["text/html"])[0], "")
    assert "run this cell" in data["text/html"]
    assert data["text/plain"] == str(explorer) == repr(explorer) == repr(make())
    assert " at 0x" not in repr(explorer)
    in_a_terminal = DisplayFormatter()
    in_a_terminal.ipython_display_formatter.enabled = False
    assert set(in_a_terminal.format(explorer, include=["text/plain"])[0]) == {"text/plain"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_static_picture_has_a_row_for_every_button_with_its_busy_share(name):
    explorer = explorers.explore(name)
    figure = explorer.picture.figure()
    shown = [(text.get_text(), round(text.get_position()[1], 6)) for text in figure.texts]
    heights = dict(shown)
    for label in explorer.positions:
        (row,) = [words for words, y in shown if y == heights[label] and words != label]
        assert row.startswith(f"{explorer.answer(label).timeline.busy:.0%} busy, ")
        assert label in explorer.picture.alt
        assert label in str(explorer)
    assert "as opened" not in heights
    assert "Assumptions:" in str(explorer)


def test_an_explorer_that_is_opened_beside_its_rows_has_a_row_for_that_too():
    explorer = explorers.explore("02", work_ms=7.5, prefetch=4)
    assert list(explorer.rows())[:2] == ["as opened", "no prefetch"]
    assert explorer.positions["as opened"] == explorer.start
    shown = [text.get_text() for text in explorer.picture.figure().texts]
    assert shown.index("as opened") < shown.index("no prefetch")


def test_a_measured_run_sets_the_sliders():
    costs = simulate.Costs(read=4.0, map={"decode": 6.0, "resize": 1.0}, batch=2.0, train=123.0)
    trace = simulate.run(costs, simulate.Knobs(batch_size=24, cores=4), steps=12)
    explorer = explorers.explore("01", trace=trace)
    assert explorer.start["train_ms"] == pytest.approx(123, rel=0.01)
    assert explorer.start["batch_size"] == 24
    assert explorer.start["open_ms"] + explorer.start["read_ms"] == pytest.approx(4, rel=0.05)
    measured = Timeline(trace)
    assert explorer.first.timeline.step_ms == pytest.approx(measured.step_ms, rel=0.05)
    assert TimelinePanel(explorer).position["batch_size"] == 24
    with pytest.raises(TypeError, match="trace is a Timeline; allowed: a Trace"):
        explorers.explore("01", trace=measured)
    assert explorers.explore("01", trace=trace, train_ms=5).start["train_ms"] == 5


@pytest.mark.parametrize("name", ["00", "04"])
def test_a_run_of_this_machine_sets_its_cores_and_any_other_number_is_said_to_be_a_prediction(name):
    costs = simulate.Costs(read=0.5, map=6.0, train=50)
    explorer = explorers.explore(name, simulate.run(costs, simulate.Knobs(batch_size=8, cores=3), steps=4))
    assert explorer.start["cores"] == 3
    assert "cores (here 3): 3 cores" in str(explorer)
    told = ["Predicted: this machine has 3 cores." in explorer.reply(p).words for p in explorer.positions.values()]
    assert told == [position["cores"] != 3 for position in explorer.positions.values()]
    assert told.count(True) == 1
    assert "Predicted" not in explorers.explore(name).reply(explorer.start | {"cores": 8}).words, "of no machine"


def test_an_explorer_says_which_costs_were_measured():
    trace = simulate.run(simulate.Costs(read=4.0, map=6.0, train=50), simulate.Knobs(batch_size=8), steps=4)
    words = "Costs measured on this machine: "
    every = f"{words}open per image, read per image, map work per image."
    cases = {
        "Costs of the course's example.": explorers.explore("01"),
        every: explorers.explore("01", trace=trace),
        f"{words}open per image, read per image.": explorers.explore("01", trace=trace, work_ms=3),
        f"{words}overhead per call.": explorers.explore("06", measured={"overhead_us": 0.4567}),
    }
    for costs, explorer in cases.items():
        assert explorer.costs == costs
        data = explorer._repr_mimebundle_()[0]
        assert explorer.costs in str(explorer)
        assert explorer.costs in unescape(data["text/html"])
        assert explorer.costs in unescape(TimelinePanel(explorer).html)
    assert explorer.start["overhead_us"] == 0.457, "it begins with what was measured, also beyond the slider"
    with pytest.raises(ValueError, match="there is no slider 'speed'"):
        explorers.explore("06", measured={"speed": 1})


@pytest.mark.parametrize("form", ["map, then batch", "batch, then map"])
def test_map_work_is_map_work_before_and_behind_the_batch(form):
    per_image = explorers.explore("06", work_us=4000).answer(form=form).timeline.per_image_ms
    assert per_image["map"] == pytest.approx(4, rel=0.1)
    assert per_image["batch"] < 0.01


def test_a_run_beyond_the_sliders_makes_them_longer():
    costs = simulate.Costs(map={"decode": 44.0}, train=900.0)
    trace = simulate.run(costs, simulate.Knobs(batch_size=96), steps=4)
    explorer = explorers.explore("02", trace=trace)
    opened = {name: explorer.start[name] for name in ("batch_size", "train_ms", "work_ms")}
    assert opened == pytest.approx({"batch_size": 96, "train_ms": 900, "work_ms": 44})
    assert explorer.answer(**opened).headline == explorer.first.headline
    with pytest.raises(ValueError, match=r"train_ms is 1000; allowed: a number from 0\.2 to 900"):
        explorer.answer(train_ms=1000)


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "planned", "preset"),
    [(explorers.scale, capacity.plan, name) for name in capacity.PRESETS]
    + [(explorers.fleet, capacity.simulate, name) for name in capacity.FLEETS],
)
def test_the_planning_explorers_show_what_is_planned(make, planned, preset):
    explorer = make()
    panel = ExplorerPanel(explorer)
    go(panel, explorer.positions[preset])
    plan = planned(preset)
    assert panel.reply["words"] == f"{plan.headline()} {plan.advice}"
    assert plan.source in panel.reply["details"], "a button of a preset shows its sources"
    assert panel.reply["pictures"].count("<figure") == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: explorers.explore("08"), r"explorer is '08'; allowed: 00, 01, 02"),
        (lambda: explorers.explore("02", position="no"), r"position is 'no'; allowed: no prefetch, prefetch\(1\)"),
        (lambda: explorers.explore("02", depth=2), r"there is no slider 'depth'; allowed: prefetch, spread"),
        (
            lambda: explorers.explore("02", prefetch=99),
            r"prefetch is 99; allowed: a whole number from 0 to 16 \(batches\)",
        ),
        (lambda: explorers.explore("02", train_ms=float("nan")), r"train_ms is nan; allowed"),
        (lambda: explorers.explore("05", place="attic"), r"place is 'attic'; allowed: none, after read"),
        (lambda: explorers.explore("02").answer(spread="much"), r"spread is 'much'; allowed: a number from 0 to 3"),
    ],
)
def test_what_is_no_position_is_refused_in_one_sentence(call, words):
    with pytest.raises(ValueError, match=words) as error:
        call()
    assert "\n" not in str(error.value)
