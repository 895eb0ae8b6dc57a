"""A check tells right from plausibly wrong, gives the hint that fits, and never raises at a student."""

from __future__ import annotations

import dataclasses
import functools
import runpy
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from asked import asked

from labcourse import exercise_data, grading, student_code
from labcourse.grading import check
from labcourse.readings import READINGS

for _number in grading.numbers():
    grading.load(_number)

# Right shape, wrong idea: what students really hand in, and a word of the hint that must come back.
_FILES = [runpy.run_path(str(p)) for p in sorted((Path(__file__).parent / "wrong_answers").glob("notebook_*.py"))]
WRONG = {number: cases for found in _FILES for number, cases in found["WRONG"].items()}
RIGHT = {number: cases for found in _FILES for number, cases in found.get("RIGHT", {}).items()}
NEEDS_OPENCL, NEEDS_LOADERS = (
    set().union(*(found.get(name, ()) for found in _FILES)) for name in ("NEEDS_OPENCL", "NEEDS_LOADERS")
)


def case(number, *values):
    marks = [pytest.mark.opencl] * (number in NEEDS_OPENCL) + [pytest.mark.loaders] * (number in NEEDS_LOADERS)
    return pytest.param(number, *values, marks=marks)


def test_every_exercise_has_right_answers_and_wrong_ones_that_are_known():
    asked = set(grading.numbers()) - set(READINGS)  # whose answers are in the tests of the readings
    assert set(RIGHT) == asked
    assert set(WRONG) | set(exercise_data.EXERCISES) == asked


# -- exercises as data: their ideas are the wrong answers -------------------------


MOST_IDEAS = 5  # those that students really hand in, no more


def hints(asked_for):
    """Return the hints of all ideas of an exercise."""
    return list(dict.fromkeys(hint for case in asked_for.cases for hint in asked_for.truth(*case)[1]))


def handed_in(asked_for, hint):
    """Compare the answers of who has the idea behind a hint, and return what the student is told."""

    def wrong(*case):
        right, ideas = asked_for.truth(*case)
        return ideas.get(hint, right)

    with pytest.raises(grading.Wrong) as told:
        asked_for.compare(wrong)
    return str(told.value)


@pytest.mark.parametrize("number", sorted(exercise_data.EXERCISES))
def test_each_wrong_idea_is_refused_with_its_own_hint(number):
    """So an idea is wrong in some case, no other idea that comes before it shadows it, and cases tell ideas apart."""
    asked_for = exercise_data.EXERCISES[number]
    assert 0 < len(hints(asked_for)) <= MOST_IDEAS
    for hint in hints(asked_for):
        assert handed_in(asked_for, hint).endswith(hint)


@pytest.mark.parametrize("number", sorted(exercise_data.EXERCISES))
def test_who_has_the_right_answers_is_told_nothing_and_the_order_of_ideas_does_not_matter(number, monkeypatch):
    asked_for = exercise_data.EXERCISES[number]
    assert asked_for.compare(lambda *case: asked_for.truth(*case)[0]) is None

    def turned(*case):
        right, ideas = asked_for.truth(*case)
        return right, dict(reversed(ideas.items()))

    backwards = dataclasses.replace(asked_for, truth=turned)
    for hint in hints(asked_for):
        assert handed_in(backwards, hint).endswith(hint)


# -- answers that are no idea -----------------------------------------------------


@pytest.mark.random
@pytest.mark.sample(30)
@pytest.mark.parametrize(("number", "answer", "word"), [case(n, f, w) for n, cases in WRONG.items() for f, w in cases])
def test_a_plausible_wrong_answer_fails_with_the_hint_that_fits(number, answer, word):
    result = asked(number, answer)
    assert result.status == grading.FAILED
    assert word in result.hint, result
    assert "in user code" not in result.hint, "AutoGraph wraps what is raised in a map, and names labkit's own files"


@pytest.mark.random
@pytest.mark.sample(8)
@pytest.mark.parametrize(("number", "answer"), [case(n, f) for n, cases in RIGHT.items() for f in cases])
def test_an_unusual_right_answer_passes(number, answer):
    assert asked(number, answer).passed, asked(number, answer)


@pytest.mark.parametrize("number", grading.numbers())
@pytest.mark.parametrize(
    "answer",
    [None, lambda *a: None, 3, "text", lambda: 1, lambda *a: 1 / 0, lambda *a: float("nan"), lambda *a: object()],
    ids=["none", "stub", "number", "text", "arguments", "raises", "nan", "object"],
)
def test_no_answer_makes_a_check_raise_or_pass(number, answer):
    result = check(number, answer)
    assert not result.passed
    assert result.hint


