"""Right shape, wrong idea: what students hand in for notebook 12b, and a word of the hint that must come back."""

import numpy as np


def _vectors(first=2, unknown=1, fill=0, front=False, change=lambda numbers: numbers, split=str.split):
    """Return an answer to 12.4 that is right by default."""

    def vectors(line, vocabulary, table, length):
        known = {word: number for number, word in enumerate(vocabulary, first)}
        numbers = change([known.get(word, unknown) for word in split(line)])
        rest = [fill] * (length - len(numbers))
        return table[rest + numbers if front else numbers + rest]

    return vectors


def _numbers(line, vocabulary, table, length):
    """Return the numbers in place of the vectors."""
    numbers = [vocabulary.index(word) + 2 if word in vocabulary else 1 for word in line.split()]
    return numbers + [0] * (length - len(numbers))


def _unfilled(line, vocabulary, table, length):
    return table[[vocabulary.index(word) + 2 if word in vocabulary else 1 for word in line.split()]]


def _left_out(line, vocabulary, table, length):
    numbers = [vocabulary.index(word) + 2 for word in line.split() if word in vocabulary]
    return table[numbers + [0] * (length - len(numbers))]


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


def _summed(line, vocabulary, table, length):
    return table[_numbers(line, vocabulary, table, length)].mean(0)


def _with_keras(line, vocabulary, table, length):
    """Let the layers of the notebook do it."""
    import keras

    lookup = keras.layers.StringLookup(vocabulary=vocabulary, mask_token="")
    words = line.split()
    numbers = np.asarray(lookup(np.array([words + [""] * (length - len(words))])))[0]
    return keras.ops.take(table, numbers, axis=0)


def _with_tensorflow(line, vocabulary, table, length):
    import tensorflow as tf

    words = tf.strings.split([line]).to_tensor("", shape=[1, length])[0]
    here = tf.equal(words[:, None], tf.constant(["", *vocabulary]))
    rows = tf.constant([0, *range(2, len(vocabulary) + 2)])
    number = tf.where(tf.reduce_any(here, 1), tf.gather(rows, tf.argmax(tf.cast(here, tf.int32), 1)), 1)
    return tf.gather(table, number)


def _row_by_row(line, vocabulary, table, length):
    """Return lists of numbers of Python."""
    rows = [table[0].tolist() for _ in range(length)]
    for place, word in enumerate(line.split()):
        rows[place] = table[1].tolist()
        if word in vocabulary:
            rows[place] = table[2 + vocabulary.index(word)].tolist()
    return rows


def _filled_first(line, vocabulary, table, length):
    numbers = np.zeros(length, int)
    found = [(["", None, *vocabulary].index(word) if word in vocabulary else 1) for word in line.split()]
    numbers[: len(found)] = found
    return np.take(table, numbers, axis=0)


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


def _cleaned_line_by_line(lines, clean, lookup, size):
    import tensorflow as tf

    return lines.map(clean).batch(size).map(lambda text: lookup(tf.strings.split(text).to_tensor("")))


def _in_a_loop(lines, clean, lookup, size):
    """Call clean in a loop over the lines of a batch."""
    import tensorflow as tf

    def encode(text):
        return lookup(tf.strings.split(tf.map_fn(clean, text)).to_tensor(""))

    return lines.batch(size).map(encode)


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


def _in_front(numbers):
    import tensorflow as tf

    return tf.reverse(numbers, [1])


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

    return lines.batch(size).map(encode, num_parallel_calls=2, deterministic=False)


def _cleaned_at_once(lines, clean, lookup, size):
    """Clean all lines in one call, as if a file always fitted into memory."""
    import tensorflow as tf

    cleaned = lines.batch(10**6).map(clean).unbatch().batch(size)
    return cleaned.map(lambda text: lookup(tf.strings.split(text).to_tensor("")))


def _cleaned_before_the_pipeline(lines, clean, lookup, size):
    import tensorflow as tf

    cleaned = tf.data.Dataset.from_tensor_slices(clean(tf.stack(list(lines)))).batch(size)
    return cleaned.map(lambda text: lookup(tf.strings.split(text).to_tensor("")))


def _looked_up_at_once(lines, clean, lookup, size):
    import tensorflow as tf

    words = lines.batch(size).map(clean).unbatch().batch(10**6).map(lambda text: lookup(tf.strings.split(text)))
    return words.unbatch().ragged_batch(size).map(lambda numbers: numbers.to_tensor())


def _filled_last(lines, clean, lookup, size):
    """Look up words of lines of several lengths, and fill up the numbers."""
    import tensorflow as tf

    return lines.batch(size).map(lambda text: lookup(tf.strings.split(clean(text))).to_tensor())


def _flat(lines, clean, lookup, size):
    """Look all words of a batch up as one list."""
    import tensorflow as tf

    def encode(text):
        words = tf.strings.split(clean(text))
        return words.with_flat_values(lookup(words.flat_values)).to_tensor(0)

    return lines.batch(size).map(encode)


