"""Badges and bootstrap cells move together, and labkit fits beside Colab's own packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from labkit.cli import app
from labkit.colab import rewrite, settings

PINS = Path(__file__).with_name("colab-pins.txt")


@pytest.fixture
def checkout(root, tmp_path):
    for name in ("notebooks", "pyproject.toml", "README.md"):
        source = root / name
        shutil.copytree(source, tmp_path / name) if source.is_dir() else shutil.copy(source, tmp_path)
    return tmp_path


def test_rewrite_moves_every_notebook_and_stays_consistent(checkout, root):
    old_repository, _ = settings(root)
    changed = rewrite(checkout, "someone/their-lab", "v9.9")
    assert {p.name for p in changed} >= {"pyproject.toml", *(p.name for p in (root / "notebooks").glob("*.ipynb"))}
    assert settings(checkout) == ("someone/their-lab", "v9.9")
    for path in (checkout / "notebooks").glob("*.ipynb"):
        text = path.read_text(encoding="utf-8")
        json.loads(text)
        assert old_repository not in text
        assert text.count("someone/their-lab") == 2
        assert f"/blob/v9.9/notebooks/{path.name})" in text
        assert "someone/their-lab@v9.9" in text
    check = subprocess.run(
        [sys.executable, "notebooks/build.py", "--check"], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stderr


def test_rewrite_there_and_back_is_the_identity(checkout):
    before = {p: p.read_bytes() for p in checkout.rglob("*") if p.is_file()}
    repository, tag = settings(checkout)
    rewrite(checkout, "a/b", "main")
    rewrite(checkout, repository, tag)
    assert {p: p.read_bytes() for p in before} == before
    assert rewrite(checkout) == []


@pytest.mark.parametrize(
    ("repo", "tag"), [("nobody", "v1"), ("a/b/c", "v1"), ("a/b", "no tag"), ("a/b", "../x"), ("", "v1"), ("a/b", '"')]
)
def test_impossible_names_are_refused_and_nothing_changes(checkout, repo, tag):
    before = (checkout / "pyproject.toml").read_bytes()
    done = CliRunner().invoke(app, ["colab", "--repo", repo, "--tag", tag, "--root", str(checkout)])
    assert done.exit_code == 1
    assert "allowed:" in done.output
    assert (checkout / "pyproject.toml").read_bytes() == before


def test_the_command_says_where_the_notebooks_point(checkout):
    done = CliRunner().invoke(app, ["colab", "--root", str(checkout)])
    assert done.exit_code == 0
    assert " ".join(settings(checkout)) in done.output


def test_a_folder_that_is_no_checkout_is_named(tmp_path):
    done = CliRunner().invoke(app, ["colab", "--root", str(tmp_path)])
    assert done.exit_code == 1
    assert str(tmp_path) in done.output


def plain(pin):
    return pin.lower().replace("_", "-")


def pip(python, *arguments):
    return subprocess.run([python, "-m", "pip", *arguments], capture_output=True, text=True, check=False)


def pythons():
    """Yield interpreters at hand, Colab's version first: 3.13, then 3.12, then this one."""
    for version in ("3.13", "3.12"):
        for candidate in (
            shutil.which(f"python{version}"),
            *Path.home().glob(f".pyenv/versions/{version}.*/bin/python"),
        ):
            if (
                candidate
                and subprocess.run([candidate, "-c", "import ensurepip"], capture_output=True, check=False).returncode
                == 0
            ):
                yield str(candidate)
                break
    yield sys.executable


def resolve(version, *arguments):
    """Resolve for a Python that need not be installed; the index is the one that pip is set up to use."""
    index = os.environ.get("PIP_INDEX_URL") or pip(sys.executable, "config", "get", "global.index-url").stdout.strip()
    env = {**os.environ, **({"UV_DEFAULT_INDEX": index} if index else {})}
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--python-version", version, *arguments]
    return subprocess.run(
        [*command, "--python-platform", "linux"], capture_output=True, text=True, check=False, env=env
    )


@pytest.mark.colab
@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_the_declared_ranges_resolve_to_the_pins_on_every_python(root, version):
    extras = [part for name in ("tf", "tfds", "opencl", "lab", "dev") for part in ("--extra", name)]
    done = resolve(version, "-c", str(root / "constraints.txt"), *extras, str(root / "pyproject.toml"))
    assert done.returncode == 0, done.stderr
    assert "tensorflow-cpu==" in done.stdout


@pytest.mark.colab
def test_labkit_resolves_inside_colabs_pins(root, tmp_path):
    done = resolve("3.13", "-c", str(PINS), str(root / "pyproject.toml"), str(PINS))
    assert done.returncode == 0, done.stderr
    for line in PINS.read_text().splitlines():
        if "==" in line:
            assert plain(line) in plain(done.stdout)


