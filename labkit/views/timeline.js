// The interactive timeline. It draws what labkit.views.layout computed, needs no kernel and no network, and is one plain
// ES module: anywidget calls the default export, a saved page calls mount(). Its elements, with what keys and buttons do,
// are in timeline.html. Times are nanoseconds since the start of the window, in float64, which holds each of them exactly.

const LONG = 2 ** 32 - 1; // a duration that stands in the column of long ones
const WIDE = 3; // CSS pixels from which a span is drawn as itself
const FADED = 0.22; // the opacity of spans that are not what is searched for
const AXIS = 26, NAMES = 170, RIGHT = 66, STRIP = 15; // CSS pixels: axis, names, busy shares, a strip of the overview
const MINE = "data-lm-suppress-shortcuts"; // see View.mark

const clamp = (x, low, high) => Math.max(Math.min(x, high), low);
const decoded = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

// -- the block of bytes ---------------------------------------------------------------------------------------------

export function parse(view) {
  const { buffer } = new Uint8Array(view.buffer ?? view, view.byteOffset, view.byteLength).slice(); // at a multiple of 8
  if (!buffer.byteLength) return null;
  const [length] = new Uint32Array(buffer, 0, 1);
  const layout = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  for (const [path, [type, offset, count]] of Object.entries(layout.columns)) { // "runs.0.gap.start" is a place in the layout
    const keys = path.split("."), name = keys.pop(), owner = keys.reduce((at, key) => at[key] ??= {}, layout);
    owner[name] = new globalThis[`${type[0].toUpperCase()}${type.slice(1)}Array`](buffer, 8 + length + offset, count);
  }
  const { since, far, long } = layout, n = since.length, total = new Float64Array(n + 1);
  const start = new Float64Array(n), end = new Float64Array(n);
  for (let i = 0, j = 0, k = 0; i < n; i++) {
    start[i] = since[i] === LONG ? far[j++] : (i ? start[i - 1] : 0) + since[i];
    const lasts = layout.duration[i] === LONG ? long[k++] : layout.duration[i];
    end[i] = start[i] + lasts;
    total[i + 1] = total[i] + lasts;
  }
  for (const entry of layout.legend) entry.times = entry.times.map(duration).join(" → ");
  layout.series = layout.runs.flatMap((run, r) => {
    run.index = r;
    run.gap.end = run.gap.start.map((from, k) => from + run.gap.length[k]);
    return run.lanes.flatMap((lane, k) => {
      lane.index = k;
      return lane.rows.flatMap((row) => row.series = row.series.map(([category, thread, process, track, first, count, steps]) => {
        const cut = (values, from = first, more = 0) => values.subarray(from, from + count + more);
        const columns = { start: cut(start), end: cut(end), total: cut(total, first, 1), name: cut(layout.name) };
        return { run: r, lane: k, row, category, thread, process, track, ...columns, step: steps < 0 ? null : cut(layout.step, steps) };
      }));
    });
  });
  return layout;
}

const stepOf = (series, i) => series.step?.[i] ?? -1;

// Index of the first value above t, in a rising array, from `low` on.
function above(values, t, low = 0, high = values.length) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] > t) high = middle; else low = middle + 1;
  }
  return low;
}

// The interval that is nearest to t and at most `reach` away, and how far away it is; -1 if there is none.
function nearest({ start, end }, t, reach) {
  const away = (i) => i >= 0 && i < start.length ? Math.max(start[i] - t, t - end[i], 0) : Infinity;
  const k = above(start, t), found = away(k) < away(k - 1) ? k : k - 1;
  return [away(found) <= reach ? found : -1, away(found)];
}

// The spans of a series that have one of some names, by index.
function named({ name }, wanted) {
  const found = [];
  for (let i = 0; i < name.length; i++) if (wanted.has(name[i])) found.push(i);
  return found;
}

// What to draw of a series between two times: spans that are at least `narrow` long, by index, and for every column how
// much of its time the others cover. The work grows with the columns, not with the spans, as long as few are wide.
export function columns({ start, end, total }, first, last, width, narrow) {
  const share = new Float64Array(width), wide = [], pixel = (last - first) / width, n = start.length;
  let i = above(end, first);
  while (i < n && start[i] < last) {
    const from = Math.max(start[i], first), to = Math.min(end[i], last);
    if (end[i] - start[i] >= narrow) { wide.push(i++); continue; }
    let c = Math.min(Math.floor((from - first) / pixel), width - 1), edge = first + (c + 1) * pixel, at = from;
    for (; c < width - 1 && to > edge; edge = first + (++c + 1) * pixel) { // goes on in the next column
      share[c] += edge - at;
      at = edge;
    }
    share[c] += to - at;
    i++;
    if (c === width - 1) edge = last;
    if (i === n || end[i] > edge) continue;
    let k = i, step = 1; // all that end in this column, at once; steps double until one does not
    for (; k + step < n && end[k + step] <= edge; step *= 2) k += step;
    const stop = above(end, edge, k, Math.min(k + step + 1, n)), inside = total[stop] - total[i];
    if (inside >= narrow) { // some inside one column may still be wide enough
      for (; i < stop; i++) if (end[i] - start[i] >= narrow) wide.push(i); else share[c] += end[i] - start[i];
    } else share[c] += inside;
    i = stop;
  }
  for (let c = 0; c < width; c++) share[c] /= pixel;
  return { wide, share };
}

// -- numbers as words -----------------------------------------------------------------------------------------------

const grouped = (x, digits = 0) => x.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const exactly = (ns) => (ns / 1e6).toFixed(3);
const plural = (count, word) => `${grouped(count)} ${word}${count === 1 ? "" : "s"}`;
const joined = (...words) => words.filter(Boolean).join(" · ");

export function duration(ns) {
  if (ns < 1e3) return `${grouped(ns)} ns`;
  const [x, unit] = ns < 1e6 ? [ns / 1e3, "µs"] : [ns / 1e6, "ms"];
  return `${grouped(x, x >= 999.95 ? 0 : x >= 9.995 ? 1 : 2)} ${unit}`;
}

