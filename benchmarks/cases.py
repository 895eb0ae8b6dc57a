"""How often the tool is right on slow pipelines as their owners run them, and what its advice gains when it is taken.

    python benchmarks/cases.py                                  one to two hours on two cores; --no-fix: a third of it
    python benchmarks/cases.py --only sound --seeds 1 --competitors 0
    python benchmarks/cases.py --folder FOLDER                  more cases, which are shown and not counted

The pipelines are those of ``data/slow_pipelines``, under TensorFlow's default options: each file states its cause, what
right advice says, and what must not be said; sizes, names and forms are drawn from a seed. Each pipeline is recorded
once, alone and beside other programs that take a core each. The advice that was given is then applied as it stands,
where the file knows how (``ADVICE``), and timed in turn with the slow job and with the file's own remedy, without the
profiler. Silent errors are judged by what `labextras.checks.inspect` finds: the fault in the faulty one, and nothing in
its twin.

The last line is one JSON object, by the number of ``competitors``. Shares of all pipelines: ``right``; ``wrong``
(another cause, op or check, a sentence that the file forbids, or a false alarm); ``undecided`` (it says that it cannot
tell, or that nothing is wrong where something is). Shares of the slow pipelines: ``advice_helped`` and
``advice_harmed`` (called faster and slower); where nothing was said that can be applied, it has not helped. Share of
the wrong data: ``silent_found``. ``numbers`` are those of the pipelines, ``spread`` is Wilson's interval of 95 %,
``by_seed`` the lowest and the highest share.

Files of another folder have a comment that begins with ``# TRUTH``, ``STEP_MS``, ``make(folder)``, where there are
remedies ``fixes(folder)``, and for wrong data ``INSPECT``, arguments of `inspect`. No program can judge them: what was
said is printed below the truth, and what each remedy gains.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from diagnosis import ROOT, WORDS, beside

sys.path.insert(0, str(ROOT / "data" / "slow_pipelines"))

import _cases
from pool import OPEN

from labkit.advice import REFUSAL
from labkit.common import other_programs

GAINS = {"advice_helped": "faster", "advice_harmed": "slower"}


def judged(case: Any, stalls: Any) -> str:
    """Return "right", "wrong" or "undecided" for what was said of a slow or a healthy pipeline."""
    said = stalls.advice
    if re.search(case.NEVER, said):
        return "wrong"
    named = re.search(case.SAYS, said) and (stalls.blame is None or re.search(case.OP, stalls.blame))
    if named and stalls.cause in (case.CAUSE or {None}) and not said.startswith(REFUSAL):
        return "right"
    missed = stalls.cause is None and case.CAUSE
    return "undecided" if missed or said.startswith(REFUSAL) or re.search(OPEN, said) else "wrong"


def judged_data(case: Any, faulty: Any, twin: Any) -> str:
    """Return "right", "wrong" or "undecided" for what `inspect` found in a dataset and in its healthy twin."""
    names, texts = [found.name for found in faulty.faults], [found.text for found in faulty.faults]
    if twin.faults or any(re.search(case.NEVER, text) for text in texts):
        return "wrong"
    if not names:
        return "undecided"
    return "right" if any(re.search(case.FINDS, name) for name in names) else "wrong"


def advised(case: Any, advice: str) -> Any:
    """Return the form of the pipeline that the advice asks for, taken as it stands; None if it asks for none."""
    known = getattr(case, "ADVICE", {case.SAYS: True})
    return next((form for said, form in known.items() if re.search(said, advice)), None)


def gain(variants: dict[str, Any], case: Any) -> dict[str, Any]:
    """Return the speed-up of each variant over the first, timed in turn."""
    from labkit.recording import accelerators, measures

    rounds = measures.measure(
        variants,
        accelerators.modelled(step_ms=case.STEP_MS),
        steps=getattr(case, "STEPS", 8),
        warmup=getattr(case, "WARMUP", 2),
        progress=False,
        profile=False,
    )
    first, *others = variants
    return {name: measures.compare_rates(rounds.rates(name), rounds.rates(first)) for name in others}


def inspected(case: Any, seed: int, folder: str, fixed: bool) -> Any:
    """Return what `inspect` finds, with the arguments that the file gives."""
    from labextras.checks import inspect

    given = {"reference": case.reference(folder, seed)} if hasattr(case, "reference") else {}
    return inspect(case.make(folder, seed, fixed=fixed), **given, **case.INSPECT)


def recorded(dataset: Any, case: Any) -> tuple[Any, str]:
    """Record a pipeline as a user would, and return the waits of its timeline and what is said of them."""
    import labkit

    trace = labkit.record(dataset, labkit.accelerators.modelled(step_ms=case.STEP_MS), progress=False)
    stalls = labkit.Timeline(trace).stalls
    said = f"{stalls.cause or 'no cause'}, {stalls.blame or 'no op'}: {stalls.advice} {list(stalls.rules)}"
    others = other_programs.took(trace.run.host.others, trace.run.host.cpus)
    return stalls, f"busy {1 - stalls.shares.total():.0%}, {others}; {said}"


def diagnosed(case: Any, seed: int, folder: str, fix: bool) -> dict[str, Any]:
    """Record or inspect one pipeline, and return the word, what was said, and what the advice gained."""
    if hasattr(case, "FINDS"):
        faulty, twin = (inspected(case, seed, folder, fixed) for fixed in (False, True))
        said = "; ".join(map(repr, faulty.faults)) or "no fault"
        said += "".join(f"; of its twin: {found!r}" for found in twin.faults)
        return {"word": judged_data(case, faulty, twin), "said": said, "silent": True}
    slow = case.make(folder, seed)
    stalls, said = recorded(slow, case)
    found = {"word": judged(case, stalls), "said": said}
    if fix and case.CAUSE:
        form = advised(case, f"{stalls.advice} {' '.join(stalls.rules)}")
        forms = [True] if form in (None, True) else [True, form]
        speedups = gain({"slow": slow} | {str(one): case.make(folder, seed, fixed=one) for one in forms}, case)
        found |= {"verdict": "nothing to apply", "gain": "nothing to apply", "remedy": str(speedups["True"])}
        if form is not None:
            found |= {"verdict": speedups[str(form)].verdict, "gain": str(speedups[str(form)])}
    return found


def counted(results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the shares, the numbers that they are made of, and their spread."""
    from scipy.stats import binomtest

    results = [one for one in results if "word" in one]
    slow, silent = ([one for one in results if key in one] for key in ("verdict", "silent"))
    shares: dict[str, Any] = {"cases": len(results), "numbers": {}, "spread": {}, "by_seed": {}}
    groups = [(word, "word", word, results) for word in WORDS] + [("silent_found", "word", "right", silent)]
    for name, key, value, among in groups + [(name, "verdict", verdict, slow) for name, verdict in GAINS.items()]:
        if not among:
            continue
        hits = [one for one in among if one[key] == value]
        of, by = Counter(one["seed"] for one in among), Counter(one["seed"] for one in hits)
        spread = binomtest(len(hits), len(among)).proportion_ci(0.95, method="wilson")
        shares[name] = round(len(hits) / len(among), 3)
        shares["numbers"][name] = f"{len(hits)} of {len(among)}"
        shares["spread"][name] = [round(spread.low, 3), round(spread.high, 3)]
        seeds = [by[seed] / of[seed] for seed in of]
        shares["by_seed"][name] = [round(min(seeds), 3), round(max(seeds), 3)]
    return shares


