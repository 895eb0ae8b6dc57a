// The interactive timeline. It draws what labkit.views.layout computed, needs no kernel and no network, and is one plain
// ES module: anywidget calls the default export, a saved page calls mount(). Its elements, with what keys and buttons do,
// are in timeline.html. Times are nanoseconds since the start of the window, in float64, which holds each of them exactly.

const LONG = 2 ** 32 - 1; // a duration that stands in the column of long ones
const WIDE = 3; // CSS pixels from which a span is drawn as itself
const FADED = 0.22; // the opacity of spans that are not what is searched for
const AXIS = 26, NAMES = 140, RIGHT = 66; // CSS pixels: axis, names, busy shares

const clamp = (x, low, high) => Math.max(Math.min(x, high), low);
const decoded = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const stepOf = (series, i) => series.step?.[i] ?? -1;
const exported = ({ lanes }) => lanes.flatMap((lane) => lane.export ? lane.rows.flatMap((row) => row.series) : []);
const veil = (pen, opacity, ...where) => { pen.fade(opacity); pen.rect(...where); pen.fade(1); };
const withModifier = (event) => event.ctrlKey || event.metaKey || event.altKey;

// -- the block of bytes ---------------------------------------------------------------------------------------------

export function parse(view) {
  const { buffer } = new Uint8Array(view.buffer ?? view, view.byteOffset, view.byteLength).slice(); // at a multiple of 8
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
  layout.series = layout.runs.flatMap((run, r) => {
    Object.assign(run.gap, { run: r, lane: 0, end: run.gap.start.map((from, k) => from + run.gap.length[k]) }); // a series, too
    run.gap.total = run.gap.length.reduce((sums, lasts, k) => { sums[k + 1] = sums[k] + lasts; return sums; }, new Float64Array(run.gap.start.length + 1));
    return run.lanes.flatMap((lane, k) => {
      lane.index = k;
      const seriesOf = (row) => row.series.map(([kind, thread, process, track, first, count, steps]) => {
        const cut = (values, from = first, more = 0) => values.subarray(from, from + count + more);
        const columns = { start: cut(start), end: cut(end), total: cut(total, first, 1), name: cut(layout.name) };
        const step = steps < 0 ? null : cut(layout.step, steps);
        return { run: r, lane: k, row, ...layout.kinds[kind], thread, process, track, step, ...columns };
      });
      lane.own = seriesOf({ series: lane.own });
      return [...lane.rows.flatMap((row) => row.series = seriesOf(row)), ...lane.own];
    });
  });
  const open = layout.layers.findIndex(({ look }) => look === "outline");
  for (const s of layout.series) {
    Object.assign(s, { around: s.layer === open, parts: partsOf(s) });
    s.inLane = s.nested === 2 ? [[open, 0, 1]] : s.parts;
  }
  for (const { items } of Object.values(layout.layouts)) for (const item of items) {
    item.facts = layout.runs[item.run];
    if (item.lane >= 0) { item.lane = item.facts.lanes[item.lane]; continue; }
    item.band = item.facts.band;
    item.lane = { kind: "band", name: item.name, rows: [] };
    item.series = item.band.lanes.flatMap((k) => [
      ...item.facts.lanes[k].rows.flatMap((row) => row.series.filter((s) => !s.around && !s.nested)), ...item.facts.lanes[k].own]);
  }
  return layout;
}

// In which layers a span is drawn, and which part of its height: its work below, what it waits for above.
const partsOf = ({ layer, waits, share }) => [[layer, 0, share], [waits, share, 1]].filter(([, from, to]) => to > from);

