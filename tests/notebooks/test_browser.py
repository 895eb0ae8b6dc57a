"""The notebooks in a real JupyterLab and a real Chromium, hands on the keys: they run, answer and stay on this machine.

JupyterLab takes long to load, so one page turns from notebook to notebook, in the order of this file.
"""

from __future__ import annotations

import json
import re

import nbformat
import pytest
from assistive import CONTRAST, STOPS, nameless, tabbed
from browser import ROOT, SHOTS, STILL, run_all, settle, turn_to, walk, wear
from PIL import Image
from timeline_page import ALL_LIVE, click_gap
from traces import job

pytestmark = pytest.mark.browser
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def desk(chromium, lab):
    """A page of JupyterLab that stays open from notebook to notebook, and the hosts it talks to."""
    page, hosts = lab.open(chromium, NOTEBOOKS[0].name)
    yield page, hosts
    page.close()


@pytest.fixture(scope="module")
def next_day(chromium, lab):
    """A page of its own, which has seen nothing of what happened in the other one, and the hosts it talks to."""
    page, hosts = lab.open(chromium, NOTEBOOKS[0].name)
    yield page, hosts
    page.close()


@pytest.mark.long
@pytest.mark.parametrize("path", [pytest.param(p, id=p.stem) for p in NOTEBOOKS])
def test_the_stored_notebook_shows_its_pictures(desk, path):
    """The first one in both themes, the others in one of them, in turn: what a theme changes is the same for all."""
    number = NOTEBOOKS.index(path)
    themes = ("light", "dark")[number % 2 :][: 2 if number == 0 else 1]
    page, hosts = desk
    turn_to(page, path.name)
    outputs = [o.get("data", {}) for c in json.loads(path.read_text())["cells"] for o in c.get("outputs", [])]
    # A page has a picture for each of its figures; a reading has several.
    stored = sum(
        "".join(o.get("text/html", "")).count("<img") or bool(o.keys() & {"image/png", "image/jpeg"}) for o in outputs
    )
    for theme in themes:
        wear(page, theme)
        pictures = walk(page, f"{path.stem}-{theme}", stored)
        assert len(pictures) == stored > 0
        for _, natural, shown, room in pictures:
            assert natural > 0, "a picture does not decode"
            assert shown <= room, "a picture is wider than its cell"
    assert hosts - {"nobody"} == {"localhost"}, f"the page talks to {hosts}"


@pytest.fixture(scope="module")
def tour_page(tmp_path_factory):
    """The page of a tour of two rungs."""
    from labkit.recording.measures import Measures
    from tour import render

    slow, quick = job(name="slow", wait=36, images=12), job(name="quick", images=12)
    page = tmp_path_factory.mktemp("tour") / "index.html"
    page.write_text(render(Measures.from_traces({"a <rung>": [slow], "another": [quick]})), encoding="utf-8")
    return page


def open_tour(chromium, path, **more):
    """Open the page; return it with what it asks for and what goes wrong on it."""
    page = chromium.new_page(**more)
    page.asked, page.errors = [], []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto(path.as_uri())
    return page


def unfold(page):
    """Open all that the page itself has folded; a timeline folds its own."""
    page.locator("details:not(.labkit-timeline *)").evaluate_all("all => all.forEach((one) => { one.open = true; })")


@pytest.mark.parametrize("theme", [pytest.param("light", marks=pytest.mark.long), "dark"])
def test_the_tour_page_can_be_read_without_a_network_and_without_scripts(chromium, tour_page, theme):
    page = open_tour(
        chromium, tour_page, viewport={"width": 1200, "height": 1500}, color_scheme=theme, java_script_enabled=False
    )
    assert "From 50 to 222 images per second" in page.get_by_role("heading", level=1).inner_text()
    unfold(page)
    pictures = [picture for picture in page.locator("img").all() if picture.is_visible()]
    assert len(pictures) == 2, "the two ends of the ladder, and all of it; each in one theme"
    for picture in pictures:
        assert picture.bounding_box()["width"] > 500
        assert len(picture.get_attribute("alt")) > 40
    assert page.get_by_text("Timeline of a <rung>").count() == 1, "a name is text, not markup"
    words = [pre.inner_text() for pre in page.locator("pre").all() if pre.is_visible()]
    assert len(words) == 4, "of each timeline and of the chart"
    assert all("busy" in text for text in words)
    page.screenshot(path=SHOTS / f"tour-{theme}.png")
    assert [url for url in page.asked if not url.startswith("data:")] == [tour_page.as_uri()]
    page.close()


