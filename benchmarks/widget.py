"""How soon the interactive timeline is on the screen, and how smoothly it zooms, beside ipympl and plotly.

    python benchmarks/widget.py

A real JupyterLab in a real Chromium, without a GPU. First paint counts from the execution of the cell, with everything
that Python does (lanes, gaps and their causes, level of detail, the static picture), to the frame after the first
drawing. A redraw is one step of a scripted sequence of zooming and panning: the script sets the part of the axis,
draws, and reads one pixel back, which makes Chromium finish the drawing that it would otherwise put off until
the frame. ``header_px`` are the CSS pixels from the top of a timeline to its first lane.

ipympl and plotly draw the same spans as bars and lines, with less on them: no gaps, no causes. Their redraw is what
their users wait for, too: the kernel sets the axis, the page shows it. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
NOW = 1_800_000_000_000_000_000
OPS = (("ReadFile", "read", 0.1), ("DecodeJpeg", "decode", 1.6), ("ResizeBilinear", "resize", 0.4), ("Mul", "map", 0.5))
THREADS, IMAGES = 8, 32


def spans(count: int, seed: int = 0) -> Any:
    """Return a trace of about `count` spans: eight workers at photos, and a consumer that waits and trains."""
    from labkit.timeline.run import Run
    from labkit.timeline.trace import CATEGORIES, Thread, Trace

    rng = np.random.default_rng(seed)
    images = count // (THREADS * (len(OPS) + 1))
    columns: list[tuple[np.ndarray, ...]] = []
    ends = []
    for thread in range(THREADS):
        length = rng.lognormal(np.log([ms for _, _, ms in OPS]), 0.3, (images, len(OPS))) * 1e6
        length = length.astype(np.int64)
        flat = np.r_[0, np.cumsum(length.ravel() + 2_000)]
        start = flat[:-1].reshape(length.shape)
        whole = (start[:, 0], start[:, -1] + length[:, -1] - start[:, 0])
        ends.append(np.sort(whole[0] + whole[1]))
        for k, (_, category, _) in enumerate(OPS):
            columns.append((start[:, k], length[:, k], k, thread + 1, CATEGORIES.index(category), -1))
        columns.append((*whole, len(OPS), thread + 1, CATEGORIES.index("iterator"), -1))
    ready = np.sort(np.concatenate(ends))[IMAGES - 1 :: IMAGES]
    train = np.int64(IMAGES / THREADS * 1.2e6)
    begun = np.maximum.accumulate(ready)
    begun = np.maximum(begun, np.r_[0, begun[:-1] + train])
    step = np.arange(len(begun))
    free = np.r_[0, begun[:-1] + train]
    columns.append((free, np.maximum(begun - free, 0), len(OPS) + 1, 0, CATEGORIES.index("wait"), step))
    columns.append((begun, np.full(len(begun), train), len(OPS) + 2, 0, CATEGORIES.index("train"), step))

    def column(place: int, dtype: type) -> np.ndarray:
        return np.concatenate([np.broadcast_to(c[place], len(c[0])) for c in columns]).astype(dtype)

    return Trace(
        start_ns=column(0, np.int64) + NOW,
        duration_ns=column(1, np.int64),
        name=column(2, np.int32),
        thread=column(3, np.int32),
        category=column(4, np.int8),
        step=column(5, np.int32),
        names=(*(name for name, _, _ in OPS), "Iterator::Root::ParallelMapV2", "wait for batch", "train step"),
        threads=(Thread("consumer", "consumer"), *(Thread(f"tf.data worker {k + 1}", "pipeline") for k in range(8))),
        run=Run("modelled", f"{count:,} spans", batch_size=IMAGES),
    )


CELLS = {
    "prepare": f"""import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "benchmarks")!r}]
import labkit, numpy as np
from labkit.timeline.trace import CATEGORIES
from widget import spans
small, large = spans(100_000), spans(1_000_000)
print(len(small), len(large))
labkit.show(spans(500))""",
    "labkit 100k": "labkit.show(small)",
    "labkit 1M": "labkit.show(large)",
    "ipympl": """%matplotlib widget
import matplotlib.pyplot as plt
fig, ax = plt.subplots(figsize=(10, 4))
for c in np.unique(small.category):
    for t in range(len(small.threads)):
        rows = (small.category == c) & (small.thread == t)
        bars = np.c_[small.start_ns[rows] - small.start_ns[0], small.duration_ns[rows]] / 1e6
        ax.broken_barh(bars, (t, 0.8), color=f"C{c}")
ax.autoscale()
plt.show()""",
    "plotly": """import plotly.graph_objects as go
