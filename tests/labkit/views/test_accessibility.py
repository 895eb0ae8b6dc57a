"""Readers who cannot see a picture, distinguish colours or hold a mouse get the same facts: all laws in one file.

Details of one module (the words of a lane, the target of a key that pans) are tested with this module.
"""

from __future__ import annotations

import io
import itertools
import re
from pathlib import Path

import jupytext
import nbformat
import pytest
from assistive import CONTRAST, FOCUS, STOPS, Page, ciede2000, nameless, tabbed
from PIL import Image
from timeline_page import ALL_LIVE, show_in
from traces import job
from vision import BLIND, lab

from labcourse import explorers, gradebook, grading, handin, predictions
from labextras import checks
from labkit.common import palette
from labkit.common.palette import THEMES, contrast
from labkit.pipelines import memory
from labkit.recording.measures import Measures
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES
from labkit.views.layout import LAYERS
from labkit.views.layout import texts as layout_texts
from labkit.views.picture import figure_html

ROOT = Path(__file__).resolve().parents[3]
STORED = [p for p in sorted((ROOT / "notebooks").rglob("*.ipynb")) if ".ipynb_checkpoints" not in p.parts]
SOURCES = [
    *sorted((ROOT / "notebooks" / "source").glob("*.py")),
    *sorted((ROOT / "notebooks/assignments").glob("ps*.py")),
]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "notebooks").rglob("*.md"))]
PICTURES = ("image/png", "image/jpeg", "image/svg+xml")
looks = pytest.mark.parametrize("look", THEMES.values(), ids=THEMES)
name_of = {"ids": lambda p: p.name}


# -- (a) pictures ---------------------------------------------------------------------------------


def words_missing(output):
    """Say what is wrong with the words of one output that holds a picture or a table; None if nothing is."""
    data, metadata = output.get("data", {}), output.get("metadata", {})
    page, text = Page("".join(data.get("text/html", ""))), "".join(data.get("text/plain", ""))
    stored = [kind for kind in PICTURES if kind in data]
    alts = page.alts + [metadata.get(kind, {}).get("alt", "") for kind in stored]
    if any(len(alt) < 20 or re.search(r"<\w+|0x[0-9a-f]{6}|^(image|picture|figure)\b", alt) for alt in alts):
        return f"alternative text is {alts}"
    if alts and (re.match(r"<.*>$", text) or not re.search(r"\d|not a measurement", text) or "at 0x" in text):
        return f"its text is {text[:60]!r}"
    if page.tables and (not page.heads or None in page.heads):
        return "a table without heads, or a head that does not say whether it is of a row or of a column"
    return None


@pytest.mark.parametrize("path", STORED, **name_of)
def test_every_stored_picture_and_table_has_its_words(path):
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("<img " in "".join(o.get("data", {}).get("text/html", "")) for o in outputs)
    assert [wrong for output in outputs if (wrong := words_missing(output))] == []


@pytest.mark.parametrize(
    "data",
    [
        {"image/jpeg": "/9j/", "text/plain": "<Figure size 540x240 with 10 Axes>"},
        {"text/html": "<img src='data:,'>", "text/plain": "busy 40 %"},
        {"text/html": "<img src='data:,' alt='a timeline, 40 % busy'>", "text/plain": "<labkit.Picture at 0x7f00>"},
        {"text/html": "<table><tr><th>a</th></tr><tr><td>1</td></tr></table>", "text/plain": "a 1"},
        {"text/html": "<table><tr><td>1</td></tr></table>", "text/plain": "1"},
    ],
)
def test_what_has_no_words_is_found(data):
    assert words_missing({"data": data})


def test_every_table_that_the_lab_shows_has_named_rows_and_columns():
    import tensorflow as tf

    cached = memory.choices({"numbers": tf.data.Dataset.range(8)})
    found = checks.DataReport(
        "a job", (checks.CheckFinding("count", "passed", "8 of 8"), checks.CheckFinding("once", "fault", "2 < 3"))
    )
    runs = Measures.from_traces({"a": [job()], "b": [job(wait=2)]})
    for table in (cached, found, runs):
        page = table._repr_html_()
        assert words_missing({"data": {"text/html": page, "text/plain": repr(table)}}) is None, page[:200]
        assert 'scope="row"' in page.replace("'", '"')


# -- (b) colours ----------------------------------------------------------------------------------


def test_the_difference_of_colours_is_that_of_its_paper():
    """Three rows of table 1 of Sharma and others."""
    for one, other, expected in (
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ):
        assert ciede2000(one, other) == pytest.approx(expected, abs=1e-4)


