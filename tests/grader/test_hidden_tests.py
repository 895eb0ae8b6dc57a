"""The hidden tests of the problem sets: right answers hold, however written; half right ones lose their part."""

from __future__ import annotations

import tempfile

import pytest
import tensorflow as tf
from class_of_25 import roster

pytestmark = pytest.mark.random


@pytest.fixture(scope="module")
def failed(sources):
    """A function: an answer to what its tests say, by their points; run as in a notebook, which is faster."""

    def failed(number, answer):
        found, id_ = {}, f"exercise_{number.replace('.', '_')}_test"
        for cell in sources[(roster.PS1, roster.PS2, roster.PS3)[int(number[0]) - 1]].cells:
            mark = cell.metadata.get("nbgrader", {})
            if not mark.get("grade_id", "").startswith(id_):
                continue
            names = {"tf": tf}
            exec(answer, names)
            try:
                exec(cell.source, names)
            except AssertionError as error:
                found[mark["points"]] = str(error)
        return found

    return failed


WHOLE_MILLISECONDS = {
    "1.1": """
def busy_percent(spans, window_ms):
    busy = {t for a, b in spans for t in range(int(a), int(b)) if 0 <= t < window_ms}
    return 100 * len(busy) / window_ms
""",
    "1.2": """
def gaps(spans, window_ms):
    found = []
    for t in sorted(set(range(int(window_ms))) - {t for a, b in spans for t in range(int(a), int(b))}):
        if found and found[-1][1] == t:
            found[-1] = (found[-1][0], t + 1)
        else:
            found.append((t, t + 1))
    return found
""",
    "1.3": """
def blame(gaps, work):
    idle, c = {t for a, b in gaps for t in range(int(a), int(b))}, {}
    for op, a, b in work:
        n = len(idle & set(range(int(a), int(b))))
        if n: c[op] = c.get(op, 0) + n
    return max(c, key=c.get, default=None)
""",
    "1.4": """
def stall(gaps, work, window_ms):
    idle, c = {t for a, b in gaps for t in range(int(a), int(b))}, [0, 0]
    if len(idle) <= 0.05 * window_ms: return "none"
    for op, a, b in work: c[op in ("open", "read")] += len(idle & set(range(int(a), int(b))))
    return "fetch" if c[1] > c[0] else "prep"
""",
}
TIE = """
def stall(gaps, work, window_ms):
    if sum(b - a for a, b in gaps) <= 0.05 * window_ms:
        return "none"
    t = {True: 0, False: 0}
    for op, s, e in work:
        t[op in ("open", "read")] += sum(max(0, min(e, b) - max(s, a)) for a, b in gaps)
    return "fetch" if t[True] >= t[False] else "prep"
"""
GENERATOR = """
def gaps(spans, window_ms):
    reached = 0
    for start, end in [*sorted(spans), (window_ms, window_ms)]:
        if min(start, window_ms) > reached:
            yield reached, min(start, window_ms)
        reached = max(reached, end)
"""


ROUNDED = """
def busy_percent(spans, window_ms):
    busy, reached = 0.0, 0.0
    for start, end in sorted(spans):
        start, end = max(start, reached), min(end, window_ms)
        if end > start:
            busy, reached = busy + end - start, end
    return round(100 * busy / window_ms)
"""
FIRST_GAP = """
def blame(gaps, work):
    inside = {}
    for operation, start, end in work:
        for first, last in gaps[:1]:
            if min(end, last) > max(start, first):
                inside[operation] = inside.get(operation, 0) + min(end, last) - max(start, first)
    return max(inside, key=inside.get, default=None)
"""
LARGEST_GAP = TIE.replace("sum(b - a for a, b in gaps)", "max((b - a for a, b in gaps), default=0)").replace(">=", ">")
HALF_OF_THE_GAPS = TIE.replace("t[True] >= t[False]", "t[True] > sum(b - a for a, b in gaps) / 2")
BELOW_NOTHING = TIE.replace("max(0, min(e, b) - max(s, a))", "(min(e, b) - max(s, a))").replace(
    "t[True] >=", "t[True] >"
)


