"""The header of a JPEG file: its segments are read, and checked for what the kernels can decode.

No memory is allocated by what a header claims. Segments, tables and limits follow ITU T.81. Where the standard leaves
room, libjpeg-turbo's decisions hold (colour model, missing Huffman tables, which oddities are errors).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from labkit.offload.jpeg.outcomes import Damaged, Unsupported

#: Larger images are not decoded; 64 megapixels, in pixels.
LIMIT_PIXELS = 1 << 26

#: libjpeg's longest side, in pixels.
LIMIT_SIDE = 65500

#: Huffman tables of ITU T.81 annex K, which Motion JPEG leaves out: 16 counts by length of code, then symbols.
STANDARD_DC = (
    bytes.fromhex("00010501010101010100000000000000") + bytes(range(12)),
    bytes.fromhex("00030101010101010101010000000000") + bytes(range(12)),
)
STANDARD_AC = (
    bytes.fromhex(
        "0002010303020403050504040000017d"
        "01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a2526"
        "2728292a3435363738393a434445464748494a535455565758595a636465666768696a737475767778797a838485"
        "868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6"
        "d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9fa"
    ),
    bytes.fromhex(
        "00020102040403040705040400010277"
        "000102031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f1171819"
        "1a262728292a35363738393a434445464748494a535455565758595a636465666768696a737475767778797a8283"
        "8485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4"
        "d5d6d7d8d9dae2e3e4e5e6e7e8e9eaf2f3f4f5f6f7f8f9fa"
    ),
)

#: What the lowest four bits of a frame's marker say (T.81, table B.1): the coder, the order of frames, the process.
_CODERS, _ORDERS, _MODES = ("", "arithmetic-coded"), ("", "hierarchical"), ("", "", "progressive", "lossless")
#: The first bytes of other formats that TensorFlow's decode_jpeg reads, and the kernels do not.
_OTHERS = {"PNG": b"\x89PNG", "GIF": b"GIF8"}

_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")  # a search is quickest where the first byte is a single one
_PADDING = re.compile(rb"(?:\xff*\x00)*(?:\xff+(?=\xff)|\xff+\Z)?")
_RESTART = re.compile(rb"\xff[\xd0-\xd7]")

# Markers that no length follows: TEM and the restart markers; then those of segments, frames left out.
_BARE = {0x01, *range(0xD0, 0xD8)}
_SKIPPED = {0xDC, 0xFE, *range(0xE0, 0xF0)}  # DNL, a comment, application data
_KNOWN = {0xC4, 0xCC, 0xDA, 0xDB, 0xDD, *_SKIPPED}


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


def parse(data: bytes, limit_pixels: int = LIMIT_PIXELS) -> Frame:
    """Read the header of a JPEG file.

    Parameters
    ----------
    data : bytes
        The whole file.
    limit_pixels : int
        More are refused.

    Raises
    ------
    Unsupported, Damaged
    """
    quantisers: dict[int, bytes] = {}
    tables: dict[int, bytes] = {}  # by class and number: 0x00.. for DC, 0x10.. for AC
    shape: tuple[int, int, int, bytes] | None = None
    restart, jfif, adobe = 0, False, None
    for marker, at, content in _segments(data):
        if marker == 0xDB:
            _quantisers(content, at, quantisers)
        elif marker == 0xC4:
            _huffman(content, at, tables)
        elif marker == 0xDD:
            if len(content) != 2:
                length = len(content) + 2
                raise Damaged("segment", f"the restart interval at byte {at} has the length {length}; it is 4", at)
            restart = int.from_bytes(content, "big")
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            if shape is not None:
                raise Damaged("marker", f"a second frame begins at byte {at}", at)
            shape = _shape(content, marker, at, len(data), limit_pixels)
        elif marker == 0xE0:
            jfif = jfif or (len(content) >= 14 and content.startswith(b"JFIF\0"))
        elif marker == 0xEE:
            if len(content) >= 12 and content.startswith(b"Adobe"):
                adobe = content[11]
        elif marker == 0xDA:
            if shape is None:
                raise Damaged("marker", f"the scan at byte {at} comes before its frame", at)
            break
        elif marker not in _KNOWN:
            raise Damaged("marker", f"byte {at} begins a segment {marker:02X}, which no JPEG decoder knows", at)
    components = _components(content, at, shape, quantisers, tables)
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


def _segments(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield marker, first byte and content of each segment; it never ends without an error."""
    if not data:
        raise Damaged("format", "the file is empty", 0)
    for name, begin in _OTHERS.items():
        if data.startswith(begin):
            raise Damaged("format", f"this is a {name} file, not a JPEG", 0)
    if data[:2] != b"\xff\xd8":
        raise Damaged("signature", "the file does not begin with the two bytes of a JPEG file, FF D8", 0)
    at, size = 2, len(data)
    while at + 1 < size:
        if data[at] != 0xFF or data[at + 1] == 0:
            raise Damaged("segment", f"byte {at} is {data[at]:02X}, where a marker should begin", at)
        marker = data[at + 1]
        if marker == 0xFF or marker in _BARE:
            at += 1 if marker == 0xFF else 2
            continue
        if marker in (0xD8, 0xD9):
            what = f"a second file begins at byte {at}, inside the header"
            raise Damaged("marker", what if marker == 0xD8 else f"the file ends at byte {at} without an image", at)
        if at + 4 > size:
            break
        length = data[at + 2] << 8 | data[at + 3]
        end = at + 2 + length
        if length < 2:
            what = f"the segment {marker:02X} at byte {at} has the length {length}; 2 is the least"
            raise Damaged("segment", what, at)
        if end > size:
            raise Damaged("truncated", f"the file ends after {size} bytes, inside segment {marker:02X}", size)
        yield marker, at, data[at + 4 : end]
        at = end
    raise Damaged("truncated", f"the file ends after {size} bytes, inside its header", size)


