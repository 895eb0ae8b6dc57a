"""What `try_it` draws: the thing that an answer makes, by its kind, and never how the right answer is computed."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
import tensorflow as tf
from matplotlib.colors import to_hex
from matplotlib.text import Text

from labcourse import exercise_data, exercise_numbers, exercise_pictures, gradebook, grading
from labkit.common.palette import THEMES, contrast
from labkit.sources import pixels
from labkit.timeline.causes import CAUSES

for _number in grading.numbers():
    exercise_numbers.load(_number)

PANELS = ("input", "yours", "right", "difference")
CURVES = [n for n, show in grading.SHOWS.items() if getattr(show, "func", None) is exercise_pictures.curve]
BLOCKS = ("00.1", "00.2", "02.3", "03.2", "04.3", "05.1", "05.3")


def right(number):
    return lambda *case: exercise_data.EXERCISES[number].truth(*case)[0]


def words(figure):
    return [t.get_text() for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]


def cut(image, top, left, size):
    made = np.array(image)
    made[top : top + size, left : left + size] = 0
    return made


def brighter(images, deltas):
    return tf.clip_by_value(images + deltas[:, None, None, None], 0, 1)


def served(path):
    from labcourse.training import normalised

    return normalised(pixels.shrink(tf.io.read_file(path)).numpy().astype(np.float32) / 255)


IMAGES = [
    ("06.2", brighter, lambda images, deltas: images + deltas[:, None, None, None]),
    ("07.3", cut, lambda image, top, left, size: cut(image, top, left, size - 1)),
    ("11.4", served, lambda path: served(path)[:, ::-1]),
]


# -- images -------------------------------------------------------------------------


def differences(picture, theme):
    """Return the pixels of the panels of differences, the last one of each row."""
    figure = picture.figure(theme)
    assert [w for w in words(figure) if w in PANELS] == [*PANELS]
    assert len(figure.axes) % len(PANELS) == 0
    return [axes.images[0].get_array() for axes in figure.axes[-(len(figure.axes) // len(PANELS)) :]]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("number", "answer", "wrong"), IMAGES, ids=[n for n, *_ in IMAGES])
def test_an_image_stands_as_input_yours_right_and_difference(number, answer, wrong, theme):
    bed = np.array([int(THEMES[theme].lane[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    assert all(np.allclose(one, bed) for one in differences(grading.show(number, answer), theme))
    shown = grading.show(number, wrong)
    assert any(not np.allclose(one, bed) for one in differences(shown, theme))
    assert "he largest difference is" in shown.text
    assert "not" in shown.alt


@pytest.mark.opencl
def test_a_kernel_is_shown_by_its_image_and_what_it_never_writes_is_seen():
    source = """__kernel void clip_values(__global const float *in, __global float *out, float low, float high)
    { const int i = get_global_id(0); if (i != 70) out[i] = clamp(in[i], low, high); }"""
    (far,) = differences(grading.show("08.1", source), "light")
    assert [tuple(place) for place in np.argwhere((far != far[0, 0]).any(-1))] == [(1, 22)]


@pytest.mark.parametrize("theme", THEMES)
def test_one_grey_level_is_visible_in_the_difference_and_named_with_its_place(theme):
    image = np.full((6, 8, 3), 100, np.uint8)
    other = image.copy()
    other[2, 5, 1] += 1
    picture = exercise_pictures.images({"": (image, other, image)}, "Bytes", 0, 255)
    (far,) = differences(picture, theme)
    assert contrast(to_hex(far[2, 5]), to_hex(far[0, 0])) >= 2
    assert "The largest difference is 1, at row 2, column 5: 101, not 100." in picture.text


def test_what_is_no_number_is_as_far_away_as_can_be_and_rounding_is_called_so():
    image = np.zeros((2, 2))
    nothing = exercise_pictures.images({"": (image, np.full((2, 2), np.nan), image)}, "None")
    assert "The largest difference is inf" in nothing.text
    near = exercise_pictures.images({"": (image, image + 1e-7, image)}, "Near")
    assert "which is rounding" in near.text


def test_an_image_of_another_shape_is_named_instead_of_drawn():
    assert grading.show("06.2", lambda images, deltas: images[:1]).hint.startswith("nothing to draw: the shape is (1, ")


# -- records ------------------------------------------------------------------------


def parse(record):
    spec = {"photo": tf.io.FixedLenFeature([], tf.string), "class": tf.io.FixedLenFeature([], tf.int64)}
    found = tf.io.parse_single_example(record, spec)
    return found["photo"], found["class"]


def test_a_parser_shows_names_types_shapes_first_bytes_and_the_photo_of_its_record_beside_the_expected_one():
    shown = grading.show("07.2", parse)
    figure = shown.figure("light")
    written = words(figure)
    assert {"yours", "expected", "photo", "class"} <= set(written)
    assert written.count("int64, shape ()") == 2
    assert sum(w.startswith("b'\\xff\\xd8\\xff") for w in written) == 2
    assert sum(bool(axes.images) for axes in figure.axes) == 2
    swapped = grading.show("07.2", lambda record: parse(record)[::-1])
    assert re.search(r"photo +int64, shape \(\) · 3 +bytes", swapped.text)


@pytest.mark.parametrize("made", [3, (), [1], {"photo": b"x"}, (b"\xff\xd8\xffno photo", 3), (None, object()), "text"])
def test_a_record_of_any_form_is_drawn_or_refused_in_a_line(made):
    shown = grading.show("07.2", lambda record: made)
    assert repr(shown)
    assert "0x7" not in repr(shown)


# -- numbers ------------------------------------------------------------------------


@pytest.mark.sample(6)
@pytest.mark.parametrize("number", CURVES)
def test_a_curve_names_its_arguments_and_the_right_one_goes_through_all_rings(number):
    asked = exercise_data.EXERCISES[number]
    call, names = exercise_pictures.signature(asked.truth)
    assert len(names) == len(asked.cases[0]) == len(inspect.signature(asked.truth).parameters)
    shown = grading.show(number, right(number))
    assert call in shown.title
    line, rings, here = shown.figure().axes[0].lines[:1] + shown.figure().axes[0].lines[-2:]
    known = dict(zip(*rings.get_data(), strict=True))
    drawn = dict(zip(*line.get_data(), strict=True))
    assert 1 <= len(known) <= 3
    assert {place: drawn[place] for place in known} == pytest.approx(known)
    assert drawn[here.get_xdata()[0]] == here.get_ydata()[0]
    assert len(drawn) > 3 * len(known), "a few points do not tell the curve"


@pytest.mark.sample(6)
@pytest.mark.parametrize("number", CURVES)
def test_a_wrong_curve_misses_a_ring_and_the_rings_stay_in_view(number):
    asked = exercise_data.EXERCISES[number]
    axes = grading.show(number, lambda *case: 3 * asked.truth(*case)[0] + 1).figure().axes[0]
    rings, line = axes.lines[-2], axes.lines[0]
    drawn = dict(zip(*line.get_data(), strict=True))
    low, high = axes.get_ylim()
    for place, true in zip(*rings.get_data(), strict=True):
        assert drawn[place] != pytest.approx(true)
        assert low <= true <= high


def test_a_number_that_no_curve_can_show_is_named():
    assert "no number that a curve can show" in grading.show("04.2", lambda *case: float("inf")).hint


@pytest.mark.parametrize("number", BLOCKS)
def test_blocks_stand_above_a_ruler_and_the_answer_is_a_line_across_them(number):
    shown = grading.show(number, right(number))
    figure = shown.figure("dark")
    place = float(re.search(r"your answer: ([\d.,]+) of", shown.text)[1].replace(",", ""))
    ruler = figure.axes[0]
    x = {line.get_xdata()[0] for line in figure.artists if hasattr(line, "get_xdata")}
    assert len(x) == 1
    box = ruler.get_position()
    assert x.pop() == pytest.approx(box.x0 + box.width * place / ruler.get_xlim()[1], abs=2e-3)
    assert "idle" not in shown.text or number == "00.1", "that is no job, so nothing in it is idle"


def test_who_waits_is_hollow_and_one_thread_at_a_time_holds_the_interpreter():
    rows = grading.show("04.3", right("04.3")).text
    assert "interpreter" in rows.split("\n")[0]
    assert "waits (waits)" in rows
    fetched = grading.show("03.2", right("03.2")).text
    lanes = [line for line in fetched.split("\n") if line.startswith("  reader")]
    assert all(block.startswith("fetch") and block.endswith("(waits)") for line in lanes
               for block in line.split(": ", 1)[1].split(" | "))  # fmt: skip


def test_rounds_are_slopes_from_before_to_after():
    written = words(grading.show("01.3", lambda before, after: "slower").figure())
    assert {"before", "after", "round 1", "round 4", "Your verdict: 'slower'."} <= set(written)


# -- pipelines ----------------------------------------------------------------------


@pytest.mark.parametrize("number", ["02.1", "05.2"])
def test_a_timeline_names_no_cause_before_the_exercise_is_solved(number, monkeypatch):
    def answer(dataset, *functions):
        for function in functions:
            dataset = dataset.map(function)
        return dataset

    monkeypatch.setattr(gradebook, "solved", frozenset)
    open_yet = str(grading.show(number, answer).picture.text)
    monkeypatch.setattr(gradebook, "solved", lambda: frozenset({number}))
    solved = str(grading.show(number, answer).picture.text)
    named = re.compile(rf"waits mostly|\d % ({'|'.join(CAUSES)})\b")
    assert not named.search(open_yet)
    assert named.search(solved)


def test_a_notebook_tries_every_exercise_that_has_a_picture_before_it_checks_it(root):
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (root / "notebooks" / "source").glob("*.py"))
    tried = re.findall(r'^try_it\("([\d.]+)", (\w+)\)\ncheck\("\1", \2\)$', sources, re.MULTILINE)
    assert sorted(number for number, _ in tried) == sorted(grading.SHOWS)
