"""Explorers on a page answer what the simulator answers, from a table, and say where they need a notebook."""

from __future__ import annotations

import random

import course_page
import explorers as on_page
import nbformat
import pytest
from browser import ROOT

from labcourse import explorers
from labkit.views.layout import TimelineLayout


def stored(number):
    """Return the text and the picture of the explorer in a notebook."""
    notebook = nbformat.read(next((ROOT / "notebooks").glob(f"{number}_*.ipynb")), as_version=4)
    (cell,) = (c for c in notebook.cells if c.source.startswith("explorers.") or "\nexplorers." in c.source)
    (data,) = (o.data for o in cell.outputs if "data" in o)
    return data["text/plain"], data["text/html"]


def reopened(number):
    return on_page.reopened(number, stored(number)[0])


@pytest.mark.parametrize("number", explorers.SHEETS)
def test_a_stored_explorer_is_opened_again_as_it_was(number):
    theirs = str(reopened(number)).replace("on the machine of the recording:", "on this machine:")
    assert theirs == stored(number)[0]


@pytest.mark.parametrize("number", explorers.SHEETS)
def test_buttons_and_two_or_three_sliders_reach_positions_of_the_table(number):
    """Each main slider moves from every button, alone and together with the others, to each of its stops."""
    shown = reopened(number)
    stops, known = on_page.mains(shown), set(on_page.positions(shown))
    assert 2 <= len(stops) <= 3
    draw = random.Random(number)
    for pressed in (shown.start, *shown.positions.values()):
        places = shown.places(pressed)
        assert tuple(places) in known
        for _ in range(20):
            moved = {k: draw.choice(each) for k, each in stops.items()}
            assert tuple(moved.get(k, at) for k, at in enumerate(places)) in known
            assert all(places[k] in stops[k] for k in stops)


def pieces(index, answers):
    """Cut the answers of a table as its index says: words, heads, columns."""
    at, found = index["said"], []
    for lengths in (index["heads"], index["columns"]):
        found.append([])
        for length in lengths:
            found[-1].append(answers[at : at + length])
            at += length
    assert at == len(answers)
    return found


def test_the_table_holds_the_timelines_of_the_simulator():
    shown = reopened("02")
    index, answers = on_page.table(shown)
    heads, columns = pieces(index, answers)
    assert len(heads) == len(columns) == len(index["positions"])
    for k in random.Random(2).sample(range(len(heads)), 6):
        timeline = shown.reply(shown.position(index["positions"][k])).timeline
        assert heads[k] + columns[k] == TimelineLayout([timeline], title="As the sliders stand").encode()


@pytest.mark.long
@pytest.mark.parametrize("number", [*explorers.SHEETS, "scale", "fleet"])
def test_an_explorer_takes_less_than_a_megabyte(number):
    plans = {"scale": "a thousand accelerators", "fleet": "64 accelerators"}
    shown = reopened(number) if number in explorers.SHEETS else getattr(explorers, number)(plans[number])
    assert len(on_page.living(shown, "")) < 1e6


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    found = tmp_path_factory.mktemp("page") / "02.html"
    found.write_text(course_page.html_of(course_page.placed("02", explorers=True)), encoding="utf-8")
    return found


@pytest.fixture
def page(chromium, path):
    page = chromium.new_page(viewport={"width": 390, "height": 800})
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    for _ in range(2):  # it stands behind what was predicted
        page.get_by_text("Show me anyway").locator("visible=true").first.click()
    page.locator(".lx-explorer").scroll_into_view_if_needed()
    page.wait_for_selector(".lx-explorer .labkit-timeline")
    yield page
    page.close()
    assert errors == []


def says(page):
    """Return the words of the explorer, and how long its timeline is."""
    status = page.locator(".lx-explorer [role=status] p").first.inner_text()
    return status, page.evaluate("document.querySelector('.lx-explorer .labkit-timeline').timeline.layout.span_ns")


def test_every_button_and_main_slider_answers_as_the_simulator_does(page):
    shown = reopened("02")
    now = dict(shown.start)
    for label, position in shown.positions.items():
        page.locator(".lx-explorer button", has=page.get_by_text(label, exact=True)).click()
        now = dict(position)
        for k, stops in on_page.mains(shown).items():
            control = shown.controls[k]
            slider = page.locator(".lx-explorer").get_by_role("slider", name=control.label)
            at = control.values.index(now[control.name])
            key, to = ("ArrowRight", at + 1) if at + 1 in stops else ("ArrowLeft", max(s for s in stops if s < at))
            slider.press(key)
            now[control.name] = control.values[to]
            reply = shown.reply(now)
            assert says(page) == (reply.words, reply.timeline.span_ns)


def test_a_key_goes_on_to_the_next_stop(chromium, tmp_path, monkeypatch):
    monkeypatch.setattr(on_page, "STOPS", 2)
    shown = reopened("04")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell('explorers.explore("04")')])
    data = dict(zip(("text/plain", "text/html"), stored("04"), strict=True))
    notebook.cells[0].outputs = [nbformat.v4.new_output("display_data", data)]
    on_page.place(notebook, "04")
    path = tmp_path / "04.html"
    path.write_text(course_page.html_of(notebook), encoding="utf-8")
    page = chromium.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector(".lx-explorer .labkit-timeline")
    ((k, stops), *_) = on_page.mains(shown).items()
    slider = page.get_by_role("slider", name=shown.controls[k].label)
    slider.press("Home")
    met = [int(slider.input_value())]
    while met[-1] != stops[-1]:
        slider.press("ArrowRight")
        met.append(int(slider.input_value()))
    assert met == stops
    page.close()


def test_another_slider_says_that_it_needs_the_notebook_and_stays(page):
    slider = page.get_by_role("slider", name="train step")
    before, words = slider.input_value(), says(page)[0]
    slider.press("ArrowRight")
    assert slider.input_value() == before
    assert says(page)[0] == f"train step: this position needs the notebook. {words}"
    assert slider.get_attribute("aria-description") == "needs the notebook"
    assert page.locator(".lx-explorer").evaluate("(root) => root.scrollWidth <= root.clientWidth"), "on a phone, too"


def test_which_part_limits_is_asked_first(page):
    bars = page.locator(".lx-explorer [data-part=bars] button")
    assert "◀" not in bars.first.inner_text()
    bars.first.click()
    verdicts = reopened("02").reply(reopened("02").start).shown(drawn=False)["bars"]["verdicts"]
    assert page.locator(".lx-explorer [data-part=verdict]").inner_text() == verdicts[0]


def test_without_javascript_the_picture_stays(chromium, path):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator(".lx-explorer img").first.is_visible()
    context.close()
