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


def _cleaned_last(lines, clean, lookup, size):
    """Clean words, not lines: what is only a sign stays as an empty word."""
    import tensorflow as tf

    return lines.batch(size).map(lambda text: lookup(clean(tf.strings.split(text).to_tensor(""))))


def _ragged(lines, clean, lookup, size):
    import tensorflow as tf

    return lines.batch(size).map(lambda text: lookup(tf.strings.split(clean(text))))


def _words(lines, clean, lookup, size):
    import tensorflow as tf

    return lines.batch(size).map(lambda text: tf.strings.split(clean(text)).to_tensor(""))


def _without_empty(lines, clean, lookup, size):
    """Leave out what has no word."""
    import tensorflow as tf

    return _RIGHT(lines.filter(lambda line: tf.strings.regex_full_match(line, ".*[A-Za-z].*")), clean, lookup, size)


def _to_the_longest_of_all(lines, clean, lookup, size):
    return _RIGHT(lines, clean, lookup, 1000).unbatch().batch(size)


def _filled_last(lines, clean, lookup, size):
    """Look up words of lines of several lengths, and fill up the numbers."""
    import tensorflow as tf

    return lines.batch(size).map(lambda text: lookup(tf.strings.split(clean(text))).to_tensor())


WRONG = {
    "12.4": [
        (_vectors(unknown=-1), "of the table, expected"),
        (_vectors(split=lambda line: line.split(" ")), "there is no word"),
        (_zeros, "of your rows is no row of"),
        (_numbers, "return the rows of the"),
        (_not_in_list, "'purple' is not in list"),
        (_grown, "out of bounds"),
        (lambda *given: _vectors()(*given).round(2), "number 0 of your rows is no row of the table"),
    ],
    "12.5": [
        (_line_by_line, "clean is called 13 times for 4 batches: batch first"),
        (_cleaned_last, "apply every stage once,"),
        (_ragged, "plain tensor"),
        (_words, "still words"),
        (_without_empty, "a line without a word is"),
        (_to_the_longest_of_all, "the longest line of its"),
        (_encoded(fill="[UNK]"), "filled up with 1"),
        (_encoded(drop=True), "the last batch is lost"),
    ],
}

RIGHT = {"12.4": [_vectors(), _with_keras], "12.5": [_RIGHT, _filled_last]}
