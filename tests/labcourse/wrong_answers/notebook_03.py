"""Right shape, wrong idea: what students hand in for notebook 03, and a word of the hint that must come back."""

import math

import numpy as np


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


def _last_shards_turned(paths, open_shard):
    return _RIGHT([*paths[:3], *reversed(paths[3:])], open_shard)


def _pool_twice_as_wide(dataset, threads):
    import tensorflow as tf

    return _pool(dataset.map(lambda x: tf.stack([x, x])), threads)


def _pool_in_a_function(dataset, threads):
    import tensorflow as tf

    return tf.function(lambda d: _pool(d, threads))(dataset)


def _as_many_as_fit_five(paths, open_shard):
    settings = {"block_length": 2, "num_parallel_calls": -1, "deterministic": True}
    return _interleaved(cycle_length=max(1, len(paths) - 2), **settings)(paths, open_shard)


def _unbatched(paths, open_shard):
    import tensorflow as tf

    shards = tf.data.Dataset.from_tensors(tf.constant(paths)).unbatch()
    return shards.interleave(lambda path: open_shard(path), 3, 2, tf.data.AUTOTUNE, True)


def _generated(paths, open_shard):
    import tensorflow as tf

    shards = tf.data.Dataset.from_generator(lambda: iter(paths), output_signature=tf.TensorSpec([], tf.string))
    return shards.interleave(open_shard, cycle_length=3, block_length=2, num_parallel_calls=3)


def _ordered_in_the_options(paths, open_shard):
    import tensorflow as tf

    options = tf.data.Options()
    options.deterministic = True
    made = _interleaved(cycle_length=3, block_length=2, num_parallel_calls=3)(paths, open_shard)
    return made.with_options(options)


def _by_divmod(shards, at_once, open_ms, stream_ms):
    full, rest = divmod(shards, at_once)
    return (full + (rest > 0)) * (open_ms + stream_ms)


def _group_after_group(shards, at_once, open_ms, stream_ms):
    spent = 0
    while shards > 0:
        shards -= at_once
        spent += open_ms + stream_ms
    return spent


def _threading(dataset, threads):
    import tensorflow as tf

    group = tf.data.ThreadingOptions()
    group.private_threadpool_size = int(threads)
    options = tf.data.Options()
    options.threading = group
    return dataset.with_options(options=options)


def _pool_on_its_own(dataset, threads):
    import tensorflow as tf

    options = tf.data.Options().merge(dataset.options())
    options.threading.private_threadpool_size = np.int64(threads).item()
    return dataset.with_options(options)


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
        (lambda paths, open_shard: _RIGHT(paths, open_shard).cache(), "cache() is left in your answer"),
        (lambda paths, open_shard: _RIGHT(paths, open_shard).take(100), "take(100) is left in your answer"),
        (lambda paths, open_shard: _RIGHT(paths, lambda path: open_shard(path).take(50)), "take(50) is left in"),
        (_as_many_as_fit_five, "of 7 shards 5 are open at a time"),
        (lambda paths, open_shard: _pool(_RIGHT(paths, open_shard), 8), "private_threadpool_size is 8, and nobody"),
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
        (lambda shards, at_once, open_ms, stream_ms: int(shards / at_once + 0.9) * (open_ms + stream_ms), "round up"),
        (lambda shards, at_once, open_ms, stream_ms: round(shards / at_once + 0.4) * (open_ms + stream_ms), "round up"),
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
        (lambda dataset, threads: _pool(dataset, min(threads, 16)), "the pool has 16 threads, asked for 48"),
        (lambda dataset, threads: _pool(dataset, threads, deterministic=False), "options.deterministic is False"),
        (lambda dataset, threads: _pool(dataset, threads, autotune=False), "options.autotune.enabled is False"),
    ],
}

RIGHT = {
    "03.1": [_numbered, _opened_in_a_function, _unbatched, _generated, _ordered_in_the_options],
    "03.2": [
        _by_divmod,
        _group_after_group,
        lambda shards, at_once, open_ms, stream_ms: len(range(0, shards, at_once)) * sum((open_ms, stream_ms)),
        lambda shards, at_once, *times: math.ceil(shards / at_once) * math.fsum(times),
        lambda shards, at_once, open_ms, stream_ms: np.ceil(np.divide(shards, at_once)) * np.add(open_ms, stream_ms),
    ],
    "03.3": [
        _threading,
        _pool_on_its_own,
        lambda dataset, threads: dataset.apply(lambda given: _pool(given, threads)),
        lambda dataset, threads: _pool(_pool_of_two(dataset, threads), threads),
        lambda dataset, threads: _pool(dataset, threads, deterministic=True),
    ],
}


# Other usual wrong ideas, each in one line.
WRONG["03.2"] += [
    (lambda files, at_once, opening, stream: (files // at_once + 1) * (opening + stream), "one group too many"),
]


WRONG["03.2"] += [
    (
        lambda files, at_once, opening, stream: -(-files // min(at_once, 16)) * (opening + stream),
        "for (70, 32, 2, 6.5)",
    ),
    (lambda files, at_once, opening, stream: -(-files // at_once) * max(opening, stream), "read after it was opened"),
    (lambda files, at_once, opening, stream: -(-files // at_once) * stream, "opened first"),
    (
        lambda files, at_once, opening, stream: files * opening + -(-files // at_once) * stream,
        "opened at the same time",
    ),
    (lambda files, at_once, opening, stream: opening + stream, "one group"),
    (lambda files, at_once, opening, stream: -(-files // at_once) * (opening + stream) / 1000, "milliseconds"),
]
