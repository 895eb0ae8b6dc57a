"""What a pipeline makes, or hands over, in vain: values that are thrown away, nodes in a row, iterators made anew.

One law stands behind the first: what an op makes for each element that is delivered, beside that element. Values count,
not bytes, because pixels that become floats are no more of them. It says nothing of the reason. Frames that are decoded
and not chosen, colours that change before the photo shrinks, columns that are parsed and not used, and rows that are
padded before they are cut look alike, and the same helps: choose, crop, shrink or cut first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from labkit.timeline.causes import thresholds
from labkit.timeline.causes.node_work import NodeWork
from labkit.timeline.run import Made, Run
from labkit.timeline.wording import FILE_READERS, short_op, size

#: Ops that make a spectrum.
_WHOLE = re.compile("I?R?FFT([23]D)?|AudioSpectrogram|Mfcc")

#: Sources in memory that are repeated: they begin at once.
_AT_ONCE = re.compile("Repeat(V2)?::((From)?Tensor|TensorSlice|Range)$")


def thrown_away(took: Mapping[str, int], work: NodeWork, run: Run, steps: int) -> dict[str, Any]:
    """Return the op that makes many times what is delivered, how much that is, and what is delivered; empty without.

    Parameters
    ----------
    took : mapping of str to int
        How long the gaps waited for work and for copying into batches, by the word of the op or node.
    work : NodeWork
    run : Run
        What ops make stands in `run.made`, and what is delivered in `run.work`.
    steps : int
        Train steps in the window.
    """
    delivered, images = run.work and run.work.element, run.images_of(steps) or 0
    elements, batch = _elements(work, images), max(1, round(images / max(1, steps)))
    # What a reader takes grows with the records, and they are as long as what is made of them.
    least = thresholds.BESIDE * max((ns for op, ns in took.items() if op not in FILE_READERS), default=0)
    # Nothing of a spectrum is thrown away: all of it goes into each value that is made of it.
    whole = [name for name in work.counts if _WHOLE.fullmatch(short_op(name)) and name in run.made and elements]
    needed = max((work.counts[name] / elements * run.made[name].values for name in whole), default=0.0)
    for op in sorted(took, key=took.get, reverse=True) if delivered and elements else ():
        places = [name for name in work.counts if short_op(name) == op and name in run.made]
        # Of a step, because the window cuts some calls off.
        each = {name: work.counts[name] / elements * batch for name in places}
        # A call may also make several batches.
        runs = {name: max(1, round(n)) / max(1, round(1 / n)) / batch for name, n in each.items()}
        made = {name: Made(n * run.made[name].values, n * run.made[name].bytes) for name, n in runs.items()}
        most = max(made, key=lambda name: made[name].values, default=None)
        if took[op] < least or most is None:
            continue
        more = runs[most] > 1 or made[most].bytes >= thresholds.MORE_BYTES * delivered.bytes
        if more and made[most].values >= max(thresholds.MANY_VALUES, thresholds.WASTED * max(needed, delivered.values)):
            often = f" in {runs[most]:,.0f} calls" if runs[most] > 1 else ""
            return {"wasteful": op, "makes": f"{_words(made[most])}{often}", "delivered": _words(delivered)}
    return {}


def _elements(work: NodeWork, delivered: int) -> int:
    """Return how many elements a batch node asked for, where it was about as many as were delivered, and else those.

    A pipeline that has worked ahead makes less in the window than is delivered in it.
    """
    asked = [work.asked(path) for path in work.calls if re.search("Batch(V2)?$", path)]
    return min(
        (n for n in asked if delivered <= 2 * n <= 4 * delivered), key=lambda n: abs(n - delivered), default=delivered
    )


def _words(made: Made) -> str:
    """Return how many values, with their bytes.

    >>> _words(Made(2_430_000.0, 9_720_000.0)), _words(Made(16.0, 64.0))
    ('2.43 million values (9.72 MB)', '16 values (64 B)')
    """
    values, unit = (made.values / 1e6, " million") if made.values >= 999_500 else (made.values, "")
    return f"{values:,.3g}{unit} values ({size(made.bytes)})" if unit else f"{values:,.0f} values ({size(made.bytes)})"


def chain(work: NodeWork, steps: int) -> dict[str, Any]:
    """Return the kind of node of which many stand in a row, and how many, as facts; empty where ops take the time."""
    longest = max(work.calls, key=lambda path: path.count("::"), default="")
    kind, links = Counter(longest.split("::")).most_common(1)[0]
    calls = sum(n for path, n in work.calls.items() if short_op(path) == kind)
    if links < thresholds.CHAIN or calls < thresholds.MANY_CALLS * steps or work.ops_ns >= thresholds.SMALL_NS * calls:
        return {}
    return {"chain": re.sub(r"^Parallel|V\d+$", "", kind), "links": links}


def small_files(run: Run, steps: int, idle_ns: int) -> dict[str, float]:
    """Return how many files begin in a step that hold a record or two, as a fact; empty where that costs little.

    To begin a file is overhead. Where the idle time is longer for each of them, it is for what the files hold.
    """
    opened = max(run.profiler.begun.get(kind, 0) for kind in FILE_READERS)
    small = 0 < steps <= opened and 0 < (run.images_of(steps) or 0) <= 2 * opened
    return {"files": opened / steps} if small and idle_ns <= thresholds.FRAMEWORK_NS * opened else {}


def anew(work: NodeWork, run: Run, steps: int) -> dict[str, Any]:
    """Return how often in a step a dataset begins that gives only a few elements, or one batch, in words, as a fact.

    Those that Python begins have a root of their own. Where ops take long for each of the others, to begin them costs
    little beside that.
    """
    paths = {kind: work.of(kind, f"From{kind}") for kind in run.profiler.begun}
    at_once = {kind for kind, of in paths.items() if of and all(map(_AT_ONCE.search, of))}
    begun = {kind: count for kind, count in run.profiler.begun.items() if kind not in at_once}
    elements = run.images_of(steps) or 0
    most = max(begun.values(), default=0)
    batches = max((count for kind, count in begun.items() if "Batch" in kind), default=0)
    # How files are read is another matter, and each batch that groups elements is a dataset of its own.
    files, groups = any(2 * begun.get(k, 0) >= most for k in FILE_READERS), any("GroupBy" in p for p in work.calls)
    costs = most if work.ops_ns < thresholds.EACH_NS * most and not files else begun.get("Root", 0)
    few, anew_for_each_batch = elements <= thresholds.FEW * costs, 2 * batches >= steps and not groups
    anew_for_each_batch &= begun.get("Root", 0) >= batches or work.ops_ns < thresholds.EACH_NS * batches
    if not steps or not elements or not (few or anew_for_each_batch):
        return {}
    often = most / steps
    return {"anew": f"{often:,.0f} datasets begin" if often >= 1.5 else "a dataset begins"}
