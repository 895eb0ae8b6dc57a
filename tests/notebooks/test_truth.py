"""What the stored notebooks say is what they show: advice and tables, text and outputs."""

from __future__ import annotations

import re

import pytest
import stored

COURSE = [path for path in stored.NOTEBOOKS if path.name < "11"]

# -- advice ------------------------------------------------------------------------------------

#: By a rule of advice, the rows of a table that are the change which it names.
CHANGES = {
    "prefetch.last-step": r"prefetch(?! first)",
    "prefetch.deeper": r"prefetch\((\d+)\)",
    "prep.parallel-map": r"\b(\d+) calls|every core|parallel map",
    "fetch.parallel-reads": r"parallel(?:,| interleave)|\d connections",
    "fetch.longer-cycle": r"parallel, cycle (\d+)",
    "fetch.straggler": r"any order",
    "fetch.more-reads": r"\b(\d+) (?:threads|connections)",
    "small.batch-first": r"compiled",
    "prep.less-work": r"cache(?! of bytes)",
    "python.ops-instead": r"C\+\+",
}
#: Rules that ask for more of what is there already.
MORE = {"prefetch.deeper", "fetch.longer-cycle", "fetch.more-reads", "prep.less-work"}
#: Verdicts of a change that helps nobody.
IN_VAIN = ("slower", "no measurable difference")

#: Timelines whose section teaches a change: by notebook and name, the rules of which one must be said.
TAUGHT = {
    ("00", "sequential"): {"prefetch.last-step"},
    ("01", "naive"): {"prefetch.last-step"},
    ("02", "naive"): {"prefetch.last-step"},
    ("03", "in turn"): {"fetch.parallel-reads"},
    ("03", "one slow, in order"): {"fetch.straggler"},
    ("04", "1 call"): {"prep.parallel-map"},
    ("06", "one by one"): {"small.batch-first", "prep.parallel-map", "run.handed-over-late"},
}
#: Advice that is about one kind of pipeline, and how the course calls those that are of this kind.
ONLY_OF = {"fetch.straggler": r"slow|straggler", r"python\..*": r"Python|py_|numpy_|generator"}


def size(rule, name):
    """Return the number of a name that a rule would raise, as the calls of ``4 calls``; without one, None."""
    found = re.search(CHANGES[rule], name)
    return float(found[1]) if found and found.groups() and found[1] else None


def changed(rule, run, rows):
    """Return the rows that are a run with the change that a rule names; what stands before a comma stays."""
    of, before = run.partition(", ")[0] if ", " in run else "", size(rule, run)
    for name in rows:
        after = size(rule, name)
        larger = before is None or after is None or after > before
        if name != run and name.startswith(of) and re.search(CHANGES[rule], name) and larger:
            yield name


def advised():
    """Return (notebook, timeline, rule, rows of its table, the row that is the change) wherever a table has one."""
    for path in stored.NOTEBOOKS:
        tables = list(stored.tables(path))
        for told in stored.timelines(path):
            rows = next((rows for cell, rows in tables[::-1] if cell <= told.cell and told.name in rows), {})
            for rule in sorted(set(told.rules) & CHANGES.keys()):
                for name in changed(rule, told.name, rows):
                    yield path.stem[:3].rstrip("_"), told, rule, rows, name


ADVISED = list(advised())


@pytest.mark.parametrize(
    ("told", "rule", "rows", "name"),
    [one[1:] for one in ADVISED],
    ids=[f"{number} {told.name}: {rule}: {name}" for number, told, rule, _, name in ADVISED],
)
def test_no_advice_names_a_change_whose_row_is_slower_or_no_different(told, rule, rows, name):
    times, row = rows[name].rate / rows[told.name].rate, rows[name]
    if row.verdict == "not comparable":
        return
    words = f"{told.name!r} in cell {told.cell} is told {rule}, and {name!r} is {times:.2f} times as fast"
    assert times > 1.05, words
    if rows[told.name].verdict == "reference":
        assert row.verdict not in IN_VAIN, f"{words}: {row.verdict}"


def test_the_notebooks_have_rows_for_much_of_their_advice():
    assert len({(number, rule) for number, _, rule, _, _ in ADVISED}) >= 6
    assert {number for number, *_ in ADVISED} >= {"02", "03", "04"}


@pytest.mark.parametrize(("number", "name"), TAUGHT)
def test_advice_says_what_its_section_teaches(number, name):
    (path,) = (path for path in COURSE if path.name.startswith(f"{number}_"))
    told = [one for one in stored.timelines(path) if one.name == name and one.advice]
    assert told, f"{path.name} shows no timeline of {name!r} in words"
    for one in told:
        assert TAUGHT[number, name] & set(one.rules), f"cell {one.cell}: {one.advice}"