@looks
@pytest.mark.parametrize("blind", BLIND)
def test_what_is_called_alike_looks_alike_and_all_else_differs_for_every_kind_of_colour_vision(look, blind):
    """Simulated with the matrices of Machado, Oliveira and Fernandes (2009), the whole of a deficiency."""
    assert set(palette.LEGEND) == set(look.fill) == set(CATEGORIES) - {"wait", "iterator"}
    looks = {(words, look.fill[category]) for category, words in palette.LEGEND.items()} | {("idle", look.gap)}
    assert len(looks) == len(set(palette.LEGEND.values())) + 1, "one colour for each word"
    for (a, one), (b, other) in itertools.combinations(sorted(looks), 2):
        assert ciede2000(lab(one, blind), lab(other, blind)) >= 12, f"{a} and {b} look alike"


def test_what_waits_looks_unlike_what_works_without_any_colour():
    """Hollow: a tint that is much nearer to the bed of the lane than the line around it, and than any work."""
    for name, look in THEMES.items():
        colours = layout_texts.colours(name)
        hollow = [k for k, layer in enumerate(LAYERS) if layer.look == "hollow"]
        assert len(hollow) == 5
        assert len({colours["fill"][k] for k in hollow}) == 5, "each wait has a colour of its own"
        for k in hollow:
            inside = contrast(colours["tint"][k], look.lane)
            assert inside < 1.7
            assert inside < 0.6 * contrast(colours["fill"][k], look.lane)
            assert all(contrast(fill, colours["tint"][k]) >= 2 for fill in look.fill.values())


@looks
def test_contrast_is_that_of_the_guideline(look):
    """WCAG 2.1: text 4.5 to 1 (success criterion 1.4.3), what a picture is made of 3 to 1 (1.4.11)."""
    for ink in (look.ink, look.muted):
        assert min(contrast(ink, look.background), contrast(ink, look.lane)) >= 4.5
    for part in (*look.fill.values(), look.gap, look.node):
        assert min(contrast(part, look.background), contrast(part, look.lane)) >= 3
    assert contrast(look.line, look.background) >= 3
    colours = layout_texts.colours(look.name)
    assert all(contrast(on, fill) >= 4.5 for on, fill in zip(colours["on"], colours["fill"], strict=True))
    assert contrast(colours["on_gap"], look.gap) >= 4.5
    assert all(contrast(look.ink, tint) >= 4.5 for tint in colours["tint"]), "words in what is hollow"


@pytest.mark.parametrize("status", [grading.PASSED, grading.FAILED, grading.OPEN, grading.INCONCLUSIVE])
def test_a_result_is_a_sign_and_a_word(status):
    result = grading.CheckResult("03.1", status)
    assert status in repr(result)
    assert status in result._repr_html_()
    assert repr(result)[0] == result._repr_html_().split("<strong>")[1][0] not in "03"


# -- (c) keys instead of a mouse ------------------------------------------------------------------


@pytest.fixture
def shown(chromium):
    """Return a function that shows the timeline of jobs in a page of its own."""
    pages = []

    def show(*timelines, scheme="light"):
        page = chromium.new_page(viewport={"width": 1100, "height": 900}, color_scheme=scheme, reduced_motion="reduce")
        pages.append(page)
        page.goto("about:blank")
        show_in(page, *timelines, theme=scheme)
        return page

    yield show
    for page in pages:
        page.close()


@pytest.mark.browser
def test_tab_reaches_every_control_of_a_timeline_both_ways_and_leaves(shown):
    page = shown(job(), job(wait=2))
    for panel in ("", ".", "t", "?"):  # with nothing opened, then with all buttons, the tables, the list of keys
        page.locator(".lt-lanes").focus()
        if panel:
            page.keyboard.press(panel)
        page.locator("#before").focus()
        there = tabbed(page, ".labkit-timeline")
        assert len(there) == page.evaluate(STOPS, ".labkit-timeline") > (20 if panel == "." else 7)
        page.locator("#after").focus()
        back = tabbed(page, ".labkit-timeline", "Shift+Tab")
        assert back == there[::-1]
        assert nameless(page, ".labkit-timeline") == []


