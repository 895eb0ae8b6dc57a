"""What axe finds on the pages of the site, in both themes: nothing that is serious."""

from __future__ import annotations

from importlib.resources import files

import pytest
from browser import ROOT

SITE = ROOT / "build" / "site"
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
RUN = "axe.run(document, {resultTypes: ['violations']})"


@pytest.fixture
def axe(chromium):
    """Return what axe calls serious or critical on a page, in a theme."""
    source = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    tabs = {theme: chromium.new_page(color_scheme=theme) for theme in ("light", "dark")}

    def found(address, theme):
        tabs[theme].goto(address)
        tabs[theme].evaluate(source)
        violations = tabs[theme].evaluate(RUN)["violations"]
        return [
            (v["id"], n["html"][:120]) for v in violations if v["impact"] in ("serious", "critical") for n in v["nodes"]
        ]

    yield found
    for tab in tabs.values():
        tab.close()


@pytest.mark.site
@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(axe, theme):
    assert PAGES, "there is no site: make site"
    found = {name: problems for name in PAGES if (problems := axe((SITE / name).as_uri(), theme))}
    assert found == {}


@pytest.mark.browser
def test_axe_finds_what_is_wrong(axe, tmp_path):
    (tmp_path / "bad.html").write_text('<html lang="en"><title>bad</title><main><h1>a</h1><img src="data:,"></main>')
    assert [name for name, _ in axe((tmp_path / "bad.html").as_uri(), "light")] == ["image-alt"]
