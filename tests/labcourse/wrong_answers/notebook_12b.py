"""Right shape, wrong idea: what students hand in for notebook 12b, and a word of the hint that must come back."""

import numpy as np


def _vectors(first=2, unknown=1, fill=0, front=False, change=lambda numbers: numbers, split=str.split):
    """Return an answer to 12.4 that is right by default."""

    def vectors(line, vocabulary, table, length):
        known = {word: number for number, word in enumerate(vocabulary, first)}
        numbers = change([known.get(word, unknown) for word in split(line)][:length])
        rest = [fill] * (length - len(numbers))
        return table[rest + numbers if front else numbers + rest]

    return vectors


def _numbers(line, vocabulary, table, length):
    """Return the numbers in place of the vectors."""
    numbers = [vocabulary.index(word) + 2 if word in vocabulary else 1 for word in line.split()][:length]
    return numbers + [0] * (length - len(numbers))


def _unfilled(line, vocabulary, table, length):
    return table[[vocabulary.index(word) + 2 if word in vocabulary else 1 for word in line.split()]]


def _zeros(line, vocabulary, table, length):
    """Fill up with zeros of NumPy, as if row 0 were zeros."""
    rows = _unfilled(line, vocabulary, table, length)
    return np.concatenate([rows, np.zeros((length - len(rows), table.shape[1]), np.float32)])


def _not_in_list(line, vocabulary, table, length):
    return table[[vocabulary.index(word) + 2 for word in line.split()]]


def _one_hot(line, vocabulary, table, length):
    return np.eye(len(table))[_numbers(line, vocabulary, table, length)]


def _grown(line, vocabulary, table, length):
    """Give each new word a number of its own, behind the known ones."""
    vocabulary = [*vocabulary, *(word for word in line.split() if word not in vocabulary)]
    return table[_numbers(line, vocabulary, table, length)]


def _with_keras(line, vocabulary, table, length):
    """Let the layers of the notebook do it."""
    import keras

    lookup = keras.layers.StringLookup(vocabulary=vocabulary, mask_token="")
    words = line.split()[:length]
    numbers = np.asarray(lookup(np.array([words + [""] * (length - len(words))])))[0]
    return keras.ops.take(table, numbers, axis=0)


def _encoded(before=lambda text, clean: clean(text), fill="", after=lambda numbers: numbers, drop=False, cut=None):
    """Return an answer to 12.5 that is right by default."""

    def encoded(lines, clean, lookup, size):
        import tensorflow as tf

        def encode(text):
            words = tf.strings.split(before(text, clean)).to_tensor(fill, shape=cut)
            return after(lookup(words))

        return lines.batch(size, drop_remainder=drop).map(encode)

    return encoded


_RIGHT = _encoded()


def _line_by_line(lines, clean, lookup, size):
    """Look up each line by itself, and batch after that."""
    import tensorflow as tf

    return lines.map(lambda line: lookup(tf.strings.split(clean(line)))).padded_batch(size)


def _looked_up_line_by_line(lines, clean, lookup, size):
    import tensorflow as tf

    cleaned = lines.batch(size).map(clean).unbatch()
    return cleaned.map(lambda line: lookup(tf.strings.split(line))).padded_batch(size)


def _cleaned_last(lines, clean, lookup, size):
    """Clean words, not lines: what is only a sign stays as an empty word."""
    import tensorflow as tf

    return lines.batch(size).map(lambda text: lookup(clean(tf.strings.split(text).to_tensor(""))))


def _looked_up_first(lines, clean, lookup, size):
    import tensorflow as tf

    return lines.batch(size).map(lambda text: clean(lookup(tf.strings.split(text).to_tensor(""))))


def _ragged(lines, clean, lookup, size):
    import tensorflow as tf

    return lines.batch(size).map(lambda text: lookup(tf.strings.split(clean(text))))


def _words(lines, clean, lookup, size):
    import tensorflow as tf

    return lines.batch(size).map(lambda text: tf.strings.split(clean(text)).to_tensor(""))


def _of_lines(lines, clean, lookup, size):
    return lines.batch(size).map(lambda text: lookup(clean(text)))


def _without_empty(lines, clean, lookup, size):
    """Leave out what has no word."""
    import tensorflow as tf

    return _RIGHT(lines.filter(lambda line: tf.strings.regex_full_match(line, ".*[A-Za-z].*")), clean, lookup, size)


def _to_the_longest_of_all(lines, clean, lookup, size):
    return _RIGHT(lines, clean, lookup, 1000).unbatch().batch(size)


def _letters(lines, clean, lookup, size):
    import tensorflow as tf

    return lines.batch(size).map(lambda text: lookup(tf.strings.unicode_split(clean(text), "UTF-8").to_tensor("")))


def _as_int32(numbers):
    import tensorflow as tf

    return tf.cast(numbers, tf.int32)


def _one_hot_words(numbers):
    import tensorflow as tf

    return tf.one_hot(numbers, 8, dtype=tf.int64)


def _any_order(lines, clean, lookup, size):
    import tensorflow as tf

    def encode(text):
        return lookup(tf.strings.split(clean(text)).to_tensor(""))

    return lines.batch(size).map(encode, num_parallel_calls=1, deterministic=False)


def _filled_last(lines, clean, lookup, size):
    """Look up words of lines of several lengths, and fill up the numbers."""
    import tensorflow as tf

    return lines.batch(size).map(lambda text: lookup(tf.strings.split(clean(text))).to_tensor())


WRONG = {
    "12.4": [
        (_vectors(unknown=-1), "of the table, expected"),
        (_vectors(front=True), "of the table, expected"),
        (_vectors(split=lambda line: line.split(" ")), "there is no word"),
        (_zeros, "of your rows is no row of"),
        (_numbers, "return the rows of the"),
        (_one_hot, "expected (4, 3)"),
        (_not_in_list, "'purple' is not in list"),
        (_grown, "out of bounds"),
        (lambda *given: _vectors()(*given)[:-1], "3 rows came"),
        (lambda *given: _vectors()(*given).round(2), "number 0 of your rows is no row of the table"),
        (lambda *given: str(_vectors()(*given)), "of the shape ()"),
    ],
    "12.5": [
        (_line_by_line, "clean is called 13 times for 4 batches: batch first"),
        (_looked_up_line_by_line, "lookup is called 13 times"),
        (_cleaned_last, "apply every stage once,"),
        (_looked_up_first, "requested dtype string"),
        (_ragged, "plain tensor"),
        (_words, "still words"),
        (_of_lines, "batch the elements"),
        (_letters, "apply every stage once,"),
        (_without_empty, "a line without a word is"),
        (_to_the_longest_of_all, "the longest line of its"),
        (_encoded(fill="[UNK]"), "filled up with 1"),
        (_encoded(after=_as_int32), "the dtype is int"),
        (_encoded(after=_one_hot_words), "the shape is"),
        (_encoded(drop=True), "the last batch is lost"),
        (lambda lines, clean, lookup, size: _RIGHT(lines, clean, lookup, size - 1), "look for a repeat or an"),
        (_any_order, "the order may vary"),
        (lambda *given: _RIGHT(*given).cache(), "cache() is left in"),
        (lambda *given: _RIGHT(*given).take(100), "take(100) is left in"),
        (lambda *given: _RIGHT(*given).map(lambda numbers: (numbers, numbers)), "expected single tensors"),
        (lambda *given: list(_RIGHT(*given)), "return a tf.data.Dataset"),
    ],
}

RIGHT = {
    "12.4": [
        _vectors(),
        _with_keras,
    ],
    "12.5": [
        _RIGHT,
        _filled_last,
    ],
}
