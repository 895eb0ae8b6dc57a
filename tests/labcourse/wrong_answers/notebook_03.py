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


def _numbered(paths, open_shard):
    import tensorflow as tf

    numbered = tf.data.Dataset.from_tensor_slices(paths).enumerate()
    settings = {"cycle_length": 3, "block_length": 2, "num_parallel_calls": 3, "deterministic": True}
    return numbered.interleave(lambda _, path: open_shard(path), **settings)


def _opened_in_a_function(paths, open_shard):
    import tensorflow as tf

    return _RIGHT(paths, tf.function(open_shard))


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
        (_interleaved(cycle_length=5, block_length=2, num_parallel_calls=5), "cycle_length"),
        (_flat, "cycle_length is how many"),
        (_interleaved(cycle_length=3, block_length=2), "one thread"),
        (
            _interleaved(cycle_length=3, block_length=2, num_parallel_calls=3, deterministic=False),
            "keep it",  # of the order: that it varied, or may vary
        ),
        (_interleaved(cycle_length=3, num_parallel_calls=3), "block_length"),
        (_interleaved(cycle_length=2, block_length=3, num_parallel_calls=2), "swapped"),
        (_interleaved(cycle_length=3, block_length=2, num_parallel_calls=1, deterministic=True), "at the same time"),
        (lambda paths, open_shard: _RIGHT(paths, open_shard).cache(), "cache() is left in your"),
    ],
    "03.2": [
        (
            lambda files, at_once, opening, stream: -(-files // min(at_once, 16)) * (opening + stream),
            "for (70, 32, 2, 6.5)",
        ),
    ],
    "03.3": [
        (lambda dataset, threads: _pool(dataset, 2), "asked for"),
        (lambda dataset, threads: dataset, "as small as before"),
        (_pool_given_away, "a return is missing"),
        (lambda dataset, threads: _pool(dataset, threads, deterministic=False), "options.deterministic is"),
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