def test_timelines_of_the_tour_page_live_once_they_are_seen(chromium, tour_page):
    page = open_tour(chromium, tour_page, viewport={"width": 1200, "height": 700})
    first, folded = "#ends", "#rung-2"
    words = click_gap(page, 1, first)
    assert words.startswith("Gap 2 of 6, a <rung>: 36.0 ms")
    assert "waiting for batch 1" in words
    assert page.locator("script").count() == 1, "all timelines share one pen"
    assert page.locator(f"{folded} .labkit-timeline").count() == 0
    page.get_by_text("Timeline of another").click()
    assert click_gap(page, 1, folded).startswith("Gap 2 of 6: 5.00 ms")
    assert [url for url in page.asked if not url.startswith(("data:", "blob:"))] == [tour_page.as_uri()]
    assert page.errors == []
    page.close()


@pytest.mark.sample(2)
@pytest.mark.parametrize("width", [400, 760, 1200])
@pytest.mark.parametrize("scripts", [True, False])
def test_nothing_of_the_tour_page_is_cut_off(chromium, tour_page, width, scripts):
    """What is wider than the page scrolls in a box of its own, and a line above says so; a picture in its figure."""
    page = open_tour(chromium, tour_page, viewport={"width": width, "height": 9000}, java_script_enabled=scripts)
    unfold(page)
    if scripts:
        page.wait_for_function(ALL_LIVE)
    wide = page.locator(".wide").all()
    assert len(wide) == 3, "the words of two rungs, and the scoreboard"
    scrolled = [box.evaluate("e => e.scrollWidth > e.clientWidth") for box in wide]
    hints = [box.locator("xpath=preceding-sibling::*[1]").is_visible() for box in wide]
    assert all(hint or not more for hint, more in zip(hints, scrolled, strict=True))
    assert any(scrolled) or width > 1000
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for picture in filter(lambda one: one.is_visible(), page.locator("img:not(.labkit-picture img)").all()):
        box = picture.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    page.close()


