"""What the slow loaders are made of: a dataset with places, of a function that makes an element."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class Places:
    """A dataset of PyTorch: element `i` is what `make` returns of `i`."""

    def __init__(self, count: int, make: Callable[[int], Any]) -> None:
        self.count, self.make = count, make

    def __len__(self) -> int:
        """Return the number of elements."""
        return self.count

    def __getitem__(self, place: int) -> Any:
        """Return one element."""
        return self.make(place)


def shaped(shape: str, data: Any, label: Any) -> Any:
    """Return an element as a pair or a dictionary, as the form of a case asks for it."""
    return {"x": data, "y": label} if "name" in shape else (data, label)


def loader(dataset: Any, **settings: Any) -> Any:
    """Return a DataLoader of PyTorch; its own threads would compete with the workers for the cores."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    return DataLoader(dataset, **settings)


def computed(rounds: int, start: int) -> int:
    """Compute in Python, which keeps the interpreter, and return a byte."""
    total = start
    for step in range(rounds):
        total = (total * 31 + step) % 65521
    return total % 255


def answered(seconds: float, value: Any) -> Any:
    """Return a value after a wait, as for an answer of a server."""
    time.sleep(seconds)
    return value
