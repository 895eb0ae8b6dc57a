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
from labextras.offload import Engine, devices
from labextras.offload.opencl import drivers
mode, wanted = sys.argv[1], json.loads(sys.argv[2])
drivers.prepare(alone=mode == "alone")
import numpy as np
from labextras.offload import twins
def prove(device):
    engine, levels = Engine(device), np.arange(256, dtype=np.uint8)
    out = engine.empty(1024)
    clip = engine.kernel("normalize_clip")
    engine.run(clip, (256,), engine.upload(levels), out, np.float32(0.25), np.int32(256))
    result, truth = engine.download(out, np.empty(256, np.float32)), twins.normalize_clip(levels, 0.25)
    return bool(np.abs(result - truth).max() < 1e-6)
rows = [[d.platform, d.name, d.owner, d.kind, d.compute_units] for d in devices()]
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
        platform_name, name, owner, kind, units = row
        text = f"{name} ({kind}, {units} compute units, {platform_name} from {owner})"
        if row in more:
            text += ": for the card only, its driver clashes with the LLVM inside TensorFlow"
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