@pytest.mark.long
def test_sliders_buttons_and_lists_of_the_explorers_need_no_mouse(desk, lab):
    """In a real JupyterLab: each slider has a name and a value in words, and keeps its keys from the notebook."""
    cells = ["from labcourse import explorers\nexplorers.explore('03')", "explorers.scale()"]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    made.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    nbformat.write(made, lab.home / "explorers.ipynb")
    page, _ = desk
    turn_to(page, "explorers.ipynb", kernel=True, height=2400)
    run_all(page, 120)
    page.wait_for_function("document.querySelectorAll('.labkit-explorer [type=range][aria-valuetext]').length >= 20")
    pictures = page.locator(".jp-OutputArea-output > .labkit-picture")
    assert pictures.count() == 2
    assert not any(picture.is_visible() for picture in pictures.all()), "the widgets are alive"
    for number in (0, 1):
        page.evaluate(f"document.querySelectorAll('.labkit-explorer')[{number}].id = 'controls{number}'")
        root = f"#controls{number}"
        assert nameless(page, root) == []
        for _ in range(50):  # JupyterLab takes the focus once more when it is done with a cell
            page.locator(f"{root} button").first.focus()
            page.keyboard.press("Shift+Tab")
            if stops := tabbed(page, root):
                break
            settle(page)
        assert len(stops) == page.evaluate(STOPS, root) > 8
        sliders = page.locator(f"{root} [type=range]")
        for k in range(sliders.count()):
            assert sliders.nth(k).get_attribute("aria-valuetext") == sliders.nth(k).evaluate(
                "e => e.nextElementSibling.textContent"
            )
    status = page.locator("[role=status]", has_text="images/s").first
    slider = page.get_by_role("slider", name="wait to open a file")
    slider.focus()
    before, shown = slider.get_attribute("aria-valuetext"), status.inner_text()
    page.keyboard.press("ArrowLeft")
    statuses = "[...document.querySelectorAll('[role=status]')].map(status => status.textContent)"
    page.wait_for_function(f"(words) => !{statuses}.includes(words)", arg=shown)
    after = slider.get_attribute("aria-valuetext")
    assert before != after
    assert f"wait to open a file: {after}" in status.inner_text(), "the answer is spoken, with what was changed"
    page.get_by_role("button", name="16 files at once").focus()
    page.keyboard.press("Enter")
    page.wait_for_function(f"{statuses}.join().includes('cycle length: 16 files')")
    for theme in ("Dark", "Light"):
        page.evaluate(f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: 'JupyterLab {theme}'}})")
        page.wait_for_function(f"document.body.dataset.jpThemeLight === '{str(theme == 'Light').lower()}'")
        page.wait_for_function(f"(root) => ({CONTRAST})(root).length === 0", arg="#controls0")
        assert page.evaluate(CONTRAST, "#controls0") == []
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty")
    lab.end_sessions()
    for name in (NOTEBOOKS[0].name, "explorers.ipynb"):
        turn_to(page, name)
    page.get_by_text("Buttons and sliders need a running kernel").first.wait_for()
    assert [picture.is_visible() for picture in pictures.all()] == [True, True], "without a kernel there is a picture"


# -- timelines ------------------------------------------------------------------------------------

ERROR = "Error displaying widget"
LANES = ".labkit-timeline canvas.lt-lanes"

RECORD = """import os; os.environ["LABKIT_FAST"] = "0"  # somebody looks at the pictures
import labkit; labkit.setup()
import tensorflow as tf
from labkit.recording import accelerators

def work(i):
    x = tf.random.uniform([192, 192]) + tf.cast(i, tf.float32)
    for _ in range(6):
        x = x @ x / 1e3
    return x

options = tf.data.Options()
options.experimental_optimization.apply_default_optimizations = False
options.autotune.enabled = False
slow = tf.data.Dataset.range(10_000).map(work).batch(16).with_options(options)
fast = slow.prefetch(2)
stand_in = accelerators.modelled(step_ms=20, name="stand-in")"""

#: Its cells, as a reader would write them; the marks of the tests are in their first lines.
CELLS = [
    RECORD,
    "# one\nbefore = labkit.record(slow, stand_in, steps=6, name='one after the other')\nlabkit.show(before)",
    "# two\nafter = labkit.record(fast, stand_in, steps=6, name='overlapped')\nlabkit.show(before, after)",
    "# chart\nfrom labkit import charts\ncharts.bars({'one': 1.0, 'two': 2.0}, unit='ms', title='Two busy bars')",
    "# words\nprint('\\n'.join(str(gap) for gap in labkit.Timeline(before).gaps.largest(3)))",
]


@pytest.fixture(scope="module")
def made(lab):
    """A notebook with one timeline and two on one axis; not yet run."""
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS]
    # Something to scroll: the wheel must move the page unless the timeline has the focus.
    cells += [nbformat.v4.new_markdown_cell("\n\n".join(["A page below."] * 60))]
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), lab.home / "timeline.ipynb")
    return "timeline.ipynb"


@pytest.fixture(scope="module")
def opened(desk, made):
    """The page after Run All, and its hosts."""
    page, hosts = desk
    wear(page, "light")
    turn_to(page, made, kernel=True, height=1000)
    run_all(page)
    page.wait_for_function(f"document.querySelectorAll('{LANES}').length >= 2")
    return page, hosts


def timeline(page, mark):
    """Return the canvas of the cell whose first line is the given mark, scrolled into sight."""
    cell = page.locator(".jp-CodeCell", has=page.locator(".cm-line", has_text=re.compile(f"^# {mark}$")))
    canvas = cell.locator(LANES)
    canvas.scroll_into_view_if_needed()
    return canvas