function percent(share) {
  if (share >= 0.9995 && share < 1) return "> 99.9 %";
  return share > 0 && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`;
}

// Round numbers for an axis, about `count` of them, and the digits that they need behind the point.
function ticks(first, last, count) {
  const rough = (last - first) / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999999);
  const at = [];
  for (let k = Math.ceil(first / step - 1e-9); k * step <= last * (1 + 1e-12); k++) at.push(k * step + 0); // no -0
  return { at, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

// -- pens: the same drawing as pixels and as SVG --------------------------------------------------------------------

const FAMILY = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";
const fontOf = (size, bold) => `${bold ? "bold " : ""}${size}px ${FAMILY}`;
const ruler = document.createElement("canvas").getContext("2d");
const widths = new Map();

function textWidth(text, size, bold = false) {
  const key = `${size}${bold}${text}`;
  if (!widths.has(key)) {
    if (widths.size > 20000) widths.clear();
    ruler.font = fontOf(size, bold);
    widths.set(key, ruler.measureText(text).width);
  }
  return widths.get(key);
}

function elide(text, room, size, bold) {
  if (textWidth(text, size, bold) <= room) return text;
  let low = 0, high = text.length;
  const cut = (k) => `${text.slice(0, Math.ceil(k / 2))}…${k > 1 ? text.slice(text.length - Math.floor(k / 2)) : ""}`;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (textWidth(cut(middle), size, bold) <= room) low = middle; else high = middle;
  }
  return low ? cut(low) : "";
}

// The lines of a hatching on a tile of 8 pixels, as an SVG path; dots are short lines.
const HATCHINGS = { "/": "M-1 9L9-1M-5 5L5-5M3 13L13 3", "\\": "M-1-1L9 9M3-5L13 5M-5 3L5 13", "|": "M2 0V8M6 0V8",
  "-": "M0 2H8M0 6H8", x: "M-1-1L9 9M-1 9L9-1", ".": "M1.2 2H2.8M2 1.2V2.8M5.2 6H6.8M6 5.2V6.8" };

class CanvasPen {
  constructor(canvas, width, height, scale = window.devicePixelRatio || 1) {
    canvas.width = Math.max(Math.round(width * scale), 1);
    canvas.height = Math.max(Math.round(height * scale), 1);
    this.context = canvas.getContext("2d");
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.patterns = new Map();
  }
  rect(x, y, w, h, fill) { this.context.fillStyle = fill; this.context.fillRect(x, y, w, h); }
  shape(points, fill) {
    this.context.fillStyle = fill;
    this.context.beginPath();
    for (let k = 0; k < points.length; k += 2) this.context.lineTo(points[k], points[k + 1]);
    this.context.fill();
  }
  box(x, y, w, h, strokeStyle, lineWidth = 1) { Object.assign(this.context, { strokeStyle, lineWidth }).strokeRect(x, y, w, h); }
  hatch(x, y, w, h, mark, ink) {
    const key = mark[0] + ink;
    if (!this.patterns.has(key)) {
      const tile = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
      const context = Object.assign(tile.getContext("2d"), { strokeStyle: ink });
      context.stroke(new Path2D(HATCHINGS[mark[0]]));
      this.patterns.set(key, this.context.createPattern(tile, "repeat"));
    }
    this.rect(x, y, w, h, this.patterns.get(key));
  }
  dashed(x, y, x2, y2, strokeStyle) {
    this.context.setLineDash([4, 3]);
    Object.assign(this.context, { strokeStyle, lineWidth: 1.5 }).stroke(new Path2D(`M${x} ${y}L${x2} ${y2}`));
    this.context.setLineDash([]);
  }
  text(x, y, text, size, fill, align = "left", bold = false) {
    const font = fontOf(size, bold);
    if (this.font !== font) this.context.font = this.font = font;
    Object.assign(this.context, { fillStyle: fill, textAlign: align, textBaseline: "middle" }).fillText(text, x, y);
  }
  clip(x, y, w, h) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, w, h);
    this.context.clip();
  }
  free() { this.context.restore(); this.font = null; }
  fade(alpha) { this.context.globalAlpha = alpha; }
}

const rounded = (x) => typeof x === "number" ? Math.round(x * 100) / 100 : x;

class SvgPen {
  constructor(width, height, title, about) {
    this.opacity = 1;
    this.ids = new Map();
    const frame = { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "font-family": FAMILY };
    this.page = this.at = this.put("svg", frame);
    this.put("title", {}, title);
    this.put("desc", {}, about);
  }
  put(name, attributes, words = "", parent = this.at) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, rounded(value));
    if (this.opacity < 1 && parent === this.at) node.setAttribute("opacity", this.opacity);
    node.textContent = words.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd"); // not allowed in XML
    parent?.append(node);
    return node;
  }
  rect(x, y, width, height, fill) { this.put("rect", { x, y, width, height, fill }); }
  shape(points, fill) { this.put("polygon", { points: points.map(rounded).join(" "), fill }); }
  box(x, y, width, height, stroke, line = 1) { this.put("rect", { x, y, width, height, fill: "none", stroke, "stroke-width": line }); }
  hatch(x, y, w, h, mark, ink) {
    const key = mark[0] + ink, id = this.ids.get(key) ?? `h${this.ids.size}`;
    if (!this.ids.has(key)) {
      const pattern = this.put("pattern", { id, width: 8, height: 8, patternUnits: "userSpaceOnUse" }, "", this.page);
      this.put("path", { d: HATCHINGS[mark[0]], stroke: ink }, "", pattern);
      this.ids.set(key, id);
    }
    this.rect(x, y, w, h, `url(#${id})`);
  }
  dashed(x, y, x2, y2, stroke) {
    this.put("path", { d: `M${rounded(x)} ${rounded(y)}L${rounded(x2)} ${rounded(y2)}`, stroke, "stroke-width": 1.5, "stroke-dasharray": "4 3" });
  }
  text(x, y, text, size, fill, align = "left", bold = false) {
    const style = { "text-anchor": { left: "start", right: "end", center: "middle" }[align], "dominant-baseline": "central" };
    this.put("text", { x, y, fill, "font-size": size, "font-weight": bold ? "bold" : "normal", ...style }, text);
  }
  clip(x, y, width, height) {
    const id = `c${this.page.querySelectorAll("clipPath").length}`;
    this.put("rect", { x, y, width, height }, "", this.put("clipPath", { id }));
    this.at = this.put("g", { "clip-path": `url(#${id})` });
  }
  free() { this.at = this.at.parentNode; }
  fade(alpha) { this.opacity = alpha; }
}

// -- downloads: the spans of the window, each once ------------------------------------------------------------------

function spansOf(layout, run) {
  const exported = layout.series.filter((s) => s.run === run.index && run.lanes[s.lane].export);
  const spans = exported.flatMap((s) => Array.from(s.start, (start, i) => ({ s, start, lasts: s.end[i] - start,
    name: run.names[s.name[i]], step: stepOf(s, i), category: layout.categories[s.category].key })));
  return spans.sort((a, b) => a.start - b.start || b.lasts - a.lasts);
}

