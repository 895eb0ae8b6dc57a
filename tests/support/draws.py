"""Whether code draws random numbers, so that only what does is run again under other seeds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np


def _states() -> tuple[object, ...]:
    kind, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002 (what students' code draws from)
    return random.getstate(), kind, keys.tobytes(), position, has_gauss, gauss


@contextmanager
def watched() -> Iterator[Callable[[], bool]]:
    """Give a function that says whether random numbers without a fixed seed were drawn until now.

    They come from the global generators of Python and NumPy, from a new generator of NumPy that got no seed, or from an
    op or a shuffle of TensorFlow that got none. Code must be watched from before it builds its pipeline.
    """
    from tensorflow.python.data.util import random_seed as of_datasets
    from tensorflow.python.framework import random_seed as of_ops

    unseeded = []

    def noting(real: Callable) -> Callable:
        def with_note(seed=None):
            if seed is None:
                unseeded.append(real)
            return real(seed)

        return with_note

    before = _states()
    with ExitStack() as stack:
        for module, name in ((of_ops, "get_seed"), (of_datasets, "get_seed"), (np.random, "default_rng")):
            stack.enter_context(mock.patch.object(module, name, noting(getattr(module, name))))
        yield lambda: bool(unseeded) or _states() != before
