"""What `try_it` draws: the thing that an answer makes, by its kind, and never how the right answer is computed."""

from __future__ import annotations

import inspect
import queue
import re
import runpy
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from matplotlib.colors import to_hex
from matplotlib.text import Text

from labcourse import exercise_data, exercise_pictures, gradebook, grading
from labkit.common.palette import THEMES, contrast
from labkit.sources import pixels
from labkit.timeline.causes.per_gap import CAUSES

for _number in grading.numbers():
    grading.load(_number)

PANELS = ("input", "yours", "right", "difference")
CURVES = [n for n, show in grading.SHOWS.items() if getattr(show, "func", None) is exercise_pictures.curve]


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
    ("06.3", brighter, lambda images, deltas: images + deltas[:, None, None, None]),
    ("07.3", cut, lambda image, top, left, size: cut(image, top, left, size - 1)),
    ("11.4", served, lambda path: served(path)[:, ::-1]),
    ("13.5", right("13.5"), lambda boxes: boxes),
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
    answers = runpy.run_path(str(Path(__file__).parent / "wrong_answers" / "notebook_08b.py"))
    source = answers["BY_WEIGHTS"].replace("out[y", "if (x != 3 || y != 5) out[y")
    (far,) = differences(grading.show("08b.2", source), "light")
    assert [tuple(place) for place in np.argwhere((far != far[0, 0]).any(-1))] == [(5, 3)]


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
    assert grading.show("06.3", lambda images, deltas: images[:1]).hint.startswith("nothing to draw: the shape is (1, ")


# -- records ------------------------------------------------------------------------


def parse(record):
    spec = {"photo": tf.io.FixedLenFeature([], tf.string), "class": tf.io.FixedLenFeature([], tf.int64)}
    found = tf.io.parse_single_example(record, spec)
    return found["photo"], found["class"]


def test_a_reader_shows_names_types_shapes_first_bytes_and_the_photo_of_a_record_beside_the_expected_one():
    shown = grading.show("07.2", lambda path: tf.data.TFRecordDataset(path).map(parse))
    figure = shown.figure("light")
    written = words(figure)
    assert {"yours", "expected", "photo", "class"} <= set(written)
    assert written.count("int64, shape ()") == 2
    assert sum(w.startswith("b'\\xff\\xd8\\xff") for w in written) == 2
    assert sum(bool(axes.images) for axes in figure.axes) == 2
    swapped = grading.show("07.2", lambda path: tf.data.TFRecordDataset(path).map(lambda record: parse(record)[::-1]))
    assert re.search(r"photo +int64, shape \(\) · 3 +bytes", swapped.text)


@pytest.mark.parametrize("made", [3, (), [1], {"photo": b"x"}, (b"\xff\xd8\xffno photo", 3), (None, object()), "text"])
def test_a_record_of_any_form_is_drawn_or_refused_in_a_line(made):
    shown = grading.show("07.2", lambda path: [made])
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
    assert "no number that a curve can show" in grading.show("11.5", lambda *case: float("inf")).hint


LANES = [
    ("11.13", lambda labels, classes: np.ones(len(labels)), "class 0: 1 | 1 | 1 | 1 | 1"),
    ("12.4", lambda line, vocabulary, table, length: table[:length], "your rows: 0 | 1 | 2 | 3 | 4 | 5"),
    ("12.5", lambda lines, clean, lookup, size: lines.batch(size).map(
        lambda text: lookup(tf.strings.split(clean(text)).to_tensor(""))), "batch 1, line 2: 2 | 3 | 1 | 0"),
    ("13.2", lambda length, workers, worker: range(4 * worker, 4 * worker + 4), "worker 2: 8 | 9 | 10 | 11"),
    ("14.4", lambda batch, process, count: batch[process::count], "process 1: 7 | 5 | 12 | 66"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "answer", "lane"), LANES)
def test_the_items_that_an_answer_returns_stand_in_a_lane_for_each_part(number, answer, lane):
    shown = grading.show(number, answer)
    assert f"  {lane}\n" in f"{shown.text}\n"


def test_an_item_stands_at_its_place_and_behind_all_others_what_is_none_of_them():
    figure = exercise_pictures.parts("Five", "photos", [7, 3, 9], "worker", [[9, 7], [4]]).figure("dark")
    found = {
        (t.get_text(), round(t.get_position()[0], 2)) for t in figure.findobj(Text) if t.get_text() in ("7", *"394")
    }
    assert [one for one, _ in sorted(found, key=lambda each: each[1])] == ["7", "3", "9", "4"]


def test_a_verdict_stands_beside_what_it_judges_and_nothing_is_called_so():
    assert "Yours is True." in grading.show("11.9", lambda one, other: True).text
    assert "4 lost, 2 doubled" in grading.show("14.3", right("14.3")).title
    assert "nothing comes" in grading.show("12.5", lambda lines, clean, lookup, size: lines.take(0)).hint


def test_each_pair_of_rounds_stands_below_the_verdict_on_it():
    written = words(grading.show("01.3", lambda before, after: "slower").figure())
    assert {"before", "after", "1: slower", "4: slower"} <= set(written)


def by_a_thread(iterable, depth):
    ready = queue.Queue(depth)
    threading.Thread(target=lambda: [ready.put(element) for element in iterable], daemon=True).start()
    for _ in range(8):
        yield ready.get()


def in_turn(iterable, depth):
    yield from iterable


@pytest.mark.parametrize(("answer", "ahead"), [(by_a_thread, 7), (in_turn, 0)])
def test_what_a_thread_loads_ahead_stands_before_its_train_step(answer, ahead):
    """Of room for two, an element waits for two others, and for the one in the hand of the thread."""
    shown = grading.show("02.2", answer)
    assert (shown.text.count("loaded ahead | train"), shown.text.count("train\n")) == (ahead, 8 - 1)
    widths = [block.get_bbox().width for block in shown.figure().artists]
    assert max(widths) / min(widths) == pytest.approx(3 if ahead else 1, rel=0.01)


# -- pipelines ----------------------------------------------------------------------


@pytest.mark.parametrize("number", ["05.2"])
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
    tried = re.findall(r'^try_it\("([\w.]+)", (\w+)\)\ncheck\("\1", \2\)$', sources, re.MULTILINE)
    assert sorted(number for number, _ in tried) == sorted(grading.SHOWS)