def _quantisers(content: bytes, at: int, quantisers: dict[int, bytes]) -> None:
    begin = 0
    while begin < len(content):
        wide, number = content[begin] >> 4, content[begin] & 15
        stop = begin + 1 + (128 if wide else 64)
        if wide > 1 or number > 3 or stop > len(content):
            raise Damaged("table", f"the quantisation tables at byte {at} are not whole", at + 4 + begin)
        quantisers[number] = content[begin + 1 : stop]
        begin = stop


def _huffman(content: bytes, at: int, tables: dict[int, bytes]) -> None:
    begin = 0
    while begin < len(content):
        number, symbols = content[begin], sum(content[begin + 1 : begin + 17])
        stop = begin + 17 + symbols
        if number & 0xEF > 3 or stop > len(content) or symbols > 256:
            raise Damaged("table", f"the Huffman tables at byte {at} are not whole", at + 4 + begin)
        tables[number] = content[begin + 1 : stop]
        begin = stop


def _shape(content: bytes, marker: int, at: int, size: int, limit: int) -> tuple[int, int, int, bytes]:
    """Return width, height, where the frame begins, and three bytes for each component."""
    length, parts = len(content), content[6:]
    if length < 6 or length != 6 + 3 * content[5]:
        raise Damaged("segment", f"the frame at byte {at} has {length} bytes, not 6 and 3 for each component", at)
    height, width = int.from_bytes(content[1:3], "big"), int.from_bytes(content[3:5], "big")
    pixels, count = width * height, len(parts) // 3
    if not pixels or not count:
        raise Damaged("size", f"the frame at byte {at} is {width}×{height} pixels in {count} components", at)
    if max(width, height) > LIMIT_SIDE:
        raise Damaged("size", f"the frame at byte {at} is {width}×{height} pixels; a side has {LIMIT_SIDE} at most", at)
    if any(not (1 <= s >> 4 <= 4 and 1 <= s & 15 <= 4) for s in parts[1::3]):
        raise Damaged("segment", f"the frame at byte {at} has a sampling factor that is not 1 to 4", at)
    # The shortest code is one bit for each block of 64 values; arithmetic coding may need a tenth of that.
    most = 64 * 8 * max(h >> 4 for h in parts[1::3]) * max(v & 15 for v in parts[1::3]) * size
    if pixels > most * (10 if marker >= 0xC9 else 1):
        raise Damaged("size", f"the frame at byte {at} is {width}×{height}, more than {size} bytes can hold", at)
    if pixels > limit:
        raise Unsupported("large", f"{width}×{height} pixels are more than the limit of {limit:,}", at)
    process = " ".join(filter(None, (_CODERS[marker >> 3 & 1], _ORDERS[marker >> 2 & 1], _MODES[marker & 3])))
    if process:
        raise Unsupported(process.split()[0].removesuffix("-coded"), f"{process} JPEG", at)
    if content[0] != 8:
        raise Unsupported("precision", f"{content[0]} bits for each sample; the kernels decode 8", at)
    if count not in (1, 3):
        kind = "CMYK or YCCK" if count == 4 else f"{count} components"
        raise Unsupported("components", f"{kind}; the kernels decode grey, YCbCr and RGB", at)
    return width, height, at, parts


