"""Options under which tf.data does what is written, and nothing else."""

from __future__ import annotations

from typing import Any

from labkit.common.environment import cores


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


def one_thread_per_core(dataset: Any) -> Any:
    """Give the pipeline a thread a core, and each operation one thread: parallel calls share the cores already."""
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = cores()
    options.threading.max_intra_op_parallelism = 1
    return dataset.with_options(options)
