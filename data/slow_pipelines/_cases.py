"""The slow pipelines of this folder: all by name, and one of them driven for another tool to look at.

python data/slow_pipelines/_cases.py                                    the table of kinds
python data/slow_pipelines/_cases.py sound_decoded_whole --seed 2       drive one, at its step time
python data/slow_pipelines/_cases.py sound_decoded_whole --seed 2 --fixed --profile build/profile
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def load(path: Path) -> ModuleType:
    """Import the file of a case."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where TensorFlow looks for the source of a lambda
    spec.loader.exec_module(module)
    return module


def every(folder: Path = HERE) -> dict[str, ModuleType]:
    """Return the cases of a folder by their names, in alphabetical order."""
    return {path.stem: load(path) for path in sorted(folder.glob("[!_]*.py"))}


def facts(case: ModuleType) -> dict[str, str]:
    """Return what the docstring of a case says: ``fault``, ``Source``, ``Cause`` and ``Remedy``, a line each."""
    first, *rest = (case.__doc__ or "").strip().split("\n\n", 1)
    found = {"fault": " ".join(first.split())}
    for line in "".join(rest).replace("\n    ", " ").splitlines():
        word, _, text = line.partition(": ")
        found[word] = text
    return found


def table() -> str:
    """Return the kinds as a table in Markdown."""
    rows = ["| kind | what is wrong | forms | cause | remedy |", "|---|---|---|---|---|"]
    for name, case in every().items():
        said = facts(case)
        rows.append(f"| `{name}` | {said['fault']} | {', '.join(case.SHAPES)} | {said['Cause']} | {said['Remedy']} |")
    return "\n".join(rows)


def drive(dataset: Any, step_ms: float, steps: int) -> float:
    """Take so many batches, hold each for `step_ms` as an accelerator would, and return the share of that time."""
    import tensorflow as tf

    batches = iter(dataset)
    next(batches)
    start = time.perf_counter()
    for step in range(steps):
        with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
            next(batches)
            time.sleep(step_ms / 1e3)
    return steps * step_ms / 1e3 / (time.perf_counter() - start)


def main() -> None:
    """Print the table of kinds, or drive one case."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("name", nargs="?", choices=sorted(every()), help="the case to drive")
    words.add_argument("--seed", type=int, default=0, help="which variant; the forms come in turn")
    words.add_argument("--fixed", action="store_true", help="drive its healthy twin")
    words.add_argument("--steps", type=int, default=50)
    words.add_argument("--profile", metavar="FOLDER", help="keep a profile of TensorFlow there, for TensorBoard")
    given = words.parse_args()
    if not given.name:
        print(table())
        return
    import tensorflow as tf

    case = every()[given.name]
    with tempfile.TemporaryDirectory() as folder:
        dataset = case.make(folder, given.seed, fixed=given.fixed)
        if given.profile:
            tf.profiler.experimental.start(given.profile)
        busy = drive(dataset, case.STEP_MS, given.steps)
        if given.profile:
            tf.profiler.experimental.stop()
    print(f"{given.name}, seed {given.seed}: the accelerator would be busy for {busy:.0%} of the time")


if __name__ == "__main__":
    main()
