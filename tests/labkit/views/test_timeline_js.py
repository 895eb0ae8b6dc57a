"""The page's half of the timeline, in a real Chromium: it draws what Python computed, and needs nobody else."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from browser import settle
from PIL import Image
from playwright.sync_api import TimeoutError
from timeline_page import encoded, labelled, show_in
from traces import MS, circuit, crossing, crowd, job, noisy_job, partly_filled

import labkit
from labkit.common.palette import THEMES, contrast
from labkit.timeline import perfetto
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Span, Thread, Trace
from labkit.views.layout import LAYERS, TimelineLayout, texts
from labkit.views.layout.rows import MODES

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def tab(chromium):
    page = chromium.new_page(viewport={"width": 1100, "height": 900}, color_scheme="light")
    page.errors, page.asked = [], []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("request", lambda r: page.asked.append(r.url) if not r.url.startswith(("blob:", "data:")) else None)
    yield page
    assert page.errors == []
    assert page.asked == [], "the module asks for nothing"
    page.close()


@pytest.fixture
def show(tab):
    """Return a function that shows timelines in the page and returns the page."""

    def shown(*timelines, theme="light", **look):
        tab.evaluate("window.done?.()")
        tab.emulate_media(color_scheme=theme)
        tab.set_viewport_size({"width": 1100, "height": 900})
        show_in(tab, *timelines, **look)
        return tab

    return shown


def window(page):
    return page.evaluate("[view.first, view.last]")


def place(page, lane, ns, run=0):
    """Return where in the page a time of the lowest row of a lane, or of the band, lies."""
    x, y = page.evaluate(
        """([lane, t, run]) => { const p = view.plan.items.find((q) => q.run === run && q.name === lane);
          const b = view.canvas.getBoundingClientRect(), { y, h } = p.lane.rows.at(-1) ?? { y: 0, h: p.h };
          return [b.left + view.x(t), b.top + p.y - view.scroll + y + h / 2]; }""",
        [lane, ns, run],
    )
    return x, y


def shares(page, item, theme="light"):
    """Return which share of the pixels of a row has the colour, or the tint, of each layer, by its words."""
    look = texts.colours(theme)
    fills = {
        layer.label: look["fill" if layer.look in ("filled", "idle") else "tint"][k] for k, layer in enumerate(LAYERS)
    }
    fills = {words: [int(fill[i : i + 2], 16) for i in (1, 3, 5)] for words, fill in fills.items()}
    return page.evaluate(
        """([fills, item]) => { const p = view.plan.items.find(eval(item)), r = devicePixelRatio;
          const left = Math.ceil(view.left), width = Math.floor(view.right) - left, found = {};
          const pen = view.canvas.getContext('2d');
          const d = pen.getImageData(left * r, (p.y - view.scroll) * r, width * r, p.h * r).data;
          for (const [name, fill] of Object.entries(fills)) {
            let count = 0; // edges between two colours are blended, and count for neither
            for (let i = 0; i < d.length; i += 4)
              count += Math.abs(d[i] - fill[0]) + Math.abs(d[i + 1] - fill[1]) + Math.abs(d[i + 2] - fill[2]) < 12;
            found[name] = 4 * count / d.length; }
          return found; }""",
        [fills, item],
    )


def detail(page):
    return page.locator(".lt-detail").inner_text()


# -- what is painted ------------------------------------------------------------------------------


@pytest.mark.parametrize("wide_px", [0.75, 3, 1e9])
def test_long_spans_are_drawn_singly_and_each_column_has_the_share_of_all_others_that_python_computes(show, wide_px):
    trace = crowd(20_000)
    page, timeline = show(trace), Timeline(trace)
    for width, first, last in ((700, 0, timeline.span_ns), (90, 12_345_678, 23_456_789), (1, 5, 7_000_000)):
        narrow = wide_px * (last - first) / width
        found = page.evaluate(
            """([first, last, width, narrow]) => view.layout.runs[0].lanes.map((lane) => {
              const sum = new Float64Array(width), wide = [];
              for (const s of lane.rows[0].series) {
                const found = lab.columns(s, first, last, width, narrow);
                wide.push(...found.wide.map((i) => s.start[i])); found.share.forEach((v, c) => { sum[c] += v; }); }
              return [wide.sort((a, b) => a - b), [...sum]]; })""",
            [first, last, width, narrow],
        )
        edges = np.linspace(first, last, width + 1)
        for lane, (wide, share) in zip(timeline.lanes, found, strict=True):
            long = lane.end_ns - lane.start_ns >= narrow
            seen = long & (lane.end_ns > first) & (lane.start_ns < last)
            assert wide == lane.start_ns[seen].tolist()
            start, end = lane.start_ns[~long], lane.end_ns[~long]
            if not len(start):
                assert not any(share)
                continue
            total = np.r_[0, np.cumsum(end - start)]
            k = np.searchsorted(start, edges, "right") - 1
            until = np.where(k < 0, 0, total[k] + np.minimum(edges, end[k]) - start[k])
            assert np.allclose(share, np.diff(until) / np.diff(edges), atol=1e-6)


def layer_times(timeline, lane):
    """Return the time of a lane in each layer, by its words, in nanoseconds; and the part that is filled or hollow."""
    kinds = TimelineLayout([timeline]).kinds
    found = np.zeros(len(LAYERS))
    for code, ns in zip(kinds.of(0, lane), lane.self_ns, strict=True):
        kind = kinds.table[code]
        found[kind.layer] += kind.share * ns
        found[kind.waits] += (1 - kind.share) * ns
    return {layer.label: ns for layer, ns in zip(LAYERS, found, strict=True) if ns}


def test_kinds_stand_on_each_other_and_have_their_share_of_the_pixels(show):
    trace = crowd(30_000)
    timeline = Timeline(trace)
    page, lane = show(trace), timeline.lanes[3]
    page.evaluate("view.lanes(); view.redraw()")
    found = shares(page, "(p) => p.name === 'worker 3'")
    times = layer_times(timeline, lane)
    assert len(times) == 4
    for words, ns in times.items():  # what is hollow has a line on its top
        assert ns / lane.window_ns - 0.14 < found[words] < ns / lane.window_ns + 0.02, words


def test_the_band_of_the_page_is_that_of_python(show):
    """In columns of whole nanoseconds; also where more compute than there are cores, and beside a far larger run."""
    for given in ((crowd(4000),), (noisy_job(workers=6, images=24, host={"cpus": 2}),), (job(), noisy_job(workers=9))):
        layout = TimelineLayout(given, labelled(given))
        page = show(*given)
        for first, share in ((0, 1), (777, 0.3), (4 * MS, 0.05)):
            size, end = page.evaluate(
                """([first, share]) => { const room = view.right - view.left;
                const pixel = Math.max(Math.floor(share * (view.span - first) / room), 1);
                view.first = first; view.last = first + pixel * room; view.redraw(); return [pixel, room]; }""",
                [first, share],
            )
            width = -(-int(end) // 4)
            found = page.evaluate("view.plan.items.filter((p) => p.band).map((p) => p.threads.map((t) => [...t]))")
            assert len(found) == len(given)
            for band, (*threads, line) in zip(layout.bands, found, strict=True):
                assert not any(line), "the number of cores is no layer"
                wanted = band.threads(first, first + width * 4 * size, width)
                assert np.allclose(threads, wanted, atol=1e-6)
                assert wanted.any()


def test_what_only_waits_is_hollow_and_lanes_come_on_demand(show):
    spans = [Span("consumer", "train step", "train", i * MS, MS // 2, i) for i in range(4)]
    spans += [Span(f"reader {n}", "modelled storage", "read", 0, 4 * MS, -1) for n in range(4)]
    spans += [Span("worker", "DecodeJpeg", "decode", 0, 4 * MS, -1), Span("idle", "DecodeJpeg", "decode", 0, 9, -1)]
    page = show(Trace.from_spans(spans, {"consumer": "consumer"}, host={"cpus": 2}))
    found = shares(page, "(p) => p.band")
    assert found["waits for storage"] == pytest.approx(4 / 6, abs=0.08)
    assert found["prepare: decode"] == pytest.approx(1 / 6, abs=0.05)
    assert found["fetch"] == 0
    names, seen = "view.plan.items.map((p) => p.name)", []
    page.locator("canvas.lt-lanes").focus()
    for _ in range(4):
        page.evaluate("view.redraw()")
        seen.append(page.evaluate(names))
        page.keyboard.press("l")
    assert seen[0] == seen[3] == ["accelerator", "threads"]
    assert seen[1] == ["accelerator", "threads", *(f"reader {n}" for n in range(4)), "worker"]
    assert set(seen[2]) - set(seen[1]) == {"idle"}
    page.keyboard.press("Escape")
    page.evaluate("view.mode = 'lanes'; view.redraw()")
    one = shares(page, "(p) => p.name === 'reader 0'")
    assert one["waits for storage"] > 0.7
    assert one["fetch"] < 0.2, "the line around it"
    assert shares(page, "(p) => p.name === 'worker'")["prepare: decode"] > 0.7


def test_no_legend_chip_is_without_a_block_in_view_and_that_of_a_hidden_layer_stays(show):
    trace = noisy_job(workers=1, host={"cpus": 2})
    page = show(trace)
    chips = """[...view.legend.children].filter((c) => !c.hidden).map((c) => c.textContent)"""
    gap = "accelerator idle: how long, for what"
    works = ["train", "prepare: decode", "prepare: resize", "prepare: other"]
    everything = [*works, "waits for storage", gap, "number of cores: 2"]
    page.evaluate("view.redraw()")
    assert page.evaluate(chips) == everything
    first = "view.show(0, 2e5); view.redraw()"
    page.evaluate(first)
    assert page.evaluate(chips) == everything[4:], "a file is read, nothing else"
    page.evaluate("view.all(); view.redraw()")
    chip = page.get_by_role("button", name="prepare: decode")
    chip.click()
    page.evaluate("view.redraw()")
    assert page.evaluate(chips) == everything
    assert shares(page, "(p) => p.band")["prepare: decode"] == 0
    page.evaluate(first)
    assert "prepare: decode" in page.evaluate(chips), "else nobody could show it again"
    chip.click()
    page.evaluate("view.redraw()")
    assert "prepare: decode" not in page.evaluate(chips)


def test_texts_never_overlap_and_stay_inside(show):
    long = job(name="a name that is much longer than any line of the page could ever hold " * 3)
    renamed = Trace(**{c: getattr(long, c) for c in Trace.DTYPES}, names=tuple(n * 9 for n in long.names),
                    threads=tuple(Thread(t.name * 12, t.kind) for t in long.threads), run=long.run)  # fmt: skip
    for timelines in ((job(),), (renamed, job(wait=1)), (crossing(),)):
        for width in (1100, 420):
            page = show(*timelines)
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function("w => innerWidth === w", arg=width)
            for mode in MODES:
                boxes = page.evaluate(
                    """(mode) => { view.mode = mode; view.redraw();
                    const holder = document.createElement('div'); holder.innerHTML = view.svg();
                    document.body.prepend(holder);
                    const svg = holder.firstChild, all = [...svg.querySelectorAll('text')].map((t) => {
                      const b = t.getBBox();
                      return [b.x, b.y + 2, b.x + b.width, b.y + b.height - 2, t.textContent]; });
                    const size = [svg.width.baseVal.value, svg.height.baseVal.value];
                    holder.remove(); return [all, size]; }""",
                    mode,
                )
                texts, (wide, high) = boxes
                assert len(texts) > 8
                for a in texts:
                    assert a[0] >= -1, a
                    assert a[2] <= wide + 1, a
                    assert a[3] <= high + 1, a
                for a, b in itertools.combinations(texts, 2):
                    apart = a[2] <= b[0] + 0.5 or b[2] <= a[0] + 0.5 or a[3] <= b[1] + 0.5 or b[3] <= a[1] + 0.5
                    assert apart, (a, b)
    page.set_viewport_size({"width": 1100, "height": 900})


#: The words through which the arrow of the selected gap runs; of the words of blocks: their ink, the last ground below
#: them, and whether it is below all of them.
ARROW = """() => { const holder = document.createElement('div'); holder.innerHTML = view.svg();
  document.body.prepend(holder);
  const found = (css) => [...holder.querySelectorAll(css)], told = (e, name) => e.getAttribute(name);
  const box = (e) => { const { x, y, width, height: high } = e.getBBox();
    return { x, y, right: x + width, low: y + high, middle: y + high / 2 }; };
  const cut = (a, b) => a.x < b.right && b.x < a.right && a.y < b.middle + 4 && a.low > b.middle - 4;
  const arrow = [found('path[stroke-width="7"]').at(-1), found('polygon').at(-1)].map(box);
  const through = found('text').filter((t) => arrow.some((a) => cut(a, box(t)))).map((t) => t.textContent);
  const all = found('rect, text').filter((e) => told(e, 'fill') !== 'none'), grounds = [];
  for (const t of found('text[font-size="11"][text-anchor="middle"]')) {
    const b = box(t), last = all.slice(0, all.indexOf(t)).findLast((e) => e.tagName === 'rect' && cut(box(e), b));
    const r = box(last), below = r.x <= b.x && r.right >= b.right && r.y <= b.middle - 4 && r.low >= b.middle + 4;
    grounds.push([t.textContent, told(t, 'fill'), told(last, 'fill'), below]); }
  holder.remove();
  return [through, grounds]; }"""


@pytest.mark.parametrize("theme", sorted(THEMES))
@pytest.mark.parametrize("share", [0.2, 0.45, 0.7, 0.95])
def test_words_of_blocks_have_one_ground_and_no_arrow_through_them(show, theme, share):
    page = show(partly_filled(share), theme=theme)
    page.evaluate("view.selectGap(0, 1)")
    for mode in MODES:
        page.evaluate("(mode) => { view.mode = mode; view.redraw(); }", mode)
        through, grounds = page.evaluate(ARROW)
        assert through == []
        assert [known for known in grounds if not known[3] or contrast(*known[1:3]) < 4.5] == []
    assert {"DecodeJpeg", "step 0"} <= {words for words, *_ in grounds}


def renamed(trace, lane="worker 1", name="tf.data in the consumer's thread"):
    """Return a trace with another name for one thread, and with TensorFlow's name for a modelled storage."""
    threads = tuple(Thread(name if t.name == lane else t.name, t.kind) for t in trace.threads)
    names = tuple("SingleElementIterator::FiniteTake::Sleep" if n == "ReadFile" else n for n in trace.names)
    columns = {c: getattr(trace, c) for c in Trace.DTYPES}
    return Trace(**columns, names=names, threads=threads, run=trace.run)


