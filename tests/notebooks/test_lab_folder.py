"""The folder that a reader works in: own copies that nothing overwrites, a start page that knows what is done."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from nbformat.sign import NotebookNotary

import labcourse
from lab_folder import EDITIONS, prepare
from labcourse import gradebook, grading, predictions, start_page

FIRST = "00_read_a_timeline.ipynb"


@pytest.fixture(autouse=True)
def own_data(tmp_path, monkeypatch):
    """A reader who has done nothing yet, and who works: LABKIT_FAST is for runs that nobody looks at."""
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("LABKIT_FAST", raising=False)
    monkeypatch.setattr(gradebook, "session", gradebook.Journal())
    monkeypatch.setattr(predictions, "session", {})


@pytest.fixture
def checkout(root, tmp_path):
    """A checkout whose notebooks may change."""
    for folder in ("notebooks", "docs"):
        (tmp_path / "checkout" / folder).mkdir(parents=True)
        for path in [*(root / folder).glob("[0-9]*.ipynb"), *(root / folder).glob("*.md")]:
            shutil.copy(path, tmp_path / "checkout" / folder)
    return tmp_path / "checkout"


def visible(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


@pytest.mark.long
def test_a_reader_sees_notebooks_a_start_page_and_the_glossary_and_nothing_else(root, tmp_path):
    assert prepare(tmp_path / "lab") == []
    there = [path.name for path in sorted((root / "notebooks").glob("[0-9]*.ipynb"))]
    assert visible(tmp_path / "lab") == [*there, "docs", "start.ipynb"]
    for path in (tmp_path / "lab").rglob("*.ipynb"):
        nbformat.validate(nbformat.read(path, 4))


def test_a_copy_begins_with_the_title_and_a_kit_with_what_colab_needs(tmp_path):
    for name, anew in (("lab", False), ("kit", True)):
        prepare(tmp_path / name, anew=anew)
        cells = nbformat.read(tmp_path / name / FIRST, 4).cells
        assert "colab-badge" not in cells[0].source
        (start,) = (cell for cell in cells if cell.id == "bootstrap")
        assert ("pip install" in start.source) == anew
        assert "import labkit\n\nlabkit.setup()" in start.source
        assert "git+" not in start.source
        compile(start.source, FIRST, "exec")
        (page,) = (tmp_path / name).glob("start.ipynb")
        assert ("make lab" in nbformat.read(page, 4).cells[0].source) != anew


def test_jupyterlab_asks_no_question_above_the_start_page(tmp_path, monkeypatch):
    """It reads its settings as ``make lab`` starts it."""
    from jupyterlab_server.settings_utils import _get_overrides

    prepare(tmp_path)
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path / ".jupyter"))
    found, _ = _get_overrides(str(tmp_path))
    assert found["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_copies_are_trusted_and_what_comes_in_afterwards_is_not(tmp_path, monkeypatch):
    """Without trust JupyterLab drops the style that lets a picture follow the theme."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    prepare(lab := tmp_path / "lab")
    copy, notary = nbformat.read(lab / "00_read_a_timeline.ipynb", as_version=4), NotebookNotary()
    assert notary.check_signature(copy)
    copy.cells[3]["source"] = "<script>alert(1)</script>"
    assert not notary.check_signature(copy)


def prose(path):
    """Return the text of a page, or that of the Markdown cells of a notebook: in code, `](` is no link."""
    if path.suffix != ".ipynb":
        return path.read_text(encoding="utf-8")
    return "\n".join(c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "markdown")


@pytest.mark.long
def test_every_link_leads_somewhere_inside_of_the_folder(tmp_path):
    prepare(lab := tmp_path / "lab")
    for path in [*lab.glob("*.ipynb"), *lab.glob("docs/*.md")]:
        for link in re.findall(r"\]\(([^)\s#\\]+)(?:#[^)]*)?\)", prose(path)):
            if "://" in link or link.startswith(("attachment:", "data:")):
                continue
            target = (path.parent / link).resolve()
            assert target.exists(), f"{path.name}: {link}"
            assert target.is_relative_to(lab)


@pytest.mark.long
def test_what_a_reader_saved_is_never_overwritten(checkout, tmp_path):
    prepare(lab := tmp_path / "lab", checkout)
    mine = lab / FIRST
    mine.write_text(mine.read_text(encoding="utf-8").replace("Read a timeline", "MY NOTES"), encoding="utf-8")
    before = mine.read_bytes()
    assert prepare(lab, checkout) == []  # there is no newer edition, so there is nothing to say
    newer = checkout / "notebooks" / FIRST
    newer.write_text(newer.read_text(encoding="utf-8").replace("Read a timeline", "A newer edition"), encoding="utf-8")
    (message,) = prepare(lab, checkout)
    assert FIRST in message
    assert "newer edition" in message
    assert mine.read_bytes() == before
    mine.rename(lab / "mine.ipynb")
    assert prepare(lab, checkout) == []
    assert "A newer edition" in mine.read_text(encoding="utf-8")
    assert (lab / "mine.ipynb").read_bytes() == before


