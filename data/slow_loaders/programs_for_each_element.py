"""A program is started for each element; the workers wait for it, and it keeps the cores busy.

Source: own, common where sounds or videos are unpacked by a program of its own
Cause: prep: programs that the calls start compute on all cores
Remedy: less work in each call: unpack in the process, or let one program live on
Never: more calls at once, the processor rests, a longer queue
"""

import subprocess
import sys

import numpy as np
from _draw import Draw
from _places import Places, computed, loader, shaped

SHAPES = ("sums", "by name", "bytes")
STEP_MS = 6
CAUSE = {"prep"}
OP = r"__getitem__"
SAYS = r"ess work|Do less"
NEVER = r"more calls at once|processor rests|prefetch_factor"
ADVICE = {r"ess work": True}


def make(folder, seed, fixed=False):
    """Return batches of rows; `fixed` asks nobody else."""
    draw = Draw(__file__, folder, seed, SHAPES)
    rounds, start = draw.choice([20_000, 30_000]), draw.randrange(1000)
    code = f"t = {start}\nfor s in range({rounds}): t = (t * 31 + s) % 65521\nprint(t % 255)"
    rows = draw.floats(64, 256)

    def read(place):
        if fixed:
            number = computed(rounds, start)
        else:
            number = int(subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, check=True).stdout)
        row = rows[place % 64] * np.float32(number)
        return shaped(draw.shape, row.view(np.uint8) if draw.shape == "bytes" else row, np.int64(place % 7))

    return loader(Places(4096, read), batch_size=8, num_workers=2)
