"""Circuits: simulated cycle by cycle, placed on a chip, and drawn. The circuits themselves are in ``kernels/rtl``.

The names below come from the files of this folder when they are first used; nothing here imports Amaranth before.
"""

from labkit.common import lazy_names

#: The names on offer, by the file they are in.
_FILES = {
    "chip_view": ("chip_picture",),
    "cycles": ("NeverAnswers", "SimulatedCircuit", "simulate"),
    "placement": ("CIRCUITS", "NotPlaced", "Placed", "circuit", "compare", "module", "place", "synthesise"),
    "toolchain": ("ToolError",),
}
__getattr__, __dir__, __all__ = lazy_names.of(__name__, {one: file for file, names in _FILES.items() for one in names})
