"""Right shape, wrong idea: what students hand in for notebook 03, and a word of the hint that must come back."""


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


def _pool_of_cores(dataset, threads):
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.max_intra_op_parallelism = threads
    return dataset.with_options(options)


def _turned_in_place(paths, open_shard):
    """Change the list that the check gave: it must not be what the truth is made of."""
    paths.reverse()
    return _RIGHT(paths, open_shard)


def _pool(dataset, threads):
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
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


def _last_shards_turned(paths, open_shard):
    return _RIGHT([*paths[:3], *reversed(paths[3:])], open_shard)


def _pool_twice_as_wide(dataset, threads):
    import tensorflow as tf

    return _pool(dataset.map(lambda x: tf.stack([x, x])), threads)


def _pool_in_a_function(dataset, threads):
    import tensorflow as tf

    return tf.function(lambda d: _pool(d, threads))(dataset)


WRONG = {
    "03.1": [
        (_flat, "no interleave"),
        (_interleaved(cycle_length=3, block_length=2), "one thread"),
        (_interleaved(cycle_length=3, block_length=2, num_parallel_calls=3, deterministic=False), "may vary"),
        (_interleaved(cycle_length=3, num_parallel_calls=3), "block_length"),
        (_interleaved(cycle_length=5, block_length=2, num_parallel_calls=5), "cycle_length"),
        (_interleaved(cycle_length=2, block_length=3, num_parallel_calls=2), "swapped"),
        (_interleaved(cycle_length=3, block_length=2, num_parallel_calls=1, deterministic=True), "at the same time"),
        (lambda paths, open_shard: _flat(paths[:3], open_shard), "exactly once"),
        (lambda paths, open_shard: _RIGHT(paths, open_shard).repeat(), "never ends"),
        (_turned_in_place, "yours begins e0 e1 d0 d1"),
        (_interleaved(cycle_length=3, block_length=5, num_parallel_calls=3), "block_length how many records come"),
        (_chosen, "no interleave"),
        (_one_shard, "25 records came out, but not those that went in"),
        (_last_shards_turned, "the order should be d0"),
        (_in_a_function, "without tf.function"),
        (_looked_at_one_by_one, "with each record, one after the other"),
    ],
    "03.2": [
        (lambda shards, at_once, open_ms, stream_ms: shards * (open_ms + stream_ms), "one shard after the other"),
        (lambda shards, at_once, open_ms, stream_ms: shards / at_once * (open_ms + stream_ms), "round"),
        (lambda shards, at_once, open_ms, stream_ms: shards // at_once * (open_ms + stream_ms), "round up"),
        (
            lambda shards, at_once, open_ms, stream_ms: open_ms + -(-shards // at_once) * stream_ms,
            "each pays the latency",
        ),
    ],
    "03.3": [
        (lambda dataset, threads: dataset, "as small as before"),
        (_pool_of_cores, "as small as before"),
        (_pool_of_two, "asked for"),
        (_pool_given_away, "a return is missing"),
        (lambda dataset, threads: _pool(dataset, threads).options(), "with_options() gives a new one"),
        (_pool_twice_as_wide, "elements changed"),
        (_pool_in_a_function, "without tf.function"),
        (lambda dataset, threads: _pool(dataset.repeat(), threads), "never ends"),
        (lambda dataset, threads: _pool(dataset.map(lambda x: x, num_parallel_calls=threads), threads), "more than"),
        (lambda dataset, threads: dataset.batch(threads), "elements changed"),
    ],
}

RIGHT = {"03.1": [_numbered, _opened_in_a_function]}
