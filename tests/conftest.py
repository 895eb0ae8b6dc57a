"""What several tests share: the checkout, quiet TensorFlow, a small set of real photos."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labkit.notebook import ENVIRONMENT

for _name, _value in ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def album():
    from labkit import photos

    return photos.load(scale="tiny", progress=False)
