"""What a small network learns from the photos, and what changes that.

    python benchmarks/training.py [--only NAME ...]

All on 48×48 pixels of the lab's photos, and on 2,000 of another seed that no model has seen. The last line is one JSON
object:

- ``accuracy``: the lowest of three seeds after the recipe of `labcourse.training`; ``cpu_s``: the longest such training
- ``plain_vs_residual_points``: at depth 32, on 16×16 pixels: the worst residual run less the best plain one
- ``threeways_equal``: whether a sequence, a graph of functions and a class have the same losses, to the last digit, in
  40 steps
- ``frozen_points``: what is lost where 320 photos are changed at random once instead of in each epoch: the smallest of
  three pairs of runs
- ``linear_over_fixed_points``: at a batch of 128 and equal epochs, on 24×24 pixels, what a learning rate gains that
  grows with the batch: the smallest of three pairs
- ``step_fit_error``: the largest relative error of a line through the CPU times of a step at five batch sizes
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable
from typing import Any

import numpy as np

import labkit
from labcourse import training
from labkit import photos, pixels

SEEDS = (0, 1, 2)


def points(score: Any) -> float:
    """Return an accuracy in percent."""
    return 100 * score.share


def accuracy(learn: Any, held: Any) -> dict[str, Any]:
    """Train by the recipe, once for each seed."""
    found, cpu = [], []
    for seed in SEEDS:
        trained = training.train(learn, seed=seed)
        found.append(training.score(trained.model, held))
        cpu.append(trained.cpu_s)
        print(f"recipe, seed {seed}: {found[-1]}, {cpu[-1]:.0f} CPU-s", flush=True)
    return {"accuracy": min(one.share for one in found), "cpu_s": round(max(cpu), 1)}


def depth(learn: Any, held: Any) -> dict[str, Any]:
    """Train networks of depth 32 with and without shortcuts."""
    learn, held = learn.shrunk(3), held.shrunk(3)
    found: dict[bool, list[float]] = {True: [], False: []}
    for seed in SEEDS:
        for residual in found:
            network = functools.partial(training.resnet, 16, (5, 5, 5), 8, stride=1, residual=residual)
            trained = training.train(learn, model=network, seed=seed, steps=200, batch=64)
            found[residual].append(points(training.score(trained.model, held)))
            kind = "residual" if residual else "plain"
            print(f"{kind}, seed {seed}: loss {trained.losses[-1]:.2f}, {found[residual][-1]:.1f} %", flush=True)
    return {"plain_vs_residual_points": round(min(found[True]) - max(found[False]), 1)}


def three_ways() -> dict[str, Any]:
    """Return the same network, with the same weights, as a sequence, as a graph of functions and as a class.

    Returns
    -------
    dict of str to keras.Model
        By form: ``sequential``, ``functional`` and ``subclass``.
    """
    import keras
    from keras import layers

    def parts() -> list[Any]:
        return [
            layers.Conv2D(8, 3, 2, padding="same"),
            layers.BatchNormalization(momentum=0.9),
            layers.ReLU(),
            layers.Conv2D(16, 3, 2, padding="same"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]

    class Subclass(keras.Model):
        """Calls its layers one after the other."""

        def __init__(self) -> None:
            super().__init__()
            self.parts = parts()

        def call(self, values: Any, training: bool = False) -> Any:
            """Return a logit for each class."""
            for part in self.parts:
                normalises = isinstance(part, layers.BatchNormalization)
                values = part(values, training=training) if normalises else part(values)
            return values

    image = values = keras.Input((48, 48, 3))
    for part in parts():
        values = part(values)
    models = {
        "sequential": keras.Sequential([keras.Input((48, 48, 3)), *parts()]),
        "functional": keras.Model(image, values),
        "subclass": Subclass(),
    }
    models["subclass"](np.zeros((1, 48, 48, 3), np.float32))
    for model in models.values():
        model.set_weights(models["sequential"].get_weights())
    return models


def forms(learn: Any, _: Any) -> dict[str, Any]:
    """Train one network in three forms on the same batches."""
    losses = {}
    for name, model in three_ways().items():
        losses[name] = training.train(learn, model=lambda model=model: model, steps=40).losses
        print(f"{name}: {losses[name]}", flush=True)
    return {"threeways_equal": len(set(losses.values())) == 1}


def frozen(learn: Any, held: Any) -> dict[str, Any]:
    """Train on 320 photos that are changed in each epoch, and on the same changed once."""
    few, lost = learn.take(slice(320)), []
    change = functools.partial(training.augmented, shift=8)
    for seed in SEEDS:
        pair = []
        for once in (False, True):
            dataset = training.batches(few, augment=change, frozen=once, seed=seed)
            trained = training.train(few, dataset, seed=seed, steps=300)
            pair.append(points(training.score(trained.model, held)))
        lost.append(pair[0] - pair[1])
        print(f"320 photos, seed {seed}: {pair[0]:.1f} % fresh, {pair[1]:.1f} % frozen", flush=True)
    return {"frozen_points": round(min(lost), 1)}


def rates(learn: Any, held: Any) -> dict[str, Any]:
    """Train with batches of 128 for twelve epochs, with the rate of 32 and with four times that, on 24×24 pixels."""
    learn, held = learn.shrunk(2), held.shrunk(2)
    gained = []
    for seed in SEEDS:
        pair = []
        for rate in (training.RATE, 4 * training.RATE):
            steps = 12 * len(learn) // 128
            trained = training.train(learn, seed=seed, steps=steps, batch=128, rate=rate)
            pair.append(points(training.score(trained.model, held)))
        gained.append(pair[1] - pair[0])
        print(f"batch 128, seed {seed}: {pair[0]:.1f} % at 0.1, {pair[1]:.1f} % at 0.4", flush=True)
    return {"linear_over_fixed_points": round(min(gained), 1)}


def steps(learn: Any, _: Any) -> dict[str, Any]:
    """Fit a line to the time of a step."""
    model = training.train(learn, steps=1).model
    found = training.step_times(model, learn)
    print(found, flush=True)
    return {"step_fit_error": round(found.error, 3)}


PARTS: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    one.__name__: one for one in (accuracy, depth, forms, frozen, rates, steps)
}


def main() -> None:
    """Run the parts, print what each run gives, and the line of JSON."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="NAME")
    given = words.parse_args()
    labkit.setup()
    album = photos.load(scale="small")
    learn, held = pixels.of(album).take(~album.held_out), pixels.held_out()
    figures: dict[str, Any] = {}
    for name in given.only:
        figures |= PARTS[name](learn, held)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
