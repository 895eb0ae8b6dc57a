"""Options under which tf.data does what is written, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def naive(threads: int | None = None) -> Any:
    """Return ``tf.data.Options`` of a naive pipeline: tf.data neither rewrites the graph nor tunes it.

    Parameters
    ----------
    threads : int, optional
        Worker threads of the pipeline (``threading.private_threadpool_size``); as many as cores by default.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    if threads is not None:
        options.threading.private_threadpool_size = threads
    return options


def plain(dataset: Any, threads: int | None = None) -> Any:
    """Switch tf.data's own rewriting of the graph and its autotuning off.

    It sets ``experimental_optimization.apply_default_optimizations`` and ``autotune.enabled`` to False, and nothing
    else; a recording keeps the options that it ran with.

    Parameters
    ----------
    dataset : tf.data.Dataset
    threads : int, optional
        As for `naive`.

    Returns
    -------
    tf.data.Dataset
        The same elements under the options of `naive`.
    """
    return dataset.with_options(naive(threads))


def changed(given: Any) -> dict[str, str]:
    """Return the options (of a dataset, or given as such) that differ from TensorFlow's defaults, by dotted name."""
    import tensorflow as tf

    (group,) = tf.data.Options.__bases__
    twins = ("experimental_deterministic", "experimental_threading")  # older names of two others

    def differing(ours: Any, default: Any, prefix: str) -> Iterator[tuple[str, str]]:
        for key in sorted(k for k, v in vars(type(ours)).items() if isinstance(v, property) and k not in twins):
            one, other = getattr(ours, key), getattr(default, key)
            if isinstance(one, group) and type(one) is type(other):
                yield from differing(one, other, f"{prefix}{key}.")
            elif one != other:
                yield f"{prefix}{key}", str(getattr(one, "name", one))

    options = given if isinstance(given, tf.data.Options) else given.options()
    return dict(differing(options, tf.data.Options(), ""))
