"""The OpenCL devices of this machine, in an order that does not depend on which driver answers first."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from dataclasses import dataclass, field
from typing import Any

from labextras.offload.opencl import drivers

#: What a device can be.
KINDS = ("cpu", "gpu", "accelerator", "custom")

#: Whose PoCL a driver is: pip's comes first because TensorFlow can live beside it, and because it is always the same.
OWNERS = ("pip", "conda", "system")

_POCL = "Portable Computing Language"


class NoDevice(RuntimeError):
    """No OpenCL device here answers; the sentence says what to install."""


@dataclass(frozen=True)
class Device:
    """One OpenCL device.

    Parameters
    ----------
    number : int
        Its place in `devices`, which is the same in every process of this machine.
    platform, name : str
        As the driver writes them.
    kind : str
        One of `KINDS`.
    version : str
        Of OpenCL and of the driver.
    compute_units : int
    memory_bytes : int
        Global memory. PoCL counts what was free when the process asked, so this may differ from process to process.
    owner : str
        The installer of the driver: one of `OWNERS`.
    opencl : pyopencl.Device
    """

    number: int
    platform: str
    name: str
    kind: str
    version: str
    compute_units: int
    memory_bytes: int
    owner: str = "system"
    opencl: Any = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        """Return one line about the device, as a list of devices shows it."""
        size = f"{self.compute_units} compute units, {self.memory_bytes / 2**30:.1f} GiB"
        return f"{self.number}: {self.name} ({self.kind}, {self.platform} from {self.owner}, {size})"


def devices() -> tuple[Device, ...]:
    """Return every OpenCL device that this process can use; the first one is the default.

    The order: PoCL before all others (pip's, then conda's, then the system's), then CPUs, GPUs, accelerators; equal
    ones by the names of platform and device. An empty tuple where no driver answers. A PoCL that does not know this
    processor is left out (see `labextras.offload.opencl.drivers`).

    Raises
    ------
    NoDevice
        If pyopencl cannot be imported.
    RuntimeError
        If this process was forked from one in which OpenCL was in use.
    """
    drivers.prepare()
    try:
        cl = drivers.claim()
    except ImportError as error:
        raise NoDevice(f"pyopencl cannot be imported here ({error}); {drivers.remedy()}") from error
    try:
        platforms = cl.get_platforms()
    except cl.Error:  # PLATFORM_NOT_FOUND: no driver at all
        return ()
    found = []
    for platform in platforms:
        owner = _owner(platform)
        with contextlib.suppress(cl.Error):
            for device in platform.get_devices():
                kind = next((k for k in KINDS if device.type & getattr(cl.device_type, k.upper())), KINDS[-1])
                if drivers.can_compile(owner, device.version):
                    found.append((platform.name.strip(), device.name.strip(), kind, owner, device))
    found.sort(key=rank)
    return tuple(
        Device(i, platform, name, kind, own.version.strip(), own.max_compute_units, own.global_mem_size, owner, own)
        for i, (platform, name, kind, owner, own) in enumerate(found)
    )


def rank(row: tuple[str, str, str, str, Any]) -> tuple[Any, ...]:
    """Return the key by which `devices` sorts rows of platform, name, kind, owner and device."""
    platform, name, kind, owner, _ = row
    return platform != _POCL, OWNERS.index(owner), KINDS.index(kind), platform, name


def choose(name: str | None = None) -> Device:
    """Return the first of `devices` that fits.

    Parameters
    ----------
    name : str, optional
        A part of the name of the device or of its platform, in upper or lower case; by default LABKIT_OPENCL_DEVICE,
        where the environment holds it, else any device.

    Raises
    ------
    ValueError
        If no device fits; the sentence lists the devices.
    NoDevice
        If there is no device at all.
    """
    name, available = name or os.environ.get("LABKIT_OPENCL_DEVICE"), devices()
    if not available:
        raise NoDevice(f"no OpenCL device here; {drivers.remedy()}")
    for device in available:
        if name is None or name.lower() in f"{device.name}\n{device.platform}".lower():
            return device
    raise ValueError(f"no OpenCL device with name {name!r}; there are: {'; '.join(map(str, available))}")


def _owner(platform: Any) -> str:
    """Return who installed the driver of a platform, judged by the file of its library."""
    library = _library(platform)
    if library and library in [os.path.realpath(own) for own in (drivers.pocl(), drivers.intel()) if own]:
        return "pip"
    return "conda" if library.startswith(os.path.join(sys.prefix, "lib", "")) else "system"


def _library(platform: Any) -> str:
    """Return the path of the library behind a platform, "" where that cannot be found out.

    The first word of a platform is the address of its driver's table of functions (cl_khr_icd). The dynamic linker
    knows which file a function is in.
    """
    if sys.platform != "linux":
        return ""
    table = ctypes.c_void_p.from_address(platform.int_ptr).value
    function = ctypes.c_void_p.from_address(table)
    found = (ctypes.c_char_p * 4)()  # Dl_info: the path of the file, and three that are not needed
    known = ctypes.CDLL(None).dladdr(function, found)
    return os.path.realpath(os.fsdecode(found[0])) if known else ""
