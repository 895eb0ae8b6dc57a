"""My pipeline: the file is never lost, one that is wrong gets one sentence, and each step is worth taking."""

from __future__ import annotations

import itertools
import json
import os
import re
from pathlib import Path

import pytest
import tensorflow as tf

from labcourse import fairness, my_pipeline, pipeline_file, predictions, student_code
from labcourse.my_pipeline import FIRST, STEPS, before
from labkit.sources import photos

NUMBERS = list(STEPS)
ROOT = Path(__file__).resolve().parents[2]


def after(number):
    """The file with the step of a notebook made."""
    return my_pipeline.after(before(number), number)


@pytest.fixture
def desk(tmp_path, monkeypatch, album):
    """A folder of notebooks and a data folder with photos, for a reader who has just begun."""
    data = tmp_path / "data"
    data.mkdir()
    for kept in photos.home().glob("lab_photos*"):
        (data / kept.name).symlink_to(kept)
    monkeypatch.setenv("LABKIT_DATA", str(data))
    monkeypatch.setenv("LABKIT_SCALE", "tiny")
    monkeypatch.delenv("LABKIT_FAST", raising=False)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    predictions.session.clear()
    yield tmp_path / "notebooks"
    predictions.session.clear()


@pytest.fixture
def quick(desk, monkeypatch):
    """The same, with the file there, and a comparison of one round."""
    my_pipeline.step("01")
    monkeypatch.setenv("LABKIT_FAST", "1")
    return desk / my_pipeline.NAME


# -- the states ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a function that loads a text as the lab loads a reader's file."""
    folder = tmp_path_factory.mktemp("states")
    names = itertools.count()

    def load(text):
        place = folder / f"{next(names)}.py"
        place.write_text(text)
        return pipeline_file.load(place)

    return load


@pytest.mark.sample(3)
@pytest.mark.parametrize("number", NUMBERS)
def test_each_step_keeps_the_elements_and_what_is_random(number, built, album):
    pipeline_file.compare(built(after(number)), built(before(number)), album)


@pytest.mark.parametrize(("number", "following"), list(itertools.pairwise(NUMBERS)))
def test_a_notebook_expects_what_the_one_before_leaves(number, following):
    assert after(number) == before(following)
    assert before(NUMBERS[0]) == FIRST
    assert all(before(following).count(old) == 1 for old, _ in STEPS[following].edits[:1])


def simulated(text, files, place):
    """Return the makespan of a state whose work takes stated times: to read 40 ms, to decode 10, to augment 2."""
    read = fairness.Stage("read", 40, tf.io.read_file, asleep=True)
    decode = fairness.Stage("decode", 10, lambda jpeg: tf.io.decode_jpeg(jpeg, channels=3))
    change = fairness.Stage("change", 1, lambda image: tf.cast(image, tf.float32) / 255, call_ms=1, rank=3)
    text, count = re.subn(r"tf\.io\.decode_jpeg\([^\n]*\)", "decode_(jpeg)", text)
    assert count == 1
    text = text.replace("tf.io.read_file(path), label", "read_(path), label").replace("jit_compile=True", "")
    text = re.sub(r"tf\.image\.convert_image_dtype\((\w+), tf\.float32\)", r"change_(\1)", text)
    space = {"read_": read, "decode_": decode, "change_": change}
    place.write_text(text)  # AutoGraph reads it
    exec(compile(text, str(place), "exec"), space)
    cores = os.cpu_count()
    return fairness.simulate(space["pipeline"](files, 8), (read, decode, change), 60, cores=cores, steps=24).makespan_ms


def test_no_step_is_slower_than_the_one_before_on_the_simulated_clock(album, tmp_path):
    files = album.take(32).files()
    states = enumerate((FIRST, *map(after, NUMBERS)))
    times = [simulated(text, files, tmp_path / f"{number}.py") for number, text in states]
    assert all(later <= one * 1.001 for one, later in itertools.pairwise(times)), times
    assert times[-1] < times[0] / 2


@pytest.mark.parametrize("number", NUMBERS)
def test_a_task_says_what_to_change_and_not_how(number, desk):
    page = my_pipeline.step(number)
    own = set(after(number).splitlines()) - set(before(number).splitlines())
    assert not any(line.strip() in page.sentences[0] for line in own if line.strip())
    assert page.code == before(number)
    assert page.sentences[0].startswith("my_pipeline.py (beside this notebook): ")
    assert "import tensorflow" in page._repr_html_()
    assert len(re.findall(r"[.:!?](?=\s|$)", STEPS[number].task)) <= 3


# -- the reader's file -----------------------------------------------------------------------


def test_the_file_lies_beside_the_notebooks_and_is_never_written_again(desk):
    my_pipeline.step("04")
    place = desk / my_pipeline.NAME
    assert place.read_text() == before("04")
    place.write_text("mine = 1\n")
    for number in NUMBERS:
        my_pipeline.ladder(number)
        my_pipeline.step(number)
        my_pipeline.measure(number)
    assert place.read_text() == "mine = 1\n"