figure = go.FigureWidget()
for c in np.unique(small.category):
    rows = small.category == c
    a, b = (small.start_ns[rows] - small.start_ns[0]) / 1e6, (small.end_ns[rows] - small.start_ns[0]) / 1e6
    x = np.c_[a, b, np.full(len(a), np.nan)].ravel()
    y = np.repeat(small.thread[rows], 3).astype(float)
    figure.add_trace(go.Scattergl(x=x, y=y, mode="lines", name=CATEGORIES[c], line={"width": 8}))
figure""",
    "ipympl redraw": "ax.set_xlim(*AXIS); fig.canvas.draw_idle()",
    "plotly redraw": "figure.layout.xaxis.range = AXIS",
}

#: Run one cell; return the seconds until what it shows is there and one more frame has passed, null at the limit.
FIRST_PAINT = """async ([index, selector, limit_s]) => {
  const panel = window.jupyterapp.shell.currentWidget, cell = panel.content.widgets[index];
  const frame = () => new Promise(requestAnimationFrame);
  panel.content.activeCellIndex = index;
  panel.content.deselectAll();
  cell.model.outputs.clear();
  await panel.content.scrollToItem?.(index, 'start');
  await frame(); await frame();
  const inked = (c) => { if (!c.width) return false;
    const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    for (let i = 0; i < d.length; i += 64) if (d[i + 3] && d[i] + d[i + 1] + d[i + 2] < 600) return true;
    return false; };
  const began = performance.now();
  window.jupyterapp.commands.execute('notebook:run-cell');
  while (performance.now() - began < limit_s * 1e3) {
    await frame();
    const found = cell.node.querySelector(selector);
    if (found && (found.tagName !== 'CANVAS' || inked(found))) {
      await frame();
      return (performance.now() - began) / 1e3;
    }
    const failed = cell.model.outputs.toJSON().find(o => o.output_type === 'error');
    if (failed) throw new Error(failed.evalue);
  }
  return null; }"""

#: Zoom in to a thousandth, pan there, zoom out again, pan; return the milliseconds of each drawing.
REDRAW = """([index, count]) => {
  const cell = window.jupyterapp.shell.currentWidget.content.widgets[index];
  const view = cell.node.querySelector('.labkit-timeline').timeline, span = view.span, times = [];
  const pen = view.canvas.getContext('2d');
  for (let i = 0; i < count; i++) {
    const phase = i / count, deep = Math.sin(Math.PI * phase) ** 2, size = span * Math.pow(1e-3, deep);
    const first = (span - size) * (0.5 + 0.5 * Math.sin(7 * phase));
    const began = performance.now();
    view.show(first, first + size);
    view.redraw();
    pen.getImageData(0, 0, 1, 1);
    times.push(performance.now() - began);
  }
  view.all();
  return times; }"""

#: CSS pixels from the top of a timeline to its first lane.
HEADER = """(index) => {
  const cell = window.jupyterapp.shell.currentWidget.content.widgets[index];
  const { root, canvas, plan } = cell.node.querySelector('.labkit-timeline').timeline;
  return canvas.getBoundingClientRect().top - root.getBoundingClientRect().top + plan.items[0].y; }"""

#: Run the cell that sets the axis; return the milliseconds until the page shows it.
ROUND_TRIP = """async ([index, shown, selector, code, limit_s]) => {
  const panel = window.jupyterapp.shell.currentWidget, node = panel.content.widgets[shown].node;
  const frame = () => new Promise(requestAnimationFrame);
  const state = () => { const e = node.querySelector(selector);
    if (e.tagName !== 'CANVAS') return e.closest('.js-plotly-plot').querySelector('.xaxislayer-above').textContent;
    const d = e.getContext('2d').getImageData(0, 0, e.width, e.height).data; let h = 0;
    for (let i = 0; i < d.length; i += 28) h = (h * 31 + d[i]) | 0;
    return h; };
  panel.content.widgets[index].model.sharedModel.setSource(code);
  panel.content.activeCellIndex = index;
  await frame(); await frame();
  const before = state(), began = performance.now();
  window.jupyterapp.commands.execute('notebook:run-cell');
  while (performance.now() - began < limit_s * 1e3) {
    await frame();
    if (state() !== before) return performance.now() - began;
  }
  return null; }"""

SELECTORS = {
    "labkit": ".labkit-timeline[data-painted] canvas.lt-lanes",
    "ipympl": ".jupyter-matplotlib-canvas-div canvas, .jupyter-matplotlib-canvas-container canvas",
    "plotly": ".js-plotly-plot .xtick",
}


def others(page: Any, index: dict[str, int], name: str, span_ms: float, limit_s: float) -> tuple[Any, list[float]]:
    """Return first paint in seconds, None if it took longer, and redraws in milliseconds."""
    first = page.evaluate(FIRST_PAINT, [index[name], SELECTORS[name], limit_s])
    times = []
    for k in range(6 if first is not None else 0):
        low = span_ms * 0.1 * k
        code = CELLS[f"{name} redraw"].replace("AXIS", f"({low}, {low + span_ms * 0.3})")
        took = page.evaluate(ROUND_TRIP, [index[f"{name} redraw"], index[name], SELECTORS[name], code, limit_s])
        if took is None:
            break
        times.append(took)
    return first, times


def main() -> None:
    """Print a table and one line of JSON."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--rounds", type=int, default=3, help="first paints of each size")
    words.add_argument("--redraws", type=int, default=120, help="steps of the zoom and pan sequence")
    words.add_argument("--limit", type=float, default=60, help="seconds given to each of the others")
    given = words.parse_args()
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    import nbformat
    from browser import CHROMIUM, QUIET_FLAGS, Lab
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        raise SystemExit("no Chromium here: apt install chromium")
    index = {name: k for k, name in enumerate(CELLS)}
    rows: dict[str, tuple[Any, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        home = Path(folder)
        cells = [nbformat.v4.new_code_cell(text) for text in CELLS.values()]
        kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), home / "bench.ipynb")
        lab = Lab(home, [])
        try:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET_FLAGS)
            page, _ = lab.open(browser, "bench.ipynb", height=1000)
            idle = "window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"
            page.wait_for_function(idle, timeout=60_000)
            # The kernel has imported labkit and shown a small timeline: a reader has done as much before.
            page.evaluate(FIRST_PAINT, [index["prepare"], SELECTORS["labkit"], 60])
            for name in ("labkit 100k", "labkit 1M"):
                firsts, times = [], []
                for _ in range(given.rounds):
                    firsts.append(page.evaluate(FIRST_PAINT, [index[name], SELECTORS["labkit"], 60]))
                    times += page.evaluate(REDRAW, [index[name], given.redraws])
                    header_px = page.evaluate(HEADER, index[name])
                rows[name] = (None if None in firsts else statistics.median(firsts), times)
                page.evaluate(
                    "k => window.jupyterapp.shell.currentWidget.content.widgets[k].model.outputs.clear()", index[name]
                )
            span_ms = spans(100_000).span_ns / 1e6
            for name in ("ipympl", "plotly"):
                try:
                    rows[name] = others(page, index, name, span_ms, given.limit)
                except Exception as error:  # the others may fail, the figures of the lab stand
                    print(f"{name}: {str(error).splitlines()[0]}")
                    rows[name] = (None, [])
                page.evaluate(
                    "k => window.jupyterapp.shell.currentWidget.content.widgets[k].model.outputs.clear()", index[name]
                )
            browser.close()
        finally:
            lab.stop()

    heads = ("first paint s", "redraw ms", "p95", "longest", "redraws")
    print(f"{'100k spans, or 1M':<20}" + "".join(f"{head:>15}" for head in heads))
    for name, (first, times) in rows.items():
        cells_ = ["> limit" if first is None else f"{first:.2f}"]
        cells_ += (
            [f"{x:.1f}" for x in (statistics.median(times), np.percentile(times, 95), max(times))]
            if times
            else 3 * ["-"]
        )
        print(f"{name:<20}" + "".join(f"{cell:>15}" for cell in (*cells_, str(len(times)))))

    def figure(value: float | None, digits: int) -> float | None:
        return None if value is None else round(value, digits)

    small, large = rows["labkit 100k"], rows["labkit 1M"]
    figures = {
        "first_paint_100k_s": figure(small[0], 2),
        "first_paint_1m_s": figure(large[0], 2),
        "redraw_100k_median_ms": round(statistics.median(small[1]), 2),
        "redraw_100k_p95_ms": round(float(np.percentile(small[1], 95)), 2),
        "redraw_1m_median_ms": round(statistics.median(large[1]), 2),
        "redraw_1m_p95_ms": round(float(np.percentile(large[1], 95)), 2),
        "header_px": round(header_px),
        "js_lines": len((ROOT / "labkit" / "views" / "timeline.js").read_text(encoding="utf-8").splitlines()),
    }
    for name in ("ipympl", "plotly"):
        first, times = rows[name]
        figures[f"{name}_first_paint_100k_s"] = figure(first, 1)
        figures[f"{name}_redraw_100k_median_ms"] = figure(statistics.median(times) if times else None, 0)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
