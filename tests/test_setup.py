"""The first cell of a notebook: it says where the data are, or why there is no TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SETUP = "import labkit; labkit.setup()"
#: As in a container whose user has a number and no name.
HOMELESS = "import os, pwd; os.environ.pop('HOME', None); pwd.getpwuid = {}.__getitem__; "


def run(code, place, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, cwd=place, env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.long
def test_who_has_no_home_sees_the_whole_path(tmp_path):
    done = run(HOMELESS + SETUP, tmp_path, LABKIT_DATA=str(tmp_path))
    assert f"data in {tmp_path}" in done.stdout.splitlines(), done.stderr


def test_why_there_is_no_tensorflow_is_said(tmp_path):
    missing = run("import sys; sys.modules['tensorflow'] = None; " + SETUP, tmp_path).stderr.splitlines()[-1]
    assert missing.startswith("ImportError: the lab needs TensorFlow, which is not installed here: pip install")
    (tmp_path / "tensorflow.py").write_text("raise ImportError('libstdc++.so.6: cannot open shared object file')")
    places = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    assert run(SETUP, tmp_path, PYTHONPATH=places).stderr.splitlines()[-1] == (
        "ImportError: TensorFlow is installed here, but cannot be imported: "
        "libstdc++.so.6: cannot open shared object file"
    )