@pytest.mark.long
@pytest.mark.parametrize("ran", [False, True])
def test_a_copy_that_was_only_opened_follows_a_newer_edition_and_one_that_ran_is_a_readers(checkout, tmp_path, ran):
    prepare(lab := tmp_path / "lab", checkout)
    opened = nbformat.read(lab / FIRST, 4)
    opened.metadata["language_info"]["version"] = "3.12.0"  # as JupyterLab writes it down when it saves
    if ran:
        next(cell for cell in opened.cells if cell.get("outputs")).outputs.clear()
    nbformat.write(opened, lab / FIRST)
    newer = checkout / "notebooks" / FIRST
    newer.write_text(newer.read_text(encoding="utf-8").replace("Read a timeline", "A newer edition"), encoding="utf-8")
    assert len(prepare(lab, checkout)) == ran
    assert ("A newer edition" in (lab / FIRST).read_text(encoding="utf-8")) != ran


def test_a_notebook_that_lay_there_before_is_a_readers(checkout, tmp_path):
    (lab := tmp_path / "lab").mkdir()
    (lab / FIRST).write_text("{}")
    (message,) = prepare(lab, checkout)
    assert FIRST in message
    assert (lab / FIRST).read_text() == "{}"
    assert "(cannot be read)" in str(labcourse.progress(lab))


@pytest.mark.long
def test_the_start_page_keeps_what_a_reader_adds_and_brings_the_table_up_to_date(tmp_path):
    prepare(lab := tmp_path / "lab")
    page = nbformat.read(lab / "start.ipynb", 4)
    page.cells.append(nbformat.v4.new_markdown_cell("a note of mine"))
    nbformat.write(page, lab / "start.ipynb")
    predictions.commit("00.busy", 0.5, unit="share")
    prepare(lab)
    page = nbformat.read(lab / "start.ipynb", 4)
    assert page.cells[-1].source == "a note of mine"
    assert "measure what you predicted as 00.busy" in page.cells[1].outputs[0].data["text/markdown"]
    assert len({cell.id for cell in page.cells}) == len(page.cells) == 3


@pytest.mark.long
def test_a_start_page_for_others_shows_nothing_of_what_was_done_here(tmp_path):
    prepare(tmp_path / "before")
    predictions.commit("00.busy", 0.5, unit="share")
    prepare(tmp_path / "mine")
    prepare(tmp_path / "theirs", anew=True)
    pages = [nbformat.read(tmp_path / name / "start.ipynb", 4).cells[1] for name in ("before", "mine", "theirs")]
    assert pages[2] == pages[0] != pages[1]


