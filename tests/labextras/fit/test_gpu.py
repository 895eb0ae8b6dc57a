"""What a recording of a real GPU holds; `make gpu` runs it."""

from __future__ import annotations

import pytest

import labextras.fit
import labkit

pytestmark = pytest.mark.gpu

BATCH, SIDE, STEPS = 64, 96, 6


@pytest.fixture(scope="module")
def trace():
    """A watched training on pixels that change with each batch, so that each of them crosses the link."""
    import keras
    import tensorflow as tf

    assert tf.config.list_physical_devices("GPU"), "TensorFlow finds no GPU here"
    layers = [keras.layers.Input((SIDE, SIDE, 3)), keras.layers.Conv2D(64, 3), keras.layers.GlobalAveragePooling2D()]
    model = keras.Sequential([*layers, keras.layers.Dense(10)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    def load(number):
        return tf.random.stateless_uniform((BATCH, SIDE, SIDE, 3), [number, 1]), tf.range(BATCH) % 10

    watch = labextras.fit.Watch(steps=STEPS, warmup=4)
    model.fit(tf.data.Dataset.range(20).map(load).prefetch(2), verbose=0, callbacks=[watch])
    return watch.trace


def test_kernels_are_the_accelerator(trace):
    kernels = trace.where(trace.select("kernel", kind="device"))
    accelerator = labkit.Timeline(trace).accelerator
    assert len(kernels) >= STEPS
    assert 0 < accelerator.busy.total_ns <= kernels.duration_ns.sum()


def test_the_pixels_of_each_step_cross_the_link(trace):
    copied = trace.run.profiler.copied_bytes
    assert copied["MemcpyH2D"] >= STEPS * BATCH * SIDE * SIDE * 3 * 4
    assert "MemcpyH2D moves" in str(labextras.fit.operations(trace, most=1000))


def test_no_kernel_is_at_work_before_the_window_or_behind_it(trace):
    """The device is waited for at both ends; the clocks of host and device agree within a millisecond."""
    kernels = trace.where(trace.select("kernel", kind="device"))
    start, end = trace.run.window_ns
    assert kernels.start_ns.min() >= start - 1_000_000
    assert (kernels.start_ns + kernels.duration_ns).max() <= end + 1_000_000
