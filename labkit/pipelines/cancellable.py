"""The next element of a dataset in a call that another thread can end; no public name of TensorFlow does that."""

from __future__ import annotations

from typing import Any


def take(iterator: Any, manager: Any) -> Any:
    """Return the next element of a dataset's iterator, as its own ``next`` does.

    Parameters
    ----------
    iterator : iterator of a tf.data.Dataset
    manager : tensorflow.python.eager.cancellation.CancellationManager
        Its method ``start_cancel`` ends the call, which then raises tf.errors.CancelledError.
    """
    from tensorflow.python.data.util import structure
    from tensorflow.python.eager import context, execute
    from tensorflow.python.framework import errors

    types, shapes = iterator._flat_output_types, iterator._flat_output_shapes
    wanted = ("output_types", types, "output_shapes", shapes)
    try:
        found = execute.execute_with_cancellation(
            "IteratorGetNext", len(types), [iterator._iterator_resource], wanted, context.context(), manager
        )
    except errors.OutOfRangeError:
        raise StopIteration from None
    return structure.from_compatible_tensor_list(iterator.element_spec, found)