def written(page):
    """Return all texts of the picture."""
    return page.evaluate("""(() => { const holder = document.createElement('div'); holder.innerHTML = view.svg();
      return [...holder.querySelectorAll('text')].map((t) => t.textContent); })()""")


@pytest.mark.parametrize("width", [1100, 700, 420])
def test_words_are_whole_or_absent(show, width):
    trace = renamed(job(storage="modelled"))
    page = show(trace)
    page.evaluate("view.lanes()")
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function("w => innerWidth === w && view.width > w - 60", arg=width)
    known = {"…", *" ".join([*(lane.name for lane in Timeline(trace).lanes), "modelled storage"]).split()}
    for share in (1, 0.4, 0.1, 0.03):
        page.evaluate("s => { view.show(0, view.span * s); view.redraw(); }", share)
        lanes = [text for text in written(page) if text.startswith("tf.data") and "step is open" not in text]
        assert lanes
        assert all(set(text.replace("…", " … ").split()) <= known for text in lanes), lanes
        assert len(lanes) == 1
    assert "modelled storage" in written(page)


# -- a narrow page ---------------------------------------------------------------------------------


#: Pixels from the top of a timeline to its first lane, room for the names, and the rows of buttons that are seen.
HEAD = """() => { const { canvas, root, left, plan } = view;
  const [from, to] = [root, canvas].map((e) => e.getBoundingClientRect());
  const buttons = [...root.querySelectorAll('.lt-bar button')].filter((b) => b.checkVisibility());
  return [to.top - from.top + plan.items[0].y, left, new Set(buttons.map((b) => b.offsetTop)).size]; }"""


