"""Rows are taken from a table of pandas one by one.

Source: own, as in many examples of tables
Cause: prep: each row makes a new object of the table
Remedy: arrays in place of a table (to_numpy), or whole batches in one call
Never: a decoder, smaller images, uint8
"""

import numpy as np
from _draw import Draw
from _places import Places, loader, shaped

SHAPES = ("iloc", "loc by name", "iloc with labels")
STEP_MS = 5
CAUSE = {"prep"}
OP = r"__getitem__|fetch a batch"
SAYS = r"arrays|to_numpy|whole batches"
NEVER = r"decoder|smaller images|uint8"
ADVICE = {r"arrays|to_numpy|whole batches": True, r"num_workers": "workers"}


def make(folder, seed, fixed=False):
    """Return batches of rows; `fixed` has taken the values of the table before."""
    import pandas

    draw = Draw(__file__, folder, seed, SHAPES)
    values = draw.floats(20_000, draw.choice([12, 20]))
    table = pandas.DataFrame(values, columns=[f"c{i}" for i in range(values.shape[1])])

    def row(place):
        if fixed is True:
            return shaped(draw.shape, values[place], place % 3)
        one = table.loc[place] if draw.shape.startswith("loc") else table.iloc[place]
        return shaped(draw.shape, one.to_numpy(np.float32), place % 3)

    return loader(Places(len(table), row), batch_size=128, num_workers=2 if fixed == "workers" else 0)
