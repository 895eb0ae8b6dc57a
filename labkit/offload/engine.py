"""An OpenCL device at work: a context, a queue that notes times, and the lab's kernels, each compiled once."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from labkit.common import shipped
from labkit.common.progress import fast
from labkit.offload import drivers, spans
from labkit.offload.devices import choose
from labkit.timeline.trace import Trace


class Noted(NamedTuple):
    """One command that was enqueued: what it is called, ``kernel`` or ``copy``, and its OpenCL event."""

    name: str
    category: str
    event: Any


class BuildError(ValueError):
    """A kernel does not compile; `log` is what the compiler says."""

    def __init__(self, sentence: str, log: str) -> None:
        super().__init__(sentence)
        self.log = log


class Engine:
    """A device with a context and a queue, for one thread at a time; see `labkit.offload.Pool` for more.

    Commands run in the order in which they are enqueued. It does not survive a fork.

    Parameters
    ----------
    device : Device or pyopencl.Device, optional
        By default the first of `labkit.offload.devices`.
    lane : str
        Goes behind the device's name in a picture, to tell several engines apart.

    Attributes
    ----------
    device, context, queue
        Of pyopencl. The queue notes when each command started and ended, on the device's clock.
    noted : list of Noted
        Commands that are not yet folded into the spans of `trace`, in the order in which they were enqueued.

    Raises
    ------
    NoDevice
        If there is no device.
    RuntimeError
        Here and in every method: if OpenCL was in use before a fork made this process.
    """

    def __init__(self, device: Any = None, lane: str = "") -> None:
        if device is None:
            device = choose()
        import pyopencl as cl

        drivers.claim()
        self.device = getattr(device, "opencl", device)
        self.context = cl.Context([self.device])
        self.queue = cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self.noted: list[Noted] = []
        self._lane = lane
        self._spans = spans.Spans()
        self._programs: dict[tuple[str, str], Any] = {}
        self._prebuilt: dict[str, Any] = {}

    def __repr__(self) -> str:
        """Return the device and its platform."""
        return f"Engine({self.device.name.strip()!r} of {self.device.platform.name.strip()!r})"

    # -- kernels -----------------------------------------------------------------

    def kernel(self, name: str, file: str | None = None, options: str = "") -> Any:
        """Return the kernel function `name` of ``kernels/<file>.cl`` (by default the file of its name).

        A new object at each call: setting arguments on one does not disturb another.

        Raises
        ------
        ValueError
            If there is no such file, or no such kernel in it.
        BuildError
            If the file does not compile.
        """
        import pyopencl as cl

        drivers.claim()
        if name in self._prebuilt and not options:
            return cl.Kernel(self._prebuilt[name], name)
        key = file or name.removesuffix("_task"), options
        program = self._programs.get(key) or self.compile(*key)
        if name not in program.kernel_names.split(";"):
            raise ValueError(f"{key[0]}.cl has no kernel {name!r}; it has: {program.kernel_names.replace(';', ', ')}")
        return cl.Kernel(program, name)

    def compile(self, file: str, options: str = "") -> Any:
        """Return the program of ``kernels/<file>.cl``, compiled once; errors as in `kernel`."""
        key = file, options
        if key not in self._programs:
            folder = shipped.folder("kernels")
            path = folder / f"{file}.cl"
            if not path.is_file():
                there = ", ".join(sorted(p.stem for p in folder.glob("*.cl")))
                raise ValueError(f"there is no kernel file {file!r}; there are: {there}")
            self._programs[key] = self.build(path.read_text(encoding="utf-8"), path.name, options)
        return self._programs[key]

    def warm_up(self, progress: bool = True) -> None:
        """Compile every kernel of the lab, and launch once what a work item needs; quick where that was done before.

        PoCL compiles twice: a file when it is built, and each kernel of it when it is first launched.

        Parameters
        ----------
        progress : bool
            Show a bar, which is gone afterwards; LABKIT_FAST silences it too.
        """
        from labkit.offload import warming

        warming.warm_up(self, progress and not fast())

    def compiled(self) -> list[str]:
        """Return the files of the kernels that are compiled for this engine, without ``.cl``, sorted."""
        return sorted({file for file, _ in self._programs})

    def take(self, program: Any) -> None:
        """Have `kernel` take the kernels of this program instead of compiling them; see `load_binary`."""
        self._prebuilt.update({name: program for name in program.kernel_names.split(";") if name})

    def build(self, source: str, title: str = "the kernel", options: str = "") -> Any:
        """Return the program of `source`, compiled for this device.

        Raises
        ------
        BuildError
            If it does not compile.
        """
        import pyopencl as cl

        drivers.claim()
        # A remark of the compiler is no news to who did not write the kernel; `log` of a trial holds it.
        warnings.filterwarnings("ignore", category=cl.CompilerWarning)
        program = cl.Program(self.context, source)
        try:
            return program.build(options.split())
        except cl.Error as error:
            log = self.log(program, title)
            lines = log.splitlines() or str(error).splitlines()
            first = next((line for line in lines if "error" in line), lines[0])
            first = re.sub(rf"{re.escape(title)}:(\d+):(\d+):", r"line \1, column \2:", first)
            raise BuildError(f"{title} does not compile: {first.strip().removeprefix('error: ')}", log) from None

    def log(self, program: Any, title: str = "kernel.cl") -> str:
        """Return what the compiler said about a program, with `title` for the name of its temporary file."""
        import pyopencl as cl

        said = program.get_build_info(self.device, cl.program_build_info.LOG)
        return re.sub(r"[^\s:]*\.cl:(\d+)", rf"{title}:\1", said.strip())

    def run(self, kernel: Any, size: Sequence[int], *arguments: Any, local: Sequence[int] | None = None) -> Any:
        """Enqueue `kernel` over `size` work-items and note it; return its event."""
        drivers.claim()
        event = kernel(self.queue, tuple(size), None if local is None else tuple(local), *arguments)
        return self._note(kernel.function_name, "kernel", event)

    # -- memory of the device ------------------------------------------------------

    def empty(self, nbytes: int) -> Any:
        """Return a buffer of `nbytes` on the device; what it holds is not defined.

        OpenCL knows no buffer of 0 bytes: one of 1 byte stands for it.

        Raises
        ------
        ValueError
            If `nbytes` is negative, or more than the device allows in one buffer.
        """
        import pyopencl as cl

        drivers.claim()
        most = self.device.max_mem_alloc_size
        if not 0 <= nbytes <= most:
            raise ValueError(f"nbytes is {nbytes}; allowed on {self.device.name.strip()}: 0 to {most}")
        return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, max(1, int(nbytes)))

    def upload(self, array: np.ndarray) -> Any:
        """Copy `array` into a new buffer on the device, note the copy, and return the buffer.

        Done when it returns: `array` may change afterwards.
        """
        import pyopencl as cl

        array = np.ascontiguousarray(array)
        buffer = self.empty(array.nbytes)
        if array.nbytes:
            self._note("upload", "copy", cl.enqueue_copy(self.queue, buffer, array, is_blocking=True))
        return buffer

    def download(self, buffer: Any, array: np.ndarray) -> np.ndarray:
        """Wait for what was enqueued, copy the first bytes of `buffer` into `array`, note the copy, return `array`.

        Raises
        ------
        ValueError
            If `array` is not contiguous, or larger than the buffer.
        """
        import pyopencl as cl

        drivers.claim()
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise ValueError(f"array of shape {array.shape} must be contiguous and writable to be downloaded into")
        if array.nbytes > buffer.size:
            raise ValueError(f"array takes {array.nbytes} bytes, the buffer holds {buffer.size}")
        if array.nbytes:
            self._note("download", "copy", cl.enqueue_copy(self.queue, array, buffer, is_blocking=True))
        return array

    def finish(self) -> None:
        """Wait until everything that was enqueued is done."""
        drivers.claim()
        self.queue.finish()

    # -- what happened ---------------------------------------------------------------

    def trace(self, name: str | None = None) -> Trace:
        """Wait for the device and return what it did so far, on the host's clock.

        Parameters
        ----------
        name : str, optional
            What a picture of it is called.

        Returns
        -------
        Trace
            One thread of kind ``device``, with spans of category ``kernel`` and ``copy`` that never overlap. Its `run`
            says which device it was: on PoCL the times are those of this CPU and say nothing about an FPGA.
        """
        self.finish()
        self._spans.fold(self.queue, self.noted)
        self.noted.clear()
        return self._spans.trace(self.device, name, self._lane)

    def forget(self) -> None:
        """Drop what `trace` would return, so that the next trace begins here."""
        self.finish()
        self.noted.clear()
        self._spans = spans.Spans()

    def _note(self, name: str, category: str, event: Any) -> Any:
        self.noted.append(Noted(name, category, event))
        # An event keeps memory of the driver alive: a long run is folded into plain numbers as it goes.
        if len(self.noted) >= spans.FOLD:
            self.queue.finish()
            self._spans.fold(self.queue, self.noted)
            self.noted.clear()
        return event
