"""A busy machine is named: own work is never taken for that of others, and the other way round."""

from __future__ import annotations

import math
import subprocess
import sys
import time

import pytest

from labkit.common import other_programs
from labkit.common.other_programs import BUSY, Meter, now, sentence, taken, took, warning

#: Works for half a second of processor time, however long that takes, then says so.
WORK = "import time\nwhile time.process_time() < 0.5: pass\nprint('done', flush=True)\n"
#: The same in a process that nobody in this program has started: its parent ends at once.
ORPHAN = f"import os, sys, time\nif os.fork(): os._exit(0)\nos.setsid()\n{WORK}"


@pytest.mark.parametrize(
    ("clock", "total", "idle", "own", "share"),
    [
        (10, 20, 20, 0, 0.0),  # at rest
        (10, 20, 0, 20, 0.0),  # all cores are ours
        (10, 20, 0, 0, 1.0),  # all cores are theirs
        (10, 20, 5, 10, 0.25),
        (10, 20, 12, 8.1, 0.0),  # clocks that disagree a little take nothing from anybody
    ],
)
def test_what_neither_rests_nor_is_ours_is_taken_by_others(clock, total, idle, own, share):
    assert taken(clock, total, idle, own) == pytest.approx(share)


@pytest.mark.parametrize("times", [(0.1, 0.2, 0, 0), (10, 0, 0, 0), (math.nan,) * 4])
def test_a_time_that_is_too_short_or_unknown_gives_no_number(times):
    assert math.isnan(taken(*times))
    assert sentence(math.nan) == ""


def test_a_watch_that_has_just_begun_says_nothing():
    assert math.isnan(Meter().share())


def test_the_work_of_own_processes_is_own_while_they_run_and_after_they_ended():
    before = now()
    with subprocess.Popen([sys.executable, "-c", f"{WORK}input()"], stdin=-1, stdout=-1, text=True) as child:
        assert child.stdout.readline() == "done\n"
        running = now().own - before.own
        child.communicate("\n")
    ended = now().own - before.own
    assert running >= 0.45  # clocks of the system count in steps of 10 ms
    assert ended >= running - 1e-6  # differences of floats


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_the_work_of_a_process_of_somebody_else_is_not_own():
    before = now()
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=-1, text=True) as parent:
        assert parent.stdout.read() == "done\n"
    after = now()
    taken = (after.total - before.total) - (after.idle - before.idle) - (after.own - before.own)
    assert taken >= 0.4
    assert after.own - before.own < after.total - before.total


def test_from_a_quarter_of_the_cores_on_the_sentence_says_what_to_do():
    assert sentence(0.03) == "Other programs took 3 % of the cores."
    assert sentence(0.45, 2).startswith("Other programs took 0.9 of 2 cores. From 25 % of the cores on")
    assert sentence(0.1, 1) == "Other programs took 0.1 of 1 core."
    assert "63 %" in sentence(0.63)
    assert "no verdict" in sentence(0.63)
    assert "no verdict" in sentence(BUSY)
    assert "no verdict" not in sentence(0.45, 2, limit=0.6)
    assert sentence(0.45, 2, limit=0.6).endswith("0.9 of 2 cores, allowed by busy_limit=0.6.")
    assert sentence(0.2, 2, limit=0.6) == "Other programs took 0.4 of 2 cores."
    assert sentence(None, 2) == sentence(float("nan"), 2) == took(None) == warning(float("nan")) == ""


def test_a_watch_gives_a_share_after_its_shortest_time():
    watch = Meter()
    began = time.monotonic()
    while time.monotonic() - began < other_programs.SHORTEST_S:
        pass
    assert 0 <= watch.share() <= 1
