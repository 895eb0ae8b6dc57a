"""What a variant of a slow pipeline is drawn with: random numbers, arrays of them, and files in a folder of its own."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class Draw(random.Random):
    """Random numbers of one variant: the same for the same file and seed, whatever else is built.

    Parameters
    ----------
    file : str
        The file of the case, ``__file__``.
    folder : path
        Where it may write; each variant gets a folder in it.
    seed : int
    shapes : sequence of str
        The forms that the fault takes; one after the other, `shape` is that of this seed.
    """

    def __new__(cls, *_: Any, **__: Any) -> Draw:
        """Take any arguments: `random.Random` of Python 3.10 takes one at most."""
        return super().__new__(cls)

    def __init__(self, file: str, folder: Any, seed: int, shapes: Sequence[str]) -> None:
        name = f"{Path(file).stem}-{seed}"
        super().__init__(name)
        self.shape = shapes[seed % len(shapes)]
        self.arrays = np.random.default_rng(self.randrange(2**32))
        self.folder = Path(folder) / name
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> str:
        """Return the path of a file of this variant."""
        return str(self.folder / name)

    def floats(self, *shape: int) -> Any:
        """Return an array of numbers from 0 to 1."""
        return self.arrays.random(shape, np.float32)

    def pixels(self, side: int) -> Any:
        """Return a square picture of coloured tiles, uint8."""
        tile = max(side // 30, 1)
        tiles = self.arrays.integers(0, 255, (-(-side // tile), -(-side // tile), 3))
        return np.kron(tiles, np.ones((tile, tile, 1)))[:side, :side].astype(np.uint8)

    def pictures(self, count: int, side: int, kind: str = "jpeg") -> list[str]:
        """Write so many pictures, as "jpeg" or "png", and return their paths."""
        import tensorflow as tf

        names = [self.path(f"{number}.{kind}") for number in range(count)]
        for name in names:
            tf.io.write_file(name, (tf.io.encode_jpeg if kind == "jpeg" else tf.io.encode_png)(self.pixels(side)))
        return names

    def records(self, rows: Iterable[dict[str, Any]], name: str = "rows", packed: str = "") -> str:
        """Write rows of arrays, or of lists of bytes, as TFRecords of `tf.train.Example`, and return the path."""
        import tensorflow as tf

        path = self.path(name + packed)
        with tf.io.TFRecordWriter(path, packed) as out:
            for row in rows:
                made = tf.train.Example()
                for key, values in row.items():
                    feature = made.features.feature[key]
                    if isinstance(values, list):
                        feature.bytes_list.value.extend(values)
                    elif values.dtype.kind == "f":
                        feature.float_list.value.extend(values.tolist())
                    else:
                        feature.int64_list.value.extend(values.tolist())
                out.write(made.SerializeToString())
        return path

    def lines(self, rows: Iterable[Iterable[Any]], name: str = "rows.csv") -> str:
        """Write rows with commas between their values, and return the path."""
        path = self.path(name)
        Path(path).write_text("\n".join(",".join(str(value) for value in row) for row in rows))
        return path

    def words(self, count: int, known: int) -> str:
        """Return a text of so many words, of which so many are different."""
        return " ".join(f"w{number}" for number in self.arrays.integers(0, known, count))
