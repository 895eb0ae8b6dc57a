"""The site as a reader meets it: from a folder, without a network, by mouse and by keys, with and without scripts."""

from __future__ import annotations

import re

import pytest
from browser import ROOT, settle
from playwright.sync_api import expect
from timeline_page import click_gap

pytestmark = [pytest.mark.site, pytest.mark.browser]

SITE = ROOT / "build" / "site"
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
FIRST = "notebooks/00_read_a_timeline.html"
#: Every timeline of the page is drawn by the pen, but for those that answer what is not predicted yet.
DRAWN = """() => [...document.querySelectorAll('.lab-timeline')].filter((place) => place.checkVisibility())
  .every((place) => place.querySelector('.labkit-timeline')?.timeline.painted)"""
VIEW = "document.querySelector('.labkit-timeline').timeline"


@pytest.fixture(scope="module", autouse=True)
def built():
    assert PAGES, "there is no site: make site"


@pytest.fixture
def opened(chromium):
    """Open a page of the site without a network; at the end nothing was asked for outside, and no script failed."""
    contexts, asked, failed = [], [], []

    def open_(name, width=1280, theme="light", **more):
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, offline=True, **more
        )
        contexts.append(context)
        tab = context.new_page()
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: failed.append(str(error)))
        tab.goto((SITE / name).as_uri())
        return tab

    yield open_
    for context in contexts:
        context.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert failed == []


def test_the_tour_is_made_by_the_mouse(opened):
    tab = opened(FIRST)
    tab.wait_for_function(DRAWN)
    assert tab.locator(".lt-tour").first.inner_text().count("to do") == 3
    said = click_gap(tab, 0, ".lab-timeline")
    assert "Gap 1" in said
    asks = tab.locator("[data-part=asks]").first
    assert asks.inner_text().startswith("2 of 3")
    for expected in ("3 of 3", "Gap, cause, photo"):
        tab.locator(".lt-tour").first.get_by_role("button", name="show me").click()
        expect(asks).to_have_text(re.compile(f"^{expected}"))


def test_the_tour_and_the_zoom_by_keys_alone(opened):
    """From the top of the page, with nothing but keys, into the timeline and out of it again."""
    tab = opened(FIRST)
    tab.wait_for_function(DRAWN)
    tab.keyboard.press("Tab")
    assert "content" in tab.evaluate("document.activeElement.textContent").lower(), "first of all, a way to the text"
    for _ in range(200):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.classList.contains('lt-lanes')"):
            break
    span = tab.evaluate(f"{VIEW}.last - {VIEW}.first")
    tab.keyboard.press("w")
    assert tab.evaluate(f"{VIEW}.last - {VIEW}.first") < span
    tab.keyboard.press("0")
    for key, expected in (("n", "2 of 3"), ("c", "3 of 3"), ("Enter", "Gap, cause, photo")):
        tab.keyboard.press(key)
        assert tab.locator("[data-part=asks]").first.inner_text().startswith(expected)
    assert tab.locator("[data-part=live]").first.inner_text(), "what is done is said"
    tab.keyboard.press("Escape")
    tab.keyboard.press("Escape")
    tab.keyboard.press("Tab")
    assert not tab.evaluate("document.activeElement.classList.contains('lt-lanes')")


def test_a_timeline_keeps_its_words_and_the_page_has_one_pen(opened):
    tab = opened(FIRST)
    tab.wait_for_function(DRAWN)
    assert tab.evaluate("[...document.scripts].filter((s) => s.src.includes('/pen.js')).length") == 1
    assert tab.content().count("class SvgPen") == 0
    places = tab.locator(".lab-timeline").locator("visible=true")
    for k in range(places.count()):
        words = places.nth(k).locator("> details")
        words.locator("summary").click()
        assert "accelerator busy" in words.inner_text()
        assert places.nth(k).locator("img").count() == 0, "the picture has gone"


def test_the_page_and_its_timelines_change_their_theme_together(opened):
    tab = opened(FIRST)
    tab.wait_for_function(DRAWN)
    seen = []
    for _ in range(4):
        tab.locator(".theme-toggle:visible").first.click()
        settle(tab)
        dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        tab.wait_for_function(f"{VIEW}.themeName === '{'dark' if dark else 'light'}'")
        dyed = tab.evaluate("getComputedStyle(document.querySelector('img.labkit-light')).filter")
        assert (dyed != "none") == dark
        seen.append(dark)
    assert set(seen) == {True, False}
    tab.reload()
    tab.wait_for_function(DRAWN)
    assert tab.evaluate(f"{VIEW}.themeName") == ("dark" if seen[-1] else "light"), "it is remembered"


def test_the_search_finds_pages_from_a_folder(opened):
    tab = opened("index.html")
    tab.locator(".sidebar-search").first.fill("page cache")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#search-results ul.search li a")
    assert tab.locator("#search-results ul.search li a").count() >= 3
    tab.locator("#search-results a", has_text="Glossary").first.click()
    expect(tab.locator("h2", has_text=re.compile("page cache", re.I)).first).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_is_wider_than_a_phone(opened, theme):
    tab = opened("index.html", width=390, theme=theme)
    wide = []
    for name in PAGES:
        tab.goto((SITE / name).as_uri())
        tab.wait_for_load_state()
        settle(tab)
        if tab.evaluate("document.documentElement.scrollWidth") > 390:
            wide.append(name)
        drawn = tab.locator(".labkit-picture img:not(.labkit-photo)")
        small = drawn.evaluate_all("(all) => all.filter((i) => i.offsetWidth && i.offsetWidth < 640).length")
        assert small == 0, f"{name}: the words of a picture are too small to be read"
    assert wide == []
    tab.goto((SITE / FIRST).as_uri())
    tab.locator(".mobile-header label[for=__navigation]").click()
    tab.locator(".sidebar-tree a", has_text="02 Overlap").click()
    assert "Overlap with prefetch" in tab.title()


def test_without_scripts_the_course_can_be_read(opened):
    tab = opened(FIRST, java_script_enabled=False)
    pictures = tab.locator(".lab-timeline img:not([hidden])")
    assert pictures.count() >= 3
    for k in range(pictures.count()):
        assert pictures.nth(k).is_visible()
        assert len(pictures.nth(k).get_attribute("alt")) > 40
    tab.locator(".lab-timeline summary").first.click()
    assert "accelerator busy" in tab.locator(".lab-timeline details").first.inner_text()
    tab.locator(".next-page").click()
    assert "01_measure" in tab.url


def test_every_page_opens_and_none_asks_outside(opened):
    """What is asked for outside, and scripts that fail, are found by the fixture."""
    tab = opened("index.html")
    for name in PAGES:
        tab.goto((SITE / name).as_uri())
        if tab.locator(".lab-timeline").count():
            tab.wait_for_function(DRAWN)
        pictures = "[...document.images].filter((i) => !i.complete || !i.naturalWidth).map((i) => i.src.slice(0, 80))"
        assert tab.evaluate(pictures) == [], name
