"""What makes a green nbval run worth something, and what every notebook owes its reader."""

from __future__ import annotations

import html
import importlib.util
import itertools
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from asked import asked

import labcourse
import labkit
from badges import badge, bootstrap, settings
from labcourse import grading
from labextras.offload.twins import has_device
from labkit.timeline.trace import Span, Trace
from labkit.views import charts
from labkit.views.widget import KEPT

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOURCES = sorted((ROOT / "notebooks" / "source").glob("*.py"))

#: A name without a letter belongs to the course, and so does 08b; ``04b_…`` is an optional notebook after ``04_…``.
NAME = re.compile(r"\d\d[a-z]?(_[a-z0-9]+)+")
COURSE = [p for p in NOTEBOOKS if p.name[2] == "_" or p.name.startswith("08b_")]
OPTIONAL = [p for p in NOTEBOOKS if p not in COURSE]

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)


def cells(path, kind=None):
    return [c for c in nbformat.read(path, as_version=4).cells if kind is None or c.cell_type == kind]


def load_build():
    """Return the build as a module."""
    spec = importlib.util.spec_from_file_location("notebooks_build", ROOT / "notebooks" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def builder():
    return load_build()


def build(*arguments, cwd=ROOT):
    return subprocess.run(
        [sys.executable, "notebooks/build.py", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_each_source_is_a_notebook_with_a_name_that_says_its_place():
    assert [p.stem for p in NOTEBOOKS] == [p.stem for p in SOURCES]
    assert all(NAME.fullmatch(p.stem) for p in NOTEBOOKS)


def test_each_notebook_leads_to_the_next():
    for path in NOTEBOOKS:
        following = next((p for p in COURSE if p.name > path.name), None)
        last = next(line for line in cells(path)[-1].source.splitlines()[::-1] if line)
        assert last.startswith("**Next:**")
        assert following is None or f"({following.name})" in last, f"{path.name} does not lead to {following.name}"


def test_an_optional_notebook_says_so_and_the_course_leads_to_it():
    for path in OPTIONAL:
        (main,) = (p for p in COURSE if p.name[:2] == path.name[:2])
        assert f"({path.name})" in cells(main)[-1].source, f"{main.name} does not lead to {path.name}"
    for path in NOTEBOOKS:
        said = re.search(r"[Tt]his notebook is \*{0,2}optional", cells(path)[1].source)
        assert bool(said) == (path in OPTIONAL), f"the first words of {path.name} say whether it is optional"


def test_notebooks_agree_with_their_sources():
    done = build("--check")
    assert done.returncode == 0, done.stderr


@pytest.mark.sample(1)
@pytest.mark.parametrize("fault", ["text", "count", "id", "extra", "tag"])
def test_the_drift_check_notices(fault, tmp_path):
    """The check itself must bite: each of these edits has to be found."""
    for name in ("notebooks", "pyproject.toml"):
        source, target = ROOT / name, tmp_path / name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    path = tmp_path / "notebooks" / NOTEBOOKS[0].name
    notebook = nbformat.read(path, as_version=4)
    cell = next(c for c in notebook.cells if c.cell_type == "code")
    if fault == "text":
        cell.source += "\n# edited by hand"
    elif fault == "count":
        cell.execution_count = None
    elif fault == "id":
        cell.id = "another"
    elif fault == "tag":
        cell.metadata.tags = []
    else:
        notebook.cells.append(nbformat.v4.new_markdown_cell("one more"))
    nbformat.write(notebook, path)
    done = build("--check", "00", cwd=tmp_path)
    assert done.returncode == 1
    assert path.name in done.stderr


@each
def test_no_cell_passes_vacuously(path):
    """nbval compares nothing for a cell without a count, and nothing for one that is told to ignore its output."""
    code = cells(path, "code")
    counts = [c.execution_count for c in code]
    assert counts == list(range(1, len(code) + 1)), "every code cell ran, once, in order"
    compared = [c for c in code if c.outputs and "nbval-ignore-output" not in c.metadata.get("tags", [])]
    assert len(compared) >= 2, "at least some outputs are deterministic and compared"
    for cell in code:
        tags = set(cell.metadata.get("tags", []))
        assert tags <= {"bootstrap", "nbval-ignore-output", "stub"}, f"{tags} would switch a check off"
        assert not re.search(r"(?m)^#\s*NBVAL_(SKIP|IGNORE)", cell.source)
        if "nbval-ignore-output" in tags:
            assert cell.outputs, f"a cell without output hides nothing: drop the tag of\n{cell.source}"


#: How an output begins that holds times of a model, or those that a job or a drill states.
MODELLED = re.compile(
    r"(?m)^(Simulated, not measured\.|A drawing, not a measurement\.|Job \w+: |Timeline: modelled|drill \d+ should)"
)


@each
def test_what_nbval_compares_holds_no_measured_value(path):
    for cell in cells(path, "code"):
        if "nbval-ignore-output" in cell.metadata.get("tags", []):
            continue
        for output in cell.outputs:
            shown = output.get("text") or str(output.get("data", {}).get("text/plain", ""))
            if MODELLED.search(shown):
                continue  # its times are those of the model, or of a job; of the picture, nbval compares the words
            assert not re.search(r"0x[0-9a-f]{6,}|\d\s?ms\b|images/s|/home/|/tmp/|/root/", shown), shown[:200]
            page = output.get("data", {}).get("text/html", "")
            assert "<img" not in page, "a picture of measurements is not comparable"


@each
def test_ids_are_there_and_unique(path):
    ids = [c.id for c in cells(path)]
    assert len(set(ids)) == len(ids)
    assert ids[0] == "badge"


@pytest.mark.long
@each
def test_nothing_is_stored_that_breaks_elsewhere(path):
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata, "GitHub rejects widget metadata without state"
    assert "application/vnd.jupyter.widget" not in text
    assert path.stat().st_size <= 650_000, f"{path.stat().st_size:,} bytes"
    assert not [o for c in cells(path, "code") for o in c.outputs if o.output_type == "error"]
    assert not [o for c in cells(path, "code") for o in c.outputs if o.get("name") == "stderr"]


VIEW = "application/vnd.jupyter.widget-view+json"


def shown(builder, *outputs, kind="display_data", measured=False):
    """Return what the build stores of a cell with these outputs."""
    cell = nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output(kind, **o) for o in outputs])
    cell.metadata.tags = ["nbval-ignore-output"] * measured
    state = {"widgets": {"application/vnd.jupyter.widget-state+json": {"version_major": 2}}}
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata=state)
    tidied = builder.tidy(notebook)
    nbformat.validate(tidied)
    assert "widget" not in builder.text(tidied), "GitHub and a trusting JupyterLab fail on what has no model"
    return tidied.cells[0].outputs


