"""The verbs as a reader types them, in real processes."""

from __future__ import annotations

import html
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import psutil
import pytest
from waiting import ended, until

from execution import execute
from labcourse import ladder
from labextras import card, offload
from labextras.offload import device_report
from labextras.offload.opencl import drivers
from labkit import doctor, photos, records
from labkit.recording import recorder
from tour import walk

TOPICS = ["Python", "TensorFlow", "devices", "tfds", "disk", "memory", "load", "C++", "OpenCL"]


def topics(lines):
    """Return the topics in their order, one for all its lines: OpenCL has one for each device."""
    return [topic for topic, _ in itertools.groupby(line.split()[1] for line in lines)]


def labkit(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "labkit.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.long
def test_doctor_reports_every_topic_in_lines():
    done = labkit("doctor")
    lines = done.stdout.splitlines()
    assert topics(lines) == TOPICS
    assert all(line.startswith(("ok  ", "note", "FAIL")) for line in lines)
    assert done.returncode == int(any(line.startswith("FAIL") for line in lines))
    assert re.search(r"ok +TensorFlow +2\.\d+", done.stdout)


@pytest.mark.long
@pytest.mark.opencl
def test_every_device_is_listed_and_proved_by_a_kernel():
    """Those that cannot be used beside TensorFlow are listed with the word that says so."""
    found = list(device_report.TOPICS["OpenCL"]())
    assert found[0].ok, found[0]
    for device, finding in zip(offload.devices(), found, strict=False):
        assert finding.text.startswith(device.name)
        assert "for the card only" not in finding.text
    more = found[len(offload.devices()) :]
    assert all("for the card only" in finding.text for finding in more)
    # Intel's packages bring entries that name a library of the machine on which they were built.
    libraries = {entry: Path(entry.read_text().strip()) for entry in drivers.installed()}
    there = [entry for entry, path in libraries.items() if path.exists() or not path.is_absolute()]
    assert len(more) >= sum(map(drivers.clashes, there))


@pytest.mark.sample(1)
@pytest.mark.opencl
@pytest.mark.parametrize(
    ("result", "words"), [("result * 2", "computes a wrong result"), ("1 / 0", "a kernel there failed: .*division")]
)
def test_a_device_that_fails_is_named(monkeypatch, result, words):
    spoilt = device_report.OPENCL_CODE.replace("abs(result - truth)", f"abs(({result}) - truth)")
    assert spoilt != device_report.OPENCL_CODE
    monkeypatch.setattr(device_report, "OPENCL_CODE", spoilt)
    finding = next(iter(device_report.TOPICS["OpenCL"]()))
    assert not finding.ok
    assert not finding.required
    assert re.search(words, finding.text)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("module", "topic", "words"),
    [
        ("tensorflow", "TensorFlow", "never on Colab"),
        ("pyopencl", "OpenCL", "only the offload notebook needs it"),
        ("tensorflow_datasets", "tfds", "plain files only"),
    ],
)
def test_doctor_says_what_to_do_about_what_is_missing(tmp_path, module, topic, words):
    (tmp_path / f"{module}.py").write_text(f"raise ImportError('no {module} here')")
    done = labkit("doctor", topic, PYTHONPATH=str(tmp_path))
    (line,) = done.stdout.splitlines()
    assert line.split()[1] == topic
    assert not line.startswith("ok")
    assert f"no {module} here" in line
    assert words in line


@pytest.mark.long
def test_a_crash_while_loading_is_a_line_not_a_crash(tmp_path):
    (tmp_path / "pyopencl.py").write_text("import os; os.kill(os.getpid(), 11)")
    done = labkit("doctor", "memory", "OPENCL", PYTHONPATH=str(tmp_path))
    assert re.search("OpenCL .*(killed by|crashed with) signal 11", done.stdout)
    assert topics(done.stdout.splitlines()) == ["memory", "OpenCL"]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["data", "--scale", "huge"], "'huge'"),
        (["doctor", "disk", "gpu"], "there is no topic 'gpu'; allowed: Python, TensorFlow, devices, tfds, "),
        (["tour", "--rounds", "0"], "rounds is 0; allowed: a whole number of 1 or more"),
        (["tour", "--out", "/dev/null/x"], "labkit: /dev/null/x cannot be used: Not a directory"),
        (["assignments", "grade", "/dev/null"], "/dev/null is no folder; allowed: a folder of <student>/<set>"),
        (["assignments", "grade", ".", "--workers", "0"], "workers is 0; allowed: "),
        (["assignments", "grade", "tests", "--out", "/"], "/ is a folder; allowed: a file"),
        (["assignments", "grade", "tests", "--out", "/dev/null/x.csv"], "/dev/null/x.csv cannot be written: "),
    ],
)
def test_bad_words_give_one_sentence(arguments, sentence):
    done = labkit(*arguments)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def notebook(*sources):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])