function toCsv(layout) {
  const field = (value) => /[",\r\n]/.test(value) ? `"${value.replace(/"/g, '""')}"` : value;
  const rows = layout.runs.flatMap((run) => spansOf(layout, run).map(({ s, start, lasts, name, step, category }) => [
    run.label || run.name, run.origin, ...run.threads[s.thread], name, category, BigInt(run.start_ns) + BigInt(start), lasts, step,
  ]));
  const lines = rows.map((row) => row.map(field).join(","));
  return ["run,origin,thread,kind,name,category,start_ns,duration_ns,step", ...lines, ""].join("\n");
}

// One file for all runs: a page may save but one file a click. Python names the processes and the tracks.
function toPerfetto(layout) {
  const events = layout.runs.flatMap((run) => {
    const spans = spansOf(layout, run).map(({ s, start, lasts, name, step, category }, k, all) => JSON.stringify({ ph: "X", name,
      cat: category, pid: s.process, tid: s.track, ts: (start - all[0].start) / 1e3, dur: lasts / 1e3,
      args: { category, step, origin: run.origin } }));
    return [...run.perfetto.events, ...spans];
  });
  const about = JSON.stringify(Object.assign({}, ...layout.runs.map((run) => run.perfetto.about)));
  return `{"displayTimeUnit":"ms","otherData":${about},"traceEvents":[\n${events.join(",\n")}\n]}\n`;
}

// -- painting -------------------------------------------------------------------------------------------------------

// Draw the lanes and the axis; `all` of the lanes, or those that are scrolled into sight.
function paint(view, pen, top, width, height, all = false) {
  const { colours, left, right } = view, below = top + height - AXIS, room = view.lanesHeight();
  const scroll = all ? 0 : view.scroll = Math.max(0, Math.min(view.scroll, view.places.height - room));
  pen.rect(0, top, width, height, colours.background);
  pen.clip(0, top, width, height - AXIS);
  for (const head of view.places.heads) {
    const run = view.layout.runs[head.run], y = top + head.y - scroll + head.h / 2;
    const label = elide(run.label, right - 12, 12, true), taken = textWidth(label, 12, true);
    pen.text(4, y, label, 12, colours.ink, "left", true);
    const words = elide(run.figures, right - taken - 22, 12);
    if (words.length > 3) pen.text(14 + taken, y, words, 12, colours.muted);
  }
  const visible = view.places.filter((p) => p.y - scroll + p.h > 0 && p.y - scroll < height);
  for (const p of visible) {
    const y = top + p.y - scroll, middle = y + p.h / 2, bold = p.lane.kind === "accelerator";
    pen.rect(left, y, Math.max(Math.min(view.x(p.facts.span_ns), right) - left, 0), p.h, colours.lane);
    const whose = view.mode === "overlaid" ? elide(p.facts.label, (left - 12) * 0.4, 11) : "";
    const taken = whose ? textWidth(whose, 11) + 8 : 0;
    if (whose) pen.text(left - 6, middle, whose, 11, colours.muted, "right");
    pen.text(left - 6 - taken, middle, elide(p.lane.name, left - 12 - taken, 12, bold), 12, colours.ink, "right", bold);
    if (right < width - 20) pen.text(right + 6, middle, p.lane.busy, 12, colours.ink, "left", bold);
  }
  pen.clip(left, top, right - left, height - AXIS);
  paintSteps(view, pen, top - scroll, visible);
  for (const p of visible) {
    const y = top + p.y - scroll;
    if (p.lane.kind === "accelerator") paintGaps(view, pen, p, y);
    for (const row of p.lane.rows) paintRow(view, pen, row.series, y + row.y * p.scale, row.h * p.scale);
  }
  if (view.selected) paintSelected(view, pen, top - scroll);
  pen.free();
  pen.free();
  paintAxis(view, pen, below);
  if (view.measured) paintMeasure(view, pen, top, below);
  if (!all && view.places.height > room + 1) { // a bar shows that there is more above or below
    pen.rect(width - 4, top + scroll / view.places.height * room, 3, room * room / view.places.height, colours.muted);
  }
}

function paintSteps(view, pen, top, visible) {
  for (const { index, edge } of view.layout.runs) {
    const n = edge.length, mine = visible.filter((p) => p.run === index);
    if (n < 2 || (edge[n - 1] - edge[0]) / (n - 1) < 12 * view.pixel || !mine.length) continue;
    const ends = mine.map((p) => [p.y, p.y + p.h]); // woven lanes: each run's lines in its own
    const parts = view.mode === "stacked" ? [[ends[0][0], ends[ends.length - 1][1]]] : ends;
    for (const t of edge.subarray(above(edge, view.first), above(edge, view.last))) {
      for (const [from, to] of parts) pen.rect(view.x(t) - 0.4, top + from, 0.8, to - from, view.colours.line);
    }
  }
}

function paintRow(view, pen, list, y, h) {
  const { first, last, left, pixel, matches, colours } = view, room = view.right - left;
  const shown = list.filter((s) => !view.hidden.has(s.category));
  // Where most spans are too short to be seen, columns of four pixels: single ones would be noise.
  const count = shown.reduce((sum, s) => sum + above(s.start, last) - above(s.end, first), 0);
  const size = count > room / 3 ? 4 : 1, width = Math.max(Math.ceil(room / size), 1);
  const end = first + width * size * pixel; // columns of whole pixels; the last one may lie beyond the edge
  const cut = (spans) => columns(spans, first, end, width, WIDE * pixel);
  const layers = shown.map(cut), base = new Float64Array(width), fade = matches ? FADED : 1;
  pen.fade(fade);
  shown.forEach((s, k) => {
    const match = matches?.series.get(s), before = match && base.slice(), fill = colours.fill[s.category];
    paintShare(pen, layers[k].share, base, left, size, y, h, fill);
    if (!match) return;
    pen.fade(1);
    paintShare(pen, cut(match).share, before, left, size, y, h, fill);
    pen.fade(fade);
  });
  shown.forEach((s, k) => layers[k].wide.forEach((i) => {
    const match = matches?.names[s.run].has(s.name[i]);
    if (matches) pen.fade(match ? 1 : FADED);
    paintSpan(view, pen, s, i, y, h);
    if (match) pen.box(view.x(s.start[i]) + 0.5, y + 0.5, view.x(s.end[i]) - view.x(s.start[i]) - 1, h - 1, colours.ink);
  }));
  pen.fade(1);
}

// Stack shares of columns on those in `base`: many columns beside each other as one shape, along its top and back.
function paintShare(pen, share, base, left, size, y, h, fill) {
  const n = share.length, bottom = y + h, high = (k) => Math.max(share[k] * h, 0.5);
  for (let c = 0; c < n; c++) {
    if (!share[c]) continue;
    const from = c;
    while (c < n && share[c]) c++;
    if (c - from < 3) {
      for (let k = from; k < c; k++) pen.rect(left + k * size, bottom - base[k] * h - high(k), size, high(k), fill);
      continue;
    }
    const points = [], step = (a, b, high) => points.push(left + a * size, bottom - high * h, left + b * size, bottom - high * h);
    for (let k = from; k < c; k++) step(k, k + 1, base[k] + share[k]);
    for (let k = c - 1; k >= from; k--) step(k + 1, k, base[k]);
    pen.shape(points, fill);
  }
  for (let c = 0; c < n; c++) base[c] += share[c];
}

function paintSpan(view, pen, s, i, y, h) {
  const x = Math.max(view.x(s.start[i]), view.left - 2), x2 = Math.min(view.x(s.end[i]), view.right + 2), w = x2 - x;
  const { fill, on, background, gap } = view.colours, { key, hatch } = view.layout.categories[s.category];
  if (key === "wait") {
    if (h > 8 && w >= 6) paintIdle(view, pen, x, y, w, h); else pen.rect(x, y, w, h, gap);
    return;
  }
  pen.rect(x, y, w, h, fill[s.category]);
  if (w > 4 && h > 3) pen.rect(x2 - 0.6, y, 0.6, h, background); // neighbours of one colour stay two
  if (h < 8 || w < 6) return;
  if (hatch) pen.hatch(x, y, w, h, hatch, background);
  if (h < 10 || w < 26) return;
  const step = stepOf(s, i), words = key === "train" && step >= 0 ? `step ${step}` : view.layout.runs[s.run].names[s.name[i]];
  const fits = elide(words, w - 8, 11), size = textWidth(fits, 11);
  if (fits.length < 3 && fits !== words) return;
  if (hatch) pen.rect(x + w / 2 - size / 2 - 2, y + 1, size + 4, h - 2, fill[s.category]);
  pen.text(x + w / 2, y + h / 2 + 0.5, fits, 11, on[s.category], "center");
}

// Idle time: hatched and outlined, with the first of several words that fits.
function paintIdle(view, pen, x, y, w, h, ...choices) {
  const { gap, background, ink } = view.colours;
  if (w >= 6) pen.hatch(x, y, w, h, "/", gap);
  pen.box(x + 0.5, y + 0.5, w - 1, h - 1, gap);
  const words = h > 12 && w > 30 && choices.find((choice) => textWidth(choice, 11) + 8 < w); // measuring takes its time
  if (!words) return;
  const size = textWidth(words, 11) + 6;
  pen.rect(x + w / 2 - size / 2, y + h / 2 - 7, size, 14, background);
  pen.text(x + w / 2, y + h / 2 + 0.5, words, 11, ink, "center");
}

function paintGaps(view, pen, p, y) {
  const { gap, gaps } = p.facts;
  for (let i = above(gap.end, view.first); i < gap.start.length && gap.start[i] < view.last; i++) {
    if (gap.length[i] < WIDE * view.pixel) continue;
    const x = Math.max(view.x(gap.start[i]), view.left - 3), x2 = Math.min(view.x(gap.end[i]), view.right + 3);
    const words = duration(gap.length[i]), kind = gaps.kinds[gap.kind[i]];
    paintIdle(view, pen, x, y, x2 - x, p.h, ...(kind === "unknown" ? [] : [`${words} ${kind}`]), words);
  }
}

// Outline what is selected, and for a gap the span it waited for, joined by a line.
function paintSelected(view, pen, top) {
  const { ink, background } = view.colours, { run, gap, span, from, to } = view.selected;
  const outline = (start, end, lane, row) => {
    const p = view.placeOf(run, lane), x = Math.max(view.x(start), view.left - 4), x2 = Math.min(view.x(end), view.right + 4);
    if (!p || x2 < x) return null;
    const { y, h } = row ?? { y: 0, h: p.lane.height }, high = top + p.y + y * p.scale, low = high + h * p.scale;
    for (const [ring, width] of [[background, 5], [ink, 2.5]]) pen.box(x - 1, high - 1, Math.max(x2 - x, 2) + 2, low - high + 2, ring, width);
    return { x: (x + x2) / 2, high, low };
  };
  const chosen = outline(from, to, span ? span.series.lane : 0, span?.series.row), cause = span ? null : causeOf(view.layout.runs[run], gap);
  const waited = cause && outline(cause.from, cause.to, cause.lane);
  if (chosen && waited) pen.dashed(chosen.x, chosen.low, waited.x, waited.high, ink);
}

function paintAxis(view, pen, y) {
  const { left, right, width, colours: { muted } } = view, unit = view.last - view.first < 2e4 ? 1e3 : 1e6;
  pen.rect(left, y, right - left, 1, muted);
  const { at, digits } = ticks(view.first / unit, view.last / unit, (right - left) / 85);
  let free = left - 26;
  for (const t of at) {
    const x = view.x(t * unit), words = grouped(t, digits), half = textWidth(words, 11) / 2;
    pen.rect(x - 0.5, y, 1, 4, muted);
    const where = clamp(x, half + 2, width - half - 2);
    if (where - half < free) continue;
    free = where + half + 8;
    pen.text(where, y + 12, words, 11, muted, "center");
  }
  pen.text(left - 30, y + 12, unit === 1e6 ? "ms" : "µs", 11, muted, "right");
}

function paintMeasure(view, pen, top, below) {
  const { ink, background } = view.colours, { left, right, measured } = view;
  const a = Math.max(view.x(measured.a), left), b = Math.min(view.x(measured.b), right);
  if (b < left || a > right) return;
  pen.fade(0.14);
  pen.rect(a, top, b - a, below - top, ink);
  pen.fade(1);
  for (const x of [a, b]) pen.rect(x - 0.75, top, 1.5, below - top, ink);
  const words = duration(measured.b - measured.a), size = textWidth(words, 12, true) + 8;
  const x = clamp((a + b) / 2, left + size / 2, right - size / 2);
  pen.rect(x - size / 2, below - 18, size, 16, background);
  pen.box(x - size / 2, below - 18, size, 16, ink);
  pen.text(x, below - 9.5, words, 12, ink, "center", true);
}

// The whole run: in the upper strip the accelerator's busy share per pixel, in the lower one the pipeline's, on average.
function paintOverview(view, pen, height) {
  const { colours, left, right, layout, span } = view, at = (t) => left + t / span * (right - left), from = at(view.first), to = at(view.last);
  pen.rect(0, 0, view.width, height, colours.background);
  layout.runs.forEach((run, r) => Object.entries(run.busy).forEach(([what, strip], k) => {
    const y = r * (2 * STRIP + 4) + k * (STRIP + 1), width = at(run.span_ns) - left;
    const words = layout.runs.length > 1 ? `${run.label}: ${what}` : `${what} busy`;
    pen.text(left - 6, y + STRIP / 2, elide(words, left - 12, 10), 10, colours.muted, "right");
    pen.rect(left, y, width, STRIP, colours.lane);
    const n = Math.max(Math.floor(width), 1), per = strip.length / n, sums = new Float64Array(strip.length + 1);
    const until = (t, i = Math.min(Math.floor(t), strip.length - 1)) => sums[i] + (t - i) * strip[i];
    const points = [left, y + STRIP];
    for (let i = 0; i < strip.length; i++) sums[i + 1] = sums[i] + strip[i];
    for (let c = 0; c < n; c++) {
      const high = y + STRIP * (1 - (until((c + 1) * per) - until(c * per)) / per);
      points.push(left + c, high, left + c + 1, high);
    }
    pen.shape([...points, left + n, y + STRIP], colours.fill[k ? 5 : 1]);
  }));
  pen.fade(0.55);
  pen.rect(left, 0, from - left, height - 2, colours.background);
  pen.rect(to, 0, right - to, height - 2, colours.background);
  pen.fade(1);
  pen.box(from + 0.75, 0.75, Math.max(to - from - 1.5, 2), height - 3.5, colours.ink, 1.5);
}

// The sample of a category, or of the gaps (null), in a legend.
function paintSample(view, pen, x, y, w, h, category) {
  const { fill, background } = view.colours, { key, hatch } = view.layout.categories[category] ?? { key: "wait" };
  if (key === "wait") return paintIdle(view, pen, x, y, w, h);
  if (key === "iterator") return pen.rect(x, y + h / 2 - 2, w, 4, fill[category]);
  pen.rect(x, y, w, h, fill[category]);
  if (hatch) pen.hatch(x, y, w, h, hatch, background);
}

// Title, lanes and legend as one picture, with the pen that is made for a height.
function paintSheet(view, penOf) {
  const { colours, width, layout } = view, body = view.places.height + AXIS;
  const lines = [layout.title, ...layout.runs.map((run) => run.head)], top = 10 + lines.length * 18;
  let x = 10, y = top + body + 18;
  const legend = layout.legend.filter(({ category }) => !view.hidden.has(category)).map(({ category, label, times }) => {
    const words = `${label} ${times}`, size = 40 + textWidth(words, 12);
    if (x + size > width - 10 && x > 10) [x, y] = [10, y + 20];
    x += size + 12;
    return { category, words, x: x - size - 12, y };
  });
  const height = Math.ceil(y + 16), pen = penOf(height);
  pen.rect(0, 0, width, height, colours.background);
  lines.forEach((line, k) => {
    const size = k ? 12 : 14;
    pen.text(10, 16 + k * 18, elide(line, width - 20, size, !k), size, k ? colours.muted : colours.ink, "left", !k);
  });
  paint(view, pen, top, width, body, true);
  for (const entry of legend) {
    paintSample(view, pen, entry.x, entry.y - 6, 24, 12, entry.category);
    pen.text(entry.x + 30, entry.y, entry.words, 12, colours.ink);
  }
  return pen;
}

// -- words ----------------------------------------------------------------------------------------------------------

function spanWords(layout, { series: s, i }) {
  const run = layout.runs[s.run], lane = run.lanes[s.lane].name, [thread] = run.threads[s.thread];
  const step = stepOf(s, i), during = run.number[above(run.edge, s.start[i]) - 1];
  const when = step >= 0 ? `step ${step}` : during === undefined ? "" : `during step ${during}`;
  return [
    run.names[s.name[i]],
    joined(duration(s.end[i] - s.start[i]), layout.categories[s.category].label),
    joined(`thread ${thread}`, lane !== thread && `lane ${lane}`, run.label),
    `${exactly(s.start[i])} to ${exactly(s.end[i])} ms`,
    joined(when, ordinal(layout, run, s.name[i], s.start[i])),
  ];
}

// How many spans of this name began before: one operation per image makes it the number of the image.
function ordinal(layout, run, name, t) {
  const exported = layout.series.filter((s) => s.run === run.index && run.lanes[s.lane].export);
  const starts = exported.flatMap((s) => named(s, new Set([name])).map((i) => s.start[i]));
  const all = starts.length, place = starts.filter((start) => start < t).length + 1;
  const image = run.images && Math.abs(all - run.images) <= 0.1 * run.images;
  return image ? `image ${grouped(place)} of ${grouped(all)} by order of start` : `${grouped(place)} of ${grouped(all)} of this name`;
}

// The span that a gap waited for; null where none is known.
function causeOf({ gap }, k) {
  return gap.for_start[k] < 0 ? null : { from: gap.for_start[k], to: gap.for_end[k], lane: gap.for_lane[k] };
}

function gapWords(run, k) {
  const { gap } = run, name = run.names[gap.for_name[k]], cause = causeOf(run, k);
  const head = `Gap ${grouped(k + 1)} of ${grouped(gap.start.length)}${run.label ? `, ${run.label}` : ""}: ${duration(gap.length[k])}`;
  const lines = [`${head}, ${exactly(gap.start[k])} to ${exactly(gap.end[k])} ms`];
  lines.push(run.gaps.texts[k] ?? `Mostly ${run.gaps.kinds[gap.kind[k]]}${name ? `: ${name}` : ""}.`);
  if (run.gaps.parts[k]) lines.push(`of which ${run.gaps.parts[k]}`);
  const lane = run.lanes[cause?.lane]?.name;
  if (lane) lines.push(`Waited for ${name || "span"} on ${lane}, ${exactly(cause.from)} to ${exactly(cause.to)} ms (outlined).`);
  return lines;
}

function measureWords(layout, { a, b }) {
  const lines = [`Measured: ${duration(b - a)}, ${exactly(a)} to ${exactly(b)} ms`];
  for (const { gap, edge, span_ns, label } of layout.runs) {
    let idle = 0;
    const end = Math.min(b, span_ns), steps = above(edge, b, 1) - above(edge, a, 1);
    for (let i = above(gap.end, a); i < gap.start.length && gap.start[i] < b; i++) idle += Math.min(gap.end[i], b) - Math.max(gap.start[i], a);
    const ends = `${plural(steps, "step")} end${steps === 1 ? "s" : ""} here`;
    if (end > a) lines.push(`${label ? `${label}: ` : ""}accelerator idle ${duration(idle)} (${percent(idle / (end - a))}), ${ends}`);
  }
  return lines;
}

// -- the page -------------------------------------------------------------------------------------------------------

function make(name, className = "", text = "", attributes = {}) {
  const node = Object.assign(document.createElement(name), { className, textContent: text });
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

function table(caption, heads, rows) {
  const node = make("table"), body = node.createTBody();
  node.createCaption().textContent = caption;
  node.createTHead().insertRow().append(...heads.map((words) => make("th", "", words, { scope: "col" })));
  for (const [first, ...cells] of rows) {
    const head = make("th", "", "", { scope: "row" });
    head.append(first);
    body.insertRow().append(head, ...cells.map((cell) => typeof cell === "number" ? make("td", "n", grouped(cell)) : make("td", "", cell)));
  }
  return node;
}

// Words as one bold line and others below it.
function write(node, [head, ...lines]) {
  node.replaceChildren(...(head ? [make("b", "", head)] : []), lines.join("\n"));
}

// Light or dark: what JupyterLab, Colab or VS Code says, or else the browser.
function themeOf() {
  const body = document.body?.dataset ?? {}, root = document.documentElement;
  if (body.jpThemeLight) return body.jpThemeLight === "true" ? "light" : "dark";
  const stated = root.getAttribute("theme") ?? root.dataset.theme ?? root.dataset.jpThemeLight ?? body.theme ?? body.vscodeThemeKind;
  if (stated) return /dark|false/.test(stated) ? "dark" : "light";
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export class View {
  constructor(el, data, look) {
    this.el = el;
    this.look = look;
    this.hidden = new Set();
    this.mode = "stacked";
    this.scroll = this.painted = 0;
    this.selected = null; // {run, from, to, gap} or {run, from, to, span: {series, i}}
    this.measured = null; // {a, b}
    this.matches = null;
    this.range = look.last ? { first: 0, last: look.last } : {}; // the part of the axis that is seen, if it is not all
    this.build(look.page);
    this.update(data);
  }

  // What outlives the view must not keep it: a page that is written anew calls no clean-up.
  weakly(method) {
    const view = new WeakRef(this);
    return (event) => view.deref()?.[method](event);
  }

  build(page) {
    const root = this.root = make("div", "labkit-timeline", "", { "data-jp-suppress-context-menu": "" });
    root.innerHTML = page;
    root.timeline = this;
    for (const node of root.querySelectorAll("[data-part]")) this[node.dataset.part] = node;
    for (const node of root.querySelectorAll("button")) node.title = node.getAttribute("aria-label");
    root.onclick = ({ target }) => {
      const node = target.closest("button");
      if (node) this.act(node);
    };
    this.keys = new Map([...root.querySelectorAll("[data-keys]")].flatMap((node) => node.dataset.keys.split(" ").map((key) => [key, node])));
    this.el.append(root);
    takeKeys(this);
    takePointer(this);
    takeOverview(this);
    // JupyterLab would swallow its own Ctrl+S, too, on an element that keeps single keys to itself.
    const letGo = this.weakly("letGo"), recolour = this.weakly("recolour"), browser = matchMedia("(prefers-color-scheme: dark)");
    window.addEventListener("keydown", letGo, true);
    browser.addEventListener("change", recolour);
    const observers = [new ResizeObserver(this.weakly("resize")), new IntersectionObserver(this.weakly("later"))];
    for (const observer of observers) observer.observe(root);
    const themes = new MutationObserver(recolour);
    const attributeFilter = ["data-jp-theme-light", "theme", "data-theme", "class", "data-vscode-theme-kind"];
    for (const node of [document.body, document.documentElement]) themes.observe(node, { attributes: true, attributeFilter });
    this.leave = () => {
      window.removeEventListener("keydown", letGo, true);
      browser.removeEventListener("change", recolour);
      for (const observer of [...observers, themes]) observer.disconnect();
    };
  }

  // What a button or a key does: the name of a method and its values.
  act(node) {
    const [method, ...values] = JSON.parse(node.dataset.act);
    this[method](...values);
  }

  // JupyterLab leaves single keys to what takes them itself.
  mark() {
    for (const node of this.root.querySelectorAll("button, input, .lt-lanes, .lt-panel")) node.setAttribute(MINE, "true");
  }

  button(name) { return this.root.querySelector(`[name=${name}]`); }

  letGo(event) {
    const target = event.target, inside = (node) => node instanceof Element && this.root.contains(node);
    if (!inside(target) || !(event.ctrlKey || event.metaKey || event.altKey)) return;
    if (/^(control|meta|alt)$/i.test(event.key)) return;
    for (let node = target; inside(node); node = node.parentElement) { // the Lab looks at all of them
      if (!node.hasAttribute(MINE)) continue;
      node.removeAttribute(MINE);
      setTimeout(() => node.setAttribute(MINE, "true"));
    }
  }

  destroy() {
    this.leave();
    cancelAnimationFrame(this.frame);
    this.gone = true;
    this.frame = this.layout = this.matches = this.selected = null;
    delete this.root.timeline;
    this.root.remove();
  }

  // Show another layout; the part of the axis that is seen stays, unless all of it was seen.
  update(data) {
    const layout = parse(data);
    if (!layout) return;
    this.layout = layout;
    this.span = Math.max(layout.span_ns, 1);
    [this.first, this.last] = [0, this.span];
    this.keep(this.range);
    this.selected = this.measured = null;
    if (layout.runs.length < 2) this.mode = "stacked";
    this.button("overlay").hidden = layout.runs.length < 2;
    this.title.textContent = layout.title;
    this.heads.replaceChildren(...layout.runs.map((run) => make("div", "lt-run", run.head)));
    this.arrange();
    this.legend.replaceChildren(...layout.legend.map((entry) => this.legendNode(entry)));
    if (this.search.value) this.find(this.search.value); else this.matches = null;
    if (!this.panel.hidden) this.tables();
    this.mark();
    this.describe();
    this.sentence();
    this.recolour(true);
  }

  // The part of the axis that was seen before, if it was a part and is still there.
  keep({ first, last }) {
    if (first < this.span) this.show(first, Math.min(last, this.span), true);
  }

  // Where the lanes stand, one below the other or woven.
  arrange() {
    const { items, heads, height } = this.layout.layouts[this.mode], { runs } = this.layout;
    this.places = items.map((item) => {
      const facts = runs[item.run], lane = facts.lanes[item.lane];
      return { ...item, facts, lane, h: lane.height * item.scale };
    });
    Object.assign(this.places, { heads, height });
  }

  placeOf(run, lane) { return this.places.find((p) => p.run === run && p.lane.index === lane); }

  legendNode({ category, label, times }) {
    const node = make(category === null ? "span" : "button", "lt-key"), two = this.layout.runs.length > 1 ? ", in the first and the second run" : "";
    const sample = Object.assign(make("canvas", "", "", { "aria-hidden": "true" }), { category });
    node.append(sample, make("span", "", label), make("small", "", times));
    if (category === null) return node;
    node.title = `${label}: time of its own, all threads together${two}; press to hide or show`;
    node.ariaPressed = String(!this.hidden.has(category));
    Object.assign(node.dataset, { category: this.layout.categories[category].key, act: JSON.stringify(["hide", category, label]) });
    return node;
  }

  hide(category, label) {
    const shown = this.hidden.delete(category);
    if (!shown) this.hidden.add(category);
    this.root.querySelector(`[data-category=${this.layout.categories[category].key}]`).ariaPressed = String(shown);
    this.say(`${label} ${shown ? "shown" : "hidden"}`);
    this.later();
  }

  recolour(force) {
    if (this.gone) return;
    const name = this.look.theme ?? themeOf();
    if (force !== true && name === this.themeName) return;
    this.themeName = name;
    const look = this.colours = this.layout.themes[name], { style } = this.root;
    const colours = { bg: look.background, ink: look.ink, muted: look.muted, line: look.line, bed: look.lane, focus: look.fill[1] };
    for (const [key, value] of Object.entries(colours)) style.setProperty(`--${key}`, value);
    style.colorScheme = name;
    for (const canvas of this.legend.querySelectorAll("canvas")) {
      paintSample(this, new CanvasPen(canvas, 24, 13), 0, 0, 24, 13, canvas.category);
    }
    this.later();
  }

  later() {
    if (!this.gone) this.frame ??= requestAnimationFrame(() => { this.frame = null; this.redraw(); });
  }

  resize() { this.observed = this.root.clientWidth; this.later(); } // what the observer compares the next width with

  redraw() {
    if (this.gone || !this.layout) return;
    if (!this.root.clientWidth) { // out of the page, as the cells that JupyterLab has scrolled away
      // The observer reports the return of a width only where it has observed the 0; until then, try every frame.
      if (this.observed) this.later();
      return;
    }
    this.width = Math.max(this.root.clientWidth - 16, 120);
    this.height = this.lanesHeight() + AXIS;
    this.canvas.style.height = `${this.height}px`;
    paint(this, new CanvasPen(this.canvas, this.width, this.height), 0, this.width, this.height);
    const high = this.layout.runs.length * (2 * STRIP + 4);
    this.overview.style.height = `${high}px`;
    paintOverview(this, new CanvasPen(this.overview, this.width, high), high);
    this.root.dataset.painted = ++this.painted;
  }

  lanesHeight() { return Math.min(this.places.height, Math.max((this.look.height ?? 520) - AXIS, 60)); }

  get left() { return Math.min(NAMES, Math.round(this.width * 0.26)); }
  get right() { return this.width - (this.width > 420 ? RIGHT : 8); }
  get pixel() { return (this.last - this.first) / (this.right - this.left); }
  x(t) { return this.left + (t - this.first) / this.pixel; }
  timeAt(x) { return this.first + (x - this.left) * this.pixel; }

  show(first, last, quiet = false) {
    const size = clamp(last - first, Math.min(100, this.span), this.span);
    this.first = clamp((first + last - size) / 2, 0, this.span - size);
    this.last = this.first + size;
    Object.assign(this.range, size < this.span ? { first: this.first, last: this.last } : { first: undefined });
    this.describe(quiet ? "" : `${duration(this.first)} to ${duration(this.last)}`);
    this.later();
  }

  zoom(factor, at = (this.first + this.last) / 2) {
    const now = this.last - this.first, size = clamp(now * factor, Math.min(100, this.span), this.span);
    const first = clamp(at - (at - this.first) / now * size, 0, this.span - size);
    this.show(first, first + size);
  }

  pan(share) { const by = share * (this.last - this.first); this.show(this.first + by, this.last + by); }
  all() { this.show(0, this.span); }
  scrollBy(pixels) { this.scroll += pixels; this.later(); }

  fit() {
    let { from, to } = this.selected ?? { from: 0, to: this.span };
    const cause = this.selected?.span || !this.selected ? null : causeOf(this.layout.runs[this.selected.run], this.selected.gap);
    if (this.measured) ({ a: from, b: to } = this.measured);
    else if (cause) [from, to] = [Math.min(from, cause.from), Math.max(to, cause.to)];
    const room = (to - from) * 0.05;
    this.show(from - room, to + room);
  }

  // Bring something into sight, in the middle; what takes less than a share of the view is magnified.
  reveal({ from, to }, least = 0) {
    const now = this.last - this.first, tiny = to - from < least * now;
    if (from >= this.first && to <= this.last && !tiny) return;
    const size = tiny ? 40 * (to - from) : Math.max(now, 1.3 * (to - from));
    this.show((from + to - size) / 2, (from + to + size) / 2, true);
  }

  scrollTo(run, lane) {
    const p = this.placeOf(run, lane), room = this.lanesHeight();
    if (p && (p.y < this.scroll || p.y + p.h > this.scroll + room)) this.scroll = p.y + p.h - room + 8;
  }

  overlay() {
    if (this.layout.runs.length < 2) return;
    const woven = this.mode === "stacked";
    this.mode = woven ? "overlaid" : "stacked";
    this.button("overlay").setAttribute("aria-pressed", String(woven));
    this.arrange();
    this.say(woven ? "lanes of the two runs side by side" : "one run below the other");
    this.later();
  }

  gapItem(run, gap) {
    const { start, end } = this.layout.runs[run].gap;
    return { run, gap, from: start[gap], to: end[gap] };
  }

  spanItem(series, i) { return { run: series.run, from: series.start[i], to: series.end[i], span: { series, i } }; }

  wordsOf(item) {
    return item.span ? spanWords(this.layout, item.span) : gapWords(this.layout.runs[item.run], item.gap);
  }

  // The lane under a place of the canvas, and the span or the gap of the accelerator there; null outside.
  hit(x, y) {
    if (x < 0 || x > this.width || y < 0 || y >= this.height - AXIS) return null;
    const at = y + this.scroll, place = this.places.find((p) => at >= p.y && at < p.y + p.h);
    if (!place || x < this.left || x > this.right) return place ? { place } : null;
    const t = this.timeAt(x), reach = 2 * this.pixel, inside = (at - place.y) / place.scale;
    let item = null, least = Infinity;
    const consider = (intervals, beside, itemOf) => {
      const [found, far] = nearest(intervals, t, reach - beside);
      if (found >= 0 && far + beside < least) [item, least] = [itemOf(found), far + beside];
    };
    for (const row of place.lane.rows) {
      const off = Math.max(row.y - inside, inside - row.y - row.h, 0), shown = row.series.filter((s) => !this.hidden.has(s.category));
      if (off < 1) for (const s of shown) consider(s, off && reach / 4, (i) => this.spanItem(s, i));
    }
    if (place.lane.kind === "accelerator") consider(place.facts.gap, 0, (k) => this.gapItem(place.run, k));
    return { place, item };
  }

  hover(x, y) {
    const { place, item } = this.hit(x, y) ?? {}, lane = place?.lane;
    let lines = null;
    if (item) lines = item.span ? this.wordsOf(item) : [...this.wordsOf(item).slice(0, 2), "click for the span it waited for"];
    else if (lane && x < this.left) lines = [lane.name, `${lane.busy} busy · ${plural(lane.spans, "span")}`, lane.note];
    this.canvas.style.cursor = this.measuring ? "col-resize" : item ? "pointer" : "default";
    this.tip.hidden = !lines;
    if (!lines) return;
    write(this.tip, lines.filter(Boolean));
    const { width, height } = this.root.getBoundingClientRect(), { offsetWidth, offsetHeight } = this.tip;
    const right = this.canvas.offsetLeft + x + 14, below = this.canvas.offsetTop + y + 18;
    this.tip.style.left = `${clamp(right, 4, width - offsetWidth - 4)}px`;
    this.tip.style.top = `${below + offsetHeight > height ? Math.max(below - offsetHeight - 28, 0) : below}px`;
  }

  select(item) {
    this.selected = item;
    this.sentence();
    if (item) this.say(this.detail.textContent);
    this.later();
  }

  // Select a gap, and bring it into sight with what it waited for, as far as that is not much longer than the gap.
  selectGap(run, k) {
    const item = this.gapItem(run, k), { from, to } = item, far = 10 * (to - from), cause = causeOf(this.layout.runs[run], k);
    this.reveal(item, 1 / 400);
    if (cause) {
      const first = Math.max(cause.from, from - far), last = Math.min(cause.to, to + far), room = 0.03 * (this.last - this.first);
      if (first < this.first) this.show(first - room, this.last, true);
      if (last > this.last) this.show(this.first, last + room, true);
      this.scrollTo(run, cause.lane);
    }
    this.select(item);
  }

  // The one after or before what is selected, or else the one at `start`; around at both ends.
  follow(list, way, start) {
    const s = this.selected, same = (item) => item.from === s?.from && item.run === s.run && item.gap === s.gap
      && item.span?.series === s.span?.series && item.span?.i === s.span?.i;
    const now = list.findIndex(same);
    return list.at((now >= 0 ? now + way : start) % list.length);
  }

  nextGap(way) {
    const gaps = this.layout.runs.flatMap((run, r) => Array.from(run.gap.start, (_, k) => this.gapItem(r, k)));
    if (!gaps.length) return this.say("there is no gap");
    const { start } = this.layout.runs[gaps[0].run].gap; // begin in the first run, at the first or last gap in sight
    const { run, gap } = this.follow(gaps, way, way > 0 ? above(start, this.first - 1) : above(start, this.last) - 1);
    this.selectGap(run, gap);
  }

  measure() {
    this.measuring = !this.measuring;
    this.button("measure").setAttribute("aria-pressed", String(this.measuring));
    // For the keyboard: what is selected.
    if (this.measuring && this.selected) this.measured ??= { a: this.selected.from, b: this.selected.to };
    this.canvas.style.cursor = this.measuring ? "col-resize" : "default";
    this.sentence();
    this.say(!this.measuring ? "measuring off" : this.measured ? this.detail.textContent : "measure: drag over the lanes");
    this.later();
  }

  seek() { this.search.focus(); }

  find(words) {
    const wanted = words.trim().toLowerCase(), { layout } = this;
    this.matches = null;
    this.found.textContent = "";
    this.later();
    if (!wanted) return;
    const names = layout.runs.map((run) => new Set(run.names.flatMap((name, k) => name.toLowerCase().includes(wanted) ? [k] : [])));
    const series = new Map(), list = [];
    let time = 0;
    for (const s of layout.series) {
      const lane = layout.runs[s.run].lanes[s.lane];
      if (!lane.shown || (!lane.export && lane.kind === "accelerator")) continue;
      const found = named(s, names[s.run]), start = found.map((i) => s.start[i]), end = found.map((i) => s.end[i]), total = [0];
      for (const i of found) {
        total.push(total[total.length - 1] + s.end[i] - s.start[i]);
        list.push(this.spanItem(s, i));
      }
      series.set(s, { start, end, total });
      time += total[found.length];
    }
    list.sort((a, b) => a.from - b.from);
    this.matches = { names, series, list };
    this.found.textContent = list.length ? `${grouped(list.length)} found, ${duration(time)}` : "none found";
    this.say(this.found.textContent);
  }

  clearSearch() { this.search.value = ""; this.find(""); }

  nextMatch(way) {
    const list = this.matches?.list ?? [], before = list.filter(({ from }) => from < this.first).length;
    if (!list.length) return;
    const item = this.follow(list, way, way > 0 ? before : before - 1);
    this.reveal(item);
    this.scrollTo(item.run, item.span.series.lane);
    this.select(item);
  }

  say(words) { this.live.textContent = words; }

  // The name of the canvas for those who cannot see it; with what is seen now.
  describe(words) {
    const part = this.first > 0 || this.last < this.span ? ` Shown: ${duration(this.first)} to ${duration(this.last)}.` : "";
    this.canvas.setAttribute("aria-label", `${this.layout.alt}${part} Press question mark for keys, T for tables.`);
    if (words) this.say(words);
  }

  sentence() {
    let lines = ["", "No spans: nothing was recorded in the window."];
    if (this.measured) lines = measureWords(this.layout, this.measured);
    else if (this.selected) lines = this.wordsOf(this.selected);
    else if (this.measuring) lines = ["Drag over the lanes to measure."];
    else if (this.layout.series.length) lines = ["", "Click a gap of the accelerator for its cause, or a span for its name. Press ? for keys."];
    write(this.detail, lines);
  }

  escape() {
    if (this.measuring || this.measured) {
      this.measured = null;
      if (this.measuring) this.measure();
      this.say("measurement cleared");
      this.sentence();
    } else if (this.selected) {
      this.select(null);
      this.say("selection cleared");
    } else if (this.matches) this.clearSearch();
    else if (!this.help.hidden) this.toggleHelp();
    else this.canvas.blur();
    this.later();
  }

  toggle(panel, name) {
    panel.hidden = !panel.hidden;
    this.button(name).setAttribute("aria-expanded", String(!panel.hidden));
  }

  toggleHelp() {
    this.toggle(this.help, "help");
    const keys = [...this.help.querySelectorAll("tr")].map((row) => `${row.cells[0].textContent}: ${row.cells[1].textContent}`);
    if (!this.help.hidden) this.say(keys.join("; "));
  }

  toggleTables() {
    this.toggle(this.panel, "tables");
    if (!this.panel.hidden) this.tables();
    (this.panel.hidden ? this.canvas : this.panel).focus({ preventScroll: true });
  }

  tables() {
    this.panel.replaceChildren(...this.layout.runs.flatMap((run) => {
      const { gap } = run, n = gap.start.length, most = 200, whose = run.label ? `${run.label}: ` : "";
      const lanes = run.lanes.filter((lane) => lane.shown).map((lane) => [lane.name, lane.kind, lane.busy, lane.spans, lane.note]);
      const longest = [...gap.start.keys()].sort((a, b) => gap.length[b] - gap.length[a]).slice(0, most).sort((a, b) => a - b);
      const gaps = longest.map((k) => {
        const act = JSON.stringify(["selectGap", run.index, k]);
        const go = make("button", "", String(k + 1), { "data-act": act, "aria-label": `show gap ${k + 1}` });
        return [go, exactly(gap.start[k]), exactly(gap.length[k]), gap.step[k] < 0 ? "" : String(gap.step[k]), gapWords(run, k)[1]];
      });
      const caption = n > most ? `the ${most} longest of ${plural(n, "gap")}` : plural(n, "gap");
      return [table(`${whose}lanes`, ["lane", "kind", "busy", "spans", "time by kind of work"], lanes),
        table(`${whose}${caption} of the accelerator`, ["gap", "starts at, ms", "lasts, ms", "step", "cause"], gaps)];
    }));
    this.mark();
  }

  svg() {
    const { page } = paintSheet(this, (height) => new SvgPen(this.width, height, this.layout.title, this.layout.alt));
    return new XMLSerializer().serializeToString(page);
  }

  // At once, not with toBlob: a browser may drop a download that comes after the click.
  png() {
    const canvas = document.createElement("canvas"), scale = Math.max(window.devicePixelRatio || 1, 2);
    paintSheet(this, (height) => new CanvasPen(canvas, this.width, height, scale));
    return decoded(canvas.toDataURL("image/png").split(",")[1]);
  }

  save(kind) {
    const [ending, type, content] = {
      png: () => [".png", "image/png", this.png()],
      svg: () => [".svg", "image/svg+xml", this.svg()],
      csv: () => [".csv", "text/csv", toCsv(this.layout)],
      perfetto: () => [".json", "application/json", toPerfetto(this.layout)],
    }[kind]();
    const title = this.layout.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60);
    const href = URL.createObjectURL(new Blob([content], { type })), download = `${title || "timeline"}${ending}`;
    const link = make("a", "", "", { href, download });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(href), 10000);
    this.say(`saved ${download}`);
  }
}

// -- keys, wheel, pointer -------------------------------------------------------------------------------------------

const withModifier = (event) => event.ctrlKey || event.metaKey || event.altKey;

function takeKeys(view) {
  const { canvas, search, keys } = view;
  canvas.onkeydown = (event) => {
    const node = keys.get(event.key) ?? (event.shiftKey ? null : keys.get(event.key.toLowerCase()));
    if (!node || withModifier(event) || !view.layout) return;
    event.preventDefault();
    event.stopPropagation();
    view.act(node);
  };
  search.oninput = () => view.find(search.value);
  search.onkeydown = (event) => {
    if (event.key === "Enter" && !event.isComposing) view.nextMatch(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      view.clearSearch();
      canvas.focus();
    }
    if (["Enter", "Escape"].includes(event.key)) event.preventDefault();
    if (!withModifier(event)) event.stopPropagation();
  };
}

// One finger, or the mouse, keeps the time under it, or measures; two fingers keep the two times under them.
function takePointer(view) {
  const { canvas, tip } = view, fingers = new Map();
  let press = null; // where one finger went down, and whether it has moved since
  const hide = () => { tip.hidden = true; };
  const hold = () => { for (const finger of fingers.values()) finger.t = view.timeAt(finger.x); };
  const move = () => {
    const [one, two] = fingers.values(), pixel = two ? (two.t - one.t) / (two.x - one.x) : view.pixel;
    const first = one.t - (one.x - view.left) * pixel;
    if (!two || (Math.abs(two.x - one.x) > 8 && pixel > 0)) view.show(first, first + pixel * (view.right - view.left), true);
  };
  canvas.onpointerdown = ({ button, pointerId, offsetX: x, offsetY: y, shiftKey }) => {
    if (button > 0) return;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(pointerId);
    fingers.set(pointerId, { x });
    hold();
    hide();
    press = fingers.size > 1 ? null : { x, y, t: view.timeAt(x), scroll: view.scroll, measure: view.measuring || shiftKey };
  };
  canvas.onpointermove = ({ pointerId, offsetX: x, offsetY: y }) => {
    const finger = fingers.get(pointerId);
    if (!finger) return view.hover(x, y);
    finger.x = x;
    if (press && !press.moved && Math.hypot(x - press.x, y - press.y) < 4) return;
    if (press) press.moved = true;
    if (press?.measure) {
      const [a, b] = [view.timeAt(x), press.t].map((t) => clamp(t, 0, view.span)).sort((one, other) => one - other);
      view.measured = { a, b };
      view.sentence();
    } else move();
    if (press && !press.measure) view.scroll = press.scroll + press.y - y;
    view.later();
  };
  canvas.onpointerup = ({ pointerId }) => {
    fingers.delete(pointerId);
    hold();
    if (press && !press.moved) view.select(view.hit(press.x, press.y)?.item ?? null);
    else if (press?.measure) view.say(view.detail.textContent);
    else if (press) view.describe(`${duration(view.first)} to ${duration(view.last)}`);
    press = null;
  };
  canvas.onpointercancel = () => { press = null; fingers.clear(); };
  canvas.onpointerleave = canvas.onblur = hide;
  canvas.ondblclick = (event) => view.zoom(0.25, view.timeAt(event.offsetX));
  canvas.onwheel = (event) => {
    if (document.activeElement !== canvas || event.ctrlKey) return; // the page scrolls, or the browser zooms
    event.preventDefault();
    const { deltaX, deltaY } = event, unit = event.deltaMode ? 30 : 1;
    if (event.shiftKey || Math.abs(deltaX) > Math.abs(deltaY)) view.pan((deltaX || deltaY) * unit / 1000);
    else view.zoom(Math.exp(clamp(deltaY * unit, -400, 400) / 350), view.timeAt(event.offsetX));
  };
}

// In the overview the window is moved, or one of its ends up to the other one, or a new one is opened.
function takeOverview(view) {
  const { overview } = view, timeAt = (event) => (event.offsetX - view.left) / (view.right - view.left) * view.span;
  let drag = null;
  overview.onpointerdown = (event) => {
    if (event.button > 0) return;
    const { first, last, span } = view, t = timeAt(event), size = last - first, near = 6 / (view.right - view.left) * span;
    overview.setPointerCapture(event.pointerId);
    const held = t < first || t > last ? size / 2 : t - first;
    if (size >= span * 0.999) {
      drag = (to) => {
        if (Math.abs(to - t) > span / 200) view.show(Math.max(Math.min(to, t), 0), Math.min(Math.max(to, t), span), true);
      };
    } else if (Math.abs(t - first) < near) drag = (to) => view.show(clamp(to, 0, last - 100), last, true);
    else if (Math.abs(t - last) < near) drag = (to) => view.show(first, clamp(to, first + 100, span), true);
    else {
      drag = (to) => view.show(to - held, to - held + size, true);
      drag(t);
    }
  };
  overview.onpointermove = (event) => drag?.(timeAt(event));
  overview.onpointerup = overview.onpointercancel = () => { drag = null; };
}

// -- two doors ------------------------------------------------------------------------------------------------------

// A saved page: bytes in base64, compressed.
export async function mount(el, text, look) {
  const stream = new Blob([decoded(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const block = await new Response(stream).arrayBuffer();
  const picture = [...el.childNodes]; // it stays where scripts do not run, or this one fails
  const view = new View(el, block, look), shown = globalThis.labkitShown ??= new Map(), before = shown.get(look.key);
  picture.forEach((node) => node.remove());
  if (before && !before.root.deref()?.isConnected) view.keep(before.range); // this page takes the place of that one
  if (look.key) shown.set(look.key, { range: view.range, root: new WeakRef(view.root) });
  return view;
}

// anywidget.
function render({ model, el }) {
  const view = new View(el, model.get("block"), model.get("look"));
  const changed = () => view.update(model.get("block"));
  model.on("change:block", changed);
  return () => { model.off("change:block", changed); view.destroy(); };
}

export default { render };