#: What a mouse can do, the keys that do the same from the lanes on, and where it shows.
WITHOUT_A_MOUSE = {
    "wheel: zoom": ("w", "[view.first, view.last]"),
    "button: +": ("+", "[view.first, view.last]"),
    "drag: move": ("w ArrowRight", "view.first"),
    "double click: zoom": ("w w", "[view.first, view.last]"),
    "button: all": ("w w 0", "[view.painted, view.first, view.last].slice(1).concat(window.all)"),
    "click on a gap": ("n", "view.detail.textContent"),
    "button: previous gap": ("p", "view.detail.textContent"),
    "click on a span": ("/ D e c o d e Enter", "view.detail.textContent"),
    "drag: measure": ("n m", "view.detail.textContent"),
    "button: fit": ("n f", "[view.first, view.last]"),
    "legend: hide": ("Tab Space", "[...view.hidden].length"),
    "button: lanes": ("l", "view.mode"),
    "button: more": (".", "view.more.hidden"),
    "button: search": ("/", "document.activeElement === view.search"),
    "button: tables": ("t", "view.panel.hidden"),
    "button: keys": ("?", "view.help.hidden"),
}


@pytest.mark.browser
def test_keys_do_all_that_a_mouse_does_and_each_is_announced(shown):
    page = shown(job(), job(wait=2))
    page.evaluate("window.all = []")
    for what, (keys, state) in WITHOUT_A_MOUSE.items():
        page.evaluate("() => { view.all(); view.escape(); view.escape(); view.say(''); view.canvas.focus(); }")
        if what == "button: all":
            page.evaluate("view.zoom(0.5)")
        before = page.evaluate(state)
        for key in keys.split():
            page.keyboard.press(key)
        assert page.evaluate(state) != before, f"{what}: {keys}"
        assert page.evaluate("document.getAnimations().length") == 0, "nothing moves for those who asked for it"
    page.locator(".lt-lanes").focus()
    page.keyboard.press("n")
    assert "ms" in page.locator(".labkit-timeline [aria-live]").inner_text()


@pytest.mark.browser
def test_every_button_behind_more_is_reached_by_keys_and_its_key_is_in_its_name(shown):
    """Four buttons are seen; the others come after a key, in the order in which they are read."""
    page = shown(job())
    assert page.evaluate(BUTTONS) == ["\u2039 gap", "gap \u203a", "all", "⋯"]
    more, hidden = page.get_by_role("button", name="more: "), "view.more.hidden"
    for key in (".", "."):
        before = page.evaluate(hidden)
        page.locator(".lt-lanes").focus()
        page.keyboard.press(key)
        assert page.evaluate(hidden) != before
        assert more.get_attribute("aria-expanded") == str(before).lower()
    more.focus()
    page.keyboard.press("Enter")
    page.locator(".lt-more button").first.focus()
    words = [page.evaluate(FOCUS, ".lt-more")[4], *(stop[1] for stop in tabbed(page, ".lt-more"))]
    assert len(words) == page.evaluate(STOPS, ".lt-more") == 12
    keys = "".join(re.findall(r"\((\S)\)$", "\n".join(page.evaluate(NAMES)), re.MULTILINE))
    assert keys == "PN0.WSFMLT?"
    for key in keys:
        known = f"view.help.querySelector(`[data-keys~=\"${{CSS.escape('{key}'.toLowerCase())}}\"]`).dataset.act"
        button = f"[...view.root.querySelectorAll('button')].find((b) => b.ariaLabel.endsWith('({key})')).dataset.act"
        assert page.evaluate(known) == page.evaluate(button), key
    for what in ("PNG", "SVG", "CSV"):
        page.get_by_role("button", name=f"as {what}").focus()
        with page.expect_download():
            page.keyboard.press("Enter")
        assert page.locator(".labkit-timeline [aria-live]").text_content().startswith("saved ")


#: The words on the buttons that are seen, outside the legend; and the names of all buttons.
BUTTONS = """[...view.root.querySelectorAll('button')].filter((b) => b.checkVisibility() && !b.closest('.lt-legend'))
  .map((b) => b.textContent)"""
NAMES = "[...view.root.querySelectorAll('.lt-bar button')].map((b) => b.ariaLabel)"


@pytest.mark.browser
def test_what_changes_is_spoken_with_a_space_between_two_sentences(shown):
    page = shown(job(host={"cpus": 2}))
    live = page.locator(".labkit-timeline [aria-live]")
    page.locator(".lt-lanes").focus()
    for key, wanted in (
        ("l", "a lane for each thread that works"), ("l", "all lanes"), ("l", "all threads in one band"),
        ("w", " to "), ("n", r"^Gap \d of 6: [\d.]+ ms, .*: .*waiting for batch"), ("m", "^Measured: .*: accelerator"),
        ("m", "measuring off"), ("Escape", "measuring off"), ("Escape", "selection cleared"),
    ):  # fmt: skip
        page.keyboard.press(key)
        assert re.search(wanted, live.text_content(), re.DOTALL), (key, live.text_content())
    page.locator(".lt-legend button").first.focus()
    page.keyboard.press("Space")
    assert live.text_content() == "train hidden"
    page.keyboard.press("Space")
    assert live.text_content() == "train shown"
    name = page.locator(".lt-lanes").get_attribute("aria-label")
    assert "accelerator busy 44.4 %" in name
    assert name.endswith("Press question mark for keys, T for tables.")