@pytest.mark.parametrize("width", [900, 390])
def test_the_first_lane_is_near_the_top_and_the_names_are_narrow(chromium, width):
    page = chromium.new_page(viewport={"width": width, "height": 900})
    long = renamed(noisy_job(workers=6, host={"cpus": 2}, name="a job with a long name for a pipeline"),
                   "tf.data worker 1", "tf.data in the consumer's thread, which has a long name")  # fmt: skip
    for timelines in ((job(host={"cpus": 2}),), (long,), (job(), job(wait=1))):
        show_in(page, *timelines, last=36 * MS)
        for mode in MODES:
            page.evaluate("(mode) => { view.mode = mode; view.redraw(); }", mode)
            top, names, rows = page.evaluate(HEAD)
            assert top <= 90
            assert names <= 140
            assert rows == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        seen = page.locator(".labkit-timeline .lt-bar button:visible").all_inner_texts()
        assert seen == ["\u2039 gap", "gap \u203a", "all", "⋯"]
        page.get_by_role("button", name="more: ").click()
        page.wait_for_function("view.root.querySelector('.lt-more').checkVisibility()")
        assert page.locator(".labkit-timeline .lt-bar button:visible").count() == 15
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


# -- moving ----------------------------------------------------------------------------------------


def test_keys_zoom_and_pan_by_known_amounts_and_never_leave_the_run(show):
    page = show(job())
    span = page.evaluate("view.span")
    page.locator(".lt-lanes").focus()
    for key, wanted in [
        ("w", (0.25, 0.75)), ("s", (0, 1)), ("+", (0.25, 0.75)), ("-", (0, 1)), ("w", (0.25, 0.75)),
        ("d", (0.35, 0.85)),
        ("a", (0.25, 0.75)), ("ArrowRight", (0.3, 0.8)), ("ArrowLeft", (0.25, 0.75)), ("W", (0.25, 0.75)), 
        ("0", (0, 1)), ("a", (0, 1)), ("s", (0, 1)),
    ]:  # fmt: skip
        page.keyboard.press(key if key != "W" else "Shift")
        assert window(page) == pytest.approx([w * span for w in wanted], abs=1), key
    for _ in range(60):
        page.keyboard.press("w")
    first, last = window(page)
    assert last - first == pytest.approx(100), "not below a tenth of a microsecond"


def test_everything_leads_back_to_the_steps_that_were_shown_first(show):
    page = show(job(), last=36 * MS)
    page.locator(".lt-lanes").focus()
    for key, wanted in (("0", 54 * MS), ("0", 36 * MS), ("w", None), ("0", 54 * MS), ("0", 36 * MS)):
        page.keyboard.press(key)
        assert wanted is None or window(page) == [0, wanted]


