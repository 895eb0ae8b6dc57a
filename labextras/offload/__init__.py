"""Preprocessing beside the CPU: OpenCL devices, the lab's kernels on them, and a model of a SmartSSD.

The names below come from the files of this folder when they are first used; nothing here imports pyopencl before.
"""

from labkit.common import lazy_names

#: The names on offer, by the file they are in.
_FILES = {
    "jpeg.decoder": ("Decoder", "decode"),
    "jpeg.outcomes": ("Damaged", "Status", "Unsupported"),
    "launches": ("normalize_clip", "random_brightness", "resize_bilinear"),
    "opencl.devices": ("Device", "NoDevice", "choose", "devices"),
    "opencl.engine": ("BuildError", "Engine"),
    "preprocessor": ("Preprocessor", "preprocess"),
    "smartssd": ("PLACED", "VENDOR", "SmartSSD"),
    "trial": ("Tried", "try_kernel"),
}
__getattr__, __dir__, __all__ = lazy_names.of(__name__, {one: file for file, names in _FILES.items() for one in names})