@pytest.mark.browser
def test_the_tables_for_screen_readers_hold_the_numbers(shown):
    trace = job()
    page, timeline = shown(trace), Timeline(trace)
    page.locator(".lt-lanes").focus()
    page.keyboard.press("t")
    panel = page.get_by_role("region", name="tables")
    assert page.evaluate("document.activeElement === view.panel"), "the focus moves to the tables when they open"
    assert panel.locator("th[scope=row]").count() == len(timeline.lanes) + len(timeline.gaps)
    assert panel.locator("table").count() == panel.locator("caption").count() == 2
    rows = panel.locator("table").nth(1).locator("tbody tr").all_inner_texts()
    for row, gap in zip(rows, timeline.gaps, strict=True):
        assert f"{gap.start_ns / 1e6:.3f}\t{gap.length_ns / 1e6:.3f}" in row
    assert all(cause.text in row for row, cause in zip(rows, timeline.causes, strict=True))
    assert f"{timeline.busy:.1%}".replace("%", " %") in panel.locator("table").first.inner_text()
    panel.get_by_role("button", name="show gap 3").click()
    assert page.locator(".lt-detail").inner_text().startswith("Gap 3")


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_of_a_timeline_can_be_read(shown, scheme):
    page = shown(job(), job(wait=2), scheme=scheme)
    page.locator(".lt-lanes").focus()
    for key in "n.?":
        page.keyboard.press(key)
    page.locator(".lt-legend button").first.click()  # off: still to be read
    assert page.evaluate(CONTRAST, ".labkit-timeline") == []
    page.evaluate("view.toggle('panel')")
    assert page.evaluate(CONTRAST, ".labkit-timeline") == []


def test_nothing_in_the_lab_moves_by_itself():
    for path in [p for p in (ROOT / "labkit").rglob("*") if p.suffix in (".js", ".html", ".json")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"@keyframes|animation\s*:|transition\s*:|scroll-behavior|<marquee|setInterval", text), (
            path.name
        )


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_explorers_of_colab_need_no_mouse_either(colab, chromium, scheme):
    for number, made in enumerate((explorers.explore("03"), explorers.scale())):
        page = chromium.new_page(viewport={"width": 1000, "height": 900}, color_scheme=scheme)
        head = '<!doctype html><meta name="color-scheme" content="light dark"><button id="before">before</button>'
        html = made._repr_mimebundle_()[0]["text/html"]
        page.set_content(f'{head}<div id="page{number}">{html}</div><button>after</button>')
        page.locator("#before").focus()
        assert len(tabbed(page, f"#page{number}")) == page.evaluate(STOPS, f"#page{number}") > 8
        assert nameless(page, f"#page{number}") == []
        assert page.evaluate(CONTRAST, f"#page{number}") == []
        page.close()


def seen_on_a_dark_page(chromium, colours):
    """Return how colours of a light picture without a dark one look on a dark page."""
    image = Image.new("RGB", (50 * len(colours), 10))  # no picture is shown smaller than 640 pixels
    for k, color in enumerate(colours):
        image.paste(color, (50 * k, 0, 50 * k + 50, 10))
    image.save(out := io.BytesIO(), "webp", lossless=True)
    page = chromium.new_page(viewport={"width": 1200, "height": 200})
    picture = figure_html({"light": out.getvalue()}, "webp", image.width, "colours", "colours")
    page.set_content(f'<!doctype html><body data-jp-theme-light="false">{picture}')
    shot = Image.open(io.BytesIO(page.locator("img").screenshot())).convert("RGB")
    page.close()
    return ["#{:02x}{:02x}{:02x}".format(*shot.getpixel((50 * k + 25, 5))) for k in range(len(colours))]