def test_the_help_names_every_key(show):
    page = show(job())
    told = page.evaluate("[...view.help.querySelectorAll('kbd')].flatMap((k) => [k.textContent, k.dataset.keys ?? ''])")
    keys = page.evaluate("[...view.root.querySelectorAll('[data-keys]')].flatMap((k) => k.dataset.keys.split(' '))")
    assert {"k"} < set(keys) <= set(" ".join(told).split())


def test_the_wheel_zooms_at_the_pointer_once_the_timeline_has_the_focus(show):
    page = show(job())
    page.evaluate("window.kept = []; document.onwheel = (e) => kept.push(e.defaultPrevented); 0")
    x, y = place(page, "accelerator", 20 * MS)
    page.mouse.move(x, y)
    page.mouse.wheel(0, 200)
    page.wait_for_function("scrollY === 200")  # without focus the page scrolls, all the way
    assert window(page) == [0, page.evaluate("view.span")]
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_function("scrollY === 0")
    page.locator(".lt-lanes").focus()
    page.mouse.wheel(0, -200)
    page.wait_for_function("view.last - view.first < 0.7 * view.span")
    assert page.evaluate("kept") == [False, True], "with the focus the timeline keeps the wheel to itself"
    page.evaluate("document.onwheel = null")
    assert page.evaluate("scrollY") == 0
    assert page.evaluate("x => view.timeAt(x)", x - page.evaluate("view.canvas.getBoundingClientRect().left")) == (
        pytest.approx(20 * MS, rel=1e-3)
    )


def test_dragging_moves_the_time_under_the_pointer_with_it(show):
    page = show(job())
    page.evaluate("view.show(view.span * 0.4, view.span * 0.6)")
    x, y = place(page, "accelerator", page.evaluate("view.span * 0.5"))
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 150, y, steps=4)
    page.mouse.up()
    now = place(page, "accelerator", page.evaluate("view.span * 0.5"))[0]
    assert now == pytest.approx(x - 150, abs=1)


def test_two_fingers_keep_the_times_under_them(show):
    page = show(job())
    page.evaluate("""() => { const b = view.canvas.getBoundingClientRect(), fire = (type, pointerId, x) =>
      view.canvas.dispatchEvent(new PointerEvent(type, { pointerId, clientX: b.left + x, clientY: b.top + 40 }));
      view.canvas.setPointerCapture = () => {};
      window.under = [view.timeAt(400), view.timeAt(600)];
      fire('pointerdown', 1, 400); fire('pointerdown', 2, 600);
      fire('pointermove', 1, 300); fire('pointermove', 2, 800); }""")
    assert page.evaluate("[view.timeAt(300), view.timeAt(800)]") == pytest.approx(page.evaluate("under"), rel=1e-9)


# -- keys that belong to others ------------------------------------------------------------------


def test_it_takes_its_own_keys_only(show):
    """The Lab listens first, on the document: while it looks, the mark that keeps single keys here is away."""
    page = show(job())
    page.evaluate("""window.pressed = []; document.onkeydown = (e) => pressed.push([e.key, e.defaultPrevented]);
      window.marks = []; document.addEventListener('keydown', (e) =>
      marks.push([e.key, e.target.hasAttribute('data-lm-suppress-shortcuts')]), true)""")
    page.locator(".lt-lanes").focus()
    for key in ("w", "n", "Escape", "b", "d", "x", "Enter", "Control+s", "Alt+ArrowLeft"):
        page.keyboard.press(key)
    pressed = page.evaluate("pressed.filter(([k]) => !['Control', 'Alt'].includes(k))")
    assert pressed == [["b", False], ["x", False], ["Enter", False], ["s", False], ["ArrowLeft", False]]
    assert page.evaluate("marks.filter(([k]) => 'sb'.includes(k))") == [["b", True], ["s", False]]


def test_escape_clears_step_by_step_and_then_leaves(show):
    page = show(job())
    page.locator(".lt-lanes").focus()
    page.keyboard.press("n")
    assert detail(page).startswith("Gap 1")
    page.keyboard.press("Escape")
    assert "Click a gap" in detail(page)
    assert page.evaluate("document.activeElement === view.canvas")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement !== view.canvas")


# -- pointing -------------------------------------------------------------------------------------


