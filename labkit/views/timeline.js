// The interactive timeline. It draws what labkit.views.layout computed, needs no kernel and no network, and is one plain
// ES module: anywidget calls the default export, a saved page calls mount(). Its elements are in timeline.html. Times are
// nanoseconds since the start of the window, in float64, which holds each of them exactly.

const LONG = 2 ** 32 - 1; // a duration that stands in the column of long ones
const WIDE = 3; // CSS pixels from which a span is drawn as itself
const AXIS = 26, NAMES = 170, RIGHT = 66, STRIP = 15; // CSS pixels: axis, names, busy shares, a strip of the overview
const TYPES = { float64: Float64Array, float32: Float32Array, uint32: Uint32Array, int32: Int32Array,
  uint16: Uint16Array, uint8: Uint8Array, int8: Int8Array };

// -- the block of bytes ---------------------------------------------------------------------------------------------

export function parse(view) {
  let bytes = view instanceof ArrayBuffer ? new Uint8Array(view)
    : new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  if (!bytes.byteLength) return null;
  if (bytes.byteOffset % 8) bytes = bytes.slice();
  const [length] = new Uint32Array(bytes.buffer, bytes.byteOffset, 2);
  const layout = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  const base = bytes.byteOffset + 8 + length;
  const column = (name) => {
    const [type, offset, count] = layout.columns[name];
    return new TYPES[type](bytes.buffer, base + offset, count);
  };
  const since = column("since"), far = column("far"), duration = column("duration"), long = column("long");
  const n = since.length, start = new Float64Array(n), end = new Float64Array(n), total = new Float64Array(n + 1);
  for (let i = 0, j = 0, k = 0; i < n; i++) {
    start[i] = since[i] === LONG ? far[j++] : (i ? start[i - 1] : 0) + since[i];
    const lasts = duration[i] === LONG ? long[k++] : duration[i];
    end[i] = start[i] + lasts;
    total[i + 1] = total[i] + lasts;
  }
  Object.assign(layout, { name: column("name"), step: column("step"), count: n, series: [] });
  layout.runs.forEach((run, r) => {
    run.index = r;
    run.gap = { kind: column(`gap_kind${r}`), start: column(`gap${r}`), length: column(`gap_length${r}`), step: column(`gap_step${r}`) };
    for (const name of ["for_start", "for_end", "for_lane", "for_name"]) run.gap[name] = column(`${name}${r}`);
    run.gap.end = run.gap.start.map((from, k) => from + run.gap.length[k]);
    run.edge = column(`edge${r}`);
    run.number = column(`step_number${r}`);
    run.strips = [column(`busy${r}`), column(`work${r}`)];
    run.lanes.forEach((lane, k) => {
      lane.index = k;
      for (const row of lane.rows) {
        row.series = row.series.map(([category, thread, process, track, first, count, steps]) => {
          const about = { run: r, lane: k, row, category, thread, process, track, first, count, steps };
          const cut = (values, more = 0) => values.subarray(first, first + count + more);
          return { ...about, start: cut(start), end: cut(end), total: cut(total, 1) };
        });
        layout.series.push(...row.series);
      }
    });
  });
  return layout;
}

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
  let found = -1, far = reach;
  const k = above(start, t) - 1;
  for (const i of [k, k + 1]) {
    if (i < 0 || i >= start.length) continue;
    const away = Math.max(start[i] - t, t - end[i], 0);
    if (away < far || (away === far && found < 0)) [found, far] = [i, away];
  }
  return [found, far];
}

// What to draw of a series between two times: spans that are wide enough, by index, and for every column how much of
// its time the others cover. Nothing is left out and nothing exaggerated; the work grows with the columns only.
export function columns(series, first, last, width, narrow) {
  const { start, end, total } = series, n = start.length, pixel = (last - first) / width;
  const share = new Float64Array(width), wide = [];
  let i = above(end, first);
  while (i < n && start[i] < last) {
    const from = Math.max(start[i], first), to = Math.min(end[i], last);
    if (end[i] - start[i] >= narrow) { wide.push(i++); continue; }
    let c = Math.min(Math.floor((from - first) / pixel), width - 1), edge = first + (c + 1) * pixel;
    if (to > edge) { // goes on in the next columns
      let at = from;
      while (c < width - 1 && to > edge) {
        share[c] += edge - at;
        at = edge;
        edge = first + (++c + 1) * pixel;
      }
      share[c] += to - at;
      i++;
      continue;
    }
    if (c === width - 1) edge = last;
    let j = i + 1;
    share[c] += to - from;
    if (j < n && end[j] <= edge) { // all that end in this column, at once; steps double until one does not
      let step = 1;
      while (j + step < n && end[j + step] <= edge) { j += step; step *= 2; }
      j = above(end, edge, j, Math.min(j + step + 1, n));
    }
    if (narrow < pixel) { // some inside one column may still be wide enough
      for (let k = i + 1; k < j; k++) {
        if (end[k] - start[k] >= narrow) wide.push(k);
        else share[c] += end[k] - start[k];
      }
    } else share[c] += total[j] - total[i + 1];
    i = j;
  }
  for (let c = 0; c < width; c++) share[c] /= pixel;
  return { wide, share };
}

// -- numbers as words -----------------------------------------------------------------------------------------------

const grouped = (x, digits = 0) => x.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const exactly = (ns) => (ns / 1e6).toFixed(3);
const plural = (count, word) => `${grouped(count)} ${word}${count === 1 ? "" : "s"}`;

export function duration(ns) {
  if (ns < 1e3) return `${grouped(ns)} ns`;
  if (ns < 1e6) return `${grouped(ns / 1e3, ns < 1e4 ? 2 : 1)} µs`;
  const ms = ns / 1e6;
  return `${grouped(ms, ms >= 999.95 ? 0 : ms >= 9.995 ? 1 : 2)} ms`;
}