def _step_by_step(lines, clean, lookup, size):
    import tensorflow as tf

    cleaned = lines.batch(size).map(clean, num_parallel_calls=2)
    return cleaned.map(lambda text: tf.strings.split(text).to_tensor("")).map(lookup).prefetch(2)


def _in_python(lines, clean, lookup, size):
    """Let a generator do it, batch by batch."""
    import tensorflow as tf

    def batches():
        for text in lines.batch(size):
            yield lookup(tf.strings.split(clean(text)).to_tensor(""))

    return tf.data.Dataset.from_generator(batches, output_signature=tf.TensorSpec([None, None], tf.int64))


WRONG = {
    "12.4": [
        (_vectors(unknown=0), "row 0 only fills up"),
        (_vectors(unknown=-1), "not the last row"),
        (_left_out, "is left out; its vector is row 1"),
        (_vectors(first=1), "has row 2, behind the two special ones"),
        (_vectors(first=0), "has row 2, behind the two special ones"),
        (_vectors(fill=1), "row 1 is for words that are not known"),
        (_vectors(front=True), "row 0 fills up at the end"),
        (_vectors(change=lambda numbers: numbers[::-1]), "in another order"),
        (_vectors(change=sorted), "in another order"),
        (_vectors(change=lambda numbers: list(dict.fromkeys(numbers))), "has two rows"),
        (_vectors(split=list), "rows came, one for each word"),
        (_vectors(split=lambda line: line.split(" ")), "there is no word"),
        (_unfilled, "row 0 fills up to 7 rows"),
        (_zeros, "no row of zeros"),
        (_numbers, "return the rows of the table"),
        (_one_hot, "expected (4, 3)"),
        (_summed, "you return float32 of the shape (3,)"),
        (_not_in_list, "'purple' is not in list"),
        (_grown, "out of bounds"),
        (lambda *given: _vectors()(*given)[:-1], "3 rows came"),
        (lambda *given: _vectors()(*given).round(2), "number 0 of your rows is no row of the table"),
        (lambda *given: str(_vectors()(*given)), "of the shape ()"),
    ],
    "12.5": [
        (_line_by_line, "clean is called 13 times for 4 batches: batch first"),
        (_looked_up_line_by_line, "lookup is called 13 times"),
        (_cleaned_line_by_line, "clean is called 13 times"),
        (_in_a_loop, "clean is called 13 times"),
        (_cleaned_at_once, "clean works on several batches in one call"),
        (_cleaned_before_the_pipeline, "clean works on several batches in one call"),
        (_looked_up_at_once, "lookup works on several batches in one call"),
        (_cleaned_last, "clean lines before you split them"),
        (_looked_up_first, "requested dtype string"),
        (_encoded(before=lambda text, clean: text), "clean is never called"),
        (_ragged, "plain tensor"),
        (_words, "still words"),
        (_of_lines, "split the clean lines into words"),
        (_letters, "expected [4, 2, 3, 5"),
        (_without_empty, "a line without a word is lost"),
        (_to_the_longest_of_all, "the longest line of its own batch only"),
        (_encoded(cut=[None, 9]), "filled up to 9 words"),
        (_encoded(cut=[None, 3]), "lines are cut off"),
        (_encoded(fill="[UNK]"), "filled up with 1"),
        (_encoded(after=_in_front), "a 0 stands before a word"),
        (_encoded(after=_as_int32), "the numbers are int32"),
        (_encoded(after=_one_hot_words), "the rank 3"),
        (_encoded(drop=True), "the last batch is lost"),
        (lambda lines, clean, lookup, size: _RIGHT(lines, clean, lookup, size + 1), "expected [4, 4, 4, 1]"),
        (lambda lines, clean, lookup, size: _RIGHT(lines, clean, lookup, size - 1), "batches of [3, 3, 3, 3, 1] lines"),
        (lambda lines, clean, lookup, size: _RIGHT(lines, clean, lookup, 2), "expected [4, 4, 4, 1]"),
        (lambda *given: _RIGHT(*given).unbatch(), "single lines came out"),
        (lambda lines, *given: _RIGHT(lines.shuffle(100, seed=1), *given), "another order"),
        (_any_order, "the order may vary"),
        (lambda *given: _RIGHT(*given).cache(), "cache() is left in"),
        (lambda *given: _RIGHT(*given).take(100), "take(100) is left in"),
        (lambda *given: _RIGHT(*given).repeat(), "never ends"),
        (lambda *given: _RIGHT(*given).map(lambda numbers: (numbers, numbers)), "one tensor"),
        (lambda *given: list(_RIGHT(*given)), "return a tf.data.Dataset"),
    ],
}

RIGHT = {
    "12.4": [_vectors(), _with_keras, _with_tensorflow, _row_by_row, _filled_first],
    "12.5": [_RIGHT, _filled_last, _flat, _step_by_step, _in_python],
}
