"""One set of versions: pyproject.toml declares, constraints.txt pins, environment.yml repeats nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import labkit

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
    # pip brings the rest through labkit's own extras; pins would replace what conda brought.
    assert not any("constraints" in line for line in pip)
    extras = re.fullmatch(r"-e \.\[([a-z,]+)\]", pip[0])[1].split(",")
    assert {"tf", "tfds"} <= set(extras) <= set(project["optional-dependencies"])
    assert "opencl" not in extras, "conda brings OpenCL"
    # All but one package of that extra, which conda does not have.
    (rest,) = map(Requirement, pip[1:])
    assert (rest.name, rest.specifier) == ("simplejpeg", ranges["simplejpeg"])


def test_pip_replaces_nothing_that_conda_has_brought(root, project):
    """A range of labkit's with an upper bound, for what conda's packages need, is stated for conda, too."""
    environment = yaml.safe_load((root / "environment.yml").read_text(encoding="utf-8"))
    stated = [Requirement(t) for t in environment["dependencies"] if isinstance(t, str) and re.search("[<>]", t)]
    brought = set(map(canonicalize_name, ["jupyterlab", "pyopencl"]))
    while new := {canonicalize_name(n.name) for name in brought for n in needs(name)} - brought:
        brought |= new
    extras = project["optional-dependencies"]
    ours = map(Requirement, [*project["dependencies"], *extras["tf"], *extras["tfds"], *extras["lab"]])
    bounded = {
        (r.name, str(r.specifier)) for r in ours if "<" in str(r.specifier) and canonicalize_name(r.name) in brought
    }
    assert {"jupyterlab", "jsonschema"} <= {name for name, _ in bounded}
    assert bounded <= {(r.name, str(r.specifier)) for r in stated}


def needs(name):
    """Return what an installed package requires here."""
    found = map(Requirement, requires(name) or ())
    return [r for r in found if r.marker is None or r.marker.evaluate({"extra": ""})]


#: What somebody is told to install: labkit has an address, or is a file, or a folder; no registry holds it.
BY_NAME = re.compile(r"""(?:pip|uv) (?:add|install)[^\n;|`\\]*?[\s"']labkit(?:\[[\w,]+\])?(?![\[\w.*/-]| @)""")


def test_nobody_is_told_to_install_labkit_by_its_name(root):
    assert BY_NAME.search("pip install -q 'labkit[tf]'")
    assert BY_NAME.search("pip install labkit")
    assert not BY_NAME.search('pip install "labkit[opencl] @ git+https://github.com/a/b"; pip install labkit-*.whl')
    kept = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    texts = [
        p
        for p in kept
        if Path(p).suffix in {".py", ".md", ".ipynb", ".html", ".js", ".yml", ".toml"} or p == "Makefile"
    ]
    told = {
        p for p in texts if p != "tests/test_packaging.py" and BY_NAME.search((root / p).read_text(encoding="utf-8"))
    }
    assert not told


def test_no_bound_of_labkits_own_keeps_a_younger_python_out(project):
    assert project["requires-python"] == ">=3.10"
    assert not [r for r in declared(project) if r.marker and re.search("python_version <=? .3.1[3-9]", str(r.marker))]


def test_workflows_pin_what_they_use_ask_for_no_secret_and_may_only_read_but_to_publish(root):
    files = sorted((root / ".github" / "workflows").glob("*.yml"))
    assert [path.stem for path in files] == ["ci", "release", "site"]
    written = {}
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert "secrets" not in text, "github.token is the one that a run is given"
        assert re.findall(r"uses: (?!actions/[\w-]+@[0-9a-f]{40} # v[\d.]+$).*", text, re.MULTILINE) == []
        flow = yaml.safe_load(text)
        assert flow["permissions"] == {"contents": "read"}
        written |= {f"{path.stem}.{job}": what.get("permissions") for job, what in flow["jobs"].items()}
    may = {"release.publish": {"contents": "write"}, "site.deploy": {"pages": "write", "id-token": "write"}}
    assert {job: what for job, what in written.items() if what} == may


def test_the_citation_has_the_keys_of_its_format_and_the_version_of_the_package(root, project):
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "type", "license", "repository-code", "version"} <= set(cited)
    assert all(author.get("name") or author.get("family-names") for author in cited["authors"])
    assert cited["version"] == labkit.__version__
    assert cited["license"] == project["license"]
    assert cited["repository-code"] == project["urls"]["Repository"]


def test_the_wheel_carries_kernels_builder_and_recordings_and_nothing_generated(root, wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "labkit/_kernels/normalize_clip.cl" in names
    assert any(n.startswith("labkit/_data/lab_photos/") and n.endswith("_dataset_builder.py") for n in names)
    recordings = {path.name for path in (root / "data" / "recordings").iterdir()}
    assert {Path(n).name for n in names if n.startswith("labkit/_data/recordings/")} == recordings
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
        "from labcourse import readings; assert len(readings.recordings('02.1')) == 3; "
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
