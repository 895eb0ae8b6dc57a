"""JPEG files decoded on an OpenCL device, bit for bit as ``tf.image.decode_jpeg(dct_method="INTEGER_ACCURATE")`` does.

Baseline and extended files of 8 bits: grey, YCbCr and RGB, chroma whole or halved across, down or both. All other JPEG
files are decoded on the host and counted. A damaged file gets a status and harms no other file. The orientation that
EXIF names is ignored, as TensorFlow ignores it. Padding is ignored, too, but the status reports it; see `Decoder`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.common.numbers import whole
from labkit.offload.jpeg import frames, header, host, huffman
from labkit.offload.jpeg.header import Frame
from labkit.offload.jpeg.outcomes import Damaged, Status, Unsupported
from labkit.offload.opencl.engine import Engine

#: Blocks of 64 coefficients decoded at a time on a CPU, 16 MB: near its cache, and enough images for its cores.
CPU_BLOCKS, OTHER_BLOCKS = 1 << 17, 1 << 22

#: What the code of jpeg_entropy.cl means.
_FAULTS = {
    1: ("truncated", "the data end before the image does"),
    2: ("data", "bits that are no Huffman code"),
    3: ("data", "a run of zeros leaves its block"),
    4: ("data", "data are left over after the last block"),
    5: ("data", "a mean value beyond 16 bits"),
}
LEFT_OVER = 4


@dataclass(frozen=True, eq=False)
class Pixels:
    """A batch of images on the device, valid until the decoder's next batch.

    Parameters
    ----------
    pixels : pyopencl.Buffer
        uint8, one interleaved RGB image after the other, rows without gaps.
    layout : pyopencl.Buffer
        int32 (n, 32), see `labkit.offload.jpeg.frames`; width 0 where an image failed or is not on the device.
    status : list of Status
        ``where`` is ``host`` and ``ok`` False for files that only the host decodes.
    """

    pixels: Any
    layout: Any
    status: list[Status]


@dataclass(frozen=True, eq=False)
class Decoded:
    """A batch of images on the host.

    Parameters
    ----------
    images : list of ndarray of uint8, shape (height, width, 3), or None
        None where the file could not be decoded.
    status : list of Status
    """

    images: list[np.ndarray | None]
    status: list[Status]

    @property
    def fallbacks(self) -> int:
        """How many files the host decoded."""
        return sum(s.where == "host" for s in self.status)

    def __repr__(self) -> str:
        """Return the counts, and a line for each file that the device did not decode, or found padding in."""
        count = Counter(s.where for s in self.status)
        text = f"{len(self.status)} files: {count['device']} decoded on the device, {count['host']} on the host"
        lines = [f"{text}, {count['none']} not decoded"]
        lines += [f"  {i}: {s}" for i, s in enumerate(self.status) if s.where != "device" or s.text]
        return "\n".join(lines)


def decode(images: Sequence[bytes], engine: Engine | None = None) -> Decoded:
    """Decode JPEG files on a device: ``Decoder(engine).decode(images)``."""
    return Decoder(engine).decode(images)


class Decoder:
    """A device that decodes batches of JPEG files, one batch at a time; its buffers are kept from batch to batch.

    TensorFlow decodes what it can of a damaged file and does not report the damage; this decoder reports it. Zeros and
    255s after the last block of a scan, or before a restart marker, are padding: no pixel changes, so the status is
    clean and says how many bytes they are. Other bytes there mean that blocks before them are lost: the file is
    damaged, even where the image looks whole. A file is damaged, too, where a restart marker is missing or is not the
    next one in order: it is unknown which blocks follow.

    Parameters
    ----------
    engine : Engine, optional
        By default one on the first device.
    limit_pixels : int
        A file of more is not decoded at all.
    task : bool
        Launch the single-work-item variants of the kernels: the same result, for a device that pipelines.
    """

    def __init__(
        self, engine: Engine | None = None, limit_pixels: int = header.LIMIT_PIXELS, task: bool = False
    ) -> None:
        import pyopencl as cl

        self.engine = Engine() if engine is None else engine
        self.limit_pixels, self.task = whole("limit_pixels", limit_pixels, least=1), task
        ending = "_task" if task else ""
        self._kernels = {n: self.engine.kernel(n + ending) for n in ("jpeg_entropy", "jpeg_idct", "jpeg_color")}
        self._cpu = bool(self.engine.device.type & cl.device_type.CPU)
        self._buffers: dict[str, Any] = {}

    def decode(self, images: Sequence[bytes]) -> Decoded:
        """Decode a batch of files.

        Parameters
        ----------
        images : sequence of bytes
            Whole files.

        Returns
        -------
        Decoded
            One entry for each file, in order.

        Raises
        ------
        TypeError
            If an entry is not bytes.
        ValueError
            If the batch decoded takes more than 2 GB.
        """
        found, records, states = self._prepare(images)
        result: list[np.ndarray | None] = [None] * len(images)
        if records is not None:
            self._launch(records, found)
            self._judge(images, found, records, states)
            with self.engine.mapped(self._buffers["rgb"], records.rgb_bytes) as pixels:
                for i, frame, row in zip(found.kept, found.frames, records.layout.tolist(), strict=True):
                    if states[i].ok:
                        # An array for each image: Python reuses memory of this size, and returns that of a batch.
                        image = np.empty((frame.height, frame.width, 3), np.uint8)
                        image.reshape(-1)[:] = pixels[row[4] : row[4] + image.size]
                        result[i] = image
        for i, state in enumerate(states):
            if state.where == "host":
                result[i], states[i] = host.decode(images[i], state)
        return Decoded(result, states)

    def rgb(self, images: Sequence[bytes]) -> Pixels:
        """Decode a batch and leave its RGB images on the device; see `Pixels`."""
        found, records, states = self._prepare(images)
        layout = np.zeros((max(1, len(images)), frames.LAYOUT), np.int32)
        if records is not None:
            self._launch(records, found)
            records.layout[self._judge(images, found, records, states)] = 0
            layout[found.kept] = records.layout
        return Pixels(self._room("rgb", 1), self._put("out_layout", layout), states)

    # -- from files to records ---------------------------------------------------

    def _prepare(self, images: Sequence[bytes]) -> tuple[_Found, frames.Records | None, list[Status]]:
        found, states = _Found(), []
        for number, data in enumerate(images):
            if not isinstance(data, bytes):
                raise TypeError(f"file {number} is {type(data).__name__}; a decoder takes bytes")
            try:
                found.add(number, data, header.parse(data, self.limit_pixels))
                states.append(Status(True, where="device"))
            except Unsupported as error:
                states.append(error.status("none" if error.code == "large" else "host"))
            except Damaged as error:
                states.append(error.status())
        if not found.kept:
            return found, None, states
        size = CPU_BLOCKS if self._cpu else OTHER_BLOCKS
        return found, frames.lay_out(found.frames, np.array(found.numbers, np.int32), size), states

    # -- on the device -------------------------------------------------------------

    def _launch(self, records: frames.Records, found: _Found) -> None:
        """Enqueue everything for a batch."""
        streams = self._pack(found)
        lookups, codes = (self._put(n, a) for n, a in zip(("lookups", "codes"), found.codes(), strict=True))
        quantisers = self._put("quantisers", found.steps())
        table = np.array(found.intervals, np.int32)
        intervals = self._put("intervals", table)
        frame, layout = self._put("frames", records.frames), self._put("layout", records.layout)
        coefficients = self._room("coefficients", records.blocks * 128)
        masks, results = self._room("masks", records.blocks), self._room("results", table.shape[0] * 32)
        planes = self._room("planes", records.plane_bytes)
        pixels = self._room("rgb", records.rgb_bytes)
        bounds = np.searchsorted(table[:, 0], np.arange(len(records.frames) + 1)).tolist()
        for begin, end in records.chunks:
            first, jobs, count = bounds[begin], bounds[end] - bounds[begin], end - begin
            arguments = streams, lookups, codes, frame, intervals, coefficients, masks, results
            self._run("jpeg_entropy", (jobs,), *arguments, first, jobs)
            rows = int((records.layout[begin:end, [11, 19, 27]].max() + 7) // 8)
            arguments = coefficients, masks, quantisers, frame, layout, planes
            self._run("jpeg_idct", (rows, 3 * count), *arguments, begin, count, rows)
            strips = int((records.layout[begin:end, 1].max() + 7) // 8)
            self._run("jpeg_color", (strips, count), planes, layout, pixels, begin, count, strips)

    def _judge(
        self, images: Sequence[bytes], found: _Found, records: frames.Records, states: list[Status]
    ) -> np.ndarray:
        """Read the results of the entropy kernel; set the status of damaged files; return their places."""
        results = self.engine.download(self._buffers["results"], np.empty((len(found.intervals), 8), np.int32))
        owner = np.array([row[0] for row in found.intervals])
        bad: dict[int, Damaged] = {}
        padded: dict[int, tuple[int, int]] = {}
        for i in np.flatnonzero(results[:, 0])[::-1].tolist():  # the first fault of a file is reported
            code, text = _FAULTS[int(results[i, 0])]
            mcu = found.intervals[i][3]
            n = int(owner[i])
            move = found.frames[n].start - found.offsets[n]
            at = int(results[i, 1]) + move
            data = images[found.kept[n]]
            if results[i, 0] == LEFT_OVER:
                end = header.padding(data, at, found.intervals[i][2] + move)
                if end > at:
                    results[i, 1] = end - move  # where the walk to the end of the image begins
                    count = len(data[at:end].rstrip(b"\xff"))  # 255s at the end belong to the marker
                    if count:
                        padded[n] = padded.get(n, (0, 0))[0] + count, at
                    continue
            if code == "truncated" and at + 1 < len(data):
                code, text = "data", "a marker stands where the data of the image should go on"
            text += f", in unit {mcu + int(results[i, 2])} of {math.prod(found.frames[n].mcus)}"
            bad[n] = Damaged(code, text, at)
        ends = np.flatnonzero(np.diff(owner, append=len(found.kept)))
        for n, at in enumerate(results[ends, 1].tolist()):
            data, frame = images[found.kept[n]], found.frames[n]
            at += frame.start - found.offsets[n]
            if n not in bad and data[at : at + 2] != b"\xff\xd9":
                try:
                    header.finish(data, at)
                except Damaged as error:
                    bad[n] = error
        for n, (count, at) in padded.items():
            text = f"{count} bytes of padding after the last block" + " of an interval" * bool(found.frames[n].restart)
            states[found.kept[n]] = Status(True, "fine", text, at, "device")
        for n, error in bad.items():
            states[found.kept[n]] = error.status()
        return np.array(sorted(bad), np.int64)

    def _run(self, name: str, size: tuple[int, ...], *arguments: Any) -> None:
        given = [np.int32(a) if isinstance(a, int) else a for a in arguments]
        if self.task:
            self.engine.run(self._kernels[name], (1,), *given, local=(1,))
        else:
            # One work-item is enough work for a core; a GPU chooses for itself.
            self.engine.run(self._kernels[name], size, *given, local=(1,) * len(size) if self._cpu else None)

    def _room(self, name: str, nbytes: int) -> Any:
        """Return the buffer of this name, a larger one where it is too small."""
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < nbytes:
            self._buffers[name] = buffer = self.engine.empty(max(256, nbytes + nbytes // 4))
        return buffer

    def _put(self, name: str, array: np.ndarray) -> Any:
        """Copy an array into the buffer of this name."""
        import pyopencl as cl

        buffer = self._room(name, array.nbytes)
        self.engine.note("upload", "copy", cl.enqueue_copy(self.engine.queue, buffer, array, is_blocking=False))
        return buffer

    def _pack(self, found: _Found) -> Any:
        """Write the scans of all files into the device's memory, one after the other."""
        buffer = self._room("streams", found.nbytes)
        with self.engine.mapped(buffer, found.nbytes, write=True) as place:
            for begin, scan in zip(found.offsets, found.scans, strict=True):
                place[begin : begin + len(scan)] = scan
        return buffer