@pytest.mark.parametrize(
    ("number", "answer", "hint"),
    [
        (
            "11.5",
            lambda fixed, each, batch: 1231 if batch == 32 else batch,
            "you return 1231 images/s, expected 1230.77 images/s",
        ),
        (
            "11.5",
            lambda fixed, each, batch: 1231 if batch == 32 else [][0],
            "you return 1231 images/s, expected 1230.77 images/s",
        ),
    ],
)
def test_only_who_rounds_in_every_case_is_told_not_to_round(number, answer, hint):
    assert check(number, answer).hint.endswith(hint)


def test_an_untried_exercise_is_open_not_failed():
    assert check("11.5", None).status == grading.OPEN
    assert check("11.5", lambda fixed, each, batch: None).status == grading.OPEN


def not_written(*_):
    raise NotImplementedError


def test_only_a_stub_is_open_and_what_returned_something_before_is_none():
    once = iter([1000 * 32 / 26])
    assert check("11.5", not_written).status == grading.OPEN
    assert check("11.5", lambda *_: next(once, None)).status == grading.FAILED
    assert check("11.5", lambda fixed, each, batch: None).status == grading.OPEN, "the check before is forgotten"
    assert check("03.2", lambda paths, open_shard: open_shard(paths[0]).map(not_written)).status == grading.OPEN


def ellipsis(fixed, each, batch): ...


def documented(fixed, each, batch):
    """Return images per second."""


def nothing(fixed, each, batch):
    return None


def forgotten(fixed, each, batch):
    _rate = 1000 * batch / (fixed + each * batch)  # and no return: that is the mistake


def chosen(fixed, each, batch):
    if fixed > batch:
        fixed = batch


@pytest.mark.parametrize("stub", [ellipsis, documented, nothing])
def test_a_function_that_does_nothing_is_a_stub(stub):
    assert check("11.5", stub).status == grading.OPEN


@pytest.mark.parametrize("tried", [forgotten, chosen])
def test_a_forgotten_return_is_told_of_though_nothing_but_arguments_is_named(tried):
    assert check("11.5", tried).hint == "for (10, 0.5, 32) your function returns nothing: a return is missing"


def test_what_autograph_says_about_the_files_it_passed_is_no_part_of_a_hint():
    def clumsy(paths, open_shard):
        return open_shard(paths[0]).map(lambda x: {}[x.dtype])

    hint = check("03.2", clumsy).hint
    assert hint.startswith("your answer raised KeyError: ")
    assert "in user code" not in hint
    assert ".py" not in hint


def test_where_in_its_own_graph_tensorflow_failed_is_no_part_of_a_hint():
    import tensorflow as tf

    def clumsy(paths, open_shard):
        return open_shard(paths[0]).map(lambda x: tf.py_function(lambda y: [y][3], [x], x.dtype))

    hint = check("03.2", clumsy).hint
    assert hint == "your answer raised UnknownError: IndexError: list index out of range"


def loop(first, later, without):
    epochs = 1
    while first + (epochs - 1) * later >= epochs * without:
        epochs += 1
    return epochs


def until_even(first, later, without):
    epochs = 1
    while first + (epochs - 1) * later > epochs * without:
        epochs += 1
    return epochs


def test_each_case_of_a_number_is_called_once():
    asked_for = []

    def counted(fixed, each, batch):
        asked_for.append((fixed, each, batch))
        return round(1000 * batch / (fixed + each * batch), 1)

    assert "do not round" in check("11.5", counted).hint
    assert len(asked_for) == len(set(asked_for))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no clock that interrupts")
def test_a_loop_that_never_ends_is_ended_and_the_hint_names_its_input(monkeypatch):
    monkeypatch.setattr(student_code, "LIMIT_S", 0.3)
    result = check("05.3", loop)
    assert result.hint == "for (20, 16, 16) your function does not come back: look for a loop that never ends"
    assert grading.show("11.5", lambda fixed, each, batch: loop(20, 16, 16)).status == grading.FAILED
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    monkeypatch.setattr(student_code, "LIMIT_S", 600.0)
    hint = check("05.3", until_even).hint
    assert "for (30, 2, 16) you return 2 epochs: one epoch too few" in hint, (
        "it waits for no other case, which never ends"
    )


def never(paths, open_shard):
    """Let nothing through, in TensorFlow's own code, which hears no alarm."""
    return open_shard(paths[0]).repeat().filter(lambda record: record == "").prefetch(2)


def waits(paths, open_shard):
    """Wait in Python for something that does not come."""

    def made():
        LEFT.wait(60)
        yield from ()

    import tensorflow as tf

    return tf.data.Dataset.from_generator(made, output_signature=open_shard(paths[0]).element_spec).prefetch(2)


LEFT = threading.Event()


