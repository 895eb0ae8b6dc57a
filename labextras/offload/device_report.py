"""What the doctor says of OpenCL: a line for each device, which is proved by a kernel."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from labextras.offload.opencl import drivers
from labkit.doctor import Finding, ask

#: A driver can crash the process that loads it. A child lists the devices that its process may use, or proves the one
#: that is named by a kernel.
OPENCL_CODE = """
import json, sys
from labextras.offload import Engine, Preprocessor, devices
from labextras.offload.opencl import drivers
mode, wanted = sys.argv[1], json.loads(sys.argv[2])
drivers.prepare(alone=mode == "alone")
import numpy as np
def prove(device):
    levels = np.arange(192, dtype=np.uint8).reshape(8, 8, 3)
    result, truth = Preprocessor(Engine(device), size=8).pixels([levels]).images[0], levels / 255
    return bool(np.abs(result - truth).max() < 1e-6)
rows = [f"{d.name} ({d.kind}, {d.compute_units} compute units, {d.platform} from {d.owner})" for d in devices()]
print(json.dumps(prove(devices()[rows.index(wanted)]) if wanted else rows))
"""


def _opencl() -> Iterator[Finding]:
    """Yield one line for each device of each platform; one that only the card's own process can use says so."""
    beside, more = ask(OPENCL_CODE, "shared", "null"), []
    rows = [] if isinstance(beside, str) else beside
    if sys.platform == "linux" and any(map(drivers.clashes, drivers.installed())):
        # A driver that clashes with TensorFlow's LLVM is asked where TensorFlow is not.
        alone = ask(OPENCL_CODE, "alone", "null")
        more = [] if isinstance(alone, str) else [row for row in alone if row not in rows]
    for row in [*rows, *more]:
        text = row + ": for the card only, its driver clashes with the LLVM inside TensorFlow" * (row in more)
        # A device may take its process with it: each is proved in a child of its own.
        proved = ask(OPENCL_CODE, "alone" if row in more else "shared", json.dumps(row))
        if isinstance(proved, str):
            text += f": a kernel there failed: {proved}"
            text += "; if it worked before: labkit empty-kernel-cache" * ("crashed" in proved)
        elif not proved:
            text += ": it computes a wrong result, choose another"
        yield Finding("OpenCL", proved is True, text, required=False)
    if not rows:
        reason = beside if isinstance(beside, str) else "no device that can be used beside TensorFlow"
        remedy = f"only the offload notebook needs it: {drivers.remedy()}"
        yield Finding("OpenCL", False, f"{reason}; {remedy}", required=False)


#: What is added to `labkit.doctor.TOPICS`.
TOPICS = {"OpenCL": _opencl}
