"""Tests that cannot run here are named on a laptop, and are failures in CI."""

from __future__ import annotations

import re

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