@pytest.mark.browser
def test_a_light_picture_on_a_dark_page_has_nearly_the_dark_colours_and_its_words_can_be_read(chromium):
    light, dark = (layout_texts.colours(name) for name in ("light", "dark"))
    hollow = [k for k, layer in enumerate(LAYERS) if layer.look == "hollow"]
    pairs = {light[name]: dark[name] for name in ("background", "lane", "ink", "muted", "gap")}
    pairs |= {light["tint"][k]: dark["tint"][k] for k in hollow}
    fills = [light["fill"][k] for k, layer in enumerate(LAYERS) if layer.look == "filled"]
    colours = [*pairs, *fills, "#000000", light["on_gap"]]
    seen = dict(zip(colours, seen_on_a_dark_page(chromium, colours), strict=True))
    away = {color: ciede2000(lab(seen[color], "none"), lab(wanted, "none")) for color, wanted in pairs.items()}
    assert max(away.values()) < 9, away
    assert away[light["gap"]] < 6, "idle time stays red"
    for one, other in itertools.combinations([*fills, light["gap"]], 2):
        assert ciede2000(lab(seen[one], "none"), lab(seen[other], "none")) >= 10, (one, other)
    grounds = [light["background"], light["lane"], *(light["tint"][k] for k in hollow)]
    words = [*((light["ink"], ground) for ground in grounds), (light["muted"], light["background"])]
    words += [(palette.text_on(fill), fill) for fill in [*fills, light["gap"]]]
    assert [pair for pair in words if contrast(seen[pair[0]], seen[pair[1]]) < 4.5] == []


# -- (d) headings, links, pages ---------------------------------------------------------------------


def jumps(levels):
    return [(a, b) for a, b in itertools.pairwise([0, *levels]) if b > a + 1]


def prose(path):
    """Return the Markdown of a notebook, of its source or of a page, without what stands in code."""
    cells = None if path.suffix == ".md" else jupytext.read(path).cells
    text = (
        path.read_text(encoding="utf-8")
        if cells is None
        else "\n\n".join(c.source for c in cells if c.cell_type == "markdown")
    )
    return re.sub(r"(?ms)^\s*```.*?^\s*```|`[^`\n]*`", "", text)


#: Words that say nothing where a screen reader lists the links of a page.
EMPTY = re.compile(r"(click )?(here|this|that|link|this link|more|read more|page|\W*)", re.IGNORECASE)


@pytest.mark.parametrize("path", [*STORED, *SOURCES, *PAGES], **name_of)
def test_headings_follow_each_other_and_links_and_images_have_words(path):
    text = prose(path)
    levels = [len(mark) for mark in re.findall(r"(?m)^(#{1,6}) \S", text)]
    assert jumps(levels) == []
    assert levels.count(1) == 1, "one title"
    assert levels[0] == 1
    assert all(len(alt) > 5 for alt in re.findall(r"!\[([^\]]*)\]", text))
    without_images = re.sub(r"!\[([^\]]*)\]\([^)]*\)", r"\1", text)
    assert [words for words in re.findall(r"\[([^\]]+)\]\(", without_images) if EMPTY.fullmatch(words)] == []
    assert not re.search(r"<img(?![^>]*alt=)|<a |<font|style=|color:", text), (
        "plain Markdown, and words instead of colours"
    )


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The two pages that the lab writes: the tour, and a class of one."""
    import tour

    here = tmp_path_factory.mktemp("pages")
    made = {"tour": tour.render(Measures.from_traces({"a rung": [job()], "another": [job(wait=2)]}))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_DATA", str(here / "data"))
        patch.setattr(gradebook, "session", gradebook.Journal())
        patch.setattr(predictions, "session", {})
        grading.check("11.5", None)
        handin.submit("s1", folder=here / "results", quiet=True)
    made["class"] = handin.gather(here / "results").html()
    for name, text in made.items():
        (here / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: here / f"{name}.html" for name in made}


def test_pages_have_a_language_a_title_headings_and_tables_that_can_be_followed(pages):
    for path in pages.values():
        page = Page(path.read_text(encoding="utf-8"))
        assert page.lang == "en"
        assert len(page.title) > 10
        assert page.levels[0] == 1
        assert jumps(page.levels) == []
        assert page.tables >= 1
        assert {"col", "row"} == set(page.heads)
        assert all(len(alt) > 40 for alt in page.alts)


@pytest.mark.sample(1)
@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_can_be_read_and_walked_by_keys_in_both_themes(pages, chromium, scheme):
    for path in pages.values():
        page = chromium.new_page(viewport={"width": 700, "height": 900}, color_scheme=scheme)
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        page.set_viewport_size({"width": 700, "height": 9000})  # every timeline is seen, and lives
        page.wait_for_function(ALL_LIVE)
        page.set_viewport_size({"width": 700, "height": 900})
        assert page.evaluate(CONTRAST, "body") == []
        assert nameless(page, "body") == []
        stops = tabbed(page, "main, section, div, nav, figure, details, p")
        assert len(stops) == page.evaluate(STOPS, "body") > 0
        page.close()
