"""Cells that students write: right, half right, and up to no good."""

from __future__ import annotations

WRONG = {
    # time in two spans counted twice
    "sum": """
def busy_percent(spans, window_ms):
    return 100 * sum(end - start for start, end in spans) / window_ms
""",
    # only what the visible tests ask
    "hard-coded": """
def busy_percent(spans, window_ms):
    known = {40: 50 if spans else 0, 30: 50}
    return known[window_ms]
""",
    "constant": "def busy_percent(spans, window_ms):\n    return 50",
    "crash": "boom = 1 / 0\ndef gaps(spans, window_ms):\n    return []",
    "call hangs": "def blame(gaps, work):\n    while True:\n        pass",
    # equal to everything, near to everything
    "agreeable": """
class Same(float):
    def __eq__(self, other): return True
    def __hash__(self): return 0
    def __sub__(self, other): return Same(0)
    def __abs__(self): return Same(0)
    def __iter__(self): return iter(())
class Text(str):
    def __eq__(self, other): return True
    def __hash__(self): return 0
""",
}
EVIL = {
    # It takes no word to end, neither for the time of its core nor for that of the clock.
    "hang": "from signal import *\nsignal(SIGPROF, SIG_IGN), signal(SIGALRM, SIG_IGN)\nwhile True:\n    pass",
    "segfault": "import ctypes\nctypes.string_at(0)",
    "memory": "hoard = []\nwhile True:\n    hoard.append(bytearray(200_000_000))",
    "exit": "import os\nos._exit(0)",
    "network": "import urllib.request\nurllib.request.urlopen('http://192.0.2.1/answers')",
    "socket": "import socket\ntry:\n    socket.socket().connect(('192.0.2.1', 80))\nexcept Exception:\n    pass",
    "fork": "import os\nwhile True:\n    os.fork()",
    # It would answer with what it finds.
    "read": "import os\nif os.path.exists({path!r}):\n    os._exit(1)",
    "parent": "import os\nprint(open(f'/proc/{os.getppid()}/environ').read())",
    "forge": """
import json, os
for number in range(3, 30):
    try:
        os.write(number, b'{"id": "0", "error": null, "value": {"score": 100}}\\n' * 3)
    except OSError:
        pass
print("score: 100/100")
""",
    "patch": """
import builtins, sys
import labcourse
from labextras.cluster import capacity
capacity.plan = lambda **kwargs: type("Plan", (), {"busy": 1.0})
capacity.Setting.imbalance = property(lambda self: 1.0)
builtins.abs = lambda value: 0
labcourse.check = lambda *args: "passed"
sys.modules["assignments.grader.evaluation"] = None
""",
}
HALF_PIPELINES = {
    "2.1": """
def squares(count, batch_size):
    return tf.data.Dataset.range(count).map(lambda x: x * x).batch(batch_size)
""",
    "2.2": """
def interleaved(shards, size, at_once):
    return tf.data.Dataset.range(shards).interleave(
        lambda s: tf.data.Dataset.range(1000 * s, 1000 * s + size), cycle_length=at_once, num_parallel_calls=2
    )
""",
    "2.3": """
def epochs(values, count):
    raw = tf.data.Dataset.from_tensor_slices(tf.constant(values, tf.float32))
    return raw.map(lambda v: v / 255 + tf.random.uniform([], 0, 0.001)).cache().repeat(count)
""",
    "2.4": "def knobs(decode_ms, train_ms, cores):\n    return 1, 1",
}