def _components(
    content: bytes, at: int, shape: tuple[int, int, int, bytes], quantisers: dict[int, bytes], tables: dict[int, bytes]
) -> tuple[Component, ...]:
    """Return the components in the order of the frame, with the tables that the scan names."""
    parts = shape[3]
    count = content[0] if content else 0
    if not 1 <= count <= 4 or len(content) != 4 + 2 * count:
        raise Damaged("segment", f"the scan at byte {at} has {len(content)} bytes for {count} components", at)
    names, slots = (content[first : 1 + 2 * count : 2] for first in (1, 2))
    ids = parts[::3]
    if any(i not in ids for i in names):
        raise Damaged("segment", f"the scan at byte {at} names a component that the frame does not have", at)
    if names != ids:
        raise Unsupported("scans", "components in several scans, or in another order than the frame's", at)
    if len(set(ids)) < len(ids):
        raise Unsupported("scans", "two components of one name", at)
    factors = [(s >> 4, s & 15) for s in parts[1::3]]
    if len(factors) == 1:
        factors = [(1, 1)]  # alone in its scan: one block is one unit, whatever the factors say
    (h, v), others = factors[0], factors[1:]
    if sum(a * b for a, b in factors) > 10:
        raise Damaged("segment", f"the scan at byte {at} has more than 10 blocks in a unit", at)
    if others and (others[0] != others[1] or (h / others[0][0], v / others[0][1]) not in _RATIOS):
        named = ", ".join(f"{a}x{b}" for a, b in factors)
        text = f"sampling factors {named}; chroma may be halved across, down, or both"
        raise Unsupported("sampling", text, at)
    components = []
    for number, (a, b) in enumerate(factors):
        chosen, dc, ac = parts[3 * number + 2], slots[number] >> 4, slots[number] & 15
        if chosen not in quantisers:
            raise Damaged("table", f"component {ids[number]} needs quantisation table {chosen}: there is none", at)
        kept = []
        for kind, slot, standard in ((0, dc, STANDARD_DC), (0x10, ac, STANDARD_AC)):
            if kind | slot not in tables and slot > 1:
                raise Damaged("table", f"component {ids[number]} needs Huffman table {slot}: there is none", at)
            kept.append(tables.get(kind | slot) or standard[slot])  # as libjpeg-turbo does for Motion JPEG
        components.append(Component(a, b, quantisers[chosen], *kept))
    return tuple(components)


_RATIOS = {(1, 1), (2, 1), (1, 2), (2, 2)}


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
    following = _MARKER.search(data, frame.start)
    stop = following.start() if following else len(data)
    if following:  # any number of 255s may stand before a marker
        stop = frame.start + len(data[frame.start : stop].rstrip(b"\xff"))
    wanted = -(-total // frame.restart) - 1
    marks = [m.start() for m in _RESTART.finditer(data, frame.start, stop)][:wanted]
    for number, mark in enumerate(marks):
        if data[mark + 1] != 0xD0 + number % 8:
            raise Damaged("marker", f"restart marker {data[mark + 1] & 7} where {number % 8} is due", mark)
    if len(marks) < wanted:
        code = "marker" if following else "truncated"
        raise Damaged(code, f"{len(marks)} restart markers of {wanted} before the scan ends at byte {stop}", stop)
    starts = [frame.start, *(mark + 2 for mark in marks)]
    firsts = range(0, total, frame.restart)
    return [
        (start, end, first, min(frame.restart, total - first))
        for start, end, first in zip(starts, [*marks, len(data)], firsts, strict=True)
    ]


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
    size = len(data)
    while at + 1 < size:
        marker = data[at + 1]
        if data[at] != 0xFF or marker == 0:
            raise Damaged("data", f"bytes that belong to no segment begin at byte {at}", at)
        if marker == 0xD9:
            return
        if marker == 0xFF:
            at += 1
        elif marker in _BARE:
            at += 2
        elif marker in _KNOWN and marker != 0xDA and at + 4 <= size:
            at += 2 + max(2, data[at + 2] << 8 | data[at + 3])
        else:
            raise Damaged("marker", f"byte {at} begins {marker:02X}, where the image should end", at)
    raise Damaged("truncated", f"the file ends after {size} bytes without an end-of-image marker", size)
