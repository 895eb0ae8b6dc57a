"""The pictures of the README: drawn, measured and filmed on this machine; `make figures` runs this file.

``overlap`` is simulated, ``ladder`` is the scoreboard of all rungs, and ``timeline`` is a saved page in a real browser:
it is opened, zoomed into, and asked why the accelerator is idle. The alternative texts in the README get the numbers.
"""

from __future__ import annotations

import html
import io
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

import labkit
from labcourse import ladder
from labcourse.ideas import idea
from labkit.common.environment import cores
from labkit.common.files import write_aside
from labkit.common.palette import THEMES
from labkit.recording import accelerators
from labkit.sources import photos
from labkit.timeline.timeline import Timeline
from labkit.views import ladder_chart

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.append(str(ROOT / "tests" / "support"))

from browser import CHROMIUM, QUIET_FLAGS  # noqa: E402 - the browser of the tests
from timeline_page import GAP  # noqa: E402

#: CSS pixels of the film, image pixels for each of them, and milliseconds of a frame that moves.
SIZE, DENSITY, FRAME = {"width": 900, "height": 430}, 2, 70

#: Bytes that an animation may have.
MOST = 1_500_000

#: An arrow where the mouse is: screenshots leave it out.
CURSOR = """() => { document.body.insertAdjacentHTML('beforeend', `
  <svg id=cursor width=22 height=30 style="position:fixed;z-index:9;pointer-events:none;left:0;top:0">
  <path d="M2 1V23L8 18L12 28L16 26L12 17L20 16Z" fill="#fff" stroke="#000" stroke-width=2 /></svg>`);
  addEventListener('mousemove', ({ clientX, clientY }) => {
    document.getElementById('cursor').style.translate = `${clientX - 2}px ${clientY - 1}px`; }, true); }"""

#: Shows a part of the time axis, and waits until it is painted.
SHOW = """([first, last]) => new Promise((done) => {
  document.querySelector('.labkit-timeline').timeline.show(first, last, true);
  requestAnimationFrame(() => requestAnimationFrame(done)); })"""

#: How far beside the middle of the gap the mouse stops, so that the words in the gap can be read.
BESIDE = """(() => { const view = document.querySelector('.labkit-timeline').timeline, { gap } = view.layout.runs[0];
  return 0.35 * (view.x(gap.end[2]) - view.x(gap.start[2])); })()"""


def main() -> None:
    """Write all pictures beside this file, and their numbers into the README."""
    labkit.setup()
    album, h100 = photos.load(), accelerators.modelled("H100")
    board = ladder.scoreboard(album, h100)
    print(board)
    drawn = {"overlap": idea("02")}
    title = f"From naive to best: each technique of the course, measured on {cores()} cores with a modelled H100"
    drawn["ladder"] = ladder_chart.draw({name: board.trace(name) for name in board}, title=title)
    for name, picture in drawn.items():
        for theme in THEMES:
            picture.save(DOCS / f"{name}.{theme}.svg", theme)
    words = {name: picture.alt for name, picture in drawn.items()}
    words["timeline"] = film(Timeline(labkit.record(ladder.RUNGS[0].build(album), h100, steps=8)))
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    for name, alt in words.items():
        text = re.sub(rf'(src="docs/{name}\.light\.\w+" alt=")[^"]*', lambda m, alt=alt: m[1] + html.escape(alt), text)
    write_aside(readme, text)
    for path in sorted(DOCS.glob("*.*.[sw]*")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:,.0f} kB")


def film(timeline: Timeline) -> str:
    """Write the animation, light and dark, and return what it shows, in words."""
    from playwright.sync_api import sync_playwright

    said = ""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = labkit.save(timeline, Path(folder) / "naive.html", title="A naive pipeline")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET_FLAGS)
        for theme in THEMES:
            page = browser.new_page(viewport=SIZE, device_scale_factor=DENSITY, color_scheme=theme)
            page.goto(path.as_uri())
            frames = list(_frames(page))
            said = page.locator(".lt-detail").inner_text()
            page.close()
            data = _animation(frames)
            if len(data) > MOST:
                raise ValueError(f"the animation has {len(data):,} bytes; allowed: {MOST:,}")
            write_aside(DOCS / f"timeline.{theme}.webp", data)
        browser.close()
    return f"A timeline is zoomed into. A click on a gap of the accelerator says: {' '.join(said.splitlines()[:2])}"


def _frames(page: object) -> Iterator[tuple[bytes, int]]:
    """Yield screenshots and how many milliseconds each is shown: all, zoom, the way to a gap, and its cause."""
    page.wait_for_function(GAP, arg=["body", 2])
    page.evaluate(CURSOR)
    page.add_style_tag(content="h1, main > details { display: none } body { margin: 0; padding: 0 }")
    x, y = 0.6 * SIZE["width"], 0.9 * SIZE["height"]
    page.mouse.move(x, y)
    span, edge = page.evaluate("(({ span, layout }) => [span, [...layout.runs[0].edge]])"
                               "(document.querySelector('.labkit-timeline').timeline)")  # fmt: skip
    yield page.screenshot(), 1400
    for eased in _ease(12):
        page.evaluate(SHOW, [eased * edge[1], span + eased * (edge[3] - span)])
        yield page.screenshot(), FRAME
    yield page.screenshot(), 700
    there = page.evaluate(GAP, ["body", 2])
    there[0] += page.evaluate(BESIDE)
    for eased in _ease(10):
        page.mouse.move(x + eased * (there[0] - x), y + eased * (there[1] - y))
        yield page.screenshot(), FRAME
    page.mouse.click(*there)
    page.evaluate(SHOW, [edge[1], edge[3]])
    yield page.screenshot(), 4000


def _ease(count: int) -> Iterator[float]:
    """Yield `count` numbers up to 1 that begin and end slowly."""
    return ((k / count) ** 2 * (3 - 2 * k / count) for k in range(1, count + 1))


def _animation(frames: list[tuple[bytes, int]]) -> bytes:
    images = [Image.open(io.BytesIO(png)).convert("RGB") for png, _ in frames]
    out = io.BytesIO()
    images[0].save(
        out, "webp", save_all=True, append_images=images[1:], duration=[ms for _, ms in frames], loop=0,
        lossless=True, quality=60, method=4, minimize_size=True,
    )  # fmt: skip
    return out.getvalue()


if __name__ == "__main__":
    main()
