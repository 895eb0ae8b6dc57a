"""The tests again and again, while another process takes a core: a green run must mean something.

    python tests/soak.py --rounds 10 -- make test

The last line is one JSON object: ``rounds``, ``passed`` (tests and cells that passed in all), ``flakes`` (those that
failed, by name), ``minutes``. It ends with 1 if there was a flake, or if nothing ran.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: Works for as long as the process that started it lives.
COMPETITOR = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
#: How pytest's summaries name what failed, and count what passed.
FAILED, PASSED = re.compile(r"(?m)^(?:FAILED|ERROR) (\S+)"), re.compile(r"(?m)^=*.*?(\d+) passed\b.* in [\d.]+s")


def main() -> int:
    """Run the rounds; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="how often the command runs")
    parser.add_argument("--competitors", type=int, default=1, help="processes that take a core each")
    parser.add_argument("command", nargs="+", help="what to run, as in: make test")
    asked = parser.parse_args()
    if asked.rounds < 1:
        parser.error(f"--rounds is {asked.rounds}; allowed: 1 or more")
    passed, flakes, began = 0, Counter(), time.monotonic()
    others = [subprocess.Popen([sys.executable, "-c", COMPETITOR]) for _ in range(asked.competitors)]
    try:
        for number in range(1, asked.rounds + 1):
            done = subprocess.run(asked.command, cwd=ROOT, capture_output=True, text=True, check=False)
            now, failed = sum(map(int, PASSED.findall(done.stdout))), FAILED.findall(done.stdout)
            if done.returncode or failed or not now:
                print(done.stdout[-6000:], done.stderr[-2000:], sep="\n")
                failed = failed or [f"round {number}: exit status {done.returncode}, {now} passed"]
            passed += now
            flakes.update(failed)
            print(f"round {number} of {asked.rounds}: {now} passed, {len(failed)} failed", flush=True)
    finally:
        for other in others:
            other.kill()
            other.wait()
    minutes = round((time.monotonic() - began) / 60, 1)
    print(json.dumps({"rounds": asked.rounds, "passed": passed, "flakes": dict(flakes), "minutes": minutes}))
    return 1 if flakes or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