def bundle(made):
    """Return an output as the kernel sends it."""
    data, metadata = made._repr_mimebundle_()
    return {"data": data, "metadata": metadata}


@pytest.fixture(scope="module")
def chart():
    """A chart with two values."""
    return charts.bars({"one": 1.0, "two": 2.0}, unit="ms", title="Two <bars>")


def test_of_a_picture_the_build_keeps_the_light_one_and_its_words(builder, chart):
    for kind in ("display_data", "execute_result"):
        (output,) = shown(builder, bundle(chart), kind=kind)
        assert output.data.keys() == {"text/html", "text/plain"}
        assert output.metadata == {}
        kept = output.data["text/html"]
        assert kept.count("<img ") == kept.count('labkit-light"') == 1
        assert html.escape(chart.text) in kept
        assert html.escape(chart.alt) in kept


def test_of_a_reading_the_build_keeps_the_question_and_each_recording(builder):
    (output,) = shown(builder, {"data": labcourse.read("00.1")._repr_mimebundle_()})
    kept = output.data["text/html"]
    assert kept.startswith('<p class="lr-words">00.1 Four jobs.')
    assert (kept.count("<figure"), kept.count("<script")) == (4, 0)


def test_of_an_explorer_the_build_keeps_the_picture_above_its_widget(builder, chart):
    view = {VIEW: {"model_id": "0" * 32, "version_major": 2}, "text/plain": "an explorer"}
    (output,) = shown(builder, bundle(chart), {"data": view})
    assert "<img " in output.data["text/html"]


