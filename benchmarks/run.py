"""What `labkit run` costs a training outside of its window: the same script with it and by Python alone, in turn.

    python benchmarks/run.py [--rounds 6] [--kinds fit loop torch]

A small network is trained on 48×48 pixels in memory, by ``model.fit``, by a loop over tf.data, or by a loop of PyTorch
over a DataLoader with one worker, where that is installed. The script notes its processor time at each step. The last
line is one JSON object. ``outside_window`` is the processor time of a step outside of the window, under `labkit run`,
over that by Python alone: the median of all pairs, of the kind of script that costs most. ``once_s`` is the processor
time by which the window makes a training longer. ``same`` is whether all losses are equal to the last digit.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

#: Steps of a training, those before the window, those of the window, and those behind it that are left out.
STEPS, WARMUP, WINDOW, BETWEEN = 400, 60, 20, 5

#: Steps at the beginning that compile.
FIRST = 20

_NOTES = """
import json, time
cpu, losses = [], []
def note(loss):
    cpu.append(time.process_time())
    losses.append(float(loss))
"""

_KERAS = f"""{_NOTES}
import keras, tensorflow as tf
keras.utils.set_random_seed(1)
pixels = tf.random.stateless_uniform((640, 48, 48, 3), (1, 2))
data = tf.data.Dataset.from_tensor_slices((pixels, tf.range(640) % 10)).batch(32, drop_remainder=True).cache().repeat()
data = data.take({STEPS}).prefetch(2)
layers = keras.layers
model = keras.Sequential([
    layers.Input((48, 48, 3)), layers.Conv2D(16, 3, 2, activation="relu"), layers.Conv2D(32, 3, 2, activation="relu"),
    layers.GlobalAveragePooling2D(), layers.Dense(10),
])
cost = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
"""

SCRIPTS = {
    "fit": f"""{_KERAS}
class Clock(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        note(logs["loss"])
model.compile("sgd", cost)
model.fit(data, verbose=0, callbacks=[Clock()])
print(json.dumps([cpu, losses]))
""",
    "loop": f"""{_KERAS}
sgd = keras.optimizers.SGD()
@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = cost(y, model(x, training=True))
    sgd.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss
for x, y in data:
    note(step(x, y))
print(json.dumps([cpu, losses]))
""",
    "torch": f"""{_NOTES}
import torch
from torch import nn
def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    data = torch.utils.data.TensorDataset(torch.rand(640, 3, 48, 48), torch.arange(640) % 10)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, 10),
    )
    sgd = torch.optim.SGD(net.parameters(), 0.01)
    loader = torch.utils.data.DataLoader(data, 32, shuffle=True, num_workers=1, persistent_workers=True)
    while len(cpu) < {STEPS}:
        for x, y in loader:
            sgd.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            sgd.step()
            note(loss)
    print(json.dumps([cpu, losses]))
if __name__ == "__main__":
    main()
""",
}


def train(kind: str, watched: bool, folder: Path) -> tuple[float, float, list[float]]:
    """Run a script; return the processor time of a step outside of the window, that of the window's steps, the losses.

    Seconds; by Python alone the window is the same steps.
    """
    file = folder / f"{kind}.py"
    file.write_text(SCRIPTS[kind], encoding="utf-8")
    options = ["--warmup", str(WARMUP), "--steps", str(WINDOW), "--page", str(folder / "page.html")]
    verb = ["-m", "labkit.cli", "run", *options] if watched else []
    done = subprocess.run([sys.executable, *verb, str(file)], capture_output=True, text=True, check=False)
    if done.returncode or watched != ("accelerator busy" in done.stderr):
        raise RuntimeError(f"{kind}, watched={watched}: {done.stderr[-2000:]}")
    cpu, losses = json.loads(done.stdout.splitlines()[-1])
    begin, end = WARMUP - BETWEEN, WARMUP + WINDOW + BETWEEN
    outside = (cpu[begin] - cpu[FIRST]) + (cpu[STEPS - 1] - cpu[end])
    return outside / (begin - FIRST + STEPS - 1 - end), cpu[end] - cpu[begin], losses


def main() -> None:
    """Measure and print one line for each round, and the line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--kinds", nargs="+", choices=SCRIPTS, default=list(SCRIPTS))
    given = parser.parse_args()
    kinds = [kind for kind in given.kinds if kind != "torch" or importlib.util.find_spec("torch")]
    ratios: dict[str, list[float]] = {kind: [] for kind in kinds}
    once: dict[str, list[float]] = {kind: [] for kind in kinds}
    same = True
    orders = itertools.cycle([(False, True), (True, False)])
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.rounds):
            order = next(orders)
            for kind in kinds:
                found: dict[bool, Any] = {watched: train(kind, watched, Path(folder)) for watched in order}
                (plain, window, losses), (step, longer, others) = found[False], found[True]
                ratios[kind].append(step / plain)
                once[kind].append(longer - window)
                same &= losses == others
                words = f"step {1e3 * plain:6.2f} ms, outside {ratios[kind][-1]:.3f}, once {once[kind][-1]:.2f} s"
                print(f"round {number}, {kind:5}: {words}", flush=True)
    middle = {kind: statistics.median(each) for kind, each in ratios.items()}
    figures: dict[str, Any] = {"outside_window": round(max(middle.values()), 4), "same": same}
    figures |= {f"outside_{kind}": round(one, 4) for kind, one in middle.items()}
    figures |= {f"once_{kind}_s": round(statistics.median(each), 2) for kind, each in once.items()}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