@pytest.mark.long
def test_a_folder_for_data_that_is_a_file_is_not_ok():
    done = labkit("doctor", "disk", LABKIT_DATA="/dev/null/x")
    assert done.returncode == 1
    assert "/dev/null is a file, set LABKIT_DATA to a folder" in done.stdout


def test_a_home_folder_that_nobody_has_is_named_with_what_asks_for_it(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_DATA", "~nobody-such/x")
    words = r"'~nobody-such/x', whose ~ is not known here; allowed: a path without ~$"
    disk, memory = doctor.examine(["disk", "memory"])
    assert not disk.ok
    assert re.match(f"LABKIT_DATA is {words}", disk.text)
    assert memory.topic == "memory"
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    for what, call in {
        "home": lambda place: photos.load(home=place),
        "source": photos.load,
        "folder": records.load,
        "root": card.Card,
    }.items():
        with pytest.raises(ValueError, match=f"^{what} is {words}"):
            call("~nobody-such/x")


@pytest.mark.long
def test_executing_a_notebook_fills_in_its_outputs(tmp_path):
    done = execute(notebook("x = 6", "x * 7"), "sum", tmp_path)
    assert done.cells[1].outputs[0]["data"]["text/plain"] == "42"
    assert [c.execution_count for c in done.cells] == [1, 2]


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "reason"), [("1 / 0", "ZeroDivisionError"), ("import os; os._exit(137)", "[Kk]ernel died")]
)
def test_a_failing_cell_is_named(tmp_path, source, reason):
    with pytest.raises(RuntimeError, match=f"broken stopped at cell 1 of 2: .*{reason}"):
        execute(notebook("x = 1", source), "broken", tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_kernel_outlives_an_interrupted_run(root, tmp_path, how):
    """Ctrl-C, or a kill that nobody can catch: the kernel goes, too."""
    cell = "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(600)"
    code = (
        "import nbformat, pathlib, sys; sys.path.append(sys.argv[2]); from execution import execute;"
        f"cell = nbformat.v4.new_code_cell({cell!r});"
        "execute(nbformat.v4.new_notebook(cells=[cell]), 'long', pathlib.Path(sys.argv[1]))"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), str(root / "notebooks")],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    pid = tmp_path / "pid"
    until(lambda: pid.exists() and pid.read_text(), "the kernel to start")
    kernel = psutil.Process(int(pid.read_text()))
    parent.send_signal(how)
    parent.wait(60)
    until(lambda: ended(kernel), "the kernel to end")


@pytest.mark.long
def test_a_tour_makes_the_photos_and_ends_with_the_scoreboard_and_the_page(tmp_path, monkeypatch, capsys):
    for name, value in {"SCALE": "tiny", "FAST": "1", "DATA": str(tmp_path / "data")}.items():
        monkeypatch.setenv(f"LABKIT_{name}", value)
    page = walk(tmp_path / "out", rounds=2)
    said = capsys.readouterr()
    assert [line[:6] for line in said.out.splitlines() if " of 3: " in line] == ["1 of 3", "2 of 3", "3 of 3"]
    assert re.search(r"measuring: .*<\d\d:\d\d", said.err), "it says how much is left"
    kept = json.loads((tmp_path / "out" / "scoreboard.json").read_text(encoding="utf-8"))
    assert set(kept) == {rung.name for rung in ladder.RUNGS}
    assert all(len(rounds) == recorder.FAST_ROUNDS and rounds[0]["images_per_s"] > 0 for rounds in kept.values())
    assert not (tmp_path / "data" / "predictions").exists(), "a tour is no prediction of its reader"
    text = html.unescape(page.read_text(encoding="utf-8"))
    drawn = [*(rung.name for rung in ladder.RUNGS), ladder.MODELLED]
    assert all(f"Timeline of {name}" in text for name in drawn)
    assert all(f"Notebook {rung.notebook[:2]}" in text for rung in ladder.RUNGS)
    assert text.count("data-block=") == len(drawn) + 1, "a timeline for each rung, and naive against the best"
