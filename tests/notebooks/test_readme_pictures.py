"""The README's pictures as GitHub shows them, in a real Chromium: the right one is chosen, its words can be read."""

from __future__ import annotations

import html
import re

import pytest
from browser import ROOT
from timeline_page import show_in
from traces import job

from labkit.common.palette import THEMES
from labkit.timeline.timeline import Timeline

pytestmark = pytest.mark.browser

README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = re.findall(r"<picture>.*?</picture>", README, re.DOTALL)

#: By the pixels of a window: those of the narrowest column in which GitHub shows a README there, and the pixels that
#: the smallest words must have.
COLUMNS = {390: (308, 11), 900: (514, 11), 1280: (830, 10)}

#: CSS pixels of the smallest words of a timeline, and the image pixels for each of them in a film.
WORDS, DENSITY = 11, 2

PAGE = """<base href="{base}/"><meta name="viewport" content="width=device-width"><style>body {{ margin: 0 }}
main {{ width: {column}px; margin: auto }} img {{ max-width: 100%; box-sizing: content-box }}</style><main>{pictures}"""

#: What is shown of each picture: its address, its width on the page, and its own; once all are there.
SHOWN = """Promise.all([...document.images].map(async (image) => {
  await image.decode();
  return [image.currentSrc.split("/").pop(), image.width, image.naturalWidth]; }))"""


def smallest(name, shown, own):
    """Return how many pixels the smallest words of a picture have that is shown so many pixels wide."""
    if name.endswith(".webp"):
        return WORDS * shown / (own / DENSITY)
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    wide = float(re.search(r'viewBox="0 0 ([\d.]+) ', text)[1])
    sizes = [100 * float(size) for size in re.findall(r"scale\(([\d.]+) -\1\)", text)]  # letters are drawn in 1/100
    return min(sizes) * shown / wide


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", COLUMNS)
def test_every_picture_fits_its_column_has_the_theme_of_the_page_and_words_that_can_be_read(
    chromium, tmp_path, width, theme
):
    column, least = COLUMNS[width]
    path = tmp_path / "readme.html"
    path.write_text(PAGE.format(base=ROOT.as_uri(), column=column, pictures="".join(PICTURES)), encoding="utf-8")
    page = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=theme)
    page.goto(path.as_uri())
    found = page.evaluate(SHOWN)
    assert len(found) == len(PICTURES) == 3
    for name, shown, own in found:
        assert f".{theme}." in name
        assert (".narrow." in name) == (width < 1012), "from there on GitHub has room beside its own column"
        assert shown <= column
        assert smallest(name, shown, own) >= least, name
    page.close()


def test_the_words_of_a_timeline_in_a_narrow_film_are_as_large_as_they_are_taken_for(chromium):
    page = chromium.new_page(viewport={"width": 308, "height": 600})
    show_in(page, Timeline(job()))
    page.evaluate("view.selectGap(0, 2)")
    sizes = page.evaluate("""() => { view.redraw();
      const shown = [...view.root.querySelectorAll("*")].filter((node) => node.innerText && node.offsetParent);
      return [...shown.map((node) => parseFloat(getComputedStyle(node).fontSize)),
        ...[...view.svg().matchAll(/font-size="([\\d.]+)/g)].map(([, size]) => Number(size))]; }""")
    assert len(sizes) > 20
    assert min(sizes) >= WORDS
    assert page.evaluate("view.root.scrollWidth") <= 308
    page.close()


@pytest.mark.parametrize("name", ["overlap", "ladder"])
def test_a_narrow_picture_says_the_busy_shares_that_the_words_of_the_wide_one_say(name):
    alt = html.unescape(re.search(rf'src="docs/{name}\.light\.svg" alt="([^"]*)"', README)[1])
    said = re.compile(r"\d+ ?%(?! idle)")
    for theme in THEMES:
        words = re.findall("<!-- (.*?) -->", (ROOT / f"docs/{name}.narrow.{theme}.svg").read_text(encoding="utf-8"))
        assert said.findall(" ".join(words)) == said.findall(alt)


def test_no_source_names_a_theme_and_a_width_in_letters_that_github_rewrites():
    """GitHub replaces a whole condition that holds ``prefers-color-scheme`` by the theme of the site.

    A width beside it would be lost, and a wide window would get the narrow picture. A backslash before the hyphen says
    the same to a browser.
    """
    media = [condition for picture in PICTURES for condition in re.findall(r'media="([^"]*)"', picture)]
    assert len(media) == 3 * len(PICTURES)
    assert not [one for one in media if "width" in one and "prefers-color-scheme" in one]
