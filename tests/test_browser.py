"""The notebooks in a real JupyterLab and a real Chromium: they run, show their pictures, and stay on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parent.parent
SHOTS = ROOT / "build" / "screenshots"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
BADGE = "https://colab.research.google.com/assets/colab-badge.svg"
QUIET_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def chromium():
    if CHROMIUM is None:
        if os.environ.get("LABKIT_REQUIRE_BROWSER"):
            pytest.fail("no Chromium on this machine, and LABKIT_REQUIRE_BROWSER is set")
        pytest.skip("NO CHROMIUM HERE: THE BROWSER TEST DID NOT RUN (apt install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A JupyterLab of its own: own settings, own folder with the notebooks, no announcements."""
    home = tmp_path_factory.mktemp("lab")
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        shutil.copy(path, home)
    env = {
        **os.environ,
        "LABKIT_DATA": os.environ.get("LABKIT_DATA", str(ROOT / "build" / "data")),
        "LABKIT_SCALE": "tiny",
        **{f"JUPYTER_{k}_DIR": str(home / f".{k.lower()}") for k in ("CONFIG", "DATA", "RUNTIME")},
        "JUPYTERLAB_SETTINGS_DIR": str(home / ".settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / ".workspaces"),
    }
    quiet = home / ".settings" / "@jupyterlab" / "apputils-extension"
    quiet.mkdir(parents=True)
    (quiet / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        "--port=0",
        "--ServerApp.token=t",
        f"--ServerApp.root_dir={home}",
    ]
    server = subprocess.Popen(command, cwd=home, env=env, stdout=subprocess.DEVNULL, stderr=(home / "log").open("w"))
    try:
        yield _address(server, home), home
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


def _address(server, home):
    """Wait until the server says where it listens and answers there."""
    for _ in range(600):
        assert server.poll() is None, (home / "log").read_text()[-2000:]
        for file in (home / ".runtime").glob("jpserver-*.json"):
            try:
                url = json.loads(file.read_text())["url"]
                urllib.request.urlopen(f"{url}api/status?token=t", timeout=5).close()
                return url
            except (OSError, ValueError):
                pass
        time.sleep(0.2)
    raise AssertionError("JupyterLab does not answer:\n" + (home / "log").read_text()[-2000:])


def _theme(home, theme):
    folder = home / ".settings" / "@jupyterlab" / "apputils-extension"
    (folder / "themes.jupyterlab-settings").write_text(json.dumps({"theme": f"JupyterLab {theme.capitalize()}"}))


def _host(url):
    """Return who is asked; the picture of the badge, which offline readers do without, counts as nobody."""
    return "nobody" if url == BADGE or not url.startswith("http") else urlsplit(url).hostname


def _open(chromium, lab, name, theme):
    """Open a notebook in a fresh page of the given theme; return the page and the hosts it talks to."""
    url, home = lab
    _theme(home, theme)
    page = chromium.new_page(viewport={"width": 1280, "height": 1600}, color_scheme=theme)
    hosts = set()
    page.on("request", lambda request: hosts.add(_host(request.url)))
    page.goto(f"{url}lab/tree/{name}?token=t&reset", wait_until="domcontentloaded")
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    page.wait_for_function(f"document.body.dataset.jpThemeLight === '{str(theme == 'light').lower()}'", timeout=30_000)
    return page, hosts


def _walk(page, name):
    """Scroll through the notebook, keep one screenshot per screen, and return what the outputs looked like."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    for old in SHOTS.glob(f"{name}-*.png"):
        old.unlink()
    pictures = {}
    box = page.locator(".jp-WindowedPanel-outer").first
    for number in range(60):
        page.wait_for_timeout(700)
        for image in page.query_selector_all(".jp-OutputArea-output img"):
            size = image.evaluate("i => [i.src.length, i.naturalWidth, i.clientWidth, i.parentElement.clientWidth]")
            pictures[size[0]] = size
        page.screenshot(path=SHOTS / f"{name}-{number:02}.png")
        moved = box.evaluate(
            "e => { const y = e.scrollTop; e.scrollBy(0, e.clientHeight - 80); return e.scrollTop > y; }"
        )
        if not moved:
            break
    return list(pictures.values())


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem)
def test_the_stored_notebook_shows_its_pictures(chromium, lab, path, theme):
    page, hosts = _open(chromium, lab, path.name, theme)
    pictures = _walk(page, f"{path.stem}-{theme}")
    stored = sum(
        bool(o.get("data", {}).keys() & {"image/png", "image/jpeg"})
        for c in json.loads(path.read_text())["cells"]
        for o in c.get("outputs", [])
    )
    assert len(pictures) == stored > 0
    for _, natural, shown, room in pictures:
        assert natural > 0, "a picture does not decode"
        assert shown <= room, "a picture is wider than its cell"
    assert hosts - {"nobody"} == {"localhost"}, f"the page talks to {hosts}"
    page.close()


def test_run_all_reaches_the_end_in_a_real_lab(chromium, lab):
    """The reader's own way: open, Run All Cells, watch it end without an error."""
    name = "00_read_a_timeline.ipynb"
    page, hosts = _open(chromium, lab, name, "light")
    total = sum(c["cell_type"] == "code" for c in json.loads((ROOT / "notebooks" / name).read_text())["cells"])
    page.locator(".jp-Notebook").first.click(position={"x": 5, "y": 5})
    page.get_by_role("menuitem", name="Kernel").first.click()
    page.get_by_text("Restart Kernel and Run All Cells").first.click()
    page.get_by_role("button", name="Restart").first.click()
    deadline = time.monotonic() + 300
    counts: set[int] = set()
    while total not in counts and time.monotonic() < deadline:
        page.wait_for_timeout(1_000)
        box = page.locator(".jp-WindowedPanel-outer").first
        box.evaluate("e => e.scrollTo(0, e.scrollHeight)")
        prompts = page.locator(".jp-InputPrompt").all_inner_texts()
        counts |= (
            {int(t.strip("[]: ")) for t in prompts if t.strip("[]: ").isdigit()} if "[*]:" not in prompts else set()
        )
        assert page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']").count() == 0
    assert total in counts, "Run All did not reach the last cell"
    page.wait_for_timeout(500)
    pictures = _walk(page, "run-all")
    assert len(pictures) >= 3
    assert page.get_by_text("Error displaying widget").count() == 0
    assert hosts - {"nobody"} == {"localhost"}, f"the page talks to {hosts}"
    page.close()


def test_the_tour_page_needs_no_network_and_no_script(chromium, tmp_path):
    """A page made from two real pictures: everything is inside, in both themes."""
    from labkit import view
    from labkit.measures import Measures
    from labkit.tour import render
    from labkit.trace import Span, Trace

    spans = [Span("consumer", "train step", "train", i * 10_000_000, 6_000_000, i) for i in range(6)]
    trace = Trace.from_spans(spans, kinds={"consumer": "consumer"}, images=192)
    view.draw(trace, title="One").keep(tmp_path / "figures" / "scoreboard")
    view.draw(trace, title="Two <b>").keep(tmp_path / "figures" / "00_x")
    page_file = tmp_path / "index.html"
    board = Measures.from_traces({"a <rung>": [trace], "another": [trace]})
    page_file.write_text(render(tmp_path / "figures", board), encoding="utf-8")
    for theme in ("light", "dark"):
        page = chromium.new_page(viewport={"width": 1200, "height": 1500}, color_scheme=theme, java_script_enabled=True)
        requests = []
        page.on(
            "request", lambda r, seen=requests: seen.append(r.url) if not r.url.startswith(("file:", "data:")) else None
        )
        page.goto(page_file.as_uri())
        images = page.evaluate("[...document.images].map(i => [i.complete, i.naturalWidth, i.alt.length])")
        assert len(images) == 2
        assert all(done and width > 500 and alt > 40 for done, width, alt in images)
        assert page.evaluate("document.querySelectorAll('script').length") == 0
        assert page.get_by_text("Two <b>").count() > 0, "titles are text, not markup"
        assert page.get_by_text("a <rung>").count() > 0
        page.screenshot(path=SHOTS / f"tour-{theme}.png")
        assert requests == []
        page.close()
