"""The tour of the first timeline: three steps by hand, by key and by button, on every page; ticks that are kept."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from browser import run_all, turn_to
from timeline_page import show_in
from traces import job
from waiting import until

import labcourse
from labcourse import first_tour, gradebook, page_events
from labkit.timeline.timeline import Timeline
from labkit.views import widget

SENTENCES = list(first_tour.SENTENCES)


@pytest.fixture(autouse=True)
def own_data(tmp_path, monkeypatch):
    """Ticks of its own for each test."""
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))


#: Where the middle of a stop of the tour lies in the page.
STOP = """(k) => { const view = document.querySelector('.labkit-timeline').timeline; view.redraw();
  const { run, lane, row, from, to } = view.tour.stops[k], p = view.placeOf(run, lane);
  const c = view.canvas.getBoundingClientRect(), { y, h } = p.band || !row ? { y: 0, h: p.h } : row;
  return [c.left + (view.x(from) + view.x(to)) / 2, c.top + p.y - view.scroll + y + h / 2]; }"""
HEAR = "window.heard = []; document.addEventListener('labkit-tour', ({ detail }) => heard.push(detail))"
#: Whether ink stands at the end of a stop.
INK = """(k) => { view.redraw();
  const { run, lane, to } = view.tour.stops[k], p = view.placeOf(run, lane), r = devicePixelRatio;
  const d = view.canvas.getContext('2d').getImageData(view.x(to) * r, (p.y + p.h / 2) * r, 3, 1).data;
  const ink = view.colours.ink.match(/\\w\\w/g).map((part) => parseInt(part, 16));
  return [0, 4, 8].some((i) => ink.every((part, c) => Math.abs(d[i + c] - part) < 30)); }"""


def one_by_one(**more):
    """Return a job whose photos are prepared one after the other."""
    return job(workers=1, steps=6, images=6, **more)


@pytest.fixture(scope="module")
def tab(chromium):
    page = chromium.new_page(viewport={"width": 1000, "height": 800}, color_scheme="light")
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.evaluate(HEAR)
    yield page
    assert page.errors == []
    page.close()


@pytest.fixture
def shown(tab):
    """Return a function that shows a trace with its tour in the page."""

    def show(trace=None, tour=SENTENCES, **look):
        tab.evaluate("window.done?.(); heard.length = 0")
        show_in(tab, trace or one_by_one(), tour=tour, **look)
        return tab

    return show


def state(page):
    """Return the sentence of the bar, what its ticks look like, and the steps that the page was told of."""
    ticks = [tick[0] for tick in page.locator(".lt-tour li").all_inner_texts()]
    return page.locator(".lt-tour b").inner_text(), "".join(ticks), page.evaluate("heard")


def spoken(page):
    return page.locator(".labkit-timeline [aria-live]").inner_text()


def by_mouse(page):
    for k in (0, 1, 1):
        yield page.mouse.click(*page.evaluate(STOP, k))


def by_keys(page, opens="Enter"):
    page.locator(".lt-lanes").focus()
    for key in ("n", "c", opens):
        yield page.keyboard.press(key)


def by_w(page):
    yield from by_keys(page, "w")


def by_button(page):
    for _ in range(3):
        yield page.get_by_role("button", name="show me").click()


def by_table(page):
    page.evaluate("view.toggle('panel')")
    yield page.get_by_role("button", name="show gap 1", exact=True).click()
    for k in (1, 1):
        yield page.mouse.click(*page.evaluate(STOP, k))


def in_lanes(page):
    page.evaluate("view.lanes()")
    yield from by_mouse(page)


@pytest.mark.browser
@pytest.mark.parametrize("way", [by_mouse, by_keys, by_w, by_button, by_table, in_lanes])
def test_three_steps_lead_from_a_gap_to_one_photo_in_every_way(shown, way):
    page = shown()
    assert state(page) == (SENTENCES[0], "123", [])
    said = []
    for step, _ in enumerate(way(page), 1):
        assert state(page) == (SENTENCES[step], "✓" * step + "123"[step:], list(range(1, step + 1)))
        assert spoken(page).endswith(SENTENCES[step])
        said.append(spoken(page))
    assert len(set(said)) == 3
    assert re.search(r"Gap 1 of 6.*Waited for DecodeJpeg", said[0], re.DOTALL)
    assert said[1].startswith("DecodeJpeg")
    assert said[2].startswith("One photo: image 1 of 6")
    assert page.locator(".lt-detail").inner_text().startswith("One photo: image 1 of 6")
    photo = [5e6 * 0, 5e6]  # the node that is open around read, decode and resize of the first photo
    first, last = page.evaluate("[view.first, view.last]")
    assert first <= photo[0] < photo[1] <= last <= 1.2 * photo[1]


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_lanes_stay_where_they_are_while_the_sentences_change(shown, width):
    page = shown()
    page.set_viewport_size({"width": width, "height": 900})
    tops = [page.locator(".lt-lanes").bounding_box()["y"]]
    for _ in range(3):
        page.evaluate("view.step()")
        tops.append(page.locator(".lt-lanes").bounding_box()["y"])
    assert len(set(tops)) == 1


@pytest.mark.browser
def test_a_ring_stands_around_what_comes_next_and_nowhere_when_all_is_done(shown):
    page = shown()
    assert page.evaluate(INK, 0)
    assert not page.evaluate(INK, 1)
    page.evaluate("view.step()")
    assert page.evaluate(INK, 1)
    page.evaluate("view.step(); view.select(null)")
    assert page.evaluate(INK, 1), "what is to be clicked is seen, also where nothing is selected"
    page.evaluate("view.step(); view.all(); view.select(null)")
    assert not page.evaluate(INK, 0)
    assert not page.evaluate(INK, 1)


@pytest.mark.browser
def test_one_key_ends_the_tour_and_leaves_a_timeline_like_all_others(shown):
    page = shown()
    page.locator(".lt-lanes").focus()
    page.keyboard.press("n")
    page.keyboard.press("k")
    assert page.locator(".lt-tour").is_hidden()
    assert spoken(page) == "the tour is over"
    for key in ("Enter", "k", "n", "c"):
        page.keyboard.press(key)
    assert page.evaluate("[heard, view.tour]") == [[1], None]
    page.evaluate("view.update(model.block)")
    assert page.locator(".lt-tour").is_hidden(), "a new layout in the same place asks for nothing"


@pytest.mark.browser
def test_another_gap_leads_to_its_own_photo_and_other_spans_to_nothing(shown):
    page = shown()
    page.evaluate("view.selectGap(0, 3); view.cause()")
    assert state(page)[1] == "✓✓3"
    page.evaluate("view.selectGap(0, 4)")
    assert state(page)[1] == "✓✓3"
    page.evaluate("view.cause()")
    assert page.locator(".lt-detail").inner_text().startswith("One photo: image 5 of 6")


@pytest.mark.browser
def test_what_is_narrow_is_made_wide_enough_to_be_clicked(shown):
    page = shown(one_by_one(train=900))
    page.evaluate("view.step()")
    assert page.evaluate("view.redraw(), (view.tour.stops[1].to - view.tour.stops[1].from) / view.pixel") >= 24


@pytest.mark.browser
@pytest.mark.parametrize(
    ("trace", "tour"),
    [(one_by_one(), None), (job(workers=1, images=600), SENTENCES)],
    ids=["nobody asked", "no span is one photo"],
)
def test_there_is_no_tour_where_none_is_wanted_or_none_leads_to_a_photo(shown, trace, tour):
    page = shown(trace, tour)
    assert page.locator(".lt-tour").is_hidden()
    page.evaluate("view.nextGap(1); view.cause()")
    assert page.locator(".lt-detail").inner_text().startswith("DecodeJpeg"), "C works everywhere"
    assert page.evaluate("heard") == []


@pytest.mark.browser
def test_a_stored_page_has_the_tour_and_does_not_ask_again_in_the_same_place(chromium):
    made = labcourse.tour(one_by_one(), title="First")
    assert "google.colab" not in made.html()
    page = chromium.new_page(viewport={"width": 1000, "height": 800})
    page.set_content(f"<main>{made.html()}</main>")
    page.wait_for_selector(".lt-tour b")
    page.evaluate(HEAR)
    for step, _ in enumerate(by_mouse(page), 1):
        assert state(page) == (SENTENCES[step], "✓" * step + "123"[step:], list(range(1, step + 1)))
    again = made.html().replace("</figure>", "</figure><i></i>")
    page.evaluate("(text) => { document.querySelector('main').replaceChildren("
                  "document.createRange().createContextualFragment(text)); }", again)  # fmt: skip
    page.wait_for_selector(".labkit-timeline[data-painted]")
    assert page.locator(".lt-tour").is_hidden()
    page.close()


def test_the_kernel_keeps_each_step_once_and_the_start_page_shows_them(tmp_path, root):
    assert gradebook.ticks() == 0
    ear = page_events.listen("labkit-tour", gradebook.tick)
    for step in (1, 2, 2):
        ear.heard = step
    (tmp_path / "data" / "first tour" / "7").touch()
    assert gradebook.ticks() == 2
    found = labcourse.progress(root / "notebooks")
    assert "First look: ✓✓– (2 of 3)\n" in str(found)
    assert "[First look: ✓✓– (2 of 3)](00_read_a_timeline.ipynb)" in found._repr_markdown_()
    assert gradebook.solved() == frozenset()


def test_a_disk_that_refuses_costs_the_ticks_and_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "file"))
    gradebook.tick(1)
    assert gradebook.ticks() == 0


def test_the_tour_is_a_timeline_with_four_sentences(monkeypatch):
    made = labcourse.tour(one_by_one(), steps=2)
    assert isinstance(made, widget.TimelineWidget)
    assert made.look["tour"] == SENTENCES
    assert made.look["last"] == Timeline(one_by_one()).step_edges_ns[2]
    assert all(len(sentence) < 80 for sentence in SENTENCES)


def test_in_colab_the_page_calls_the_kernel_and_no_model_is_left_to_be_stored(colab, monkeypatch):
    called = {}
    monkeypatch.setattr(colab, "register_callback", called.__setitem__)
    monkeypatch.setattr(colab, "enable_custom_widget_manager", lambda: None)
    made, published = labcourse.tour(one_by_one()), []
    monkeypatch.setattr("IPython.display.publish_display_data", lambda *data: published.append(data))
    made._ipython_display_()
    assert made.ear is None
    assert len(published) == 1
    (name,) = called
    assert f'invokeFunction("{name}", [detail]' in made.html()
    called[name](3)
    assert gradebook.ticks() == 1


CELLS = """import os, sys; os.environ["LABKIT_DATA"] = {data!r}; sys.path[:0] = [{support!r}]
from traces import job
from labcourse import tour
tour(job(workers=1, steps=6, images=6))"""


@pytest.mark.browser
@pytest.mark.long
def test_in_jupyterlab_the_kernel_keeps_every_step_when_it_is_made(chromium, lab, tmp_path):
    text = CELLS.format(data=str(tmp_path), support=str(Path(__file__).parents[1] / "support"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text)])
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(notebook, lab.home / "tour.ipynb")
    page, _ = lab.open(chromium, "tour.ipynb")
    turn_to(page, "tour.ipynb", kernel=True)
    run_all(page)
    page.wait_for_selector(".labkit-timeline[data-painted]")
    for step in (1, 2, 3):
        page.get_by_role("button", name="show me").click()
        until(lambda step=step: (tmp_path / "first tour" / str(step)).exists(), f"step {step}", 20)
        assert len(list((tmp_path / "first tour").iterdir())) == step
    page.close()
