"""The recipe: what it learns, that it repeats, and the parts it is made of."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from labcourse import training
from labkit import pixels
from labkit.sources.pixels import SmallPhotos


@pytest.fixture(scope="module")
def tf():
    import tensorflow as tf

    return tf


def painted(count=64, size=16):
    """Two classes that a glance tells apart: bright above, and bright below."""
    images = np.random.default_rng(1).integers(0, 60, (count, size, size, 3), np.uint8)
    labels = np.arange(count) % 2
    for image, label in zip(images, labels, strict=True):
        image[: size // 2] += np.uint8(150 * (1 - label))
        image[size // 2 :] += np.uint8(150 * label)
    return SmallPhotos(images, labels, ("above", "below"))


def small(classes=2):
    return training.resnet(16, (1, 1), 4, classes=classes)


@pytest.mark.long
def test_the_network_of_the_recipe_has_the_stated_size():
    assert training.resnet().count_params() == 78_714
    assert training.resnet().name == "resnet8"
    plain, residual = (training.resnet(16, (5, 5, 5), 8, stride=1, residual=r) for r in (False, True))
    assert (plain.name, residual.name) == ("plain32", "resnet32")
    kinds = [type(layer).__name__ for layer in plain.layers]
    assert "Add" not in kinds
    assert kinds.count("Conv2D") == 31


@pytest.mark.long
def test_a_seed_repeats_a_training_to_the_last_digit_and_another_does_not():
    runs = [training.train(painted(), model=small, seed=seed, steps=12, batch=16) for seed in (3, 3, 4)]
    assert runs[0].losses == runs[1].losses
    assert runs[0].losses != runs[2].losses
    assert len(runs[0].losses) == 3, "an epoch of 64 photos has four steps"
    assert runs[0].cpu_s > 0


@pytest.mark.long
def test_a_training_leaves_no_seed_behind_under_which_every_epoch_would_augment_alike():
    import tensorflow as tf

    training.train(painted(), model=small, seed=3, steps=2, batch=16)
    noise = tf.data.Dataset.range(3).map(lambda _: tf.random.uniform([4]))
    one, two = (np.stack(list(noise.as_numpy_iterator())) for _ in range(2))
    assert not np.array_equal(one, two)


@pytest.mark.long
def test_it_learns_what_can_be_seen_and_says_how_sure_that_is():
    shown, hidden = painted(), painted(200)
    trained = training.train(shown, model=small, steps=60, batch=16, check=hidden)
    score = training.score(trained.model, hidden)
    assert score.share > 0.95
    assert len(trained.checked) == 15
    low, high = score.interval
    assert low < score.share <= high <= 1
    assert f"of {len(hidden)} photos" in str(score)
    upside_down = training.score(trained.model, hidden, lambda x: training.normalised(x[:, ::-1] / np.float32(255)))
    assert upside_down.share < 0.05, "another reading of the same photos"


@pytest.mark.long
def test_statistics_of_a_batch_take_away_what_all_its_photos_share():
    noise, labels = np.random.default_rng(1).integers(0, 60, (64, 16, 16, 3)), np.arange(64) // 32
    shown = SmallPhotos((noise + 150 * labels[:, None, None, None]).astype(np.uint8), labels, ("dark", "bright"))
    trained = training.train(shown, model=small, steps=60, batch=16)
    before = trained.model.get_weights()
    right = training.score(trained.model, shown, batch=32)
    alone = training.score(trained.model, shown, batch=32, batch_statistics=True)
    assert right.share > 0.95
    assert alone.share < 0.75, "in a batch of one class nothing is left that tells the classes apart"
    assert all((one == other).all() for one, other in zip(before, trained.model.get_weights(), strict=True))


def test_two_scores_are_compared_photo_by_photo():
    better, worse = np.ones(2_000, bool), np.ones(2_000, bool)
    better[:100] = worse[:160] = False  # three points, all on the same photos
    assert training.Score(better).percent[1] == 95
    assert training.Score(worse).against(training.Score(better)) == "-3.0 points (-3.7 to -2.3)"
    chance = better.copy()
    chance[[0, 1, 2, 500, 501]] ^= True
    assert training.Score(better).against(training.Score(better)) == "the same answer for every photo"
    assert "cannot be told from chance" in training.Score(chance).against(training.Score(better))
    with pytest.raises(ValueError, match="of 10 photos; allowed: the same 2,000"):
        training.Score(better).against(training.Score(better[:10]))


@pytest.mark.random
@pytest.mark.long
def test_a_trial_run_of_all_notebooks_learns_little_and_looks_at_few(monkeypatch):
    monkeypatch.setenv("LABKIT_FAST", "1")
    assert training.train(painted(), model=small, steps=60, batch=16).steps == training.FAST_STEPS
    assert len(pixels.held_out(41, size=16, progress=False)) == 5


def test_augmentation_mirrors_and_shifts_each_photo_in_its_own_way(tf):
    ramp = np.arange(16, dtype=np.uint8)
    photo = np.stack(np.broadcast_arrays(ramp[:, None], 100 + ramp[None, :], np.uint8(7)), -1)
    found = training.augmented(tf.constant(np.repeat(photo[None], 200, 0)), 3).numpy()
    assert found.dtype == np.uint8
    wide = np.pad(photo, [(3, 3), (3, 3), (0, 0)], "reflect")
    crops = [wide[y : y + 16, x : x + 16] for y, x in itertools.product(range(7), range(7))]
    allowed = {one.tobytes() for crop in crops for one in (crop, np.ascontiguousarray(crop[:, ::-1]))}
    assert {one.tobytes() for one in found} <= allowed
    assert len({one.tobytes() for one in found}) > 50
    again = training.augmented(tf.constant(np.repeat(photo[None], 200, 0)), 0).numpy()
    assert {one.tobytes() for one in again} == {photo.tobytes(), np.ascontiguousarray(photo[:, ::-1]).tobytes()}


@pytest.mark.sample(1)
@pytest.mark.random
@pytest.mark.parametrize("frozen", [False, True])
def test_frozen_photos_are_the_same_in_each_epoch(tf, frozen):
    shown = painted(32)
    dataset = training.batches(shown, 32, buffer=0, frozen=frozen)
    first, second = (images.numpy() for images, _ in dataset.take(2))
    assert (first == second).all() == frozen
    assert first.dtype == np.float32
    plain = next(iter(training.batches(shown, 32, buffer=0, augment=None)))[0].numpy()
    assert plain == pytest.approx(training.normalised(shown.images.astype(np.float32) / 255), abs=1e-5)
    assert (first != plain).any()


@pytest.mark.long
def test_the_line_through_the_times_of_a_step():
    found = training.StepTimes((1, 10, 100), (3.0, 12.0, 102.0), 2.0, 1.0)
    assert found.line == (3.0, 12.0, 102.0)
    assert found.error == 0
    assert "2.0 ms + 1.00 ms for each image" in str(found)
    model = training.train(painted(), model=small, steps=1, batch=16).model
    measured = training.step_times(model, painted(), (4, 64), repeats=2)
    assert measured.error < 1e-6, "two points make a line"
    with pytest.raises(ValueError, match="two sizes or more"):
        training.step_times(model, painted(), (4,))


def test_where_nobody_looks_no_step_compiles_before_the_one_that_is_timed(monkeypatch):
    class Counts:
        trained = ()

        def train_on_batch(self, images, labels):
            self.trained += (len(images),)

    model = Counts()
    monkeypatch.setenv("LABKIT_FAST", "1")
    monkeypatch.setattr(time, "process_time", itertools.count().__next__)
    assert training.step_times(model, painted(), (4, 64), repeats=3).ms == (1e3, 1e3)
    assert model.trained == (4, 64)


def test_a_step_is_timed_by_the_clock_where_a_gpu_trains(monkeypatch):
    """What waits for a device takes no time of the processor."""
    import tensorflow as tf

    class Waits:
        def train_on_batch(self, images, labels):
            time.sleep(0.001 * len(images))

    here = training.step_times(Waits(), painted(), (1, 20), repeats=1)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: ["a GPU"])
    there = training.step_times(Waits(), painted(), (1, 20), repeats=1)
    assert there.ms[1] >= 20 > here.ms[1]
    assert (here.unit, there.unit) == ("CPU ms", "ms")
    assert f"{here.unit} a step" in str(here)


@pytest.mark.parametrize(("wrong", "names"), [({"steps": 0}, "steps is 0"), ({"rate": "fast"}, "rate is 'fast'")])
def test_wrong_arguments_are_named(wrong, names):
    with pytest.raises((ValueError, TypeError), match=names):
        training.train(painted(), model=small, **wrong)
