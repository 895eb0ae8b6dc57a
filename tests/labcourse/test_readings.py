"""Readings: what a recording shows says the answer, nothing else does, and a wrong answer is told why, not what."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
from browser import run_all, turn_to
from PIL import Image
from timeline_page import click_gap
from waiting import until

import labcourse
from labcourse import gradebook, grading, readings
from labcourse.readings import answers
from labcourse.readings.recording_views import QuietTimeline, ShownRecording
from labkit.common import shipped
from labkit.timeline.causes.per_gap import CAUSES
from labkit.timeline.run import Run
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Span, Trace
from labkit.views.layout.texts import LABELS

#: What a reader who looks closely says.
RIGHT = {
    "00.1": {"A": "prepare, at once", "B": "fetch, in turn", "C": "fetch, at once", "D": "prepare, in turn"},
    "00.2": 4,
    "01.1": {
        "A": "cannot tell", "B": "faster", "C": "not comparable", "D": "slower",
        "E": "cannot tell", "F": "not comparable", "G": "slower", "H": "faster",
    },
    "01.2": {"A": "train", "B": "prepare", "C": "fetch"},
    "02.1": {"A": "faster producer", "B": "nothing", "C": "deeper buffer"},
    "03.1": {"slow file": "file 6", "in order": "A"},
    "04.1": "C",
    "04.2": {"A": "more cores", "B": "neither", "C": "more calls"},
    "05.1": {"step": 5, "row": "3"},
    "06.1": {"first": "one call a batch", "second": "prefetch"},
    "07.1": {"A": "decoded pixels", "B": "small files far away", "C": "records"},
    "09.1": {"A": "parallel map", "B": "cache", "C": "prefetch", "D": "interleave"},
}  # fmt: skip

#: Every answer that is wrong in one part: the number, the part, and what is said there.
WRONG = [
    (number, part.name, choice)
    for number in readings.READINGS
    for part in readings.parts(number)
    for choice in part.choices
    if choice != (RIGHT[number][part.name] if part.name else RIGHT[number])
]


def answer(number, part, choice):
    """Return a right answer with another choice in one part."""
    return {**RIGHT[number], part: choice} if part else choice


@pytest.fixture(autouse=True)
def nothing_clicked(monkeypatch, tmp_path):
    monkeypatch.setattr(grading, "CLICKED", {})
    monkeypatch.setattr(gradebook, "session", gradebook.Journal())
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))


@pytest.fixture(scope="module")
def script(root):
    """The script that makes the recordings, as a module."""
    spec = importlib.util.spec_from_file_location("make_recordings", root / "data" / "make_recordings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(made):
    """Return all that is drawn of a page."""
    return list(made.shown.values())


# -- what is shipped ------------------------------------------------------------------


def contents(path):
    """Return what a file holds, whatever packed it."""
    if path.suffix == ".png":
        return np.asarray(Image.open(path)).tolist()
    return json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_text(encoding="utf-8"))


def test_the_script_makes_what_is_shipped_and_that_is_small(script, tmp_path):
    script.main(tmp_path)
    here = {path.name: path for path in shipped.folder("data/recordings").iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == set(here)
    for path in tmp_path.iterdir():
        assert contents(path) == contents(here[path.name]), path.name
    assert sum(path.stat().st_size for path in here.values()) < 3_000_000


def test_a_file_says_what_a_job_did_and_not_how_it_was_made():
    told = {"origin", "window_ns", "batch_size", "images", "host"}
    plain = Run("modelled")
    for path in shipped.folder("data/recordings").glob("*.gz"):
        assert re.fullmatch(r"\d\d\.\d\.[A-D]\.json\.gz", path.name)
        run = Trace.load(path).run
        assert run.name is None
        assert {fact for fact in vars(run) if getattr(run, fact) != getattr(plain, fact)} <= told


def test_every_notebook_of_the_course_has_its_readings_and_they_are_exercises():
    notebooks = [number[:2] for number in readings.READINGS]
    assert set(notebooks) == {"00", "01", "02", "03", "04", "05", "06", "07", "09"}
    assert all(notebooks.count(twice) == 2 for twice in ("00", "01", "04"))
    assert set(readings.READINGS) == set(answers.RULES) == set(RIGHT)
    assert set(readings.READINGS) <= set(grading.numbers())


# -- the answers ----------------------------------------------------------------------


@pytest.mark.parametrize("number", readings.READINGS)
def test_what_the_recordings_show_is_the_answer_and_is_shown_with_its_causes(number):
    result = labcourse.check(number, RIGHT[number])
    assert result.passed, result
    assert result.hint
    timelines = [one for one in shown(result.drawn) if isinstance(one, ShownRecording)]
    assert all("waits" in one._layout.runs[0]["heading"] for one in timelines)
    assert result.drawn.html() in result._repr_html_()


@pytest.mark.parametrize(("number", "part", "choice"), WRONG)
def test_a_wrong_answer_is_told_its_idea_and_never_the_right_one(number, part, choice):
    result = labcourse.check(number, answer(number, part, choice))
    assert result.status == grading.FAILED
    assert "raised" not in result.hint
    right = RIGHT[number][part] if part else RIGHT[number]
    titles = (one.picture.title if isinstance(one, ShownRecording) else one.title for one in shown(result.drawn))
    words = " | ".join([result.hint, *titles])
    assert not re.search(rf"\b{re.escape(str(right))}\b", re.sub(r"^\w[\w ]*: ", "", words)), words
    for one in shown(result.drawn):
        if isinstance(one, ShownRecording):
            assert isinstance(one._layout.timelines[0], QuietTimeline), "the causes would be the solution"


def test_each_arrow_leads_from_a_gap_to_a_span():
    """So it does for right answers, by the causes, and for wrong ones, without saying what it waited for."""
    for number, part, choice in [*WRONG, *((number, None, None) for number in RIGHT)]:
        result = labcourse.check(number, answer(number, part, choice) if part is not None else RIGHT[number])
        for one in shown(result.drawn):
            if not isinstance(one, ShownRecording):
                continue
            (timeline,) = one._layout.timelines
            if not len(timeline.gaps):
                assert one.look["points"] is None
                continue
            at = one.look["points"]
            lane = timeline.lanes[at["lane"]]
            assert [at["from"], at["to"]] in np.stack([lane.start_ns, lane.end_ns], 1).tolist(), (number, choice)
            gap = timeline.gaps[at["gap"]]
            assert at["from"] < gap.start_ns + gap.length_ns


def test_a_clicked_gap_is_the_one_whose_arrow_is_drawn():
    drawn = labcourse.check("00.2", 2).drawn.shown["A"]
    (timeline,) = drawn._layout.timelines
    assert timeline.gaps[drawn.look["points"]["gap"]].step == 2
    drawn = labcourse.check("03.1", {**RIGHT["03.1"], "slow file": "file 2"}).drawn.shown["A"]
    assert drawn._layout.timelines[0].lanes[drawn.look["points"]["lane"]].name == "file 2"


@pytest.mark.parametrize(
    ("number", "given", "words"),
    [
        ("02.1", "nothing", "write a dictionary with an answer for each of A, B, C"),
        ("02.1", {**RIGHT["02.1"], "D": "nothing"}, "write a dictionary"),
        ("02.1", {**RIGHT["02.1"], "B": "a cache"}, "B is 'a cache'; allowed: 'deeper buffer', 'faster"),
        ("04.1", "D", "your answer is 'D'; allowed: 'A', 'B', 'C'"),
        ("00.2", 17, "your answer is 17; allowed: 0, 1, 2, 3, 4, 5, 6"),
    ],
)
def test_another_form_is_told_what_is_allowed(number, given, words):
    result = labcourse.check(number, given)
    assert result.status == grading.FAILED
    assert result.hint.startswith(words)


@pytest.mark.parametrize(
    ("given", "words"),
    [(None, "nothing to check"), (..., "nothing to check"), ({"A": "nothing"}, "no answer yet: B, C"),
     ({**RIGHT["02.1"], "C": ...}, "no answer yet: C")],
)  # fmt: skip
def test_what_is_not_answered_as_a_whole_is_open_and_says_what_is_missing(given, words):
    result = labcourse.check("02.1", given)
    assert result.status == grading.OPEN
    assert result.hint.startswith(words)


def test_there_is_no_other_reading():
    with pytest.raises(ValueError, match=r"reading is '02\.9'; allowed: .*02\.1"):
        labcourse.read("02.9")


# -- the rules read spans -------------------------------------------------------------


def job(batches, train, prefetch=0):
    """Return a job of one loader: for each batch the spans (category, ms), in turn or ahead of the train steps."""
    spans, now, trained, taken = [], 0, 0, []
    for k, batch in enumerate(batches):
        now = max(now, taken[-prefetch] if len(taken) >= prefetch else 0) if prefetch else trained
        for category, ms in batch:
            spans.append(Span("loader", category, category, int(now * 1e6), int(ms * 1e6), -1))
            now += ms
        got = max(now, trained)
        spans.append(Span("consumer", "wait", "wait", int(trained * 1e6), int((got - trained) * 1e6), k))
        spans.append(Span("consumer", "train", "train", int(got * 1e6), int(train * 1e6), k))
        taken.append(got)
        trained = got + train
    return Timeline(Trace.from_spans(spans, {"consumer": "consumer"}, batch_size=1, images=len(batches)))


FETCH, DECODE = [("read", 9), ("decode", 2)], [("read", 2), ("decode", 9)]
READ, SHORT, LATE = [("read", 14)], [("decode", 2)], [("decode", 50)]


def steady(*given):
    """Return a job that loads ahead, without its beginning."""
    trace = job(*given).trace
    return Timeline(trace.with_run(window_ns=(int(40e6), int(trace.end_ns.max()))))


@pytest.mark.parametrize(
    ("number", "shows", "right"),
    [
        ("00.1", (job([FETCH] * 6, 8), job([DECODE] * 6, 8, 1)), ("fetch, in turn", "prepare, at once")),
        ("01.2", (job([DECODE] * 4, 10), job([DECODE] * 4, 8)), ("train", "prepare")),
        ("02.1", (steady([DECODE] * 9, 12, 1), steady([DECODE] * 9, 9, 1)), ("nothing", "faster producer")),
        ("02.1", (steady([*[SHORT] * 8, LATE, *[SHORT] * 6], 9, 1),), ("deeper buffer",)),
        ("07.1", (job([READ] * 4, 8), job([FETCH] * 4, 8)), ("decoded pixels", "small files far away")),
        ("07.1", (job([FETCH, *[SHORT] * 4], 8),), ("records",)),
        ("09.1", (job([DECODE] * 9, 9), steady([FETCH] * 9, 5, 1)), ("prefetch", "interleave")),
    ],
)
def test_a_rule_follows_the_spans_of_each_recording(number, shows, right):
    assert answers.RULES[number](dict(zip("AB", shows, strict=False))) == dict(zip("AB", right, strict=False))


def test_a_rule_follows_the_spans_of_all_recordings():
    assert answers.RULES["00.2"]({"A": job([FETCH, DECODE, READ, FETCH, LATE, FETCH], 5)}) == {"": 2}
    three = {"A": job([FETCH] * 4, 8), "B": job([SHORT] * 4, 8), "C": job([SHORT] * 4, 8, 1)}
    assert answers.RULES["06.1"](three) == {"first": "cache", "second": "prefetch"}


def test_no_answer_stands_in_the_file_of_the_readings():
    """Its sentences are by idea: each choice of a part has one, or those of a part name no choice."""
    stored_in = Path(readings.__file__).with_name("readings.json")
    for number, stored in json.loads(stored_in.read_text(encoding="utf-8")).items():
        for name, words in stored["right"].items():
            part = next((part for part in readings.parts(number) if part.name == name), None)
            if part is not None:
                assert not any(re.search(rf"\b{re.escape(str(one))}\b", words) for one in part.choices), (number, name)
        if "each" in stored:
            assert set(stored["right"]) == set(stored["each"])


# -- quiet ----------------------------------------------------------------------------


def header(widget):
    """Return the layout that a browser gets."""
    size = int.from_bytes(widget.block[:4], "little")
    return json.loads(widget.block[8 : 8 + size])


@pytest.mark.parametrize("number", readings.READINGS)
def test_a_reading_tells_no_cause_no_name_and_no_sum(number):
    made = labcourse.read(number)
    for name, one in made.shown.items():
        if not isinstance(one, ShownRecording):
            continue
        trace, (run,) = readings.recordings(number)[name].trace, header(one)["runs"]
        assert run["heading"] == "modelled"
        assert set(run["names"]) <= {*LABELS.values(), ""}
        assert not any(lane["note"] for lane in run["lanes"])
        assert {CAUSES[kind] for kind in one._layout.timelines[0].causes.kind} <= {"unknown"}
        labels = {layer["label"] for layer in header(one)["layers"] if layer["look"] == "hollow"}
        assert labels == {"waits", "fetch: waits", "prepare: waits", "hand over: waits"}
        legend = "open", "read", "decode", "resize", "wait for batch", "train step"
        told = {name for name in trace.names if name not in legend}
        told |= {thread.name for thread in trace.threads if thread.kind == "pipeline" and "file" not in thread.name}
        for text in (str(one), json.dumps(header(one)), one.picture.text, one.alt):
            assert {word for word in (*told, "waits mostly", "num_parallel") if word in text} == set()


@pytest.mark.parametrize("number", readings.READINGS)
def test_recordings_that_are_compared_have_one_axis_running_and_stored(number):
    shown = [one for one in labcourse.read(number).shown.values() if isinstance(one, ShownRecording)]
    longest = max((one._layout.timelines[0].span_ns for one in shown), default=0)
    for one in shown:
        low, high = one.picture.figure().axes[0].get_xlim()
        assert header(one)["span_ns"] == longest
        assert (high - low) * 1e6 == pytest.approx(longest, rel=0.01)


def test_quiet_rows_have_the_colours_of_the_told_ones():
    for number in readings.READINGS:
        for name, one in readings.recordings(number).items():
            if isinstance(one, Timeline):
                quiet = QuietTimeline(one.trace)
                assert quiet.states == one.states, (number, name)
                assert len(quiet.lanes) == len(one.lanes)


def test_a_page_is_the_same_each_time_and_has_the_picture_for_who_runs_no_script():
    one, other = labcourse.read("02.1").html(), labcourse.read("02.1").html()
    assert one == other
    assert one.count("<figure") == 3


# -- clicks ---------------------------------------------------------------------------


@pytest.fixture
def ear(monkeypatch):
    """What listens to the pages of a kernel."""
    monkeypatch.setattr("IPython.display.publish_display_data", lambda data: None)
    made = labcourse.read("02.1")
    made._ipython_display_()
    return made.ear


def test_clicks_answer_and_the_last_one_counts(ear):
    for part, value in {"A": "nothing", **RIGHT["02.1"]}.items():
        ear.heard = {"number": "02.1", "part": part, "value": value}
    assert labcourse.check("02.1").passed
    ear.heard = {"number": "02.1", "part": "B", "value": "deeper buffer"}
    assert labcourse.check("02.1", ...).status == grading.FAILED
    assert labcourse.check("02.1", RIGHT["02.1"]).passed, "what is written counts more than what was clicked"


def test_a_click_that_no_reading_knows_is_left_out(ear):
    for number, part, value in (
        ("02.2", "A", "nothing"),
        ("02.1", "Z", "nothing"),
        ("02.1", "A", 3),
        (None, None, None),
    ):
        ear.heard = {"number": number, "part": part, "value": value}
    assert grading.CLICKED == {}
    ear.heard = {"number": "00.2", "part": "", "value": 4}
    assert labcourse.check("00.2").passed


def test_a_reading_is_an_exercise_of_the_gradebook(monkeypatch):
    monkeypatch.delenv("LABKIT_FAST", raising=False)
    labcourse.check("04.1")
    labcourse.check("04.1", "A")
    labcourse.check("04.1", "C")
    assert gradebook.session.exercises["04.1"] == {"status": grading.PASSED, "tries": 2}
    assert "04.1" in gradebook.solved()


HEAR = "window.heard = []; document.addEventListener('labkit-reading', ({ detail }) => heard.push(detail))"


@pytest.fixture
def opened(chromium):
    """Return a function that opens HTML in a page which hears what is clicked."""
    page = chromium.new_page(viewport={"width": 1000, "height": 900})
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.evaluate(HEAR)

    def show(html):
        page.evaluate("(text) => document.body.append(document.createRange().createContextualFragment(text))", html)
        page.wait_for_selector(".labkit-timeline[data-painted]")
        return page

    yield show
    assert errors == []
    page.close()


@pytest.mark.browser
def test_buttons_below_each_recording_tell_the_kernel_what_was_said(opened, ear):
    page = opened(labcourse.read("02.1").html())
    for letter, choice in RIGHT["02.1"].items():
        group = page.get_by_role("group", name=letter, exact=True)
        group.get_by_role("button", name="nothing").click()
        group.get_by_role("button", name=choice).click()
        assert group.locator("[aria-pressed=true]").all_inner_texts() == [choice]
    for said in page.evaluate("heard"):
        ear.heard = said
    assert labcourse.check("02.1").passed
    assert "02.1" in page.get_by_role("status").inner_text()


@pytest.mark.browser
def test_a_click_on_a_gap_and_on_a_lane_answers(opened):
    page = opened(labcourse.read("00.2").html())
    said = click_gap(page, 4, ".labkit-reading")
    assert "Waited for" not in said
    assert "fetch" not in said
    assert page.evaluate("heard") == [{"number": "00.2", "part": "", "value": 4}]
    assert page.locator("output").inner_text() == "4"


@pytest.mark.browser
def test_a_click_in_a_lane_answers_with_its_name(opened):
    page = opened(labcourse.read("03.1").html())
    at = page.evaluate("""() => { const view = document.querySelector('.labkit-timeline').timeline; view.redraw();
      const row = view.plan.items.find(({ name }) => name === 'file 6'), box = view.canvas.getBoundingClientRect();
      return [box.left + (view.left + view.right) / 2, box.top + row.y + row.h / 2]; }""")
    page.mouse.click(*at)
    assert page.evaluate("heard") == [{"number": "03.1", "part": "slow file", "value": "file 6"}]


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_evidence_is_a_gap_that_is_selected_with_its_arrow(opened, scheme):
    result = labcourse.check("02.1", RIGHT["02.1"])
    page = opened(result._repr_html_())
    page.emulate_media(color_scheme=scheme)
    causes = page.evaluate(
        "[...document.querySelectorAll('.labkit-timeline')].map((e) => e.timeline.selected?.cause ?? null)"
    )
    assert [cause and cause["lane"] for cause in causes] == [
        one.look["points"] and one.look["points"]["lane"] for one in shown(result.drawn)
    ]
    assert "decode" in page.locator(".lt-detail").first.inner_text()
    wrong = labcourse.check("02.1", {**RIGHT["02.1"], "C": "nothing"})
    page.evaluate("document.body.replaceChildren()")
    opened(wrong._repr_html_())
    assert page.evaluate("document.querySelector('.labkit-timeline').timeline.selected.cause.lane") >= 0
    assert "decode" not in page.locator(".lt-detail").inner_text()


def test_the_picture_has_the_arrow_too():
    at = labcourse.check("02.1", RIGHT["02.1"]).drawn.shown["C"]
    plain = ShownRecording(at._layout.timelines[0], "C: deeper buffer", "lanes")
    marks = [len(figure.axes[0].texts) + len(figure.axes[0].collections)
             for figure in (at.picture.figure(), plain.picture.figure())]  # fmt: skip
    assert marks[0] > marks[1]


CELLS = (
    """import pathlib
from labcourse import check, read
read("04.1")""",
    """pathlib.Path({data!r}, "said").write_text(repr(check("04.1")), encoding="utf-8")""",
)


@pytest.mark.browser
@pytest.mark.long
def test_in_jupyterlab_a_click_is_remembered_and_check_needs_no_answer(chromium, lab, tmp_path):
    cells = [nbformat.v4.new_code_cell(text.format(data=str(tmp_path))) for text in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(notebook, lab.home / "reading.ipynb")
    page, _ = lab.open(chromium, "reading.ipynb")
    turn_to(page, "reading.ipynb", kernel=True)
    run_all(page)
    said = tmp_path / "said"
    until(lambda: said.exists() and "04.1 open" in said.read_text(encoding="utf-8"), "an open reading", 60)
    page.get_by_role("group", name="answer").get_by_role("button", name="C").click()
    page.locator(".jp-CodeCell .cm-content").nth(1).click()
    page.keyboard.press("Control+Enter")
    until(lambda: "04.1 passed" in said.read_text(encoding="utf-8"), "a click that counts", 60)
    page.close()
