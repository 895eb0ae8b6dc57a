"""Right shape, wrong idea: what students hand in for notebook 05, and a word of the hint that must come back."""

import atexit
import itertools
import math
import shutil
import tempfile

_FOLDER = tempfile.mkdtemp()
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)


def _placed(photos, functions, place, **how):
    """Map functions, with a cache behind so many of them."""
    for number, function in enumerate(functions, 1):
        photos = photos.map(function)
        photos = photos.cache(**how) if number == place else photos
    return photos


def _right(photos, *functions):
    return _placed(photos, functions, 2)


def _in_a_file(photos, *functions):
    return _placed(photos, functions, 2, filename=f"{tempfile.mkdtemp(dir=_FOLDER)}/kept")


def _computed_at_once(photos, decode, resize, to_float, augment):
    import tensorflow as tf

    kept = tf.data.Dataset.from_tensor_slices(tf.stack([resize(decode(x)) for x in photos]))
    return kept.map(lambda image: augment(to_float(image)))


def _counted(first, later, without):
    if first >= without and later >= without:
        return math.inf
    return next(n for n in itertools.count(1) if first + (n - 1) * later < n * without)


def _all_at_once(photos, *functions):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices([tf.squeeze(x) for x in _placed(photos, functions, 0)])


WRONG = {
    "05.2": [
        (lambda photos, *functions: _placed(photos, functions, 4), "too late"),
        (lambda photos, *functions: _placed(photos, functions, 3), "the cache takes 24.1 MB, and there are 8 MB"),
        (lambda photos, *functions: _placed(photos.cache(), functions, 0), "decode ran 120 times for 40 photos"),
        (lambda photos, *functions: _placed(photos, functions, 0), "nothing keeps"),
        (lambda photos, *functions: _placed(photos.take(20), functions, 2), "20 of 40 elements are missing"),
        (lambda photos, *functions: _right(photos, *functions[:3]), "apply every stage once,"),
        (_in_a_file, "kept in a file"),
        (_all_at_once, "map it, and do not call"),
    ],
    "05.3": [
        (lambda first, later, without: 2, "epochs"),
        (lambda first, later, without: (first - later) // (without - later) + 1, "for (20, 16, 16) your answer raised"),
    ],
}

RIGHT = {
    "05.2": [lambda photos, *functions: _placed(photos.batch(4), functions, 2).unbatch(), _computed_at_once],
    "05.3": [_counted],
}
