"""A photo of the reader's own, as a file that the twins take apart step by step."""

from __future__ import annotations

import io
from pathlib import Path

from labextras.offload.jpeg.outcomes import Damaged, Unsupported
from labextras.offload.twins.baseline_jpeg import scan

#: Pixels of a side: the twins read about a million bits per second.
_LONGEST, _SHORTEST = 640, 16


def open_photo(path: str | Path) -> tuple[bytes, str]:
    """Return a JPEG file with the planes Y, Cb and Cr that the twins decode soon, and a sentence about it.

    A baseline file of at most 640 pixels a side is returned as it is. Any other whole JPEG file, progressive, grey, of
    four inks or larger, is stored anew: by Pillow, in RGB, as a baseline file of quality 90. The orientation that EXIF
    names is ignored, as TensorFlow ignores it.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    ValueError
        If the file is damaged, no JPEG, or less than 16 pixels high or wide: one sentence.
    OSError
        If it cannot be read.
    """
    from PIL import Image

    path = Path(path)
    data = path.read_bytes()
    try:
        frame, _ = scan(data)
        size, colours = (frame.width, frame.height), len(frame.components) == 3 and frame.transform == 1
        why = "" if colours else "has no planes Y, Cb and Cr"
        why = why or f"has {size[0]}×{size[1]} pixels" * (max(size) > _LONGEST)
    except Damaged as error:
        raise ValueError(f"{path}: {error.status().refusal}; allowed: a whole JPEG") from None
    except Unsupported as error:
        why = f"is another kind of JPEG ({error})"
    if why:
        try:
            image = Image.open(io.BytesIO(data)).convert("RGB")
        except (OSError, Image.DecompressionBombError) as error:
            raise ValueError(f"{path} {why}, and Pillow does not decode it: {error}") from None
        image.thumbnail((_LONGEST, _LONGEST))
        image.save(made := io.BytesIO(), "JPEG", quality=90)
        data, size = made.getvalue(), image.size
    if min(size) < _SHORTEST:
        raise ValueError(f"{path} has {size[0]}×{size[1]} pixels; allowed: {_SHORTEST} or more, both ways")
    done = f"{why}; stored anew as a baseline JPEG of {size[0]}×{size[1]} pixels" if why else "is taken as it is"
    return data, f"{path.name} {done}"
