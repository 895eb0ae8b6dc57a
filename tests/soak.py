"""Every notebook under nbval again and again, while another process takes a core: a green run must mean something.

    python tests/soak.py --rounds 20

The last line is one JSON object: ``rounds``, ``cells`` that were compared in all, ``flakes`` (cells that failed, by
name), ``minutes``. It ends with 1 if there was a flake, or if nothing was compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent

#: Works for as long as the process that started it lives.
COMPETITOR = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"


def outcome(report: Path) -> tuple[int, list[str]]:
    """Return how many cells were compared in one run, and the names of those that failed or could not be run."""
    compared, failed = 0, []
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("skipped") is not None:
            continue
        compared += 1
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')} {case.get('name')}")
    return compared, failed


def main() -> int:
    """Run the rounds; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="how often every notebook runs")
    parser.add_argument("--competitors", type=int, default=1, help="processes that take a core each")
    parser.add_argument("pytest", nargs="*", help="what to give pytest; see the Makefile")
    asked = parser.parse_args()
    if asked.rounds < 1:
        parser.error(f"--rounds is {asked.rounds}; allowed: 1 or more")
    compared, flakes, began = 0, Counter(), time.monotonic()
    others = [subprocess.Popen([sys.executable, "-c", COMPETITOR]) for _ in range(asked.competitors)]
    try:
        for number in range(1, asked.rounds + 1):
            with tempfile.TemporaryDirectory() as folder:
                report = Path(folder) / "report.xml"
                command = [sys.executable, "-m", "pytest", f"--junitxml={report}", "-q", *asked.pytest]
                done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
                cells, failed = outcome(report) if report.exists() else (0, [])
            if not cells or (done.returncode and not failed):
                print(done.stdout[-3000:], done.stderr[-1000:], sep="\n")
                failed = failed or [f"round {number}: pytest ended with {done.returncode}, {cells} cells"]
            elif failed:
                print(done.stdout[-6000:])
            compared += cells
            flakes.update(failed)
            print(f"round {number} of {asked.rounds}: {cells} cells, {len(failed)} failed", flush=True)
    finally:
        for other in others:
            other.kill()
            other.wait()
    minutes = round((time.monotonic() - began) / 60, 1)
    print(json.dumps({"rounds": asked.rounds, "cells": compared, "flakes": dict(flakes), "minutes": minutes}))
    return 1 if flakes or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