@pytest.mark.long
def test_of_a_view_that_draws_itself_the_build_keeps_a_picture_with_its_words(builder):
    spans = [Span("consumer", "wait for batch", "wait", 0, 3_000_000, 0)]
    spans += [Span("consumer", "train step", "train", 3_000_000, 4_000_000, 0)]
    job = Trace.from_spans(spans, kinds={"consumer": "consumer"}, name="a job")
    (output,) = shown(builder, bundle(labkit.show(job)))
    assert output.data.keys() == {"text/html", "text/plain", KEPT}
    kept = output.data["text/html"]
    assert "<script" not in kept
    assert kept.count("<img ") == 1
    assert "<details>" in kept
    (table,) = shown(builder, {"data": {"text/html": "<table></table>", "text/plain": "t"}})
    assert table.data["text/html"] == "<table></table>", "what is no picture stays as it is"


@pytest.mark.parametrize("text", ["recording:  40%|████      | 8/20", "recording: 7step [00:02,  3.1step/s]"])
def test_of_a_progress_bar_the_build_keeps_nothing(builder, text):
    assert shown(builder, {"data": {VIEW: {"model_id": "1"}, "text/plain": text}}) == []
    assert shown(builder, {"data": {"text/plain": text}}) == []


def test_a_widget_without_a_picture_is_refused(builder):
    """Of a slider alone a reader of the stored notebook would see nothing."""
    with pytest.raises(ValueError, match=r"cell 0 shows 'IntSlider\(value=3\)', a widget without a picture above it"):
        shown(builder, {"data": {VIEW: {"model_id": "1"}, "text/plain": "IntSlider(value=3)"}})


@each
def test_the_badge_points_at_its_own_file(path):
    repository, tag = settings(ROOT)
    first = cells(path)[0]
    assert first.source == badge(path.name, repository, tag)
    assert f"/github/{repository}/blob/{tag}/notebooks/{path.name})" in first.source


@each
def test_the_bootstrap_installs_labkit_only_and_only_when_it_is_missing(path):
    (cell,) = [c for c in cells(path, "code") if "bootstrap" in c.metadata.get("tags", [])]
    assert cell == cells(path, "code")[0]
    repository, tag = settings(ROOT)
    assert cell.source.startswith(bootstrap(repository, tag))
    assert cell.source.startswith("try:\n    import labkit\nexcept ImportError:")
    assert f'"git+https://github.com/{repository}@{tag}"' in cell.source
    assert re.findall(r" install (.*)'", cell.source) == ['-c labkit-versions.txt "labkit[opencl] @ {lab}"']


@pytest.mark.long
@each
def test_the_anatomy_is_complete(path):
    prose = "\n".join(c.source for c in cells(path, "markdown"))
    parts = ["**You will**", "**You will learn**", "**You need**", "## Recap", "**Next:**"]
    if path in COURSE:
        parts += ["## Predict", "## The timeline"]
        # Drills begin with what somebody else built and ran; it is mended there.
        parts += ["## A drill", "## Fix"] if path.name.startswith("10_") else ["## Build", "## Run", "## Explain"]
        parts += ["## Exercises", "## In practice"]
    for part in parts:
        assert part in prose or (part == "## Build" and "## Naive is harder" in prose), f"{part} is missing"
    title = re.search(r"(?m)^# (\w+)", prose)[1]
    assert path.stem.split("_")[1].lower() == title.lower(), "title and file name begin with the same verb"
    assert (20 if path in COURSE else 12) <= len(cells(path)) <= 70
    for cell in cells(path, "code"):
        assert len(cell.source.removeprefix(bootstrap(*settings(ROOT))).splitlines()) <= 20, cell.source


