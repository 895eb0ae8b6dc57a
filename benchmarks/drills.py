"""Can a drill be solved without its recording? Programs that try: by its code, by its task sentence, by its recording.

    python benchmarks/drills.py                  200 drills; two to four minutes on two cores
    python benchmarks/drills.py --drills 24 --others 1000
    python benchmarks/drills.py --show           and each drill that the recording does not solve, one a line

Each program names one diagnosis for each of the drills 0, 1, 2, … and has seen none of them before. Two learn, as a
student who collects the answers of a whole class: from the code of other seeds (healthy code among it, since drills of
the machine have no other), and from their sentences. They learn by naive Bayes, by softmax regression and by the most
similar code, and of these the one that solves most counts, although nobody could know it before. The third reads what a
student sees, the timeline with its lanes and gaps and the probe (`by_recording`), and learns nothing. The last line is
one JSON object: ``solved_by_diff``, ``solved_by_sentence`` and ``solved_from_timeline`` are shares of the drills.
"""

from __future__ import annotations

import argparse
import ast
import io
import itertools
import json
import re
import time
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from labcourse import drills
from labcourse.drills.sick_jobs import BLOCK, job
from labkit.common.table import Table
from labkit.timeline.timeline import Timeline
from labkit.timeline.wording import WITH_CONSUMER

#: Seeds to learn from begin here; those below are the drills that are solved.
_OTHERS = 10_000


# -- by code, and by sentence ----------------------------------------------------------------


def plain(code: str) -> str:
    """Return code whose own names are v0, v1, … in the order in which they come: names tell nothing."""
    tree, known = ast.parse(code), {}
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)} - {"case"}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        for field in ("id", "arg", "name"):
            if (name := getattr(node, field, None)) in own and not isinstance(node, ast.keyword):
                setattr(node, field, known.setdefault(name, f"v{len(known)}"))
    return ast.unparse(tree)


def of_code(code: str) -> set[str]:
    """Return what a program looks for in code: its words, and two, three and four of them in a row."""
    read = tokenize.generate_tokens(io.StringIO(plain(code)).readline)
    words = [token.string for token in read if token.string.strip()]
    return {" ".join(words[i : i + n]) for n in (1, 2, 3, 4) for i in range(len(words) - n + 1)}


def of_sentence(task: str) -> set[str]:
    """Return the words of a task sentence, one and two in a row, and how long it is."""
    words = task.split()
    return {*words, *map(" ".join, itertools.pairwise(words)), f"{len(words)} words"}


def learned(
    known: Sequence[set[str]], answers: Sequence[str], asked: Sequence[set[str]], least: int = 4
) -> dict[str, list[str]]:
    """Return what each way of learning says of the texts that are asked, by the name of the way.

    Parameters
    ----------
    known, asked : sequence of set of str
        What stands in a text.
    answers : sequence of str
        The diagnosis of each known text.
    least : int
        What stands in fewer of the known texts is not looked at.
    """
    counts = Counter(itertools.chain.from_iterable(known))
    words = {word: k for k, word in enumerate(sorted(w for w, n in counts.items() if least <= n <= len(known) - least))}
    keys = sorted(set(answers))
    y = np.array([keys.index(one) for one in answers])

    def table(texts: Iterable[set[str]]) -> np.ndarray:
        rows = [np.isin(np.arange(len(words)), [words[w] for w in text if w in words]) for text in texts]
        return np.array(rows, np.float32)

    x, new = table(known), table(asked)
    ways = {"naive Bayes": _bayes, "softmax regression": _softmax, "most similar": _similar}
    return {name: [keys[k] for k in way(x, y, len(keys), new)] for name, way in ways.items()}


def _bayes(x: np.ndarray, y: np.ndarray, count: int, new: np.ndarray) -> np.ndarray:
    of_each = np.eye(count, dtype=np.float32)[y]
    here = (of_each.T @ x + 0.5) / (of_each.sum(axis=0)[:, None] + 1)
    prior = np.log(of_each.mean(axis=0))
    return np.argmax(new @ np.log(here).T + (1 - new) @ np.log(1 - here).T + prior, axis=1)


