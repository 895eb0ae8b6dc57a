"""How long ``import labkit`` takes, in fresh processes, beside an empty start and ``import numpy``.

    python benchmarks/import_time.py

Ends with one JSON line; `import_s` is the median over rounds of start-with-labkit minus empty start.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

ROUNDS = 15
VARIANTS = {"empty start": "pass", "import labkit": "import labkit", "import numpy": "import numpy"}


def seconds(code: str) -> float:
    """Return the wall time of one fresh interpreter that runs `code`."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begin


def main() -> None:
    """Run the variants in turn, print the table and the JSON line."""
    for code in VARIANTS.values():
        seconds(code)
    rounds = [{name: seconds(code) for name, code in VARIANTS.items()} for _ in range(ROUNDS)]
    print(f"{'start':<16}{'median s':>10}{'low':>8}{'high':>8}   ({ROUNDS} rounds, in turn)")
    for name in VARIANTS:
        times = [r[name] for r in rounds]
        print(f"{name:<16}{statistics.median(times):>10.3f}{min(times):>8.3f}{max(times):>8.3f}")
    extra = [r["import labkit"] - r["empty start"] for r in rounds]
    print(json.dumps({"import_s": round(statistics.median(extra), 4)}))


if __name__ == "__main__":
    main()
