"""The fault of a silent drill follows from what is measured on its data, and from nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import labcourse
import labkit
from labcourse import drills, grading
from labextras import checks

WORDS = json.loads((Path(drills.__file__).parent / "diagnoses.json").read_text(encoding="utf-8"))["silent"]
COUNT = len(WORDS)
seeds = pytest.mark.parametrize("seed", range(3 * COUNT))


def named(drill):
    """Return the key whose diagnosis the drill takes: for tests, by trying all."""
    (key,) = [key for key, words in WORDS.items() if drill.diagnose(words["diagnosis"]).passed]
    return key


def of_photo(images, source):
    """Return for each image the place of the photo that it is most like, mirrored or not, by medians of brightness."""
    ways = [source.images.astype(int), source.images[:, :, ::-1].astype(int)]
    found, rest = [], []
    for image in images.astype(int):
        tries = [image - way for way in ways]
        tries = [way - np.median(way, axis=(1, 2, 3), keepdims=True) for way in tries]
        away = np.stack([np.mean(np.abs(way) > 8, axis=(1, 2, 3)) for way in tries])
        way, place = np.unravel_index(away.argmin(), away.shape)
        found.append(place)
        rest.append(tries[way][place])
    return np.array(found), np.stack(rest)


def measured(drill):
    """Return what measurements say: the names of all symptoms."""
    steps = {"colours": "bgr", "resize": "aliased", "part of the photo": "letterbox", "values": "minus_one"}
    served = checks.serving(drill.learned, drill.served, drill.files)
    seen = {(steps | {"orientation": "turned"})[one.step] for one in served.differences}
    (images, labels), (again, _) = drill.epoch(0), drill.epoch(1)
    if {image.tobytes() for image in images} == {image.tobytes() for image in again}:
        seen.add("frozen")
    inside = [len(set(batch)) for batch in labels.reshape(-1, drill.batch)]
    if max(inside) == 1:
        seen.add("one_class")
    elif np.mean(inside) < 4:  # of eight drawn from ten classes, 5.7 are expected
        seen.add("sorted")
    place, rest = of_photo(images, drill.photos)
    if np.mean(drill.photos.labels[place] != labels) > 0.5:
        seen.add("shifted")
    if np.mean(np.abs(rest) > 180) > 1e-3:
        seen.add("wraps")
    known = {image.tobytes() for image in drill.photos.images}
    if any(image.tobytes() in known for image in drill.held_out.images):
        seen.add("leaked")
    return seen


@pytest.mark.long
@seeds
def test_measurements_name_the_fault_of_a_drill_and_no_other(seed):
    drill = drills.silent(seed)
    assert measured(drill) == {named(drill)}


def test_seeds_in_a_row_draw_each_fault_once():
    for block in range(3):
        keys = {named(drills.silent(seed)) for seed in range(block * COUNT, (block + 1) * COUNT)}
        assert keys == set(WORDS)


@pytest.mark.long
def test_a_drill_is_the_same_again_and_tells_nothing():
    for seed in range(COUNT):
        one, other = drills.silent(seed), drills.silent(seed)
        for a, b in zip(one.epoch(3), other.epoch(3), strict=True):
            assert np.array_equal(a, b)
        key = named(one)
        shown = repr(one) + repr({name: value for name, value in vars(one).items() if isinstance(value, str | int)})
        assert one.files == other.files
        assert repr(one).replace(one.name, "") == repr(drills.silent(seed + 1)).replace(f"silent drill {seed + 1}", "")
        assert all(text in shown for text in one.diagnoses)
        assert WORDS[key]["sign"] not in shown


@pytest.mark.parametrize("seed", range(4))
def test_an_answer_is_a_diagnosis_or_its_number_and_a_wrong_one_says_how_it_would_show(seed):
    drill = drills.silent(seed)
    right = WORDS[named(drill)]["diagnosis"]
    number = drill.diagnoses.index(right) + 1
    for given in (right, f" {right.upper()}. ", number, str(number)):
        assert drill.diagnose(given).passed, given
    for i, text in enumerate(drill.diagnoses, 1):
        if i != number:
            result = drill.diagnose(i)
            assert result.status == grading.FAILED
            assert next(words["sign"] for words in WORDS.values() if words["diagnosis"] == text) in result.hint
    for given in ("everything", 0, 99, None):
        assert not drill.diagnose(given).passed


@pytest.mark.long
def test_a_fix_has_to_read_as_training_does():
    for seed in range(COUNT):
        drill = drills.silent(seed)
        faulty = named(drill) in ("bgr", "aliased", "letterbox", "minus_one", "turned")
        result = drill.fix(drill.served)
        assert result.passed == (not faulty)
        assert drill.fix(drill.learned).passed
        if faulty:
            assert "differs from training in this step" in result.hint
    assert "your function returns" in drill.fix(lambda path: np.zeros((48, 48))).hint
    assert not drill.fix(lambda path: 1 / 0).passed


@pytest.mark.long
def test_a_trained_model_loses_where_serving_reads_other_pixels():
    """Thirty photos say little of one model; a scale that is wrong, or blue for red, is seen all the same."""
    album = labkit.photos.load(scale="tiny", progress=False)
    model = labcourse.training.train(labkit.pixels.of(album, progress=False), steps=150).model
    losses = {}
    for seed in range(COUNT):
        drill = drills.silent(seed)
        read = (np.stack([read(path) for path in drill.files]) for read in (drill.learned, drill.served))
        labels = album.labels[[album.paths.index(path) for path in drill.files]]
        learned, served = ((np.argmax(model(images, training=False), -1) == labels).sum() for images in read)
        losses[named(drill)] = learned - served
    assert all(losses[key] == 0 for key in ("sorted", "one_class", "frozen", "wraps", "shifted", "leaked"))
    assert min(losses["bgr"], losses["minus_one"]) >= 4, losses


def test_bad_numbers_are_one_sentence():
    with pytest.raises(ValueError, match="the seed of a silent drill is -1"):
        drills.silent(-1)
    with pytest.raises(ValueError, match="number is -1"):
        drills.silent(0).epoch(-1)
