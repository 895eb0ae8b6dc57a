"""Predictions and readings on a page: asked, kept, judged as the course judges, taken up by a notebook."""

from __future__ import annotations

import functools
import json
import re

import course_page
import pytest
import questions
from browser import ROOT
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import labcourse
from labcourse import gradebook, predictions, readings
from labcourse.predictions.figures import Figure

NUMBERS = sorted(path.stem.partition("_")[0] for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))


@functools.cache
def right(number):
    """Return the right answer to a reading, by part."""
    return {part.name: readings.feedback(number, part, part.choices[0])[0] for part in readings.parts(number)}


@pytest.fixture
def opened(chromium, tmp_path):
    """Open the page of a notebook in a browser of its own, which keeps what it is told."""
    contexts = []

    def make(number, **how):
        path = tmp_path / f"{number}.html"
        path.write_text(course_page.html_of(course_page.placed(number)), encoding="utf-8")
        contexts.append(chromium.new_context(accept_downloads=True, **how))
        page = contexts[-1].new_page()
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.goto(path.as_uri())
        return page

    yield make
    for context in contexts:
        for page in context.pages:
            assert page.errors == []
        context.close()


def forms(number):
    """Return what the forms of a page ask, in their order."""
    found = re.findall(r'class="lq-form".*?json">(.*?)</script>', course_page.html_of(course_page.placed(number)))
    return [json.loads(text) for text in found]


@pytest.mark.parametrize("number", NUMBERS)
def test_every_prediction_is_asked_once_before_all_that_answers_it(number):
    """By an own look at the calls: names in the order of the notebook, and closed cells only behind the form."""
    cells = course_page.placed(number).cells
    source = "\n".join(
        cell.source for cell in cells if cell.cell_type == "code" and "bootstrap" not in str(cell.metadata)
    )
    asked = re.findall(r'predictions\.(?:commit|curve|cause)\("([^"]+)"', source)
    assert [form["file"]["name"] for form in forms(number)] == asked
    for name in asked:
        tag, place = f"labkit-after-{name.replace('.', '-')}", f'id="predict-{name.replace(".", "-")}"'
        closed = [k for k, cell in enumerate(cells) if tag in cell.metadata.get("tags", [])]
        (form,) = (k for k, cell in enumerate(cells) if place in str(cell.get("outputs", "")))
        (mark,) = (k for k, cell in enumerate(cells) if f'lq-mark" data-name="{name}"' in str(cell.get("outputs", "")))
        assert form < closed[0]
        assert mark in closed
        for k in closed:
            assert 'class="lq-form"' not in str(cells[k].get("outputs", "")) or k < mark, "who may answer is asked"
        assert "no prediction yet" not in str(cells[form].outputs)


@given(
    value=st.floats(0, 12),
    figure=st.tuples(*[st.floats(0.1, 5)] * 3),
    unit=st.sampled_from(["times", "share", "steps"]),
)
def test_a_number_is_judged_as_in_the_notebook(value, figure, unit):
    low, middle, high = sorted(figure)
    shown = Figure(middle, low, high).words(unit)
    asked, more = questions.ASKED["commit"]("00.any", {"unit": unit}, [["measured", shown, "–"]])
    known = questions.figure(shown, unit)  # with the digits that were shown
    doubt = "" if known.has_spread or unit != "times" else "it was measured once, and has no interval"
    judged = replace(asked, value=value, measured=known, doubt=doubt)
    said = next(words for end, words in more["verdicts"][0] if end is None or value <= end)
    if not any(abs(value - edge) < 1e-9 * max(1, edge) for edge, _ in more["verdicts"][0][:-1]):
        assert said.partition(":")[0] == judged.verdict


def test_what_answers_a_prediction_opens_when_it_is_made_and_stays_open(opened):
    page = opened("00")
    answers, review = page.locator(".tag_labkit-after-00-busy"), page.locator(".lq-mark")
    behind = page.get_by_text("In the second job threads work")
    assert answers.count() > 2
    assert not any(one.locator(".cell_output").is_visible() for one in answers.all())
    assert not behind.is_visible()
    assert page.get_by_text("Closed until you have predicted 00.busy").count() == answers.count()
    assert "Predicted 0 of 1" in page.locator(".lq-strip").inner_text()
    (asked,) = forms("00")
    measured = asked["rows"][-1]["words"]
    said = next(words for end, words in asked["verdicts"][0] if end is None or end >= 0.8)
    box = page.locator(".lq-form input")
    box.fill("55")
    box.press("Enter")  # a share is no percentage
    assert not review.is_visible()
    box.fill("0.8")
    box.press("Enter")
    for _ in range(2):
        assert all(one.locator(".cell_output").is_visible() for one in answers.all())
        assert behind.is_visible()
        assert f"You predicted 80 %. Measured: {measured}. {said.capitalize()}." in review.inner_text()
        assert page.locator(".lq-mark s").count() == 3, "the mark crosses every bar"
        assert "You predicted 00.busy: 80 %." in page.locator(".lq-form").inner_text()
        assert not box.is_visible()
        assert "Predicted 1 of 1" in page.locator(".lq-strip").inner_text()
        page.reload()


