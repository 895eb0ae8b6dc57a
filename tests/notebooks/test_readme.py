"""The pages beside the notebooks: their code runs as it is written, their links lead somewhere, no word is missing."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from labkit.common.palette import THEMES

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/glossary.md", "docs/reference.md", "docs/tensorboard.md", "notebooks/INSTRUCTORS.md"]
PAGES += ["docs/instructors/grading.md", "docs/smartssd.md"]
TERMS = """batch step epoch shard element page-cache gil xla fpga smartssd opencl initiation-interval handing-over start
unknown fetch prep f-p-g busy-share stall autotune critical-path path-label""".split()
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
#: A row of the course: its number, its file, its minutes.
ROW = re.compile(r"^\| \[(\d\d[a-z]?) [^|]*\(notebooks/([\w.]+)\) \|.*\| (\d+) min \|", re.MULTILINE)


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def anchors(text):
    """Return the anchors that GitHub gives to the headings of a page: small letters, hyphens, no other signs."""
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.long
@pytest.mark.opencl
@pytest.mark.parametrize("name", ["README.md", "docs/reference.md"])
def test_the_code_of_a_page_runs_as_written(name, album, tmp_path):
    """Nothing is given to it but the lab's photos, which it finds in this checkout."""
    blocks = BLOCK.findall(page(name))
    assert blocks, f"{name} shows code"
    with tempfile.TemporaryDirectory(prefix="cards-") as sockets:  # the path of a socket must be short
        own = {"LABKIT_CARDS": sockets, "LABKIT_FAST": "1", "LABKIT_SCALE": "tiny"}
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(blocks)],
            cwd=tmp_path, env={**os.environ, **own},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    for shown in ("busy", "what to change", "speed-up"):
        assert shown in done.stdout, shown


def test_every_signature_stands_in_the_reference_as_it_is():
    where = ROOT / "docs" / "signatures.py"
    spec = importlib.util.spec_from_file_location("signatures", where)
    spec.loader.exec_module(signatures := importlib.util.module_from_spec(spec))
    assert page("docs/reference.md").endswith(signatures.section()), f"call python {where.relative_to(ROOT)}"
    assert "labkit.record(dataset, accelerator, *, steps=20," in signatures.section()


def test_the_instrument_is_shown_in_ten_lines():
    (block,) = BLOCK.findall(page("README.md"))
    assert sum(bool(line) for line in block.splitlines()) <= 12


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name):
    """A link to a notebook that is optional may come before its notebook."""
    for link in LINK.findall(page(name)):
        path, _, anchor = link.partition("#")
        if "://" in link or re.search(r"/\d\d[a-z]_\w+\.ipynb$", path):
            continue
        target = ((ROOT / name).parent / path).resolve() if path else ROOT / name
        assert target.exists(), f"{name}: {link}"
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), f"{name}: {link}"


def test_the_guide_for_instructors_is_short_and_begins_with_ten_lines():
    text = page("notebooks/INSTRUCTORS.md")
    assert len(text.split()) <= 1200
    first = text.split("\n## ")[1]
    assert first.startswith("Teach it in ten lines\n")
    (block,) = re.findall(r"```\n(.*?)```", first, re.DOTALL)
    assert len(block.splitlines()) == 10


def test_a_page_has_each_anchor_once():
    heads = re.findall(r"^## (.*)$", page("docs/glossary.md"), re.MULTILINE)
    assert len(anchors(page("docs/glossary.md"))) == len(heads) + 1  # and the title


def test_the_glossary_has_every_word_and_explains_it_in_a_few_sentences():
    text = page("docs/glossary.md")
    assert set(TERMS) <= anchors(text)
    for entry in text.split("\n## ")[1:]:
        head, body = entry.split("\n", 1)
        words, shown = body.split("\nShown in ")
        assert f"[{head}](#{next(iter(anchors('# ' + head)))})" in text, f"the list at the top lacks {head}"
        sentences = re.findall(r"[.?](?=\s)", words)
        assert 2 <= len(sentences) <= 5, f"{head}: {len(sentences)} sentences"
        assert "](../notebooks/" in shown, head


def test_what_a_notebook_links_in_the_glossary_is_there():
    known = anchors(page("docs/glossary.md"))
    for source in sorted((ROOT / "notebooks" / "source").glob("*.py")):
        asked = re.findall(r"\(\.\./docs/glossary\.md(?:#([^)]*))?\)", source.read_text(encoding="utf-8"))
        assert set(filter(None, asked)) <= known, f"{source.name} links {set(asked) - known}"


def test_the_course_has_a_row_for_every_notebook_and_its_times_add_up():
    rows = ROW.findall(page("README.md"))
    assert all(name.startswith(f"{number}_") for number, name, _ in rows)
    names = [name for _, name, _ in rows]
    assert names == sorted(names)
    there = {path.name for path in (ROOT / "notebooks").glob("[0-9]*.ipynb")}
    assert there <= set(names)
    assert {name for name in names if not name[2].isalpha()} <= there
    for line in page("README.md").splitlines():
        if row := ROW.match(line):
            assert ("*Optional.*" in line) == (row[1][-1].isalpha() and row[1] != "08b"), line
            assert f"/notebooks/{row[2]})" in line.split("colab.research.google.com")[1]
    main = [int(minutes) for number, _, minutes in rows if number <= "10" and (number.isdigit() or number == "08b")]
    assert f"about {sum(main) / 60:.0f} hours for the main course" in page("README.md")


def test_the_front_page_shows_every_picture_that_is_drawn_for_it_wide_and_narrow_light_and_dark():
    names = [("overlap", "svg"), ("ladder", "svg"), ("timeline", "webp")]
    files = {f"{n}{size}.{theme}.{end}" for n, end in names for size in ("", ".narrow") for theme in THEMES}
    shown = re.sub(r"<!--.*?-->", "", page("README.md"), flags=re.DOTALL)
    assert set(re.findall(r'"docs/([\w.]+)"', shown)) == files
    assert {path.name for path in (ROOT / "docs").glob("*.*.[sw]*")} == files
