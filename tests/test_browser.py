"""The notebooks in a real JupyterLab and a real Chromium: they run, show their pictures, and stay on this machine."""

from __future__ import annotations

import json

import pytest
from browser import ROOT, SHOTS, turn_to, walk, wear

pytestmark = pytest.mark.browser


NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def reader(chromium, lab):
    """A page of JupyterLab that stays open from notebook to notebook, and the hosts it talks to."""
    page, hosts = lab.open(chromium, NOTEBOOKS[0].name)
    yield page, hosts
    page.close()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_the_stored_notebook_shows_its_pictures(reader, path):
    """The first one in both themes, the others in one of them, in turn: what a theme changes is the same for all."""
    number = NOTEBOOKS.index(path)
    themes = ("light", "dark")[number % 2 :][: 2 if number == 0 else 1]
    page, hosts = reader
    turn_to(page, path.name)
    outputs = [o.get("data", {}) for c in json.loads(path.read_text())["cells"] for o in c.get("outputs", [])]
    stored = sum(
        bool(o.keys() & {"image/png", "image/jpeg"}) or "<img" in "".join(o.get("text/html", "")) for o in outputs
    )
    for theme in themes:
        wear(page, theme)
        pictures = walk(page, f"{path.stem}-{theme}", stored)
        assert len(pictures) == stored > 0
        for _, natural, shown, room in pictures:
            assert natural > 0, "a picture does not decode"
            assert shown <= room, "a picture is wider than its cell"
    assert hosts - {"nobody"} == {"localhost"}, f"the page talks to {hosts}"


def test_the_tour_page_needs_no_network_and_no_script(chromium, tmp_path):
    """A page made from two real pictures: everything is inside, in both themes."""
    from labkit import view
    from labkit.measures import Measures
    from labkit.tour import render
    from labkit.trace import Span, Trace

    spans = [Span("consumer", "train step", "train", i * 10_000_000, 6_000_000, i) for i in range(6)]
    trace = Trace.from_spans(spans, kinds={"consumer": "consumer"}, images=192)
    view.draw(trace, title="One").keep(tmp_path / "figures" / "scoreboard")
    view.draw(trace, title="Two <b>").keep(tmp_path / "figures" / "00_x")
    page_file = tmp_path / "index.html"
    board = Measures.from_traces({"a <rung>": [trace], "another": [trace]})
    page_file.write_text(render(tmp_path / "figures", board), encoding="utf-8")
    for theme in ("light", "dark"):
        page = chromium.new_page(viewport={"width": 1200, "height": 1500}, color_scheme=theme, java_script_enabled=True)
        requests = []
        page.on(
            "request", lambda r, seen=requests: seen.append(r.url) if not r.url.startswith(("file:", "data:")) else None
        )
        page.goto(page_file.as_uri())
        images = page.evaluate("[...document.images].map(i => [i.complete, i.naturalWidth, i.alt.length])")
        assert len(images) == 2
        assert all(done and width > 500 and alt > 40 for done, width, alt in images)
        assert page.evaluate("document.querySelectorAll('script').length") == 0
        assert page.get_by_text("Two <b>").count() > 0, "titles are text, not markup"
        assert page.get_by_text("a <rung>").count() > 0
        page.screenshot(path=SHOTS / f"tour-{theme}.png")
        assert requests == []
        page.close()
