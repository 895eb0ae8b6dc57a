"""Tests that cannot run here are named on a laptop, and are failures in CI."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys

import pytest
from left_out import leave_out


def test_what_is_left_out_fails_where_it_is_required(monkeypatch):
    monkeypatch.delenv("LABKIT_REQUIRE_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="THIS TEST DID NOT RUN: no Chromium"):
        leave_out("no Chromium", "LABKIT_REQUIRE_BROWSER")
    monkeypatch.setenv("LABKIT_REQUIRE_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="no Chromium, and LABKIT_REQUIRE_BROWSER is set"):
        leave_out("no Chromium", "LABKIT_REQUIRE_BROWSER")


def test_ci_requires_everything_that_a_test_may_lack(root):
    files = [*(root / "tests").rglob("*.py"), root / "notebooks" / "conftest.py"]
    asked = set().union(*(re.findall(r'"(LABKIT_REQUIRE_[A-Z_]+)"', file.read_text("utf-8")) for file in files))
    required = set(re.findall(r"(LABKIT_REQUIRE_[A-Z_]+)=1", (root / ".ci" / "run").read_text("utf-8")))
    assert asked == required


def test_no_test_is_skipped_for_a_package_that_pip_installs(root):
    word = "importor" + "skip"
    assert [file.name for file in (root / "tests").rglob("*.py") if word in file.read_text("utf-8")] == []


@pytest.mark.parametrize("refused", [(), ("unshare --mount",), ("unshare",)], ids=["root", "anybody", "bubblewrap"])
def test_a_small_disk_is_found_in_every_way_that_a_system_leaves(on_small_disk, tmp_path, monkeypatch, refused):
    """Each way gives a disk of that size that nobody else sees; a program that refuses stands in for the system."""
    programs = tmp_path.parent / f"{tmp_path.name}-programs"
    programs.mkdir()
    stub = programs / "unshare"
    words = "|".join(f"{way!r}*" for way in refused) or "none"
    stub.write_text(f'#!/bin/sh\ncase "unshare $*" in {words}) exit 1;; esac\nexec {shutil.which("unshare")} "$@"\n')
    stub.chmod(stub.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    fill = ["sh", "-c", 'df -kP "$0" | tail -1; touch "$0/seen"; head -c 4M /dev/zero > "$0/full"', str(tmp_path)]
    done = subprocess.run([*on_small_disk(), *fill], capture_output=True, text=True, check=False)
    assert done.stdout.split()[1] == "3072"
    assert done.returncode != 0
    assert not (tmp_path / "seen").exists()


@pytest.mark.long
def test_the_parts_of_what_is_long_are_all_of_it_and_share_nothing(root):
    def collected(*options):
        words = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *options]
        file = root / "tests" / "notebooks" / "test_lab_folder.py"
        done = subprocess.run([*words, str(file)], capture_output=True, text=True, check=False, cwd=root)
        return {line for line in done.stdout.splitlines() if "::" in line}

    every, first, second = (collected("-m", "long", *part) for part in ((), ("--part", "0/2"), ("--part", "1/2")))
    assert first | second == every
    assert not first & second
    assert collected() == collected("--part", "0/2") | collected("--part", "1/2"), "what is not long is in each part"


def test_no_test_that_must_run_alone_is_left_to_those_that_run_beside_each_other(root, tmp_path):
    file = tmp_path / "test_any.py"
    marks = "@pytest.mark.alone\n@pytest.mark.sample(2)\n@pytest.mark.parametrize('n', range(3))\n"
    file.write_text(f"import pytest\n{marks}def test_it(n):\n    pass\n")
    words = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "-p", "conftest"]
    own = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(root / "tests")])}
    done = subprocess.run([*words, str(file)], capture_output=True, text=True, check=False, cwd=root, env=own)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_it[1] is long and alone" in done.stderr
