"""Right shape, wrong idea: what students hand in for notebook 06, and a word of the hint that must come back."""


def _clipped(images, deltas):
    import tensorflow as tf

    return tf.clip_by_value(images + deltas, 0, 1)


def _one_for_all(images, deltas):
    import tensorflow as tf

    return tf.clip_by_value(images + deltas[0], 0, 1)


def _unclipped(images, deltas):
    return images + deltas[:, None, None, None]


def _in_a_loop(images, deltas):
    import tensorflow as tf

    def one(pair):
        return tf.clip_by_value(pair[0] + pair[1], 0, 1)

    return tf.map_fn(one, (images, deltas), fn_output_signature=tf.float32)


def _along_the_width(images, deltas):
    return images + deltas[:, None]


WRONG = {
    "06.1": [
        (lambda dataset, scale, batch: dataset.map(scale).batch(batch, drop_remainder=True), "in front"),
        (lambda dataset, scale, batch: dataset.batch(batch).map(scale), "drop_remainder"),
        (lambda dataset, scale, batch: dataset.batch(batch, drop_remainder=True), "never called"),
        (lambda dataset, scale, batch: dataset.batch(batch, drop_remainder=True).map(scale).map(scale), "called once"),
    ],
    "06.2": [
        (_clipped, "colours"),
        (_one_for_all, "its own"),
        (_unclipped, "clip"),
        (_in_a_loop, "loop"),
        (_along_the_width, "image"),
    ],
    "06.3": [
        (lambda overhead, work, batch: batch, "only the overhead"),
        (lambda overhead, work, batch: (overhead + work) / work, "once per batch"),
        (lambda overhead, work, batch: (overhead / batch + work) / (overhead + work), "inverse"),
        (lambda overhead, work, batch: (overhead + work) / (overhead + work / batch), "not the work"),
    ],
}
