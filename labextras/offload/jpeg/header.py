"""The header of a JPEG file: its segments are read, and checked for what the kernels can decode.

No memory is allocated by what a header claims. Segments, tables and limits follow ITU T.81. Where the standard leaves
room, libjpeg-turbo's decisions hold (colour model, which oddities are errors). What the kernels do not decode is left
to the host's decoder (`labextras.offload.jpeg.host`), which judges it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from labextras.offload.jpeg.outcomes import Damaged, Unsupported
from labkit.common.file_formats import other_format

#: Larger images are not decoded; 64 megapixels, in pixels.
LIMIT_PIXELS = 1 << 26

#: libjpeg's longest side, in pixels.
LIMIT_SIDE = 65500

#: So many pixels a byte can stand for at most: one bit for a block, and chroma of a quarter of the blocks both ways.
_PIXELS_PER_BYTE = 8 * 64 * 16

#: The last marker of each process that the kernels do not decode (T.81, table B.1).
_PROCESSES = {0xC2: "progressive", 0xC3: "lossless", 0xC7: "hierarchical", 0xCF: "arithmetic"}

#: How often luma may have more samples than chroma, across and down.
_RATIOS = {(1, 1), (2, 1), (1, 2), (2, 2)}

_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")  # a search is quickest where the first byte is a single one
_PADDING = re.compile(rb"(?:\xff*\x00)*(?:\xff+(?=\xff)|\xff+\Z)?")
_RESTART = re.compile(rb"\xff[\xd0-\xd7]")

#: Markers (T.81, table B.1): start and end of an image, of a scan, of a frame; TEM and those of restarts are alone.
START, END, SCAN = 0xD8, 0xD9, 0xDA
FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
BARE = {0x01, *range(0xD0, 0xD8)}
# Tables, the arithmetic coder's settings, restart interval; DNL, a comment, application data.
_KNOWN = {0xC4, 0xCC, 0xDB, 0xDD, 0xDC, 0xFE, *range(0xE0, 0xF0)}


@dataclass(frozen=True, slots=True)
class Component:
    """One component of a frame: `h` and `v`, its sampling factors; its three tables, as the file has them."""

    h: int
    v: int
    quantiser: bytes
    dc: bytes
    ac: bytes


@dataclass(frozen=True, slots=True)
class Frame:
    """What the header of a file says that the kernels decode.

    Parameters
    ----------
    width, height : int
        In pixels.
    components : tuple of Component
        One (grey) or three.
    transform : int
        1: the components are Y, Cb and Cr. 0: they are grey, or R, G and B.
    start : int
        The first byte of the entropy-coded data, counted in the file.
    restart : int
        MCUs between restart markers; 0 without.
    """

    width: int
    height: int
    components: tuple[Component, ...]
    transform: int
    start: int
    restart: int

    @property
    def hmax(self) -> int:
        """The largest horizontal sampling factor."""
        return self.components[0].h

    @property
    def vmax(self) -> int:
        """The largest vertical sampling factor."""
        return self.components[0].v

    @property
    def mcus(self) -> tuple[int, int]:
        """Minimum coded units across and down."""
        return -(-self.width // (8 * self.hmax)), -(-self.height // (8 * self.vmax))


def parse(data: bytes) -> Frame:
    """Read the header of a JPEG file.

    Parameters
    ----------
    data : bytes
        The whole file.

    Raises
    ------
    Unsupported, Damaged
    """
    if not data:
        raise Damaged("format", "the file is empty", 0)
    if other := other_format(data):
        raise Damaged("format", f"this is a {other[0]} file, not a JPEG", 0)
    if not data.startswith(b"\xff\xd8"):
        raise Damaged("signature", "the file does not begin with the two bytes of a JPEG file, FF D8", 0)
    quantisers: dict[int, bytes] = {}
    tables: dict[int, bytes] = {}  # by class and number: 0x00.. for DC, 0x10.. for AC
    shape: tuple[int, int, int, bytes] | None = None
    restart, jfif, adobe = 0, False, None
    for marker, at, content in segments(data):
        if marker == SCAN and shape is not None:
            break
        if marker in FRAMES and shape is None:
            shape = _shape(content, marker, at, len(data))
        elif marker == 0xDB:
            add_tables(content, at, quantisers, "quantisation")
        elif marker == 0xC4:
            add_tables(content, at, tables, "Huffman")
        elif marker == 0xDD and len(content) == 2:
            restart = int.from_bytes(content, "big")
        elif marker == 0xE0:
            jfif = jfif or (len(content) >= 14 and content.startswith(b"JFIF\0"))
        elif marker == 0xEE and len(content) >= 12 and content.startswith(b"Adobe"):
            adobe = content[11]
        elif marker == 0xDD or marker not in _KNOWN:
            raise Damaged("marker", f"the segment {marker:02X} at byte {at} has no place in the header of a JPEG", at)
    components = _components(content, at, shape[3], quantisers, tables)
    end = at + 4 + len(content)
    rgb = adobe == 0 if adobe is not None else shape[3][::3] == b"RGB"
    transform = int(len(components) > 1 and (jfif or not rgb))
    frame = Frame(shape[0], shape[1], components, transform, end, restart)
    # Each block takes two codes of one bit at least.
    size, blocks = len(data) - end, math.prod(frame.mcus) * sum(part.h * part.v for part in components)
    if 2 * blocks > 8 * size:
        what = f"{frame.width}×{frame.height} pixels are {blocks:,} blocks"
        code = "truncated" if size < 64 else "size"
        raise Damaged(code, f"{what}, more than the {size:,} bytes of the scan can hold", shape[2])
    return frame


def segments(data: bytes, at: int = 2, bare: Collection[int] = BARE) -> Iterator[tuple[int, int, bytes]]:
    """Yield marker, first byte and content of each segment of a file; it never ends without an error.

    The data of a scan are passed over. Two markers come without content: a start, and an end of the image.

    Parameters
    ----------
    data : bytes
    at : int
        Where a marker begins.
    bare : collection of int
        Markers that no length follows; they are passed over.

    Raises
    ------
    Damaged
    """
    size = len(data)
    while at + 1 < size:
        marker = data[at + 1]
        if data[at] != 0xFF or marker == 0:
            found = data[at : at + 2].hex(" ").upper()
            raise Damaged("segment", f"the bytes {found} stand at byte {at}, where a marker should begin", at)
        if marker == 0xFF or marker in bare:
            at += 1 if marker == 0xFF else 2
            continue
        end = at + 2
        if marker not in (START, END):
            if at + 4 > size:
                break
            length = data[at + 2] << 8 | data[at + 3]
            if length < 2:
                what = f"the segment {marker:02X} at byte {at} has the length {length}; 2 is the least"
                raise Damaged("segment", what, at)
            end += length
            if end > size:
                break
        yield marker, at, data[at + 4 : end]
        at = scan_end(data, end) if marker == SCAN else end
    raise Damaged("truncated", f"the file ends after {size} bytes without an end-of-image marker", size)


def scan_end(data: bytes, start: int) -> int:
    """Return where the entropy-coded data end that begin at `start`: at the 255s before a marker, or with the file."""
    following = _MARKER.search(data, start)
    return start + len(data[start : following.start()].rstrip(b"\xff")) if following else len(data)


def add_tables(content: bytes, at: int, tables: dict[int, bytes], kind: str) -> None:
    """Add the tables of a segment: "quantisation" tables by their number, "Huffman" tables by class and number.

    Raises
    ------
    Damaged
        A table is not whole.
    """
    begin, huffman = 0, kind == "Huffman"
    while begin < len(content):
        number = content[begin]
        size = 16 + sum(content[begin + 1 : begin + 17]) if huffman else 64 << (number >> 4)
        stop = begin + 1 + size
        if number & 0xEF > 3 or stop > len(content) or size > 16 + 256:
            raise Damaged("table", f"the {kind} tables at byte {at} are not whole", at + 4 + begin)
        tables[number if huffman else number & 15] = content[begin + 1 : stop]
        begin = stop


def _shape(content: bytes, marker: int, at: int, size: int) -> tuple[int, int, int, bytes]:
    """Return width, height, where the frame begins, and three bytes for each component."""
    length, parts = len(content), content[6:]
    if length < 9 or length != 6 + 3 * content[5]:
        raise Damaged("segment", f"the frame at byte {at} has {length} bytes, not 6 and 3 for each component", at)
    height, width = int.from_bytes(content[1:3], "big"), int.from_bytes(content[3:5], "big")
    if not 0 < width * height <= _PIXELS_PER_BYTE * size:
        raise Damaged("size", f"the frame at byte {at} is {width}×{height} pixels, in a file of {size} bytes", at)
    if width * height > LIMIT_PIXELS or max(width, height) > LIMIT_SIDE:
        most = f"the limits are {LIMIT_PIXELS:,} pixels, and {LIMIT_SIDE} for a side"
        raise Unsupported("large", f"{width}×{height} pixels; {most}", at)
    if marker > 0xC1:
        process = next(name for last, name in _PROCESSES.items() if marker <= last)
        raise Unsupported(process, f"{process} JPEG", at)
    if content[0] != 8:
        raise Unsupported("precision", f"{content[0]} bits for each sample; the kernels decode 8", at)
    if len(parts) not in (3, 9):
        kind = "CMYK or YCCK" if len(parts) == 12 else f"{len(parts) // 3} components"
        raise Unsupported("components", f"{kind}; the kernels decode grey, YCbCr and RGB", at)
    return width, height, at, parts


def _components(
    content: bytes, at: int, parts: bytes, quantisers: dict[int, bytes], tables: dict[int, bytes]
) -> tuple[Component, ...]:
    """Return the components in the order of the frame, with the tables that the scan names."""
    count = content[0] if content else 0
    if not 1 <= count <= 4 or len(content) != 4 + 2 * count:
        raise Damaged("segment", f"the scan at byte {at} has {len(content)} bytes for {count} components", at)
    names, slots = (content[first : 1 + 2 * count : 2] for first in (1, 2))
    if names != parts[::3] or len(set(names)) < count:
        raise Unsupported("scans", "components in several scans, in another order than the frame's, or of one name", at)
    factors = [(sampling >> 4, sampling & 15) for sampling in parts[1::3]]
    if count == 1:
        factors = [(1, 1)]  # alone in its scan: one block is one unit, whatever the factors say
    (h, v), *others = factors
    # A unit has 10 blocks at most.
    halved = all(a and b and others[0] == (a, b) and (h / a, v / b) in _RATIOS for a, b in others)
    if not halved or sum(a * b for a, b in factors) > 10:
        named = ", ".join(f"{a}x{b}" for a, b in factors)
        raise Unsupported("sampling", f"sampling factors {named}; chroma may be halved across, down, or both", at)
    components = []
    for (a, b), chosen, slot in zip(factors, parts[2::3], slots, strict=True):
        dc, ac = slot >> 4, 0x10 | slot & 15
        if chosen not in quantisers:
            raise Damaged("table", f"the scan at byte {at} needs quantisation table {chosen}: there is none", at)
        if dc not in tables or ac not in tables:
            raise Unsupported("tables", "a Huffman table is not in the file; the kernels know no standard ones", at)
        components.append(Component(a, b, quantisers[chosen], tables[dc], tables[ac]))
    return tuple(components)


def intervals(data: bytes, frame: Frame) -> list[tuple[int, int, int, int]]:
    """Return the independent stretches of the scan: first byte, end byte, first MCU, MCUs.

    Raises
    ------
    Damaged
        A restart marker is missing, or not the one whose turn it is.
    """
    across, down = frame.mcus
    total = across * down
    if not frame.restart or frame.restart >= total:
        return [(frame.start, len(data), 0, total)]
    stop = scan_end(data, frame.start)
    wanted = -(-total // frame.restart) - 1
    marks = [m.start() for m in _RESTART.finditer(data, frame.start, stop)][:wanted]
    for number, mark in enumerate(marks):
        if data[mark + 1] != 0xD0 + number % 8:
            raise Damaged("marker", f"restart marker {data[mark + 1] & 7} where {number % 8} is due", mark)
    if len(marks) < wanted:
        code = "marker" if stop < len(data) else "truncated"
        raise Damaged(code, f"{len(marks)} restart markers of {wanted} before the scan ends at byte {stop}", stop)
    starts = [frame.start, *(mark + 2 for mark in marks)]
    firsts = range(0, total, frame.restart)
    counts = [min(frame.restart, total - first) for first in firsts]
    return list(zip(starts, [*marks, len(data)], firsts, counts, strict=True))


def padding(data: bytes, at: int, end: int) -> int:
    """Return where the zeros and 255s end that begin at `at`, after the last block: before a marker, or `at` for none.

    Parameters
    ----------
    data : bytes
    at : int
        The first byte that no block uses.
    end : int
        Where the restart interval ends, or the file.
    """
    found = _PADDING.match(data, at, end)
    # Whatever else follows before the marker is no padding, nor is what stands before it.
    return found.end() if found and (found.end() == end or data[found.end()] == 0xFF) else at


def finish(data: bytes, at: int) -> None:
    """Walk from `at`, where the data of the last scan end, to the end-of-image marker.

    Raises
    ------
    Damaged
        There is none, or something stands in between that is no segment.
    """
    for marker, begin, _ in segments(data, at):
        if marker == END:
            return
        if marker not in _KNOWN:
            raise Damaged("marker", f"byte {begin} begins {marker:02X}, where the image should end", begin)
