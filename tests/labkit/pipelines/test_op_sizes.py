"""What operations make: by shapes, by what is allocated, and by what they work on in place."""

from __future__ import annotations

import pytest
import tensorflow as tf

from labkit.pipelines.op_sizes import made

FLOATS = 4


def photos():
    """Return photos of any size; their functions know no shape until the last."""

    def decode(name):
        return tf.cast(tf.io.decode_jpeg(tf.io.read_file(name), channels=3), tf.float32)

    def change(image):
        return tf.image.resize(tf.sin(tf.image.adjust_hue(image, 0.1), name="wave"), [8, 8])

    return tf.data.Dataset.from_tensors("a.jpg").map(decode), change


def test_a_shape_in_the_graph_says_what_an_op_makes_wherever_it_stands():
    def inside(row):
        return tf.linalg.matmul(row[None], tf.zeros([5, 7]), name="times")

    looped = tf.data.Dataset.from_tensors(tf.zeros([3, 5])).map(lambda rows: tf.map_fn(inside, rows))
    name = "map/while/body/_1/map/while/times:MatMul"
    assert made(looped, [name], {})[name].values == 7
    called = tf.data.Dataset.from_tensors(tf.zeros([5])).map(tf.function(inside))
    name = "StatefulPartitionedCall/times:MatMul"
    assert made(called, [name, "times:MatMul"], {})[name].bytes == 7 * FLOATS


def test_what_is_allocated_fills_in_what_shapes_leave_open():
    photo, _ = photos()
    sizes = made(photo, ["DecodeJpeg:DecodeJpeg", "Cast:Cast"], {"DecodeJpeg:DecodeJpeg": 3000, "Cast:Cast": 12_000})
    assert (sizes["DecodeJpeg:DecodeJpeg"].values, sizes["Cast:Cast"].values) == (3000, 3000)


@pytest.mark.parametrize("maps", [1, 2])
def test_an_op_that_allocates_nothing_works_in_place_also_on_what_the_map_before_it_made(maps):
    photo, change = photos()
    if maps == 1:
        texts = tf.data.Dataset.from_tensors("")
        photos_of_texts = texts.map(lambda text: change(tf.cast(tf.io.decode_png(text, 3), tf.float32)))
    names = ["Cast:Cast", "wave:Sin", "resize/ResizeBilinear:ResizeBilinear"]
    sizes = made(photos_of_texts if maps == 1 else photo.map(change), names, {"Cast:Cast": 12_000})
    assert sizes["wave:Sin"].values == 3000
    assert sizes["resize/ResizeBilinear:ResizeBilinear"].values == 8 * 8 * 3


@pytest.mark.parametrize("allocated", [{}, {"BatchV2": 100}])
def test_what_nobody_knows_is_left_out(allocated):
    photo, _ = photos()
    assert "Cast:Cast" not in made(photo, ["Cast:Cast"], allocated)


def test_nodes_make_what_they_allocate():
    node = "Iterator::Root::PaddedBatchV2"
    assert made(tf.data.Dataset.range(3), [node], {node: 800})[node].bytes == 800


def test_a_row_of_two_thousand_operations_is_no_hindrance():
    def long(text):
        value = tf.strings.to_number(tf.strings.split(text))
        for _ in range(2000):
            value = tf.sin(value)
        return value

    dataset = tf.data.Dataset.from_tensors("1 2").map(long)
    assert made(dataset, ["Sin_1999:Sin"], {"StringToNumber:StringToNumber": 8}) == {}
    names = ["Sin_1999:Sin", "StringToNumber:StringToNumber"]
    assert made(dataset, names, {names[1]: 8})[names[0]].values == 2