def shown(path: Path, folder: str, fix: bool) -> None:
    """Record or inspect a case of another folder, and print its truth, what was said, and what its remedies gain."""
    from labextras.checks import inspect

    lines = itertools.takewhile(lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines())
    print("\n".join([f"== {path.stem}", *lines]))
    case = _cases.load(path)
    dataset = case.make(folder)
    for name in ("INSPECT", "INSPECT_ALSO"):
        if hasattr(case, name):
            print(f"said, with {name}: {inspect(dataset, **getattr(case, name))!r}")
    if hasattr(case, "INSPECT"):
        return
    print("said:", recorded(dataset, case)[1])
    if fix and hasattr(case, "fixes"):
        for name, speedup in gain({"slow": dataset, **case.fixes(folder)}, case).items():
            print(f"gained: {name}: {speedup}")


def every(given: argparse.Namespace, folder: Path) -> list[tuple[str, ModuleType, int]]:
    """Return name, case and seed of the pipelines that are asked for."""
    cases = [(name, case) for name, case in _cases.every(folder).items() if re.search(given.only, name)]
    return [(*one, seed) for seed in range(given.first, given.first + given.seeds) for one in cases]


def main(folder: Path = _cases.HERE) -> None:
    """Print a line for each pipeline of a folder and one line of JSON."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--seeds", type=int, default=3, help="pipelines of each kind; the forms of a kind come in turn")
    words.add_argument("--first", type=int, default=0, help="the first seed")
    words.add_argument("--competitors", type=int, nargs="+", default=[0, 2], help="programs that take a core each")
    words.add_argument("--only", default="", help="a regular expression for the names of the cases to run")
    words.add_argument("--no-fix", action="store_true", help="do not apply the advice")
    words.add_argument("--folder", type=Path, help="more cases, which are shown and not counted")
    words.add_argument("--keep", type=Path, help="add each result to this file, and leave out what is in it")
    given = words.parse_args()
    import tensorflow as tf

    import labkit

    labkit.setup()
    print(f"{time.strftime('%Y-%m-%d')}, TensorFlow {tf.__version__}, options: TensorFlow's own, nothing is set")
    kept = given.keep.read_text(encoding="utf-8").splitlines() if given.keep and given.keep.exists() else []
    results, raised = [one for one in map(json.loads, kept) if "word" in one], []
    done = {(one["competitors"], one["name"], one["seed"]) for one in results}
    for count in given.competitors:
        with beside(count):
            for name, case, seed in every(given, folder):
                if (count, name, seed) in done:
                    continue
                one = {"competitors": count, "name": name, "seed": seed, "form": case.SHAPES[seed % len(case.SHAPES)]}
                try:
                    with tempfile.TemporaryDirectory() as where:
                        one |= diagnosed(case, seed, where, not given.no_fix)
                except Exception as error:  # the others are run all the same; the benchmark ends with 1
                    one["raised"] = f"{type(error).__name__}: {error}"
                    raised.append(f"{name} {seed}: {one['raised']}")
                results.append(one)
                print(f"{count}  {name:30s} {seed} {one['form']:28s} {one.get('word', 'raised')}")
                lines = [(key, one[key]) for key in ("said", "gain", "remedy", "raised") if key in one]
                print(*(f"      {key:8s}{text}" for key, text in lines), sep="\n", flush=True)
                if given.keep:
                    with given.keep.open("a", encoding="utf-8") as out:
                        print(json.dumps(one), file=out)
    for path in sorted(given.folder.glob("[!_]*.py")) if given.folder else ():
        try:
            with tempfile.TemporaryDirectory() as where:
                shown(path, where, not given.no_fix)
        except Exception as error:
            raised.append(f"{path.stem}: {type(error).__name__}: {error}")
            print(raised[-1], flush=True)
    by_count = {f"competitors_{n}": counted(r for r in results if r["competitors"] == n) for n in given.competitors}
    print(json.dumps(by_count | {"raised": raised}))
    sys.exit(bool(raised))


if __name__ == "__main__":
    main()
