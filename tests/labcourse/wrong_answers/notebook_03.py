"""Right shape, wrong idea: what students hand in for notebook 03, and a word of the hint that must come back."""

import math


def _interleaved(**settings):
    def mixed(paths, open_shard):
        import tensorflow as tf

        return tf.data.Dataset.from_tensor_slices(paths).interleave(open_shard, **settings)

    return mixed


_RIGHT = _interleaved(cycle_length=3, block_length=2, num_parallel_calls=3, deterministic=True)


def _flat(paths, open_shard):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(paths).flat_map(open_shard)


def _looked_at_one_by_one(paths, open_shard):
    """Read three shards at the same time, then look at each record in Python: only a clock on the wall sees it."""
    import time

    import tensorflow as tf

    def look(record):
        time.sleep(0.02)
        return record

    return _RIGHT(paths, open_shard).map(lambda r: tf.ensure_shape(tf.numpy_function(look, [r], tf.string), []))


def _pool(dataset, threads, deterministic=None, autotune=None):
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    if deterministic is not None:
        options.deterministic = deterministic
    if autotune is not None:
        options.autotune.enabled = autotune
    return dataset.with_options(options)


def _pool_given_away(dataset, threads):
    _pool(dataset, threads)


def _pool_of_two(dataset, threads):
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = 2
    return dataset.with_options(options)


def _numbered(paths, open_shard):
    import tensorflow as tf

    numbered = tf.data.Dataset.from_tensor_slices(paths).enumerate()
    settings = {"cycle_length": 3, "block_length": 2, "num_parallel_calls": 3, "deterministic": True}
    return numbered.interleave(lambda _, path: open_shard(path), **settings)


def _opened_in_a_function(paths, open_shard):
    import tensorflow as tf

    return _RIGHT(paths, tf.function(open_shard))


def _in_a_function(paths, open_shard):
    import tensorflow as tf

    return tf.function(lambda: _RIGHT(paths, open_shard))()


def _chosen(paths, open_shard):
    import tensorflow as tf

    turns = [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0, 1, 2, 3, 3, 4, 4, 3, 3, 4, 4, 3, 4]
    shards = [open_shard(path) for path in paths]
    return tf.data.Dataset.choose_from_datasets(shards, tf.data.Dataset.from_tensor_slices(turns).map(_whole))


def _whole(x):
    import tensorflow as tf

    return tf.cast(x, tf.int64)


def _one_shard(paths, open_shard):
    return _RIGHT(paths, lambda path: open_shard(paths[0]))


def _pool_twice_as_wide(dataset, threads):
    import tensorflow as tf

    return _pool(dataset.map(lambda x: tf.stack([x, x])), threads)


def _pool_in_a_function(dataset, threads):
    import tensorflow as tf

    return tf.function(lambda d: _pool(d, threads))(dataset)


def _by_divmod(shards, at_once, open_ms, stream_ms):
    full, rest = divmod(shards, at_once)
    return (full + (rest > 0)) * (open_ms + stream_ms)


def _threading(dataset, threads):
    import tensorflow as tf

    group = tf.data.ThreadingOptions()
    group.private_threadpool_size = int(threads)
    options = tf.data.Options()
    options.threading = group
    return dataset.with_options(options=options)


WRONG = {
    "03.1": [
        (_flat, "cycle_length is how many"),
        (_interleaved(cycle_length=3, block_length=2), "one thread"),
        (
            _interleaved(cycle_length=3, block_length=2, num_parallel_calls=3, deterministic=False),
            "the task says to keep it",
        ),
        (_interleaved(cycle_length=3, num_parallel_calls=3), "block_length"),
        (_interleaved(cycle_length=5, block_length=2, num_parallel_calls=5), "cycle_length"),
        (_interleaved(cycle_length=2, block_length=3, num_parallel_calls=2), "swapped"),
        (_interleaved(cycle_length=3, block_length=2, num_parallel_calls=1, deterministic=True), "at the same time"),
        (lambda paths, open_shard: _flat(paths[:3], open_shard), "drop_remainder, take,"),
        (lambda paths, open_shard: _RIGHT(paths, open_shard).repeat(), "look for a repeat or an"),
        (_chosen, "no interleave"),
        (_one_shard, "elements came more than"),
        (_in_a_function, "without tf.function"),
        (lambda paths, open_shard: _RIGHT(paths, open_shard).cache(), "cache() is left in your"),
        (lambda paths, open_shard: _RIGHT(paths, open_shard).take(100), "take(100) is left in your answer"),
        (lambda paths, open_shard: _pool(_RIGHT(paths, open_shard), 8), "private_threadpool_size is 8, and nobody"),
        (_looked_at_one_by_one, "with each record, one"),
    ],
    "03.2": [
        (lambda shards, at_once, open_ms, stream_ms: open_ms + -(-shards // at_once) * stream_ms, "expected"),
        (
            lambda files, at_once, opening, stream: -(-files // min(at_once, 16)) * (opening + stream),
            "for (70, 32, 2, 6.5)",
        ),
    ],
    "03.3": [
        (lambda dataset, threads: dataset, "as small as before"),
        (_pool_of_two, "asked for"),
        (_pool_given_away, "a return is missing"),
        (lambda dataset, threads: _pool(dataset, threads).options(), "with_options() gives a"),
        (_pool_twice_as_wide, "the shape is"),
        (_pool_in_a_function, "without tf.function"),
        (lambda dataset, threads: _pool(dataset.repeat(), threads), "look for a repeat or an"),
        (lambda dataset, threads: _pool(dataset.map(lambda x: x, num_parallel_calls=threads), threads), "more than"),
        (lambda dataset, threads: _pool(dataset, threads, deterministic=False), "options.deterministic is"),
        (lambda dataset, threads: _pool(dataset, threads, autotune=False), "options.autotune.enabled"),
    ],
}

RIGHT = {
    "03.1": [
        _numbered,
        _opened_in_a_function,
    ],
    "03.2": [
        _by_divmod,
        lambda shards, at_once, *times: math.ceil(shards / at_once) * math.fsum(times),
    ],
    "03.3": [
        _threading,
        lambda dataset, threads: dataset.apply(lambda given: _pool(given, threads)),
    ],
}
