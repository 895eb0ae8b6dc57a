"""What several tests share: the checkout, quiet TensorFlow, a small set of real photos."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from labkit.common.environment import importing, prepare

prepare()

# No test asks how long an example takes, or how long it takes to draw one: another program may have the core.
settings.register_profile("lab", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lab")

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), *(str(folder) for folder in (ROOT / "tests").iterdir() if folder.is_dir())]
sys.path.append(str(ROOT / "notebooks"))  # the tools that need a checkout: tour, badges, build and grader


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Half of the time that it takes to collect thousands of tests would go into the search for garbage."""
    with importing():
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a law with many cases, `make test` tries some of them, from the first to the last: the others are `long`."""
    laws = {}
    for item in items:
        if item.get_closest_marker("sample"):
            laws.setdefault((item.path, item.originalname), []).append(item)
    for cases in laws.values():
        (wanted,) = cases[0].get_closest_marker("sample").args
        kept = {round(i * (len(cases) - 1) / max(1, wanted - 1)) for i in range(wanted)}
        for number, item in enumerate(cases):
            if number not in kept:
                item.add_marker("long")


@pytest.fixture(scope="session", autouse=True)
def advice_beside_other_tests():
    """Tests run beside each other on the same cores, where the product would refuse its advice."""
    from labkit.timeline.causes import thresholds

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "CROWDED", 2.0)
        yield


def pytest_terminal_summary(terminalreporter):
    """Write down which tests were skipped, and why, for the last lines of `make test`."""
    lines = [f"  {report.nodeid}: {report.longrepr[2]}\n" for report in terminalreporter.getreports("skipped")]
    if lines and (ROOT / "build").is_dir():
        with (ROOT / "build" / "left-out.txt").open("a", encoding="utf-8") as file:
            file.writelines(lines)


def pytest_addoption(parser):
    """Say how often the tests that draw random numbers run: once, or under many seeds (`make seeds`)."""
    parser.addoption("--seeds", type=int, default=1, help="run each test that draws random numbers under so many seeds")


def pytest_generate_tests(metafunc):
    """Repeat the tests that are marked `random`."""
    seeds = metafunc.config.getoption("--seeds")
    if seeds > 1 and metafunc.definition.get_closest_marker("random"):
        metafunc.fixturenames.append("random_seed")
        metafunc.parametrize("random_seed", range(seeds))


def sow(item):
    """Give the sources of random numbers the seed of this run of a test.

    TensorFlow draws its own seeds: under a global one, every epoch of a pipeline draws the same numbers again, which
    is a fault that the lab reports.
    """
    import numpy as np

    seed = item.callspec.params.get("random_seed", 0) if hasattr(item, "callspec") else 0
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (what students' code draws from)


def pytest_runtest_setup(item):
    """Sow what a test marked `random` draws; see that a test marked `opencl` has a device.

    Without a device it is skipped on a laptop and fails in CI.
    """
    if item.get_closest_marker("random"):
        sow(item)
    if item.get_closest_marker("opencl") is None:
        return
    from labkit.offload import NoDevice, choose

    try:
        choose()
    except NoDevice as error:
        if os.environ.get("LABKIT_REQUIRE_OPENCL"):
            pytest.fail(f"{error}, and LABKIT_REQUIRE_OPENCL is set", pytrace=False)
        pytest.skip(f"NO OPENCL HERE: THIS TEST DID NOT RUN ({error})")


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """The wheel of this checkout, built once."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def album():
    from labkit.sources import photos

    return photos.load(scale="tiny", progress=False)


@pytest.fixture
def on_small_disk(tmp_path):
    """Return the words before a command that runs it with `tmp_path` on a disk of 3 MB."""
    mount = 'mount -t tmpfs -o size=3m none "$1" && shift && exec "$@"'
    namespace = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--mount"]
    ways = [
        [*namespace, "sh", "-c", mount, "sh", str(tmp_path)],
        ["bwrap", "--dev-bind", "/", "/", "--size", str(3 << 20), "--tmpfs", str(tmp_path)],
    ]
    for inside in ways:
        if (
            shutil.which(inside[0])
            and not subprocess.run([*inside, "true"], capture_output=True, check=False).returncode
        ):
            return inside
    if os.environ.get("LABKIT_REQUIRE_SMALL_DISK"):
        pytest.fail("nobody may mount a small disk to fill here, and LABKIT_REQUIRE_SMALL_DISK is set")
    pytest.skip("this machine lets nobody mount a small disk to fill")


@pytest.fixture
def colab(monkeypatch):
    """The package that Colab's kernel has imported, in this process."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "support" / "colab_stand_in"))
    from google.colab import output

    yield output
    for name in set(sys.modules) - before:
        if name.startswith("google.colab"):
            del sys.modules[name]


@pytest.fixture(scope="module")
def chromium():
    """A browser for the tests of one file: two at a time in one process do not go together."""
    from browser import CHROMIUM, QUIET_FLAGS

    if CHROMIUM is None:
        if os.environ.get("LABKIT_REQUIRE_BROWSER"):
            pytest.fail("no Chromium on this machine, and LABKIT_REQUIRE_BROWSER is set")
        pytest.skip("NO CHROMIUM HERE: THE BROWSER TEST DID NOT RUN (apt install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """A JupyterLab with copies of the notebooks, for all tests."""
    from browser import Lab

    lab = Lab(tmp_path_factory.mktemp("lab"))
    yield lab
    lab.stop()
