"""How often the tool names the right cause of a slow pipeline, and whether its advice makes it faster.

    python benchmarks/diagnosis.py

The pipelines are those of ``tests/support/pool.py`` and of ``tests/support/outside.py``: each has a fault, or none, and
its sizes, delays and names are drawn from a seed. Each is recorded once, as it is written (``plain``) and under the
``defaults`` of TensorFlow, which rewrites and tunes it; alone, and beside other programs that take a core each. Where
the advice is the right one, it is applied, and both pipelines are measured in turn. The last line is one JSON object of
shares: ``right`` (the right cause with the right advice), ``wrong`` (another cause, or advice that cannot help),
``undecided`` (it says that it cannot tell, or blames nothing where something is wrong), ``advice_faster`` and
``advice_harmful`` (of the advice that was applied, called faster and slower), by options and number of ``competitors``.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

#: A program that is no child of the one that asks for it, works for as long as that one lives, and prints its number.
COMPETITOR = """
import os, sys
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
os.close(1)
while True:
    os.kill(int(sys.argv[1]), 0)
    sum(range(1_000_000))
"""


#: What can be said of a diagnosis.
WORDS = "right", "wrong", "undecided"


@contextlib.contextmanager
def beside(count: int) -> Iterator[None]:
    """Let so many other programs take a core each."""
    words = [sys.executable, "-c", COMPETITOR, str(os.getpid())]
    started: list[str] = []
    try:
        for _ in range(count):
            started.append(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
        yield
    finally:
        for number in started:
            os.kill(int(number), signal.SIGKILL)


def judged(one: Any, stalls: Any) -> str:
    """Return one of `WORDS` for what a recording says of a pipeline, which is what is right under its options."""
    import pool

    if re.search(one.never, stalls.advice):
        return "wrong"
    if re.search(pool.OPEN, stalls.advice):
        return "undecided"
    if not one.causes:
        return "right" if stalls.cause is None else "wrong"
    if stalls.cause in one.causes and re.search(one.says, stalls.advice):
        return "right"
    return "undecided" if stalls.cause is None else "wrong"


def main() -> None:
    """Print a table and one line of JSON."""
    import outside
    import pool

    import labkit
    from labkit.recording import accelerators, measures, recorder
    from labkit.sources import photos

    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--seeds", type=int, default=1, help="pipelines of each kind")
    words.add_argument("--first", type=int, default=1, help="the first seed")
    words.add_argument("--competitors", type=int, nargs="+", default=[0, 2], help="programs that take a core each")
    words.add_argument("--options", choices=("plain", "defaults", "both"), default="both", help="how tf.data runs them")
    words.add_argument("--only", default="", help="a regular expression for the names of the pipelines to run")
    words.add_argument("--no-fix", action="store_true", help="do not apply the advice")
    given = words.parse_args()
    labkit.setup()
    album, figures, raised = photos.load(scale="tiny"), {}, []
    asked = pool.OPTIONS if given.options == "both" else (given.options,)
    with tempfile.TemporaryDirectory() as folder:
        for options, count in itertools.product(asked, given.competitors):
            found: Counter[str] = Counter()
            with pool.under(options), beside(count):
                chosen = [one.under(options) for one in outside.EVERY if re.search(given.only, one.name)]
                for one, seed in itertools.product(chosen, range(given.first, given.first + given.seeds)):
                    accelerator = accelerators.modelled(step_ms=one.step_ms)
                    slow = one.build(seed, Path(folder), album)
                    try:
                        trace = recorder.record(slow, accelerator, steps=12, warmup=4, progress=False)
                        stalls = labkit.Timeline(trace).stalls
                    except Exception as error:  # the others are run all the same; the benchmark ends with 1
                        raised.append(f"{one.name} {seed} {options}: {type(error).__name__}: {error}")
                        print(f"{count}  {raised[-1]}", flush=True)
                        continue
                    word, fixed = judged(one, stalls), ""
                    if word == "right" and one.fix and not given.no_fix:
                        both = {"before": slow, "after": one.build(seed, Path(folder), album, fixed=True)}
                        # A cache pays from the second epoch on, and the start of an epoch comes once in it.
                        starts = stalls.during or stalls.cause == "start"
                        warmup, steps = 12 if "cache" in one.says else 2, 40 if starts else 8
                        rounds = measures.measure(
                            both, accelerator, steps=steps, warmup=warmup, progress=False, profile=False
                        )
                        speedup = measures.compare_rates(rounds.rates("after"), rounds.rates("before"))
                        fixed = str(speedup)
                        found[speedup.verdict] += 1
                        found["applied"] += 1
                    found[word] += 1
                    blame = f"{stalls.cause!s:10s}{stalls.blame or '':18s}"
                    print(f"{count}  {options:9s}{one.name:44s}{word:11s}{blame}{fixed}")
                    if word != "right":
                        print(f"     {stalls.advice}", flush=True)
            all_of, applied = sum(found[w] for w in WORDS), found["applied"]
            figures[f"{options}_{count}"] = {
                **{word: round(found[word] / max(1, all_of), 3) for word in WORDS},
                "advice_faster": round(found["faster"] / applied, 3) if applied else None,
                "advice_harmful": round(found["slower"] / applied, 3) if applied else None,
                "pipelines": all_of,
            }
    print(json.dumps(figures | {"raised": raised}))
    sys.exit(bool(raised))


if __name__ == "__main__":
    main()
