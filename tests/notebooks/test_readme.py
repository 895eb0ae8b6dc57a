"""The code on the front page runs as it is written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.opencl
def test_the_code_of_the_front_page_runs_as_written(root, album, tmp_path):
    blocks = BLOCK.findall((root / "README.md").read_text(encoding="utf-8"))
    assert blocks, "the front page shows the instrument in code"
    for path in map(Path, album.paths[:96]):  # a reader's own photos: a folder for each class
        place = tmp_path / "pictures" / path.parent.name
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    with tempfile.TemporaryDirectory(prefix="cards-") as sockets:  # the path of a socket must be short
        # What was compiled once is taken from where it is kept.
        own = {
            "HOME": str(tmp_path),
            "LABKIT_CARDS": sockets,
            "XDG_CACHE_HOME": str(Path.home() / ".cache"),
            "LABKIT_FAST": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(blocks)],
            cwd=tmp_path, env={**os.environ, **own},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    for shown in ("busy", "what to change", "Prefetch", "speed-up"):
        assert shown in done.stdout, shown
