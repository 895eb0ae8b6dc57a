"""What several tests share: the checkout, quiet TensorFlow, a small set of real photos."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from labkit.common.environment import importing, prepare

prepare()

# A shell starts what stands before & with SIGINT ignored, and then no stop button would stop anything.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test asks how long an example takes, or how long it takes to draw one: another program may have the core.
# Nor is a failure explained by the lines that ran: that traces every line, and in CPython 3.11 it can loop for ever.
settings.register_profile(
    "lab", deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=set(Phase) - {Phase.explain}
)
settings.load_profile("lab")

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), *sorted({str(file.parent) for file in (ROOT / "tests").glob("*/**/*.py")})]
sys.path.append(str(ROOT / "notebooks"))  # the tools that need a checkout: tour, badges, build and grader
sys.path += [str(ROOT / name) for name in ("data/slow_pipelines", "data/slow_loaders", "benchmarks", "docs/site")]

import repeats  # noqa: E402 (this one and the next stand in tests/support)
from left_out import leave_out  # noqa: E402


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Half of the time that it takes to collect thousands of tests would go into the search for garbage."""
    with importing():
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Of a law with many cases, `make test` tries some of them, from the first to the last: the others are `long`.

    Of what is `long` or `alone`, and of what runs beside Colab's packages, ``--part`` takes a half, or an n-th.
    """
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
    if part := config.getoption("part"):
        first, every = map(int, part.split("/"))
        slow = [item for item in items if {"long", "colab", "alone"} & {mark.name for mark in item.iter_markers()}]
        # By its name, not by its place in the list: one test more leaves every other one in its part.
        left_to_others = {id(i) for i in slow if zlib.crc32(i.nodeid.encode()) % every != first % every}
        config.hook.pytest_deselected(items=[item for item in items if id(item) in left_to_others])
        items[:] = [item for item in items if id(item) not in left_to_others]


@pytest.fixture(autouse=True)
def no_seed_left():
    """A test that sets TensorFlow's global seed sets it for itself: under one, pipelines of others augment alike."""
    yield
    if "tensorflow" in sys.modules:
        from tensorflow.python.eager import context

        if context.global_seed() is not None:  # to set one, even none, makes every kernel of TensorFlow anew
            sys.modules["tensorflow"].random.set_seed(None)


def pytest_terminal_summary(terminalreporter):
    """Say which tests measured again; write down which were skipped, and why, for the last lines of `make test`."""
    done = [report for name in ("", "passed", "failed", "error") for report in terminalreporter.getreports(name)]
    terminalreporter.write_line(repeats.line([report for report in done if hasattr(report, "user_properties")]))
    skipped = [
        report for report in terminalreporter.getreports("skipped") if UNDER_ANOTHER_SEED not in report.longrepr[2]
    ]
    lines = [f"  {report.nodeid}: {report.longrepr[2]}\n" for report in skipped]
    if lines and (ROOT / "build").is_dir():
        with (ROOT / "build" / "left-out.txt").open("a", encoding="utf-8") as file:
            file.writelines(lines)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item):
    """Let the report of a test carry its repeats, from whatever process it ran in."""
    if count := repeats.summary(item.nodeid):
        item.user_properties.append(("repeats", count))


def pytest_addoption(parser):
    """Say how often tests that draw random numbers run: once, or under many seeds (`make seeds`); and which part."""
    parser.addoption(
        "--part", default="", help="of the tests that are long, alone or Colab's, take the k-th of n: 0/2, 1/2"
    )
    parser.addoption("--seeds", type=int, default=1, help="run each test that draws random numbers under so many seeds")


def pytest_generate_tests(metafunc):
    """Repeat the tests that are marked `random`."""
    seeds = metafunc.config.getoption("--seeds")
    if seeds > 1 and metafunc.definition.get_closest_marker("random"):
        metafunc.fixturenames.append("random_seed")
        metafunc.parametrize("random_seed", range(seeds))


#: Whether a case drew random numbers when it first ran: if not, other seeds would run the same once more.
drew = {}
UNDER_ANOTHER_SEED = "it drew no random numbers under another seed"


def case(item):
    """Return what the runs of a test under several seeds have in common, or None if it runs under one seed."""
    if not hasattr(item, "callspec") or "random_seed" not in item.callspec.params:
        return None
    return item.path, item.originalname, item.callspec.id.partition("-")[2]  # the seed comes first


def sow(item):
    """Give the sources of random numbers the seed of this run of a test.

    TensorFlow draws its own seeds: under a global one, every epoch of a pipeline draws the same numbers again, which
    is a fault that the lab reports.
    """
    import numpy as np

    seed = item.callspec.params.get("random_seed", 0) if hasattr(item, "callspec") else 0
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (what students' code draws from)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Find out which of the tests that run under many seeds draw anything; their fixtures must not."""
    if case(item) is None or case(item) in drew:
        return (yield)
    import draws

    with draws.watched() as so_far:
        result = yield
        drew[case(item)] = so_far() or hasattr(item.obj, "is_hypothesis_test")
    return result


def pytest_runtest_setup(item):
    """Sow what a test marked `random` draws, unless it draws nothing; see that a test marked `opencl` has a device.

    Without a device it is skipped on a laptop and fails in CI.
    """
    if item.get_closest_marker("random"):
        sow(item)
        if not drew.get(case(item), True):
            pytest.skip(UNDER_ANOTHER_SEED)
    if item.get_closest_marker("opencl") is None:
        return
    from labextras.offload import NoDevice, choose

    try:
        choose()
    except NoDevice as error:
        leave_out(str(error), "LABKIT_REQUIRE_OPENCL")


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
def solved(tmp_path_factory):
    """The folder of the notebooks whose exercises are solved."""
    folder = tmp_path_factory.mktemp("solved")
    subprocess.run([sys.executable, ROOT / "notebooks" / "build.py", "--solved", folder], check=True)
    return folder


@pytest.fixture(scope="session")
def album():
    from labkit.sources import photos

    return photos.load(scale="tiny", progress=False)


@pytest.fixture
def on_small_disk(tmp_path):
    """A function: so many MB in, the words before a command that runs it with `tmp_path` on an empty disk of that size.

    Root may mount one; anybody else, and root in a container, becomes the owner of a namespace of users first.
    """

    def words(mb: int = 3) -> list[str]:
        mount = ["sh", "-c", f'mount -t tmpfs -o size={mb}m none "$0" && exec "$@"', str(tmp_path)]
        ways = (
            ["unshare", "--mount", *mount],
            ["unshare", "--user", "--map-root-user", "--mount", *mount],
            ["bwrap", "--dev-bind", "/", "/", "--size", str(mb << 20), "--tmpfs", str(tmp_path)],
        )
        for way in ways:
            if shutil.which(way[0]) and not subprocess.run([*way, "true"], capture_output=True, check=False).returncode:
                return way
        return leave_out("this machine lets nobody mount a small disk to fill", "LABKIT_REQUIRE_SMALL_DISK")

    return words


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
        leave_out("no Chromium on this machine (apt install chromium)", "LABKIT_REQUIRE_BROWSER")
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