def test_show_me_anyway_is_one_click_and_predicts_nothing(opened):
    page = opened("00")
    page.locator(".lq-form").get_by_text("Show me anyway").click()
    assert page.locator(".lq-mark figure").is_visible()
    assert "you looked first" in page.locator(".lq-form").inner_text()
    assert "Predicted 0 of 1" in page.locator(".lq-strip").inner_text()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_text("Forget all").click()
    page.wait_for_function("!document.querySelector('.lq-open')")
    page.locator(".lq-closed").first.get_by_text("Show me anyway").click()
    assert page.locator(".lq-mark figure").is_visible()


def test_without_javascript_all_of_it_can_be_read(opened):
    page = opened("00", java_script_enabled=False)
    assert all(one.is_visible() for one in page.locator(".cell_output:has(figure) figure").all())
    assert page.get_by_text("In the second job threads work").is_visible()


def test_without_storage_the_page_remembers_until_it_is_left(opened):
    page = opened("00")
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('denied'); } })")
    page.reload()
    page.locator(".lq-form input").fill("0.5")
    page.locator(".lq-form").get_by_text("Keep it").click()
    assert "You predicted 50 %" in page.locator(".lq-mark").inner_text()
    page.reload()
    assert not page.locator(".lq-mark").is_visible()


def test_a_cause_and_a_curve_are_predicted(opened):
    page = opened("01")
    (asked,) = forms("01")
    page.locator(".lq-form").get_by_role("button", name="fetch", exact=True).click()
    assert asked["said"]["fetch"] in page.locator(".lq-mark").inner_text()
    assert "◆ fetch (you)" in page.locator(".lq-mark").inner_text()
    page = opened("04")
    point = page.locator(".lq-form circle").nth(3)
    point.press("PageUp")
    page.get_by_text("Keep these numbers").click()
    assert "1, 1, 1, 2 times" in page.locator(".lq-form").inner_text()
    assert page.locator(".lq-mark polyline.lq-line").is_visible()
    assert f"Measured: {forms('04')[0]['measured']}." in page.locator(".lq-mark").inner_text()


def test_no_solution_of_a_reading_stands_in_the_source():
    for number in readings.READINGS:
        source = course_page.html_of(course_page.placed(number.partition(".")[0]))
        for part in readings.parts(number):
            for choice in part.choices:
                assert readings.feedback(number, part, choice)[1] not in source


DRAWN = """(id) => { const root = document.querySelector(id);
  const { blocks } = JSON.parse(root.querySelector("script[type='application/json']").textContent);
  return blocks.every(([k]) => root.querySelector(`[data-place="${k}"] canvas`)); }"""


def answer(page, number, values):
    """Answer a reading by its buttons, and by what a click in a timeline tells, and press Check."""
    root = page.locator(f"#read-{number.replace('.', '-')}")
    root.scroll_into_view_if_needed()
    # Pictures that become timelines move what is below them, and a click may land beside its button.
    page.wait_for_function(DRAWN, arg=f"#read-{number.replace('.', '-')}")
    for part, value in values.items():
        place = root.locator(f'output[data-part="{part}"]')
        if place.count():
            detail = {"letter": "A", place.get_attribute("data-pick"): value}
            root.evaluate("(root, detail) => root.dispatchEvent(new CustomEvent('labkit-pick', { detail }))", detail)
        else:
            root.locator(f"button[data-part='{part}'][data-value='{json.dumps(value)}']").click()
    root.get_by_role("button", name="Check", exact=True).click()
    return root.locator("[role=status]").last


@pytest.mark.parametrize("number", readings.READINGS)
def test_a_reading_is_checked_on_the_page_with_the_words_of_check(number, opened):
    page = opened(number.partition(".")[0])
    first = readings.parts(number)[0]
    wrong = next(choice for choice in first.choices if choice != right(number)[first.name])
    status = answer(page, number, {**right(number), first.name: wrong})
    assert "✗ Not yet." in status.inner_text()
    assert readings.feedback(number, first, wrong)[1].lower() in status.inner_text().lower()
    assert page.evaluate("localStorage['labkit-course'] ?? null") is None, "only a right answer is kept"
    status = answer(page, number, right(number))
    assert "✓ Right." in status.inner_text()
    for part in readings.parts(number):
        assert readings.feedback(number, part, right(number)[part.name])[1].lower() in status.inner_text().lower()


