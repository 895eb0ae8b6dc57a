"""Right shape, wrong idea: what students hand in for notebook 04, and a word of the hint that must come back."""


def _counted_behind_a_lock(dataset, function):
    """Map in parallel, and let each call wait for a lock that no graph shows: only a clock on the wall sees it."""
    import threading
    import time

    import tensorflow as tf

    lock = threading.Lock()

    def count(x):
        with lock:
            time.sleep(0.025)
        return x

    def counted(x):
        made = function(x)
        return tf.ensure_shape(tf.numpy_function(count, [made], made.dtype), made.shape)

    return dataset.map(counted, num_parallel_calls=-1, deterministic=True)


WRONG = {
    "04.1": [
        (lambda dataset, function: dataset.map(function), "num_parallel_calls"),
        (lambda dataset, function: dataset.map(function, num_parallel_calls=4, deterministic=True), "one machine"),
        (lambda dataset, function: dataset.map(function, num_parallel_calls=-1), "options"),
        (lambda dataset, function: dataset.batch(2).unbatch().shuffle(1), "not applied"),
        (
            lambda dataset, function: dataset.map(function, num_parallel_calls=-1, deterministic=True).skip(1),
            "expected",
        ),
        (lambda dataset, function: [function(x) for x in dataset], "tf.data.Dataset"),
        (_counted_behind_a_lock, "to each element, one after the other"),
    ],
    "04.2": [
        (lambda rate, cpu_ms: rate * cpu_ms, "milliseconds"),
        (lambda rate, cpu_ms: 1000 / cpu_ms, "one core"),
        (lambda rate, cpu_ms: 1000 / (rate * cpu_ms), "invert"),
        (lambda rate, cpu_ms: rate / cpu_ms, "times"),
        (lambda rate, cpu_ms: -(-rate * cpu_ms // 1000), "rounded"),
    ],
    "04.3": [
        (lambda free, gil, cores: (free + gil) / (gil + free / cores), "meanwhile"),
        (lambda free, gil, cores: (free + gil) / gil, "more cores"),
        (lambda free, gil, cores: cores, "one thread"),
        (lambda free, gil, cores: gil / (free + gil), "share"),
    ],
}
