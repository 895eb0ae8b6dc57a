"""One set of versions: pyproject.toml declares, constraints.txt pins, environment.yml repeats nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def pins(root):
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]


def declared(project):
    extras = project["optional-dependencies"]
    return [Requirement(text) for text in [*project["dependencies"], *(r for group in extras.values() for r in group)]]


ENVIRONMENTS = [
    {
        "python_version": v,
        "python_full_version": f"{v}.5",
        "sys_platform": system,
        "platform_machine": machine,
        "platform_system": name,
    }
    for v in ("3.10", "3.11", "3.12", "3.13")
    for system, machine, name in [
        ("linux", "x86_64", "Linux"),
        ("linux", "aarch64", "Linux"),
        ("darwin", "arm64", "Darwin"),
        ("win32", "AMD64", "Windows"),
    ]
]


def test_every_pin_is_exact_and_names_no_index(root, pins):
    for pin in pins:
        assert re.fullmatch(r"==[^*,]+", str(pin.specifier)), f"{pin} is no exact pin"
        assert pin.url is None
    assert "://" not in "".join(
        line for line in (root / "constraints.txt").read_text().splitlines() if not line.startswith("#")
    )


@pytest.mark.parametrize(
    "where", ENVIRONMENTS, ids=lambda e: f"{e['python_version']}-{e['sys_platform']}-{e['platform_machine']}"
)
def test_every_declared_range_has_one_pin_inside_it(project, pins, where):
    environment = {**default_environment(), **where}
    for need in declared(project):
        if need.marker and not need.marker.evaluate(environment):
            continue
        found = [
            p
            for p in pins
            if canonicalize_name(p.name) == canonicalize_name(need.name)
            and (p.marker is None or p.marker.evaluate(environment))
        ]
        assert len(found) == 1, f"{need.name}: {len(found)} pins"
        version = str(found[0].specifier).removeprefix("==")
        assert need.specifier.contains(version, prereleases=True), f"{found[0]} is outside {need}"


def test_tensorflow_is_never_a_plain_dependency(project):
    """Installing labkit on Colab must not be able to replace its TensorFlow."""
    core = {canonicalize_name(Requirement(r).name) for r in project["dependencies"]}
    assert not core & {
        "tensorflow",
        "tensorflow-cpu",
        "keras",
        "protobuf",
        "jupyterlab",
        "notebook",
        "ipython",
        "traitlets",
    }


def test_without_a_gpu_make_says_so_and_installs_nothing(root, tmp_path):
    for program in ("sh", "grep"):
        (tmp_path / program).symlink_to(shutil.which(program))
    made = (root / "build" / "gpu").exists()
    command = [shutil.which("make"), "--no-print-directory", "gpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env={"PATH": str(tmp_path)})
    assert done.returncode != 0
    assert "make gpu needs an NVIDIA GPU, and nvidia-smi finds none here" in done.stderr
    assert done.stdout == ""
    assert (root / "build" / "gpu").exists() == made


def test_the_conda_environment_agrees(root, project, pins):
    environment = yaml.safe_load((root / "environment.yml").read_text(encoding="utf-8"))
    conda = {re.split(r"[=<>]", d, maxsplit=1)[0]: d for d in environment["dependencies"] if isinstance(d, str)}
    (pip,) = [d["pip"] for d in environment["dependencies"] if isinstance(d, dict)]
    assert {"python", "jupyterlab", "pyopencl", "pocl"} <= set(conda)
    assert not {"tensorflow", "tensorflow-datasets"} & set(conda)
    python = conda["python"].split("=")[-1]
    assert Requirement(f"x{project['requires-python']}").specifier.contains(python)
    ranges = {canonicalize_name(r.name): r.specifier for r in declared(project)}
    for name in ("jupyterlab", "pyopencl"):
        assert str(Requirement(conda[name]).specifier) == str(ranges[name]), f"{name}: conda and pyproject.toml differ"
        (pin,) = [
            p
            for p in pins
            if p.name == name
            and (
                p.marker is None
                or p.marker.evaluate(
                    {**default_environment(), "python_version": python, "python_full_version": f"{python}.5"}
                )
            )
        ]
        assert Requirement(conda[name]).specifier.contains(str(pin.specifier)[2:])
    # pip brings the rest through labkit's own extras and pins, so nothing is listed twice.
    assert pip[0] == "-c constraints.txt"
    extras = re.fullmatch(r"-e \.\[([a-z,]+)\]", pip[1])[1].split(",")
    assert {"tf", "tfds"} <= set(extras) <= set(project["optional-dependencies"])
    assert "opencl" not in extras, "conda brings OpenCL"
    # All but one package of that extra, which conda does not have.
    (rest,) = map(Requirement, pip[2:])
    assert (rest.name, rest.specifier) == ("simplejpeg", ranges["simplejpeg"])


def test_the_wheel_carries_kernels_and_builder_and_nothing_generated(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "labkit/_kernels/normalize_clip.cl" in names
    assert any(n.startswith("labkit/_data/lab_photos/") and n.endswith("_dataset_builder.py") for n in names)
    assert not [n for n in names if n.endswith((".pyc", ".jpg", ".ipynb"))]
    for tool in ("tour", "badges", "execution", "supervisor", "code_runner", "precheck"):
        assert not [n for n in names if Path(n).stem == tool], f"{tool} needs a checkout"


@pytest.mark.sample(2)
@pytest.mark.parametrize("verb", [["tour"], ["colab"], ["assignments", "release"], ["assignments", "grade", "."]])
def test_a_verb_that_needs_a_checkout_says_so_without_one(wheel, tmp_path, verb):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from labkit.cli import app; app()"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(tmp_path / "site"), *verb],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "needs a checkout of the lab" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_the_wheel_works_without_the_checkout(root, wheel, tmp_path):
    """Kernels and photo generator are found inside the wheel when there is no checkout around it."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import pathlib, sys; sys.path.insert(0, sys.argv[1]); import labkit; "
        "from labkit import photos; from labkit.common import shipped; from labkit.sources import photo_files; "
        "assert labkit.__file__.startswith(sys.argv[1]), labkit.__file__; "
        "assert (shipped.folder('kernels') / 'normalize_clip.cl').parent.parent.name == 'labkit'; "
        "photo_files.make(pathlib.Path(sys.argv[2]), range(2), progress=False); "
        "print(photos.home())"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-P" if sys.version_info >= (3, 11) else "-B",
            "-c",
            code,
            str(tmp_path / "site"),
            str(tmp_path / "home"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert str(root) not in done.stdout
    assert len(list((tmp_path / "home").rglob("*.jpg"))) == 2