function percent(share) {
  if (share >= 0.9995 && share < 1) return "> 99.9 %";
  return share > 0 && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`;
}

// Round numbers for an axis, about `count` of them, and the digits that they need behind the point.
export function ticks(first, last, count) {
  const rough = (last - first) / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999999);
  const at = [];
  for (let k = Math.ceil(first / step - 1e-9); k * step <= last * (1 + 1e-12); k++) at.push(k * step + 0); // no -0
  return { at, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

// -- pens: the same drawing as pixels and as SVG --------------------------------------------------------------------

const FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";
const widths = new Map();
let ruler = null;

function textWidth(text, size, bold) {
  const key = `${size}${bold ? "b" : ""}${text}`;
  if (!widths.has(key)) {
    if (widths.size > 20000) widths.clear();
    ruler ??= document.createElement("canvas").getContext("2d");
    ruler.font = `${bold ? "bold " : ""}${size}px ${FONT}`;
    widths.set(key, ruler.measureText(text).width);
  }
  return widths.get(key);
}

export function elide(text, room, size, bold) {
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
  constructor(canvas, width, height, scale) {
    canvas.width = Math.max(Math.round(width * scale), 1);
    canvas.height = Math.max(Math.round(height * scale), 1);
    this.context = canvas.getContext("2d");
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.patterns = new Map();
  }
  ink(strokeStyle, lineWidth) { return Object.assign(this.context, { strokeStyle, lineWidth }); }
  rect(x, y, w, h, fill) { this.context.fillStyle = fill; this.context.fillRect(x, y, w, h); }
  box(x, y, w, h, stroke, line = 1) { this.ink(stroke, line).strokeRect(x, y, w, h); }
  hatch(x, y, w, h, mark, ink) {
    const key = mark[0] + ink;
    if (!this.patterns.has(key)) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 8;
      const context = tile.getContext("2d");
      context.strokeStyle = ink;
      context.stroke(new Path2D(HATCHINGS[mark[0]]));
      this.patterns.set(key, this.context.createPattern(tile, "repeat"));
    }
    this.rect(x, y, w, h, this.patterns.get(key));
  }
  line(x, y, x2, y2, stroke, line = 1, dash = []) {
    this.context.setLineDash(dash);
    this.ink(stroke, line).stroke(new Path2D(`M${x} ${y}L${x2} ${y2}`));
    this.context.setLineDash([]);
  }
  shape(points, fill) {
    const c = this.context;
    c.fillStyle = fill;
    c.beginPath();
    for (let k = 0; k < points.length; k += 2) c.lineTo(points[k], points[k + 1]);
    c.fill();
  }
  text(x, y, text, size, fill, align = "left", bold = false) {
    const font = `${bold ? "bold " : ""}${size}px ${FONT}`;
    if (this.font !== font) this.context.font = this.font = font;
    Object.assign(this.context, { fillStyle: fill, textAlign: align, textBaseline: "middle" }).fillText(text, x, y);
  }
  clip(x, y, w, h) {
    const path = new Path2D();
    path.rect(x, y, w, h);
    this.context.save();
    this.context.clip(path);
  }
  free() { this.context.restore(); this.font = null; }
  fade(alpha) { this.context.globalAlpha = alpha; }
}

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c])
  .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
const short = (x) => typeof x === "number" ? Math.round(x * 100) / 100 : escaped(x);

function tag(name, attributes, inside = "") {
  const pairs = Object.entries(attributes).map(([key, value]) => ` ${key.replace("_", "-")}="${short(value)}"`);
  return `<${name}${pairs.join("")}>${inside}</${name}>`;
}

class SvgPen {
  constructor() { this.parts = []; this.marks = new Map(); this.opacity = 1; this.clips = 0; }
  put(name, attributes, inside) {
    const faded = this.opacity < 1 ? { opacity: this.opacity } : {};
    this.parts.push(tag(name, { ...attributes, ...faded }, inside));
  }
  rect(x, y, width, height, fill) { this.put("rect", { x, y, width, height, fill }); }
  box(x, y, width, height, stroke, line = 1) { this.put("rect", { x, y, width, height, fill: "none", stroke, stroke_width: line }); }
  hatch(x, y, w, h, mark, ink) {
    const key = mark[0] + ink;
    if (!this.marks.has(key)) {
      const tile = { id: `h${this.marks.size}`, width: 8, height: 8, patternUnits: "userSpaceOnUse" };
      this.marks.set(key, [tile.id, tag("pattern", tile, tag("path", { d: HATCHINGS[mark[0]], stroke: ink }))]);
    }
    this.rect(x, y, w, h, `url(#${this.marks.get(key)[0]})`);
  }
  line(x, y, x2, y2, stroke, line = 1, dash = []) {
    this.put("path", { d: `M${short(x)} ${short(y)}L${short(x2)} ${short(y2)}`, stroke, stroke_width: line, stroke_dasharray: dash.join(" ") });
  }
  shape(points, fill) { this.put("polygon", { points: points.map(short).join(" "), fill }); }
  text(x, y, text, size, fill, align = "left", bold = false) {
    const text_anchor = { left: "start", right: "end", center: "middle" }[align], font_weight = bold ? "bold" : "normal";
    this.put("text", { x, y, font_size: size, fill, text_anchor, dominant_baseline: "central", font_weight }, escaped(text));
  }
  clip(x, y, width, height) {
    const id = `c${this.clips++}`;
    this.parts.push(`${tag("clipPath", { id }, tag("rect", { x, y, width, height }))}<g clip-path="url(#${id})">`);
  }
  free() { this.parts.push("</g>"); }
  fade(alpha) { this.opacity = alpha; }
  page(width, height, title, about) {
    const patterns = [...this.marks.values()].map(([, pattern]) => pattern).join("");
    const inside = tag("title", {}, escaped(title)) + tag("desc", {}, escaped(about)) + tag("defs", {}, patterns) + this.parts.join("\n");
    const frame = { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", font_family: FONT };
    return tag("svg", frame, inside);
  }
}

// -- downloads: the spans of the window, each once ------------------------------------------------------------------

function spansOf(layout, run) {
  const spans = [];
  for (const s of layout.series) {
    if (s.run !== run.index || !run.lanes[s.lane].export) continue;
    for (let k = 0; k < s.count; k++) {
      const step = s.steps < 0 ? -1 : layout.step[s.steps + k];
      spans.push({ s, start: s.start[k], end: s.end[k], name: run.names[layout.name[s.first + k]], step, category: layout.categories[s.category].key });
    }
  }
  return spans.sort((a, b) => a.start - b.start || b.end - a.end);
}

export function toCsv(layout) {
  const field = (value) => /[",\r\n]/.test(value) ? `"${value.replace(/"/g, '""')}"` : value;
  const lines = ["run,origin,thread,kind,name,category,start_ns,duration_ns,step"];
  for (const run of layout.runs) {
    for (const { s, start, end, name, step, category } of spansOf(layout, run)) {
      const row = [run.label || run.name, run.origin, ...run.threads[s.thread], name, category, BigInt(run.start_ns) + BigInt(start), end - start, step];
      lines.push(row.map(field).join(","));
    }
  }
  return lines.join("\n") + "\n";
}

// One file for all runs: a page may save but one file a click. Python names the processes and the tracks.
export function toPerfetto(layout) {
  const events = layout.runs.flatMap((run) => {
    const spans = spansOf(layout, run).map(({ s, start, end, name, step, category }, k, all) => JSON.stringify({ ph: "X", name,
      cat: category, pid: s.process, tid: s.track, ts: (start - all[0].start) / 1e3, dur: (end - start) / 1e3,
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
    for (let i = above(edge, view.first); i < n && edge[i] < view.last; i++) {
      const x = view.x(edge[i]);
      for (const [from, to] of parts) pen.line(x, top + from, x, top + to, view.colours.line, 0.8);
    }
  }
}

function paintRow(view, pen, list, y, h) {
  const shown = list.filter((s) => !view.hidden.has(s.category));
  if (!shown.length) return;
  const { first, last, left, right, colours, pixel, matches, layout } = view, room = right - left;
  // Where most spans are too short to be seen, columns of four pixels: single ones would be noise.
  let count = 0;
  for (const s of shown) count += above(s.start, last) - above(s.end, first);
  const size = count > room / 3 ? 4 : 1, width = Math.max(Math.ceil(room / size), 1);
  const end = first + width * size * pixel; // columns of whole pixels; the last one may lie beyond the edge
  const base = new Float64Array(width), layers = shown.map((s) => columns(s, first, end, width, WIDE * pixel));
  const fade = matches ? 0.22 : 1;
  pen.fade(fade);
  shown.forEach((s, k) => {
    const before = matches ? base.slice() : null, match = matches?.series.get(s), fill = colours.fill[s.category];
    paintShare(pen, layers[k].share, base, left, size, y, h, fill);
    if (!match) return;
    pen.fade(1);
    paintShare(pen, columns(match, first, end, width, WIDE * pixel).share, before, left, size, y, h, fill);
    pen.fade(fade);
  });
  shown.forEach((s, k) => {
    for (const i of layers[k].wide) {
      const name = layout.name[s.first + i], hit = !matches || matches.names[s.run].has(name);
      pen.fade(hit ? 1 : fade);
      paintSpan(view, pen, s, i, name, y, h);
      if (matches && hit) pen.box(view.x(s.start[i]) + 0.5, y + 0.5, view.x(s.end[i]) - view.x(s.start[i]) - 1, h - 1, colours.ink);
    }
  });
  pen.fade(1);
}

// Stack shares of columns on those in `base`: columns beside each other as one shape.
function paintShare(pen, share, base, left, size, y, h, fill) {
  const n = share.length, bottom = y + h, high = (k) => Math.max(share[k] * h, 0.5);
  for (let c = 0; c < n; c++) {
    if (!share[c]) continue;
    let end = c + 1;
    while (end < n && share[end]) end++;
    if (end - c < 3) {
      for (let k = c; k < end; k++) pen.rect(left + k * size, bottom - base[k] * h - high(k), size, high(k), fill);
    } else {
      const points = [], step = (from, to, share) => {
        points.push(left + from * size, bottom - share * h, left + to * size, bottom - share * h);
      };
      for (let k = c; k < end; k++) step(k, k + 1, base[k] + share[k]);
      for (let k = end - 1; k >= c; k--) step(k + 1, k, base[k]);
      pen.shape(points, fill);
    }
    c = end - 1;
  }
  for (let c = 0; c < n; c++) base[c] += share[c];
}

function paintSpan(view, pen, s, i, name, y, h) {
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
  const step = s.steps < 0 ? -1 : view.layout.step[s.steps + i];
  const words = key === "train" && step >= 0 ? `step ${step}` : view.layout.runs[s.run].names[name];
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
  const size = textWidth(words, 11);
  pen.rect(x + w / 2 - size / 2 - 3, y + h / 2 - 7, size + 6, 14, background);
  pen.text(x + w / 2, y + h / 2 + 0.5, words, 11, ink, "center");
}

function paintGaps(view, pen, p, y) {
  const { gap, gaps } = p.facts;
  for (let i = above(gap.end, view.first); i < gap.start.length && gap.start[i] < view.last; i++) {
    if (gap.length[i] < 3 * view.pixel) continue;
    const x = Math.max(view.x(gap.start[i]), view.left - 3), x2 = Math.min(view.x(gap.end[i]), view.right + 3);
    const words = duration(gap.length[i]), kind = gaps.kinds[gap.kind[i]];
    paintIdle(view, pen, x, y, x2 - x, p.h, ...(kind === "unknown" ? [] : [`${words} ${kind}`]), words);
  }
}

// Outline what is selected, and for a gap the span it waited for, joined by a line.
function paintSelected(view, pen, top) {
  const { ink, background } = view.colours, { run, gap: k, span, from, to } = view.selected;
  const boxes = [], outline = (start, end, y, h) => {
    const x = Math.max(view.x(start), view.left - 4), x2 = Math.min(view.x(end), view.right + 4);
    if (x2 < x) return;
    for (const [ring, width] of [[background, 5], [ink, 2.5]]) pen.box(x - 1, y - 1, Math.max(x2 - x, 2) + 2, h + 2, ring, width);
    boxes.push([(x + x2) / 2, y, y + h]);
  };
  const p = view.placeOf(run, span ? span.series.lane : 0), row = span?.series.row ?? { y: 0, h: p?.lane.height };
  if (p) outline(from, to, top + p.y + row.y * p.scale, row.h * p.scale);
  if (span) return;
  const { gap } = view.layout.runs[run], q = view.placeOf(run, gap.for_lane[k]);
  if (!q || gap.for_start[k] < 0) return;
  outline(gap.for_start[k], gap.for_end[k], top + q.y, q.h);
  if (boxes.length === 2) pen.line(boxes[0][0], boxes[0][2], boxes[1][0], boxes[1][1], ink, 1.5, [4, 3]);
}

function paintAxis(view, pen, y) {
  const { left, right } = view, { muted } = view.colours, unit = view.last - view.first < 2e4 ? 1e3 : 1e6;
  pen.line(left, y + 0.5, right, y + 0.5, muted);
  const { at, digits } = ticks(view.first / unit, view.last / unit, (right - left) / 85);
  let free = left - 26;
  for (const t of at) {
    const x = view.x(t * unit), words = grouped(t, digits), half = textWidth(words, 11) / 2;
    pen.line(x, y, x, y + 4, muted);
    const where = Math.min(Math.max(x, half + 2), view.width - half - 2);
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
  for (const x of [a, b]) pen.line(x, top, x, below, ink, 1.5);
  const words = duration(measured.b - measured.a), size = textWidth(words, 12, true) + 8;
  const x = Math.min(Math.max((a + b) / 2, left + size / 2), right - size / 2);
  pen.rect(x - size / 2, below - 18, size, 16, background);
  pen.box(x - size / 2, below - 18, size, 16, ink);
  pen.text(x, below - 9.5, words, 12, ink, "center", true);
}

// The whole run: in the upper strip the accelerator's busy share per pixel, in the lower one the pipeline's, on average.
function paintOverview(view, pen, height) {
  const { colours, left, right, layout, span } = view, room = right - left, at = (t) => left + t / span * room;
  pen.rect(0, 0, view.width, height, colours.background);
  layout.runs.forEach((run, r) => run.strips.forEach((strip, k) => {
    const y = r * (2 * STRIP + 4) + k * (STRIP + 1), width = at(run.span_ns) - left;
    const what = ["accelerator", "pipeline"][k], words = layout.runs.length > 1 ? `${run.label}: ${what}` : `${what} busy`;
    pen.text(left - 6, y + STRIP / 2, elide(words, left - 12, 10), 10, colours.muted, "right");
    pen.rect(left, y, width, STRIP, colours.lane);
    const sums = new Float64Array(strip.length + 1), points = [left, y + STRIP], n = Math.max(Math.floor(width), 1);
    for (let i = 0; i < strip.length; i++) sums[i + 1] = sums[i] + strip[i];
    const until = (share) => {
      const t = share * strip.length, i = Math.min(Math.floor(t), strip.length - 1);
      return sums[i] + (t - i) * strip[i];
    };
    for (let c = 0; c < n; c++) {
      const high = y + STRIP * (1 - (until((c + 1) / n) - until(c / n)) * n / strip.length);
      points.push(left + c, high, left + c + 1, high);
    }
    points.push(left + n, y + STRIP);
    pen.shape(points, k ? colours.fill[5] : colours.fill[1]);
  }));
  pen.fade(0.55);
  pen.rect(left, 0, at(view.first) - left, height - 2, colours.background);
  pen.rect(at(view.last), 0, right - at(view.last), height - 2, colours.background);
  pen.fade(1);
  pen.box(at(view.first) + 0.75, 0.75, Math.max(at(view.last) - at(view.first) - 1.5, 2), height - 3.5, colours.ink, 1.5);
}

// The sample of a category, or of the gaps (null), in a legend.
function paintSample(view, pen, x, y, w, h, category) {
  const { fill, background } = view.colours, { key, hatch } = view.layout.categories[category] ?? { key: "wait" };
  if (key === "wait") return paintIdle(view, pen, x, y, w, h);
  if (key === "iterator") return pen.rect(x, y + h / 2 - 2, w, 4, fill[category]);
  pen.rect(x, y, w, h, fill[category]);
  if (hatch) pen.hatch(x, y, w, h, hatch, background);
}

// Title, lanes and legend as one picture; returns its height, and draws only if there is a pen.
function paintSheet(view, pen) {
  const { colours, width } = view, body = view.places.height + AXIS;
  const lines = [view.layout.title, ...view.layout.runs.map(headOf)], top = 10 + lines.length * 18;
  pen?.rect(0, 0, width, 1e4, colours.background);
  lines.forEach((line, k) => {
    const size = k ? 12 : 14;
    pen?.text(10, 16 + k * 18, elide(line, width - 20, size, !k), size, k ? colours.muted : colours.ink, "left", !k);
  });
  if (pen) paint(view, pen, top, width, body, true);
  let x = 10, y = top + body + 18;
  for (const { category, label, times } of legendOf(view.layout)) {
    if (view.hidden.has(category)) continue;
    const words = `${label} ${times}`, size = 40 + textWidth(words, 12);
    if (x + size > width - 10 && x > 10) [x, y] = [10, y + 20];
    if (pen) paintSample(view, pen, x, y - 6, 24, 12, category);
    pen?.text(x + 30, y, words, 12, colours.ink);
    x += size + 12;
  }
  return Math.ceil(y + 16);
}

// -- words ----------------------------------------------------------------------------------------------------------

const headOf = (run) => [run.label, run.headline, run.figures].filter(Boolean).join(" · ");

// The entries of the legend: what occurs, and how long it takes in each run; the gaps last.
function legendOf(layout) {
  const times = (measure) => layout.runs.map((run) => duration(measure(run))).join(" → ");
  const entries = layout.legend.map((category) => ({ category, label: layout.categories[category].label, times: times((run) => run.own_ns[category]) }));
  if (!layout.runs.some((run) => run.gap.start.length)) return entries;
  return [...entries, { category: null, label: "accelerator idle: click for the cause", times: times((run) => run.idle_ns) }];
}

function spanWords(layout, { series: s, i }) {
  const run = layout.runs[s.run], name = layout.name[s.first + i], lane = run.lanes[s.lane].name, [thread] = run.threads[s.thread];
  const step = s.steps < 0 ? -1 : layout.step[s.steps + i], during = above(run.edge, s.start[i]) - 1;
  const when = step >= 0 ? `step ${step}` : during >= 0 && during < run.number.length ? `during step ${run.number[during]}` : "";
  return [
    run.names[name],
    `${duration(s.end[i] - s.start[i])} · ${layout.categories[s.category].label}`,
    [`thread ${thread}`, lane === thread ? "" : `lane ${lane}`, run.label].filter(Boolean).join(" · "),
    `${exactly(s.start[i])} to ${exactly(s.end[i])} ms`,
    [when, ordinal(layout, run, name, s.start[i])].filter(Boolean).join(" · "),
  ];
}

// How many spans of this name began before: one operation per image makes it the number of the image.
function ordinal(layout, run, name, t) {
  let place = 1, all = 0;
  for (const s of layout.series) {
    if (s.run !== run.index || !run.lanes[s.lane].export) continue;
    for (let i = 0; i < s.count; i++) {
      if (layout.name[s.first + i] !== name) continue;
      all++;
      if (s.start[i] < t) place++;
    }
  }
  const image = run.images && Math.abs(all - run.images) <= 0.1 * run.images;
  return image ? `image ${grouped(place)} of ${grouped(all)} by order of start` : `${grouped(place)} of ${grouped(all)} of this name`;
}

function gapWords(run, k) {
  const { gap } = run, name = gap.for_name[k] >= 0 ? run.names[gap.for_name[k]] : "";
  const head = `Gap ${grouped(k + 1)} of ${grouped(gap.start.length)}${run.label ? `, ${run.label}` : ""}: ${duration(gap.length[k])}`;
  const lines = [`${head}, ${exactly(gap.start[k])} to ${exactly(gap.end[k])} ms`];
  lines.push(run.gaps.texts[k] ?? `Mostly ${run.gaps.kinds[gap.kind[k]]}${name ? `: ${name}` : ""}.`);
  if (run.gaps.parts[k]) lines.push(`of which ${run.gaps.parts[k]}`);
  if (gap.for_start[k] >= 0 && gap.for_lane[k] >= 0) {
    const lane = run.lanes[gap.for_lane[k]].name, when = `${exactly(gap.for_start[k])} to ${exactly(gap.for_end[k])} ms`;
    lines.push(`Waited for ${name || "span"} on ${lane}, ${when} (outlined).`);
  }
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
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text) node.textContent = text;
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

const MINE = "data-lm-suppress-shortcuts"; // JupyterLab leaves single keys to elements that have it

function table(caption, heads, rows) {
  const node = make("table");
  node.append(make("caption", "", caption));
  node.createTHead().insertRow().append(...heads.map((words) => make("th", "", words, { scope: "col" })));
  const body = node.createTBody();
  for (const [first, ...cells] of rows) {
    const head = make("th", "", "", { scope: "row" });
    head.append(first);
    const number = (cell) => typeof cell === "number";
    body.insertRow().append(head, ...cells.map((cell) => make("td", number(cell) ? "n" : "", number(cell) ? grouped(cell) : cell)));
  }
  return node;
}

// Light or dark: what JupyterLab, Colab or VS Code says, or else the browser.
export function themeOf() {
  const body = document.body?.dataset ?? {}, root = document.documentElement;
  if (body.jpThemeLight) return body.jpThemeLight === "true" ? "light" : "dark";
  const stated = root.getAttribute("theme") ?? root.dataset.theme ?? root.dataset.jpThemeLight ?? body.theme ?? body.vscodeThemeKind;
  if (stated) return /dark|false/.test(stated) ? "dark" : "light";
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

// What keys and buttons do: the name of the button, its keys, the act.
const ACTS = {
  zoomIn: ["w + =", (view) => view.zoom(0.5)],
  zoomOut: ["s - _", (view) => view.zoom(2)],
  earlier: ["a", (view) => view.pan(-0.2)],
  later: ["d", (view) => view.pan(0.2)],
  left: ["ArrowLeft", (view) => view.pan(-0.1)],
  right: ["ArrowRight", (view) => view.pan(0.1)],
  up: ["ArrowUp", (view) => view.scrollBy(-40)],
  down: ["ArrowDown", (view) => view.scrollBy(40)],
  all: ["0", (view) => view.all()],
  fit: ["f", (view) => view.fit()],
  nextGap: ["n", (view) => view.nextGap(1)],
  previousGap: ["p", (view) => view.nextGap(-1)],
  measure: ["m", (view) => view.measure()],
  overlay: ["o", (view) => view.overlay()],
  search: ["/", (view) => view.search.focus()],
  tables: ["t", (view) => view.toggleTables()],
  help: ["?", (view) => view.toggleHelp()],
  escape: ["Escape", (view) => view.escape()],
  png: ["", (view) => view.save(".png", view.png(), "image/png")],
  svg: ["", (view) => view.save(".svg", view.svg(), "image/svg+xml")],
  csv: ["", (view) => view.save(".csv", toCsv(view.layout), "text/csv")],
  perfetto: ["", (view) => view.save(".json", toPerfetto(view.layout), "application/json")],
};
const BY_KEY = Object.fromEntries(Object.values(ACTS).flatMap(([keys, act]) => keys.split(" ").map((key) => [key, act])));

export class View {
  constructor(el, data, look) {
    this.el = el;
    this.look = look;
    this.hidden = new Set();
    this.mode = "stacked";
    this.scroll = 0;
    this.selected = null; // {run, from, to, gap} or {run, from, to, span: {series, i}}
    this.measured = null; // {a, b}
    this.matches = null;
    this.undo = []; // what destroy() undoes
    this.range = look.last ? { first: 0, last: look.last } : {}; // the part of the axis that is seen, if it is not all
    this.build(look.page);
    this.update(data);
  }

  listen(target, handlers, options) {
    for (const [type, handler] of Object.entries(handlers)) {
      target.addEventListener(type, handler, options);
      this.undo.push(() => target.removeEventListener(type, handler, options));
    }
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
    const part = (name) => root.querySelector(name);
    this.button = (act) => part(`[data-act=${act}]`);
    Object.assign(this, { title: part(".lt-title"), heads: part(".lt-runs"), search: part("input"), found: part(".lt-found"),
      legend: part(".lt-legend"), overview: part(".lt-overview"), canvas: part(".lt-lanes"), tip: part(".lt-tip"),
      detail: part(".lt-detail"), live: part("[aria-live]"), help: part(".lt-help"), panel: part(".lt-tables") });
    for (const node of root.querySelectorAll("button, input, .lt-lanes, .lt-panel")) node.setAttribute(MINE, "true");
    for (const node of root.querySelectorAll("button")) {
      node.title = node.getAttribute("aria-label");
      this.listen(node, { click: () => ACTS[node.dataset.act][1](this) });
    }
    this.el.append(root);
    const hands = new Hands(this), hide = () => { this.tip.hidden = true; };
    this.listen(this.search, { keydown: (e) => hands.searchKey(e), input: () => this.find(this.search.value) });
    this.listen(this.canvas, { wheel: (e) => hands.wheel(e) }, { passive: false });
    this.listen(this.canvas, {
      keydown: (e) => hands.key(e), pointerdown: (e) => hands.down(e), pointermove: (e) => hands.move(e), pointerup: (e) => hands.up(e),
      pointercancel: () => hands.cancel(), pointerleave: hide, blur: hide,
      dblclick: (e) => this.zoom(0.25, this.timeAt(hands.place(e)[0])),
    });
    const release = () => { hands.grip = null; };
    this.listen(this.overview, { pointerdown: (e) => hands.gripDown(e), pointermove: (e) => hands.gripMove(e), pointerup: release, pointercancel: release });
    // JupyterLab would swallow its own Ctrl+S, too, on an element that keeps single keys to itself.
    this.listen(window, { keydown: this.weakly("letGo") }, true);
    const observers = [new ResizeObserver(this.weakly("resize")), new IntersectionObserver(this.weakly("later"))];
    for (const observer of observers) observer.observe(root);
    const themes = new MutationObserver(this.weakly("recolour"));
    const attributeFilter = ["data-jp-theme-light", "theme", "data-theme", "class", "data-vscode-theme-kind"];
    for (const node of [document.body, document.documentElement]) themes.observe(node, { attributes: true, attributeFilter });
    this.listen(matchMedia("(prefers-color-scheme: dark)"), { change: this.weakly("recolour") });
    this.undo.push(() => { for (const observer of [...observers, themes]) observer.disconnect(); cancelAnimationFrame(this.frame); });
  }

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
    for (const undo of this.undo.splice(0)) undo();
    this.frame = null;
    this.gone = true;
    this.layout = this.matches = this.selected = null;
    delete this.root.timeline;
    this.root.remove();
  }

  // Show another layout; the part of the axis that is seen stays, unless all of it was seen.
  update(data) {
    const layout = parse(data);
    if (!layout) return;
    const kept = { ...this.range };
    this.layout = layout;
    this.span = Math.max(layout.span_ns, 1);
    [this.first, this.last] = [0, this.span];
    this.keep(kept);
    this.selected = this.measured = null;
    if (layout.runs.length < 2) this.mode = "stacked";
    this.button("overlay").hidden = layout.runs.length < 2;
    this.title.textContent = layout.title;
    this.heads.replaceChildren(...layout.runs.map((run) => make("div", "lt-run", headOf(run))));
    this.arrange();
    this.legend.replaceChildren(...legendOf(layout).map((entry) => this.legendNode(entry)));
    if (this.search.value) this.find(this.search.value); else this.matches = null;
    if (!this.panel.hidden) this.tables();
    this.describe("");
    this.sentence();
    this.recolour(true);
  }

  // The part of the axis that was seen before, if it was a part and is still there.
  keep({ first, last }) {
    if (first === undefined || first >= this.span) return;
    [this.first, this.last] = [first, Math.min(last, this.span)];
    this.note();
  }

  note() {
    const whole = this.first <= 0 && this.last >= this.span;
    Object.assign(this.range, whole ? { first: undefined, last: undefined } : { first: this.first, last: this.last });
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
    const sample = make("canvas", "", "", { "aria-hidden": "true" });
    sample.category = category;
    const parts = [sample, make("span", "", label), make("small", "", times)];
    const node = category === null ? make("span", "lt-key") : make("button", "", "", { [MINE]: "true", type: "button",
      "aria-pressed": String(!this.hidden.has(category)), "data-category": this.layout.categories[category].key });
    node.append(...parts);
    if (category === null) return node;
    const two = this.layout.runs.length > 1 ? ", in the first and the second run" : "";
    node.title = `${label}: time of its own, all threads together${two}; press to hide or show`;
    node.addEventListener("click", () => {
      if (!this.hidden.delete(category)) this.hidden.add(category);
      node.setAttribute("aria-pressed", String(!this.hidden.has(category)));
      this.say(`${label} ${this.hidden.has(category) ? "hidden" : "shown"}`);
      this.later();
    });
    return node;
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
      paintSample(this, new CanvasPen(canvas, 24, 13, window.devicePixelRatio || 1), 0, 0, 24, 13, canvas.category);
    }
    this.later();
  }

  later() {
    if (this.gone || this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = null; this.redraw(); });
  }

  resize() { this.observed = this.root.clientWidth; this.later(); } // what the observer compares the next width with

  // Draw now; returns milliseconds.
  redraw() {
    if (this.gone || !this.layout) return 0;
    if (!this.root.clientWidth) { // out of the page, as the cells that JupyterLab has scrolled away
      // The observer reports the return of a width only where it has observed the 0; until then, try every frame.
      if (this.observed) this.later();
      return 0;
    }
    const began = performance.now(), ratio = window.devicePixelRatio || 1;
    this.width = Math.max(this.root.clientWidth - 16, 120);
    this.height = this.lanesHeight() + AXIS;
    this.canvas.style.height = `${this.height}px`;
    paint(this, new CanvasPen(this.canvas, this.width, this.height, ratio), 0, this.width, this.height);
    const high = this.layout.runs.length * (2 * STRIP + 4);
    this.overview.style.height = `${high}px`;
    paintOverview(this, new CanvasPen(this.overview, this.width, high, ratio), high);
    this.painted = (this.painted ?? 0) + 1;
    this.root.dataset.painted = this.painted;
    return performance.now() - began;
  }

  lanesHeight() { return Math.min(this.places.height, Math.max((this.look.height ?? 520) - AXIS, 60)); }

  get left() { return Math.min(NAMES, Math.round(this.width * 0.26)); }
  get right() { return this.width - (this.width > 420 ? RIGHT : 8); }
  get pixel() { return (this.last - this.first) / (this.right - this.left); }
  x(t) { return this.left + (t - this.first) / this.pixel; }
  timeAt(x) { return this.first + (x - this.left) * this.pixel; }

  // -- moving -------------------------------------------------------------------------------------------------------

  show(first, last, quiet = false) {
    const size = Math.min(Math.max(last - first, Math.min(100, this.span)), this.span);
    this.first = Math.min(Math.max((first + last - size) / 2, 0), this.span - size);
    this.last = this.first + size;
    this.note();
    this.describe(quiet ? null : `${duration(this.first)} to ${duration(this.last)}`);
    this.later();
  }

  zoom(factor, at = (this.first + this.last) / 2) {
    const size = Math.min(Math.max((this.last - this.first) * factor, Math.min(100, this.span)), this.span);
    const share = (at - this.first) / (this.last - this.first), first = Math.min(Math.max(at - share * size, 0), this.span - size);
    this.show(first, first + size);
  }

  pan(share) { const by = share * (this.last - this.first); this.show(this.first + by, this.last + by); }
  all() { this.show(0, this.span); }
  scrollBy(pixels) { this.scroll += pixels; this.later(); }

  fit() {
    let { from, to } = this.selected ?? { from: 0, to: this.span };
    if (this.measured) ({ a: from, b: to } = this.measured);
    else if (this.selected?.gap !== undefined) {
      const { gap } = this.layout.runs[this.selected.run], k = this.selected.gap;
      if (gap.for_start[k] >= 0) [from, to] = [Math.min(from, gap.for_start[k]), Math.max(to, gap.for_end[k])];
    }
    const room = (to - from) * 0.05;
    this.show(from - room, to + room);
  }

  overlay() {
    if (this.layout.runs.length < 2) return;
    this.mode = this.mode === "stacked" ? "overlaid" : "stacked";
    this.button("overlay").setAttribute("aria-pressed", String(this.mode === "overlaid"));
    this.arrange();
    this.say(this.mode === "overlaid" ? "lanes of the two runs side by side" : "one run below the other");
    this.later();
  }

  // -- pointing -----------------------------------------------------------------------------------------------------

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
    const consider = (found, far, make) => { if (found >= 0 && far < least) [item, least] = [make(found), far]; };
    for (const row of place.lane.rows) {
      if (inside < row.y - 1 || inside >= row.y + row.h + 1) continue;
      const beside = inside >= row.y && inside < row.y + row.h ? 0 : reach / 4;
      for (const s of row.series) {
        if (this.hidden.has(s.category)) continue;
        const [i, far] = nearest(s, t, reach - beside);
        consider(i, far + beside, () => this.spanItem(s, i));
      }
    }
    if (place.lane.kind === "accelerator") {
      const [k, far] = nearest(place.facts.gap, t, reach);
      consider(k, far, () => this.gapItem(place.run, k));
    }
    return { place, item };
  }

  hover(x, y) {
    const { place, item } = this.hit(x, y) ?? {}, lane = place?.lane;
    let lines = null;
    if (item) lines = item.span ? this.wordsOf(item) : [...this.wordsOf(item).slice(0, 2), "click for the span it waited for"];
    else if (lane && x < this.left) lines = [lane.name, `${lane.busy} busy · ${plural(lane.spans, "span")}`, lane.note].filter(Boolean);
    this.canvas.style.cursor = this.measuring ? "col-resize" : item ? "pointer" : "default";
    this.tip.hidden = !lines;
    if (!lines) return;
    this.tip.replaceChildren(make("b", "", lines[0]), document.createTextNode(lines.slice(1).join("\n")));
    const box = this.canvas.getBoundingClientRect(), root = this.root.getBoundingClientRect();
    const dx = box.left - root.left, dy = box.top - root.top, w = this.tip.offsetWidth, h = this.tip.offsetHeight;
    this.tip.style.left = `${Math.max(Math.min(dx + x + 14, root.width - w - 4), 4)}px`;
    this.tip.style.top = `${dy + y + 18 + h > root.height ? Math.max(dy + y - h - 10, 0) : dy + y + 18}px`;
  }

  select(item) {
    this.selected = item;
    this.sentence();
    if (item) this.say(this.detail.textContent);
    this.later();
  }

  scrollTo(run, lane) {
    const p = this.placeOf(run, lane), room = this.lanesHeight();
    if (p && (p.y < this.scroll || p.y + p.h > this.scroll + room)) this.scroll = p.y + p.h - room + 8;
  }

  // Select a gap, and bring it into sight with what it waited for, as far as that is not much longer than the gap.
  selectGap(r, k) {
    const item = this.gapItem(r, k), { from, to } = item, size = this.last - this.first, { gap } = this.layout.runs[r];
    if (from < this.first || to > this.last || to - from < size / 400) {
      const most = to - from < size / 400 ? (to - from) * 40 : Infinity, wide = Math.min(Math.max(size, (to - from) * 1.3), most);
      this.show((from + to - wide) / 2, (from + to + wide) / 2, true);
    }
    let [a, b] = [Math.max(gap.for_start[k], from - 10 * (to - from)), gap.for_end[k]];
    if (gap.for_start[k] >= 0 && (a < this.first || b > this.last)) {
      [a, b] = [Math.min(a, this.first, from), Math.max(Math.min(b, to + 10 * (to - from)), to, Math.min(this.last, to + size))];
      this.show(a - (b - a) * 0.03, b + (b - a) * 0.03, true);
    }
    if (gap.for_start[k] >= 0) this.scrollTo(r, gap.for_lane[k]);
    this.select(item);
  }

  nextGap(way) {
    const runs = this.layout.runs.filter((run) => run.gap.start.length), s = this.selected;
    if (!runs.length) return this.say("there is no gap");
    let run = runs.find((each) => each.index === (s?.gap === undefined ? 0 : s.run)) ?? runs[0], k;
    if (s?.gap !== undefined) k = s.gap + way;
    else k = way > 0 ? above(run.gap.start, this.first - 1) : above(run.gap.start, this.last) - 1;
    if (k < 0 || k >= run.gap.start.length) { // on to the other run, or around
      run = runs[(runs.indexOf(run) + way + runs.length) % runs.length];
      k = way > 0 ? 0 : run.gap.start.length - 1;
    }
    this.selectGap(run.index, k);
  }

  // -- measuring and searching ----------------------------------------------------------------------------------------

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
      const lane = layout.runs[s.run].lanes[s.lane], start = [], end = [], total = [0];
      if (!lane.shown || (!lane.export && lane.kind === "accelerator")) continue;
      for (let i = 0; i < s.count; i++) {
        if (!names[s.run].has(layout.name[s.first + i])) continue;
        start.push(s.start[i]);
        end.push(s.end[i]);
        total.push(total[total.length - 1] + s.end[i] - s.start[i]);
        list.push([s, i]);
      }
      if (start.length) series.set(s, { start, end, total });
      time += total[total.length - 1];
    }
    list.sort(([s, i], [u, j]) => s.start[i] - u.start[j] || s.first - u.first);
    this.matches = { names, series, list };
    this.found.textContent = list.length ? `${grouped(list.length)} found, ${duration(time)}` : "none found";
    this.say(this.found.textContent);
  }

  clearSearch() { this.search.value = ""; this.find(""); }

  nextMatch(way) {
    const list = this.matches?.list;
    if (!list?.length) return;
    const now = this.selected?.span, at = list.findIndex(([s, i]) => s === now?.series && i === now.i);
    const before = list.filter(([s, i]) => s.start[i] < this.first).length, start = way > 0 ? before : before - 1;
    const item = this.spanItem(...list.at((at < 0 ? start : at + way) % list.length)), { from, to } = item;
    const size = Math.max(this.last - this.first, to - from);
    if (from < this.first || to > this.last) this.show((from + to - size) / 2, (from + to + size) / 2, true);
    this.scrollTo(item.run, item.span.series.lane);
    this.select(item);
  }

  // -- words --------------------------------------------------------------------------------------------------------

  say(words) { this.live.textContent = words; }

  // The name of the canvas for those who cannot see it; with what is seen now.
  describe(words) {
    const part = this.first > 0 || this.last < this.span ? ` Shown: ${duration(this.first)} to ${duration(this.last)}.` : "";
    this.canvas.setAttribute("aria-label", `${this.layout.alt}${part} Press question mark for keys, T for tables.`);
    if (words) this.say(words);
  }

  sentence() {
    let lines = [null, "No spans: nothing was recorded in the window."];
    if (this.measured) lines = measureWords(this.layout, this.measured);
    else if (this.selected) lines = this.wordsOf(this.selected);
    else if (this.measuring) lines = ["Drag over the lanes to measure."];
    else if (this.layout.count) lines = [null, "Click a gap of the accelerator for its cause, or a span for its name. Press ? for keys."];
    this.detail.replaceChildren(...(lines[0] ? [make("b", "", lines[0])] : []), document.createTextNode(lines.slice(1).join("\n")));
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

  toggle(panel, act) {
    panel.hidden = !panel.hidden;
    this.button(act).setAttribute("aria-expanded", String(!panel.hidden));
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
        const go = make("button", "", String(k + 1), { [MINE]: "true", type: "button", "aria-label": `show gap ${k + 1}` });
        go.addEventListener("click", () => this.selectGap(run.index, k));
        return [go, exactly(gap.start[k]), exactly(gap.length[k]), gap.step[k] < 0 ? "" : String(gap.step[k]), gapWords(run, k)[1]];
      });
      const caption = n > most ? `the ${most} longest of ${plural(n, "gap")}` : plural(n, "gap");
      return [table(`${whose}lanes`, ["lane", "kind", "busy", "spans", "time by kind of work"], lanes),
        table(`${whose}${caption} of the accelerator`, ["gap", "starts at, ms", "lasts, ms", "step", "cause"], gaps)];
    }));
  }

  // -- downloads ----------------------------------------------------------------------------------------------------

  svg() {
    const pen = new SvgPen(), height = paintSheet(this, pen);
    return pen.page(this.width, height, this.layout.title, this.layout.alt);
  }

  // At once, not with toBlob: a browser may drop a download that comes after the click.
  png() {
    const canvas = document.createElement("canvas"), scale = Math.max(window.devicePixelRatio || 1, 2);
    paintSheet(this, new CanvasPen(canvas, this.width, paintSheet(this, null), scale));
    return Uint8Array.from(atob(canvas.toDataURL("image/png").split(",")[1]), (c) => c.charCodeAt(0));
  }

  save(ending, content, type) {
    const title = this.layout.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60);
    const url = URL.createObjectURL(new Blob([content], { type })), download = `${title || "timeline"}${ending}`;
    const link = make("a", "", "", { href: url, download });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
    this.say(`saved ${download}`);
  }
}

// -- keys, wheel, pointer -------------------------------------------------------------------------------------------

class Hands {
  constructor(view) { this.view = view; this.fingers = new Map(); }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = BY_KEY[event.key] ?? (event.shiftKey ? null : BY_KEY[event.key.toLowerCase()]);
    if (!act || !this.view.layout) return;
    event.preventDefault();
    event.stopPropagation();
    act(this.view);
  }

  searchKey(event) {
    const { view } = this;
    if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      view.nextMatch(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      event.preventDefault();
      view.clearSearch();
      view.canvas.focus();
    }
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  }

  wheel(event) {
    const { view } = this;
    if (document.activeElement !== view.canvas || event.ctrlKey) return; // the page scrolls, or the browser zooms
    event.preventDefault();
    const unit = event.deltaMode ? 30 : 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.pan((event.deltaX || event.deltaY) * unit / 1000);
    else view.zoom(Math.exp(Math.max(Math.min(event.deltaY * unit, 400), -400) / 350), view.timeAt(this.place(event)[0]));
  }

  place(event) {
    const box = this.view.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  down(event) {
    if (event.button > 0) return;
    const { view } = this, [x, y] = this.place(event);
    view.canvas.focus({ preventScroll: true });
    view.canvas.setPointerCapture?.(event.pointerId);
    this.fingers.set(event.pointerId, x);
    view.tip.hidden = true;
    if (this.fingers.size === 2) { // two fingers: the times under them stay under them
      this.pinch = [...this.fingers.entries()].map(([id, at]) => [id, view.timeAt(at)]);
      this.drag = null;
      return;
    }
    const { first, last, scroll } = view;
    this.drag = { x, y, first, last, scroll, moved: false, measure: view.measuring || event.shiftKey, from: view.timeAt(x) };
  }

  move(event) {
    const { view, drag } = this, [x, y] = this.place(event);
    if (this.fingers.has(event.pointerId)) this.fingers.set(event.pointerId, x);
    if (this.fingers.size === 2 && this.pinch) return this.pinched();
    if (!drag) return view.hover(x, y);
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < 4) return;
    drag.moved = true;
    if (drag.measure) {
      const [a, b] = [view.timeAt(x), drag.from].map((t) => Math.min(Math.max(t, 0), view.span)).sort((one, other) => one - other);
      view.measured = { a, b };
      view.sentence();
    } else {
      const by = (drag.x - x) * view.pixel;
      view.show(drag.first + by, drag.last + by, true);
      view.scroll = drag.scroll + drag.y - y;
    }
    view.later();
  }

  pinched() {
    const { view } = this, [[i, ti], [j, tj]] = this.pinch, xi = this.fingers.get(i), xj = this.fingers.get(j);
    const pixel = (tj - ti) / (xj - xi), first = ti - (xi - view.left) * pixel;
    if (Math.abs(xi - xj) > 8 && pixel > 0) view.show(first, first + pixel * (view.right - view.left), true);
  }

  up(event) {
    const { view, drag } = this;
    this.fingers.delete(event.pointerId);
    this.pinch = null;
    if (this.fingers.size) return;
    this.drag = null;
    if (!drag) return;
    if (!drag.moved) view.select(view.hit(drag.x, drag.y)?.item ?? null);
    else if (drag.measure) view.say(view.detail.textContent);
    else view.describe(`${duration(view.first)} to ${duration(view.last)}`);
  }

  cancel() { this.drag = null; this.fingers.clear(); }

  // The overview: its window is moved, or one of its ends, or a new one is opened.
  gripTime(event) {
    const { view } = this;
    return (event.clientX - view.overview.getBoundingClientRect().left - view.left) / (view.right - view.left) * view.span;
  }

  gripDown(event) {
    if (event.button > 0) return;
    const { view } = this, { first, last, span } = view, t = this.gripTime(event), near = 6 / (view.right - view.left) * span;
    view.overview.setPointerCapture?.(event.pointerId);
    if (last - first >= span * 0.999) this.grip = { kind: "new", t };
    else if (Math.abs(t - first) < near) this.grip = { kind: "first" };
    else if (Math.abs(t - last) < near) this.grip = { kind: "last" };
    else {
      if (t < first || t > last) view.show(t - (last - first) / 2, t + (last - first) / 2);
      this.grip = { kind: "move", by: t - view.first };
    }
  }

  gripMove(event) {
    const { view, grip } = this;
    if (!grip) return;
    const { first, last, span } = view, t = this.gripTime(event);
    if (grip.kind === "move") view.show(t - grip.by, t - grip.by + last - first, true);
    else if (grip.kind === "first") view.show(Math.max(Math.min(t, last - 100), 0), last, true);
    else if (grip.kind === "last") view.show(first, Math.min(Math.max(t, first + 100), span), true);
    else if (Math.abs(t - grip.t) > span / 200) view.show(Math.min(t, grip.t), Math.max(t, grip.t), true);
  }
}

// -- two doors ------------------------------------------------------------------------------------------------------

// A saved page: bytes in base64, compressed.
export async function mount(el, text, look) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const block = await new Response(stream).arrayBuffer();
  const picture = [...el.childNodes]; // it stays where scripts do not run, or this one fails
  const view = new View(el, block, look), shown = globalThis.labkitShown ??= new Map(), before = shown.get(look.key);
  picture.forEach((node) => node.remove());
  if (before && !before.root.deref()?.isConnected) { // this page takes the place of that one
    view.keep(before.range);
    view.describe(null);
  }
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
