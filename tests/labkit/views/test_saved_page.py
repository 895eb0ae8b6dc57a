"""`labkit.save`: a timeline as one file that lives where scripts run, and is a picture where they do not."""

from __future__ import annotations

import html
import re

import pytest
from timeline_page import click_gap
from traces import job

import labkit
from labkit.timeline.timeline import Timeline


def test_a_saved_page_is_one_file_with_the_words_of_its_timeline(tmp_path):
    path = labkit.save(job(), tmp_path / "run.html")
    text = path.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [path] == [tmp_path / "run.html"]
    assert not re.search(r"https?://(?!www\.w3\.org)", text), "nothing is fetched"
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert html.escape(str(Timeline(job()))) in text


def test_a_pair_is_saved_under_its_labels(tmp_path):
    text = labkit.save(job(), tmp_path / "pair.HTM", job(wait=1), labels=("slow", "quick")).read_text(encoding="utf-8")
    assert "<h1>slow and quick</h1>" in text
    assert "slow:\n" in text
    assert "quick:\n" in text


@pytest.mark.parametrize("name", ["run.txt", "run", "html"])
def test_another_ending_is_refused_in_one_sentence(tmp_path, name):
    with pytest.raises(ValueError, match=rf"{name} ends in '.*'; allowed: \.html, \.htm$"):
        labkit.save(job(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_titles_and_names_are_text_not_markup(tmp_path):
    """Also where a dollar would name a part of the page."""
    bad = "</script><b onclick='x'>$timeline & ${title}"
    text = labkit.save(job(name=bad), tmp_path / "a.html").read_text(encoding="utf-8")
    other = labkit.save(job(), tmp_path / "b.html", title=bad).read_text(encoding="utf-8")
    for page in (text, other):
        assert page.count("</script>") == 1
        assert "<b onclick" not in page
        assert "&lt;b onclick=&#x27;x&#x27;&gt;$timeline &amp; ${title}" in page


@pytest.mark.sample(1)
@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_saved_page_lives_without_a_network(chromium, tmp_path, theme):
    path, timeline = labkit.save(job(), tmp_path / "run.html"), Timeline(job())
    page = chromium.new_page(viewport={"width": 1000, "height": 800}, color_scheme=theme)
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    for number in (1, 3):
        words = click_gap(page, number)
        assert words.startswith(f"Gap {number + 1} of {len(timeline.gaps)}")
        assert timeline.causes[number].text in words
    assert page.locator("main img").count() == 0, "the timeline takes the place of the picture"
    assert page.evaluate("document.querySelector('.labkit-timeline').timeline.themeName") == theme
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [path.as_uri()]
    assert errors == []
    page.close()