@pytest.mark.parametrize("path", [p for p in COURSE if p.name < "10"], ids=lambda path: path.stem)
def test_advice_names_nothing_that_is_done_already_and_no_fault_of_others(path):
    for told in stored.timelines(path):
        for rule in told.rules:
            done = rule in CHANGES.keys() - MORE and re.search(CHANGES[rule], told.name)
            assert not done, f"{told.name} in cell {told.cell}: {told.advice}"
            for pattern, kind in ONLY_OF.items():
                assert not re.fullmatch(pattern, rule) or re.search(kind, told.name), f"{told.name}: {told.advice}"


def test_every_advice_of_a_measured_run_comes_from_rules_or_from_its_trace():
    """What is no rule's sentence is that of a modelled or real device, which brings its own."""
    unknown = {told.advice for path in COURSE for told in stored.timelines(path) if told.advice and not told.rules}
    assert all("card" in advice or "lane" in advice for advice in unknown), unknown


# -- numbers -----------------------------------------------------------------------------------

UNITS = {"per cent": "%", "times": "×", "milliseconds": "ms", "seconds": "s"}
WRITTEN = re.compile(
    r"(?<![\w.,])(\d[\d,]*(?:\.\d+)?)[\s-]?(%|per cent|×|times|µs|ms|milliseconds|seconds|s|kB|KB|MB|GB|GiB|MB/s|GB/s"
    r"|images/s|MHz|GHz|cycles)(?![\w/])"
)
#: Sections and exercises, in which numbers are given, not claimed.
GIVEN = re.compile(r"#+ (Exercises|Predict|Next|Build: the challenge)|\*\*\d\d\w?\.\d")

#: By notebook, numbers in the text that no output shows, and where they come from.
SOURCES = {
    "00": {"115 kB": "data/lab_photos", **dict.fromkeys(["70 %", "65 %"], "DS-Analyzer, VLDB 2021")},
    "02": {"19 MB": "32 × 224 × 224 × 3 values of 4 bytes"},
    "08b": {"1.039 cycles": "docs/smartssd.md", "62.7 MHz": "docs/smartssd.md"},
}


def quoted(text):
    """Return the numbers with a unit in a text, each as (number, unit)."""
    return {(stored.number(number), UNITS.get(unit, unit)) for number, unit in WRITTEN.findall(text)}


def every(text):
    """Return all numbers of a text."""
    return {stored.number(one) for one in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}


def unseen(path):
    """Return (cell, number, unit) of what the text of a notebook quotes, and no output or code near it shows.

    Near is the same section, and the two cells around the text. A number with its unit may stand anywhere above.
    """
    cells, above, given = stored.cells(path), set(), False
    sections = [
        i for i, cell in enumerate(cells) if cell["cell_type"] == "markdown" and "\n## " in "\n" + cell["source"]
    ]
    for place, cell in enumerate(cells):
        shown = "\n".join([cell["source"], *stored.texts(cell)])
        if cell["cell_type"] == "code":
            above |= quoted(shown)
            continue
        begin = min(max([0, *(i for i in sections if i <= place)]), max(place - 2, 0))
        code = [one for one in cells[begin : place + 3] if one["cell_type"] == "code"]
        near = set().union(*(every("\n".join([one["source"], *stored.texts(one)])) for one in code))
        for part in re.split(r"\n(?=#|\*\*\d\d)", cell["source"]) if place > 1 else ():
            if re.match(r"#|\*\*\d\d", part):
                given = bool(GIVEN.match(part))
            if not given:
                plain = re.sub(r"`[^`]*`|\$[^$]*\$|```.*?```", "", part, flags=re.DOTALL)
                yield from ((place, *one) for one in quoted(plain) if one not in above and one[0] not in near)


def numbered(path):
    return path.stem.partition("_")[0]


@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
def test_the_text_quotes_no_number_that_its_cells_do_not_show(path):
    allowed = {one for words in SOURCES.get(numbered(path), ()) for one in quoted(words)}
    left = [(cell, f"{number:g} {unit}") for cell, number, unit in unseen(path) if (number, unit) not in allowed]
    assert not left, f"{path.name}: (cell, number) that no output shows: {left}"


def test_each_number_with_a_source_stands_in_the_text_and_they_are_few():
    for path in COURSE:
        text = "\n".join(cell["source"] for cell in stored.cells(path) if cell["cell_type"] == "markdown")
        assert {one for words in SOURCES.get(numbered(path), ()) for one in quoted(words)} <= quoted(text), path.name
    assert sum(map(len, SOURCES.values())) <= 20


def test_a_number_that_nothing_shows_is_found(tmp_path):
    import nbformat

    code = nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output("stream", text="busy 41.3 %, 12 ms\n")])
    words = "## Explain\n\nBusy 41.3 %, a gap of 12 ms, 3.7 times as fast, and 44 % of `9 ms`."
    cells = [nbformat.v4.new_markdown_cell(text) for text in ("badge", "# Title of 7 %", words)]
    path = tmp_path / "00_x.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[*cells[:2], code, cells[2]]), path)
    assert sorted(unseen(path)) == [(3, 3.7, "×"), (3, 44.0, "%")]
