"""The kernels' twins in NumPy, behind the names that the device's functions have: for a machine without a device.

Nothing falls back to them by itself: whoever takes ``twins.decode`` in place of ``offload.decode`` says so.
"""

from __future__ import annotations

from labkit.offload.devices import NoDevice, devices


def has_device() -> bool:
    """Tell whether an OpenCL device answers in this process."""
    try:
        return bool(devices())
    except NoDevice:
        return False
