"""What the course asks of a reader: words, minutes, exercises, and folds that open everywhere."""

from __future__ import annotations

import itertools
import re

import nbformat
import pytest
from test_notebooks import ROOT, SOURCES, load_build

builder = load_build()
ASKED = {source.stem.partition("_")[0]: builder.asked_of_a_reader(source) for source in SOURCES}
#: The way through the course; the circuit of 08 has a story of its own.
WAY = [*(f"{number:02d}" for number in range(8)), "09", "10"]
#: Every notebook up to the drills, the optional ones with them.
UP_TO_10 = [number for number in ASKED if number < "11"]


@pytest.mark.parametrize("number", WAY)
def test_a_notebook_has_at_most_900_words_in_the_open_and_names_its_fast_track(number):
    assert 100 < ASKED[number]["words"] <= 900
    assert ASKED[number]["fast_track"]


def test_the_stated_minutes_of_the_course_are_seven_hours_at_most():
    """Of 00 to 10; those with a letter are asides, and state their own minutes."""
    assert all(ASKED[number]["minutes"] >= 10 for number in ASKED)
    assert sum(ASKED[number]["minutes"] for number in UP_TO_10 if number.isdigit()) <= 420


@pytest.mark.parametrize("number", ASKED)
def test_the_front_page_and_the_guide_for_instructors_say_the_same_minutes(number):
    front, guide = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "notebooks/INSTRUCTORS.md"))
    minutes = str(ASKED[number]["minutes"])
    assert re.search(rf"(?m)^\| \[{number} .*\| (\d+) min \|", front)[1] == minutes
    if row := re.search(rf"(?m)^\| {number} [a-z].*?\| (\d+) min \|", guide):
        assert row[1] == minutes


@pytest.mark.parametrize("number", [number for number in ASKED if number not in WAY])
def test_the_other_notebooks_have_at_most_1500_words(number):
    assert 300 < ASKED[number]["words"] <= 1500


@pytest.mark.parametrize("number", WAY)
def test_ten_lines_answer_the_question_at_work_without_the_lab(number):
    (source,) = (source for source in SOURCES if source.stem.startswith(f"{number}_"))
    cells = builder.build(source).cells
    (first,) = (place for place, cell in enumerate(cells) if "## Without the lab" in cell.source)
    code = list(itertools.takewhile(lambda cell: cell.cell_type == "code", cells[first + 1 :]))
    every = [line for cell in code for line in cell.source.splitlines() if line.strip()]
    lines = [line for line in every if not line.startswith(("#", "from ", "import "))]
    assert 3 <= len(lines) <= 10
    assert not re.search("labkit|labcourse|labextras|predictions|my_pipeline", "\n".join(lines))


@pytest.mark.parametrize("number", [*WAY[1:8], "09"])
def test_the_reader_s_own_pipeline_stands_on_top_grows_and_is_measured(number):
    """In 01 it begins, and there is no ladder yet."""
    (source,) = (source for source in SOURCES if source.stem.startswith(f"{number}_"))
    text = source.read_text(encoding="utf-8")
    calls = [text.find(f'my_pipeline.{verb}("{number}")') for verb in ("ladder", "step", "measure")]
    assert calls[0] < calls[1] < calls[2], calls
    assert calls[0] > 0 or number == "01"


@pytest.mark.parametrize("number", ASKED)
def test_at_most_one_exercise_is_a_formula(number):
    assert len(ASKED[number]["formulas"]) <= 1


@pytest.mark.parametrize("number", [*WAY[:8], "09"])
def test_something_is_read(number):
    assert len(ASKED[number]["readings"]) >= (2 if number in ("00", "01", "04") else 1)


@pytest.mark.parametrize("number", [*WAY[2:8], "09"])
def test_something_is_built(number):
    assert ASKED[number]["building"]


@pytest.mark.parametrize(
    ("markdown", "words"),
    [
        ("Two words.", 2),
        ("One <details><summary>Why</summary>\n\nnot these\n\n</details> two", 2),
        ("A [link](to/some/where.md) of *four* words", 5),
        ("[![Open in Colab](badge.svg)](colab)\n\nfour <b>times</b> a word", 4),
    ],
)
def test_words_in_a_fold_badges_and_places_of_links_are_not_counted(markdown, words):
    assert builder.words_in_the_open(markdown) == words


# -- folds -------------------------------------------------------------------------------------

FOLDED = [
    pytest.param(cell.source, id=f"{source.stem} {place}")
    for source in SOURCES
    for place, cell in enumerate(builder.build(source).cells)
    if cell.cell_type == "markdown" and "<details" in cell.source
]


@pytest.mark.parametrize("markdown", FOLDED)
def test_a_fold_opens_and_shows_markdown_everywhere(markdown):
    """Without a blank line behind the summary, what is folded is no Markdown. JupyterLab lets both tags through."""
    lines = markdown.splitlines()
    for place, line in enumerate(lines):
        if "<details" in line:
            assert re.fullmatch(r"<details><summary>.+</summary>", line), line
            assert lines[place + 1] == "", f"a blank line belongs behind {line}"
        assert "</details" not in line or line == "</details>"
    assert markdown.count("<details>") == markdown.count("</details>")
    page = rendered(markdown)
    assert page.count("<details>") == page.count("</details>") == markdown.count("<details>")
    for fold in re.findall(r"(?s)<details>(.*?)</details>", page):
        assert re.search(r"(?s)</summary>\s*<(p|ul|ol|pre|div|table|h\d)", fold), fold


def rendered(markdown):
    """Return a page of a cell as nbviewer and nbconvert make it."""
    from nbconvert import HTMLExporter

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(markdown)])
    page, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    return page
