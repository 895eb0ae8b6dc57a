"""Each element opens its archive anew, and the table of contents is read again.

Source: own, common where a data set comes as one archive
Cause: prep or fetch: the table of contents is read for each element
Remedy: open the archive once in each worker
Never: a decoder, uint8, whole batches
"""

import io
import tarfile
import zipfile

import numpy as np
from _draw import Draw
from _places import Places, loader, shaped

SHAPES = ("zip", "tar by name", "zip with labels")
STEP_MS = 6
CAUSE = {"prep", "fetch"}
OP = r"__getitem__|file read|open file"
SAYS = r"archive"
NEVER = r"decoder|uint8|whole batches|smaller images"
ADVICE = {r"archive": True, r"num_workers": "workers"}


def make(folder, seed, fixed=False):
    """Return batches of rows from an archive; `fixed` keeps it open."""
    draw = Draw(__file__, folder, seed, SHAPES)
    count, row = 600, draw.floats(64).tobytes()
    path, names, kept = draw.path(f"rows.{draw.shape[:3]}"), [f"part/{i:05d}.bin" for i in range(count)], []
    if draw.shape.startswith("tar"):
        with tarfile.open(path, "w") as out:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = len(row)
                out.addfile(member, io.BytesIO(row))
    else:
        with zipfile.ZipFile(path, "w") as out:
            for name in names:
                out.writestr(name, row)

    def opened():
        return tarfile.open(path) if draw.shape.startswith("tar") else zipfile.ZipFile(path)

    def read(place):
        if fixed is True:
            kept.append(opened()) if not kept else None
        archive = kept[0] if kept else opened()
        data = archive.extractfile(names[place]) if hasattr(archive, "extractfile") else archive.open(names[place])
        return shaped(draw.shape, np.frombuffer(data.read(), np.float32), np.int64(place % 7))

    workers = 2 if fixed == "workers" else 1
    return loader(Places(count, read), batch_size=8, num_workers=workers)
