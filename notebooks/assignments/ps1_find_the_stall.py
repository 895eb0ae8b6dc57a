# %% [markdown]
# # Problem set 1: find the stall
#
# **You will** compute what a timeline shows: when the accelerator was busy, when it waited, what for, and which operation is to blame.
#
# **You need** notebooks 00 and 01. Plain Python is enough; no TensorFlow. About two hours. 100 points.
#
# Write your code where it says `YOUR CODE HERE`, and leave the other cells as they are: cells with tests are put back to their first state before grading. Your notebook runs from top to bottom, with more tests than you see, and without network: a connection is refused, and an answer that needs one gets no points. No other process starts either (`multiprocessing`, workers of a loader); threads do. A loop without an end costs its part. All times are in milliseconds, and may be fractions.

# %% bootstrap=true
from labkit import simulate

# %% [markdown]
# ## 1.1 Busy percent (20 points)
#
# `busy_percent(spans, window_ms)` gets spans `(start_ms, end_ms)` of one accelerator and the length of the window, which begins at 0. Return the share of the window in which at least one span is open, in percent.
#
# Spans come in any order. They may overlap: time in two spans counts once. They may reach out of the window: what is outside does not count.


# %% solution="1.1"
def busy_percent(spans, window_ms):
    ### BEGIN SOLUTION
    busy, reached = 0.0, 0.0
    for start, end in sorted(spans):
        start, end = max(start, reached), min(end, window_ms)
        if end > start:
            busy += end - start
            reached = end
    return 100 * busy / window_ms
    ### END SOLUTION


# %% tests="1.1" points=8
assert abs(busy_percent([(0, 10), (20, 30)], 40) - 50) < 1e-6, "two spans of 10 ms in 40 ms are 50 %"
assert abs(busy_percent([], 40) - 0) < 1e-6, "without spans nothing is busy"
### BEGIN HIDDEN TESTS
assert abs(busy_percent([(3, 10), (12, 20), (30, 31)], 50) - 32) < 1e-6, "three spans apart"
assert abs(busy_percent([(0, 80)], 80) - 100) < 1e-6, "busy all the time"
### END HIDDEN TESTS

# %% tests="1.1" points=12
assert abs(busy_percent([(0, 10), (5, 15)], 30) - 50) < 1e-6, "time in two spans counts once"
### BEGIN HIDDEN TESTS
assert abs(busy_percent([(20, 30), (0, 25)], 40) - 75) < 1e-6, "spans come in any order"
assert abs(busy_percent([(0, 40), (10, 20), (30, 50)], 100) - 50) < 1e-6, "a span inside another"
assert abs(busy_percent([(-10, 10), (90, 130)], 100) - 20) < 1e-6, "what is outside of the window does not count"
assert abs(busy_percent([(-20, -10), (10, 30), (100, 120)], 80) - 25) < 1e-6, (
    "a span outside of the window is not there"
)
assert abs(busy_percent([(0.5, 2.75), (1.5, 3.25)], 5.5) - 50) < 1e-6, "times may be fractions of a millisecond"
assert abs(busy_percent([(1, 2)], 3) - 100 / 3) < 1e-6, "percent are not rounded"
### END HIDDEN TESTS

# %% [markdown]
# ## 1.2 The gaps (20 points)
#
# `gaps(spans, window_ms)` returns the idle gaps of the same accelerator as a list of `(start_ms, end_ms)`, in order: every stretch of the window in which no span is open, also before the first and after the last.


# %% solution="1.2"
def gaps(spans, window_ms):
    ### BEGIN SOLUTION
    found, reached = [], 0
    for start, end in sorted(spans):
        if min(start, window_ms) > reached:
            found.append((reached, min(start, window_ms)))
        reached = max(reached, end)
    if reached < window_ms:
        found.append((reached, window_ms))
    return found
    ### END SOLUTION


# %% tests="1.2" points=10
assert [tuple(g) for g in gaps([(0, 10), (20, 30)], 40)] == [(10, 20), (30, 40)], (
    "between the spans, and after the last"
)
### BEGIN HIDDEN TESTS
assert [tuple(g) for g in gaps([(5, 10), (12, 20)], 20)] == [(0, 5), (10, 12)], (
    "before the first span, and none after the last"
)
assert [tuple(g) for g in gaps([], 15)] == [(0, 15)], "without spans the whole window is one gap"
### END HIDDEN TESTS

