"""The same changes in a folder of this machine and through a writable card: both must be the same in the end.

TensorFlow's own filesystem is the oracle.
"""

from __future__ import annotations

import random
from pathlib import Path

import tensorflow as tf

from labextras.card.root import UNFINISHED

PLACES = ("a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "f/a/c")
LENGTHS = (0, 1, 1000, 70_000, 4 << 20, (4 << 20) + 1, 9 << 20)


def write(base, dice, mode="wb"):
    with tf.io.gfile.GFile(f"{base}/{dice.choice(PLACES)}", mode) as file:
        for _ in range(dice.randrange(4)):
            file.write(dice.randbytes(dice.choice(LENGTHS)))
            if dice.random() < 0.2:
                file.flush()


def record(base, dice):
    with tf.io.TFRecordWriter(f"{base}/{dice.choice(PLACES)}") as file:
        for _ in range(dice.randrange(50)):
            file.write(dice.randbytes(dice.randrange(300)))


def two(base, dice):
    return [f"{base}/{one}" for one in dice.sample(PLACES, 2)]


def rename(base, dice):
    gfile.rename(*two(base, dice), overwrite=dice.random() < 0.8)


def copy(base, dice):
    """Copy a file. TensorFlow's local filesystem empties a file that is copied to itself or from a folder."""
    names = two(base, dice)
    if not any(map(gfile.isdir, names)):
        gfile.copy(*names, overwrite=dice.random() < 0.8)


def one(call):
    return lambda base, dice: call(f"{base}/{dice.choice(PLACES)}")


def look(base, dice):
    """Return what a name stands for, and every byte behind it."""
    name = f"{base}/{dice.choice(PLACES)}"
    kinds = tf.io.gfile.exists(name), tf.io.gfile.isdir(name)
    if not kinds[0]:
        return kinds
    if kinds[1]:
        return sorted(one.rstrip("/") for one in tf.io.gfile.listdir(name))
    with tf.io.gfile.GFile(name, "rb") as file:
        return tf.io.gfile.stat(name).length, file.read(), tf.io.read_file(name).numpy()


gfile = tf.io.gfile
STEPS = {
    "write": write,
    "append": lambda base, dice: write(base, dice, "ab"),
    "write_file": lambda base, dice: tf.io.write_file(f"{base}/{dice.choice(PLACES)}", dice.randbytes(100)),
    "record": record,
    "mkdir": one(gfile.mkdir),
    "makedirs": one(gfile.makedirs),
    "remove": one(gfile.remove),
    "rmtree": one(gfile.rmtree),
    "rename": rename,
    "copy": copy,
    "look": look,
    "look again": look,
}


def tree(folder):
    """Return everything in a folder: the bytes of files, None for folders."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in Path(folder).rglob("*")
        if UNFINISHED not in path.parts
    }


def run(name, root, folder, seed, steps):
    """Do random steps in both places; every step succeeds or fails, and leaves the same, in both."""
    for number in range(steps):
        step, ends = random.Random(f"{seed} {number}").choice(list(STEPS)), []
        for base in (str(folder), f"smartssd://{name}"):
            found, error = None, ""
            try:
                found = STEPS[step](base, random.Random(f"{seed} {number} again"))
            except tf.errors.OpError as failed:
                error = str(failed)
            ends.append((found, error))
        assert ends[0][0] == ends[1][0], (number, step, *ends)
        assert bool(ends[0][1]) == bool(ends[1][1]), (number, step, *ends)
        trees = tree(folder), tree(root)
        assert trees[0] == trees[1], (number, step, *({k: v and len(v) for k, v in one.items()} for one in trees))
