"""JPEG files decoded on an OpenCL device, bit for bit as ``tf.image.decode_jpeg(dct_method="INTEGER_ACCURATE")`` does.

Baseline and extended files of 8 bits: grey, YCbCr and RGB, chroma whole or halved across, down or both. All other JPEG
files are decoded on the host and counted. A damaged file gets a status and harms no other file. The orientation that
EXIF names is ignored, as TensorFlow ignores it. Padding is ignored, too, but the status reports it; see `Decoder`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from labextras.offload.batches import Pixels
from labextras.offload.jpeg import frames, header, host, huffman
from labextras.offload.jpeg.header import Frame
from labextras.offload.jpeg.outcomes import Damaged, Refusal, Status
from labextras.offload.opencl import drivers
from labextras.offload.opencl.engine import Engine

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
    """

    def __init__(self, engine: Engine | None = None) -> None:
        self.engine = Engine() if engine is None else engine
        self._kernels = {name: self.engine.kernel(name) for name in ("jpeg_entropy", "jpeg_idct", "jpeg_color")}
        self._cpu = bool(self.engine.device.type & drivers.claim().device_type.CPU)
        self.buffers: dict[str, Any] = {}

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
            If an entry is not bytes, or `images` is a single file.
        ValueError
            If the batch decoded takes more than 2 GB.
        """
        batch = self.rgb(images)
        states, result = list(batch.status), [None] * len(images)
        # Of images that are not on the device, all numbers are 0.
        end = max((row[4] + 3 * row[0] * row[1] for row in batch.rows.tolist()), default=0)
        if end:
            with self.engine.mapped(batch.pixels, end) as pixels:
                for i, (width, height, _, _, begin, *_) in enumerate(batch.rows.tolist()):
                    if width:
                        # An array for each image: Python reuses memory of this size, and returns that of a batch.
                        result[i] = pixels[begin : begin + 3 * height * width].reshape(height, width, 3).copy()
        for i, state in enumerate(states):
            if state.where == "host":
                result[i], states[i] = host.decode(images[i], state)
        return Decoded(result, states)

    def rgb(self, images: Sequence[bytes]) -> Pixels:
        """Decode a batch and leave its RGB images on the device; see `Pixels`. Raises as `decode`."""
        drivers.claim()  # where nothing is for the device, no other call of the engine says that this is a fork
        if isinstance(images, (bytes, str)) or not all(isinstance(data, bytes) for data in images):
            raise TypeError(f"images is {images!r:.60}; allowed: a list of whole JPEG files, each as bytes")
        found, states = _Found(), []
        for number, data in enumerate(images):
            try:
                found.add(number, data, header.parse(data))
                states.append(Status(True, where="device"))
            except Refusal as error:
                states.append(error.status())
        layout = np.zeros((max(1, len(images)), frames.LAYOUT), np.int32)
        if found.files:
            headers, tables = [file.frame for file in found.files], np.array(found.numbers, np.int32)
            records = frames.lay_out(headers, tables, CPU_BLOCKS if self._cpu else OTHER_BLOCKS)
            self._launch(records, found)
            records.layout[self._judge(found, states)] = 0
            layout[[file.place for file in found.files]] = records.layout
        return Pixels(self._buffer("rgb", 1), self._put("out_layout", layout), layout, states)

    # -- on the device -------------------------------------------------------------

    def _launch(self, records: frames.Records, found: _Found) -> None:
        """Enqueue everything for a batch."""
        streams = self._buffer("streams", found.nbytes)
        with self.engine.mapped(streams, found.nbytes, write=True) as place:
            for file in found.files:
                scan = np.frombuffer(file.data, np.uint8, offset=file.frame.start)
                place[file.offset : file.offset + len(scan)] = scan
        lookups, codes = map(self._put, ("lookups", "codes"), huffman.build(list(found.tables)))
        quantisers = self._put("quantisers", np.stack([huffman.natural(table) for table in found.quantisers]))
        table = np.array(found.intervals, np.int32)
        intervals = self._put("intervals", table)
        frame, layout = self._put("frames", records.frames), self._put("layout", records.layout)
        coefficients = self._buffer("coefficients", records.blocks * 128)
        masks, results = self._buffer("masks", records.blocks), self._buffer("results", table.shape[0] * 32)
        planes = self._buffer("planes", records.plane_bytes)
        pixels = self._buffer("rgb", records.rgb_bytes)
        bounds = np.cumsum([0, *(file.intervals for file in found.files)]).tolist()
        for begin, end in records.chunks:
            first, jobs, count = bounds[begin], bounds[end] - bounds[begin], end - begin
            arguments = streams, lookups, codes, frame, intervals, coefficients, masks, results
            self._run("jpeg_entropy", (jobs,), *arguments, first, jobs)
            rows = int((records.layout[begin:end, [11, 19, 27]].max() + 7) // 8)
            arguments = coefficients, masks, quantisers, frame, layout, planes
            self._run("jpeg_idct", (rows, 3 * count), *arguments, begin, count, rows)
            strips = int((records.layout[begin:end, 1].max() + 7) // 8)
            self._run("jpeg_color", (strips, count), planes, layout, pixels, begin, count, strips)

    def _judge(self, found: _Found, states: list[Status]) -> np.ndarray:
        """Read the results of the entropy kernel; set the status of every file; return the places of damaged ones."""
        results = self.engine.download(self.buffers["results"], np.empty((len(found.intervals), 8), np.int32))
        bad, begin = [], 0
        for number, file in enumerate(found.files):
            end = begin + file.intervals
            try:
                states[file.place] = file.status(found.intervals[begin:end], results[begin:end])
            except Damaged as error:
                states[file.place] = error.status()
                bad.append(number)
            begin = end
        return np.array(bad, np.int64)

    def _run(self, name: str, size: tuple[int, ...], *arguments: Any) -> None:
        given = [np.int32(a) if isinstance(a, int) else a for a in arguments]
        # One work-item is enough work for a core; a GPU chooses for itself.
        self.engine.run(self._kernels[name], size, *given, local=(1,) * len(size) if self._cpu else None)

    def _buffer(self, name: str, nbytes: int) -> Any:
        """Return the buffer of this name, a larger one where it is too small."""
        buffer = self.buffers.get(name)
        if buffer is None or buffer.size < nbytes:
            self.buffers[name] = buffer = self.engine.empty(max(256, nbytes + nbytes // 4))
        return buffer

    def _put(self, name: str, array: np.ndarray) -> Any:
        """Copy an array into the buffer of this name."""
        buffer = self._buffer(name, array.nbytes)
        copied = drivers.claim().enqueue_copy(self.engine.queue, buffer, array, is_blocking=False)
        self.engine.note("upload", copied)
        return buffer


class _File(NamedTuple):
    """A file that the device decodes.

    `place` is that in the batch. The scan begins at byte `offset` of the stream of all scans, and has so many
    `intervals`.
    """

    place: int
    data: bytes
    frame: Frame
    offset: int
    intervals: int

    @property
    def move(self) -> int:
        """What to add to a byte of the stream to have the byte of the file."""
        return self.frame.start - self.offset

    def status(self, intervals: Sequence[tuple[int, ...]], results: np.ndarray) -> Status:
        """Return the status of a file that is whole, after its intervals were decoded; raise Damaged for another."""
        end, padded, first = int(results[-1, 1]) + self.move, 0, -1
        for i in np.flatnonzero(results[:, 0]).tolist():
            (_, _, stop, mcu, *_), (fault, at, unit) = intervals[i], results[i, :3].tolist()
            at += self.move
            after = header.padding(self.data, at, stop + self.move) if fault == LEFT_OVER else at
            if after == at:
                code, text = _FAULTS[fault]
                if code == "truncated" and at + 1 < len(self.data):
                    code, text = "data", "a marker stands where the data of the image should go on"
                raise Damaged(code, f"{text}, in unit {mcu + unit} of {math.prod(self.frame.mcus)}", at)
            count = len(self.data[at:after].rstrip(b"\xff"))  # 255s at the end belong to the marker
            first = at if count and not padded else first
            padded += count
            end = after if i == len(results) - 1 else end  # where the walk to the end of the image begins
        if self.data[end : end + 2] != b"\xff\xd9":
            header.finish(self.data, end)
        text = f"{padded} bytes of padding after the last block" + " of an interval" * bool(self.frame.restart)
        return Status(True, text=text, byte=first, where="device") if padded else Status(True, where="device")


class _Found:
    """The files of a batch that the device decodes, with their tables and intervals."""

    def __init__(self) -> None:
        self.files: list[_File] = []
        self.intervals: list[tuple[int, ...]] = []
        self.numbers: list[list[tuple[int, int, int]]] = []
        # Each table once, with its number.
        self.quantisers: dict[bytes, int] = defaultdict(itertools.count().__next__)
        self.tables: dict[tuple[bytes, bool], int] = defaultdict(itertools.count().__next__)
        self.nbytes = 0

    def add(self, place: int, data: bytes, frame: Frame) -> None:
        """Take in one file; raises Damaged where its tables or restart markers are."""
        stretches = header.intervals(data, frame)
        numbers = []
        for part in frame.components:
            pair = (part.dc, True), (part.ac, False)
            for fault in itertools.starmap(huffman.fault, pair):
                if fault:
                    raise Damaged("table", f"a Huffman table is not valid: {fault}", frame.start)
            numbers.append((*(self.tables[table] for table in pair), self.quantisers[part.quantiser]))
        file = _File(place, data, frame, self.nbytes, len(stretches))
        for begin, end, mcu, mcus in stretches:
            self.intervals.append((len(self.files), begin - file.move, end - file.move, mcu, mcus, 0, 0, 0))
        self.files.append(file)
        self.numbers.append(numbers + [(0, 0, 0)] * (3 - len(numbers)))
        self.nbytes += len(data) - frame.start
