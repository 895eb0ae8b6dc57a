"""An OpenCL device with a context, a queue that notes times, and the lab's kernels, each compiled once."""

from __future__ import annotations

import re
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from labextras.offload.opencl import drivers
from labextras.offload.opencl.devices import choose
from labkit.common import shipped

#: So many commands are kept, the latest ones: each keeps some memory of the driver in use.
MOST = 4096

#: Markers by which the clock of the device is compared with that of the host: the tightest of them counts.
_MARKERS = 16


class BuildError(ValueError):
    """A kernel does not compile; `log` holds the messages of the compiler."""

    def __init__(self, sentence: str, log: str) -> None:
        super().__init__(sentence)
        self.log = log


class Engine:
    """A device with a context and a queue, for one thread at a time.

    Commands run in the order in which they are enqueued. It does not survive a fork.

    Parameters
    ----------
    device : Device or pyopencl.Device, optional
        By default the first of `labextras.offload.devices`.

    Attributes
    ----------
    device, context, queue
        Of pyopencl. The queue notes when each command started and ended, on the device's clock.

    Raises
    ------
    NoDevice
        If there is no device.
    RuntimeError
        Here and in every method: if OpenCL was in use before a fork made this process.
    """

    def __init__(self, device: Any = None) -> None:
        device = choose() if device is None else device
        cl = drivers.claim()
        self.device = getattr(device, "opencl", device)
        self.context = cl.Context([self.device])
        self.queue = cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self._noted: deque[tuple[str, Any]] = deque(maxlen=MOST)
        self._programs: dict[str, Any] = {}

    def __repr__(self) -> str:
        """Return the device and its platform."""
        return f"Engine({self.device.name.strip()!r} of {self.device.platform.name.strip()!r})"

    # -- kernels -----------------------------------------------------------------

    def kernel(self, name: str, file: str | None = None) -> Any:
        """Return the kernel function `name` of ``kernels/<file>.cl`` (by default the file of its name).

        A new object at each call: setting arguments on one does not disturb another. A file is compiled once.

        Raises
        ------
        ValueError
            If there is no such file.
        BuildError
            If the file does not compile.
        """
        file = file or name.removesuffix("_task")
        if file not in self._programs:
            folder = shipped.folder("kernels")
            path = folder / f"{file}.cl"
            if not path.is_file():
                files = ", ".join(sorted(p.stem for p in folder.glob("*.cl")))
                raise ValueError(f"there is no kernel file {file!r}; there are: {files}")
            self._programs[file] = self.build(path.read_text(encoding="utf-8"), path.name)
        return drivers.claim().Kernel(self._programs[file], name)

    def build(self, source: str, title: str = "the kernel", options: str = "") -> Any:
        """Return the program of `source`, compiled for this device.

        Raises
        ------
        BuildError
            If it does not compile.
        """
        cl = drivers.claim()
        # Warnings of the compiler are for the author of a kernel, who finds them in the `log` of a trial.
        warnings.filterwarnings("ignore", category=cl.CompilerWarning)
        program = cl.Program(self.context, source)
        try:
            return program.build(options.split())
        except cl.Error as error:
            log = self.log(program, title)
            lines = log.splitlines() or str(error).splitlines()
            first = next((line for line in lines if "error" in line), lines[0])
            first = re.sub(r"^.*?(\d+):(\d+): (error: )?", r"line \1, column \2: ", first.strip())
            raise BuildError(f"{title} does not compile: {first.removeprefix('error: ')}", log) from None

    def log(self, program: Any, title: str = "kernel.cl") -> str:
        """Return the messages of the compiler about a program, with `title` for the name of its temporary file."""
        log = program.get_build_info(self.device, drivers.claim().program_build_info.LOG)
        # PoCL writes the name of a temporary file, Intel's runtime a number.
        return re.sub(r"(?m)([^\s:]*\.cl|^\d+):(?=\d+)", f"{title}:", log.strip())

    def run(self, kernel: Any, size: Sequence[int], *arguments: Any, local: Sequence[int] | None = None) -> Any:
        """Enqueue `kernel` over `size` work-items and note it; return its event."""
        drivers.claim()
        event = kernel(self.queue, tuple(size), None if local is None else tuple(local), *arguments)
        return self.note(kernel.function_name, event)

    # -- memory of the device ------------------------------------------------------

    def empty(self, nbytes: int) -> Any:
        """Return a buffer of `nbytes` on the device; what it holds is not defined.

        OpenCL knows no buffer of 0 bytes: one of 1 byte stands for it. It refuses one that is too large for the device.
        """
        cl = drivers.claim()
        return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, max(1, int(nbytes)))

    def upload(self, array: np.ndarray) -> Any:
        """Copy `array` into a new buffer on the device, note the copy, and return the buffer.

        Done when it returns: `array` may change afterwards.
        """
        array = np.ascontiguousarray(array)
        buffer = self.empty(array.nbytes)
        if array.nbytes:
            self.note("upload", drivers.claim().enqueue_copy(self.queue, buffer, array, is_blocking=True))
        return buffer

    def download(self, buffer: Any, array: np.ndarray) -> np.ndarray:
        """Wait for what was enqueued, copy the first bytes of `buffer` into `array`, note the copy, return `array`.

        OpenCL refuses an array that is larger than the buffer, or not contiguous.
        """
        cl = drivers.claim()
        if array.nbytes:
            self.note("download", cl.enqueue_copy(self.queue, array, buffer, is_blocking=True))
        return array

    @contextmanager
    def mapped(self, buffer: Any, nbytes: int, write: bool = False) -> Iterator[np.ndarray]:
        """Give the host access to a buffer, and note it; where host and device share memory, nothing is copied.

        Parameters
        ----------
        buffer : pyopencl.Buffer
        nbytes : int
            From its beginning on.
        write : bool
            The host writes all of it, instead of reading it.

        Yields
        ------
        ndarray of uint8, shape (nbytes,)
        """
        cl = drivers.claim()
        flag = cl.map_flags.WRITE_INVALIDATE_REGION if write else cl.map_flags.READ
        place, event = cl.enqueue_map_buffer(self.queue, buffer, flag, 0, (nbytes,), np.uint8, is_blocking=True)
        self.note("upload" if write else "download", event)
        try:
            yield place
        finally:
            place.base.release(self.queue)

    def finish(self) -> None:
        """Wait until everything that was enqueued is done."""
        drivers.claim()
        self.queue.finish()

    # -- what happened ---------------------------------------------------------------

    def spans(self) -> list[tuple[str, int, int]]:
        """Wait for the device and return what it did so far, in order: the name of each command, its start and length.

        A command is a kernel, an ``upload`` or a ``download``. Starts are on the host's clock (``time.time_ns``),
        lengths in nanoseconds. On PoCL the times are those of this CPU and say nothing about an FPGA.
        """
        self.finish()
        offset = self._offset_ns() if self._noted else 0
        return [(name, one.profile.start + offset, one.profile.end - one.profile.start) for name, one in self._noted]

    def _offset_ns(self) -> int:
        """Return what to add to the clock of the device to have the host's, in nanoseconds.

        OpenCL's clock of a device counts from no particular moment. A marker is enqueued between two stamps of the
        host's clock: it starts after one and ends before the other, so that the difference lies between two bounds.
        """
        low, high = [], []
        for _ in range(_MARKERS):
            before = time.time_ns()
            marker = drivers.claim().enqueue_marker(self.queue)
            marker.wait()
            after = time.time_ns()
            low.append(before - marker.profile.start)
            high.append(after - marker.profile.end)
        return (max(low) + min(high)) // 2

    def forget(self) -> None:
        """Drop what `spans` would return, so that the next ones begin here."""
        self.finish()
        self._noted.clear()

    def note(self, name: str, event: Any) -> Any:
        """Keep the event of a command that was enqueued for `spans`; return the event."""
        self._noted.append((name, event))
        return event