def painting(canvas):
    """Return how many colours a canvas shows, and a hash of its pixels."""
    canvas.page.wait_for_function("c => !c.closest('.labkit-timeline').timeline.frame", arg=canvas.element_handle())
    return canvas.evaluate("""c => {
      const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set(); let h = 0;
      for (let i = 0; i < d.length; i += 4) {
        const v = (d[i] << 16) | (d[i + 1] << 8) | d[i + 2];
        seen.add(v);
        h = (h * 31 + v) | 0;
      }
      return [seen.size, h]; }""")


def detail(canvas):
    return canvas.evaluate("c => c.closest('.labkit-timeline').querySelector('.lt-detail').textContent")


def cells_of(page):
    """Return types and texts of the cells as the notebook itself has them."""
    return page.evaluate("""() => { const m = window.jupyterapp.shell.currentWidget.content.model.cells;
      return [...Array(m.length).keys()].map(i => m.get(i).type + ':' + m.get(i).sharedModel.getSource()); }""")


def middle_of_gap(canvas, number):
    """Return the place of a gap on the page."""
    x, y = canvas.evaluate(
        """(c, k) => { const v = c.closest('.labkit-timeline').timeline, g = v.layout.runs[0].gap;
      const p = v.plan.items.find(p => p.lane.kind === 'accelerator');
      return [v.x(g.start[k] + g.length[k] / 2), p.y - v.scroll + p.h / 2]; }""",
        number,
    )
    box = canvas.bounding_box()
    return box["x"] + x, box["y"] + y


def download(canvas, kind, folder):
    """Press a button of the timeline, behind its last one; return the file that the browser keeps."""
    root = canvas.locator("xpath=ancestor::*[contains(@class,'labkit-timeline')]")
    button = root.get_by_text(kind, exact=True)
    if not button.is_visible():
        root.get_by_role("button", name="more: ").click()
    with canvas.page.expect_download() as info:
        button.click()
    info.value.save_as(folder / info.value.suggested_filename)
    return folder / info.value.suggested_filename


@pytest.mark.long
def test_the_theme_of_the_lab_is_followed(opened):
    """Each time by each timeline that is on the page, whichever is in sight."""
    page, _ = opened
    SHOTS.mkdir(parents=True, exist_ok=True)
    corner = "c => [...c.getContext('2d').getImageData(2, c.height - 2, 1, 1).data].slice(0, 3).reduce((a, b) => a + b)"
    for theme in ("Dark", "Light") * 5:
        page.evaluate(f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: 'JupyterLab {theme}'}})")
        page.wait_for_function(f"document.body.dataset.jpThemeLight === '{str(theme == 'Light').lower()}'")
        follows = f"c => ({corner})(c) {'< 200' if theme == 'Dark' else '> 500'}"
        page.wait_for_function(f"""() => {{ const all = [...document.querySelectorAll('{LANES}')];
          return all.length && all.filter((c) => c.clientWidth).every({follows}); }}""")
    for theme in ("Dark", "Light"):
        wear(page, theme.lower())
        for mark in ("one", "two"):
            canvas = timeline(page, mark)
            follows = f"c => ({corner})(c) {'< 200' if theme == 'Dark' else '> 500'}"
            page.wait_for_function(follows, arg=canvas.element_handle())
            page.screenshot(path=SHOTS / f"timeline-{mark}-{theme.lower()}.png")


@pytest.mark.long
def test_a_picture_follows_the_theme_of_the_lab(opened):
    page, _ = opened
    shown = "() => [...document.querySelectorAll('img[alt^=\\'Two busy bars\\']')].filter(i => i.offsetParent)"
    for theme, look in (("Dark", "labkit-dark"), ("Light", "labkit-light")):
        page.evaluate(f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: 'JupyterLab {theme}'}})")
        page.wait_for_function(f"({shown})().map(i => i.className).join() === '{look}'")
        width, natural = page.evaluate(f"(i => [i.width, i.naturalWidth])(({shown})()[0])")
        assert natural == 2000
        assert width <= 1000