class _Found:
    """The tables, streams and intervals of all files of a batch that the device decodes."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.frames: list[Frame] = []
        self.scans: list[np.ndarray] = []
        self.offsets: list[int] = []
        self.intervals: list[tuple[int, ...]] = []
        self.numbers: list[list[tuple[int, int, int]]] = []
        self.quantisers: dict[bytes, int] = {}
        self._tables: dict[tuple[bytes, bool], int] = {}
        self.nbytes = 0

    def add(self, number: int, data: bytes, frame: Frame) -> None:
        """Take in one file; raises Damaged where its tables or restart markers are."""
        stretches = header.intervals(data, frame)
        for part in frame.components:
            for table, is_dc in ((part.dc, True), (part.ac, False)):
                fault = huffman.fault(table, is_dc)
                if fault:
                    raise Damaged("table", f"a Huffman table is not valid: {fault}", frame.start)
        numbers = [
            (
                self._tables.setdefault((part.dc, True), len(self._tables)),
                self._tables.setdefault((part.ac, False), len(self._tables)),
                self.quantisers.setdefault(part.quantiser, len(self.quantisers)),
            )
            for part in frame.components
        ]
        move, n = self.nbytes - frame.start, len(self.kept)
        for begin, end, mcu, mcus in stretches:
            self.intervals.append((n, begin + move, end + move, mcu, mcus, 0, 0, 0))
        self.kept.append(number)
        self.frames.append(frame)
        self.scans.append(np.frombuffer(data, np.uint8, offset=frame.start))
        self.offsets.append(self.nbytes)
        self.numbers.append(numbers + [(0, 0, 0)] * (3 - len(numbers)))
        self.nbytes += len(data) - frame.start

    def codes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the look-ups and codes of all Huffman tables."""
        return huffman.build(list(self._tables))

    def steps(self) -> np.ndarray:
        """Return the quantisation tables, uint16 (n, 64), in natural order."""
        return np.stack([huffman.natural(table) for table in self.quantisers])
