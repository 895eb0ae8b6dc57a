"""JPEG files for the tests: a small baseline encoder for what others do not write, and a mutator."""

from __future__ import annotations

import functools
import io
import random
import struct

import numpy as np
import simplejpeg
from PIL import Image
from scipy.fft import dctn

from labextras.offload.jpeg import header, huffman

SAMPLINGS = {"444": (1, 1), "422": (2, 1), "420": (2, 2), "440": (1, 2), "rgb": (1, 1), "grey": (1, 1)}


def photo(width, height, seed=0):
    """Return an image, uint8 (height, width, 3), smooth in places, noisy in others."""
    rng = np.random.default_rng(seed)
    seeds = rng.integers(0, 256, (height // 6 + 2, width // 6 + 2, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(seeds).resize((width, height), Image.BICUBIC)).astype(np.int64)
    noise = rng.integers(-40, 41, (height, width, 3)) * (np.arange(width) % 24 > 11)[None, :, None]
    return (smooth + noise).clip(0, 255).astype(np.uint8)


def file(kind, width, height, quality, restart=0, seed=0, **more):
    """Return a JPEG file of one of `SAMPLINGS`, by the encoder that offers what is asked for."""
    image = photo(width, height, seed)
    if (kind == "440" and restart) or more:
        return encode(image, kind, quality, restart, **more)
    if not restart and kind != "rgb":
        if kind == "grey":
            return simplejpeg.encode_jpeg(image[:, :, :1].copy(), quality, "GRAY", "Gray")
        return simplejpeg.encode_jpeg(image, quality, colorsubsampling=kind)
    place = io.BytesIO()
    options = {"rgb": {"keep_rgb": True, "subsampling": 0}, "grey": {}}.get(kind)
    if options is None:
        options = {"subsampling": {"444": 0, "422": 1, "420": 2}[kind]}
    source = Image.fromarray(image).convert("L" if kind == "grey" else "RGB")
    source.save(place, "JPEG", quality=quality, restart_marker_blocks=restart, **options)
    return place.getvalue()


def progressive(width=48, height=40, mode="RGB", **options):
    """Return a file by Pillow: progressive where asked, CMYK where the mode says so."""
    place = io.BytesIO()
    Image.fromarray(photo(width, height)).convert(mode).save(place, "JPEG", **{"quality": 80, **options})
    return place.getvalue()


@functools.cache
def standard_tables():
    """Return the Huffman tables of ITU T.81 annex K as Pillow writes them: DC and AC, for luma and chroma each."""
    luma, chroma, _ = header.parse(progressive()).components
    return luma.dc, chroma.dc, luma.ac, chroma.ac


def segment(marker, payload):
    return bytes([0xFF, marker]) + struct.pack(">H", len(payload) + 2) + payload


def _quantiser(quality):
    base = 16 + 3 * np.add.outer(np.arange(8), np.arange(8)).reshape(64)
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return ((base * scale + 50) // 100).clip(1, 255)


def encode(
    image, kind="420", quality=90, restart=0, *, wide=False, huffman_tables=True, frame=0xC0, quantiser=None, app=b"",
    factors=None, ids=(1, 2, 3), tables=None, blocks=None,
):  # fmt: skip
    """Write a baseline file; `wide` for 16-bit quantisers; `tables` four Huffman tables; `blocks` in place of DCTs."""
    h, v = SAMPLINGS[kind]
    factors = factors or ([(1, 1)] if kind == "grey" else [(h, v), (1, 1), (1, 1)])
    values = image.astype(np.float64)
    if kind == "rgb":
        planes = [values[:, :, c] for c in range(3)]
        app = app or segment(0xEE, b"Adobe\0\x64\0\0\0\0\0")
    else:
        r, g, b = np.moveaxis(values, 2, 0)
        y = 0.299 * r + 0.587 * g + 0.114 * b
        planes = [y, 128 + (b - y) / 1.772, 128 + (r - y) / 1.402][: len(factors)]
    hmax, vmax = max(a for a, _ in factors), max(b for _, b in factors)
    down, across = -(-image.shape[0] // (8 * vmax)), -(-image.shape[1] // (8 * hmax))
    steps = _quantiser(quality) if quantiser is None else np.asarray(quantiser)
    if blocks is None:
        blocks = []
        for plane, (a, b) in zip(planes, factors, strict=True):
            room = ((0, down * 8 * vmax - plane.shape[0]), (0, across * 8 * hmax - plane.shape[1]))
            full = np.pad(plane, room, "edge").reshape(down * 8 * b, vmax // b, across * 8 * a, hmax // a).mean((1, 3))
            tiles = full.reshape(down * b, 8, across * a, 8).swapaxes(1, 2)
            blocks.append(np.rint(dctn(tiles - 128, axes=(2, 3), norm="ortho").reshape(*tiles.shape[:2], 64) / steps))
    tables = tables or standard_tables()
    number = [0 if c == 0 or kind == "rgb" else 1 for c in range(len(factors))]
    out = b"\xff\xd8" + app
    ordered = steps[huffman.ZIGZAG]
    out += segment(0xDB, bytes([16 * wide]) + ordered.astype(">u2" if wide else "u1").tobytes())
    shape = struct.pack(">BHHB", 8, image.shape[0], image.shape[1], len(factors))
    out += segment(frame, shape + b"".join(bytes([ids[i], 16 * a + b, 0]) for i, (a, b) in enumerate(factors)))
    if huffman_tables:
        out += b"".join(segment(0xC4, bytes([n]) + t) for n, t in zip((0, 1, 16, 17), tables, strict=True))
    if restart:
        out += segment(0xDD, struct.pack(">H", restart))
    scan = b"".join(bytes([ids[i], 17 * n]) for i, n in enumerate(number))
    out += segment(0xDA, bytes([len(factors)]) + scan + b"\0\x3f\0")
    return out + _scan(blocks, factors, number, tables, across, across * down, restart) + b"\xff\xd9"


def _codes(table):
    code, found, symbols = 0, {}, iter(table[16:])
    for length, count in enumerate(table[:16], 1):
        for _ in range(count):
            found[next(symbols)] = format(code, f"0{length}b")
            code += 1
        code <<= 1
    return found


def _value(number):
    size = abs(number).bit_length()
    return size, format(number if number > 0 else number + (1 << size) - 1, f"0{size}b") if size else ""


def _scan(blocks, factors, number, tables, across, mcus, restart):
    books = [_codes(table) for table in tables]
    ordered = [b[:, :, huffman.ZIGZAG].astype(int).tolist() for b in blocks]
    step, out = restart or mcus, []
    for start in range(0, mcus, step):
        bits, mean = [], [0] * len(factors)
        for mcu in range(start, min(start + step, mcus)):
            for c, (h, v) in enumerate(factors):
                for y in range(mcu // across * v, (mcu // across + 1) * v):
                    for x in range(mcu % across * h, (mcu % across + 1) * h):
                        block = ordered[c][y][x]
                        size, text = _value(block[0] - mean[c])
                        mean[c] = block[0]
                        bits += [books[number[c]][size], text]
                        _ac(block, books[2 + number[c]], bits)
        text = "".join(bits)
        text += "1" * (-len(text) % 8)
        data = int(text, 2).to_bytes(len(text) // 8, "big")
        out.append(data.replace(b"\xff", b"\xff\0"))
    return b"".join(part + (bytes([0xFF, 0xD0 + i % 8]) if i < len(out) - 1 else b"") for i, part in enumerate(out))


def _ac(block, book, bits):
    run = 0
    for number in block[1:]:
        if number == 0:
            run += 1
            continue
        while run > 15:
            bits.append(book[0xF0])
            run -= 16
        size, text = _value(number)
        bits += [book[run << 4 | size], text]
        run = 0
    if run:
        bits.append(book[0])


def mutate(data, rng: random.Random):
    """Return the file with one to four changes of a kind that damage, or a hostile hand, makes."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randrange(len(out)), rng.randint(1, 24)
        kind = rng.randrange(9)
        if kind == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, 0xD0, 0xD9, 0xDA, 0xC4))
        elif kind == 2:
            del out[at : at + length]
        elif kind == 3:
            out[at:at] = out[at : at + length]
        elif kind == 4:
            out[at:at] = bytes(rng.randrange(256) for _ in range(length))
        elif kind == 5:
            out[at : at + length] = bytes([rng.choice((0, 0xFF))]) * length
        elif kind == 6:
            del out[max(2, at) :]
        else:  # inside the header, where a byte says most
            place = rng.randrange(min(len(out), 640))
            out[place] = rng.randrange(256)
        if len(out) < 3:
            out += b"\xff\xd9\0"
    return bytes(out)


def expected(data):
    """Return TensorFlow's pixels, or None where it refuses."""
    import tensorflow as tf

    try:
        return tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE").numpy()
    except (tf.errors.InvalidArgumentError, tf.errors.ResourceExhaustedError):
        return None