def checked(path):
    """Return the numbers of the exercises of a notebook, in its order."""
    return re.findall(r'\bcheck\("([\w.]+)"', "\n".join(c.source for c in cells(path, "code")))


def test_every_exercise_stands_in_one_notebook_of_its_number():
    for path in NOTEBOOKS:
        own = checked(path)
        assert own == sorted(own)
        assert {number.partition(".")[0] for number in own} <= {path.stem[:2], path.stem.partition("_")[0]}
        assert (path in COURSE) <= len(own) <= 5
    assert sorted(number for path in NOTEBOOKS for number in checked(path)) == list(grading.numbers())


ROW = re.compile(r"\s{2,}")
BEFORE_09 = [p for p in NOTEBOOKS if p.name < "09"]


def texts(path):
    """Return the texts of all outputs of a notebook, in their order."""
    return [
        "".join(output.get("text") or output.get("data", {}).get("text/plain", ""))
        for cell in cells(path, "code")
        for output in cell.outputs
    ]


def reviewed(paths):
    """Return {prediction: {"you", "model", "measured": words}} of the reviews that notebooks show."""
    found = {}
    for text in itertools.chain.from_iterable(map(texts, paths)):
        if head := re.match(r"(\d\d[a-z]?\.\w+): .*\n +value +error\n", text):
            rows = (ROW.split(line.strip()) for line in text[head.end() :].splitlines())
            names = {"your prediction": "you", "the model": "model", "measured": "measured"}
            found[head[1]] = {names[row[0]]: row[1] for row in rows if row[0] in names}
    return found


def test_the_summary_of_09_is_what_the_notebooks_before_it_showed():
    """All notebooks are run in their order with one data folder, so a figure quoted later is the figure seen before."""
    last = ROOT / "notebooks" / "09_put_it_all_together.ipynb"
    (summary,) = (text for text in texts(last) if "what the models said" in text)
    rows = {}
    for table in summary.split("what the models said:"):
        head, *lines = (ROW.split(line.strip()) for line in table.strip().splitlines())
        for line in lines:
            if re.match(r"\d\d[a-z]?\.", line[0]):
                rows.setdefault(line[0], {}).update(zip(head, line, strict=False))
    shown = reviewed([*BEFORE_09, last])
    committed = {
        name for path in BEFORE_09 for cell in cells(path, "code")
        for name in re.findall(r'predictions\.(?:commit|curve|cause)\("([^"]+)"', cell.source)
    }  # fmt: skip
    assert set(rows) == committed | {"09.gain"}
    assert set(shown) == {name for name in rows if "curve" not in name and "cause" not in name}, "no single numbers"
    for name, figures in shown.items():
        for who, words in figures.items():
            assert rows[name][who] == words, f"{name}: {who}"


def tables(text):
    """Return the tables of measurements in a text: for each row {column: first number}."""
    lines = text.splitlines()
    for number, line in enumerate(lines[:-1]):
        if line.lstrip().startswith("pipeline  ") and set(lines[number + 1]) <= {"-", "─", " "}:
            starts = [m.start() for m in re.finditer(r"\S+", lines[number + 1])]
            ends = [*starts[1:], None]
            head = [line[a:b].strip() for a, b in zip(starts, ends, strict=True)]
            for row in itertools.takewhile(lambda one: one[:1].strip(), lines[number + 2 :]):
                values = [row[a:b].strip() for a, b in zip(starts, ends, strict=True)]
                yield dict(zip(head, values, strict=True))


def ms(words):
    """Return a time of a table in milliseconds."""
    value, unit = words.split()
    return float(value.replace(",", "")) * {"ms": 1, "µs": 1e-3, "ns": 1e-6}[unit]


