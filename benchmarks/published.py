"""How far the simulation of a fleet is from results that others have published.

    python benchmarks/published.py

One line for each result: what was published, what `capacity.simulate` says, and the relative error. The last
line is one JSON object with the largest error of each kind:

- ``storage``: MLPerf Storage v1.0, closed division: accelerators fed from a storage of the bandwidth measured there;
- ``scaling``: ResNet-50 on several accelerators. The simulation takes no time for gradients, so it says too much.
"""

from __future__ import annotations

import json

from labextras.cluster import capacity
from labkit.common.table import Table

#: Accelerators, hosts, accelerator, images/s, MiB/s: mlperf_storage_report.json of the submission, mean of five runs. A
#: record has 114.66 kB on average (resnet50_h100.yaml of DLIO).
STORAGE = {
    "HPE Cray C500, 1 host": (20, 1, "H100", 32_623.8, 3_567.36),
    "DDN AI400X2T, 32 hosts": (512, 32, "H100", 841_943.9, 92_065.18),
    "DDN AI400X2T, 32 hosts, A100": (864, 32, "A100", 723_052.9, 79_064.65),
}
#: Accelerators, images/s of one, images/s of all: page of benchmarks of MindSpore r1.5, ResNet-50 v1.5 in mixed
#: precision, 256 images each, eight accelerators in a host.
SCALING = {"Ascend 910, 8": (8, 2115.0, 16_600.0), "Ascend 910, 16": (16, 2115.0, 32_768.0)}
#: What nobody waits for there.
PLENTY = {"image_kb": 114.66, "worker_cores": 64, "storage_mb_s": 1e6, "storage_requests_s": 1e6,
          "readers_per_host": 4096, "network_mb_s": 1e5}  # fmt: skip


def main() -> None:
    """Simulate what was published."""
    rows, worst = [], {"storage": 0.0, "scaling": 0.0}
    for kind, name, published, found in [*_storage(), *_scaling()]:
        error = found / published - 1
        worst[kind] = max(worst[kind], abs(error))
        rows.append((name, f"{published:,.0f}", f"{found:,.0f}", f"{100 * error:+.1f} %"))
    print(Table(("result", "published images/s", "simulated", "error"), rows, right=(1, 2, 3)))
    print(json.dumps({kind: round(error, 4) for kind, error in worst.items()}))


def _storage():
    for name, (accelerators, hosts, accelerator, images_s, mib_s) in STORAGE.items():
        fleet = capacity.simulate(
            accelerators=accelerators, hosts=hosts, accelerator=accelerator, workers=accelerators,
            **PLENTY | {"storage_mb_s": mib_s * 2**20 / 1e6},
        )  # fmt: skip
        yield "storage", name, images_s, fleet.images_per_s


def _scaling():
    for name, (accelerators, one, images_s) in SCALING.items():
        fleet = capacity.simulate(
            accelerators=accelerators, hosts=accelerators // 8, accelerator=one, workers=accelerators, **PLENTY
        )
        yield "scaling", name, images_s, fleet.images_per_s


if __name__ == "__main__":
    main()