NOT_CUT = ROUNDED.replace(
    "start, end = max(start, reached), min(end, window_ms)", "start = max(start, reached)"
).replace("round(100 * busy / window_ms)", "100 * busy / window_ms")
GAPS_NOT_CUT = """
def gaps(spans, window_ms):
    found, reached = [], 0
    for a, b in sorted(spans):
        if a > reached:
            found.append((reached, a))
        reached = max(reached, b)
    return found + [(reached, window_ms)] * (reached < window_ms)
"""
ALL_WORK = """
def stall(gaps, work, window_ms):
    if sum(b - a for a, b in gaps) <= 0.05 * window_ms:
        return "none"
    fetch = sum(b - a for o, a, b in work if o in ("open", "read"))
    return "fetch" if fetch > sum(b - a for _, a, b in work) / 2 else "prep"
"""


LEAVE_OPEN = "options.deterministic = False"
INTERLEAVE = """
def interleaved(shards, size, at_once):
    options = tf.data.Options()
    {more}
    return tf.data.Dataset.range(shards).with_options(options).interleave(
        lambda s: tf.data.Dataset.range(1000 * s, 1000 * s + size),
        cycle_length={cycle_length}, block_length=2, num_parallel_calls=2,
    )
"""
INTERLEAVED = INTERLEAVE.format(more="", cycle_length="at_once")
IN_NO_ORDER = INTERLEAVE.format(more=LEAVE_OPEN, cycle_length="at_once")
SQUARES = """
def squares(count, batch_size):
    options = tf.data.Options()
    options.deterministic = True
    numbers = tf.data.Dataset.range(count).map(lambda x: x * x, num_parallel_calls=2)
    return numbers.batch(batch_size).prefetch(1).with_options(options)
"""
SPEAKS = "answer_busy, answer_operation, answer_speed_up = 39.6, {!r}, 1.66"
KNOBS = """
import numpy as np
def knobs(decode_ms, train_ms, cores):
    return np.clip(-(-32 * decode_ms // train_ms), 1, cores), {}(1)
"""
NOISE = "tf.random.uniform([], 0, 0.001)"
DECODED = "raw.map(lambda v: v / 255)"
EPOCHS = """
def epochs(values, count):
    raw = tf.data.Dataset.from_tensor_slices(tf.constant(values, tf.float32))
    return {}
"""

RIGHT = [
    ("1.2", GENERATOR),
    ("1.2", f"{GENERATOR}\n_made = gaps\ngaps = lambda *given: map(list, _made(*given))"),
    ("1.5", SPEAKS.format("the map resize, 3.5 ms an image")),
    ("2.1", SQUARES),
    ("2.2", INTERLEAVED),
    ("2.2", IN_NO_ORDER.replace("num_parallel", "deterministic=True, num_parallel")),  # a map that insists is in order
    ("2.4", KNOBS.format("np.int64")),
]
#: A cache of decoded values is right wherever the rest stands.
RIGHT += [
    ("2.3", EPOCHS.format(body))
    for body in (
        f"{DECODED}.cache().repeat(count).map(lambda v: v + {NOISE})",
        f"raw.batch(2).map(lambda v: v / 255).cache().unbatch().map(lambda v: v + {NOISE}).repeat(count)",
        f"raw.map(lambda v: (v, v / 255)).cache().map(lambda _, v: v + {NOISE}).repeat(count)",
        f"tf.data.Dataset.zip((tf.data.Dataset.from_tensors(0.0).repeat().map(lambda _: {NOISE}),"
        f" {DECODED}.cache().repeat(count))).map(lambda a, b: a + b)",
        f"tf.data.Dataset.zip((raw, tf.data.Dataset.from_tensors(255.0).repeat())).map(lambda v, w: v / w).cache()"
        f".map(lambda v: v + {NOISE}).repeat(count)",
    )
]


@pytest.mark.sample(6)
@pytest.mark.parametrize(("number", "answer"), RIGHT, ids=range(len(RIGHT)))
def test_a_right_answer_holds_however_it_is_written(failed, number, answer):
    assert failed(number, answer) == {}


