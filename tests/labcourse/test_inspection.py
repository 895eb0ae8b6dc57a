"""Facts about a pipeline come from the dataset that TensorFlow holds, even if its Python object shows another one."""

from __future__ import annotations

import pytest
import tensorflow as tf

from labcourse.inspection import inspect_dataset, inspect_pipeline


class Decoy(tf.data.Dataset):
    """Shows the graph of one pipeline and yields what another would."""

    def __init__(self, shown):
        self._shown = shown
        super().__init__(shown._variant_tensor)

    def _inputs(self):
        return [self._shown]

    @property
    def element_spec(self):
        return self._shown.element_spec

    def take(self, count, name=None):
        return tf.data.Dataset.from_tensors(tf.constant(7, tf.int64))

    def __iter__(self):
        return iter([tf.constant(7, tf.int64)])

    def options(self):
        return tf.data.Options()


def unordered():
    options = tf.data.Options()
    options.deterministic = False
    return tf.data.Dataset.range(3).map(lambda x: x * x, num_parallel_calls=1).with_options(options)


def changed():
    made = unordered()
    made.take = lambda count: tf.data.Dataset.from_tensors(7)
    made.options = tf.data.Options
    return made


@pytest.mark.parametrize("build", [unordered, lambda: Decoy(unordered()), changed], ids=["plain", "a class", "changed"])
def test_elements_and_nodes_are_of_one_pipeline(build):
    found = inspect_dataset(build(), 10)
    assert [int(element) for element in found["elements"]] == [0, 1, 4]
    assert found["nodes"][1] == {"op": "ParallelMapDataset", "num_parallel_calls": 1, "deterministic": "false"}


def test_parts_of_elements_keep_their_places():
    made = inspect_pipeline(lambda: tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": [(1, 2), (3, 4)]}))
    assert made.elements[1]["a"] == 2
    assert made.elements[1]["b"].tolist() == [3, 4]