# %% tests="1.2" points=10
assert [tuple(g) for g in gaps([(0, 10), (10, 20)], 20)] == [], "spans that touch leave no gap"
### BEGIN HIDDEN TESTS
assert [tuple(g) for g in gaps([(30, 40), (0, 20), (5, 10)], 50)] == [(20, 30), (40, 50)], (
    "a span inside another ends no gap"
)
assert [tuple(g) for g in gaps([(-5, 3), (10, 60)], 40)] == [(3, 10)], "a gap lies inside the window"
assert [tuple(g) for g in gaps([(0, 10), (50, 60)], 40)] == [(10, 40)], "the last gap ends with the window"
assert [tuple(g) for g in gaps([(-20, -10), (5, 10)], 12)] == [(0, 5), (10, 12)], "the first gap begins with the window"
assert [tuple(g) for g in gaps([(0.5, 2.25), (2.5, 4)], 5.5)] == [(0, 0.5), (2.25, 2.5), (4, 5.5)], (
    "times may be fractions of a millisecond"
)
### END HIDDEN TESTS

# %% [markdown]
# ## 1.3 The operation to blame (25 points)
#
# `blame(gaps, work)` gets gaps as in 1.2, and the work of the pipeline as `(operation, start_ms, end_ms)`. Return the name of the operation that did most of its work *inside the gaps*, or `None` if none worked there. Work outside of gaps is hidden behind training: it costs nothing. An operation may run on several threads at once; then the times add up.


# %% solution="1.3"
def blame(gaps, work):
    ### BEGIN SOLUTION
    inside = {}
    for operation, start, end in work:
        for first, last in gaps:
            common = min(end, last) - max(start, first)
            if common > 0:
                inside[operation] = inside.get(operation, 0) + common
    return max(inside, key=inside.get) if inside else None
    ### END SOLUTION


# %% tests="1.3" points=10
assert blame([(0, 10)], [("read", 0, 2), ("decode", 2, 10)]) == "decode", "decode works 8 of the 10 ms"
### BEGIN HIDDEN TESTS
assert blame([(0, 10)], [("read", 0, 7), ("decode", 7, 10)]) == "read", "read works longer than decode in the gap"
assert blame([(5, 6)], [("augment", 0, 20)]) == "augment", "a span may be longer than the gap"
### END HIDDEN TESTS

# %% tests="1.3" points=15
assert blame([(0, 5)], [("read", 0, 4), ("decode", 5, 60)]) == "read", "work outside of the gaps costs nothing"
### BEGIN HIDDEN TESTS
assert blame([(0, 5), (50, 58)], [("decode", 0, 4), ("read", 10, 53), ("decode", 53, 55)]) == "decode", (
    "several gaps add up"
)
assert blame([(0, 10)], [("read", 0, 6), ("decode", 0, 4), ("decode", 2, 6)]) == "decode", "two threads add up"
short = [(0, 0.75), (2, 2.75), (4, 5)]
assert blame(short, [("read", 0, 0.75), ("decode", 4, 5), ("read", 2, 2.75)]) == "read", (
    "times may be fractions of a millisecond"
)
assert blame([(0, 5), (50, 58)], [("decode", 0, 4), ("read", 50, 58)]) == "read", (
    "every gap counts, not the first alone"
)
assert blame([(0, 5)], [("read", 5, 9)]) is None, "nothing worked in the gap"
assert blame([], [("read", 5, 9)]) is None, "there is no gap"
### END HIDDEN TESTS

# %% [markdown]
# ## 1.4 Fetch stall, prep stall, or none (20 points)
#
# `stall(gaps, work, window_ms)` names the kind of stall: `"none"` if the gaps together are at most 5 % of the window; else `"fetch"` if the operations `open` and `read` worked longer inside the gaps than all others together; else `"prep"`.


# %% solution="1.4"
def stall(gaps, work, window_ms):
    ### BEGIN SOLUTION
    if sum(last - first for first, last in gaps) <= 0.05 * window_ms:
        return "none"
    fetch = prep = 0
    for operation, start, end in work:
        common = sum(max(0, min(end, last) - max(start, first)) for first, last in gaps)
        if operation in ("open", "read"):
            fetch += common
        else:
            prep += common
    return "fetch" if fetch > prep else "prep"
    ### END SOLUTION


# %% tests="1.4" points=8
assert stall([(0, 50)], [("read", 0, 40), ("decode", 40, 50)], 100) == "fetch", "read works 40 of the 50 ms"
assert stall([(0, 50)], [("read", 0, 10), ("decode", 10, 50)], 100) == "prep", "decode works 40 of the 50 ms"
### BEGIN HIDDEN TESTS
assert stall([(0, 20), (60, 90)], [("read", 0, 20), ("decode", 60, 89)], 100) == "prep", "two gaps"
### END HIDDEN TESTS