def test_the_evidence_of_a_wrong_and_of_a_right_answer_is_pointed_at(opened):
    page = opened("00")
    lines = "[...document.querySelectorAll('#read-00-1 .labkit-timeline')]"
    selected = f"() => {lines}.map((one) => one.timeline.selected?.i ?? null)"
    page.locator("#read-00-1").scroll_into_view_if_needed()
    page.wait_for_function("document.querySelectorAll('#read-00-1 .labkit-timeline').length === 4")
    assert page.evaluate(selected) == [None] * 4
    wrong = next(one for one in readings.parts("00.1")[1].choices if one != right("00.1")["B"])
    answer(page, "00.1", {**right("00.1"), "B": wrong})
    page.wait_for_function(f"() => ({selected})()[1] !== null")
    assert [one is None for one in page.evaluate(selected)] == [True, False, True, True]
    answer(page, "00.1", right("00.1"))
    page.wait_for_function(f"() => ({selected})().every((one) => one !== null)")
    page.reload()
    page.locator("#read-00-1").scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('#read-00-1 > [role=status]').textContent.startsWith('✓')")
    assert "Read 1 of 2" in page.locator(".lq-strip").inner_text()


def test_all_of_it_can_be_done_with_keys_alone(opened):
    page = opened("00")

    # The page itself has the focus where a picture with it gave way to a timeline.
    named = "n => n === document.body ? '' : (n.closest('label') ?? n).textContent + n.outerHTML"

    def to(words):
        """Press Tab until what has the focus says so."""
        for _ in range(200):
            page.keyboard.press("Tab")
            if words in page.evaluate(f"({named})(document.activeElement)"):
                return
        raise AssertionError(f"no Tab leads to {words}")

    to("Your prediction 00.busy")
    page.keyboard.type("0.7")
    page.keyboard.press("Enter")
    assert "You predicted 00.busy: 70 %" in page.evaluate("document.activeElement.textContent")
    for part, value in right("00.1").items():
        to(f'data-part="{part}" data-value="&quot;{value}&quot;"')
        page.keyboard.press("Space")
    to(">Check<")
    page.keyboard.press("Enter")
    assert "Read 1 of 2" in page.locator(".lq-strip").inner_text()


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_PREDICTIONS", str(tmp_path / "predictions"))
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(predictions, "session", {})
    monkeypatch.setattr(gradebook, "session", gradebook.Journal())


def test_what_a_page_exports_is_taken_up_by_a_notebook(opened, tmp_path, own_home):
    page = opened("00")
    page.locator(".lq-form input").fill("0.8")
    page.locator(".lq-form").get_by_text("Keep it").click()
    answer(page, "00.1", right("00.1"))
    answer(page, "00.2", right("00.2"))
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as a file").click()
    path = tmp_path / "page.json"
    download.value.save_as(path)
    text = str(labcourse.take_up(path))
    assert "00.busy: you predict 80 %." in text
    assert {"00.1", "00.2"} <= gradebook.solved()
    assert predictions.commit("00.busy", ..., unit="share").value == 0.8, "the cell with its dots finds it"


def test_a_wrong_reading_is_not_solved_and_other_kinds_are_kept(tmp_path, own_home):
    kinds = [form["file"] for number in ("01", "04") for form in forms(number)]
    kinds = {one["name"]: {**one, "value": "fetch" if "among" in one else [1, 2, 3, 4]} for one in kinds}
    page = {"format": "labkit page 1", "predictions": kinds, "readings": {"00.2": {"": 99}, "77.7": {"": 1}}}
    path = tmp_path / "page.json"
    path.write_text(json.dumps(page))
    text = str(labcourse.take_up(path))
    assert "01.cause: you predict fetch." in text
    assert "04.curve: you predict 1, 2, 3, 4 times" in text
    assert "00.2 failed" in text
    assert "no reading" in text
    assert "00.2" not in gradebook.solved()


@pytest.mark.parametrize(
    "text",
    ["", "no JSON", "[]", "{}", '{"format": "another", "predictions": {}, "readings": {}}', b"\xff\xfe",
     '{"format": "labkit page 1", "predictions": {"00.busy": {"value": 1}}, "readings": {}}',
     '{"format": "labkit page 1", "predictions": {}, "readings": {"00.1": 3}}'],
)  # fmt: skip
def test_a_file_that_is_none_is_refused_in_one_sentence(text, tmp_path, own_home):
    path = tmp_path / "page.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(
        ValueError, match=r"page\.json is no file of a page \(.+\); allowed: what Export on a page writes$"
    ):
        labcourse.take_up(path)
    assert len(predictions.summary()) == 0
