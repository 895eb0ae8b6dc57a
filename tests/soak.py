"""The tests again and again, while another process takes a core: a green run must mean something.

    python tests/soak.py --rounds 10 -- make test

The last line is one JSON object: ``rounds``, ``passed`` (tests and cells that passed in all), ``flakes`` (those that
failed, by name), ``minutes``. It ends with 1 if there was a flake, or if nothing ran. A round that hangs is a flake,
too: its processes write where they stand, and end.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
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


def run(command: list[str], minutes: float) -> tuple[int | None, str, str]:
    """Return the exit status of a command, or None if it did not end in time; and what it wrote to both streams."""
    # A group of its own can be ended as a whole; a session of its own would get a full share of the processor.
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=os.setpgrp
    )
    try:
        output, errors = process.communicate(timeout=60 * minutes)
        return process.returncode, output, errors
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGABRT)  # pytest's processes write the stack of each thread
        time.sleep(10)
        os.killpg(process.pid, signal.SIGKILL)
        return None, *process.communicate()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def main() -> int:
    """Run the rounds; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="how often the command runs")
    parser.add_argument("--minutes", type=float, default=60, help="after which a round hangs")
    parser.add_argument("--competitors", type=int, default=1, help="processes that take a core each")
    parser.add_argument("command", nargs="+", help="what to run, as in: make test")
    asked = parser.parse_args()
    if asked.rounds < 1:
        parser.error(f"--rounds is {asked.rounds}; allowed: 1 or more")
    passed, flakes, began = 0, Counter(), time.monotonic()
    others = [subprocess.Popen([sys.executable, "-c", COMPETITOR]) for _ in range(asked.competitors)]
    try:
        for number in range(1, asked.rounds + 1):
            status, output, errors = run(asked.command, asked.minutes)
            now, failed = sum(map(int, PASSED.findall(output))), FAILED.findall(output)
            if status != 0 or failed or not now:
                print(output[-6000:], errors[-20000:], sep="\n")
                how = "it hung" if status is None else f"exit status {status}"
                failed = failed or [f"round {number}: {how}, {now} passed"]
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