def test_hovering_names_the_span_its_length_thread_step_and_image(show):
    page = show(job())
    page.evaluate("view.lanes(); view.redraw()")
    page.mouse.move(*place(page, "worker 2", 9 * MS + 2 * MS))
    tip = page.locator(".lt-tip").inner_text()
    for words in (
        "DecodeJpeg",
        "2.00 ms · prepare: decode",
        "thread worker 2",
        "10.002 to 12.002 ms",
        "step 1",
        "image 3 of 12",
    ):
        assert words in tip, tip
    page.mouse.move(*place(page, "worker 2", 9 * MS + MS // 2))
    assert "1.00 ms · waits for storage" in page.locator(".lt-tip").inner_text()
    page.mouse.move(*place(page, "accelerator", 7 * MS))
    assert "step 0" in page.locator(".lt-tip").inner_text()
    page.mouse.move(5, 5)
    assert page.locator(".lt-tip").is_hidden()


def test_a_click_on_a_gap_tells_its_cause_and_outlines_what_it_waited_for(show):
    trace = job()
    page, timeline = show(trace), Timeline(trace)
    for k in (1, 4):
        gap, cause = timeline.gaps[k], timeline.causes[k]
        page.mouse.click(*place(page, "accelerator", gap.start_ns + gap.length_ns // 2))
        words = detail(page)
        assert words.startswith(f"Gap {k + 1} of {len(timeline.gaps)}: 5.00 ms")
        assert cause.text in words
        assert timeline.lanes[cause.lane].name in words
        assert page.locator("[aria-live]").text_content() == ": ".join(words.split("\n", 1))
        target = page.evaluate("(() => { const g = view.layout.runs[0].gap, k = view.selected.i; "
                               "return [g.for_start[k], g.for_end[k], g.for_lane[k]] })()")  # fmt: skip
        assert target == [cause.start_ns, cause.end_ns, cause.lane]


def test_a_timeline_without_causes_promises_none(show):
    page = show(Timeline(job(), explain=False))
    page.mouse.move(*place(page, "accelerator", 2.5 * MS))
    words = page.locator(".labkit-timeline").inner_text() + " ".join(page.evaluate("[...document.querySelectorAll("
        "'.labkit-timeline [title]')].map((e) => e.title)"))  # fmt: skip
    assert "Gap 1 of 6" in words
    assert "waited" not in words
    assert "how long, for what" not in words
    assert "click for" not in words
    assert "cause" not in words
    page.locator(".lt-lanes").focus()
    page.keyboard.press("t")
    assert "cause" not in page.locator(".lt-tables").inner_text()
    page = show(job())
    page.mouse.move(*place(page, "accelerator", 2.5 * MS))
    assert "click for the span it waited for" in page.locator(".lt-tip").inner_text()
    assert "for what" in page.locator(".lt-legend").inner_text()


def test_n_and_p_walk_through_all_gaps_and_bring_them_into_sight(show):
    page = show(job(), job(wait=2))
    page.locator(".lt-lanes").focus()
    page.keyboard.press("w")
    page.keyboard.press("w")
    seen = []
    for _ in range(13):
        page.keyboard.press("n")
        seen.append(page.evaluate("[view.selected.run, view.selected.i]"))
        a, b = page.evaluate("(() => { const g = view.layout.runs[view.selected.run].gap, k = view.selected.i; "
                             "return [g.start[k], g.start[k] + g.length[k]] })()")  # fmt: skip
        first, last = window(page)
        assert first <= a < b <= last
    assert sorted(map(tuple, seen[:12])) == [(r, k) for r in (0, 1) for k in range(6)]
    assert seen[12] == seen[0]
    page.keyboard.press("p")
    assert page.evaluate("[view.selected.run, view.selected.i]") == seen[11]


def test_n_and_p_begin_at_the_first_and_the_last_gap_in_sight_of_the_first_run(show):
    page = show(job(), job(wait=2))
    page.locator(".lt-lanes").focus()
    page.evaluate("(({ start, end }) => view.show(start[1] - 1e5, end[3] + 1e5))(view.layout.runs[0].gap)")
    for key, gap in ("n", 1), ("p", 3):
        page.keyboard.press(key)
        assert page.evaluate("[view.selected.run, view.selected.i]") == [0, gap]
        page.keyboard.press("Escape")
    page.evaluate("view.all()")
    page.keyboard.press("p")
    assert page.evaluate("[view.selected.run, view.selected.i]") == [0, 5]


def test_a_tiny_gap_is_magnified_to_a_fortieth_of_the_view(show):
    page = show(job(steps=600))
    gap, size = page.evaluate(
        """(() => { const g = view.layout.runs[0].gap; g.for_start[7] = -1; view.selectGap(0, 7);
          return [g.length[7], view.last - view.first]; })()"""
    )
    assert size == pytest.approx(40 * gap)


def test_a_lane_that_was_waited_for_is_scrolled_into_sight(show):
    page = show(job(workers=30), height=200)
    page.evaluate("view.lanes(); view.layout.runs[0].gap.for_lane[2] = 31; view.selectGap(0, 2); view.redraw()")
    y, room = page.evaluate("[view.plan.items.find((p) => p.lane.index === 31).y - view.scroll, view.lanesHeight()]")
    assert 0 <= y < room


def test_measuring_by_hand_says_how_long_and_how_idle(show):
    page = show(job())
    page.locator(".lt-lanes").focus()
    page.keyboard.press("m")
    x, y = place(page, "threads", 10 * MS)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(place(page, "threads", 28 * MS)[0], y, steps=6)
    page.mouse.up()
    a, b = page.evaluate("[view.measured.from, view.measured.to]")
    assert [a, b] == pytest.approx([10 * MS, 28 * MS], abs=0.1 * MS)
    assert detail(page).startswith("Measured: 18")
    assert "(55." in detail(page), "idle for 10 of 18 ms"
    assert "2 steps end here" in detail(page)
    page.keyboard.press("f")
    first, last = window(page)
    assert first < a < b < last < b + 3 * MS


def test_a_circuit_is_told_in_cycles(show):
    page = show(circuit())
    page.mouse.move(*place(page, "unit", 2.5 * MS))
    tip = page.locator(".lt-tip").inner_text()
    assert tip.splitlines()[:3] == ["10", "1 cycle · a value moves", "unit unit"]
    page.mouse.click(*place(page, "consumer", 3.5 * MS))
    assert "1 cycle, cycles 3 to 4" in detail(page)
    assert "blocked: valid, not ready" in page.locator("body").inner_text()
    assert not re.search(r"\d ms|accelerator", page.locator("body").inner_text())


def test_search_counts_marks_and_walks(show):
    page = show(job())
    page.locator(".lt-lanes").focus()
    page.keyboard.press("/")
    page.keyboard.type("decode")
    assert page.locator(".lt-found").inner_text() == "12 found, 24.0 ms"
    seen = set()
    for _ in range(12):
        page.keyboard.press("Enter")
        assert detail(page).startswith("DecodeJpeg")
        seen.add(tuple(page.evaluate("[view.selected.lane, view.selected.i]")))
    assert len(seen) == 12, "each once"
    page.keyboard.press("Enter")
    assert tuple(page.evaluate("[view.selected.lane, view.selected.i]")) in seen
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("x")
    assert page.locator(".lt-found").inner_text() == "none found"
    page.keyboard.press("Escape")
    assert page.evaluate("[view.matches, document.activeElement === view.canvas]") == [None, True]


def test_a_layer_can_be_hidden_and_is_then_neither_painted_nor_hit(show):
    page = show(job())
    page.evaluate("view.lanes(); view.redraw()")
    at = place(page, "worker 1", 2 * MS)
    row = "(p) => p.name === 'worker 1'"
    assert shares(page, row)["prepare: decode"] > 0.05
    page.mouse.move(*at)
    assert "DecodeJpeg" in page.locator(".lt-tip").inner_text()
    button = page.get_by_role("button", name="prepare: decode")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    page.evaluate("view.redraw()")
    assert button.get_attribute("aria-pressed") == "false"
    assert shares(page, row)["prepare: decode"] < 0.002
    assert shares(page, "(p) => p.band")["prepare: decode"] < 0.002
    page.mouse.move(*at)
    assert page.locator(".lt-tip").is_hidden()
    button.click()
    page.evaluate("view.redraw()")
    assert shares(page, row)["prepare: decode"] > 0.05


def test_hovering_the_band_says_how_many_threads_do_what(show):
    page = show(noisy_job(workers=6, images=24, host={"cpus": 2}))
    for share in (0.05, 0.5, 0.9):
        page.mouse.move(*place(page, "threads", page.evaluate("(s) => s * view.span", share)))
        if (tip := page.locator(".lt-tip")).is_visible():
            head, *lines = tip.inner_text().splitlines()
            assert head == "threads"
            assert all(re.fullmatch(r"\d\.\d (prepare: |waits for ).*", line) for line in lines), lines


def test_two_runs_share_one_axis_one_below_the_other_with_equal_rows(show):
    page = show(job(), job(wait=1, workers=5))
    assert page.evaluate("view.span") == 54 * MS
    places = page.evaluate("view.plan.items.map((p) => [p.run, p.name, p.h, p.y])")
    assert [p[0] for p in sorted(places, key=lambda p: p[3])] == [0, 0, 1, 1]
    one, other = ([p[1:3] for p in places if p[0] == run] for run in (0, 1))
    assert one == other
    assert page.evaluate("new Set(view.layout.runs.map(({ band }) => band.most)).size") == 1
    # A train step of either run lies at the same pixel for the same time.
    assert place(page, "accelerator", 10 * MS, 0)[0] == place(page, "accelerator", 10 * MS, 1)[0]


def test_two_runs_begin_with_the_same_number_of_steps_and_what_follows_them_is_pale(show):
    before, after = Timeline(job()), Timeline(job(wait=1))
    ends = [int(timeline.step_edges_ns[4]) for timeline in (before, after)]
    page = show(before, after, last=max(ends))
    assert page.evaluate("[view.first, view.last, view.compared]") == [0, max(ends), 4]
    texts = written(page)
    assert any("before · first 4 steps: 36.0 ms" in text for text in texts), texts
    assert any("after · first 4 steps: 20.0 ms" in text for text in texts), texts
    seen = """(t) => { const p = view.plan.items.find((q) => q.run === 1), d = devicePixelRatio;
      return [...view.canvas.getContext('2d').getImageData(view.x(t) * d, (p.y + 2) * d, 1, 1).data].slice(0, 3); }"""
    train = THEMES["light"].fill["train"]
    wanted = [int(train[i : i + 2], 16) for i in (1, 3, 5)]
    assert page.evaluate(seen, 19.5 * MS) == wanted
    assert min(page.evaluate(seen, 24.5 * MS)) > max(wanted), "the fifth step"
    shown = [
        text.text for text in ElementTree.fromstring(page.evaluate("view.svg()")).iter() if text.tag.endswith("text")
    ]
    assert "step 3" in shown
    assert "step 4" not in shown, "nobody could read words on what is pale"
    page.evaluate("view.all(); view.redraw()")
    assert page.evaluate(seen, 24.5 * MS) == wanted, "all of it is asked for"
    assert not any(" steps: " in text for text in written(page))
    twice = show(job(wait=14), job(), last=54 * MS)
    assert twice.evaluate("view.compared") == 3, "the other one has taken six by then"


# -- for those who cannot see it ---------------------------------------------------------------------


#: What JupyterLab says about tables of outputs.
LAB_TABLES = """.jp-RenderedHTMLCommon table { margin-left: auto } :not(.x).jp-RenderedHTMLCommon td,
  :not(.x).jp-RenderedHTMLCommon th, :not(.x).jp-RenderedHTMLCommon tr { text-align: right; padding: 9px }"""


def test_t_and_escape_close_the_tables_from_inside_and_give_the_focus_back(show):
    page = show(job())
    for opens, region, closes in (("t", "tables", "t"), ("t", "tables", "Escape"), ("?", "keys and mouse", "Escape")):
        panel = page.get_by_role("region", name=region)
        page.locator(".lt-lanes").focus()
        page.keyboard.press(opens)
        panel.focus()
        if opens == "t":
            panel.get_by_role("button", name="show gap 3").focus()
        page.keyboard.press(closes)
        assert panel.is_hidden()
        assert page.evaluate("document.activeElement === view.canvas"), (region, closes)
        assert page.locator(f"[name={'panel' if opens == 't' else 'help'}]").get_attribute("aria-expanded") == "false"


def test_a_button_of_the_timeline_that_has_the_focus_leaves_it_the_keys(show):
    page = show(job())
    page.get_by_role("button", name="next gap").click()
    first = detail(page)
    page.keyboard.press("n")
    assert detail(page) != first
    page.keyboard.press("Enter")  # which presses the button
    assert "Gap 3" in detail(page)
    page.keyboard.press("?")
    assert page.get_by_role("region", name="keys and mouse").is_visible()


def test_a_heading_takes_one_line_and_keeps_that_other_programs_were_busy(show):
    page = show(job(host={"cpus": 2, "others": 0.75}))
    for width, cause in ((1100, True), (640, False)):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        settle(page)
        heading = page.locator(".lt-words")
        assert "other programs took 1.5 of 2 cores" in heading.inner_text()
        assert ("waits mostly for" in heading.inner_text()) == cause
        assert heading.bounding_box()["height"] < 26


def test_tables_and_help_take_turns(show):
    page = show(job())
    page.locator(".lt-lanes").focus()
    for key, wanted in (("?", [True, False]), ("t", [False, True])):
        page.keyboard.press(key)
        assert page.evaluate("['help', 'panel'].map((name) => !view[name].hidden)") == wanted
    assert page.evaluate("document.activeElement === view.panel")
    page.evaluate("view.toggle('help')")
    assert page.evaluate("['help', 'panel'].map((name) => view.button(name).ariaExpanded)") == ["true", "false"]


def test_words_in_tables_stand_on_the_left_in_jupyterlab_too(show):
    page = show(job())
    page.evaluate("css => { const s = document.createElement('style'); s.textContent = css; document.body.append(s);"
                  " document.getElementById('here').className = 'jp-RenderedHTMLCommon' }", LAB_TABLES)  # fmt: skip
    page.locator(".lt-lanes").focus()
    page.keyboard.press("?")
    page.keyboard.press("t")
    sides = page.evaluate("[...document.querySelectorAll('.lt-panel :is(td, th, caption)')]"
                          ".map((cell) => getComputedStyle(cell).textAlign)")  # fmt: skip
    assert len(sides) > 50
    assert set(sides) == {"left"}


def test_an_empty_trace_shows_a_sentence(show):
    page = show(Trace.from_spans([]))
    assert "nothing was recorded" in detail(page)
    page.locator(".lt-lanes").focus()
    for key in "wsadnpfmtl.0":
        page.keyboard.press(key)
    page.keyboard.press("/")
    page.keyboard.type("x")
    page.keyboard.press("Enter")


# -- downloads ----------------------------------------------------------------------------------------


SUFFIX = {"PNG": ".png", "SVG": ".svg", "CSV": ".csv", "Perfetto": ".json"}


def download(page, kind, tmp_path):
    button = page.get_by_text(kind, exact=True)
    if not button.is_visible():
        page.get_by_role("button", name="more: ").click()

    def wanted(item):
        return item.suggested_filename.endswith(SUFFIX[kind])

    for last in (False, False, True):  # Chromium now and then swallows a download soon after that of another page
        try:
            with page.expect_download(wanted, timeout=10_000) as info:
                button.click()
            break
        except TimeoutError:
            if last:
                raise
    file = tmp_path / info.value.suggested_filename
    info.value.save_as(file)
    return file


@pytest.mark.parametrize(
    "trace",
    [job(), renamed(job(storage="modelled")), crossing(), Trace.from_spans([])],
    ids=["job", "storage of another name", "crossing", "empty"],
)
def test_csv_and_perfetto_hold_the_trace_to_the_nanosecond(show, tmp_path, trace):
    page = show(trace)
    file = download(page, "CSV", tmp_path)
    rows = list(csv.reader(io.StringIO(file.read_text(encoding="utf-8"))))
    kinds, name = dict(trace.threads), trace.run.name or ""
    wanted = [[name, trace.run.origin, s.thread, kinds[s.thread], s.name, s.category, str(s.start_ns),
               str(s.duration_ns), str(s.step)] for s in trace]  # fmt: skip
    assert sorted(rows[1:]) == sorted(wanted)
    assert [int(r[6]) for r in rows[1:]] == sorted(int(r[6]) for r in rows[1:])
    file = download(page, "Perfetto", tmp_path)
    ours = json.loads(file.read_text(encoding="utf-8"))
    assert ours["otherData"] == perfetto.about(trace)
    process, track, names = perfetto.places(trace)
    events = ours["traceEvents"]
    assert sorted(map(str, map(json.loads, names))) == sorted(str(e) for e in events if e["ph"] == "M")
    written = [
        (e["name"], e["cat"], round(1000 * e["ts"]), round(1000 * e["dur"]), e["pid"], e["tid"], e["args"])
        for e in events if e["ph"] == "X"
    ]  # fmt: skip
    zero, origin = int(trace.start_ns[0]) if len(trace) else 0, trace.run.origin
    wanted = [
        (s.name, s.category, s.start_ns - zero, s.duration_ns, pid, tid,
         {"category": s.category, "step": s.step, "origin": origin})
        for s, pid, tid in zip(trace, process.tolist(), track.tolist(), strict=True)
    ]  # fmt: skip
    assert sorted(written, key=str) == sorted(wanted, key=str)


@pytest.mark.parametrize("theme", sorted(THEMES))
def test_png_and_svg_are_pictures_of_what_is_seen_with_words(show, tmp_path, theme):
    page = show(job(host={"cpus": 2}), job(wait=1), theme=theme)
    file = download(page, "PNG", tmp_path)
    assert file.name.endswith("before-and-after.png")
    image = Image.open(file).convert("RGB")
    assert image.width >= 2 * 1000
    colours = {colour for _, colour in image.getcolors(1 << 24)}
    tint = texts.colours(theme)["tint"][[layer.label for layer in LAYERS].index("waits for storage")]
    for fill in (*(THEMES[theme].fill[c] for c in ("train", "decode", "resize")), tint):
        assert tuple(int(fill[i : i + 2], 16) for i in (1, 3, 5)) in colours
    file = download(page, "SVG", tmp_path)
    root = ElementTree.parse(file).getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title").text == "before and after"
    assert "accelerator busy 44.4 %" in root.find(f"{space}desc").text
    assert len(list(root.iter(f"{space}rect"))) > 20
    assert len(list(root.iter(f"{space}polygon"))) >= 10
    words = [t.text for t in root.iter(f"{space}text")]
    assert "modelled" in " ".join(words)
    assert {"prepare: decode", "waits for storage", "threads", "number of cores: 2"} <= set(words)
    assert "fetch" not in words, "nothing of it is seen"


# -- where it lives ------------------------------------------------------------------------------------


#: Whether all words, and the corner, the bed of the first lane and the idle time of the canvas have a theme's colours.
DRESSED = """(look) => { const { canvas, plan, root } = view, pen = canvas.getContext('2d'), r = devicePixelRatio;
  const at = (x, y) => '#' + [...pen.getImageData(x * r, y * r, 1, 1).data].slice(0, 3)
    .map((v) => v.toString(16).padStart(2, '0')).join('');
  const y = plan.items[0].y + 1, samples = [...root.querySelectorAll('.lt-legend button:not([hidden]) canvas')];
  return !view.frame && at(1, view.height - 2) === look.background && at(view.x(2.5e6) | 0, y) === look.gap
    && at(view.x(7e6) | 0, y) === look.train && getComputedStyle(root).color === look.ink && samples.length > 2; }"""


def dressed(name):
    look = THEMES[name]
    ink = f"rgb({', '.join(str(int(look.ink[i : i + 2], 16)) for i in (1, 3, 5))})"
    return {"background": look.background, "gap": look.gap, "train": look.fill["train"], "ink": ink}


def test_it_follows_the_theme_of_jupyterlab_colab_and_the_browser(show):
    page = show(job())

    def becomes(theme, change="0"):
        page.evaluate(change)
        page.wait_for_function(DRESSED, arg=dressed(theme))

    becomes("light")
    becomes("dark", "document.body.dataset.jpThemeLight = 'false'")
    becomes("light", "document.body.dataset.jpThemeLight = 'true'")
    becomes(
        "dark", "delete document.body.dataset.jpThemeLight; document.documentElement.setAttribute('theme', 'dark'); 0"
    )
    becomes("light", "document.documentElement.removeAttribute('theme')")
    page.emulate_media(color_scheme="dark")
    becomes("dark")
    page.emulate_media(color_scheme="light")
    becomes("light")


def test_of_fifty_switches_of_the_theme_each_is_followed(show):
    page = show(job())
    for number in range(50):
        theme = ("dark", "light")[number % 2]
        page.evaluate(f"document.body.dataset.jpThemeLight = '{str(theme == 'light').lower()}'")
        page.wait_for_function(DRESSED, arg=dressed(theme))
    page.evaluate("delete document.body.dataset.jpThemeLight")


def test_what_was_to_be_drawn_while_there_was_no_width_is_drawn_when_the_width_is_back(show):
    """Nobody else says that something has changed: the width was 0 for less than a frame."""
    page = show(job())
    page.wait_for_function("!view.frame")
    painted = page.evaluate("""() => { const painted = view.painted;
      view.el.style.display = 'none'; view.redraw(); view.el.style.display = ''; return painted; }""")
    page.wait_for_function("(painted) => view.painted > painted", arg=painted)


def test_the_canvas_has_the_pixels_of_the_screen_and_follows_the_width(chromium):
    page = chromium.new_page(viewport={"width": 900, "height": 700}, device_scale_factor=2)
    show_in(page, job())
    for width in (900, 600, 320):
        page.set_viewport_size({"width": width, "height": 700})
        page.wait_for_function(
            "w => innerWidth === w && Math.abs(view.canvas.width - 2 * view.canvas.clientWidth) <= 2", arg=width
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_what_was_out_of_the_page_is_drawn_again_when_it_is_back(show):
    """JupyterLab takes cells that are scrolled away out of the page; the theme may change meanwhile."""
    page = show(job())
    for theme, away in (("dark", "view.el.remove()"), ("light", "view.el.style.display = 'none'")):
        before = page.evaluate(f"""() => {{ {away};
          document.body.dataset.jpThemeLight = '{str(theme == "light").lower()}';
          return [view.canvas.width, view.painted]; }}""")
        settle(page)
        assert page.evaluate("[view.canvas.width, view.painted]") == before
        page.evaluate("document.body.prepend(view.el); view.el.style.display = ''")
        page.wait_for_function(
            "([width, painted]) => view.canvas.width === width && view.painted > painted", arg=before
        )
        assert page.evaluate("view.themeName") == theme
    page.evaluate("delete document.body.dataset.jpThemeLight")


def test_an_update_swaps_the_layout_and_keeps_the_zoom_where_it_can(show):
    page = show(job())
    swap = """text => { model.block = bytes(text);
      for (const [what, does] of listeners) if (what === 'change:block') does();
      view.redraw(); }"""

    def update(*timelines):
        page.evaluate(swap, encoded(*timelines))

    update(job(steps=12))
    assert window(page) == [0, 108 * MS], "all stays all"
    page.evaluate("view.show(10e6, 20e6)")
    update(job(steps=20), job())
    assert window(page) == [10 * MS, 20 * MS]
    assert page.evaluate("view.plan.items.some((p) => p.run === 1)")
    update(job(steps=1))
    assert window(page) == [0, 9 * MS], "nothing of it is left"


def test_cleaning_up_leaves_nothing_behind(show, tab):
    page = show(job())
    page.evaluate("""() => { done(); window.count = 0;
      for (const target of [window, document, matchMedia('(prefers-color-scheme: dark)')]) {
        const add = target.addEventListener.bind(target), remove = target.removeEventListener.bind(target);
        target.addEventListener = (...a) => { count++; add(...a); };
        target.removeEventListener = (...a) => { count--; remove(...a); };
      }
      for (let i = 0; i < 5; i++) lab.default.render({ model, el: document.getElementById('here') })(); }""")
    assert page.evaluate("[document.querySelectorAll('.labkit-timeline').length, listeners.length, count]") == [0, 0, 0]
    settle(page)  # what was planned before it went is not done, or the page would say so
    page.evaluate("window.done = null")


def test_a_page_that_was_written_anew_is_not_kept_in_memory(show):
    """No clean-up is called for a stored page: what it listens to outside itself must not hold it."""
    page = show(job())
    page.evaluate("done(); done = null; view = null")
    session = page.context.new_cdp_session(page)
    page.evaluate("""() => { const el = document.getElementById('here');
      new lab.View(el, model.block, model.get('look'));
      window.collected = false;
      window.registry = new FinalizationRegistry(() => { window.collected = true; });
      registry.register(el.querySelector('.labkit-timeline').timeline); el.replaceChildren(); }""")
    for _ in range(100):
        settle(page)
        session.send("HeapProfiler.collectGarbage")
        if page.evaluate("collected"):
            break
    assert page.evaluate("collected")


def test_a_stored_page_is_alive_with_scripts_and_a_picture_without(chromium, tmp_path):
    made = labkit.show(job(), job(wait=1))
    file = tmp_path / "page.html"
    page_text = made._repr_mimebundle_()[0]["text/html"]
    file.write_text(f"<!doctype html><meta charset=utf-8>{page_text}", encoding="utf-8")
    for scripts in (True, False):
        context = chromium.new_context(java_script_enabled=scripts)
        page, asked = context.new_page(), []
        page.on("request", lambda r, seen=asked: seen.append(r.url) if r.url.startswith("http") else None)
        page.goto(file.as_uri())
        page.wait_for_selector(".labkit-timeline[data-painted]" if scripts else "img")
        assert page.locator("img").count() == (0 if scripts else 1)
        if not scripts:
            assert page.locator("img").get_attribute("alt") == made.picture.alt
        assert asked == []
        context.close()


def test_a_page_in_the_place_of_another_keeps_the_zoom_and_one_beside_it_does_not(chromium):
    made = labkit.show(job())
    page = chromium.new_page()
    put = """([html, replace]) => { const place = document.createElement('div'); place.innerHTML = html;
      if (replace) document.body.replaceChildren(); document.body.append(place);
      const old = place.querySelector('script'), now = document.createElement('script');
      now.type = 'module'; now.textContent = old.textContent; old.replaceWith(now); return place; }"""

    def shown(replace):
        page.evaluate(put, [made._repr_mimebundle_()[0]["text/html"], replace])
        page.wait_for_selector("body > div:last-child .labkit-timeline[data-painted]")
        view = "[...document.querySelectorAll('.labkit-timeline')].at(-1).timeline"
        return page.evaluate(f"[{view}.first, {view}.last]")

    assert shown(True) == [0, 54 * MS]
    page.evaluate("document.querySelector('.labkit-timeline').timeline.show(1e7, 3e7)")
    assert shown(False) == [0, 54 * MS], "beside it"
    page.evaluate("[...document.querySelectorAll('.labkit-timeline')].at(-1).timeline.show(1e7, 2e7)")
    made.update(job(steps=9))
    assert shown(True) == [10 * MS, 20 * MS], "in its place, with other spans"
    page.close()
