"""What the kernels do not decode, decoded on the host: with TensorFlow where this process has it, else with Pillow.

TensorFlow is never imported for it: a process without it (the card's) stays without it. Both give the same pixels.
"""

from __future__ import annotations

import io
import sys

import numpy as np

from labkit.offload import jpeg
from labkit.offload.jpeg import Damaged, Status


def decode(data: bytes, state: Status) -> tuple[np.ndarray | None, Status]:
    """Decode one file that the device left over.

    Parameters
    ----------
    data : bytes
    state : Status
        Why the device left it over.

    Returns
    -------
    image : ndarray of uint8, shape (height, width, 3), or None
    status : Status
        ``where`` is ``host`` with an image, ``none`` without; the code stays that of the device's reason.
    """
    try:
        jpeg.walk(data, 2)
    except Damaged as error:
        return None, Status(False, error.code, f"{state.text}; {error.text}", error.byte)
    tensorflow = sys.modules.get("tensorflow")
    try:
        if tensorflow is not None and hasattr(tensorflow, "io"):
            with tensorflow.device("CPU"):
                image = tensorflow.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE").numpy()
        else:
            image = pillow(data)
    except Exception as error:  # whatever a decoder says of a file that the kernels do not know either
        said = str(error).replace("{{function_node __wrapped__DecodeJpeg_device_/job:localhost/", "").splitlines()[0]
        return None, Status(False, state.code, f"{state.text}; the host's decoder refuses: {said}", state.byte)
    return image, Status(True, state.code, state.text, state.byte, "host")


def pillow(data: bytes) -> np.ndarray:
    """Decode with Pillow as TensorFlow does: CMYK becomes RGB by c · k / 255, in integers."""
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=["JPEG"]) as image:
        if image.mode != "CMYK":
            return np.array(image.convert("RGB"))
        inks = np.array(image).astype(np.int32)
        # Pillow turns Adobe's inverted inks round; TensorFlow reads them as they are.
        inks = 255 - inks if "adobe" in image.info else inks
    product = inks[:, :, :3] * inks[:, :, 3:]
    return (product // 255).astype(np.uint8)
