"""One layout, three pens: what a page draws, what its picture says in words, and what its block holds, compared.

As a plugin of pytest (``-p every_pen``, beside nbval) it compares the pens for each timeline that a notebook shows
while it runs. A page of a timeline is a block that its script draws, a picture where no script runs, and the words of
that picture.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from fnmatch import fnmatchcase

import numpy as np
import pytest
from browser import CHROMIUM, QUIET_FLAGS
from timeline_page import MODEL

from labkit.views.layout import LAYERS, VERSION, texts
from labkit.views.layout.rows import MODES
from labkit.views.widget import MODULE, page

#: A cell that shows a timeline.
SHOWS = re.compile(r"^labkit\.show\(", re.MULTILINE)

#: What a page shows in words, and all colours that it fills with, in one mode.
DRAWN = """(mode) => { view.mode = mode; view.redraw(); const holder = document.createElement('div');
  holder.innerHTML = view.svg();
  return [[...holder.querySelectorAll('text')].map((t) => t.textContent),
    [...holder.querySelectorAll('rect')].map((r) => r.getAttribute('fill')).filter(Boolean)]; }"""


def shown_in(page_text):
    """Return block and words of each timeline that a page of HTML holds."""
    blocks = re.findall(r'mount\(el, "([A-Za-z0-9+/=]+)"', page_text)
    return [(gzip.decompress(base64.b64decode(b)), t) for b, t in zip(blocks, words_in(page_text), strict=False)]


def words_in(page_text):
    """Return the words of each picture of a page."""
    return [html.unescape(text) for text in re.findall(r"<pre[^>]*>(.*?)</pre>", page_text, re.DOTALL)]


def header_of(block):
    """Return version and header of a block."""
    length, version = np.frombuffer(block, "<u4", 2).tolist()
    return version, json.loads(block[8 : 8 + length])


def rows_of_words(text):
    """Return the rows of each run that the words of a picture name."""
    return re.findall(r"^(?:[^\n]*: )?rows: (.*)$", text, re.MULTILINE)


def rows_of_header(header, mode="band"):
    """Return the rows of each run that a page draws."""
    items = header["layouts"][mode]["items"]
    return [", ".join(i["name"] for i in items if i["run"] == r) for r in range(len(header["runs"]))]


def differences(block, text):
    """Say how the picture of a timeline differs from its page; "" if it does not."""
    version, header = header_of(block)
    if version != VERSION:
        return f"the block has version {version}"
    if rows_of_header(header) != rows_of_words(text):
        return f"the page has {rows_of_header(header)}, the picture {rows_of_words(text)}"
    if len({", ".join(row.split(", ")[:2]) for row in rows_of_header(header)}) > 1:
        return f"two halves of two forms: {rows_of_header(header)}"
    if len({run["band"]["most"] for run in header["runs"] if run["band"]}) > 1:
        return "two scales of threads"
    if [layer["look"] for layer in header["layers"]] != [*(layer.look for layer in LAYERS), "line"]:
        return f"layers are {header['layers']}"
    colours = {name: json.loads(json.dumps(texts.colours(name))) for name in header["themes"]}
    return "" if header["themes"] == colours else "colours are others"


def drawn_otherwise(tab, block):
    """Say how what a browser draws of a block differs from its layout, in any mode; "" if it does not."""
    _, header = header_of(block)
    look = {"page": page(), "theme": "light", "height": None}
    tab.evaluate(MODEL, [MODULE.read_text(encoding="utf-8"), base64.b64encode(block).decode(), look])
    if tab.evaluate("view.mode") != MODES[0]:
        return "it begins with another mode"
    known = {c for value in texts.colours("light").values() for c in ([value] if isinstance(value, str) else value)}
    for mode in MODES:
        words, fills = tab.evaluate(DRAWN, mode)
        wanted = [item["name"] for item in sorted(header["layouts"][mode]["items"], key=lambda item: item["run"])]
        left = iter(words)
        if lacking := [row for row in wanted if not any(_names(word, row) for word in left)]:
            return f"{mode}: it draws {words}, in this order no row {lacking}"
        if not set(fills) - {"none"} <= known:
            return f"{mode}: colours of no theme: {sorted(set(fills) - known)}"
        for run in header["runs"]:  # above its lanes a heading says as much as has room
            least = [run["label"], run["heading"].split(" · ")[0]]
            if not any(_names(word, run["head"]) or all(part in word for part in least) for word in words):
                return f"{mode}: no heading {run['head']!r}"
    return ""


def _names(word, whole):
    """Tell whether a word stands for a name; an ellipsis stands for what found no room."""
    return word == whole or ("…" in word and fnmatchcase(whole, re.sub(" ?… ?", "*", word)))


def _tab(config):
    """Return a tab of a browser, the same for all notebooks of this process."""
    if not hasattr(config, "every_pen"):
        from playwright.sync_api import sync_playwright

        playwright = sync_playwright().start()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET_FLAGS)
        config.every_pen = browser.new_page(viewport={"width": 1100, "height": 900})
        config.add_cleanup(playwright.stop)
        config.add_cleanup(browser.close)
    return config.every_pen


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Compare the pens for each timeline that a cell of a notebook has shown."""
    done = yield
    if not hasattr(item, "test_outputs"):
        return done
    found = [
        one
        for output in item.test_outputs or []
        if output.output_type in ("display_data", "execute_result")
        for one in shown_in(output.data.get("text/html", ""))
    ]
    assert found or not SHOWS.search(item.cell.source), "a cell calls labkit.show and shows no timeline"
    for block, text in found:
        problem = differences(block, text) or drawn_otherwise(_tab(item.config), block)
        assert not problem, problem
    return done