#: Natural widths of all pictures of outputs, and of all timelines that are painted.
WIDTHS = """() => {
  const all = (css) => [...document.querySelectorAll(css)];
  return all('.jp-OutputArea-output img').filter(i => i.offsetParent).map(i => i.naturalWidth)
    .concat(all('.labkit-timeline[data-painted] canvas.lt-lanes').map(c => c.width)); }"""


def save(page, lab, name, canvas):
    """Save with the keyboard, the timeline having the focus; return the notebook as it lies on the disk."""
    canvas.focus()
    page.keyboard.press("Control+s")
    page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty", timeout=20_000)
    return nbformat.read(lab.home / name, as_version=4)


@pytest.mark.long
def test_saved_and_reopened_without_a_kernel_it_shows_pictures(opened, next_day, lab, made):
    """As the reader saved it, trusted; as the build stores it, trusted and not."""
    page, _ = opened
    saved = save(page, lab, made, timeline(page, "one"))
    outputs = [o for c in saved.cells if c.cell_type == "code" for o in c.outputs if "image/png" in o.get("data", {})]
    assert len(outputs) == 3, "one, two and the chart"
    assert all(len(o.metadata["image/png"]["alt"]) > 40 for o in outputs)
    lab.end_sessions()
    from test_notebooks import load_build

    stored = load_build().tidy(nbformat.from_dict(json.loads(json.dumps(saved))))
    for name in ("stored.ipynb", "untrusted.ipynb"):
        nbformat.write(stored, lab.home / name)
    lab.trust(lab.home / "stored.ipynb")
    again, hosts = next_day
    lab.end_sessions()
    for name in (made, "stored.ipynb", "untrusted.ipynb"):
        turn_to(again, name, height=3000)  # all outputs are in sight
        again.wait_for_function(f"({WIDTHS})().length >= 3 && Math.min(...({WIDTHS})()) > 500", timeout=20_000)
        again.locator(".jp-WindowedPanel-outer").first.evaluate(STILL)
        widths = again.evaluate(WIDTHS)
        for words in (ERROR, "model not found"):
            assert again.get_by_text(words).count() == 0, f"{name}: {words}"
        again.screenshot(path=SHOTS / f"reopened-{name.split('.')[0]}.png")
        assert len(widths) >= 3, name
        assert min(widths) > 500, name
    assert hosts - {"nobody"} == {"localhost"}


@pytest.mark.long
def test_notebook_00_is_run_touched_saved_and_reopened(desk, next_day, lab, tmp_path):
    """A reader's way through one notebook of the course, from Run All to the next day."""
    name = NOTEBOOKS[0].name
    page, hosts = desk
    lab.end_sessions()
    turn_to(page, name, kernel=True, height=1200)
    run_all(page)
    assert page.get_by_text(ERROR).count() == 0
    assert len(walk(page, "run-all")) + page.locator(LANES).count() >= 1
    canvas, before = page.locator(LANES).first, cells_of(page)
    canvas.scroll_into_view_if_needed()
    canvas.focus()
    page.keyboard.press("0")
    whole = painting(canvas)
    assert whole[0] > 20
    for key in ("w", "b", "d", "d"):
        page.keyboard.press(key)
    assert painting(canvas)[1] != whole[1]
    assert cells_of(page) == before
    page.keyboard.press("0")
    page.mouse.click(*middle_of_gap(canvas, 1))
    assert detail(canvas).startswith("Gap 2 of ")
    image = Image.open(download(canvas, "PNG", tmp_path))
    assert len(image.convert("RGB").getcolors(1 << 24)) > 20
    assert save(page, lab, name, canvas).cells[-1].cell_type == "markdown"
    lab.end_sessions()
    page, more = next_day
    turn_to(page, name, height=1200)
    assert len(walk(page, "next-day")) + page.locator(LANES).count() >= 1
    assert page.get_by_text(ERROR).count() == 0
    assert (hosts | more) - {"nobody"} == {"localhost"}