HALF_RIGHT = [
    *((n, text, {"1.1": 12, "1.2": 10, "1.3": 15, "1.4": 12}[n], "times may be fractions of a millisecond")
      for n, text in WHOLE_MILLISECONDS.items()),
    ("1.1", ROUNDED, 12, "percent are not rounded"),
    ("1.1", NOT_CUT, 12, "what is outside of the window does not count"),
    ("1.2", GAPS_NOT_CUT, 10, "the last gap ends with the window"),
    ("1.3", FIRST_GAP, 15, "every gap counts, not the first alone"),
    ("1.4", TIE, 12, "as long is not longer"),
    ("1.4", ALL_WORK, 12, "work outside of the gaps costs nothing"),
    ("1.4", LARGEST_GAP, 12, "the gaps together are more than 5 %"),
    ("1.4", HALF_OF_THE_GAPS, 12, "longer than the others, not than half"),
    ("1.4", BELOW_NOTHING, 12, "work in one gap takes nothing away in another"),
    ("1.5", SPEAKS.format("decode or resize"), 5, "another operation works longer"),
    ("2.1", SQUARES.replace(".prefetch", ".take(20).prefetch"), 10, "no element of longer data is lost"),
    ("2.1", SQUARES.replace("= True", "= False"), 8, ""),  # what is in order by chance fails as well
    ("2.2", INTERLEAVED.replace("calls=2", "calls=1"), 10, "one call at a time is not parallel"),
    ("2.2", INTERLEAVE.format(more="", cycle_length=2), 15, "at_once says how many shards are open"),
    ("2.2", INTERLEAVED.rstrip() + ".take(100)", 10, "no record of more shards is lost"),
    ("2.2", IN_NO_ORDER, 10, "the order may vary"),
    ("3.1", "def cores_needed(r, ms): return round(r * ms / 1000 + 0.5)", 10, "the time of each"),
    ("3.1", "import math\ndef cores_needed(r, ms): return min(8, math.ceil(r * ms / 1000))", 10, "any number of cores"),
    ("3.2", "def epoch_s(n, r): return round(n / min(r.values())), min(r, key=r.get)", 10, "seconds are not rounded"),
    ("3.3", "def stall_cost(n, busy, h, price): return round(n * (1 - busy) * h * price)", 20, "is not rounded"),
    ("3.4", "def imbalance(s, h): return max(1.0, -(-s // h) * h / s if s >= h else 1.0)", 10, "the mean rounded up"),
]  # fmt: skip
HALF_RIGHT += [
    ("2.3", EPOCHS.format(body), points, words)
    for body, points, words in (
        (f"{DECODED}.take(4).cache().map(lambda v: v + {NOISE}).repeat(count)", 10, "no value of longer data is lost"),
        (f"raw.map(tf.identity).cache().map(lambda v: v / 255 + {NOISE}).repeat(count)", 15, "kept is not decoded"),
        (f"{DECODED}.repeat(count).cache().map(lambda v: v + {NOISE})", 15, "decoding is done again in every epoch"),
        (f"{DECODED}.map(lambda v: v + {NOISE}).repeat(count)", 15, "nothing is kept"),
        (f"{DECODED}.map(lambda v: v + {NOISE}).cache().repeat(count)", 15, "the random numbers are the same"),
        (f"raw.cache().map(lambda v: v / 255 + {NOISE}).repeat(count)", 15, "no map is kept"),
        (f"{DECODED}.cache(__import__('tempfile').mkdtemp() + '/kept').map(lambda v: v + {NOISE}).repeat(count)", 15,
         "kept in a file"),
    )
]  # fmt: skip


@pytest.mark.sample(20)
@pytest.mark.parametrize(("number", "answer", "points", "words"), HALF_RIGHT, ids=range(len(HALF_RIGHT)))
def test_a_half_right_answer_loses_its_part(failed, tmp_path, monkeypatch, number, answer, points, words):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = failed(number, answer)
    assert points in found
    assert words in found[points]
    assert len(found) == 1 or answer == IN_NO_ORDER or not words, "an order that may vary may also show"


def test_a_truth_value_is_no_whole_number(failed):
    for kind in ("bool", "np.bool_"):
        assert failed("2.4", KNOBS.format(kind)).keys() == {10, 15}