@pytest.mark.sample(1)
@pytest.mark.parametrize("answer", [never, waits])
def test_a_dataset_whose_elements_never_come_is_left_and_stopped(answer, monkeypatch):
    monkeypatch.setattr(student_code, "LIMIT_S", 5.0)  # TensorFlow takes a second to trace the answer on busy cores
    LEFT.clear()
    before = set(threading.enumerate())
    result = check("03.2", answer)
    assert result.hint == (
        "no element comes out of your dataset: look for a loop that never ends, or a filter that lets nothing through"
    )
    LEFT.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
        assert not thread.is_alive(), "TensorFlow would go on, and take a core from what is measured next"


def test_a_dataset_that_stops_midway_is_told_how_far_it_came(monkeypatch):
    monkeypatch.setattr(student_code, "LIMIT_S", 5.0)
    result = check("03.2", lambda paths, open_shard: open_shard("a").take(2).concatenate(never(paths, open_shard)))
    assert result.hint.startswith("after 2 elements no other comes out of your dataset: ")


def needed(fixed, each, batch):
    return 1000 * batch / (fixed + each * batch)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no clock that interrupts")
def test_a_check_leaves_the_clock_of_somebody_else_alone_and_needs_none_in_another_thread():
    def theirs(*_):
        raise AssertionError

    before = signal.signal(signal.SIGALRM, theirs)
    try:
        signal.setitimer(signal.ITIMER_REAL, 600)
        assert check("11.5", needed).passed
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 500
        assert signal.getsignal(signal.SIGALRM) is theirs
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(check, "11.5", needed).result().passed


@pytest.mark.parametrize("number", ["99.1", "", None, ["11.5"], 3])
def test_an_exercise_that_is_not_there_is_a_failed_result_that_names_those_there_are(number):
    result = check(number, 1)
    assert result.status == grading.FAILED
    assert "there is no exercise" in result.hint
    assert "00.3" in result.hint