# %% tests="1.4" points=12
assert stall([(0, 5)], [("read", 0, 5)], 100) == "none", "5 % is not more than 5 %"
### BEGIN HIDDEN TESTS
assert stall([], [("decode", 0, 90)], 100) == "none", "no gaps, no stall"
assert stall([(0, 20)], [("decode", 0, 15), ("read", 15, 90)], 100) == "prep", "work outside of the gaps costs nothing"
assert stall([(0, 30)], [("open", 0, 9), ("read", 9, 18), ("decode", 10, 22)], 100) == "fetch", "open and read together"
assert stall([(0, 30)], [("read", 0, 12), ("decode", 12, 22), ("augment", 22, 30)], 100) == "prep", (
    "all others together"
)
assert stall([(0, 20)], [("read", 0, 10), ("decode", 10, 20)], 100) == "prep", "as long is not longer"
assert stall([(0, 3), (50, 53)], [("read", 0, 53)], 100) == "fetch", "the gaps together are more than 5 %"
assert stall([(0, 40)], [("read", 0, 10), ("decode", 10, 15)], 100) == "fetch", "longer than the others, not than half"
assert stall([(0, 10), (50, 60)], [("read", 0, 8), ("decode", 50, 57)], 100) == "fetch", (
    "work in one gap takes nothing away in another"
)
assert stall([(0, 2.75)], [("read", 0, 1.5), ("decode", 1.5, 2.75)], 50) == "fetch", (
    "times may be fractions of a millisecond"
)
### END HIDDEN TESTS

# %% [markdown]
# ## 1.5 Read a timeline (15 points)
#
# The trace below is a simulated run of a naive pipeline: nothing overlaps. Draw it (`labkit.draw(trace)`), print `labkit.Timeline(trace)`, and give
#
# - `answer_busy`: how busy the accelerator is, in percent, to one point;
# - `answer_operation`: the *map* operation that costs most of the wait;
# - `answer_speed_up`: the largest speed-up that overlap alone can bring (the same threads, the same costs), as the ratio of step times, to 0.05.

# %% given="trace"
costs = simulate.Costs(open=0.5, read=1.0, map={"decode": 2.0, "resize": 3.5, "augment": 0.5}, batch=4, train=160)
trace = simulate.run(costs, simulate.Knobs(batch_size=32), steps=12)

# %% solution="1.5"
answer_busy = None
answer_operation = None
answer_speed_up = None
### BEGIN SOLUTION
answer_busy = 100 * 160 / (160 + 32 * 7.5 + 4)
answer_operation = "resize"
answer_speed_up = (160 + 32 * 7.5 + 4) / (32 * 7.5 + 4)
### END SOLUTION

# %% tests="1.5" points=5
assert answer_operation is not None, "not answered"
assert isinstance(answer_operation, str), 'answer_operation is a name, such as "decode"'
### BEGIN HIDDEN TESTS
import re

named = set(re.split(r"\W+", answer_operation.lower())) & {
    "open",
    "read",
    "decode",
    "resize",
    "augment",
    "batch",
    "train",
}
assert named == {"resize"}, "another operation works longer"
### END HIDDEN TESTS

# %% tests="1.5" points=5
assert answer_busy is not None, "not answered"
assert 0 < answer_busy <= 100, "answer_busy is a percentage"
### BEGIN HIDDEN TESTS
import labkit
from labkit import simulate

truth = simulate.run(
    simulate.Costs(open=0.5, read=1.0, map={"decode": 2.0, "resize": 3.5, "augment": 0.5}, batch=4, train=160),
    simulate.Knobs(batch_size=32),
    steps=12,
)
assert abs(answer_busy - 100 * labkit.Timeline(truth).busy) <= 1, "read how busy the accelerator is from its lane"
### END HIDDEN TESTS

# %% tests="1.5" points=5
assert answer_speed_up is not None, "not answered"
assert answer_speed_up >= 1, "overlap makes nothing slower"
### BEGIN HIDDEN TESTS
loading = 32 * (0.5 + 1.0 + 2.0 + 3.5 + 0.5) + 4
assert abs(answer_speed_up - (loading + 160) / max(loading, 160)) <= 0.05, (
    "with overlap the slower of the two sets the pace"
)
### END HIDDEN TESTS
