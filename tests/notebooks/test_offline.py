"""With the network cut off the lab works: its rooms, its photos, its doctor, and every notebook under nbval."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from left_out import leave_out

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = ROOT / "notebooks" / "conftest.py"

#: Begins a script that runs offline; it ends with 77 where the system does not allow that.
CUT = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("cut", sys.argv[1])
cut = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cut)
problem = cut.cut_off()
if problem:
    sys.exit(print(problem) or 77)
assert cut.is_offline()
"""

WORK = """
import importlib, pkgutil, socket
import labkit
labkit.setup()
rooms = [m.name for m in pkgutil.walk_packages(labkit.__path__, "labkit.")]
for name in rooms:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(rooms), "rooms")

from labkit.recording import accelerators
from labkit.sources import photos
import tensorflow as tf
album = photos.load(scale="tiny", progress=False)
print(len(album), "photos")
decoded = album.files().take(64).map(lambda file, label: tf.io.decode_jpeg(tf.io.read_file(file), channels=3)[:64, :64])
trace = labkit.record(decoded.batch(8), accelerators.modelled(step_ms=2), steps=4)
print(labkit.Timeline(trace).images, "images recorded")

from labkit.cli import app
app(["doctor"], standalone_mode=False)
"""


def offline(code, **environment):
    """Run a script that is cut off; skip where that cannot be, fail where it must."""
    command = [sys.executable, "-c", CUT + code, str(CONFTEST)]
    env = {**os.environ, **environment}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode == 77:
        leave_out(f"the network cannot be cut off: {done.stdout.strip()}", "LABKIT_REQUIRE_OFFLINE")
    return done


@pytest.mark.long
def test_rooms_photos_a_recording_and_the_doctor_need_no_network(tmp_path):
    """The photos are made anew, in a folder of their own."""
    done = offline(WORK, LABKIT_DATA=str(tmp_path / "data"), LABKIT_FAST="1")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "160 photos" in done.stdout
    assert "32 images recorded" in done.stdout
    assert re.search(r"(?m)^.*TensorFlow", done.stdout), "the doctor spoke"


NOTEBOOK = """import os, socket
assert os.stat("/proc/self/ns/net").st_ino != {outer}, "the kernel is where the test is"
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
except OSError as error:
    print(error.errno)
states = [line.split()[3] for line in open("/proc/net/tcp").readlines()[1:]]
print("five channels are ports:", states.count("0A") >= 5)"""


@pytest.mark.long
@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["one process", "a worker"])
def test_kernels_under_nbval_are_cut_off(workers, tmp_path):
    """As `make test-notebooks` runs the course: the file that does it lies beside the notebooks.

    And no channel of a kernel is a port: another kernel that starts at the same time may have taken it.
    """
    offline("")  # skips where it cannot be
    shutil.copy(CONFTEST, tmp_path)
    shutil.copy(CONFTEST.with_name("execution.py"), tmp_path)
    source = NOTEBOOK.format(outer=os.stat("/proc/self/ns/net").st_ino)
    output = nbformat.v4.new_output("stream", name="stdout", text="101\nfive channels are ports: False\n")
    cells = [nbformat.v4.new_code_cell(source, outputs=[output], execution_count=1)]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), tmp_path / "reaches_out.ipynb")
    command = [sys.executable, "-m", "pytest", "-q", "--nbval", "--nbval-current-env", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *workers, "."], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "1 passed" in done.stdout
    assert "notebooks: the network was cut off" in done.stdout


def test_where_it_must_be_cut_off_and_cannot_pytest_ends_at_once(monkeypatch):
    spec = importlib.util.spec_from_file_location("cut", CONFTEST)
    cut = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cut)
    monkeypatch.setattr(cut, "cut_off", lambda: "the system allows no network namespace")
    monkeypatch.delenv("LABKIT_REQUIRE_OFFLINE", raising=False)
    cut.pytest_configure()
    assert cut.state == "NOT cut off: the system allows no network namespace"
    monkeypatch.setenv("LABKIT_REQUIRE_OFFLINE", "1")
    with pytest.raises(pytest.UsageError, match="no network namespace, and LABKIT_REQUIRE_OFFLINE is set"):
        cut.pytest_configure()