@pytest.fixture(scope="session")
def colab_python(root, tmp_path_factory):
    """An environment with Colab's pins, made once per set of pins and kept in build/."""
    base = next(iter(pythons()))
    where = root / "build" / "colab-venv"
    stamp, key = where / ".ready", f"{base}\n{PINS.read_text()}"
    python = where / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != key:
        shutil.rmtree(where, ignore_errors=True)
        subprocess.run([base, "-m", "venv", str(where)], check=True)
        done = pip(str(python), "install", "--quiet", "-r", str(PINS))
        assert done.returncode == 0, done.stderr
        stamp.write_text(key)
    return str(python)


@pytest.mark.colab
def test_the_package_installs_beside_colabs_pins_and_its_fast_tests_pass(root, wheel, colab_python, tmp_path):
    before = set(pip(colab_python, "freeze", "--exclude", "labkit").stdout.splitlines())
    done = pip(colab_python, "install", "--quiet", "--force-reinstall", "--no-deps", str(wheel))
    assert done.returncode == 0, done.stderr
    done = pip(colab_python, "install", "--quiet", str(wheel))
    assert done.returncode == 0, done.stderr
    after = set(pip(colab_python, "freeze", "--exclude", "labkit").stdout.splitlines())
    assert before <= after, f"installing labkit changed {sorted(before - after)}"
    pinned = {line.split("#")[0].strip() for line in PINS.read_text().splitlines() if "==" in line}
    assert set(map(plain, pinned)) <= set(map(plain, after)), "the environment is not Colab's"
    tests = [str(root / "tests" / name) for name in FAST_TESTS]
    # Colab brings no OpenCL, and what needs it says so; with a device it is tested outside of Colab.
    env = {k: v for k, v in os.environ.items() if k != "LABKIT_REQUIRE_OPENCL"}
    env |= {"LABKIT_DATA": str(tmp_path / "data"), "LABKIT_FAST": "1"}
    done = subprocess.run(
        [
            colab_python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            str(root / "pyproject.toml"),
            "--rootdir",
            str(root),  # else a fixture of one file would serve all of them
            *tests,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=env,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


@pytest.mark.colab
def test_photos_serve_files_where_tfds_is_broken_and_say_why(colab_python, root, tmp_path):
    """Colab's own pins: tensorflow_datasets imports, logs an error, and is empty."""
    code = (
        "import labkit; labkit.setup(); import tensorflow_datasets as tfds; assert not hasattr(tfds, 'load');"
        "from labkit import photos; album = photos.prepare('tiny', progress=False);"
        "assert len(list(album.files())) == len(album) == 160; print('NOTE', album.note)"
    )
    env = {**os.environ, "PYTHONPATH": str(root), "LABKIT_DATA": str(tmp_path)}
    done = subprocess.run(
        [colab_python, "-c", code], capture_output=True, text=True, check=False, env=env, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "protobuf" in done.stdout.split("NOTE")[1]


#: A kernel of its own, as Colab has it; what a cell publishes is printed.
PUBLISHED = """
import json
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3")
code = '''
from labkit.trace import Span, Trace
import labkit
spans = [Span("consumer", n, c, 10_000_000 * i + a, 4_000_000, i)
         for i in range(9) for n, c, a in (("wait for batch", "wait", 0), ("train step", "train", 5_000_000))]
trace = Trace.from_spans(spans, kinds={"consumer": "consumer"}, name="nine", images=9)
labkit.show(trace, trace)
'''
wanted, found = client.execute(code), []
while True:
    message = client.get_iopub_msg(timeout=90)
    if message["parent_header"].get("msg_id") == wanted:
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            break
        if message["msg_type"] in ("display_data", "execute_result", "error", "stream"):
            found.append([message["msg_type"], message["content"]])
manager.shutdown_kernel(now=True)
print(json.dumps(found))
"""


@pytest.mark.colab
def test_a_timeline_is_published_with_its_picture_under_colabs_widgets(colab_python, root, tmp_path):
    """ipywidgets 7.7.1 and IPython 7.34 lose the picture beside a widget, unless the widget publishes itself."""
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [colab_python, "-c", PUBLISHED], capture_output=True, text=True, check=False, env=env, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-2000:]
    ((kind, content),) = json.loads(done.stdout)
    assert kind in ("display_data", "execute_result"), content
    data = content["data"]
    assert data["image/png"].startswith("iVBOR")
    assert "busy" in data["text/plain"]
    assert "busy" in content["metadata"]["image/png"]["alt"]
    assert {"application/vnd.jupyter.widget-view+json", "text/html"} & set(data), "nothing to touch"


#: Fast, and together they touch every room that a notebook uses.
FAST_TESTS = (
    "test_timeline.py",
    "test_view.py",
    "test_perfetto.py",
    "test_measures.py",
    "test_accelerators.py",
    "test_recorder.py",
    "test_live.py",
    "test_scene.py",
    "test_causes.py",
    "test_predictions.py",
    "test_simulate.py",
    "test_grading.py",
    "test_charts.py",
    "test_stack.py",
    "test_records.py",
    "test_damage.py",
    "test_augment.py",
    "test_diagnosis.py",
)
