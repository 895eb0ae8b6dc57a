"""Right shape, wrong idea: what students hand in for notebook 04, and a word of the hint that must come back."""

import functools


def _counted_behind_a_lock(dataset, function):
    """Map in parallel, and let each call wait for a lock that neither the graph nor the clock shows."""
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


def _right(dataset, function):
    return dataset.map(function, num_parallel_calls=-1, deterministic=True)


def _in_python(dataset, function):
    import tensorflow as tf

    return _right(dataset, lambda x: tf.py_function(function, [x], tf.int64))


def _known_length(dataset, function):
    import tensorflow as tf

    return _right(dataset, function).apply(tf.data.experimental.assert_cardinality(len(dataset)))


def _untuned(dataset, function):
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return _right(dataset, function).with_options(options)


def _pooled(function, items, calls, ahead=0, threads=0, tail=True):
    from collections import deque
    from concurrent.futures import ThreadPoolExecutor

    waiting = deque()
    with ThreadPoolExecutor(threads or calls) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) == calls + ahead:
                yield waiting.popleft().result()
        while tail and waiting:
            yield waiting.popleft().result()


def _pool_map(function, items, calls):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(calls) as pool:
        return pool.map(function, items)


def _completed(function, items, calls):
    from concurrent.futures import ThreadPoolExecutor, as_completed

    with ThreadPoolExecutor(calls) as pool:
        for one in as_completed([pool.submit(function, item) for item in items]):
            yield one.result()


def _futures(function, items, calls):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(calls) as pool:
        yield from [pool.submit(function, item) for item in items]


def _in_chunks(function, items, calls):
    """Wait for all of a chunk: never more in flight, and the order kept, though slower."""
    from concurrent.futures import ThreadPoolExecutor
    from itertools import islice

    items = iter(items)
    with ThreadPoolExecutor(calls) as pool:
        while chunk := list(islice(items, calls)):
            yield from pool.map(function, chunk)


WRONG = {
    "04.3": [
        (lambda dataset, function: dataset.batch(2).unbatch().shuffle(1), "not applied"),
        (lambda dataset, function: dataset.map(function), "num_parallel_calls"),
        (lambda dataset, function: dataset.map(function, num_parallel_calls=4, deterministic=True), "one machine"),
        (lambda dataset, function: dataset.map(function, num_parallel_calls=-1), "options"),
        (
            lambda dataset, function: dataset.map(function, num_parallel_calls=-1, deterministic=True).skip(1),
            "drop_remainder, take,",
        ),
        (_in_python, "without tf.py_function"),
        (_untuned, "options.autotune.enabled"),
        (_counted_behind_a_lock, "leaves the graph for Python"),
    ],
    "04.4": [
        (lambda function, items, calls: map(function, items), "one call waits for the end"),
        (_pool_map, "14 items were taken and not delivered yet"),
        (lambda function, items, calls: _pooled(function, items, calls, ahead=3), "6 items were taken"),
        (_completed, "in another order"),
        (_futures, "14 futures came, not results"),
        (lambda function, items, calls: _pooled(function, items, calls, threads=9, ahead=9), "calls ran at the same"),
        (lambda function, items, calls: _pooled(function, items, calls, tail=False), "the last 2 results are missing"),
        (lambda function, items, calls: list(items), "expected function(item)"),
    ],
}

RIGHT = {
    "04.3": [
        _known_length,
        lambda dataset, function: functools.partial(dataset.map, num_parallel_calls=-1, deterministic=True)(function),
    ],
    "04.4": [_in_chunks],
}
