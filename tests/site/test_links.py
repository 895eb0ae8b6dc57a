"""Every link of the site leads somewhere, and every page may stand in any folder of any server."""

from __future__ import annotations

import importlib.util
import posixpath
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
from browser import ROOT

from badges import rewrite

SITE = ROOT / "build" / "site"


class Links(HTMLParser):
    """The links, the files and the anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.files, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        known = dict(attributes)
        self.anchors |= {known[key] for key in ("id", "name") if known.get(key)}
        if tag == "a" and known.get("href"):
            self.links.append(known["href"])
        else:
            self.files += [known[key] for key in ("href", "src") if known.get(key)]


def broken(site):
    """Return each link that leads nowhere, as ``(page, link)``; those to other sites are not followed."""
    pages = {
        path.relative_to(site).as_posix(): Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")
    }
    for name, page in pages.items():
        for link in [*page.links, *page.files]:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "data", "mailto"):
                continue
            target = (
                posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path))) if parts.path else name
            )
            there = not link.startswith("/") and not parts.scheme and (site / target).is_file()
            if not there or (
                parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors
            ):
                yield name, link


@pytest.mark.site
def test_no_link_is_broken_and_none_leaves_the_folder():
    assert (SITE / "index.html").exists(), "there is no site: make site"
    assert list(broken(SITE)) == []
    notebooks = {path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb")}
    assert notebooks == {path.stem for path in (SITE / "notebooks").glob("[0-9]*.html")}
    index = Links((SITE / "index.html").read_text(encoding="utf-8")).links
    assert {f"notebooks/{name}.html" for name in notebooks} <= set(index)


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<p id="x"><a href="#x">1</a><a href="#y">2</a><a href="b.html">3</a>')
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "c.html").write_text(
        '<a href="../a.html#x">1</a><a href="../a.html#z">2</a><a href="/a.html">3</a>'
    )
    assert [link for _, link in broken(tmp_path)] == ["#y", "b.html", "../a.html#z", "/a.html"]


def test_a_fork_has_its_own_address(tmp_path, monkeypatch):
    """What `labkit colab` has written is what the pages offer."""
    spec = importlib.util.spec_from_file_location("site_build", ROOT / "docs" / "site" / "build.py")
    site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site)
    for name in ("pyproject.toml", "README.md"):
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    rewrite(tmp_path, "someone/their-lab", "v9")
    monkeypatch.setattr(site, "ROOT", tmp_path)
    assert "github/someone/their-lab/blob/v9/notebooks/00_a.ipynb" in site.offers(tmp_path / "notebooks" / "00_a.ipynb")
    (tmp_path / "LICENSE").write_text("")
    text = site.linked("[a](LICENSE) [b](https://example.org) [c](#c) [d](missing.md)", tmp_path / "index.md")
    assert text.startswith("[a](https://github.com/someone/their-lab/blob/v9/LICENSE) [b](https://example.org) [c](#c)")
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "https://someone.github.io/their-lab/" in readme
    assert "pipeline-lab.github.io" not in readme
