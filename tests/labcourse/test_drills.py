"""Every drill has one fault and one right diagnosis; its fix removes the fault and brings no other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

import labkit
from labcourse import drills, gradebook, grading
from labcourse.drills import data, detectors, faults
from labcourse.drills.case import Case
from labkit.timeline.timeline import Timeline

KEYS = [fault.key for fault in drills.pool()]
every = pytest.mark.parametrize("key", KEYS)


@pytest.fixture(autouse=True)
def of_a_busy_machine(monkeypatch):
    """What ends a fix that never delivers must not end one on busy cores."""
    monkeypatch.setattr(data, "LONGEST_S", 120)


# The faults that the lab's notes ask for, speed first, then data.
ASKED = {
    *("no_prefetch", "early_prefetch", "cached_augment", "unfinished_cache", "shuffled_batches", "single_file"),
    *("map_fn", "gil", "gzip", "tiny_shards", "huge_buffer", "straggler"),
    *("frozen_numpy", "discarded", "noise", "overflow", "bgr"),
}


def fault_of(key):
    return next(fault for fault in drills.pool() if fault.key == key)


def drill_of(key):
    return drills.draw(drills.seed_of(key))


def quiet(fault, seed=3):
    """Return the material of a fault, on storage that answers at once."""
    return Case(**{"seed": seed, **fault.case, "latency_ms": 0})


def found(fault, pipeline):
    """Return the faults of a pipeline: all detectors look at it, whichever drill it is of."""
    case = quiet(fault)
    dataset = pipeline(case)
    seen = detectors.find(dataset, case)
    return list(dict.fromkeys([*seen, *data.find(data.read(dataset, case, fault.task, fault.share))]))


def test_the_pool_holds_at_least_sixteen_faults_and_all_that_were_asked_for():
    assert len(KEYS) >= 16
    assert set(KEYS) >= ASKED
    assert {*detectors.DETECTORS, *data.DETECTORS} == set(KEYS)


@pytest.mark.random
@pytest.mark.sample(1)
@every
def test_a_drill_has_its_own_fault_and_no_other(key):
    fault = fault_of(key)
    assert found(fault, fault.pipeline) == [key]


@pytest.mark.sample(1)
@pytest.mark.random
@every
def test_the_fix_removes_the_fault_and_brings_no_other_fault(key):
    fault = fault_of(key)
    assert found(fault, faults.build(fault.fixed_code)) == []
    result = drill_of(key).fix(faults.build(fault.fixed_code))
    assert result.passed, result


@pytest.mark.sample(1)
@pytest.mark.random
@every
def test_the_faulty_pipeline_fails_its_own_check_and_shows_its_sign_to_those_who_named_its_fault(key):
    fault, drill = fault_of(key), drill_of(key)
    result = drill.fix(fault.pipeline)
    assert result.status == grading.FAILED
    assert "it is not fixed" in result.hint
    assert fault.sign not in result.hint, "code that nobody touched would name the fault"
    drill.diagnose(next(text for text in drill.diagnoses if text != fault.diagnosis))
    assert fault.sign not in drill.fix(fault.pipeline).hint
    drill.diagnose(fault.diagnosis)
    result = drill.fix(fault.pipeline)
    assert fault.sign in result.hint
    assert fault.diagnosis not in result.hint


def test_the_exercises_show_the_sign_to_those_who_named_the_fault_in_the_exercise_before():
    numbered = {"10.2": drills.answer(16), "10.3": drills.answer(15)}
    assert grading.check("10.1", lambda seed: drills.answer(seed).diagnosis).passed
    for number, fault in numbered.items():
        hint = grading.check(number, fault.pipeline).hint
        assert "it is not fixed" in hint
        assert fault.sign in hint


def two_epochs(numbers, seed=0):
    """Return 80 photos in random order, each with one of the numbers added to all its pixels, in turn."""
    case, rng = quiet(fault_of("frozen_numpy")), numpy.random.default_rng(seed)
    base = case.truth().astype(numpy.float32) / numpy.float32(255)
    labels = numpy.concatenate([rng.permutation(case.size) for _ in range(3)])[:80]
    added = numpy.resize(numpy.repeat(numbers, -(-80 // len(numbers))), 80).astype(numpy.float32)
    images = numpy.clip(base[labels] + added[:, None, None, None], 0, 1)
    return data.Delivery(images, labels, (8,) * 10, base, "random", case.size, case.size)


@pytest.mark.long
@pytest.mark.random
@given(number=st.floats(1e-5, 0.2), sign=st.sampled_from([-1, 1]))
@example(number=1e-5, sign=1)
@settings(max_examples=30)
def test_one_number_for_all_photos_is_found_however_small_it_is(number, sign):
    assert data.find(two_epochs([sign * number])) == ["frozen_numpy"]
    assert data.find(two_epochs([0.0])) == []


@pytest.mark.sample(1)
@pytest.mark.random
@pytest.mark.parametrize("count", [10, 40])
def test_numbers_that_photos_share_are_counted_whatever_they_are(count):
    for seed in range(20):
        numbers = numpy.random.default_rng(seed).uniform(-0.2, 0.2, count)
        with pytest.raises(grading.Wrong, match="80 photos share"):
            data.judge(two_epochs(numbers, seed), keeps_order=True, ordered_anew=True)


@pytest.mark.long
def test_a_number_for_each_photo_is_right_whatever_the_numbers_are():
    for seed in range(40):
        facts = two_epochs(numpy.random.default_rng(seed).uniform(-0.2, 0.2, 80), seed)
        assert data.find(facts) == []
        data.judge(facts, keeps_order=True, ordered_anew=True)


@pytest.mark.sample(1)
@pytest.mark.parametrize("key", [k for k in KEYS if k != "blurred_epochs"])
def test_no_other_drill_repeats_before_it_shuffles(key):
    seen = detectors.nodes(fault_of(key).pipeline(quiet(fault_of(key))))
    before = [n.kind for node in seen if node.kind == "Shuffle" for n in node.upstream]
    assert "Repeat" not in before, "that diagnosis would fit as well"


@pytest.mark.sample(1)
@pytest.mark.random
@every
def test_the_fix_of_another_fault_does_not_help(key):
    """Most do not even fit the code; those that do leave the fault."""
    drill, own = drill_of(key), fault_of(key)
    tried = set()
    for other in drills.pool():
        if other.key == key or not all(broken in own.code for _, broken in other.edits):
            continue
        source = own.code
        for right, broken in other.edits:
            source = source.replace(broken, right)
        if source in tried:
            continue
        tried.add(source)
        assert not drill.fix(faults.build(source)).passed, f"the fix of {other.key} fixes {key}"


def test_every_fault_has_its_words_and_there_are_no_others():
    read = json.loads(Path(faults.__file__).with_name("diagnoses.json").read_text(encoding="utf-8"))
    words = read["faults"]
    assert set(read["tasks"]) == {fault.task for fault in drills.pool()}
    assert set(words) == {fault.key for fault in drills.pool()}
    for entry in words.values():
        assert set(entry) == {"diagnosis", "sign", "shows_in"}
        assert entry["shows_in"] in ("timeline", "data")
        assert min(map(len, (entry["diagnosis"], entry["sign"]))) > 30
    assert len({entry["diagnosis"] for entry in words.values()}) == len(words)


@every
def test_exactly_one_diagnosis_is_right_and_no_hint_gives_it_away(key):
    drill, own = drill_of(key), fault_of(key)
    results = [drill.diagnose(text) for text in drill.diagnoses]
    assert [r.passed for r in results] == [text == own.diagnosis for text in drill.diagnoses]
    assert [r.passed for r in results] == [drill.diagnose(i).passed for i in range(1, len(KEYS) + 1)]
    for result in results:
        assert own.diagnosis not in result.hint
        assert own.sign not in result.hint


@pytest.mark.sample(8)
@every
def test_the_code_that_is_shown_runs_alone_and_has_no_word_about_its_fault(key):
    fault = fault_of(key)
    assert fault.code.startswith("def pipeline(case):")
    assert "#" not in fault.code
    assert key not in fault.code.replace("tf.map_fn", "")
    case = quiet(fault)
    dataset = faults.build(fault.code)(case)
    assert isinstance(dataset, tf.data.Dataset)
    assert detectors.find(dataset, case) == detectors.find(fault.pipeline(case), case)


@pytest.mark.sample(1)
@pytest.mark.random
@pytest.mark.parametrize("key", [k for k in KEYS if fault_of(k).shows_in == "data"])
def test_a_fault_of_the_data_is_seen_in_the_numbers_of_the_probe(key):
    probe = drill_of(key).probe()
    # Means of random brightness differ from run to run; what is named here does not.
    named = {
        "cached_augment": "photo 0 against its original, first and last time",
        "frozen_numpy": "photo 0 against its original, first and last time",
        "noise": "spread of that difference within a photo",
        "discarded": "mean of the first eight rows",
        "overflow": "mean where the original is brightest",
        "bgr": "mean of red, green, blue",
        "scaled_twice": "darkest and brightest pixel",
        "strange_labels": "labels that belong to their photo",
        "remainder": "sizes of batches",
        "blurred_epochs": "photos that come in epoch 1",
        "shuffled_batches": "batches of epoch 1 that epoch 2 repeats",
    }[key]
    assert named in [what for what, comes, should in probe.rows if comes != should]
    assert fault_of(key).diagnosis not in repr(probe)
    assert "<table>" in probe._repr_html_()


def work(timeline, *words):
    """Return the own time of spans whose names hold one of the words, for each step of the window."""
    total = sum(ns for (_, name), ns in timeline.work_ns_by_name.items() if any(w in name for w in words))
    return total / timeline.steps


def together(timeline, word):
    """Return in how many lanes spans of this name lie."""
    return sum(any(word in timeline.names[i] for i in set(lane.name_id.tolist())) for lane in timeline.lanes)


#: What a timeline shows of each fault: a number that is larger for the faulty pipeline than for the healthy one.
SHOWN = {
    "no_prefetch": lambda t: -sum("Prefetch" in n for n in t.names),
    "early_prefetch": lambda t: sum("Prefetch::" in n and "Batch" in n for n in t.names) * -1,
    "one_by_one": lambda t: -together(t, "DecodeJpeg"),
    "one_thread": lambda t: -together(t, "DecodeJpeg"),
    "gil": lambda t: work(t, "PyFunc"),
    "map_fn": lambda t: sum(any(w in n for w in ("TensorList", "While", "while")) for n in t.names),
    "shuffled_images": lambda t: sum("Shuffle" in n and "Map" in n.split("Shuffle")[1] for n in t.names),
    "huge_buffer": lambda t: sum("Batch" in s.name.rpartition("::")[2] for s in t.trace) / t.steps,
    "cached_names": lambda t: work(t, "DecodeJpeg"),
    "unfinished_cache": lambda t: work(t, "DecodeJpeg"),
    "straggler": lambda t: -sum(s.category == "train" for s in t.trace) / t.span_ns,
    "single_file": lambda t: -together(t, "Sleep"),
    "files_in_turn": lambda t: -together(t, "Sleep"),
    "tiny_shards": lambda t: work(t, "Sleep"),
    "gzip": lambda t: work(t, "TFRecord"),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("key", [k for k in KEYS if fault_of(k).shows_in == "timeline"])
def test_a_fault_of_the_order_is_seen_in_the_timeline(key):
    for _ in range(3):  # both are measured, one after the other, and the machine may have turned to something else
        drill = drill_of(key)
        healthy = Timeline(drill.record(faults.build(fault_of(key).fixed_code)))
        faulty, well = SHOWN[key](drill.timeline), SHOWN[key](healthy)
        if faulty > well:
            break
    assert faulty > well


# -- how a drill is drawn --------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize("key", ["no_prefetch", "gil", "straggler", "one_by_one"])
def test_a_drill_draws_its_timeline_without_explanation(key):
    drill = drill_of(key)
    explained = Timeline(drill.trace).stalls
    assert explained.cause, "the trace itself tells the cause"
    widget = labkit.show(drill.timeline)
    pictures = (labkit.draw(drill.timeline), labkit.compare(drill.timeline, drill.timeline))
    views = {
        "text": str(drill.timeline),
        "pictures": "".join(picture.text + picture.alt + picture.svg() for picture in pictures),
        "widget": str(widget) + widget.alt + widget.block.decode("latin-1"),
        "drill": "".join(drill._repr_mimebundle_().values()).split("What is wrong")[0],
    }
    for name, text in views.items():
        assert explained.advice not in text, name
        assert "waits mostly for" not in text, name
        assert "to blame" not in text, name
        assert not re.search(r"the cause|its cause|for what|waited for", text), name
        assert not re.search(r"gaps wait for|fetch stall \d|% (fetch|prep|copying|starting|handing)", text), name
    assert len(drill.timeline.gaps) == len(Timeline(drill.trace).gaps), "the gaps themselves are all there"


@every
def test_what_a_drill_keeps_does_not_hold_its_answer(key):
    fault, kept = fault_of(key), vars(drill_of(key))
    kept = repr({name: value for name, value in kept.items() if name not in ("code", "diagnoses")})
    assert not any(secret in kept for secret in (fault.key, fault.diagnosis, fault.sign))


@pytest.mark.long
def test_what_a_drill_records_has_a_name_of_its_own_in_the_gradebook():
    drill = drill_of("one_by_one")
    trace = drill.record(fault_of("one_by_one").pipeline)
    assert (trace.run.name, drill.trace.run.name) == (f"{drill.name}, yours", drill.name)
    assert {drill.name, f"{drill.name}, yours"} <= set(gradebook.session.runs)


def test_a_fix_must_be_built_on_the_files_of_the_case_wherever_they_are_named():
    fault = fault_of("no_prefetch")
    case, other, one = quiet(fault), quiet(fault, seed=9), tf.data.Dataset.range(1)
    dataset = fault.pipeline(case)
    assert case.feeds(dataset)
    assert case.feeds(one.flat_map(lambda _: dataset))
    assert not other.feeds(dataset)
    assert not case.feeds(one.batch(2))


# -- seeds and answers ---------------------------------------------------------------------


def test_a_seed_is_always_the_same_drill_and_a_block_of_seeds_is_the_whole_pool():
    count = len(KEYS)
    for block in range(3):
        drawn = [drills.answer(seed).key for seed in range(block * count, (block + 1) * count)]
        assert sorted(drawn) == sorted(KEYS)
    assert repr(drills.draw(5)) == repr(drills.draw(5))
    assert all(drills.answer(seed := drills.seed_of(key, 40)).key == key and seed >= 40 for key in KEYS)
    assert [drills.answer(s).key for s in range(count)] != [drills.answer(s).key for s in range(count, 2 * count)]


@pytest.mark.parametrize("seed", [-1, 1.5, "7", True, None, 10**18 + 1, pytest.param(10**5000, id="5,000 digits")])
def test_a_seed_that_is_none_is_refused(seed):
    with pytest.raises(ValueError, match=r"the seed of a drill is .* allowed: a whole number from 0 to"):
        drills.draw(seed)
    with pytest.raises(ValueError, match="there is no fault 'x'; there are: bgr"):
        drills.seed_of("x")


@pytest.mark.parametrize("answer", [3.5, "x", 0, 99, True, [], object(), -1])
def test_no_diagnosis_makes_the_check_raise(answer):
    result = drills.draw(0).diagnose(answer)
    assert result.status == grading.FAILED
    assert result.hint


def test_what_was_not_tried_is_open():
    drill = drills.draw(0)
    assert drill.diagnose(None).status == grading.OPEN
    assert drill.fix(None).status == grading.OPEN
    assert drill.fix(lambda case: None).status == grading.OPEN


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("pipeline", "word"),
    [
        (3, "the function itself"),
        (lambda: 1, "TypeError"),
        (lambda case: 1 / 0, "ZeroDivisionError"),
        (lambda case: case.photos.map(lambda p, n: (numpy.clip(tf.random.uniform([2]), 0, 1), n)), "not of NumPy"),
        (lambda case: [1], "return a tf.data.Dataset"),
        (lambda case: tf.data.Dataset.range(9), "sources of case"),
        (lambda case: case.photos.batch(8).prefetch(2), "float32"),
        (lambda case: case.photos.map(lambda p, n: p).prefetch(2), "pair"),
        (lambda case: case.photos.map(lambda p, n: (tf.zeros([48, 64, 3]), n)).batch(8).prefetch(2), "goes? on|ends"),
        (lambda case: case.photos.map(lambda p, n: (tf.zeros([4, 4, 3]), n)).repeat().batch(8).prefetch(2), "shape"),
        (
            lambda case: case.photos.map(lambda p, n: (tf.zeros([48, 64, 3]), n + 90)).repeat().batch(8).prefetch(2),
            "90",
        ),
    ],
)
def test_no_pipeline_makes_the_check_raise_or_pass(pipeline, word):
    result = drill_of("no_prefetch").fix(pipeline)
    assert result.status == grading.FAILED
    assert re.search(word, result.hint), result


def test_a_drill_says_what_its_check_asks_for():
    """A student who fixes a drill with a cache by leaving the cache out has to know that this is no fix."""
    once = {key for key in KEYS if "first epoch only" in drill_of(key).task}
    assert once == {"cached_names", "unfinished_cache"}
    anew = {key for key in KEYS if "shuffled anew for each epoch" in drill_of(key).task}
    assert anew == {fault.key for fault in drills.pool() if fault.ordered_anew}


# -- fixes of one's own --------------------------------------------------------------------

READ = """    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

