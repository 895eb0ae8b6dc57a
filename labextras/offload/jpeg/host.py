"""Files that the kernels do not decode are decoded on the host by libjpeg-turbo (``simplejpeg``), if they are whole.

Every process uses the same decoder, so the card and a notebook agree, with or without TensorFlow. Its "slow integer"
inverse DCT and "fancy" upsampling give TensorFlow's pixels of a whole file. Of a file that is not whole, decoders give
different pixels (some smooth a progressive file without its last scans, some do not), so such a file is refused. Where
libjpeg-turbo would warn and go on, decoding stops here. Every scan must be there, too, which libjpeg-turbo does not
check.
"""

from __future__ import annotations

import re

import numpy as np

from labextras.offload.jpeg import header
from labextras.offload.jpeg.outcomes import Damaged, Refusal, Status, Unsupported

#: Kinds of JPEG files that simplejpeg may decode, and why they are refused all the same.
_REFUSED = {
    "arithmetic": "no decoder can tell whether such a file is whole",
    "lossless": "TensorFlow does not decode such files",
}


def decode(data: bytes, state: Status) -> tuple[np.ndarray | None, Status]:
    """Decode one file that the device does not decode.

    Sampling factors that TurboJPEG has no name for (4:2:0 in CMYK, 3:1:1) are refused, although TensorFlow decodes
    them: it would be unknown whether the file is whole. Arithmetic-coded files are refused because their decoder never
    warns, lossless ones because TensorFlow does not decode them. Without simplejpeg nothing is decoded: it would be
    unknown whether a file is whole. One damage stays hidden, as it does from every decoder: bits lost
    in the middle of a scan, if the rest happens to be a whole scan again.

    Parameters
    ----------
    data : bytes
    state : Status
        Why the device does not decode it.

    Returns
    -------
    image : ndarray of uint8, shape (height, width, 3), or None
    status : Status
        ``where`` is ``host`` with an image, ``none`` without. The code stays that of the device's reason, or says how
        the file is damaged.
    """
    try:
        if state.code in _REFUSED:
            raise Unsupported(state.code, _REFUSED[state.code], state.byte)
        return pixels(data, *whole(data)), Status(True, state.code, state.text, state.byte, "host")
    except Refusal as error:
        return None, Status(False, error.code, f"{state.text}; {error.text}", error.byte)
    except ImportError:
        why = "the host decodes such files with simplejpeg, which is not installed: pip install simplejpeg"
        return None, Status(False, state.code, f"{state.text}; {why}", state.byte)
    except Exception as error:  # simplejpeg makes a ValueError or a KeyError of what libjpeg-turbo reports
        reason = re.sub(r"^tj\w+\(\): ", "", str(error).split("\n", 1)[0])
        code = "data" if re.match("Corrupt|Premature|Inconsistent|Invalid", reason) else state.code
        return None, Status(False, code, f"{state.text}; the host's decoder refuses: {reason}", state.byte)


def pixels(data: bytes, count: int, adobe: bool) -> np.ndarray:
    """Return the RGB pixels of a whole file, uint8 (height, width, 3), as TensorFlow has them.

    Four inks become RGB by c · k / 255, in integers; inks are inverted where no Adobe segment says that they are.

    Raises
    ------
    ImportError
        If simplejpeg is not there.
    ValueError
        At the first warning of libjpeg-turbo.
    """
    import simplejpeg

    if count != 4:
        return simplejpeg.decode_jpeg(data, "RGB", strict=True)
    inks = simplejpeg.decode_jpeg(data, "CMYK", strict=True).astype(np.int32)
    inks = inks if adobe else 255 - inks
    return (inks[:, :, :3] * inks[:, :, 3:] // 255).astype(np.uint8)


def whole(data: bytes) -> tuple[int, bool]:
    """Walk over all segments to the end-of-image marker.

    Returns
    -------
    count : int
        Components.
    adobe : bool
        There is an Adobe segment.

    Raises
    ------
    Damaged
        The file ends before, or without a scan of each component; in a progressive file, without the last bit of each
        coefficient. ITU T.81 lets an encoder leave these scans out, but a file that was cut between two scans looks the
        same.
    """
    adobe = progressive = False
    ids = b""  # the names of the components, which may not be different ones
    depth: list[list[int]] = []  # of each component the lowest bit that came, for each of its 64 coefficients
    for marker, at, body in header.segments(data):
        if marker == header.END:
            end = at
            break
        if marker == 0xEE and len(body) >= 12 and body.startswith(b"Adobe"):
            adobe = True
        elif marker in header.FRAMES:
            progressive = marker & 3 == 2
            ids, depth = body[6::3], [[99] * 64 for _ in body[6::3]]
        elif marker == header.SCAN and body:
            names, last = body[1 : 1 + 2 * body[0] : 2], body[1 + 2 * body[0] :]
            first, after, low = (last[0], last[1] + 1, last[2] & 15) if progressive and len(last) > 2 else (0, 64, 0)
            for place, name in enumerate(names):
                # A name that a scan has twice is that of two components, in their order.
                owners = [bits for one, bits in zip(ids, depth, strict=True) if one == name]
                for bits in owners[names[:place].count(name) :][:1]:
                    bits[first:after] = [low] * len(bits[first:after])
    short = [str(name) for name, bits in zip(ids, depth, strict=True) if any(bits)]
    if short or not depth:
        which = f"component {' and '.join(short)}" if short else "any component"
        raise Damaged("truncated", f"the image ends at byte {end}, before the last scan of {which}", end)
    return len(depth), adobe