def _softmax(x: np.ndarray, y: np.ndarray, count: int, new: np.ndarray, rounds: int = 200) -> np.ndarray:
    """Softmax regression with weights that decay, by gradients of all examples at once and their moments (Adam)."""
    mean, spread = x.mean(axis=0), x.std(axis=0) + 0.1
    x, new = ((each - mean) / spread for each in (x, new))
    x, new = (np.c_[each, np.ones(len(each), np.float32)] for each in (x, new))
    weights = np.zeros((x.shape[1], count), np.float32)
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    wanted = np.eye(count, dtype=np.float32)[y]
    for k in range(1, rounds + 1):
        scores = x @ weights
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        slope = x.T @ (shares / shares.sum(axis=1, keepdims=True) - wanted) / len(x) + 1e-3 * weights
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope**2
        weights -= 0.01 * (first / (1 - 0.9**k)) / (np.sqrt(second / (1 - 0.99**k)) + 1e-8)
    return np.argmax(new @ weights, axis=1)


def _similar(x: np.ndarray, y: np.ndarray, count: int, new: np.ndarray, power: int = 12) -> np.ndarray:
    """Let all known texts vote: each by the share of words that it has in common, to a power."""
    both = new @ x.T
    shares = both / np.maximum(new.sum(axis=1)[:, None] + x.sum(axis=1) - both, 1)
    return np.argmax(shares**power @ np.eye(count, dtype=np.float32)[y], axis=1)


# -- by recording -----------------------------------------------------------------------------

#: Lines of the probe that differ, and what they say; the first that fits.
_LINES: list[tuple[str, str]] = [
    ("sizes of batches", "remainder"),
    ("photos that come in epoch 1", "blurred_epochs"),
    ("batches of epoch 1 that epoch 2 repeats", "shuffled_batches"),
    ("labels that belong to their photo", "strange_labels"),
]


def by_recording(drill: drills.Drill) -> str:
    """Return the diagnosis that timeline and probe of a drill say: questions that a student asks, in their order."""
    timeline = Timeline(drill.trace)
    host = timeline.run.host
    if (host.others or 0) >= 0.25:
        return "neighbour"
    if host.cpus < 8:
        return "two_cores"
    if found := _of_data({what: (comes, should) for what, comes, should in drill.probe().rows}):
        return found
    return "nothing" if timeline.busy > 0.93 else _of_waits(drill, timeline)


def _of_data(lines: dict[str, tuple[str, str]]) -> str | None:
    """Return what the probe says, or None where each line is as it should be."""
    held, room = (int("".join(filter(str.isdigit, one))) for one in lines["decoded photos in memory, at most"])
    if held > room:
        return "huge_buffer" if held > 4 * room else "shuffled_images"  # one of them grows with the time

    def numbers(what: str, side: int = 0) -> list[float]:
        return [
            float(one)
            for one in lines[what][side].replace("%", "").replace(" to ", " and ").replace(",", " and").split(" and ")
        ]

    spread = numbers("spread of that difference within a photo")[0]
    colours = [numbers("mean of red, green, blue", side) for side in (0, 1)]
    if numbers("darkest and brightest pixel")[1] < 0.3:
        return "scaled_twice"
    if sum(abs(a - b) for a, b in zip(colours[0][::-1], colours[1], strict=True)) < 0.5 * sum(
        abs(a - b) for a, b in zip(*colours, strict=True)
    ):
        return "bgr"
    if numbers("mean of the first eight rows")[0] > 0.01:
        return "discarded"
    if numbers("pixels that jumped from bright to dark, or back")[0] > 0.2:
        return "overflow"
    for what, key in _LINES:
        comes, should = lines[what]
        if what.startswith("batches") and comes.split()[0] != comes.split()[2]:
            continue
        if what.startswith("photos that come") and int(comes.split()[0]) > 0.85 * int(comes.split()[2]):
            continue
        if what.startswith("labels") and numbers(what)[0] > 90:
            continue
        if comes != should:
            return key
    if spread > 0.02:
        return "noise"
    pairs = [numbers(what) for what in lines if what.startswith("photo ") and "against" in what]
    if np.ptp(pairs) < 0.005:
        return "frozen_numpy"
    return "cached_augment" if all(abs(first - last) < 0.003 for first, last in pairs) else None