@each
def test_every_stored_table_of_measurements_adds_up(path):
    """Step = wait + train and a little handing over, busy = train / step, and images/s as the step says."""
    rates = []
    for text in texts(path):
        shown, details = {}, []
        for row in tables(text):  # the figures that are folded stand below the five columns
            details.append((shown.get(row["pipeline"]), row)) if "step" in row else shown.update({row["pipeline"]: row})
        for columns, row in details:
            step, wait, longest = (ms((columns | row)[name]) for name in ("step", "wait", "longest wait"))
            between = step - wait - step * float(row["busy"].removesuffix(" %")) / 100
            assert -0.1 - 0.006 * step < between < 2 + 0.05 * step, row
            assert longest >= wait - 0.1, row
            assert len(columns) == 5, columns
            if row["equal work"] != "no":  # a loader that loses elements has batches of several sizes
                rates.append(float(list(columns.values())[1].replace(",", "")) * step / 1e3)
    for batch in rates:
        assert batch == pytest.approx(round(batch), rel=0.02, abs=0.3), "images of a step"


def test_no_pipeline_that_decodes_in_every_epoch_beats_best():
    """Of the ladder as 09 shows it: the rows down to *best*; those below it keep pixels in memory.

    Several do the same work in fewer passes, so which of them is ahead differs from round to round.
    """
    every = [list(tables(text)) for path in NOTEBOOKS if path.stem.startswith("09_") for text in texts(path)]
    (ladder,) = (rows for rows in every if {"naive", "best", "best, cache of pixels"} <= {r["pipeline"] for r in rows})
    rates = {row["pipeline"]: float(row["images/s"].replace(",", "")) for row in ladder if "images/s" in row}
    decoding = {name: rate for name, rate in rates.items() if "cache" not in name}
    column = "images/s in all rounds"
    rounds = {row["pipeline"]: re.findall(r"[\d,]+", row[column]) for row in ladder if column in row}
    low, high = ({name: float(ends[i].replace(",", "")) for name, ends in rounds.items()} for i in (0, -1))
    assert all(low[name] <= high["best"] for name in decoding), "faster in every round"
    assert high["best"] > 2 * high["naive"]
    assert min(rate for name, rate in rates.items() if name not in decoding) > rates["best"]


def test_the_stored_tables_are_found():
    assert sum(len(list(tables(text))) for path in NOTEBOOKS for text in texts(path)) > 20


@each
def test_exercises_are_open_in_the_student_notebook(path):
    for cell in cells(path, "code"):
        if re.search(r"^check\(", cell.source, re.MULTILINE):
            assert "open" in cell.outputs[0]["data"]["text/plain"]


@pytest.mark.long
def test_solved_notebooks_score_full_marks(tmp_path):
    """The stub is gone, the solution is there, and every check passes on it."""
    assert build("--solved", str(tmp_path)).returncode == 0
    results, kernels = [], has_device()
    for path in sorted(tmp_path.glob("*.ipynb")):
        code = cells(path, "code")
        assert not [c for c in code if "stub" in c.metadata.get("tags", [])]
        # The solutions need nothing of their notebook but what it imports.
        space = {}
        exec("\n".join(re.findall(r"(?m)^(?:import|from) .*$", code[0].source)), space)
        for cell in code:
            if "solution" in cell.metadata.get("tags", []):
                exec(compile(cell.source, path.name, "exec", dont_inherit=True), space)  # annotations are values there
            elif found := re.search(r'\bcheck\("([\w.]+)", (\w+)\)', cell.source):
                results.append(asked(found[1], space[found[2]]))
    assert sorted(r.exercise for r in results) == list(grading.numbers())
    on_a_device = set() if kernels else {"08b.2"}
    in_pytorch = set() if importlib.util.find_spec("torch") else {"13.3"}
    assert not [r for r in results if r.exercise not in on_a_device | in_pytorch and not r.passed]


def test_no_solution_leaks_into_a_student_notebook():
    for path in NOTEBOOKS:
        assert "solution" not in {t for c in cells(path) for t in c.metadata.get("tags", [])}
