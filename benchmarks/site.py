"""How soon a page of the site is alive, how smoothly it zooms, how large it is, and what it asks for outside.

    make site && python benchmarks/site.py            or with --build, which builds the site from nothing first

Chromium without a GPU and without a network opens the pages from the folder build/site, each time in a new profile.
``first_timeline_ms`` counts from the navigation to 00 until its first timeline has been painted, the median of
`--repeats`. ``zoom_ms`` is the median time of one step of zooming there, with one pixel read back, which makes Chromium
finish the drawing. ``explorer_ms`` is the median time from an event of a control of the first explorer of 00 to the
frame after the one that shows its answer, and null without one. ``page_mb`` are the bytes of a page with all that it
loads. ``build_s`` is the time of `make site` from stored notebooks, nothing cached. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "site"
FIRST = "notebooks/00_read_a_timeline.html"
PAINTED = "() => document.querySelector('.lab-timeline .labkit-timeline')?.timeline.painted > 0"
ZOOM = """() => { const view = document.querySelector('.lab-timeline .labkit-timeline').timeline, took = [];
  for (let k = 0; k < 40; k++) {
    const start = performance.now();
    view.zoom(k % 20 < 10 ? 0.7 : 1 / 0.7); view.redraw();
    view.canvas.getContext('2d').getImageData(0, 0, 1, 1);
    took.push(performance.now() - start);
  }
  return took; }"""
EXPLORE = """async () => { const root = document.querySelector('.lx-explorer'), took = [];
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  for (const button of document.querySelectorAll('button')) if (button.textContent === 'Show me anyway') button.click();
  root?.scrollIntoView();
  for (let k = 0; root && !root.querySelector('button') && k < 300; k++) await frame();
  const ranges = root ? [...root.querySelectorAll('label:not(.lx-asleep) input[type=range]')] : [];
  ranges.push(...(root?.querySelectorAll('[aria-label="positions of all sliders"] button') ?? []));
  for (const control of ranges) {
    const start = performance.now();
    if (control.type === 'range') {
      control.value = control.value === control.max ? control.min : control.max;
      for (const name of ['input', 'change']) control.dispatchEvent(new Event(name, { bubbles: true }));
    } else control.click();
    await frame();
    took.push(performance.now() - start);
  }
  return took; }"""


def size_of(asked: list[str]) -> float:
    """Return the megabytes of the files that a page asked for."""
    files = {Path(unquote(urlsplit(url).path)) for url in asked if url.startswith("file:")}
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def measured(browser: Any, repeats: int) -> dict[str, Any]:
    """Return the figures of the pages."""
    outside: set[str] = set()
    sizes: dict[str, float] = {}
    firsts, zooms, answers = [], [], []

    def opened(name: str, look: Any) -> None:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
        tab, asked = context.new_page(), []
        tab.on("request", lambda request: asked.append(request.url))
        start = time.perf_counter()
        tab.goto((SITE / name).as_uri(), wait_until="commit")
        look(tab, start)
        tab.wait_for_load_state("networkidle")
        outside.update(url for url in asked if not url.startswith(("file:", "data:", "blob:")))
        sizes[name] = size_of(asked)
        context.close()

    def first(tab: Any, start: float) -> None:
        tab.wait_for_function(PAINTED, polling=20)
        firsts.append(1e3 * (time.perf_counter() - start))
        zooms.extend(tab.evaluate(ZOOM))
        answers.extend(tab.evaluate(EXPLORE))

    for _ in range(repeats):
        opened(FIRST, first)
    for path in sorted(SITE.rglob("*.html")):
        opened(path.relative_to(SITE).as_posix(), lambda tab, start: None)
    largest = max(sizes, key=sizes.get)
    return {
        "first_timeline_ms": round(statistics.median(firsts)),
        "zoom_ms": round(statistics.median(zooms), 1),
        "zoom_ms_worst": round(max(zooms), 1),
        "explorer_ms": round(statistics.median(answers), 1) if answers else None,
        "page_mb": round(sizes[FIRST], 2),
        "largest_page_mb": round(sizes[largest], 2),
        "largest_page": largest,
        "requests_outside": len(outside),
        "pages": len(sizes),
    }


def main() -> None:
    """Measure, print a table, and one JSON object on the last line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--build", action="store_true", help="build the site from nothing first")
    options = parser.parse_args()
    sys.path += [str(ROOT / place) for place in ("tests/support", "tests/site", "notebooks")]
    from browser import CHROMIUM, QUIET_FLAGS
    from playwright.sync_api import sync_playwright
    from test_links import broken

    figures: dict[str, Any] = {"build_s": None}
    if options.build or not SITE.exists():
        subprocess.run(["make", "--no-print-directory", "build/site-env/.ready"], cwd=ROOT, check=True)
        for name in ("site", "site-source", "site-cache"):
            shutil.rmtree(ROOT / "build" / name, ignore_errors=True)
        start = time.perf_counter()
        subprocess.run(["make", "--no-print-directory", "site"], cwd=ROOT, check=True)
        figures["build_s"] = round(time.perf_counter() - start, 1)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET_FLAGS)
        figures |= measured(browser, options.repeats)
        browser.close()
    figures["broken_links"] = len(list(broken(SITE)))
    figures["site_mb"] = round(sum(path.stat().st_size for path in SITE.rglob("*") if path.is_file()) / 1e6, 1)
    for name, value in figures.items():
        print(f"{name:>18}  {value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
