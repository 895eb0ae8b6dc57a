"""One layout, three pens: a timeline has the same rows while it runs, as a picture, in words, and on a saved page.

A page of a timeline is a block that its script draws, a picture where no script runs, and the words of that picture.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from every_pen import differences, drawn_otherwise, rows_of_words, shown_in, words_in
from traces import gpu_job, job, noisy_job, processes

import labkit
from labkit.views.layout import texts
from labkit.views.layout.rows import BAND

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


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
        if not re.search(r"lanes=|\bread\(", source):  # a reading says itself which of the two it shows
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
    for timelines in GIVEN:
        ((block, text),) = shown_in(labkit.show(*timelines).html())
        assert drawn_otherwise(tab, block) == ""
        assert rows_of_words(text)[0].split(", ").count(BAND) == 1
    red = texts.colours("light")["gap"].encode()
    assert "colours of no theme" in drawn_otherwise(tab, block.replace(red, b"#c01a0b")), "another colour is found"
    tab.close()