def _of_waits(drill: drills.Drill, timeline: Timeline) -> str:
    """Return what the lanes say of a pipeline that lets its accelerator wait."""
    spans = [
        (s.name, s.thread, s.start_ns / 1e6, s.duration_ns / 1e6) for s in timeline.trace if s.thread != "consumer"
    ]
    work = [span for span in spans if not span[0].startswith("Iterator")]
    total: Counter[str] = Counter()
    for name, _, _, ms in work:
        total[name] += ms
    longest = total.most_common(1)[0][0]
    on = Counter[str]()  # by thread, how long it does the work that takes most
    for name, thread, _, ms in work:
        on[thread] += ms * (name == longest)
    if any("Batch" in name and WITH_CONSUMER in thread for name, thread, *_ in spans):
        return "early_prefetch" if any("Prefetch" in thread for _, thread, *_ in work) else "no_prefetch"
    if longest in ("PyFunc", "tone", "read TFRecord"):
        return {"PyFunc": "gil", "tone": "map_fn", "read TFRecord": "gzip"}[longest]
    reads = [(start, ms, thread) for name, thread, start, ms in work if name in ("ReadFile", "read")]
    if found := _of_reads(drill, [one[:2] for one in sorted(reads)], timeline):
        return found
    if longest in ("read", "open"):
        if not any("interleave" in thread for *_, thread in reads):
            return "files_in_turn"
        return "single_file" if len({thread for *_, thread in reads}) == 1 else "tiny_shards"
    if sum(ms for thread, ms in on.items() if "worker" in thread) < 0.5 * on.total():
        return "one_by_one"
    if sum(ms > 0 for ms in on.values()) <= 3:
        return "one_thread"
    listed = [start for name, _, start, _ in work if name == "list names"]
    return "unfinished_cache" if listed and max(listed) > 0.5 * timeline.span_ns / 1e6 else "cached_names"


def _of_reads(drill: drills.Drill, reads: list[tuple[float, float]], timeline: Timeline) -> str | None:
    """Return what is wrong with the storage, if reads take longer than the sheet says."""
    if not reads:
        return None
    answers, moves = map(float, re.findall(r"in ([\d.]+) ms", drill.sheet))
    took = np.array([ms for _, ms in reads])
    begin, end = (np.array(times) for times in zip(*((start, start + ms) for start, ms in reads), strict=True))
    beside = np.array([np.sum((begin < b) & (end > a)) for a, b in zip(begin, end, strict=True)])
    slow = took / (answers + moves * beside)  # how many times as long as it should have taken
    if np.median(slow) > 3 and np.median(slow[-len(slow) // 4 :]) > 3:
        return "slow_link"
    if np.median(slow[:6]) > 3:
        return "cold_disk"
    return "slow_file" if slow.max() > 5 else None


# -- all of it --------------------------------------------------------------------------------


def shares(count: int, others: int, show: Callable[[str], None] = lambda line: None) -> dict[str, float]:
    """Return the share of the first `count` drills that each program solves.

    Parameters
    ----------
    count : int
    others : int
        Drills to learn from.
    show : callable
        Gets a line for each drill that the recording does not solve.
    """
    asked, known = range(count), range(_OTHERS, _OTHERS + others)
    right = [drills.answer(seed).key for seed in asked]
    answers = [drills.answer(seed).key for seed in known]

    def best(of: Callable[[int], set[str]]) -> float:
        ways = learned([of(seed) for seed in known], answers, [of(seed) for seed in asked])
        found = {
            name: float(np.mean([a == b for a, b in zip(said, right, strict=True)])) for name, said in ways.items()
        }
        show(f"{of.__name__}: {found}")
        return max(found.values())

    def code(seed: int) -> set[str]:
        return of_code(drills.answer(seed).code)

    def sentence(seed: int) -> set[str]:
        return of_sentence(job(seed).task)

    found = {"solved_by_diff": best(code), "solved_by_sentence": best(sentence)}
    solved = 0
    for seed, key in zip(asked, right, strict=True):
        said = by_recording(drills.draw(seed))
        solved += said == key
        if said != key:
            show(f"drill {seed} is {key}; the recording was taken for {said}")
    return {**found, "solved_from_timeline": solved / count}


def main() -> None:
    """Run the programs and print what they solve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drills", type=int, default=200)
    parser.add_argument("--others", type=int, default=60 * len(BLOCK), help="drills to learn from")
    parser.add_argument("--show", action="store_true", help="print what the recording does not solve")
    given = parser.parse_args()
    began = time.perf_counter()
    found = shares(given.drills, given.others, print if given.show else lambda line: None)
    rows = [
        ("the code, with the answers of other drills", "solved_by_diff", "at most 0.20"),
        ("the task sentence", "solved_by_sentence", "at most 0.10"),
        ("timeline and probe", "solved_from_timeline", "at least 0.85"),
    ]
    print(
        Table(
            ("a program that sees", "solves", "wanted"), [(who, f"{found[what]:.3f}", want) for who, what, want in rows]
        )
    )
    figures = {"drills": given.drills, **{name: round(value, 3) for name, value in found.items()}}
    print(json.dumps({**figures, "seconds": round(time.perf_counter() - began)}))


if __name__ == "__main__":
    main()
