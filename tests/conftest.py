"""What several tests share: the checkout, quiet TensorFlow, a small set of real photos."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labkit import notebook

notebook.prepare()

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """The wheel of this checkout, built once."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def album():
    from labkit import photos

    return photos.load(scale="tiny", progress=False)


@pytest.fixture
def on_small_disk(tmp_path):
    """Return the words before a command that runs it with `tmp_path` on a disk of 3 MB."""
    mount = 'mount -t tmpfs -o size=3m none "$1" && shift && exec "$@"'
    namespace = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--mount"]
    inside = [*namespace, "sh", "-c", mount, "sh", str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a small disk to fill")
    return inside
