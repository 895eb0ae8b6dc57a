"""What lists of wrong answers cannot say about the exercises of notebooks 05 to 09."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from labcourse import grading


def test_an_image_that_is_black_around_the_square_has_no_open_range():
    def inverse(image, top, left, size):
        made = np.zeros_like(image)
        made[top : top + size, left : left + size] = image[top : top + size, left : left + size]
        return made

    assert grading.check("07.3", inverse).hint.endswith("expected the 64 from [20, 11] to [27, 18]")


def test_a_wrong_class_of_a_type_that_holds_every_class_is_not_called_too_large():
    spec = {"photo": tf.io.FixedLenFeature([], tf.string), "class": tf.io.FixedLenFeature([], tf.int64)}

    def parse(record):
        found = tf.io.parse_single_example(record, spec)
        return found["photo"], abs(found["class"])

    def absolute(path):
        return tf.data.TFRecordDataset(path).map(parse)

    assert grading.check("07.2", absolute).hint.endswith("you return b'fifth' and 7")
