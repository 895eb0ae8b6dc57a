"""The pictures of the README: drawn, measured and filmed on this machine; `make figures` runs this file.

``overlap`` is simulated, ``ladder`` is the scoreboard of all rungs, and ``timeline`` is a saved page in a real browser:
it is opened, zoomed into, and asked why the accelerator is idle. The alternative texts in the README get the numbers.

Each picture is drawn twice, in both themes: on a wide page, whose words would shrink to a third on a telephone, and on
a narrow one, whose words keep their size there.
"""

from __future__ import annotations

import html
import io
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from PIL import Image

import labkit
from labcourse import ladder
from labcourse.ideas import Sketch, color_of, idea, sketch
from labkit.common.environment import cores
from labkit.common.files import write_aside
from labkit.common.palette import THEMES, Theme, text_on
from labkit.recording import accelerators
from labkit.sources import photos
from labkit.timeline.timeline import Timeline
from labkit.views import ladder_chart
from labkit.views.figure_page import LINE, MARGIN, SMALL, FigurePage, Words, measure, wrap
from labkit.views.picture import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.append(str(ROOT / "tests" / "support"))

from browser import CHROMIUM, QUIET_FLAGS  # noqa: E402 - the browser of the tests
from timeline_page import GAP  # noqa: E402

#: By the ending of a film's name: how many CSS pixels it is wide, and the bytes that it may have. GitHub shows a README
#: in a column of 308 pixels or more on a telephone of 390.
FILMS = {"": (900, 1_500_000), ".narrow": (308, 700_000)}

#: Image pixels for each CSS pixel of a film, and milliseconds of a frame that moves.
DENSITY, FRAME = 2, 70

#: Inches: a narrow page, which is as wide as a narrow film, a line of words in a block on it, and between two rows.
NARROW, WORDS, SPACE = 3.2, 0.15, 0.1

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

#: The length of the axis, and the part of it that holds a gap of the first run and a little of the steps beside it.
AROUND = """(number) => { const { span, layout } = document.querySelector('.labkit-timeline').timeline;
  const { start: { [number]: start }, end: { [number]: end } } = layout.runs[0].gap;
  return [span, start - 0.25 * (end - start), end + 0.35 * (end - start)]; }"""

#: Selects a gap of the first run, or nothing, and returns how many pixels the timeline is tall then.
SELECT = """(number) => { const root = document.querySelector('.labkit-timeline'), view = root.timeline;
  if (number === null) view.select(null); else view.selectGap(0, number);
  view.redraw();
  return Math.ceil(root.getBoundingClientRect().bottom); }"""

#: How many pixels a gap of the first run is wide.
WIDE = """(number) => { const view = document.querySelector('.labkit-timeline').timeline, { gap } = view.layout.runs[0];
  return view.x(gap.end[number]) - view.x(gap.start[number]); }"""

#: The gap that is asked about, and how much of its length beside its middle the mouse stops: the words stay readable.
ASKED, BESIDE = 2, 0.46


def main() -> None:
    """Write all pictures beside this file, and their numbers into the README."""
    labkit.setup()
    album, h100 = photos.load(), accelerators.modelled("H100")
    board = ladder.scoreboard(album, h100)
    print(board)
    drawn = {"overlap": idea("02")}
    title = f"From naive to best: each technique of the course, measured on {cores()} cores with a modelled H100"
    lines = {name: Timeline(trace) for name, trace in ladder.traces(board, album, h100).items()}
    drawn["ladder"] = ladder_chart.draw(lines, title=title)
    words = {name: picture.alt for name, picture in drawn.items()}
    drawn["overlap.narrow"] = narrow_idea(sketch("02"))
    rungs = {name: (line.busy, line.images_per_s) for name, line in lines.items()}
    drawn["ladder.narrow"] = narrow_ladder(rungs, title)
    for name, picture in drawn.items():
        for theme in THEMES:
            picture.save(DOCS / f"{name}.{theme}.svg", theme)
    words["timeline"] = film(Timeline(labkit.record(ladder.RUNGS[0].build(album), h100, steps=8)))
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    for name, alt in words.items():
        text = re.sub(rf'(src="docs/{name}\.light\.\w+" alt=")[^"]*', lambda m, alt=alt: m[1] + html.escape(alt), text)
    write_aside(readme, text)
    for path in sorted(DOCS.glob("*.*.[sw]*")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:,.0f} kB")


class Block(NamedTuple):
    """A block of a row: where it begins and ends, from 0 to 1, its words and its colour."""

    begin: float
    end: float
    words: str
    color: str


def narrow_idea(found: Sketch) -> Picture:
    """Return the drawing of an idea on a narrow page."""

    def draw(look: Theme) -> Figure:
        whole = max(b.start + b.length for _, lanes in found.groups for lane in lanes.values() for b in lane)
        rows = [
            ([caption] * (k == 0), name, [
                Block(b.start / whole, (b.start + b.length) / whole, b.words, color_of(b, look)) for b in blocks
            ])
            for caption, lanes in found.groups
            for k, (name, blocks) in enumerate(lanes.items())
        ]  # fmt: skip
        return _narrow(look, found.title, found.note, rows)

    return Picture(draw, found.title, found.title, found.text())


