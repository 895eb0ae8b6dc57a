"""A real JupyterLab and a real Chromium, for the tests that need eyes and hands."""

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

ROOT = Path(__file__).resolve().parents[2]
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


class Lab:
    """A JupyterLab of its own: own settings, own folder with copies of the notebooks, no announcements."""

    def __init__(self, home, notebooks=None):
        self.home = home
        for path in notebooks if notebooks is not None else (ROOT / "notebooks").glob("*.ipynb"):
            shutil.copy(path, home)
        env = {
            **os.environ,
            "LABKIT_DATA": os.environ.get("LABKIT_DATA", str(ROOT / "build" / "data")),
            "LABKIT_SCALE": "tiny",
            "LABKIT_FAST": "1",
            "PYTHONPATH": str(ROOT),
            **{f"JUPYTER_{k}_DIR": str(home / f".{k.lower()}") for k in ("CONFIG", "DATA", "RUNTIME")},
            "JUPYTERLAB_SETTINGS_DIR": str(home / ".settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(home / ".workspaces"),
        }
        quiet = home / ".settings" / "@jupyterlab" / "apputils-extension"
        quiet.mkdir(parents=True)
        (quiet / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=0"]
        command += ["--ServerApp.token=t", f"--ServerApp.root_dir={home}", "--LabApp.expose_app_in_browser=True"]
        command += ["--KernelManager.transport=ipc"]  # as in execution.py: a port may be taken meanwhile
        self.env = env
        with (home / "log").open("w") as log:
            self.server = subprocess.Popen(command, cwd=home, env=env, stdout=subprocess.DEVNULL, stderr=log)
        try:
            self.url = self._address()
        except BaseException:
            self.stop()
            raise

    def stop(self):
        self.server.terminate()
        try:
            self.server.wait(20)
        except subprocess.TimeoutExpired:
            self.server.kill()

    def _address(self):
        """Wait until the server says where it listens and answers there."""
        for _ in range(600):
            assert self.server.poll() is None, (self.home / "log").read_text()[-2000:]
            for file in (self.home / ".runtime").glob("jpserver-*.json"):
                try:
                    url = json.loads(file.read_text())["url"]
                    urllib.request.urlopen(f"{url}api/status?token=t", timeout=5).close()
                    return url
                except (OSError, ValueError):
                    pass
            time.sleep(0.2)
        raise AssertionError("JupyterLab does not answer:\n" + (self.home / "log").read_text()[-2000:])

    def api(self, path, method="GET"):
        """Ask the server itself, as in ``api("kernels")``."""
        request = urllib.request.Request(
            f"{self.url}api/{path}", method=method, headers={"Authorization": "token t", "Content-Type": "text/plain"}
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            raw = answer.read()
        return json.loads(raw) if raw else None

    def trust(self, path):
        """Trust a notebook, as its reader would."""
        command = [sys.executable, "-m", "jupyter", "trust", str(path)]
        subprocess.run(command, env=self.env, check=True, capture_output=True)

    def end_sessions(self):
        """End every kernel: what a page shows from here on, it shows without one."""
        for session in self.api("sessions"):
            self.api(f"sessions/{session['id']}", "DELETE")

    def open(self, chromium, name, theme="light", height=1600):
        """Open a notebook in a fresh page of the given theme; return the page and the set of hosts it talks to."""
        folder = self.home / ".settings" / "@jupyterlab" / "apputils-extension"
        (folder / "themes.jupyterlab-settings").write_text(json.dumps({"theme": f"JupyterLab {theme.capitalize()}"}))
        page = chromium.new_page(viewport={"width": 1280, "height": height}, color_scheme=theme, accept_downloads=True)
        hosts = set()
        page.on("request", lambda request: hosts.add(host(request.url)))
        page.goto(f"{self.url}lab/tree/{name}?token=t&reset", wait_until="domcontentloaded")
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=600_000)
        page.wait_for_function(
            f"document.body.dataset.jpThemeLight === '{str(theme == 'light').lower()}'", timeout=600_000
        )
        return page, hosts


def host(url):
    """Return who is asked; the picture of the badge, which offline readers do without, counts as nobody."""
    return "nobody" if url == BADGE or not url.startswith("http") else urlsplit(url).hostname


def turn_to(page, name, kernel=False, height=1600):
    """Open another notebook in a page that is open, by default without a kernel."""
    page.set_viewport_size({"width": 1280, "height": height})
    page.evaluate(
        """async ([name, kernel]) => { const app = window.jupyterapp; await app.restored;
        const preference = kernel ? {} : {kernelPreference: {shouldStart: false, autoStartDefault: false}};
        const opened = await app.commands.execute('docmanager:open', {path: name, ...preference});
        await opened.context.ready;
        for (const other of [...app.shell.widgets('main')]) if (other !== opened) {
          if (other.context) other.context.model.dirty = false; /* else it asks whether to save */
          other.close(); /* only now: an empty shell would bring its launcher to the front */
        }
        app.shell.activateById(opened.id); }""",
        [name, kernel],
    )
    page.wait_for_function(
        "name => window.jupyterapp.shell.currentWidget?.context?.path === name && "
        "document.querySelectorAll('.jp-Notebook').length === 1 && document.querySelector('.jp-Notebook .jp-Cell')",
        arg=name,
        timeout=60_000,
    )


def wear(page, theme):
    """Change the theme of a page that is open, as its reader would by the menu."""
    page.emulate_media(color_scheme=theme)
    page.evaluate(
        "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})",
        f"JupyterLab {theme.capitalize()}",
    )
    page.wait_for_function(f"document.body.dataset.jpThemeLight === '{str(theme == 'light').lower()}'", timeout=600_000)


#: What a notebook's own model says of its code cells: their numbers, what failed, whether the kernel rests.
STATE = """() => { const panel = window.jupyterapp.shell.currentWidget, m = panel.content.model.cells;
  const code = [...Array(m.length).keys()].map(i => m.get(i)).filter(c => c.type === 'code');
  const errors = code.flatMap(c => c.outputs.toJSON()).filter(o => o.output_type === 'error').map(o => o.evalue);
  return [code.map(c => c.executionCount), errors, panel.sessionContext.session?.kernel?.status]; }"""


#: Takes the numbers of an earlier run away: those that come are of this one.
FORGET = """() => { const m = window.jupyterapp.shell.currentWidget.content.model.cells;
  for (let i = 0; i < m.length; i++) if (m.get(i).type === 'code') m.get(i).executionCount = null; }"""


def settle(page):
    """Wait until two frames have passed, so that what the page had planned for the next one is done."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))")


#: Waits until ten frames in a row show the same place of the list, the same cells and pictures that are all loaded.
STILL = """(list) => new Promise((done) => { let before = null, same = 0;
  const look = () => {
    const pictures = [...document.querySelectorAll('.jp-OutputArea-output img')];
    const now = [list.scrollTop, list.scrollHeight, document.querySelectorAll('.jp-Cell').length,
      ...pictures.map((i) => i.complete && i.naturalWidth && i.clientWidth)].join();
    same = now === before && pictures.every((i) => i.complete) ? same + 1 : 0;
    before = now;
    if (same >= 10) done(); else requestAnimationFrame(look);
  };
  look(); })"""


def run_all(page, seconds=300):
    """Restart the kernel, run every cell by the menu, and wait until the last one has run; return the error, if any."""
    # A kernel that is still starting would forget what it was asked to run.
    page.wait_for_function(f"({STATE})()[2] === 'idle'", timeout=60_000)
    page.evaluate(FORGET)
    page.locator(".jp-Notebook").first.click(position={"x": 5, "y": 5})
    page.get_by_role("menuitem", name="Kernel").first.click()
    page.locator(".lm-Menu-item", has_text="Restart Kernel and Run All Cells").click()
    page.locator(".jp-Dialog button.jp-mod-accept").click()
    page.wait_for_function(
        f"""() => {{ const [numbers, errors, status] = ({STATE})();
          return errors.length || (status === 'idle' && numbers.every((n, i) => n === i + 1)); }}""",
        timeout=1000 * seconds,
    )
    _, errors, _ = page.evaluate(STATE)
    assert not errors, errors


def walk(page, name, expected=None, times=5):
    """Scroll through the notebook from its top, keep a screenshot of each screen, return how the pictures looked.

    Where fewer or more pictures than `expected` were met, outputs were still being drawn: it is walked again.
    """
    SHOTS.mkdir(parents=True, exist_ok=True)
    for old in SHOTS.glob(f"{name}-[0-9]*.png"):
        old.unlink()
    pictures = {}
    box = page.locator(".jp-WindowedPanel-outer").first
    box.evaluate("e => e.scrollTo(0, 0)")
    for number in range(60):
        box.evaluate(STILL)
        for image in page.query_selector_all(".jp-OutputArea-output img"):
            size = image.evaluate(
                "i => i.parentElement && [i.src.length, i.naturalWidth, i.clientWidth, i.parentElement.clientWidth]"
            )
            if size:  # else it was drawn anew meanwhile, and is found on the next screen
                pictures[size[0]] = size
        page.screenshot(path=SHOTS / f"{name}-{number:02}.png")
        moved = box.evaluate(
            "e => { const y = e.scrollTop; e.scrollBy(0, e.clientHeight - 80); return e.scrollTop > y; }"
        )
        if not moved:
            break
    if expected not in (None, len(pictures)) and times > 1:
        return walk(page, name, expected, times - 1)
    return list(pictures.values())