// A span of a series or a gap of a run; `cause` is what a gap waited for, where that is known.
function itemOf(series, i) {
  const { run, lane, row, start, end, for_start, for_end, for_lane } = series;
  const cause = for_start?.[i] >= 0 ? { run, lane: for_lane[i], from: for_start[i], to: for_end[i] } : null;
  return { series, i, run, lane, row, from: start[i], to: end[i], cause };
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
const between = (from, to, { cycle_ns: cycle }) => cycle ? `cycles ${grouped(from / cycle)} to ${grouped(to / cycle)}`
  : `${(from / 1e6).toFixed(3)} to ${(to / 1e6).toFixed(3)} ms`;
const joined = (...words) => words.filter(Boolean).join(" · ");

export function duration(ns, { cycle_ns: cycle } = {}) {
  if (cycle) return `${grouped(ns / cycle)} cycle${ns === cycle ? "" : "s"}`;
  if (ns < 1e3) return `${grouped(ns)} ns`;
  const [x, unit] = ns < 1e6 ? [ns / 1e3, "µs"] : [ns / 1e6, "ms"];
  return `${grouped(x, x >= 999.95 ? 0 : x >= 9.995 ? 1 : 2)} ${unit}`;
}

const percent = (share) => share >= 0.9995 && share < 1 ? "> 99.9 %" : share > 0 && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`;

// Round numbers for an axis, about `count` of them, and the digits that they need behind the point.
function ticks(first, last, count) {
  const rough = (last - first) / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999999);
  const at = [];
  for (let k = Math.ceil(first / step - 1e-9); k * step <= last * (1 + 1e-12); k++) at.push(k * step + 0); // no -0
  return { at, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

// -- pens: the same drawing as pixels and as SVG --------------------------------------------------------------------

const FORBIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g; // in XML
const rounded = (x) => typeof x === "number" ? Math.round(x * 100) / 100 : x;
const escaped = (words) => String(words).replace(FORBIDDEN, "\ufffd").replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

function element(name, attributes, inside = "") {
  const pairs = Object.entries(attributes).map(([key, value]) => ` ${key}="${escaped(rounded(value))}"`);
  return `<${name}${pairs.join("")}>${inside}</${name}>`;
}

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

// A text that fits: as it is, or else without words in its middle, or without letters there.
function elide(text, room, size, bold) {
  const fits = (words) => textWidth(words, size, bold) <= room;
  const cut = (all, k, space) => [...all.slice(0, (k + 1) >> 1), "…", ...all.slice(all.length - (k >> 1))].join(space);
  const cuts = (space, least) => text.split(space).map((_, k, all) => cut(all, k, space)).slice(least);
  return [...cuts("", 1), ...cuts(" ", 2), text].findLast(fits) ?? "";
}

class CanvasPen {
  constructor(canvas, width, height, scale = window.devicePixelRatio || 1) {
    canvas.width = Math.max(Math.round(width * scale), 1);
    canvas.height = Math.max(Math.round(height * scale), 1);
    this.context = canvas.getContext("2d");
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
  }
  rect(x, y, w, h, fill) { this.context.fillStyle = fill; this.context.fillRect(x, y, w, h); }
  shape(points, fill) {
    Object.assign(this.context, { fillStyle: fill }).beginPath();
    for (let k = 0; k < points.length; k += 2) this.context.lineTo(points[k], points[k + 1]);
    this.context.fill();
  }
  box(x, y, w, h, strokeStyle, lineWidth = 1) { Object.assign(this.context, { strokeStyle, lineWidth }).strokeRect(x, y, w, h); }
  dashed(path, strokeStyle, between) {
    this.line(path, between, 1.5);
    this.context.setLineDash([4, 3]);
    this.line(path, strokeStyle, 1.5);
    this.context.setLineDash([]);
  }
  line(path, strokeStyle, lineWidth = 1) { Object.assign(this.context, { strokeStyle, lineWidth }).stroke(new Path2D(path)); }
  text(x, y, text, size, fill, align = "left", bold = false) {
    const font = fontOf(size, bold);
    if (this.font !== font) this.context.font = this.font = font;
    Object.assign(this.context, { fillStyle: fill, textAlign: align, textBaseline: "middle" }).fillText(text, x, y);
  }
  clip(x, y, w, h) {
    this.context.save();
    this.context.clip(new Path2D(`M${x} ${y}h${w}v${h}h${-w}z`));
  }
  free() { this.context.restore(); this.font = null; }
  fade(alpha) { this.context.globalAlpha = alpha; }
}

class SvgPen {
  constructor(width, height, title, about) {
    this.frame = { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "font-family": FAMILY };
    this.marks = [element("title", {}, escaped(title)), element("desc", {}, escaped(about))];
    this.fade(1);
  }
  get page() { return element("svg", { xmlns: "http://www.w3.org/2000/svg", ...this.frame }, this.marks.join("\n")); }
  put(name, attributes, inside) { this.marks.push(element(name, { ...attributes, ...this.faded }, inside)); }
  rect(x, y, width, height, fill) { this.put("rect", { x, y, width, height, fill }); }
  shape(points, fill) { this.put("polygon", { points: points.map(rounded).join(" "), fill }); }
  box(x, y, width, height, stroke, line = 1) { this.put("rect", { x, y, width, height, fill: "none", stroke, "stroke-width": line }); }
  dashed(d, stroke, between) { this.line(d, between, 1.5); this.put("path", { d, stroke, "stroke-width": 1.5, "stroke-dasharray": "4 3" }); }
  line(d, stroke, line = 1) { this.put("path", { d, stroke, "stroke-width": line, fill: "none" }); }
  text(x, y, text, size, fill, align = "left", bold = false) {
    const style = { "text-anchor": { left: "start", right: "end", center: "middle" }[align], "dominant-baseline": "central" };
    this.put("text", { x, y, fill, "font-size": size, "font-weight": bold ? "bold" : "normal", ...style }, escaped(text));
  }
  clip(x, y, width, height) {
    const id = `c${this.marks.length}`;
    this.marks.push(element("clipPath", { id }, element("rect", { x, y, width, height })), `<g clip-path="url(#${id})">`);
  }
  free() { this.marks.push("</g>"); }
  fade(opacity) { this.faded = opacity < 1 ? { opacity } : {}; }
}

// The spans of the window of a run, each once, as its files have them.
function spansOf(layout, run) {
  const spans = exported(run).flatMap((s) => Array.from(s.start, (start, i) => ({ s, start, lasts: s.end[i] - start,
    name: run.ops[s.name[i]] ?? run.names[s.name[i]], step: stepOf(s, i), category: layout.categories[s.category].key })));
  return spans.sort((a, b) => a.start - b.start || b.lasts - a.lasts);
}

// -- painting -------------------------------------------------------------------------------------------------------

// Those parts of a heading that find room, the first one at least; that other programs are busy is said before the cause.
function fitting(parts, room, bold) {
  while (parts.length > 1 && textWidth(joined(...parts), 12, bold) > room) parts.splice(parts.findLastIndex((part, k) => k && !`${part}`.startsWith("other ")), 1);
  return joined(...parts);
}

// Draw the lanes and the axis; `all` of the lanes, or those that are scrolled into sight.
function paint(view, pen, top, width, height, all = false) {
  const { colours, left, right, matches, plan, compared } = view, below = top + height - AXIS, room = view.lanesHeight();
  const scroll = all ? 0 : view.scroll = clamp(view.scroll, 0, plan.height - room);
  view.seen = new Set();
  pen.rect(0, top, width, height, colours.background);
  pen.clip(0, top, width, height - AXIS);
  for (const head of plan.heads) {
    const { label, heading, edge } = view.layout.runs[head.run], y = top + head.y - scroll + head.h / 2;
    const parts = [label, compared && `first ${compared} ${view.layout.counted}${compared > 1 ? "s" : ""}: ${duration(edge[compared], view.layout)}`, ...heading.split(" · ")];
    pen.text(4, y, elide(fitting(parts, right - 12, true), right - 12, 12, true), 12, colours.ink, "left", true);
  }
  const visible = plan.items.filter((p) => p.y - scroll + p.h > 0 && p.y - scroll < height);
  for (const p of visible) {
    const y = top + p.y - scroll, middle = y + p.h / 2, bold = p.lane.kind === "accelerator";
    pen.rect(left, y, Math.max(Math.min(view.x(p.facts.span_ns), right) - left, 0), p.h, colours.lane);
    pen.text(left - 6, middle, elide(p.name, left - 12, 12, bold), 12, colours.ink, "right", bold);
    if (right < width - 20 && !p.band) pen.text(right + 6, middle, p.lane.busy, 12, colours.ink, "left", bold);
    if (p.band) paintScale(view, pen, p, y);
  }
  pen.clip(left, top, right - left, height - AXIS);
  for (const p of visible) {
    const y = top + p.y - scroll, end = compared ? view.x(p.facts.edge[compared]) : Infinity;
    view.until = end + 1;
    paintSteps(view, pen, p, y);
    if (p.lane.index === 0) paintGaps(view, pen, p, y);
    if (p.band) paintBand(view, pen, p, y);
    for (const row of p.lane.rows) {
      const high = y + row.y, h = row.h;
      pen.fade(matches ? FADED : 1);
      paintRow(view, pen, row.series, high, h);
      pen.fade(1);
      if (matches) paintRow(view, pen, row.series.flatMap((s) => matches.series.get(s) ?? []), high, h, true);
    }
    if (!compared) continue; // what follows is pale and without words: the lengths that are seen are those of the same work
    veil(pen, 0.8, end, y, right - end, p.h, colours.background);
    pen.rect(end - 1, y, 2, p.h, colours.ink);
  }
  pen.free();
  paintOutlines(view, pen, top - scroll, !all && view.tour?.stops[[0, 1, 1][view.tour.step]]);
  pen.free();
  paintAxis(view, pen, below);
  if (view.measured) paintMeasure(view, pen, top, below);
  if (!all && plan.height > room + 1) { // a bar shows that there is more above or below
    pen.rect(width - 4, top + scroll / plan.height * room, 3, room * room / plan.height, colours.muted);
  }
}

function paintSteps(view, pen, { facts: { edge }, h }, y) {
  const n = edge.length;
  if (n < 2 || (edge[n - 1] - edge[0]) / (n - 1) < 12 * view.pixel) return;
  for (const t of edge.subarray(above(edge, view.first), above(edge, view.last))) pen.rect(view.x(t) - 0.4, y, 0.8, h, view.colours.line);
}

function paintRow(view, pen, list, y, h, outlined = false) {
  const { first, last, left, pixel, colours } = view, room = view.right - left;
  // Where most spans are too short to be seen, columns of four pixels: single ones would be noise.
  const count = list.reduce((sum, s) => sum + above(s.start, last) - above(s.end, first), 0);
  const size = count > room / 3 ? 4 : 1, width = Math.max(Math.ceil(room / size), 1), base = new Float64Array(width);
  const end = first + width * size * pixel; // columns of whole pixels; the last one may lie beyond the edge
  const found = list.map((s) => columns(s, first, end, width, WIDE * pixel));
  list.forEach((s, k) => view.shown(s).forEach(([layer, from, to]) => {
    paintShare(view, pen, to - from < 1 ? found[k].share.map((part) => part * (to - from)) : found[k].share, base, size, y, h, layer);
  }));
  list.forEach((s, k) => found[k].wide.forEach((i, n, wide) => {
    const [x, x2] = view.edges(s.start[i], s.end[i], 2), next = s.start[wide[n + 1]];
    paintSpan(view, pen, s, i, x, y, x2 - x, h, next > s.start[i] && next < s.end[i] ? view.x(next) - x : x2 - x); // the next one may cover it
    if (outlined) pen.box(x + 0.5, y + 0.5, x2 - x - 1, h - 1, colours.ink);
  }));
}

// How many threads of a band do what, in columns of four pixels; work on more cores than there are waits for a core.
function paintBand(view, pen, p, y) {
  const { series, band: { most, cores }, h } = p, { first, left, pixel, layout } = view;
  const width = Math.max(Math.ceil((view.right - left) / 4), 1), base = new Float64Array(width), end = first + width * 4 * pixel;
  const threads = layout.layers.map(() => new Float64Array(width)), filled = layout.layers.filter(({ look }) => look === "filled").length;
  for (const s of series) {
    const { share } = columns(s, first, end, width, Infinity);
    for (const [layer, from, to] of s.parts) for (let c = 0; c < width; c++) threads[layer][c] += share[c] * (to - from);
  }
  for (let c = 0; cores && c < width; c++) {
    let work = 0;
    for (let k = 0; k < filled; k++) work += threads[k][c];
    for (let k = 0; work > cores && k < filled; k++) threads[k][c] *= cores / work;
    threads[layout.core_wait][c] += Math.max(work - cores, 0);
  }
  p.threads = threads;
  threads.forEach((share, layer) => {
    if (!view.hidden.has(layer)) paintShare(view, pen, share.map((part) => part / most), base, 4, y, h, layer);
  });
  if (!cores) return;
  pen.dashed(`M${left} ${y + h * (1 - cores / most)}H${view.right}`, view.colours.ink, view.colours.background);
  view.seen.add(layout.layers.length - 1);
}

// Beside a band: how many threads its height stands for, and the number of cores at its dashed line.
function paintScale({ colours: { muted }, left, right, width }, pen, { band: { most, cores }, h }, y) {
  if (h > 44) for (const [number, at] of [[most, y + 6], [0, y + h - 2]]) pen.text(left - 6, at, String(number), 10, muted, "right");
  if (cores && right < width - 20) pen.text(right + 6, Math.max(y + h * (1 - cores / most), y + 6), `${cores} core${cores > 1 ? "s" : ""}`, 11, muted);
}

// Stack shares of columns on those in `base`: many columns beside each other as one shape, along its top and back. What
// is hollow has a line on its top.
function paintShare(view, pen, share, base, size, y, h, layer) {
  const { left, colours } = view, n = share.length, bottom = y + h, { look } = view.layout.layers[layer];
  const inside = colours[["filled", "idle"].includes(look) ? "fill" : "tint"][layer];
  for (let c = 0; c < n; c++) {
    if (!share[c]) continue;
    const from = c, points = [];
    const step = (a, b, high) => points.push(left + a * size, bottom - high * h, left + b * size, bottom - high * h);
    while (c < n && share[c]) c++;
    const least = c - from < 3 ? 0.5 / h : 0; // what stands alone is seen
    for (let k = from; k < c; k++) step(k, k + 1, Math.min(base[k] + Math.max(share[k], least), 1)); // kernels overlap
    const top = look === "hollow" && `M${points.map(rounded).join(" ").replace(/^(\S+ \S+) /, "$1L")}`;
    for (let k = c - 1; k >= from; k--) step(k + 1, k, base[k]);
    pen.shape(points, inside);
    if (top) pen.line(top, colours.fill[layer]);
    if (h * Math.max(least, ...share.slice(from, c)) >= 0.4) view.seen.add(layer); // what is too low to be seen needs no sample
  }
  for (let c = 0; c < n; c++) base[c] += share[c];
}

function paintSpan(view, pen, s, i, x, y, w, h, free) {
  const { fill, on, tint, ink, background } = view.colours, { layers, runs, categories } = view.layout, shown = view.shown(s);
  for (const [layer, from, to] of shown) {
    const { look } = layers[layer], top = y + h * (1 - to), high = h * (to - from);
    view.seen.add(layer);
    if (look === "idle") return paintIdle(view, pen, x, y, w, h);
    if (look === "outline") return pen.box(x + 0.5, y + 0.5, w - 1, h - 1, fill[layer]);
    pen.rect(x, top, w, high, look === "hollow" ? tint[layer] : fill[layer]);
    if (look === "hollow" && high > 2) pen.box(x + 0.5, top + 0.5, w - 1, high - 1, fill[layer]);
  }
  if (!shown.length) return;
  if (w > 4 && h > 3) pen.rect(x + w - 0.6, y, 0.6, h, background); // neighbours of one colour stay two
  if (h < 10 || w < 16 || x + w > view.until) return;
  const step = stepOf(s, i), train = categories[s.category].key === "train" && step >= 0, name = train ? `step ${step}` : runs[s.run].names[s.name[i]];
  const [layer, from, to] = shown.reduce((one, other) => other[2] - other[1] > one[2] - one[1] ? other : one), mixed = to - from < 1;
  const fits = (choice) => textWidth(choice, 11) + (mixed ? 20 : view.layout.cycle_ns ? 2 : 8) <= free, hollow = layers[layer].look === "hollow";
  const words = [name, train ? `${step}` : layers[s.layer].label.split(": ").pop()].find(fits), size = words && textWidth(words, 11) + 8;
  if (!words) return; // whole words, or none; behind them the ground is that of the larger part alone
  if (mixed) pen.rect(x + (free - size) / 2, y + 1, size, h - 2, hollow ? tint[layer] : fill[layer]);
  pen.text(x + free / 2, y + h / 2 + 0.5, words, 11, hollow ? ink : on[layer], "center");
}

// Idle time: in its strong colour, with the first of several words that fits.
function paintIdle(view, pen, x, y, w, h, ...choices) {
  view.seen.add(view.idle);
  pen.rect(x, y, w, h, view.colours.gap);
  const words = h > 12 && w > 30 && x + w <= view.until && choices.find((choice) => textWidth(choice, 11, true) + 8 < w); // measuring takes its time
  if (words) pen.text(x + w / 2, y + h / 2 + 0.5, words, 11, view.colours.on_gap, "center", true);
}

function paintGaps(view, pen, p, y) {
  const { gap, gaps } = p.facts, width = Math.max(Math.ceil(view.right - view.left), 1);
  // What is too short for a block hangs from above: work stands below.
  const { share } = columns(gap, view.first, view.first + width * view.pixel, width, WIDE * view.pixel);
  paintShare(view, pen, share, share.map((part) => 1 - part), 1, y, p.h, view.idle);
  for (let i = above(gap.end, view.first); i < gap.start.length && gap.start[i] < view.last; i++) {
    if (gap.length[i] < WIDE * view.pixel) continue;
    const [x, x2] = view.edges(gap.start[i], gap.end[i], 3), words = duration(gap.length[i], view.layout), kind = gaps.kinds[gap.kind[i]];
    paintIdle(view, pen, x, y, x2 - x, p.h, ...(kind === "unknown" ? [] : [`idle ${words}: ${kind}`, `${words} ${kind}`, kind]), words);
  }
}

// Outline what is selected, and for a gap the span it waited for, with an arrow to it; and most of all what is asked for.
function paintOutlines(view, pen, top, asked) {
  const { selected, colours: { ink, background } } = view;
  const [chosen, waited] = [selected, selected?.cause, asked].map((item) => {
    const p = item && view.placeOf(item.run, item.lane), [x, x2] = p ? view.edges(item.from, item.to, 4) : [0, -1];
    if (x2 < x) return null;
    const { y, h } = !p.band && item.row || { y: 0, h: p.lane.height ?? p.h }, around = [x - 1, top + p.y + y - 1, Math.max(x2 - x, 2) + 2, h + 2];
    for (const [colour, width] of [[background, 5], [ink, 2.5]]) pen.box(...around, colour, item === asked ? 1.6 * width : width);
    return { x, x2, high: top + p.y + y, low: top + p.y + y + h, tip: top + p.y + y + (p.band ? 10 : -2) };
  });
  if (!chosen || !waited) return;
  // From the edge of the gap, whose words stand inside, to the edge of a span beside its words, or into the band.
  const to = Math.min(waited.x + 7, (waited.x + waited.x2) / 2), from = clamp(to, chosen.x, chosen.x2), { tip } = waited;
  const path = `M${rounded(from)} ${rounded(chosen.low + 1)}L${rounded(to)} ${rounded(tip - 8)}`;
  for (const [colour, width] of [[background, 7], [ink, 2.5]]) pen.line(path, colour, width);
  pen.shape([to, tip, to - 7, tip - 10, to + 7, tip - 10], ink);
}

function paintAxis(view, pen, y) {
  const { left, right, width, colours: { muted } } = view, cycle = view.layout.cycle_ns, unit = cycle || (view.last - view.first < 2e4 ? 1e3 : 1e6);
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
  pen.text(left - 30, y + 12, cycle ? "cycles" : unit === 1e6 ? "ms" : "µs", 11, muted, "right");
}

function paintMeasure(view, pen, top, below) {
  const { ink, background } = view.colours, { left, right, measured } = view;
  const [a, b] = view.edges(measured.from, measured.to, 0);
  if (b < a) return;
  veil(pen, 0.14, a, top, b - a, below - top, ink);
  for (const x of [a, b]) pen.rect(x - 0.75, top, 1.5, below - top, ink);
  const words = duration(measured.to - measured.from, view.layout), size = textWidth(words, 12, true) + 8;
  const x = clamp((a + b) / 2, left + size / 2, right - size / 2);
  pen.rect(x - size / 2, below - 18, size, 16, background);
  pen.box(x - size / 2, below - 18, size, 16, ink);
  pen.text(x, below - 9.5, words, 12, ink, "center", true);
}

// The sample of a layer in a legend.
function paintSample(view, pen, x, y, w, h, layer) {
  const { fill, tint, ink, background } = view.colours, { look } = view.layout.layers[layer];
  if (look === "line") return pen.dashed(`M${x} ${y + h / 2}h${w}`, ink, background);
  if (look !== "outline") pen.rect(x, y, w, h, look === "hollow" ? tint[layer] : fill[layer]);
  if (["hollow", "outline"].includes(look)) pen.box(x + 0.75, y + 0.75, w - 1.5, h - 1.5, fill[layer], 1.5);
}

// Title, lanes and legend as one picture, with the pen that is made for a height.
function paintSheet(view, penOf) {
  const { colours, width, layout } = view, body = view.plan.height + AXIS;
  const lines = [layout.title, ...(view.plan.heads.length ? [] : layout.runs.map((run) => run.head))], top = 10 + lines.length * 18;
  const all = layout.layers.map(({ label }, layer) => ({ label, layer })), legend = all.filter(({ layer }) => view.seen.has(layer));
  const cell = Math.max(0, ...legend.map(({ label }) => textWidth(label, 12))) + 52;
  const across = Math.max(Math.floor((width - 8) / cell), 1), height = top + body + 14 + Math.ceil(legend.length / across) * 20;
  const pen = penOf(height);
  pen.rect(0, 0, width, height, colours.background);
  lines.forEach((line, k) => {
    const size = k ? 12 : 14;
    pen.text(10, 16 + k * 18, elide(line, width - 20, size, !k), size, k ? colours.muted : colours.ink, "left", !k);
  });
  paint(view, pen, top, width, body, true);
  legend.forEach(({ layer, label }, k) => {
    const x = 10 + k % across * cell, y = top + body + 18 + Math.floor(k / across) * 20;
    paintSample(view, pen, x, y - 6, 24, 12, layer);
    pen.text(x + 30, y, label, 12, colours.ink);
  });
  return pen;
}

// -- words ----------------------------------------------------------------------------------------------------------

function spanWords(layout, { series: s, i, from, to }) {
  const run = layout.runs[s.run], lane = run.lanes[s.lane].name, [thread, kind] = run.threads[s.thread], name = run.names[s.name[i]];
  const step = stepOf(s, i), during = run.number[above(run.edge, from) - 1];
  const when = step >= 0 ? `${layout.counted} ${step}` : during === undefined ? "" : `during ${layout.counted} ${during}`;
  const { label } = layout.layers[s.around ? s.layer : s.share ? s.layer : s.waits], part = s.share > 0 && s.share < 1;
  const what = joined(duration(to - from, layout), label, part && `${percent(s.share)} of it on a core, else ${layout.layers[s.waits].label}`);
  const where = joined(`${kind === "unit" ? kind : "thread"} ${thread}`, lane !== thread && `lane ${lane}`, run.label);
  return [name, what, where, between(from, to, layout), joined(when, ordinal(layout, run, s.name[i], from))];
}

// How many spans of this name began before: one operation per image, or row or text, makes it the number of that.
function ordinal(layout, run, name, t) {
  const starts = exported(run).flatMap((s) => named(s, new Set([name])).map((i) => s.start[i]));
  const all = starts.length, place = starts.filter((start) => start < t).length + 1;
  const image = run.images && Math.abs(all - run.images) <= 0.1 * run.images;
  return image ? `${run.noun} ${grouped(place)} of ${grouped(all)} by order of start` : `${grouped(place)} of ${grouped(all)} of this name`;
}

function gapWords(layout, { run: r, i, from, to, cause }, outlined) {
  const run = layout.runs[r], { gap, gaps } = run, name = run.names[gap.for_name[i]], lane = run.lanes[cause?.lane]?.name;
  const head = `Gap ${grouped(i + 1)} of ${grouped(gap.start.length)}${run.label ? `, ${run.label}` : ""}: ${duration(to - from, layout)}`;
  return [
    `${head}, ${between(from, to, layout)}`,
    gaps.texts[i] ?? `Mostly ${gaps.kinds[gap.kind[i]]}${name ? `: ${name}` : ""}.`,
    gaps.parts[i] && `of which ${gaps.parts[i]}`,
    lane && `Waited for ${name || "span"} on ${lane}, ${between(cause.from, cause.to, layout)}${outlined ? " (outlined)" : ""}.`,
  ];
}

// The span that a gap waited for; null where none is known.
function causeOf({ runs }, { run, i, cause }) {
  const list = cause ? runs[run].lanes[cause.lane].rows.flatMap((row) => row.series) : [];
  const same = ({ series, i: k, from, to }) => from === cause.from && to === cause.to && series.name[k] === runs[run].gap.for_name[i];
  return list.map((s) => itemOf(s, above(s.start, cause.from) - 1)).find(same) ?? null;
}

// A gap, what it waited for, and the work on one photo: the shortest span around that of which there is one for each image.
function stopsFrom(layout, gap) {
  const cause = causeOf(layout, gap), run = layout.runs[gap.run], size = ({ from, to }) => to - from;
  const place = ({ series, i, from }) => ordinal(layout, run, series.name[i], from);
  const threads = layout.series.filter((s) => cause && s.run === gap.run && run.lanes[s.lane].kind === "pipeline");
  const around = threads.map((s) => itemOf(s, above(s.start, cause.from) - 1)).filter((open) => open.to >= cause.to && size(open) > size(cause));
  const photo = around.sort((a, b) => size(a) - size(b)).find((open) => place(open).startsWith(`${run.noun} `));
  const words = photo && [`One ${run.noun === "image" ? "photo" : run.noun}: ${place(photo)}`, `${duration(size(photo), layout)} from the first operation to the last one`];
  return photo ? [gap, cause, { ...photo, words }] : null;
}

function measureWords(layout, { from, to }) {
  const lines = [`Measured: ${duration(to - from, layout)}, ${between(from, to, layout)}`];
  for (const { gap, edge, span_ns, label } of layout.runs) {
    const idle = gap.start.reduce((sum, t, i) => sum + Math.max(Math.min(gap.end[i], to) - Math.max(t, from), 0), 0);
    const end = Math.min(to, span_ns), steps = above(edge, to, 1) - above(edge, from, 1);
    const ends = steps === 1 ? `1 ${layout.counted} ends here` : `${grouped(steps)} ${layout.counted}s end here`;
    if (end > from) lines.push(`${label ? `${label}: ` : ""}${layout.idle} ${duration(idle, layout)} (${percent(idle / (end - from))}), ${ends}`);
  }
  return lines;
}

// -- the page -------------------------------------------------------------------------------------------------------

// Light or dark: what JupyterLab, Colab or VS Code says, or else the browser.
function themeOf() {
  const body = document.body.dataset, root = document.documentElement;
  const stated = [body.jpThemeLight, root.getAttribute("theme"), root.dataset.theme, root.dataset.jpThemeLight, body.theme,
    body.vscodeThemeKind, matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"];
  return /dark|false/.test(stated.find(Boolean)) ? "dark" : "light";
}

// One watch over all timelines of a page. It looks for them there, and so keeps none that is gone.
function watch() {
  const redraw = () => document.querySelectorAll(".labkit-timeline").forEach(({ timeline }) => timeline?.later());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const attributeFilter = ["data-jp-theme-light", "theme", "data-theme", "class", "data-vscode-theme-kind"];
  const themes = new MutationObserver(redraw);
  for (const node of [document.body, document.documentElement]) themes.observe(node, { attributes: true, attributeFilter });
  // JupyterLab, which listens next, leaves all keys to what is so marked; its own, such as Ctrl+S, it must get.
  window.addEventListener("keydown", (event) => {
    const node = event.target.closest?.(".labkit-timeline") && event.target;
    node?.toggleAttribute("data-lm-suppress-shortcuts", !withModifier(event));
  }, true);
  return true;
}

globalThis.labkitWatched ??= watch();
const sizes = new ResizeObserver((all) => all.forEach(({ target, contentRect }) => target.timeline.resize(contentRect.width)));
const sights = new IntersectionObserver((entries) => entries.forEach(({ target }) => target.timeline.later()));

export class View {
  constructor(el, data, look) {
    el.insertAdjacentHTML("beforeend", look.page);
    const root = el.lastElementChild;
    Object.assign(this, { el, root, look, hidden: new Set(), seen: new Set(), mode: look.mode ?? "band", scroll: 0, painted: 0 });
    this.range = look.last ? { first: 0, last: look.last } : {}; // the part of the axis that is seen, if it is not all
    for (const node of root.querySelectorAll("[data-part]")) this[node.dataset.part] = node;
    for (const node of root.querySelectorAll("button")) node.title = node.getAttribute("aria-label");
    root.timeline = this;
    root.onclick = ({ target }) => this.act(target.closest("button"));
    takeKeys(this);
    takePointer(this);
    for (const watch of [sizes, sights]) watch.observe(root);
    this.update(data);
  }

  // What a button or a key does: the name of a method and its values.
  act(node) {
    const [method, ...values] = JSON.parse(node?.dataset.act ?? "[]");
    this[method]?.(...values);
  }

  button(name) { return this.root.querySelector(`[name=${name}]`); }
  press(node, on, words) { node.ariaPressed = String(on); this.say(words); this.later(); }
  say(words) { this.live.textContent = words; }
  get spoken() { return [...this.detail.children].map((node) => node.textContent).filter(Boolean).join(": "); }
  wordsOf(item) { return item.words ?? (item.row ? spanWords(this.layout, item) : gapWords(this.layout, item, item.cause && this.placeOf(item.run, item.cause.lane))); }

  destroy() {
    for (const watch of [sizes, sights]) watch.unobserve(this.root);
    this.layout = null;
    this.root.remove();
  }

  // Show another layout; the part of the axis that is seen stays, unless all of it was seen.
  update(data) {
    const layout = this.layout = parse(data), [run] = layout.runs, at = this.look.points;
    this.first = 0;
    this.last = this.span = Math.max(layout.span_ns, 1);
    this.keep(this.range);
    this.measured = this.themeName = null; // from and to; what the colours are for
    this.selected = at ? { ...itemOf(run.gap, at.gap), cause: { run: 0, ...at } } : null; // see itemOf; what a page points at
    this.idle = layout.layers.findIndex(({ look }) => look === "idle");
    this.title.textContent = layout.title;
    this.about.textContent = layout.runs.map(({ label, headline, figures }) => joined(label, headline, figures)).join("\n");
    this.legend.innerHTML = layout.layers.map((entry, layer) => this.legendEntry(entry, layer)).join("");
    this.find(this.search.value);
    this.tables();
    this.describe();
    this.sentence();
  }

  // The part of the axis that was seen before, if it was a part and is still there.
  keep({ first, last, toured }) {
    if (first < this.span) this.show(first, Math.min(last, this.span), true);
    this.range.toured = toured;
    this.startTour();
  }

  // Where the rows stand.
  get plan() { return this.layout.layouts[this.mode]; }
  // The parts of a series that are not hidden.
  shown({ inLane }) { return this.hidden.size ? inLane.filter(([layer]) => !this.hidden.has(layer)) : inLane; }
  placeOf(run, lane) {
    const mine = this.plan.items.filter((p) => p.run === run);
    return mine.find((p) => p.lane.index === lane) ?? mine.find((p) => p.band?.lanes.includes(lane));
  }
  lanesHeight() { return Math.min(this.plan.height, 520 - AXIS); }

  legendEntry({ label, look }, layer) {
    const inside = `<canvas aria-hidden="true"></canvas><span>${label}</span>`, act = JSON.stringify(["hide", layer]);
    const press = { title: `${label}: press to hide or show`, "aria-pressed": !this.hidden.has(layer), "data-act": act };
    const key = ["filled", "hollow"].includes(look);
    return element(key ? "button" : "span", { class: "lt-key", "data-layer": layer, ...key && press }, inside);
  }

  hide(layer) {
    const shown = this.hidden.delete(layer), { label } = this.layout.layers[layer];
    if (!shown) this.hidden.add(layer);
    this.press(this.legend.children[layer], shown, `${label} ${shown ? "shown" : "hidden"}`);
  }

  // What is not in view has no sample in the legend.
  weedLegend() {
    [...this.legend.children].forEach((node, layer) => { node.hidden = !this.seen.has(layer) && !this.hidden.has(layer); });
  }

  // Paint anew what no zoom changes: the heading and the samples of the legend.
  recolour(theme, width) {
    const { root, layout } = this, look = layout.themes[theme], [{ heading }, other] = layout.runs;
    const room = width > 560 ? width - 176 - textWidth(layout.title, 14, true) : Infinity; // one line, but for a phone
    this.heads.textContent = other || this.look.heading === false || !heading ? "" : ` · ${fitting(heading.split(" · "), room)}`;
    const names = Object.values(layout.layouts).flatMap(({ items }) => items).map(({ name }) => textWidth(name, 12, true) + 14);
    Object.assign(this, { themeName: theme, width, colours: look });
    this.left = Math.round(Math.min(Math.max(84, ...names), 0.32 * width, NAMES));
    for (const [key, value] of Object.entries(look)) root.style.setProperty(`--${key}`, value);
    this.legend.querySelectorAll("canvas").forEach((canvas, k) => {
      paintSample(this, new CanvasPen(canvas, 24, 13), 0, 0, 24, 13, k);
    });
  }

  later() { this.frame ??= requestAnimationFrame(() => { this.frame = null; this.redraw(); }); }
  resize(width) { this.observed = width; this.later(); } // what the observer compares the next width with

  redraw() {
    if (!this.layout) return; // gone
    // Out of the page, as the cells that JupyterLab has scrolled away, or between two style sheets: the observer reports
    // the return of a width only where it has reported the 0; until then, try every frame.
    if (!this.root.clientWidth) return this.observed && this.later();
    const theme = themeOf(), width = Math.max(this.root.clientWidth - 16, 120);
    if (theme !== this.themeName || width !== this.width) this.recolour(theme, width);
    this.height = this.lanesHeight() + AXIS;
    this.canvas.style.height = `${this.height}px`;
    paint(this, new CanvasPen(this.canvas, this.width, this.height), 0, this.width, this.height);
    this.weedLegend();
    this.root.dataset.painted = ++this.painted;
  }

  get right() { return this.width - (this.width > 420 ? RIGHT : 8); }
  get pixel() { return (this.last - this.first) / (this.right - this.left); }
  // Of two runs that are shown from their start for the same number of steps: how many (the faster one may have taken twice as many by then); else 0.
  get compared() {
    const { runs } = this.layout, asked = runs.length > 1 && this.first === 0 && this.last === this.look.last;
    return (asked && runs.map(({ edge }) => edge.indexOf(this.last)).find((n) => n > 0 && runs.every(({ edge }) => edge[n] <= this.last))) || 0;
  }
  x(t) { return this.left + (t - this.first) / this.pixel; }
  edges(from, to, beyond) { return [Math.max(this.x(from), this.left - beyond), Math.min(this.x(to), this.right + beyond)]; }
  timeAt(x) { return this.first + (x - this.left) * this.pixel; }

  show(first, last, quiet = false) {
    const size = clamp(last - first, Math.min(100, this.span), this.span);
    this.first = clamp((first + last - size) / 2, 0, this.span - size);
    this.last = this.first + size;
    Object.assign(this.range, size < this.span ? { first: this.first, last: this.last } : { first: undefined });
    this.describe(quiet ? "" : `${duration(this.first, this.layout)} to ${duration(this.last, this.layout)}`);
    this.later();
  }

  zoom(factor, at = (this.first + this.last) / 2) {
    if (factor < 1 && this.tour?.step === 2) return this.step();
    const now = this.last - this.first, size = clamp(now * factor, Math.min(100, this.span), this.span);
    const first = clamp(at - (at - this.first) / now * size, 0, this.span - size);
    this.show(first, first + size);
  }

  pan(share) { const by = share * (this.last - this.first); this.show(this.first + by, this.last + by); }
  all() { this.show(0, this.last - this.first < this.span ? this.span : this.look.last ?? this.span); }
  scrollBy(pixels) { this.scroll += pixels; this.later(); }

  fit() {
    const what = this.measured ?? this.selected ?? { from: 0, to: this.span }, [from, to] = hull(what, this.measured ? null : what.cause);
    this.show(from - (to - from) * 0.05, to + (to - from) * 0.05);
  }

  // From the band to lanes of the threads that do something, to all lanes, and back.
  lanes() {
    const modes = Object.keys(this.layout.layouts), k = (modes.indexOf(this.mode) + 1) % modes.length;
    this.mode = modes[k];
    this.press(this.button("lanes"), k > 0, ["all threads in one band", "a lane for each thread that works", "all lanes"][k]);
  }

  // The lane under a place of the canvas, and the span or the gap of the accelerator there; null outside.
  hit(x, y) {
    if (x < 0 || x > this.width || y < 0 || y >= this.height - AXIS) return null;
    const at = y + this.scroll, place = this.plan.items.find((p) => at >= p.y && at < p.y + p.h);
    if (!place || x < this.left || x > this.right) return place ? { place } : null;
    const t = this.timeAt(x), reach = 2 * this.pixel, inside = at - place.y;
    let item = null, least = Infinity;
    const consider = (series, beside) => {
      const [found, far] = nearest(series, t, reach - beside);
      if (found >= 0 && far + beside < least) [item, least] = [itemOf(series, found), far + beside];
    };
    for (const row of place.lane.rows) {
      const off = Math.max(row.y - inside, inside - row.y - row.h, 0), shown = row.series.filter((s) => this.shown(s).length);
      if (off < 1) for (const s of shown) consider(s, off && reach / 4);
    }
    if (place.lane.index === 0) consider(place.facts.gap, 0);
    const near = ({ run, lane, from, to }) => this.placeOf(run, lane) === place && t >= from - 3 * reach && t <= to + 3 * reach;
    if (place.band) item = this.outlined.find(near);
    return { place, item };
  }

  // Spans that are outlined: the cause of the selected gap, the selected one, and that of the tour.
  get outlined() { return [causeOf(this.layout, this.selected ?? {}), this.selected, this.tour?.stops[1]].filter((item) => item?.row); }

  hover(x, y) {
    const { place, item } = this.hit(x, y) ?? {}, lane = place?.lane;
    let lines = null;
    if (item?.row) lines = this.wordsOf(item);
    else if (item) lines = [...this.wordsOf(item).slice(0, 2), item.cause && "click for the span it waited for"];
    else if (place?.band) lines = this.threadsAt(place, x);
    else if (lane && x < this.left) lines = [lane.name, `${lane.busy} busy · spans: ${lane.spans}`, lane.note];
    this.canvas.style.cursor = item ? "pointer" : "default";
    this.tip.hidden = !lines;
    if (!lines) return;
    write(this.tip, lines);
    const { width, height } = this.root.getBoundingClientRect(), { offsetWidth, offsetHeight } = this.tip;
    const right = this.canvas.offsetLeft + x + 14, below = this.canvas.offsetTop + y + 18;
    this.tip.style.left = `${clamp(right, 4, width - offsetWidth - 4)}px`;
    this.tip.style.top = `${below + offsetHeight > height ? Math.max(below - offsetHeight - 28, 0) : below}px`;
  }

  // What the threads of a band do at a place: how many in each layer.
  threadsAt({ threads, band }, x) {
    const column = Math.floor((x - this.left) / 4), known = threads?.map((layer) => layer[column] ?? 0) ?? [];
    const words = known.flatMap((many, k) => many >= 0.05 ? [`${grouped(many, 1)} ${this.layout.layers[k].label}`] : []);
    return x < this.left ? ["threads", `${band.busy} on cores on average`] : words.length ? ["threads", ...words] : null;
  }

  select(item) {
    this.selected = item;
    this.sentence();
    this.say(item ? this.spoken : "selection cleared");
    this.later();
    if (item && this.tour?.step < 3) this.moveOn(item);
    if (item && this.look.letter) this.pick(item); // the page asks which step waits, or which lane
  }

  pick({ run, lane, row, from }) {
    const { number, edge, lanes } = this.layout.runs[run], step = row ? null : number[above(edge, from) - 1], { letter } = this.look;
    this.root.dispatchEvent(new CustomEvent("labkit-pick", { bubbles: true, detail: { letter, step, lane: lanes[lane].name } }));
  }

  // Select something, and bring it into sight: a gap with what it waited for, as far as that is not much longer than the
  // gap; a tiny one is magnified.
  go(item) {
    const { from, to, cause, row } = item, lasts = to - from, now = this.last - this.first, tiny = !row && lasts < now / 400;
    const near = cause && { from: Math.max(cause.from, from - 10 * lasts), to: Math.min(cause.to, to + 10 * lasts) };
    const [first, last] = hull(item, near), middle = (first + last) / 2, size = tiny ? 40 * lasts : Math.max(now, 1.3 * (last - first));
    if (tiny || first < this.first || last > this.last) this.show(middle - size / 2, middle + size / 2, true);
    const p = this.placeOf((cause ?? item).run, (cause ?? item).lane), room = this.lanesHeight();
    if (p && (p.y < this.scroll || p.y + p.h > this.scroll + room)) this.scroll = p.y + p.h - room + 8;
    this.select(item);
  }

  // Go to the one after or before what is selected, around at both ends; else, of the first run, the first or last in sight.
  follow(list, way, none) {
    const { series, i } = this.selected ?? {}, now = list.findIndex((item) => item.series === series && item.i === i);
    const before = ({ run, from }) => run === list[0].run && (way > 0 ? from < this.first : from <= this.last);
    const item = list.at((now >= 0 ? now + way : list.filter(before).length + Math.min(way, 0)) % list.length);
    if (item) this.go(item); else this.say(none);
  }

  get gaps() { return this.layout.runs.flatMap(({ gap: g }) => Array.from(g.start, (_, i) => itemOf(g, i))); }
  nextGap(way) { this.follow(this.gaps, way, "there is no gap"); }
  selectGap(run, k) { this.go(itemOf(this.layout.runs[run].gap, k)); }
  cause() { const [item] = this.outlined; if (item) this.go(item); else this.say("first select a gap: press N"); }
  nextMatch(way) { this.follow(this.matches?.list ?? [], way, this.found.textContent); }

  // The tour begins at the first gap that leads to a photo, unless it was made before; it goes on whenever its next stop
  // is selected. Another gap leads to its own photo.
  startTour() {
    const gaps = this.look.tour && !this.range.toured ? this.gaps : [], stops = gaps.map((gap) => stopsFrom(this.layout, gap)).find(Boolean);
    this.tour = stops ? { step: 0, stops } : null;
    this.showTour();
  }

  showTour() {
    const step = this.tour?.step, tick = (k) => k > step ? `${k}<span> to do</span>` : "✓<span> done</span>";
    this.bar.hidden = !this.tour;
    this.button("step").hidden = step > 2;
    this.asks.textContent = this.look.tour?.[step] ?? "";
    this.ticks.innerHTML = [1, 2, 3].map((k) => `<li>${tick(k)}</li>`).join("");
  }

  moveOn(item) {
    const { tour } = this, stops = tour.stops = (!item.row && stopsFrom(this.layout, item)) || tour.stops;
    const k = stops.findIndex(({ series, i }) => series === item.series && i === item.i), [, { from, to }] = stops;
    if (k === 1 && tour.step === 2) return this.step();
    if (k !== tour.step) return;
    this.range.toured = ++tour.step > 2;
    if (tour.step === 1 && (to - from) / this.pixel < 24) this.fit(); // what is to be clicked next is wide enough
    this.showTour();
    this.say(`${this.spoken} ${this.asks.textContent}`);
    this.root.dispatchEvent(new CustomEvent("labkit-tour", { bubbles: true, detail: tour.step }));
  }

  // Do what the tour asks for; a photo is opened: in view with a lane for each thread.
  step() {
    const { step, stops } = this.tour, { from, to } = stops[2];
    if (step < 2) return this.go(stops[step]);
    this.show(from - (to - from) / 20, to + (to - from) / 20, true);
    if (this.mode === "band") this.lanes();
    this.select(stops[2]);
  }

  skip() {
    this.keep({ toured: true });
    this.canvas.focus({ preventScroll: true });
    this.say("the tour is over");
    this.later();
  }

  measure() {
    this.measuring = !this.measuring;
    if (this.measuring) this.measured ??= this.selected; // for the keyboard
    this.sentence();
    this.press(this.button("measure"), this.measuring, this.measuring ? this.spoken : "measuring off");
  }

  find(words) {
    const wanted = words.trim().toLowerCase(), { layout } = this;
    this.matches = null;
    this.found.textContent = "";
    this.later();
    if (!wanted) return;
    const names = layout.runs.map((run) => new Set(run.names.flatMap((name, k) => name.toLowerCase().includes(wanted) ? [k] : [])));
    const series = new Map(), list = [];
    for (const s of layout.series.filter(({ thread }) => thread >= 0)) {
      const lane = layout.runs[s.run].lanes[s.lane], found = named(s, names[s.run]);
      if (!lane.mode || (!lane.export && lane.kind === "accelerator")) continue;
      const [start, end, name, step] = [s.start, s.end, s.name, s.step].map((column) => column && found.map((i) => column[i]));
      const total = [0];
      found.forEach((i, k) => total.push(total[k] + s.end[i] - s.start[i]));
      list.push(...found.map((i) => itemOf(s, i)));
      series.set(s, { ...s, start, end, name, step, total });
    }
    this.matches = { series, list: list.sort((a, b) => a.run - b.run || a.from - b.from) };
    const time = list.reduce((sum, { from, to }) => sum + to - from, 0);
    this.found.textContent = list.length ? `${grouped(list.length)} found, ${duration(time, this.layout)}` : "none found";
    this.say(this.found.textContent);
  }

  seek() { if (this.more.hidden) this.toggle("more"); this.search.focus(); }
  tables() { this.panel.innerHTML = this.panel.hidden ? "" : this.layout.runs.map((run) => run.tables).join(""); }
  clearSearch() { this.search.value = ""; this.find(""); }

  // The name of the canvas for those who cannot see it; with what is seen now.
  describe(words) {
    const part = this.first > 0 || this.last < this.span ? ` Shown: ${duration(this.first, this.layout)} to ${duration(this.last, this.layout)}.` : "";
    this.canvas.setAttribute("aria-label", `${this.layout.alt}${part} Press question mark for keys, T for tables.`);
    if (words) this.say(words);
  }

  sentence() {
    let lines = ["", this.layout.hint];
    if (this.measured) lines = measureWords(this.layout, this.measured);
    else if (this.selected) lines = this.wordsOf(this.selected);
    else if (this.measuring) lines = ["Drag over the lanes to measure."];
    write(this.detail, lines);
  }

  escape() {
    if (this.measuring || this.measured) {
      Object.assign(this, { measuring: true, measured: null });
      this.measure();
    } else if (this.selected) this.select(null);
    else if (this.matches) this.clearSearch();
    else if (!this.help.hidden) this.toggle("help");
    else this.canvas.blur();
  }

  toggle(name) {
    const panel = this[name], button = this.button(name), shown = button.ariaExpanded === "false";
    button.ariaExpanded = String(shown);
    panel.hidden = !shown;
    if (name === "more") return;
    const other = name === "help" ? "panel" : "help"; // one at a time: the second would stand below the first
    if (shown && !this[other].hidden) this.toggle(other);
    if (name === "help") return this.say(panel.innerText); // nothing, while it is hidden
    this.tables();
    (shown ? panel : this.canvas).focus({ preventScroll: true });
  }

  csv() {
    const field = (value) => /[",\r\n]/.test(value) ? `"${value.replace(/"/g, '""')}"` : value;
    const rows = this.layout.runs.flatMap((run) => spansOf(this.layout, run).map(({ s, start, lasts, name, step, category }) => [
      run.label || run.name, run.origin, ...run.threads[s.thread], name, category, BigInt(run.start_ns) + BigInt(start), lasts, step,
    ]));
    const head = "run,origin,thread,kind,name,category,start_ns,duration_ns,step";
    return [head, ...rows.map((row) => row.map(field).join(",")), ""].join("\n");
  }

  // One file for all runs: a page may save but one file a click. Python names the processes and the tracks.
  perfetto() {
    const events = this.layout.runs.flatMap((run) => [
      ...run.perfetto.events,
      ...spansOf(this.layout, run).map(({ s, start, lasts, name, step, category }, k, all) => JSON.stringify({ ph: "X", name,
        cat: category, pid: s.process, tid: s.track, ts: (start - all[0].start) / 1e3, dur: lasts / 1e3,
        args: { category, step, origin: run.origin } })),
    ]);
    const about = JSON.stringify(Object.assign({}, ...this.layout.runs.map((run) => run.perfetto.about)));
    return `{"displayTimeUnit":"ms","otherData":${about},"traceEvents":[\n${events.join(",\n")}\n]}\n`;
  }

  svg() { return paintSheet(this, (height) => new SvgPen(this.width, height, this.layout.title, this.layout.alt)).page; }

  // At once, not with toBlob: a browser may drop a download that comes after the click.
  png() {
    const canvas = document.createElement("canvas"), scale = Math.max(window.devicePixelRatio || 1, 2);
    paintSheet(this, (height) => new CanvasPen(canvas, this.width, height, scale));
    return decoded(canvas.toDataURL("image/png").split(",")[1]);
  }

  save(method, ending, type) {
    const title = this.layout.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60);
    const href = URL.createObjectURL(new Blob([this[method]()], { type })), download = `${title || "timeline"}${ending}`;
    Object.assign(document.createElement("a"), { href, download }).click();
    setTimeout(() => URL.revokeObjectURL(href), 10000);
    this.say(`saved ${download}`);
  }
}

