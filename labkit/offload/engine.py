"""An OpenCL device at work: a context, a queue that notes times, and the lab's kernels, each compiled once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from labkit import shipped
from labkit.offload import drivers


class Noted(NamedTuple):
    """One command that was enqueued: what it is called, ``kernel`` or ``copy``, and its OpenCL event."""

    name: str
    category: str
    event: Any


class Engine:
    """A device with a context and a queue.

    Parameters
    ----------
    device : pyopencl.Device, optional
        By default the first device of kind CPU.

    Attributes
    ----------
    device, context, queue
        Of pyopencl. The queue notes when each command started and ended, on the device's clock.
    noted : list of Noted
        Commands so far, in the order in which they were enqueued.
    """

    def __init__(self, device: Any = None) -> None:
        drivers.prepare()
        import pyopencl as cl

        if device is None:
            device = cl.get_platforms()[0].get_devices()[0]
        self.device = device
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self.noted: list[Noted] = []
        self._programs: dict[tuple[str, str], Any] = {}

    def kernel(self, name: str, file: str | None = None, options: str = "") -> Any:
        """Return the kernel function `name` of ``kernels/<file>.cl`` (by default the file of its name).

        A new object at each call: setting arguments on one does not disturb another.
        """
        import pyopencl as cl

        key = file or name.removesuffix("_task"), options
        if key not in self._programs:
            source = (shipped.folder("kernels") / f"{key[0]}.cl").read_text(encoding="utf-8")
            self._programs[key] = cl.Program(self.context, source).build(options.split())
        return cl.Kernel(self._programs[key], name)

    def run(self, kernel: Any, size: Sequence[int], *arguments: Any, local: Sequence[int] | None = None) -> Any:
        """Enqueue `kernel` over `size` work-items and note it; return its event."""
        event = kernel(self.queue, tuple(size), None if local is None else tuple(local), *arguments)
        self.noted.append(Noted(kernel.function_name, "kernel", event))
        return event
