"""Accelerators: a modelled step lasts what it says and burns no CPU; a real one really trains."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from luck import luckiest

from labkit.recording import accelerators, recorder
from labkit.timeline.wording import duration


def batch_of(n, side=4):
    return np.zeros((n, side, side, 3), np.float32), np.arange(n) % 10


@pytest.mark.parametrize(
    ("preset", "images", "seconds", "images_per_s"),
    [
        ("V100", 64, 0.195, 328.2), ("A100", 400, 0.435, 919.5), ("H100", 400, 0.224, 1785.7),
        ("v100 MIXED", 256, 256 / 1170, 1170.0), ("dlrm v100", 32_768, 32.768 / 875, 875e3),
        ("DLRM A100", 8192, 0.007, 8192 / 0.007), ("DLRM H100", 8192, 0.005, 8192 / 0.005),
        ("BERT V100", 5120, 10 / 40.95, 40.95 * 512), ("BERT A100", 20_480, 40 / 96.52, 96.52 * 512),
    ],
)  # fmt: skip
def test_presets_give_the_published_step_at_the_published_batch_size(preset, images, seconds, images_per_s):
    model = accelerators.modelled(preset)
    assert model.step_ns(images) == round(seconds * 1e9)
    assert model.images_per_s(images) == pytest.approx(images_per_s, rel=1e-4)
    assert accelerators.PRESETS[model.name].per_s == pytest.approx(model.images_per_s(images))


@given(st.sampled_from(sorted(accelerators.PRESETS)), st.integers(1, 4096), st.integers(1, 4096))
def test_a_preset_has_one_fixed_part_and_every_image_costs_the_same(preset, a, b):
    model = accelerators.modelled(preset)
    fixed_ns = accelerators.PRESETS[model.name].fixed_ms * 1e6
    assert abs(model.step_ns(a) + model.step_ns(b) - model.step_ns(a + b) - fixed_ns) <= 2
    assert a * model.step_ns(a + b) <= (a + b) * (model.step_ns(a) + 1), "a larger batch is never slower per image"


def test_the_step_of_the_v100_has_the_shape_of_its_published_table():
    """At 64 images the two sources differ by 5 %; at no size does the shape differ by as much again."""
    model, table = accelerators.modelled("V100"), accelerators.V100_BY_BATCH
    ratios = {size: model.images_per_s(size) / rate for size, rate in table.items()}
    assert len(table) == 8
    assert ratios[64] == pytest.approx(328.2 / 343.19, abs=1e-3)
    assert all(abs(ratio / ratios[64] - 1) < 0.1 for ratio in ratios.values()), ratios
    in_proportion = accelerators.modelled(images_per_s=328.2)
    assert in_proportion.images_per_s(1) / table[1] > 9, "without a fixed part, one image would be nine times too fast"


def test_a_preset_says_its_precision_and_what_is_assumed():
    texts = {name: accelerators.modelled(name).describe() for name in accelerators.PRESETS}
    assert "precision not stated; 25 ms + 2.66 ms per image" in texts["V100"]
    assert "mixed precision" in texts["V100 mixed"]
    for name, preset in accelerators.PRESETS.items():
        assert ("assumed at any batch size" in texts[name]) == (preset.fixed_ms == 0)


def test_a_modelled_step_lasts_at_least_its_time_and_leaves_the_cpu_free():
    model = accelerators.modelled(step_ms=40)
    batch = batch_of(8)

    def share_of_cpu():
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        for _ in range(10):
            model.step(batch)
        wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
        assert wall >= 10 * model.step_ns(8)
        return cpu / wall

    assert luckiest(share_of_cpu, 0.05) < 0.05


def test_the_step_follows_the_batch_size_of_any_structure():
    import tensorflow as tf

    model = accelerators.modelled(images_per_s=1000)
    images, labels = batch_of(5)
    ragged = tf.ragged.constant([[1], [2, 3], [], [4], [5]])
    for batch in (tf.constant(images), {"a": {"b": (images,)}, "c": labels}, (ragged, labels), (None, images)):
        start = time.perf_counter_ns()
        model.step(batch)
        assert time.perf_counter_ns() - start >= model.step_ns(5)


@pytest.mark.parametrize(
    ("model", "batch", "noun", "size"),
    [
        ({"preset": "BERT A100"}, np.zeros((8, 512), np.int32), "sequence", 4096),
        ({"tokens_per_s": 5e5}, {"ids": np.zeros((8, 20), np.int64), "label": np.zeros(8)}, "sequence", 160),
        ({"preset": "DLRM H100"}, (np.zeros((8, 13)), np.zeros(8)), "row", 8),
        ({"rows_per_s": 5e5}, {"age": np.zeros(8)}, "row", 8),
        ({"images_per_s": 5e5}, {"age": np.zeros(8)}, "row", 8),
        ({"preset": "V100"}, batch_of(8), "image", 8),
        ({"step_ms": 1}, {"age": np.zeros(8)}, "row", 8),
    ],
)
def test_a_step_follows_what_it_is_stated_for(model, batch, noun, size):
    one = accelerators.modelled(**model)
    assert one.size(batch) == one.size(batch, 8) == size
    assert one.misfit(batch, noun, 8) is None


@pytest.mark.parametrize(
    ("model", "batch", "noun", "lacks"),
    [
        ({"preset": "V100"}, np.zeros((256, 13)), "row", "image"),
        ({"preset": "DLRM A100"}, batch_of(256), "image", "row"),
        ({"preset": "BERT V100"}, np.array(["a text"] * 256), "text", "token"),
        ({"rows_per_s": 9}, np.zeros((256, 64, 4)), "window", "row"),
    ],
)
def test_a_step_that_is_stated_for_something_else_says_so_with_its_length(model, batch, noun, lacks):
    one = accelerators.modelled(**model)
    said = one.misfit(batch, noun, 256)
    assert f"a batch of 256 {noun}s shows no {lacks}: its step of " in said
    assert duration(one.step_ns(256)) in said
    assert all(repr(name) in said for name in ("A100", "DLRM A100", "BERT A100"))


def test_a_plan_for_images_takes_presets_for_images_only():
    assert accelerators.published("h100", "image")[0] == "H100"
    with pytest.raises(ValueError, match=r"preset is 'BERT A100'; allowed: V100, A100, H100, V100 mixed$"):
        accelerators.published("BERT A100", "image")


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, -math.inf, True, "60", None, [60], np.bool_(True), 1e12])
@pytest.mark.parametrize("argument", ["step_ms", "images_per_s", "rows_per_s", "tokens_per_s"])
def test_a_step_time_that_makes_no_sense_is_refused(argument, value):
    with pytest.raises(ValueError, match=r"exactly one|allowed") as caught:
        accelerators.modelled(**{argument: value})
    assert argument in str(caught.value)


@pytest.mark.parametrize(
    ("facts", "batch_size", "sentence"),
    [
        ({"preset": "K80"}, 1, "'K80'.*V100, A100, H100"),
        ({"preset": 60}, 1, "60.*V100, A100, H100"),
        ({}, 1, "exactly one of preset, step_ms, images_per_s, rows_per_s, tokens_per_s; got none"),
        ({"preset": "V100", "step_ms": 3}, 1, "exactly one of preset, step_ms, images.* got preset and step_ms"),
        ({"preset": "V100"}, 0, "batch_size is 0"),
        ({"preset": "V100"}, 2.5, "batch_size is 2.5"),
    ],
)
def test_what_is_no_time_of_a_step_is_named_with_what_is_allowed(facts, batch_size, sentence):
    with pytest.raises(ValueError, match=sentence):
        accelerators.modelled(**facts).step_ns(batch_size)


def test_a_description_is_one_line_with_kind_and_source():
    for model in (accelerators.modelled("V100"), accelerators.modelled(images_per_s=900, name="mine")):
        line = model.describe()
        assert line.startswith(f"modelled {model.name}")
        assert model.source in line
        assert "\n" not in line


@pytest.mark.long
def test_a_real_step_changes_the_weights_and_traces_once_per_shape():
    real = accelerators.real(classes=10)
    real.prepare(batch_of(8, side=32))
    traces = real.model.train_function
    before = [v.numpy().copy() for v in real.model.trainable_variables]
    real.step(batch_of(8, side=32))
    real.step(batch_of(8, side=32))
    assert real.model.train_function is traces
    assert real.model.optimizer.iterations.numpy() == 3
    assert any(not np.array_equal(a, b.numpy()) for a, b in zip(before, real.model.trainable_variables, strict=True))
    real.step(batch_of(3, side=32))
    assert real.model.optimizer.iterations.numpy() == 5
    assert "real small_network" in real.describe()
    assert " at 0x" not in repr(real)


@pytest.mark.long
def test_a_real_step_takes_the_usual_forms_of_a_batch():
    import tensorflow as tf

    real = accelerators.real(classes=10)
    images, labels = batch_of(4, side=32)
    for batch in (
        (images, labels),
        {"image": images, "label": labels},
        (tf.constant(images), tf.constant(labels)),
        ((images * 255).astype(np.uint8), labels),
        (images[..., :1].repeat(3, axis=-1), labels.astype(np.uint8)),
    ):
        real.step(batch)
        assert all(np.isfinite(v.numpy()).all() for v in real.model.variables)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (np.zeros((4, 32, 32, 3), np.float32), "inputs, labels"),
        ({"x": np.zeros(3)}, "'image' and 'label', got x"),
        ((np.zeros((4, 32, 32)), np.zeros(4, int)), "images have shape"),
        (({"age": np.zeros(4)}, np.zeros(4, int)), r"images have shape \(\); .* a model of your own"),
        ((np.zeros((4, 32, 32, 3)), np.zeros(4)), "one integer per image"),
        ((np.zeros((4, 32, 32, 3)), np.full(4, 10)), r"allowed: 0\.\.9"),
        ((np.zeros((4, 32, 32, 3)), np.full(4, -1)), r"allowed: 0\.\.9"),
    ],
)
def test_a_batch_that_cannot_be_trained_on_is_one_sentence(batch, words):
    with pytest.raises(ValueError, match=words):
        accelerators.real(classes=10).step(batch)


def test_a_model_of_the_readers_own_is_used_as_it_is():
    import keras

    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)], name="mine")
    with pytest.raises(ValueError, match="'mine' is not compiled"):
        accelerators.real(model)
    model.compile(optimizer="sgd", loss="mse")
    real = accelerators.real(model)
    real.step((np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)))
    assert real.name == "mine"
    columns = {"age": keras.Input((1,), name="age"), "hours": keras.Input((1,), name="hours")}
    table = keras.Model(columns, keras.layers.Dense(1)(keras.layers.Concatenate()(list(columns.values()))))
    table.compile(optimizer="sgd", loss="mse")
    accelerators.real(table).step((dict.fromkeys(columns, np.ones((4, 1), np.float32)), np.ones((4, 1), np.float32)))
    with pytest.raises(ValueError, match="'mine' cannot train on this batch"):
        real.step((np.ones((4, 5), np.float32), np.ones((4, 1), np.float32)))


@pytest.mark.parametrize("wrong", ["resnet", 3, object])
def test_something_that_is_no_model_is_refused(wrong):
    with pytest.raises(ValueError, match="a compiled keras"):
        accelerators.real(wrong)


def test_a_step_of_the_readers_own_is_a_function_of_a_batch():
    import tensorflow as tf

    seen = []

    def train(batch):
        seen.append(batch)
        return np.float32(1)

    own = accelerators.real(train)
    assert (own.kind, own.name) == ("real", "train")
    dataset = tf.data.Dataset.range(64).batch(4)
    trace = recorder.record(dataset, own, steps=4, warmup=2, progress=False)
    assert len(seen) == 6, "a step for each batch, and no other"
    assert (trace.run.accelerator.kind, trace.run.accelerator.name) == ("real", "train")

    class Net:
        forward = parameters = __call__ = train

    with pytest.raises(ValueError, match="a function that trains it on a batch"):
        accelerators.real(Net())