@pytest.mark.long
def test_the_cell_of_the_start_page_gives_what_is_stored_with_it(tmp_path):
    prepare(lab := tmp_path / "lab")
    _, cell = nbformat.read(lab / "start.ipynb", 4).cells
    done = subprocess.run(
        [sys.executable, "-c", cell.source.replace("labcourse.progress()", "print(labcourse.progress())")],
        cwd=lab, env=dict(os.environ), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == cell.outputs[0].data["text/plain"]


# -- what is done -----------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path):
    """A course of two notebooks and an optional one, which says so: a letter in a name does not."""
    for name, code in {
        "00_a.ipynb": 'predictions.commit("00.busy", ...)\ncheck("00.1", busy)\ncheck("00.2", x)',
        "00b_more.ipynb": 'check("02.1", more)',
        "00c_b.ipynb": 'check("01.1", rate)',
    }.items():
        said = "\n\nThis notebook is **optional**." if "more" in name else ""
        cells = [nbformat.v4.new_markdown_cell(f"# Title of {name[:-6]}{said}"), nbformat.v4.new_code_cell(code)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / name)
    return tmp_path


def rows(found):
    return [list(row[1:]) for row in found.table().rows]


def test_the_way_through_the_course_from_nothing_to_everything(small, monkeypatch):
    def after(number=None):
        if number:
            monkeypatch.setitem(grading.CHECKS, number, lambda answer: None)
            assert labcourse.check(number, lambda: 1).passed
        return labcourse.progress(small)

    assert rows(after()) == [["0 of 1", "0 of 1", "0 of 2"], ["–", "–", "0 of 1"], ["–", "–", "0 of 1"]]
    assert after().next == "Next: make the prediction 00.busy in notebook 00 Title of 00_a."
    predictions.commit("00.busy", 0.5, unit="share")
    assert "measure what you predicted as 00.busy" in after().next
    predictions.review("00.busy", measured=0.4)
    assert "exercise 00.1 in notebook 00" in after().next
    assert "exercise 00.2" in after("00.1").next
    assert rows(after())[0] == ["1 of 1", "1 of 1", "1 of 2"]
    assert "exercise 01.1" in after("00.2").next  # what is optional comes last
    assert "exercise 02.1 in notebook 00b Title of 00b_more (optional)" in after("01.1").next
    assert after("02.1").next == "Everything is predicted, measured and solved."


def test_what_was_solved_stays_solved_in_the_next_session_and_after_a_fresh_try(monkeypatch):
    monkeypatch.setitem(grading.CHECKS, "00.1", lambda answer: None)
    labcourse.check("00.1", lambda: 1)
    monkeypatch.setattr(gradebook, "session", gradebook.Journal())
    assert gradebook.solved() == {"00.1"}
    labcourse.check("00.1", ...)
    assert gradebook.solved() == {"00.1"}


def test_a_run_that_nobody_looks_at_solves_nothing(monkeypatch):
    monkeypatch.setenv("LABKIT_FAST", "1")
    monkeypatch.setitem(grading.CHECKS, "00.1", lambda answer: None)
    labcourse.check("00.1", lambda: 1)
    monkeypatch.setattr(gradebook, "session", gradebook.Journal())
    assert gradebook.solved() == frozenset()


def test_a_disk_that_refuses_costs_the_memory_and_not_the_check(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "file"))
    monkeypatch.setitem(grading.CHECKS, "00.1", lambda answer: None)
    assert labcourse.check("00.1", lambda: 1).passed
    assert gradebook.solved() == {"00.1"}


def test_every_exercise_of_the_lab_is_asked_for_by_a_notebook(root):
    found = start_page.progress(root / "notebooks")
    assert {number for n in found.notebooks for number in n.exercises} == set(grading.numbers())
    assert sum(len(n.predictions) for n in found.notebooks) >= 10


def test_the_start_page_says_once_of_each_optional_notebook_that_it_is_optional(root, small):
    path = small / "00b_more.ipynb"
    path.write_text(path.read_text().replace("Title of 00b_more", "Title of 00b_more (optional)"))
    said = {name: labcourse.progress(folder) for name, folder in (("small", small), ("course", root / "notebooks"))}
    assert said["small"].notebooks[1].name == "00b Title of 00b_more (optional)"
    for found in said.values():
        rows = found._repr_markdown_().splitlines()
        for notebook in found.notebooks:
            (row,) = (row for row in rows if f"({notebook.file})" in row and row.startswith("|"))
            assert row.count("(optional)") == notebook.optional, row


def test_a_folder_without_notebooks_is_named(tmp_path):
    with pytest.raises(ValueError, match=re.escape(str(tmp_path))):
        labcourse.progress(tmp_path)


# -- the verbs --------------------------------------------------------------------------------


def test_help_shows_a_readers_verbs_before_all_others(root):
    done = subprocess.run(["make", "--silent", "help"], cwd=root, capture_output=True, text=True, check=True)
    readers, others = done.stdout.split("For those who teach with the lab or change it:")
    assert [line.split()[1] for line in readers.splitlines()[1:]] == ["help", "lab", "tour", "data", "doctor", "clean"]
    verbs = re.findall(r"(?m)^\.PHONY: (.*)$", (root / "Makefile").read_text(encoding="utf-8"))[0].split()
    shown = {line.split()[1] for line in (readers + others).splitlines() if line.startswith("  make")}
    assert shown == set(verbs) - {"chromium", "bubblewrap", "oclgrind"}  # those are steps of others
    assert max(map(len, done.stdout.splitlines())) <= 120


@pytest.mark.long
def test_jupyterlab_hides_nbgrader_from_readers(tmp_path):
    prepare(lab := tmp_path / "lab")
    assert json.loads((lab / EDITIONS).read_text())
    done = subprocess.run(
        [sys.executable, "-m", "jupyter", "labextension", "list"],
        env={**os.environ, "JUPYTER_CONFIG_PATH": str(lab / ".jupyter"), "NO_COLOR": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (line,) = [line for line in (done.stdout + done.stderr).splitlines() if "@jupyter/nbgrader v" in line]
    assert "disabled" in line