def narrow_ladder(rungs: dict[str, tuple[float, float]], title: str) -> Picture:
    """Return the busy share of every rung on a narrow page, from its busy share and its images per second."""

    def draw(look: Theme) -> Figure:
        rows = [
            ([], f"{name}\n{rate:,.0f} images/s", [
                Block(0, busy, f"{busy:.0%}", look.fill["train"]), Block(busy, 1, f"{1 - busy:.0%} idle", look.gap)
            ])
            for name, (busy, rate) in rungs.items()
        ]  # fmt: skip
        return _narrow(look, title, "blue: the accelerator trains; red: it is idle", rows)

    text = "\n".join(f"{name}: {busy:.0%} busy, {rate:,.0f} images/s" for name, (busy, rate) in rungs.items())
    return Picture(draw, title, title, text)


def _narrow(look: Theme, title: str, note: str, rows: Sequence[tuple[list[str], str, list[Block]]]) -> Figure:
    """Draw rows of blocks: above each of them its captions in bold, then its name; words take as many lines as needed.

    What follows a line break in a name stands at the right.
    """
    from matplotlib.patches import Rectangle

    head = [Words(title, 11, weight="bold", most=None), Words(note, SMALL, "muted", most=None)]
    span = NARROW - 2 * MARGIN
    above = [[line for caption in captions for line in wrap(caption, span, SMALL, "bold")] for captions, _, _ in rows]
    inside = [[_inside(b.words, span * (b.end - b.begin)) for b in blocks] for _, _, blocks in rows]
    tall = WORDS * max(len(lines) for row in inside for lines in row) + 0.1
    below = sum(SPACE * bool(lines) + LINE * (len(lines) + 1) + tall + SPACE for lines in above) + SPACE
    page = FigurePage(look, head, below, NARROW)
    y = page.top
    for (_, name, blocks), captions, words in zip(rows, above, inside, strict=True):
        y += SPACE * bool(captions)
        for line in captions:
            page.write(MARGIN, y + LINE / 2, line, SMALL, weight="bold")
            y += LINE
        left, _, right = name.partition("\n")
        page.write(MARGIN, y + LINE / 2, left, SMALL)
        page.write(NARROW - MARGIN, y + LINE / 2, right, SMALL, look.muted, ha="right")
        y += LINE
        for (begin, end, _, color), lines in zip(blocks, words, strict=True):
            place = (MARGIN + span * begin) / NARROW, 1 - (y + tall) / page.height
            size = span * (end - begin) / NARROW, tall / page.height
            page.figure.add_artist(Rectangle(place, *size, facecolor=color, edgecolor=look.background))
            for k, line in enumerate(lines):
                middle = y + tall / 2 + WORDS * (k - (len(lines) - 1) / 2)
                page.write(MARGIN + span * (begin + end) / 2, middle, line, SMALL, text_on(color), ha="center")
        y += tall + SPACE
    return page.figure


def _inside(words: str, width: float) -> list[str]:
    """Return the lines of the words in a block; none where one of them is wider than the block."""
    lines = wrap(words, width - 0.05, SMALL)
    return lines if max(measure(line, SMALL) for line in lines) < width else []


def film(timeline: Timeline) -> str:
    """Write the animations, wide and narrow, light and dark, and return what they show, in words."""
    from playwright.sync_api import sync_playwright

    said = ""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = labkit.save(timeline, Path(folder) / "naive.html", title="A naive pipeline")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET_FLAGS)
        for ending, (width, most) in FILMS.items():
            for theme in THEMES:
                size = {"width": width, "height": 900}
                page = browser.new_page(viewport=size, device_scale_factor=DENSITY, color_scheme=theme)
                page.goto(path.as_uri())
                frames = list(_frames(page, width))
                said = page.locator(".lt-detail").inner_text()
                page.close()
                data = _animation(frames)
                if len(data) > most:
                    raise ValueError(f"the animation{ending} has {len(data):,} bytes; allowed: {most:,}")
                write_aside(DOCS / f"timeline{ending}.{theme}.webp", data)
        browser.close()
    return f"A timeline is zoomed into. A click on a gap of the accelerator says: {' '.join(said.splitlines()[:2])}"


def _frames(page: object, width: int) -> Iterator[tuple[bytes, int]]:
    """Yield screenshots and how many milliseconds each is shown: all, zoom, the way to a gap, and its cause."""
    page.wait_for_function(GAP, arg=["body", ASKED])
    page.evaluate(CURSOR)
    page.add_style_tag(content="h1, main > details { display: none } body { margin: 0; padding: 0 }")
    span, first, last = page.evaluate(AROUND, ASKED)
    # As tall as the words about the gap need it, before and after the zoom.
    height = page.evaluate(SELECT, ASKED)
    page.evaluate(SHOW, [first, last])
    height = max(height, page.evaluate(SELECT, ASKED))
    page.evaluate(SELECT, None)
    page.evaluate(SHOW, [0, span])
    page.set_viewport_size({"width": width, "height": height})
    x, y = 0.6 * width, 0.9 * height
    page.mouse.move(x, y)
    yield page.screenshot(), 1400
    for eased in _ease(12):
        page.evaluate(SHOW, [eased * first, span + eased * (last - span)])
        yield page.screenshot(), FRAME
    yield page.screenshot(), 700
    there = page.evaluate(GAP, ["body", ASKED])
    there[0] += BESIDE * page.evaluate(WIDE, ASKED)
    for eased in _ease(10):
        page.mouse.move(x + eased * (there[0] - x), y + eased * (there[1] - y))
        yield page.screenshot(), FRAME
    page.mouse.click(*there)
    page.evaluate(SHOW, [first, last])
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
