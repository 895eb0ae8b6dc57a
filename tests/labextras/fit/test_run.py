"""`labkit run`: a script is what it is under Python alone, and one window of its training is watched."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap

import pytest

#: What a script prints that must be the same under `labkit run`: how it was called, and what random numbers follow.
STATE = """
import random, sys
import numpy as np
random.seed(1)
np.random.seed(1)
def state(losses):
    print(__name__, sys.argv, losses, random.random(), np.random.rand(), __file__.endswith("script.py"))
    print(sys.path[0], __spec__, __package__, __builtins__, sys.modules["__main__"].state is state)
"""

KERAS = (
    STATE
    + """
import keras, tensorflow as tf
keras.utils.set_random_seed(3)
data = tf.data.Dataset.range(40).map(lambda n: (tf.random.normal((8, 16)), tf.range(8) % 4))
model = keras.Sequential([keras.layers.Dense(4)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
found = model.fit(data, epochs=2, verbose=0, validation_data=data.take(3)).history
assert "fit" not in vars(keras.Model), "it is put back when the window is over"
state(found)
"""
)

LOOP = (
    STATE
    + """
import keras, tensorflow as tf
keras.utils.set_random_seed(3)
data = tf.data.Dataset.range(30).map(lambda n: (tf.random.normal((8, 16)), tf.range(8) % 4)).batch(1).unbatch()
held = data.take(2)
model, adam = keras.Sequential([keras.layers.Dense(4)]), keras.optimizers.Adam()
cost = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = cost(y, model(x))
    adam.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss
for x, y in held:  # before the training
    model(x)
losses = []
for epoch in range(2):
    for number, (x, y) in enumerate(data):
        losses.append(float(step(x, y)))
        if number % 10 == 9:
            for x, y in held:
                model(x)
state(losses)
"""
)

TORCH = (
    STATE
    + """
import torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 320
    def __getitem__(self, i): return torch.randn(16) + i + 0 * sum(range(20_000)), i % 4
def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # two that wait for each other take minutes on a busy machine
    net = torch.nn.Linear(16, 4)
    sgd = torch.optim.SGD(net.parameters(), 0.01)
    train = DataLoader(Rows(), 8, shuffle=True, num_workers=1, multiprocessing_context=CONTEXT)
    held, losses = DataLoader(Rows(), 160), []
    for x, y in held:  # a mean, before the training
        x.mean()
    for epoch in range(2):
        for number, (x, y) in enumerate(train):
            sgd.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            sgd.step()
            losses.append(loss.item())
            if number % 15 == 14:
                with torch.no_grad():
                    for x, y in held:
                        net(x)
    state(losses + [torch.rand(1).item()])
if __name__ == "__main__":
    main()
"""
)


def under(how, tmp_path, text, *arguments, options=(), **settings):
    """Run a script by Python alone, or by `labkit run`, in a folder of its own."""
    folder = tmp_path / "there"
    folder.mkdir(exist_ok=True)
    (folder / "script.py").write_text(textwrap.dedent(text))
    verb = [] if how == "python" else ["-m", "labkit.cli", "run", *options]
    command = [sys.executable, *verb, "there/script.py", *arguments]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300, **settings)


def lines(done):
    return [line.removeprefix("labkit: ") for line in done.stderr.splitlines() if line.startswith("labkit: ")]


@pytest.mark.sample(1)
@pytest.mark.parametrize("text", [KERAS, LOOP], ids=["fit", "loop"])
def test_a_script_prints_the_same_and_its_training_is_said_in_two_lines(text, tmp_path):
    options = ["--steps", "12", "--warmup", "4", "--page", "seen.html"]
    plain, watched = (under(how, tmp_path, text, "--rate", "3", options=options) for how in ("python", "labkit"))
    assert (plain.returncode, watched.returncode) == (0, 0), watched.stderr[-2000:]
    assert watched.stdout == plain.stdout, "losses to the last digit, and random numbers that follow"
    first, second = lines(watched)
    assert re.match(r"script.py, 12 steps after 4: measured · accelerator busy", first), first
    assert "with free data" in first
    assert second.endswith("See seen.html")
    assert "accelerator busy" in (tmp_path / "seen.html").read_text(encoding="utf-8")


@pytest.mark.long
def test_what_validates_is_no_step(tmp_path):
    """Beside each ten steps a loop over the other data, and one before the training."""
    done = under("labkit", tmp_path, LOOP, options=["--steps", "15", "--warmup", "4"])
    assert "15 steps after 4" in lines(done)[0], done.stderr[-2000:]
    page = (tmp_path / "script.timeline.html").read_text(encoding="utf-8")
    assert len(set(re.findall("validation", page))) == 1


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("import sys\nsys.exit(7)", 7, ""),
        ("import sys\nsys.exit('no data')", 1, "no data"),
        ("raise ValueError('spam')", 1, "ValueError: spam"),
        ("import os\nos._exit(5)", 5, ""),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, "KeyboardInterrupt"),
        ("def f(:", 1, "SyntaxError"),
        ("import os\nprint(sorted(os.environ))", 0, ""),
        ("import dataclasses as d\n@d.dataclass\nclass A:\n    x: float = 1\nprint(d.fields(A)[0].type)", 0, ""),
        ("import os, sys\nif os.fork() == 0:\n    sys.exit(0)\nos.wait()", 0, ""),
    ],
)
def test_the_end_of_a_script_is_its_own(text, code, says, tmp_path):
    plain, watched = (under(how, tmp_path, text) for how in ("python", "labkit"))
    assert watched.returncode == plain.returncode == code
    assert watched.stdout == plain.stdout
    assert says in watched.stderr
    told = [line for line in watched.stderr.splitlines(keepends=True) if not line.startswith("labkit: ")]
    assert "".join(told) == plain.stderr, "a traceback shows no frame of ours"
    assert len(lines(watched)) <= 1, "a child says nothing of its own"


@pytest.mark.long
def test_a_failing_training_keeps_its_code_and_shows_the_steps_before(tmp_path):
    text = LOOP.replace("losses.append(", "assert len(losses) < 12, 'too far'\n        losses.append(")
    done = under("labkit", tmp_path, text, options=["--steps", "20", "--warmup", "4"])
    assert done.returncode == 1
    assert "AssertionError: too far" in done.stderr
    assert re.match(r"script.py, \d steps after 4", lines(done)[0]), lines(done)


@pytest.mark.long
def test_an_error_of_the_watcher_is_one_line_and_stops_no_training(tmp_path):
    (tmp_path / "taken").touch()
    options = ["--steps", "5", "--warmup", "2", "--page", str(tmp_path / "taken" / "x.html")]
    done = under("labkit", tmp_path, KERAS, options=options)
    assert done.returncode == 0
    assert under("python", tmp_path, KERAS).stdout == done.stdout
    (line,) = lines(done)
    assert "records nothing, and the training goes on" in line


def test_a_script_without_a_training_says_so_and_a_missing_one_is_named(tmp_path):
    (line,) = lines(under("labkit", tmp_path, "print('hello')"))
    assert "nothing was recorded" in line
    command = [sys.executable, "-m", "labkit.cli", "run", "none.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, lines(done)) == (1, ["none.py is no file; allowed: a script of Python that trains"])


def test_nothing_large_is_imported_before_the_script_does(tmp_path):
    """Variables of the environment that it sets first count, as OMP_NUM_THREADS."""
    text = "import sys\nprint({'numpy', 'tensorflow', 'torch', 'keras'} & sys.modules.keys())"
    assert under("labkit", tmp_path, text).stdout == "set()\n"


@pytest.mark.loaders
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_script_of_pytorch_is_the_same_and_its_workers_are_seen(context, tmp_path):
    text = f"CONTEXT = {context!r}\n{TORCH}"
    plain, watched = (under(how, tmp_path, text, options=["--warmup", "4"]) for how in ("python", "labkit"))
    assert watched.returncode == 0, watched.stderr[-2000:]
    assert watched.stdout == plain.stdout
    assert "20 steps after 4" in lines(watched)[0], lines(watched)
    page = (tmp_path / "script.timeline.html").read_text(encoding="utf-8")
    assert "worker 0" in page
    assert "Rows.__getitem__" in page
    assert "validation" in page
