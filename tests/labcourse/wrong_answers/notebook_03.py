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


def _numbered(paths, open_shard):
    import tensorflow as tf

    numbered = tf.data.Dataset.from_tensor_slices(paths).enumerate()
    settings = {"cycle_length": 3, "block_length": 2, "num_parallel_calls": 3, "deterministic": True}
    return numbered.interleave(lambda _, path: open_shard(path), **settings)


def _opened_in_a_function(paths, open_shard):
    import tensorflow as tf

    return _RIGHT(paths, tf.function(open_shard))


def _fed(calls=40, threads=40, ahead=2, **how):
    def fed(scans, fetch, prepare):
        import tensorflow as tf

        options = tf.data.Options()
        if threads is not None:
            options.threading.private_threadpool_size = threads
        scans = scans.map(lambda scan: prepare(fetch(scan)), num_parallel_calls=calls, **how).batch(8)
        return scans.prefetch(ahead).with_options(options)

    return fed


def _in_two_maps(scans, fetch, prepare):
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = 64
    scans = scans.map(fetch, num_parallel_calls=64).map(prepare, num_parallel_calls=2)
    return scans.prefetch(16).batch(8).prefetch(tf.data.AUTOTUNE).with_options(options)


def _without_prefetch(scans, fetch, prepare):
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = 40
    return scans.map(fetch, num_parallel_calls=40).map(prepare).batch(8).with_options(options)


def _one_at_a_time(scans, fetch, prepare):
    return scans.map(fetch).map(prepare).batch(8).prefetch(2)


def _batched_first(scans, fetch, prepare):
    return scans.batch(8).map(fetch, num_parallel_calls=40).map(prepare).prefetch(2)


def _in_an_interleave(scans, fetch, prepare):
    import tensorflow as tf

    def one(scan):
        return tf.data.Dataset.from_tensors(scan).map(fetch)

    return scans.interleave(one, cycle_length=64, num_parallel_calls=64).map(prepare).batch(8).prefetch(2)


WRONG = {
    "03.2": [
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
    ],
    "03.3": [
        (_one_at_a_time, "one scan is fetched after the"),
        (_fed(threads=None), "2 threads make them: widen"),
        (_fed(calls=-1, threads=None), "tf.data knows the cores"),
        (_fed(calls=16), "more fetches have to be"),
        (_without_prefetch, "what stands behind the batch"),
        (_fed(ahead=50), "8.8 GB of scans are held"),
        (_batched_first, "num_parallel_calls=40: there are 4 GB"),
        (_in_an_interleave, "a map fetches it"),
        (lambda scans, fetch, prepare: scans.map(fetch).batch(8), "prepare is never called"),
    ],
}

RIGHT = {"03.2": [_numbered, _opened_in_a_function], "03.3": [_fed(calls=-1), _in_two_maps]}