// Words as one bold line and others below it.
function write({ firstChild, lastChild }, [head, ...lines]) {
  firstChild.textContent = head;
  lastChild.textContent = lines.filter(Boolean).join("\n");
}

// The time from the first to the last of two; the second one may be missing.
const hull = (one, other) => [Math.min(one.from, other?.from ?? Infinity), Math.max(one.to, other?.to ?? -Infinity)];

// -- keys, wheel, pointer -------------------------------------------------------------------------------------------

function takeKeys(view) {
  const { canvas, search, help, panel, root } = view, of = (key) => root.querySelector(`:not([hidden]) > [data-keys~="${CSS.escape(key)}"]`);
  root.onkeydown = (event) => { // of the lanes, and of a button, which keeps what presses it
    const node = of(event.key) ?? (event.shiftKey ? null : of(event.key.toLowerCase())), { target, key } = event;
    if (!node || withModifier(event) || !view.layout || (target !== canvas && (!target.closest("button") || /^(Enter|Arrow|Escape)/.test(key)))) return;
    event.preventDefault();
    event.stopPropagation();
    view.act(node);
  };
  for (const [node, name, key] of [[panel, "panel", "t"], [help, "help", "?"]]) node.onkeydown = (event) => {
    if (withModifier(event) || ![key, "Escape"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    view.toggle(name);
    canvas.focus({ preventScroll: true });
  };
  search.oninput = () => view.find(search.value);
  search.onkeydown = (event) => {
    if (event.key === "Enter" && !event.isComposing) view.nextMatch(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") { view.clearSearch(); canvas.focus(); }
    if (!withModifier(event)) event.stopPropagation();
  };
}

// One finger, or the mouse, keeps the time under it, or measures; two fingers keep the two times under them.
function takePointer(view) {
  const { canvas, tip } = view, fingers = new Map();
  let press = null; // where one finger went down, and whether it has moved since
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
    tip.hidden = true;
    press = fingers.size > 1 ? null : { x, y, t: view.timeAt(x), scroll: view.scroll, measure: view.measuring || shiftKey };
  };
  canvas.onpointermove = ({ pointerId, offsetX: x, offsetY: y }) => {
    const finger = fingers.get(pointerId);
    if (!finger) return view.hover(x, y);
    finger.x = x;
    if (press && !press.moved && Math.hypot(x - press.x, y - press.y) < 4) return;
    if (press) press.moved = true;
    if (press?.measure) {
      const [from, to] = [view.timeAt(x), press.t].map((t) => clamp(t, 0, view.span)).sort((one, other) => one - other);
      view.measured = { from, to };
      view.sentence();
    } else move();
    if (press && !press.measure) view.scroll = press.scroll + press.y - y;
    view.later();
  };
  canvas.onpointerup = ({ pointerId }) => {
    fingers.delete(pointerId);
    hold();
    if (press && !press.moved) view.select(view.hit(press.x, press.y)?.item ?? null);
    else if (press?.measure) view.say(view.spoken);
    else if (press) view.describe(`${duration(view.first, view.layout)} to ${duration(view.last, view.layout)}`);
    press = null;
  };
  canvas.onpointercancel = () => { press = null; fingers.clear(); };
  canvas.onpointerleave = canvas.onblur = () => { tip.hidden = true; };
  canvas.ondblclick = (event) => view.zoom(0.25, view.timeAt(event.offsetX));
  canvas.onwheel = (event) => {
    if (document.activeElement !== canvas || event.ctrlKey) return; // the page scrolls, or the browser zooms
    event.preventDefault();
    const { deltaX, deltaY } = event, unit = event.deltaMode ? 30 : 1;
    if (event.shiftKey || Math.abs(deltaX) > Math.abs(deltaY)) view.pan((deltaX || deltaY) * unit / 1000);
    else view.zoom(Math.exp(clamp(deltaY * unit, -400, 400) / 350), view.timeAt(event.offsetX));
  };
}

// A saved page: bytes in base64, compressed.
export async function mount(el, text, look) {
  const stream = new Blob([decoded(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const block = await new Response(stream).arrayBuffer();
  const view = new View(el, block, look), shown = globalThis.labkitShown ??= new Map(), before = shown.get(look.key);
  el.replaceChildren(view.root); // the picture stays where scripts do not run, or this one fails
  if (before && !before.root.deref()?.isConnected) view.keep(before.range); // this page takes the place of that one
  shown.set(look.key, { range: view.range, root: new WeakRef(view.root) });
}

// anywidget.
function render({ model, el }) {
  const view = new View(el, model.get("block"), model.get("look"));
  const changed = () => view.update(model.get("block"));
  model.on("change:block", changed);
  return () => { model.off("change:block", changed); view.destroy(); };
}

export default { render };
