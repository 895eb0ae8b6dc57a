"""Photos are decoded in the thread that trains, or in one worker, although cores are free.

Source: own, the default of a DataLoader
Cause: prep: decoding beside the training
Remedy: num_workers, as many as cores
Never: whole batches, chunks, tokens
"""

from _draw import Draw
from _places import Places, loader, shaped

SHAPES = ("Pillow", "OpenCV by name", "Pillow with one worker")
STEP_MS = 12
CAUSE = {"prep"}
OP = r"decode|resize|imdecode|convert|__getitem__"
SAYS = r"num_workers|prefetch_factor|faster decoder"
NEVER = r"whole batches|chunks|tokenise|persistent_workers"
ADVICE = {r"num_workers|workers \(": True}


def make(folder, seed, fixed=False):
    """Return batches of photos; `fixed` lets two workers decode them."""
    import io

    import cv2
    import numpy as np
    from PIL import Image

    draw = Draw(__file__, folder, seed, SHAPES)
    files = []
    for _ in range(16):
        out = io.BytesIO()
        Image.fromarray(draw.pixels(draw.choice([320, 400]))).save(out, "JPEG")
        files.append(out.getvalue())

    def photo(place):
        data = files[place % len(files)]
        if draw.shape.startswith("OpenCV"):
            pixels = cv2.resize(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), (96, 96))
        else:
            pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB").resize((96, 96)))
        return shaped(draw.shape, pixels, place % 10)

    workers = 2 if fixed else int(draw.shape.endswith("worker"))
    return loader(Places(2048, photo), batch_size=8, num_workers=workers)
