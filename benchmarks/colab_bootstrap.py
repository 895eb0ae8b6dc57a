"""How long the bootstrap cell takes in Colab, from a kernel without the lab to its first line; target: 30 s.

    python benchmarks/colab_bootstrap.py [--rounds 3]

Each round is a machine as fresh as Colab hands them out: Colab's packages, its kernel, no labkit. The cell is run with
labkit's wheel at hand (the address in it is replaced by that of the file), and as it stands: pip clones the repository
and builds the wheel; git finds the address in a folder, so the way to GitHub is not in it. Both start the kernel and
import TensorFlow, as the cell does. One JSON line at the end: medians, and which packages came.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "notebooks")]

from colab_stand_in.runtime import Runtime, at_github  # noqa: E402

from badges import bootstrap, settings  # noqa: E402

TARGET_S = 30


def once(folder: Path, cell: str, **variables: str) -> tuple[float, set[str]]:
    """Run one cell on a fresh machine; return seconds from the start of the kernel to its end, and what was added."""
    machine = Runtime(folder)
    before = machine.freeze()
    path = folder / "bootstrap.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)]), path)
    start = time.perf_counter()
    machine.open(path, **variables)
    seconds = time.perf_counter() - start
    after = machine.freeze()
    if not before <= after:
        raise RuntimeError(f"the bootstrap changed {sorted(before - after)}")
    return seconds, {line.split("==")[0].split(" @ ")[0] for line in after - before}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    repository, tag = settings(ROOT)
    cell = bootstrap(repository, tag)
    taken: dict[str, list[float]] = {"wheel": [], "git": []}
    added: set[str] = set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", name]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        (wheel,) = folder.glob("*.whl")
        at_hand = cell.replace(f"git+https://github.com/{repository}@{tag}", wheel.as_uri())
        with at_github(folder, repository, tag) as of_git:
            for i in range(rounds):
                for way, source, variables in (("wheel", at_hand, {}), ("git", cell, of_git)):
                    seconds, came = once(folder / f"{way}-{i}", source, **variables)
                    taken[way].append(seconds)
                    added |= came
                    print(f"round {i + 1}: {way:<6} {seconds:5.1f} s", flush=True)
    median = {way: round(statistics.median(values), 1) for way, values in taken.items()}
    result = {
        "bootstrap_s": median["wheel"],
        "bootstrap_git_s": median["git"],
        "target_s": TARGET_S,
        "met": median["wheel"] <= TARGET_S,
        "added": sorted(added),
        "rounds": rounds,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
