"""Badges and bootstrap cells move together or not at all, and what they bring resolves beside Colab's pins."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from colab_stand_in.runtime import PINS, pins, pip_settings, plain
from typer.testing import CliRunner

from badges import rewrite, settings
from labkit.cli import app


@pytest.fixture
def checkout(root, tmp_path):
    for name in ("notebooks", "pyproject.toml", "README.md"):
        source = root / name
        shutil.copytree(source, tmp_path / name) if source.is_dir() else shutil.copy(source, tmp_path)
    return tmp_path


@pytest.mark.long
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


def test_a_notebook_that_is_not_whole_is_named_before_anything_is_changed(checkout):
    broken = next((checkout / "notebooks").glob("05*.ipynb"))
    broken.write_text("{")
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=f"{re.escape(str(broken))} is no notebook, and nothing was changed"):
        rewrite(checkout, tag="v2")
    assert {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()} == before


def test_rewrite_there_and_back_is_the_identity(checkout):
    before = {p: p.read_bytes() for p in checkout.rglob("*") if p.is_file()}
    repository, tag = settings(checkout)
    rewrite(checkout, "a/b", "main")
    rewrite(checkout, repository, tag)
    assert {p: p.read_bytes() for p in before} == before
    assert rewrite(checkout) == []


@pytest.mark.parametrize(
    ("repo", "tag"),
    [
        ("nobody", "v1"),
        ("a/b/c", "v1"),
        ("a/..", "v1"),
        ("a/b.git", "v1"),
        ("a/b", "../x"),
        ("a/b", '"'),
        ("a/b", "a//b"),
        ("a/b", "v1.lock"),
    ],
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


def resolve(version, *arguments):
    """Resolve for a Python that need not be installed; the index is the one that pip is set up to use."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--python-version", version]
    return subprocess.run(
        [*command, "--python-platform", "linux", "--no-annotate", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **pip_settings()},
    )


@pytest.mark.colab
@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_the_declared_ranges_resolve_to_the_pins_on_every_python(root, version):
    extras = [part for name in ("tf", "tfds", "opencl", "lab", "dev") for part in ("--extra", name)]
    done = resolve(version, "-c", str(root / "constraints.txt"), *extras, str(root / "pyproject.toml"))
    assert done.returncode == 0, done.stderr
    assert "tensorflow-cpu==" in done.stdout


@pytest.mark.colab
@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_what_the_bootstrap_brings_resolves_inside_colabs_pins(root, version):
    """With OpenCL: both Pythons are Colab's, the one of now and the one of the runtimes that may still be chosen."""
    done = resolve(version, "--extra", "opencl", "-c", str(PINS), str(root / "pyproject.toml"), str(PINS))
    assert done.returncode == 0, done.stderr
    assert "pocl-binary-distribution==" in done.stdout
    assert pins(version) <= set(map(plain, done.stdout.splitlines()))
