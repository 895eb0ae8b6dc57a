"""One layout, three pens: a timeline has the same rows while it runs, as a picture, in words, and on a saved page.

A page of a timeline is a block that its script draws, a picture where no script runs, and the words of that picture.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from pathlib import Path

import numpy as np
import pytest
from timeline_page import MODEL
from traces import gpu_job, job, noisy_job, processes

import labkit
from labkit.views.layout import LAYERS, VERSION, texts
from labkit.views.layout.rows import BAND, MODES
from labkit.views.widget import MODULE, page

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def shown_in(page_text):
    """Return block and words of each timeline that a page of HTML holds."""
    blocks = re.findall(r'mount\(el, "([A-Za-z0-9+/=]+)"', page_text)
    pairs = zip(blocks, words_in(page_text), strict=False)
    return [(gzip.decompress(base64.b64decode(block)), text) for block, text in pairs]


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


def stored(path):
    """Yield of each timeline that a notebook stores the source of its cell, its words, and its blocks, if any.

    The build keeps of a timeline the picture with its words.
    """
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            page_text = "".join(output.get("data", {}).get("text/html", ""))
            for text in words_in(page_text):
                if re.search(r"^(?:.*: )?shown: .* to [\d,.]+ \S?s$", text, re.MULTILINE):
                    yield "".join(cell["source"]), text, shown_in(page_text)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_timeline_that_a_notebook_stores_has_the_one_layout(path):
    for source, text, blocks in stored(path):
        rows = [row.split(", ") for row in rows_of_words(text)]
        runs = re.findall(r"^(?:.*: )?shown: ", text, re.MULTILINE)
        assert len(rows) == len(runs), f"a picture names no rows: {text.splitlines()[0]}"
        for row in rows:
            assert row[0].endswith("accelerator"), row
            assert BAND not in row[2:], "the band stands below the accelerator"
        assert len({BAND in row for row in rows}) == 1, "both halves have one form"
        if "lanes=" not in source:
            assert not [row for row in rows if re.search(r"worker|thread \d", ", ".join(row))], "nobody asked for lanes"
        assert list(filter(None, (differences(*found) for found in blocks))) == []


def test_the_notebooks_store_timelines():
    assert sum(1 for path in NOTEBOOKS for _ in stored(path)) >= 10


GIVEN = [
    [job(host={"cpus": 2})], [gpu_job()], [processes([8] * 6, [9] * 6)], [job(), job(wait=1, workers=5)],
    [noisy_job(workers=3), gpu_job()],
]  # fmt: skip


@pytest.mark.parametrize("timelines", GIVEN, ids=["job", "gpu", "processes", "pair", "pair with a device"])
def test_what_show_and_save_write_has_one_layout_for_all_pens(timelines, tmp_path):
    pages = [labkit.show(*timelines).html()]
    pages.append(labkit.save(timelines[0], tmp_path / "a.html", *timelines[1:]).read_text(encoding="utf-8"))
    for page_text in pages:
        ((block, text),) = shown_in(page_text)
        assert differences(block, text) == ""
        assert differences(block, text.replace("rows: accelerator", "rows: x")), "another row is found"


@pytest.mark.browser
def test_the_page_draws_the_rows_of_the_block_in_each_mode(chromium):
    tab = chromium.new_page(viewport={"width": 1100, "height": 900})
    look = {"page": page(), "theme": "light", "height": None}
    for timelines in GIVEN:
        ((block, text),) = shown_in(labkit.show(*timelines).html())
        tab.evaluate(MODEL, [MODULE.read_text(encoding="utf-8"), base64.b64encode(block).decode(), look])
        assert tab.evaluate("view.mode") == MODES[0] == "band"
        for mode in MODES:
            tab.evaluate("(mode) => { view.mode = mode; view.redraw(); }", mode)
            wanted = ", ".join(rows_of_header(header_of(block)[1], mode)).split(", ")
            drawn = tab.evaluate("""(wanted) => { const holder = document.createElement('div');
              holder.innerHTML = view.svg();
              const words = [...holder.querySelectorAll('text')].map((t) => t.textContent);
              return words.filter((t) => wanted.includes(t)); }""",
              wanted)  # fmt: skip
            assert drawn == wanted
            if mode == "band":
                assert wanted == ", ".join(rows_of_words(text)).split(", ")
                assert wanted.count(BAND) == len(timelines)
    tab.close()