@pytest.mark.long
def test_an_exercise_imports_the_module_of_its_notebook_alone_and_each_module_registers_what_the_table_says():
    code = (
        "import sys\n"
        "from labcourse import grading\n"
        "grading.check('11.5', None)\n"
        "print(*[name for name in sys.modules if name.startswith('labcourse.exercises.')], *sorted(grading.CHECKS))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["labcourse.exercises.notebook_11c", "11.5"]
    assert sorted(grading.CHECKS) == list(grading.numbers())


def test_a_slip_in_a_number_names_the_exercises_of_its_notebook():
    assert check("11.99", 1).hint.startswith("there is no exercise '11.99'; there are: 11.1, 11.11, ")


def leave(*_):
    raise SystemExit(3)


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def mute(*_):
    raise Mute


class Odd(BaseException):
    pass


def odd(*_):
    raise Odd("a\nb")


def endless(*a):
    return endless(*a)


@pytest.mark.parametrize("answer", [leave, mute, odd, endless], ids=["exit", "mute", "odd", "recursion"])
@pytest.mark.parametrize("number", ["11.5", "03.2", "05.2", "06.3"])
def test_whatever_an_answer_raises_becomes_a_result_on_one_line(number, answer):
    result = check(number, answer)
    assert result.status == grading.FAILED
    assert "your answer raised" in result.hint or result.hint
    assert "\n" not in repr(result)
    assert len(result.hint) <= 400


def test_the_interruption_of_the_reader_is_passed_on():
    def interrupted(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check("11.5", interrupted)


def test_an_unclear_check_is_inconclusive_in_sign_and_word_and_no_pass():
    def noisy(_):
        raise grading.Unclear("the machine is busy: run again")

    result = grading.judge("x.1", noisy, 1)
    assert result.status == grading.INCONCLUSIVE
    assert not result.passed
    assert repr(result) == "? x.1 inconclusive: the machine is busy: run again"
    assert "? x.1 inconclusive" in result._repr_html_()
    assert "style" not in result._repr_html_(), "the word says it, no colour does"
    assert len({repr(grading.CheckResult("1", s))[0] for s in ("passed", "failed", "open", "inconclusive")}) == 4


def test_where_pytorch_is_not_installed_an_answer_in_it_is_inconclusive_and_a_stub_is_open(monkeypatch):
    def here(photos, batch, workers):
        raise ModuleNotFoundError("No module named 'torch'")

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for answer in (here, lambda photos, batch, workers: photos):
        result = check("13.3", answer)
        assert result.status == grading.INCONCLUSIVE
        assert "pip install torch, then run again" in result.hint
    assert check("13.3", lambda photos, batch, workers: None).status == grading.OPEN
    assert check("13.3", 3).status == grading.FAILED, "that is no function, whatever is installed"


# -- show -----------------------------------------------------------------------

DRAWN = [n for n in grading.numbers() if n in grading.SHOWS]


#: A number that is asked for, and what stands in the notebook already.
DRAWN_ABOVE = "00.4", "08.2", "08.3"


def test_every_exercise_of_the_course_is_drawn():
    """Except a number that is asked for, and pictures that stand in the notebook already."""
    asked = [n for n in grading.numbers() if n < "10" and n not in READINGS]
    assert [n for n in asked if n not in DRAWN_ABOVE] == [n for n in DRAWN if n < "10"]


def test_an_exercise_without_a_picture_says_so_on_one_line():
    for number in set(grading.numbers()) - set(DRAWN):
        assert repr(grading.show(number, 1)) == f"… {number} open: there is nothing to draw for this exercise"


@pytest.mark.parametrize("number", [case(n) for n in DRAWN])
@pytest.mark.parametrize("answer", [None, lambda *a: None], ids=["none", "stub"])
def test_of_an_unsolved_exercise_there_is_one_line_instead_of_a_picture(number, answer):
    shown = grading.show(number, answer if number not in NEEDS_OPENCL or answer is None else "...")
    assert repr(shown) == f"… {number} open: nothing to draw yet: write your answer in the cell above"


@pytest.mark.sample(12)
@pytest.mark.parametrize("number", DRAWN)
@pytest.mark.parametrize(
    "answer",
    [3, "text", lambda: 1, leave, lambda *a: float("nan"), lambda *a: 0],
    ids=["number", "text", "arguments", "exit", "nan", "zero"],
)
def test_no_answer_makes_a_show_raise(number, answer):
    shown = grading.show(number, answer)
    assert repr(shown)
    assert "0x" not in repr(shown)


@pytest.mark.long
@pytest.mark.parametrize("number", [case(n) for n in DRAWN])
def test_a_wrong_answer_is_drawn_the_same_every_time_or_says_in_a_line_why_not(number):
    answers = [answer for answer, _ in WRONG.get(number, ())][:2]
    if number in exercise_data.EXERCISES:  # its ideas are plausible, too
        truth = exercise_data.EXERCISES[number].truth
        kinds = hints(exercise_data.EXERCISES[number])
        answers += [lambda *case, hint=hint: truth(*case)[1].get(hint, truth(*case)[0]) for hint in kinds]
    for answer in answers:
        shown, again = grading.show(number, answer), grading.show(number, answer)
        assert repr(shown) == repr(again)
        if not isinstance(shown, grading.CheckResult):
            break
        assert "nothing to draw" in shown.hint
    else:
        pytest.fail("what is plausible can be drawn")
    data, metadata = shown._repr_mimebundle_()
    assert "in words" in data["text/html"]
    assert len(metadata["image/png"]["alt"]) > 20


@pytest.mark.sample(2)
@pytest.mark.parametrize("value", [float("inf"), -1e300, -1, 1e300])
def test_a_number_that_lies_off_the_axis_is_drawn_at_its_edge_or_said_in_words(value):
    shown = str(grading.show("05.3", lambda *a: value))
    assert "yours is" in shown or "no number that a curve can show" in shown


def test_outside_of_a_notebook_an_answer_is_tried_in_words(capsys):
    assert grading.try_it("11.5", None) is None
    assert capsys.readouterr().out == "… 11.5 open: nothing to draw yet: write your answer in the cell above\n"


def test_of_an_answer_that_fails_only_the_check_says_why(capsys):
    def broken(before, after):
        raise ZeroDivisionError("no rounds")

    grading.try_it("01.3", broken)
    assert capsys.readouterr().out == ""
    assert "no rounds" in grading.check("01.3", broken).hint


@pytest.mark.parametrize("number", ["03.2", "04.3", "05.2", "06.2", "09.2"])
@pytest.mark.parametrize("made", [3, [1, 2]], ids=["number", "list"])
def test_what_is_no_pipeline_is_named_instead_of_drawn(number, made):
    shown = grading.show(number, lambda *_: made)
    assert shown.hint == f"nothing to draw: return a tf.data.Dataset, not {type(made).__name__}"


def test_a_pipeline_that_cannot_be_read_is_no_error_of_the_student():
    import tensorflow as tf

    def on_device(paths, open_shard):
        return open_shard(paths[0]).apply(tf.data.experimental.prefetch_to_device("/cpu:0", 2))

    shown = grading.show("03.2", on_device)
    assert shown.hint.startswith("nothing to draw: labkit cannot read a step of this pipeline, such as prefetch_to")


def test_what_a_picture_shows_follows_the_pipeline_of_the_student():
    def read(paths, open_shard, **how):
        import tensorflow as tf

        return tf.data.Dataset.from_tensor_slices(paths).interleave(open_shard, cycle_length=3, **how)

    together = repr(grading.show("03.2", functools.partial(read, num_parallel_calls=3)))
    turns = repr(grading.show("03.2", read))
    busy = [float(text.split("accelerator busy")[1].split("%")[0]) for text in (together, turns)]
    assert busy[0] > busy[1] + 20
