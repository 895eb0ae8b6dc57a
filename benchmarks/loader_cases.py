"""How often the tool is right on slow loaders of PyTorch, Keras and Python, and what its advice gains when it is taken.

    build/loaders/bin/python benchmarks/loader_cases.py --competitors 0            half an hour on two cores
    build/loaders/bin/python benchmarks/loader_cases.py --only rows --seeds 1 --competitors 0

It is `benchmarks/cases.py` for the jobs of ``data/slow_loaders``, with its words and its figures: each file states its
cause, what right advice says, and what must not be said; sizes, names and forms are drawn from a seed. Advice is
applied as it stands and timed in turn with the slow job and with the file's own remedy. Wrong data are judged by what
`labextras.checks.inspect` finds, with no argument beside the loader, in the faulty one and in its healthy twin.

It needs PyTorch, datasets and pandas beside the lab. The last line is one JSON object, by the number of
``competitors``: ``right``, ``wrong``, ``undecided``, ``advice_helped``, ``advice_harmed`` and ``silent_found``.
"""

from __future__ import annotations

import sys

from diagnosis import ROOT

sys.path.insert(0, str(ROOT / "data" / "slow_loaders"))

from cases import main

if __name__ == "__main__":
    main(ROOT / "data" / "slow_loaders")