def test_reset_puts_each_version_aside_under_a_number_of_its_own(desk):
    place = desk / my_pipeline.NAME
    for text in ("one = 1\n", "two = 2\n"):
        place.write_text(text)
        said = str(my_pipeline.reset("04"))
        assert place.read_text() == before("04")
    assert (desk / "my_pipeline_1.py").read_text() == "one = 1\n"
    assert (desk / "my_pipeline_2.py").read_text() == "two = 2\n"
    assert "my_pipeline_2.py" in said
    my_pipeline.reset("04")
    assert not (desk / "my_pipeline_3.py").exists(), "nothing was to be put aside"


def test_where_the_folder_cannot_be_written_the_file_lies_with_the_predictions(desk, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    my_pipeline.step("02")
    assert not list(desk.iterdir())
    assert my_pipeline.path().read_text() == before("02")
    assert photos.home() in my_pipeline.path().parents
    assert str(my_pipeline.path().parent) in str(my_pipeline.step("02"))


@pytest.mark.sample(1)
@pytest.mark.parametrize("variable", ["LABKIT_FAST", "LABKIT_UNATTENDED"])
def test_without_a_reader_each_notebook_finds_the_file_that_it_expects(variable, desk, monkeypatch):
    monkeypatch.setenv(variable, "1")
    for number in ("01", "04", "02"):
        page = my_pipeline.step(number)
        assert page.code == before(number)
        assert str(desk.parent) not in str(page), "a stored notebook names no folder of this machine"
    assert photos.home() in my_pipeline.path().parents
    monkeypatch.setenv("LABKIT_FAST", "1")  # one round
    assert "02 prefetch" in str(my_pipeline.measure("02")), "its step is made"
    assert my_pipeline.step("02").code == before("02")
    assert not list(desk.iterdir()), "nothing lies beside the notebooks"
    monkeypatch.delenv("LABKIT_FAST")
    monkeypatch.delenv(variable, raising=False)
    assert "no bar yet" in str(my_pipeline.ladder("03")), "and nobody's figures are a reader's"


def test_the_checkout_stays_clean():
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert "/notebooks/my_pipeline*.py" in ignored
    assert not any("labcourse" in line for line in ignored)


@pytest.mark.parametrize("number", ["08", "4", None, 4])
def test_another_notebook_is_refused(number, desk):
    for verb in (my_pipeline.ladder, my_pipeline.step, my_pipeline.measure, my_pipeline.reset):
        with pytest.raises(ValueError, match=r"the notebook is .*allowed: 01, 02"):
            verb(number)


# -- files that are wrong ---------------------------------------------------------------------

FLOAT, BATCH = "tf.image.convert_image_dtype(image, tf.float32)", "    data = data.batch(batch)\n"
REPEAT = "    data = data.repeat()\n"
AUGMENT = "    data = data.map(augment if augmented else to_float)\n"
READ, END = "    data = files.map(read)\n", "    return data.with_options(as_written())\n"

#: By fault: what is written in place of what in the first state, and the words of the sentence.
WRONG = {
    "syntax": ("def decode(", "def decode((", r"line \d+ of my_pipeline\.py is no Python"),
    "null": ("import tensorflow", "\0import tensorflow", "is no Python"),
    "missing": ("def pipeline", "def other", r"has no function pipeline\(files"),
    "raises": (BATCH, "    data = 1 / 0\n", r"line \d+ of .*division by zero"),
    "top": ("import tensorflow as tf", "boom()", r"line 3 of .*boom"),
    "graph": ("tf.image.resize(image, [224, 224])", "image.nothing", r"line 12 of .*nothing"),
    "exit": ("def read", "raise SystemExit\n\n\ndef read", r"line \d+ of .*SystemExit"),
    "nothing": (END, "    data\n", "returns nothing"),
    "number": (END, "    return 7\n", "tf.data.Dataset, but int"),
    "arguments": (", augmented=True", "", "augmented"),
    "ends": (".repeat()", "", "repeat the files for ever"),
    "lost": (".repeat()", ".skip(1).repeat()", "missing: 1 of 48 photos"),
    "twice": (".repeat()", ".take(24).repeat()", "missing: 24 of 48 photos, some came twice"),
    "pixels": ("[224, 224]", "[224, 224], method='nearest'", "missing: 48 of 48 photos, others came"),
    "shape": ("[224, 224]", "[64, 64]", "the shape is"),
    "labels": (f"{FLOAT}, label", FLOAT, "elements|line"),
    "frozen": (REPEAT + AUGMENT, f"{AUGMENT}    data = data.cache().repeat()\n", "random numbers of its own"),
    "one for all": (AUGMENT + BATCH, BATCH + AUGMENT, "random numbers of its own"),
    "lab": ("import tensorflow as tf", "import tensorflow as tf, labkit", "line 3 of .*imports the lab"),
    "from lab": (READ, f"    from labkit.common import files as x\n{READ}", "imports the lab"),
}


@pytest.mark.sample(7)
@pytest.mark.parametrize("fault", WRONG)
def test_a_file_that_is_wrong_gets_one_sentence_and_nothing_is_lost(fault, quick):
    old, new, words = WRONG[fault]
    text = FIRST.replace(old, new)
    assert text != FIRST
    quick.write_text(text)
    said = my_pipeline.measure("01")
    assert re.search(words, said.hint), said.hint
    assert "\n" not in said.hint
    assert quick.read_text() == text
    assert my_pipeline.figures() == {}


@pytest.mark.sample(1)
@pytest.mark.parametrize("loop", ["    while True:\n        pass\n", "    for _ in iter(int, 1):\n        pass\n"])
def test_a_loop_that_never_ends_is_stopped(loop, quick, monkeypatch):
    monkeypatch.setattr(student_code, "LIMIT_S", 2.0)
    text = FIRST.replace(READ, loop + READ)
    quick.write_text(text)
    line = text.splitlines().index("        pass") + 1
    said = my_pipeline.measure("01").hint
    assert re.search(rf"line ({line - 1}|{line}) of my_pipeline\.py: .*never ends", said), said


# -- the ladder -------------------------------------------------------------------------------


def test_the_ladder_grows_by_a_bar_and_survives_a_restart(quick):
    """Also where the first try was a wrong file: the next one is read anew."""
    quick.write_text(FIRST.replace(*WRONG["graph"][:2]))
    assert my_pipeline.measure("01").hint
    assert "no bar yet" in str(my_pipeline.ladder("01"))
    quick.write_text(FIRST)
    assert "01 naive" in str(my_pipeline.measure("01"))
    unchanged = my_pipeline.measure("02")
    assert "is unchanged" in str(unchanged)
    quick.write_text(after("02"))
    grown = str(my_pipeline.measure("02"))
    assert "02 prefetch" in grown
    assert "on a modelled V100" in grown
    predictions.session.clear()  # what a kernel forgets
    assert str(my_pipeline.ladder("03")).splitlines()[-1].startswith("  02 prefetch")
    assert set(my_pipeline.figures()) == {"01", "02"}
    known = my_pipeline.figures()
    assert "is as notebook 02 measured it" in str(my_pipeline.measure("01")), "an older notebook that is run again"
    assert my_pipeline.figures() == known


@pytest.mark.sample(1)
@pytest.mark.parametrize(("number", "earlier"), [("04", "03"), ("09", "07")])
def test_the_first_bar_of_somebody_who_begins_later_is_what_the_file_was(number, earlier, quick):
    quick.write_text(after(number))
    drawn = my_pipeline.measure(number)
    assert f"{number}: " in str(drawn)
    assert set(my_pipeline.figures()) == {earlier, number}


@pytest.mark.long
def test_a_step_is_judged_on_the_slowest_accelerator_that_still_waits(quick):
    my_pipeline.kept().mkdir(exist_ok=True)
    busy = dict(zip(my_pipeline.CONSUMERS, (0.97, 0.4, 0.2), strict=True))
    (my_pipeline.kept() / "ladder.json").write_text(json.dumps({"01": {"busy": busy, "said": "as it was said"}}))
    quick.write_text(after("02"))
    assert "on a modelled A100" in str(my_pipeline.measure("02"))
    former = my_pipeline.figures()["01"]
    assert former["said"] == "as it was said"
    assert former["busy"] != busy, "two bars that are compared come out of the same rounds"


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"01": 3}', '{"01": {"busy": {}}}'])
def test_figures_that_are_damaged_are_none(damage, desk):
    my_pipeline.kept().mkdir()
    (my_pipeline.kept() / "ladder.json").write_text(damage)
    assert "no bar yet" in str(my_pipeline.ladder("02"))


@pytest.mark.parametrize(
    ("commit", "share"),
    [
        (lambda: predictions.commit("04.gain", 1.5), 0.6),
        (lambda: predictions.commit("04.gain", 9), 1.0),
        (lambda: predictions.commit("04.busy", 0.5, unit="share"), 0.5),
        (lambda: predictions.curve("04.curve", [1, 2], at=[1, 10**6]), 0.4),
    ],
)
def test_the_next_bar_is_dotted_where_a_prediction_is_committed(commit, share, desk):
    known = {"03": {"busy": dict.fromkeys(my_pipeline.CONSUMERS, 0.4), "said": ""}}
    assert my_pipeline.foreseen("04", known) == {}
    commit()
    assert my_pipeline.foreseen("04", known)["V100"] == pytest.approx(share)
    my_pipeline.kept().mkdir()
    (my_pipeline.kept() / "ladder.json").write_text(json.dumps(known))
    drawn = my_pipeline.ladder("04")
    assert "04 parallel map, your prediction" in str(drawn)
    styles = {bar.get_linestyle() for axes in drawn.figure().axes for bar in axes.patches}
    assert styles == {"solid", ":"}