"""
BATCH = ".batch(case.batch, drop_remainder=True)"
NAMES = "case.photos.shuffle(case.size, seed=1).repeat()"
LOAD = ".map(load, num_parallel_calls=8)"
ONE = "lambda p, l: tf.data.Dataset.from_tensors((p, l)).map(load)"
HALF = ".take(case.size // 2)"
TABLE = "tf.constant([-.2, -.1, -.05, .02, .06, .1, .15, .2])"
SHADE = "lambda i, l: (tf.clip_by_value(i + tf.random.uniform({}, -0.2, 0.2), 0, 1), l)"


def of(photos, end=".prefetch(2)", threads=16):
    """Return the source of a pipeline of photos."""
    return f"def pipeline(case):\n{READ}    photos = {photos}\n    batches = photos{BATCH}{end}\n    " + (
        f"return batches.with_options(case.options(threads={threads}))\n"
    )


def edited(key, *edits):
    """Return the source of a drill with edits of one's own."""
    source = fault_of(key).code
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    return source


RIGHT = {
    "shuffle behind the cache, then shade": (
        "cached_augment",
        of(f"case.photos{LOAD}.cache().shuffle(32).repeat()", f".map({SHADE.format('[8, 1, 1, 1]')}).prefetch(2)"),
    ),
    "photos ready and batches ready": ("no_prefetch", of(f"{NAMES}.map(load, 2).prefetch(8)")),
    "a long take behind repeat": (
        "unfinished_cache",
        of(f"case.photos{HALF}{LOAD}.cache().repeat()", ".take(1000).prefetch(2)"),
    ),
    "an interleave that reads": (
        "one_by_one",
        of(f"case.photos.shuffle(case.size).interleave({ONE}, cycle_length=8, num_parallel_calls=8).repeat()"),
    ),
    "a loose interleave that reads": (
        "straggler",
        of(f"{NAMES}.interleave({ONE}, cycle_length=8, num_parallel_calls=8, deterministic=False)"),
    ),
    "what is left comes first in the next epoch": ("remainder", of(f"{NAMES}{LOAD}")),
    "map and batch in one": (
        "one_by_one",
        of(f"{NAMES}.apply(tf.data.experimental.map_and_batch(load, 8, num_parallel_calls=8, drop_remainder=True))")
        .replace(f"photos{BATCH}", "photos"),
    ),
    "as many threads as calls": (
        "one_thread", edited("one_thread", ("threads=1)", "threads=3)"), ("calls=8", "calls=3"))),
    "a snapshot on disk": (
        "cached_names", of(f"case.photos{LOAD}.snapshot(str(case._folder / 'kept')).repeat()")),
    "the half by a filter, and a take of more": (
        "unfinished_cache", of(f"case.photos{LOAD}.cache().filter(lambda i, l: l < 16).take(100).repeat()")),
    "the half beside numbers of its length": (
        "unfinished_cache",
        of(f"tf.data.Dataset.zip((case.photos{HALF}{LOAD}.cache(), tf.data.Dataset.range(16)))"
           ".map(lambda x, n: x).repeat()"),
    ),
    "a shuffle of a batch": ("blurred_epochs", of(f"case.photos.shuffle(case.batch).repeat(){LOAD}")),
    "brightness of bytes": (
        "noise",
        edited("noise", ("image = tf.image.convert_image_dtype(image, tf.float32)\n",
        "image = tf.image.random_brightness(image, 0.2)\n"), ("tf.random.uniform(tf.shape(image), -0.2, 0.2)", "0"),
        ("return tf.clip_by_value(image + shift, 0, 1)", "return tf.image.convert_image_dtype(image, tf.float32)")),
    ),
    "many calls": ("one_by_one", of(f"{NAMES}.map(load, num_parallel_calls=100)")),
    "divided in float": ("scaled_twice", edited("scaled_twice", (
        "tf.image.convert_image_dtype(image, tf.float32) / 255", "tf.cast(image, tf.float32) / 255"))),
    "files of pixels": ("tiny_shards", edited("tiny_shards", ("case.crumbs", "case.flat"), (
        "tf.io.decode_jpeg(data, channels=3)", "tf.reshape(tf.io.decode_raw(data, tf.float32), [48, 64, 3])"))),
    "the least before the sum": ("overflow", edited("overflow", ("tf.clip_by_value(image + 60, 0, 255)",
        "tf.minimum(image, 195) + 60"))),
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.random
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_fix_passes_in_other_words(name):
    key, source = RIGHT[name]
    assert drill_of(key).fix(faults.build(source)).hint == ""


RECORDS = "reads files of records"
NOT, ANOTHER, SAME, PAST = "it is not fixed", "now there is another", "same order", "past the storage"
INTER = "interleave(case.records, cycle_length=8, num_parallel_calls=8)"
WRONG = {
    "half of them twice": ("no_prefetch", of(f"case.photos.take(16).shuffle(16).repeat(){LOAD}"), "comes 2 times"),
    "prefetch of nothing": ("no_prefetch", of(f"{NAMES}.map(load, 2)", ".prefetch(0)"), NOT),
    "scan": ("one_by_one", of(f"{NAMES}.scan(tf.constant(0), lambda s, x: (s, load(*x)))"), NOT),
    "interleave on one thread": (
        "one_thread", of(f"{NAMES}.interleave({ONE}, cycle_length=8, num_parallel_calls=8)", threads=1), NOT),
    "Python in an interleave": (
        "gil",
        edited("gil", (LOAD, ".interleave(lambda p, l: tf.data.Dataset.from_tensors(load(p, l)), cycle_length=8, "
        "num_parallel_calls=8)")),
        NOT,
    ),
    "unrolled": (
        "map_fn",
        edited("map_fn", ("tf.map_fn(shade, images, fn_output_signature=tf.float32)",
        "tf.stack([shade(images[i]) for i in range(case.batch)])")),
        NOT,
    ),
    "many buffers": ("huge_buffer", of(f"{NAMES}{LOAD}", ".prefetch(16)" * 12), NOT),
    "buffers of calls": (
        "huge_buffer", of(f"{NAMES}{LOAD}", ".map(lambda i, l: (i, l), num_parallel_calls=200).prefetch(2)"), NOT),
    "buffers of an interleave": (
        "huge_buffer", of(f"{NAMES}.interleave({ONE}, cycle_length=1600, num_parallel_calls=8)"), NOT),
    "endless cache of images": ("cached_names", of(f"case.photos.repeat(){LOAD}.cache()"), ANOTHER),
    "no cache": ("cached_names", edited("cached_names", (".cache()", "")), "no cache keeps"),
    "take_while": ("unfinished_cache", edited("unfinished_cache", (HALF, ".take_while(lambda i, l: l < 16)")), NOT),
    "take behind a repeat that is repeated": (
        "unfinished_cache", of(f"case.photos{LOAD}.cache().repeat(){HALF}.repeat()"), NOT),
    "the half by what is beside it": (
        "unfinished_cache",
        of(f"tf.data.Dataset.zip((tf.data.Dataset.range(16), case.photos{LOAD}.cache())).map(lambda n, x: x).repeat()"),
        NOT,
    ),
    "endless cache": ("unfinished_cache", of(f"case.photos{HALF}{LOAD}.repeat().cache()"), NOT),
    "all instead of half": ("unfinished_cache", of(f"case.photos{LOAD}.cache().repeat()"), "0 to 31"),
    "options that the map overrules": (
        "straggler",
        of(f"{NAMES}.map(load, num_parallel_calls=8, deterministic=True)").replace(
            "return batches", "o = tf.data.Options(); o.deterministic = False; return batches.with_options(o)"),
        NOT,
    ),
    "loose and not shuffled": (
        "straggler", of("case.photos.repeat().map(load, num_parallel_calls=8, deterministic=False)"), "shuffles"),
    "archive past the storage": (
        "single_file", edited("single_file", (f"case.archive.{INTER}", "tf.data.TFRecordDataset(case.archive)")), PAST),
    "one call": ("files_in_turn", edited("files_in_turn", ("=1)", "=8, num_parallel_calls=1)")), NOT),
    "photos instead of an archive": ("single_file", of(f"case.photos.repeat(){LOAD}"), RECORDS),
    "batches in one order": ("shuffled_batches", edited("shuffled_batches", (".shuffle(4, seed=1)", "")), "shuffles"),
    "a shuffle of one": ("shuffled_batches", of(f"case.photos.shuffle(1).repeat(){LOAD}"), SAME),
    "a shuffle of two": ("shuffled_batches", of(f"case.photos.shuffle(2).repeat(){LOAD}"), "a buffer of 2; allowed: 8"),
    "random numbers of two epochs": (
        "cached_augment",
        of(f"case.photos{LOAD}.repeat(2).map({SHADE.format([])}, num_parallel_calls=8).cache().repeat()"), NOT),
    "eight frozen numbers": (
        "frozen_numpy",
        of(f"{NAMES}{LOAD}.enumerate().map(lambda i, x: (tf.clip_by_value(x[0] + {TABLE}[i % 8], 0, 1), x[1]))"),
        "share 8 numbers",
    ),
    "a number for a batch": ("noise", of(f"{NAMES}{LOAD}", f".map({SHADE.format([])}).prefetch(2)"), "80 photos share"),
    "brightness of half the width": (
        "cached_augment",
        edited("cached_augment", (".map(shade, num_parallel_calls=8).cache()", ".cache().map(shade, 8)"),
        ("-0.2, 0.2", "-0.15, 0.15")),
        "varies by",
    ),
    "a number for two photos": (
        "noise",
        of(f"{NAMES}{LOAD}").replace(BATCH, f".batch(2).map({SHADE.format([])}).unbatch(){BATCH}"),
        "80 photos share",
    ),
    "batches of 6": ("remainder", edited("remainder", ("case.batch)", "6)")), "6 photos; expected 8"),
    "always the same left out": (
        "remainder", of(f"case.photos.take(32).shuffle(32).repeat(){LOAD}"), "the same 4 of 36"),
    "some twice": (
        "remainder",
        edited("remainder", ("photos.batch(case.batch)", "photos.concatenate(photos.take(4)).batch(case.batch)")),
        "come again",
    ),
    "two epochs only": ("scaled_twice", of(f"{NAMES}{LOAD}").replace("repeat()", "repeat(2)"), "ends after 64"),
    "divided by 256": (
        "scaled_twice", edited("scaled_twice", (
        "tf.image.convert_image_dtype(image, tf.float32) / 255", "tf.cast(image, tf.float32) / 256.")), "pixels of"),
    "seven bits": (
        "gil", edited("gil", ("tf.py_function(scale, [image], tf.float32)",
        "tf.cast(image // 2 * 2, tf.float32) / 255.")), "pixels of"),
    "by its own maximum": (
        "scaled_twice",
        of(f"{NAMES}{LOAD}.map(lambda i, l: (i / tf.reduce_max(i), l), num_parallel_calls=2)"), "pixels"),
    "sick, and a pile": ("bgr", edited("bgr", ("prefetch(2)", "prefetch(100)")), NOT),
    "brighter by 50": (
        "overflow", edited("overflow", ("clip_by_value(image + 60, 0, 255)", "minimum(image, 195) + 50")), "pixels"),
    "out of sight": (
        "no_prefetch",
        of(f"{NAMES}.map(load, 2)").replace("    return batches", "    hidden = batches\n    batches = case.photos"
        ".repeat().flat_map(lambda p, l: hidden).prefetch(2)\n    return batches"),
        "cannot be examined",
    ),
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.random
@pytest.mark.parametrize("name", WRONG)
def test_a_fix_that_leaves_its_fault_or_brings_another_fails_with_a_true_word(name):
    key, source, word = WRONG[name]
    result = drill_of(key).fix(faults.build(source))
    assert result.status == grading.FAILED
    assert word in result.hint, result


@pytest.mark.long
def test_the_code_of_another_drill_as_it_is_does_not_tell_the_sign_of_its_fault():
    mine, other = drill_of("one_by_one"), fault_of("bgr")
    mine.diagnose(fault_of("one_by_one").diagnosis)
    for pipeline in (other.pipeline, faults.build(other.code)):
        hint = mine.fix(pipeline).hint
        assert "now there is another" in hint
        assert other.sign not in hint
    assert other.sign in mine.fix(faults.build(other.code.replace("prefetch(2)", "prefetch(3)"))).hint
    # The straggler's code is a healthy pipeline of all photos that are near.
    assert mine.fix(fault_of("straggler").pipeline).passed


@pytest.mark.long
def test_a_fix_that_never_delivers_is_stopped(monkeypatch):
    monkeypatch.setattr(data, "LONGEST_S", 0.5, raising=False)

    def endless(case):
        nothing = case.photos.repeat().filter(lambda path, label: False)
        images = nothing.map(lambda path, label: (tf.zeros([48, 64, 3]), label), num_parallel_calls=4)
        return images.batch(8).prefetch(2)

    result = drill_of("bgr").fix(endless)
    assert result.status == grading.FAILED
    assert "no element comes out of your dataset within 0.5 s" in result.hint


@pytest.mark.long
def test_a_drill_reads_the_same_every_time_and_shows_code_timeline_and_list():
    drill = drill_of("one_by_one")
    assert drill.code in repr(drill)
    assert all(text in repr(drill) for text in drill.diagnoses)
    bundle = drill._repr_mimebundle_()
    assert repr(drill) in bundle["text/plain"]
    assert "Timeline" in bundle["text/plain"]
    assert re.search(r'alt="[^"]{40,}"', bundle["text/html"])
    assert "<pre>def pipeline(case):" in bundle["text/html"]
