// The interactive timeline. It draws what labkit.scene computed, needs no kernel and no network, and is one plain
// ES module: anywidget calls the default export, a saved page calls mount(). Times are nanoseconds since the start of
// the window, in float64, which holds each of them exactly.

const LONG = 2 ** 32 - 1; // a duration that stands in the column of long ones
const WIDE = 3; // CSS pixels from which a span is drawn as itself
const TYPES = { float64: Float64Array, float32: Float32Array, uint32: Uint32Array, int32: Int32Array,
  uint16: Uint16Array, uint8: Uint8Array, int8: Int8Array };
const KEYS = [
  ["W or +", "zoom in"], ["S or −", "zoom out"], ["A, D or ← →", "earlier, later"], ["↑ ↓", "scroll the lanes"],
  ["0", "everything"], ["f", "fit what is selected or measured"], ["n, p", "next, previous gap of the accelerator"],
  ["/", "search operations; Enter goes on"], ["m", "measure: drag over the lanes"], ["o", "two runs: stacked or overlaid"],
  ["t", "tables"], ["Esc", "clear, then leave"], ["?", "this list"],
  ["mouse", "drag moves; the wheel zooms once the timeline has the focus; double click zooms in"],
];

// -- the block of bytes ---------------------------------------------------------------------------------------------

export function parse(view) {
  let bytes = view instanceof ArrayBuffer ? new Uint8Array(view)
    : new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  if (!bytes.byteLength) return null;
  if (bytes.byteOffset % 8) bytes = bytes.slice();
  const [length] = new Uint32Array(bytes.buffer, bytes.byteOffset, 2);
  const scene = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  const base = bytes.byteOffset + 8 + length;
  const column = (name) => {
    const [type, offset, count] = scene.columns[name];
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
  Object.assign(scene, { start, end, total, name: column("name"), step: column("step"), count: n });
  scene.runs.forEach((run, r) => {
    run.index = r;
    run.gap = { start: column(`gap${r}`), length: column(`gap_length${r}`), step: column(`gap_step${r}`),
      kind: column(`gap_kind${r}`), for_start: column(`for_start${r}`), for_end: column(`for_end${r}`),
      for_lane: column(`for_lane${r}`), for_name: column(`for_name${r}`) };
    run.edge = column(`edge${r}`);
    run.number = column(`step_number${r}`);
    run.strips = [column(`busy${r}`), column(`work${r}`)];
    run.lanes.forEach((lane, k) => {
      lane.index = k;
      for (const row of lane.rows) {
        row.series = row.series.map(([category, thread, first, count, steps]) => ({ category, thread, first, count, steps,
          start: start.subarray(first, first + count), end: end.subarray(first, first + count),
          total: total.subarray(first, first + count + 1), run: r, lane: k }));
      }
    });
  });
  return scene;
}

// Index of the first value above t, in a rising array, from `low` on.
function above(values, t, low = 0, high = values.length) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] > t) high = middle; else low = middle + 1;
  }
  return low;
}

// How long a series is at work before t.
export function covered(series, t) {
  const k = above(series.start, t) - 1;
  if (k < 0) return 0;
  return series.total[k] - series.total[0] + Math.min(t, series.end[k]) - series.start[k];
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

export function duration(ns) {
  if (ns < 1e3) return `${grouped(ns)} ns`;
  if (ns < 1e6) return `${grouped(ns / 1e3, ns < 1e4 ? 2 : 1)} µs`;
  const ms = ns / 1e6;
  return `${grouped(ms, ms >= 999.95 ? 0 : ms >= 9.995 ? 1 : 2)} ms`;
}

const percent = (share) => share > 0 && share < 0.0005 ? "< 0.1 %" : share >= 0.9995 && share < 1 ? "> 99.9 %" : `${(100 * share).toFixed(1)} %`;

// Round numbers for an axis: about `count` of them.
export function ticks(first, last, count) {
  const rough = (last - first) / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999999);
  const found = [];
  for (let k = Math.ceil(first / step - 1e-9); k * step <= last * (1 + 1e-12); k++) found.push(k * step + 0); // no -0
  return { step, at: found };
}

const decimals = (step) => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));

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

class CanvasPen {
  constructor(canvas, width, height, scale) {
    canvas.width = Math.max(Math.round(width * scale), 1);
    canvas.height = Math.max(Math.round(height * scale), 1);
    this.context = canvas.getContext("2d");
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.patterns = new Map();
  }
  rect(x, y, w, h, fill) { this.context.fillStyle = fill; this.context.fillRect(x, y, w, h); }
  box(x, y, w, h, stroke, line = 1) {
    this.context.strokeStyle = stroke;
    this.context.lineWidth = line;
    this.context.strokeRect(x, y, w, h);
  }
  hatch(x, y, w, h, mark, ink) {
    const key = `${mark[0]}${ink}`;
    if (!this.patterns.has(key)) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 8;
      const c = tile.getContext("2d");
      c.strokeStyle = c.fillStyle = ink;
      for (const [kind, ...v] of hatching(mark[0])) {
        c.beginPath();
        if (kind === "dot") { c.arc(v[0], v[1], 0.9, 0, 7); c.fill(); } else { c.moveTo(v[0], v[1]); c.lineTo(v[2], v[3]); c.stroke(); }
      }
      this.patterns.set(key, this.context.createPattern(tile, "repeat"));
    }
    this.rect(x, y, w, h, this.patterns.get(key));
  }
  line(x, y, x2, y2, stroke, line = 1, dash = []) {
    const c = this.context;
    c.strokeStyle = stroke;
    c.lineWidth = line;
    c.setLineDash(dash);
    c.beginPath();
    c.moveTo(x, y);
    c.lineTo(x2, y2);
    c.stroke();
    c.setLineDash([]);
  }
  shape(points, fill) {
    const c = this.context;
    c.fillStyle = fill;
    c.beginPath();
    c.moveTo(points[0], points[1]);
    for (let k = 2; k < points.length; k += 2) c.lineTo(points[k], points[k + 1]);
    c.fill();
  }
  text(x, y, text, size, fill, align = "left", bold = false) {
    const c = this.context, font = `${bold ? "bold " : ""}${size}px ${FONT}`;
    if (this.font !== font) c.font = this.font = font;
    c.fillStyle = fill;
    c.textAlign = align;
    c.textBaseline = "middle";
    c.fillText(text, x, y);
  }
  clip(x, y, w, h) { this.context.save(); this.context.beginPath(); this.context.rect(x, y, w, h); this.context.clip(); }
  free() { this.context.restore(); this.font = null; }
  fade(alpha) { this.context.globalAlpha = alpha; }
}

function hatching(mark) {
  return { "/": [["line", -1, 9, 9, -1], ["line", -5, 5, 5, -5], ["line", 3, 13, 13, 3]],
    "\\": [["line", -1, -1, 9, 9], ["line", 3, -5, 13, 5], ["line", -5, 3, 5, 13]],
    "|": [["line", 2, 0, 2, 8], ["line", 6, 0, 6, 8]], "-": [["line", 0, 2, 8, 2], ["line", 0, 6, 8, 6]],
    x: [["line", -1, -1, 9, 9], ["line", -1, 9, 9, -1]], ".": [["dot", 2, 2], ["dot", 6, 6]] }[mark] ?? [];
}

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c])
  .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
const short = (x) => Math.round(x * 100) / 100;

class SvgPen {
  constructor(width, height) { this.size = [width, height]; this.parts = []; this.marks = new Map(); this.alpha = ""; this.clips = 0; }
  rect(x, y, w, h, fill) {
    this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}" fill="${fill}"${this.alpha}/>`);
  }
  box(x, y, w, h, stroke, line = 1) {
    this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}" fill="none" stroke="${stroke}" stroke-width="${line}"/>`);
  }
  hatch(x, y, w, h, mark, ink) {
    const key = `${mark[0]}${ink}`;
    if (!this.marks.has(key)) {
      const inside = hatching(mark[0]).map(([kind, a, b, c, d]) => kind === "dot"
        ? `<circle cx="${a}" cy="${b}" r="0.9" fill="${ink}"/>` : `<path d="M${a} ${b}L${c} ${d}" stroke="${ink}"/>`);
      this.marks.set(key, `<pattern id="h${this.marks.size}" width="8" height="8" patternUnits="userSpaceOnUse">${inside.join("")}</pattern>`);
    }
    this.rect(x, y, w, h, `url(#h${[...this.marks.keys()].indexOf(key)})`);
  }
  line(x, y, x2, y2, stroke, line = 1, dash = []) {
    this.parts.push(`<path d="M${short(x)} ${short(y)}L${short(x2)} ${short(y2)}" stroke="${stroke}" stroke-width="${line}"${dash.length ? ` stroke-dasharray="${dash}"` : ""}/>`);
  }
  shape(points, fill) {
    const pairs = [];
    for (let k = 0; k < points.length; k += 2) pairs.push(`${short(points[k])},${short(points[k + 1])}`);
    this.parts.push(`<polygon points="${pairs.join(" ")}" fill="${fill}"${this.alpha}/>`);
  }
  text(x, y, text, size, fill, align = "left", bold = false) {
    const anchor = { left: "start", right: "end", center: "middle" }[align];
    this.parts.push(`<text x="${short(x)}" y="${short(y)}" font-size="${size}" fill="${fill}" text-anchor="${anchor}" dominant-baseline="central"${bold ? ' font-weight="bold"' : ""}>${escaped(text)}</text>`);
  }
  clip(x, y, w, h) {
    const id = `c${this.clips++}`;
    this.parts.push(`<clipPath id="${id}"><rect x="${x}" y="${y}" width="${w}" height="${h}"/></clipPath><g clip-path="url(#${id})">`);
  }
  free() { this.parts.push("</g>"); }
  fade(alpha) { this.alpha = alpha < 1 ? ` opacity="${alpha}"` : ""; }
  toString(title, about) {
    const [w, h] = this.size;
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" role="img" font-family="${escaped(FONT)}">`
      + `<title>${escaped(title)}</title><desc>${escaped(about)}</desc><defs>${[...this.marks.values()].join("")}</defs>${this.parts.join("\n")}</svg>\n`;
  }
}

// -- downloads: the spans of the window, each once ------------------------------------------------------------------

function* spansOf(scene, run) {
  for (const lane of run.lanes) {
    if (!lane.export) continue;
    for (const row of lane.rows) {
      for (const s of row.series) {
        for (let k = 0; k < s.count; k++) {
          yield { start: s.start[k], end: s.end[k], name: scene.name[s.first + k], thread: s.thread, category: s.category,
            step: s.steps < 0 ? -1 : scene.step[s.steps + k] };
        }
      }
    }
  }
}

const ordered = (scene, run) => [...spansOf(scene, run)].sort((a, b) => a.start - b.start || b.end - a.end);

export function toCsv(scene) {
  const field = (text) => /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  const lines = ["run,origin,thread,kind,name,category,start_ns,duration_ns,step"];
  for (const run of scene.runs) {
    const zero = BigInt(run.start_ns), label = field(run.label || run.name);
    const names = run.names.map(field), threads = run.threads.map(([name, kind]) => `${field(name)},${kind}`);
    for (const s of ordered(scene, run)) {
      lines.push(`${label},${run.origin},${threads[s.thread]},${names[s.name]},${scene.categories[s.category].key},${zero + BigInt(s.start)},${s.end - s.start},${s.step}`);
    }
  }
  return lines.join("\n") + "\n";
}

// The first track on which a span nests in whatever is open there: Perfetto drops a slice that crosses another.
function tracks(spans) {
  const stacks = [];
  return spans.map((s) => {
    for (let t = 0; ; t++) {
      if (t === stacks.length) { stacks.push([s.end]); return t; }
      const open = stacks[t];
      while (open.length && open[open.length - 1] <= s.start) open.pop();
      if (!open.length || open[open.length - 1] >= s.end) { open.push(s.end); return t; }
    }
  });
}

// One file for all runs: the processes of the second stand below those of the first. A page may save but one file a click.
export function toPerfetto(scene) {
  const runs = scene.runs.map((_, r) => eventsOf(scene, r)), two = runs.length > 1;
  const about = Object.assign({}, ...runs.map(({ about }, r) => !two ? about
    : Object.fromEntries(Object.entries(about).map(([key, value]) => [`${scene.runs[r].label}: ${key}`, value]))));
  const events = runs.flatMap(({ events }) => events.map((e) => JSON.stringify(e)));
  return `{"displayTimeUnit":"ms","otherData":${JSON.stringify(about)},"traceEvents":[\n${events.join(",\n")}\n]}\n`;
}

function eventsOf(scene, r) {
  const run = scene.runs[r], spans = ordered(scene, run), kinds = Object.keys(run.processes);
  const track = new Map(), count = run.threads.map(() => 0);
  run.threads.forEach((_, t) => {
    const mine = spans.filter((s) => s.thread === t);
    tracks(mine).forEach((place, k) => { track.set(mine[k], place); count[t] = Math.max(count[t], place + 1); });
  });
  const below = r * kinds.length, whose = scene.runs.length > 1 ? `${run.label}: ` : "";
  const pid = run.threads.map(([, kind]) => below + kinds.indexOf(kind) + 1), tid = [];
  count.reduce((sum, n, t) => { tid[t] = sum + 1; return sum + n; }, 0);
  const events = [], add = (name, p, t, args) => events.push({ ph: "M", name, pid: p, tid: t, args });
  kinds.forEach((kind, k) => {
    const number = below + k + 1;
    if (!pid.some((p, t) => p === number && count[t])) return;
    add("process_name", number, 0, { name: `${whose}${run.processes[kind]} (${run.origin})` });
    add("process_sort_index", number, 0, { sort_index: number });
  });
  run.threads.forEach(([name], t) => {
    for (let extra = 0; extra < count[t]; extra++) {
      add("thread_name", pid[t], tid[t] + extra, { name: name + (extra ? ` (${extra + 1})` : "") });
      add("thread_sort_index", pid[t], tid[t] + extra, { sort_index: tid[t] + extra });
    }
  });
  const zero = spans.length ? spans[0].start : 0;
  for (const s of spans) {
    const category = scene.categories[s.category].key;
    events.push({ ph: "X", name: run.names[s.name], cat: category, pid: pid[s.thread], tid: tid[s.thread] + track.get(s),
      ts: (s.start - zero) / 1e3, dur: (s.end - s.start) / 1e3, args: { category, step: s.step, origin: run.origin } });
  }
  const about = { ...run.perfetto, "labkit-start-ns": spans.length ? String(BigInt(run.start_ns) + BigInt(zero)) : "0" };
  return { about, events };
}

// -- the look -------------------------------------------------------------------------------------------------------

const CSS = `
.labkit-timeline{--bg:#fff;--ink:#1a1a1a;--muted:#555;--line:#8a8a8a;--bed:#f3f3f3;--focus:#01429c;position:relative;box-sizing:border-box;
  width:100%;min-width:0;padding:8px;background:var(--bg);color:var(--ink);font:13px/1.4 ${FONT};text-align:left;overflow:hidden}
.labkit-timeline *{box-sizing:border-box}
.labkit-timeline .lt-title{font-weight:bold;font-size:14px}
.labkit-timeline .lt-run{color:var(--muted);font-size:12px}
.labkit-timeline .lt-bar,.labkit-timeline .lt-legend{display:flex;flex-wrap:wrap;gap:4px;margin:5px 0;align-items:center}
.labkit-timeline button,.labkit-timeline input{font:inherit;font-size:12px;color:var(--ink);background:var(--bed);border:1px solid var(--line);
  border-radius:3px;padding:2px 7px;min-height:24px;margin:0;line-height:1.3}
.labkit-timeline button{cursor:pointer}
.labkit-timeline button:disabled{opacity:.5;cursor:default}
.labkit-timeline .lt-bar button[aria-pressed=true],.labkit-timeline .lt-bar button[aria-expanded=true]{outline:2px solid var(--focus);outline-offset:-2px}
.labkit-timeline .lt-legend button{display:flex;align-items:center;gap:5px;background:var(--bg)}
.labkit-timeline .lt-legend button[aria-pressed=false]{text-decoration:line-through;border-style:dashed}
.labkit-timeline .lt-legend canvas{width:24px;height:13px;flex:none}
.labkit-timeline .lt-key{display:flex;align-items:center;gap:5px;font-size:12px;padding:0 5px}
.labkit-timeline .lt-legend small,.labkit-timeline .lt-found{color:var(--muted);font-size:12px}
.labkit-timeline :focus-visible{outline:2px solid var(--focus);outline-offset:1px}
.labkit-timeline .lt-lanes,.labkit-timeline .lt-overview{display:block;width:100%;touch-action:none}
.labkit-timeline .lt-lanes:focus{outline:2px solid var(--focus);outline-offset:1px}
.labkit-timeline .lt-overview{cursor:grab;margin-bottom:4px;touch-action:none}
.labkit-timeline .lt-tip{position:absolute;pointer-events:none;z-index:5;max-width:min(420px,90%);padding:5px 8px;background:var(--bg);color:var(--ink);
  border:1px solid var(--line);border-radius:3px;box-shadow:0 2px 8px rgba(0,0,0,.3);font-size:12px;white-space:pre-line;overflow-wrap:anywhere}
.labkit-timeline .lt-tip b{display:block}
.labkit-timeline .lt-detail{min-height:2.9em;margin-top:5px;padding:4px 8px;border-left:4px solid var(--line);font-size:13px;overflow-wrap:anywhere;white-space:pre-line}
.labkit-timeline .lt-detail b{display:block}
.labkit-timeline .lt-panel{margin-top:6px;padding:6px 8px;border:1px solid var(--line);border-radius:3px;max-height:340px;overflow:auto}
.labkit-timeline table{border-collapse:collapse;font-size:12px;margin:0 0 8px;color:var(--ink);background:none;width:auto}
.labkit-timeline caption{text-align:left;font-weight:bold;padding:3px 0;color:var(--ink)}
.labkit-timeline th,.labkit-timeline td{text-align:left;padding:2px 9px 2px 0;border:0;border-bottom:1px solid var(--line);vertical-align:top;
  background:none;color:inherit;white-space:normal}
.labkit-timeline td.n{text-align:right;font-variant-numeric:tabular-nums}
.labkit-timeline .lt-hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.labkit-timeline [hidden]{display:none!important}
.labkit-timeline kbd{font:inherit;font-weight:bold;background:none;color:inherit;border:0;box-shadow:none;padding:0}
`;

function make(tag, className = "", text = "", attributes = {}) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
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

// -- the view -------------------------------------------------------------------------------------------------------

const AXIS = 26, NAMES = 170, RIGHT = 66, STRIP = 15;

export class View {
  constructor(el, data, look = {}) {
    this.el = el;
    this.look = look;
    this.hidden = new Set();
    this.mode = "stacked";
    this.scroll = 0;
    this.selected = null; // {run, gap} or {span}
    this.measured = null; // {a, b}
    this.matches = null;
    this.undo = []; // what destroy() undoes
    this.seen = look.last ? { first: 0, last: look.last } : {}; // the part of the axis that is seen, if it is not all
    this.build();
    this.update(data);
  }

  listen(target, type, handler, options) {
    target.addEventListener(type, handler, options);
    this.undo.push(() => target.removeEventListener(type, handler, options));
  }

  // What outlives the view must not keep it: a page that is written anew calls no clean-up.
  weakly(method) {
    const view = new WeakRef(this);
    return (event) => view.deref()?.[method](event);
  }

  build() {
    const root = this.root = make("div", "labkit-timeline", "", { "data-jp-suppress-context-menu": "" });
    root.append(make("style", "", CSS));
    this.title = root.appendChild(make("div", "lt-title"));
    this.heads = root.appendChild(make("div"));
    this.bar = root.appendChild(make("div", "lt-bar", "", { role: "toolbar", "aria-label": "timeline" }));
    const button = (text, label, act, more = {}) => {
      const b = make("button", "", text, { type: "button", "aria-label": label, title: label, "data-lm-suppress-shortcuts": "true", ...more });
      this.listen(b, "click", act);
      return this.bar.appendChild(b);
    };
    button("+", "zoom in (W)", () => this.zoom(0.5));
    button("−", "zoom out (S)", () => this.zoom(2));
    button("all", "show everything (0)", () => this.all());
    button("fit", "fit the selection (F)", () => this.fit());
    button("‹ gap", "previous gap (P)", () => this.nextGap(-1));
    button("gap ›", "next gap (N)", () => this.nextGap(1));
    this.measureButton = button("measure", "measure: drag over the lanes (M)", () => this.measureMode(), { "aria-pressed": "false" });
    this.overlayButton = button("overlay", "overlay the two runs (O)", () => this.overlay(), { "aria-pressed": "false" });
    this.search = make("input", "", "", { type: "search", placeholder: "search operations", "aria-label": "search operations by name",
      "data-lm-suppress-shortcuts": "true", size: "16" });
    this.bar.append(this.search);
    this.found = this.bar.appendChild(make("span", "lt-found"));
    this.tableButton = button("table", "tables of lanes and gaps (T)", () => this.toggleTable(), { "aria-expanded": "false" });
    for (const [text, act] of [["PNG", () => this.savePng()], ["SVG", () => this.saveSvg()], ["CSV", () => this.saveCsv()], ["Perfetto", () => this.savePerfetto()]]) {
      button(text, `download ${text === "Perfetto" ? "a trace for ui.perfetto.dev" : text === "CSV" ? "all spans as CSV" : `the view as ${text}`}`, act);
    }
    this.helpButton = button("?", "keys and mouse (?)", () => this.toggleHelp(), { "aria-expanded": "false" });
    this.legend = root.appendChild(make("div", "lt-legend", "", { role: "group", "aria-label": "categories: press to hide or show" }));
    this.overview = root.appendChild(make("canvas", "lt-overview", "", { "aria-hidden": "true" }));
    this.canvas = root.appendChild(make("canvas", "lt-lanes", "", { tabindex: "0", role: "application", "aria-roledescription": "timeline",
      "data-lm-suppress-shortcuts": "true", "data-jp-suppress-context-menu": "" }));
    this.tip = root.appendChild(make("div", "lt-tip", "", { role: "tooltip" }));
    this.tip.hidden = true;
    this.detail = root.appendChild(make("div", "lt-detail"));
    this.live = root.appendChild(make("div", "lt-hidden", "", { "aria-live": "polite" }));
    this.help = root.appendChild(make("div", "lt-panel", "", { role: "region", "aria-label": "keys and mouse", tabindex: "0", "data-lm-suppress-shortcuts": "true" }));
    this.help.hidden = true;
    const keys = make("table");
    for (const [key, words] of KEYS) {
      const row = keys.insertRow();
      row.append(make("th", "", "", { scope: "row" }), make("td", "", words));
      row.firstChild.append(make("kbd", "", key));
    }
    this.help.append(keys);
    this.panel = root.appendChild(make("div", "lt-panel", "", { role: "region", "aria-label": "tables", tabindex: "0", "data-lm-suppress-shortcuts": "true" }));
    this.panel.hidden = true;
    this.el.append(root);
    root.timeline = this;

    this.listen(this.canvas, "keydown", (e) => this.key(e));
    this.listen(this.search, "keydown", (e) => this.searchKey(e));
    this.listen(this.search, "input", () => this.find(this.search.value));
    this.listen(this.canvas, "wheel", (e) => this.wheel(e), { passive: false });
    this.listen(this.canvas, "pointerdown", (e) => this.down(e));
    this.listen(this.canvas, "pointermove", (e) => this.move(e));
    this.listen(this.canvas, "pointerup", (e) => this.up(e));
    this.listen(this.canvas, "pointercancel", () => { this.drag = null; this.fingers?.clear(); });
    this.listen(this.canvas, "pointerleave", () => { this.tip.hidden = true; });
    this.listen(this.canvas, "dblclick", (e) => this.zoom(0.25, this.timeAt(this.place(e)[0])));
    this.listen(this.canvas, "blur", () => { this.tip.hidden = true; });
    this.listen(this.overview, "pointerdown", (e) => this.overviewDown(e));
    this.listen(this.overview, "pointermove", (e) => this.overviewMove(e));
    this.listen(this.overview, "pointerup", () => { this.grip = null; });
    this.listen(this.overview, "pointercancel", () => { this.grip = null; });
    // JupyterLab would swallow its own Ctrl+S, too, on an element that keeps single keys to itself.
    this.listen(window, "keydown", this.weakly("letGo"), true);
    const resized = new ResizeObserver(this.weakly("resize"));
    resized.observe(root);
    const seen = new IntersectionObserver(this.weakly("later"));
    seen.observe(root);
    const observer = new MutationObserver(this.weakly("recolour"));
    for (const node of [document.body, document.documentElement]) {
      observer.observe(node, { attributes: true, attributeFilter: ["data-jp-theme-light", "theme", "data-theme", "class", "data-vscode-theme-kind"] });
    }
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    this.listen(scheme, "change", this.weakly("recolour"));
    this.undo.push(() => { resized.disconnect(); seen.disconnect(); observer.disconnect(); cancelAnimationFrame(this.frame); });
  }

  letGo(event) {
    const mine = event.target;
    if (!(mine instanceof Element) || !this.root.contains(mine) || !(event.ctrlKey || event.metaKey || event.altKey)) return;
    if (/^(control|meta|alt)$/i.test(event.key)) return;
    for (let node = mine; node && this.root.contains(node); node = node.parentElement) { // the Lab looks at all of them
      if (!node.hasAttribute("data-lm-suppress-shortcuts")) continue;
      node.removeAttribute("data-lm-suppress-shortcuts");
      setTimeout(() => node.setAttribute("data-lm-suppress-shortcuts", "true"));
    }
  }

  destroy() {
    for (const undo of this.undo.splice(0)) undo();
    this.frame = null;
    this.gone = true;
    this.scene = this.matches = this.selected = null;
    delete this.root.timeline;
    this.root.remove();
  }

  // Show another scene; the part of the axis that is seen stays, unless all of it was seen.
  update(data) {
    const scene = parse(data);
    if (!scene) return;
    const kept = { ...this.seen };
    this.scene = scene;
    this.span = Math.max(scene.span_ns, 1);
    [this.first, this.last] = [0, this.span];
    this.keep(kept);
    this.selected = this.target = this.measured = null;
    if (scene.runs.length < 2) this.mode = "stacked";
    this.overlayButton.hidden = scene.runs.length < 2;
    this.title.textContent = scene.title;
    this.heads.replaceChildren(...scene.runs.map((run) => make("div", "lt-run",
      [run.label, run.headline, run.figures].filter(Boolean).join(" · "))));
    this.layout();
    this.legendButtons();
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
    Object.assign(this.seen, whole ? { first: undefined, last: undefined } : { first: this.first, last: this.last });
  }

  get layoutNow() { return this.scene.layouts[this.mode]; }

  layout() { this.places = this.layoutNow.items.map((item) => ({ ...item, lane: this.scene.runs[item.run].lanes[item.lane] })); }

  recolour(force) {
    if (this.gone) return;
    const name = this.look.theme ?? themeOf();
    if (force !== true && name === this.themeName) return;
    this.themeName = name;
    const look = this.colours = this.scene.themes[name];
    for (const [key, value] of [["--bg", look.background], ["--ink", look.ink], ["--muted", look.muted], ["--line", look.line], ["--bed", look.lane], ["--focus", look.fill[1]]]) {
      this.root.style.setProperty(key, value);
    }
    this.root.style.colorScheme = name;
    for (const canvas of this.legend.querySelectorAll("canvas")) this.swatch(canvas);
    this.later();
  }

  later() {
    if (this.gone || this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = null; this.redraw(); });
  }

  resize() {
    this.observed = this.root.clientWidth; // what the observer compares the next width with
    this.later();
  }

  // Draw now; returns milliseconds.
  redraw() {
    if (this.gone || !this.scene) return 0;
    if (!this.root.clientWidth) { // out of the page, as the cells that JupyterLab has scrolled away
      // The observer reports the return of a width only where it has observed the 0; until then, try every frame.
      if (this.observed) this.later();
      return 0;
    }
    const began = performance.now();
    this.width = Math.max(this.root.clientWidth - 16, 120);
    const ratio = window.devicePixelRatio || 1;
    this.height = this.lanesHeight() + AXIS;
    this.canvas.style.height = `${this.height}px`;
    this.paint(new CanvasPen(this.canvas, this.width, this.height, ratio), 0, this.width, this.height);
    const high = this.scene.runs.length * (2 * STRIP + 4);
    this.overview.style.height = `${high}px`;
    this.paintOverview(new CanvasPen(this.overview, this.width, high, ratio));
    this.painted = (this.painted ?? 0) + 1;
    this.root.dataset.painted = this.painted;
    return performance.now() - began;
  }

  lanesHeight(all = false) {
    const full = this.layoutNow.height;
    return all ? full : Math.min(full, Math.max((this.look.height ?? 520) - AXIS, 60));
  }

  get left() { return Math.min(NAMES, Math.round(this.width * 0.26)); }
  get right() { return this.width - (this.width > 420 ? RIGHT : 8); }
  x(t) { return this.left + (t - this.first) / (this.last - this.first) * (this.right - this.left); }
  timeAt(x) { return this.first + (x - this.left) / (this.right - this.left) * (this.last - this.first); }

  // -- drawing ------------------------------------------------------------------------------------------------------

  paint(pen, top, width, height, all = false) {
    const { colours, left, right } = this, below = top + height - AXIS;
    const scroll = all ? 0 : this.scroll = Math.max(0, Math.min(this.scroll, this.layoutNow.height - this.lanesHeight()));
    pen.rect(0, top, width, height, colours.background);
    pen.clip(0, top, width, height - AXIS);
    for (const head of this.layoutNow.heads) {
      const run = this.scene.runs[head.run], y = top + head.y - scroll + head.h / 2;
      const label = elide(run.label, right - 12, 12, true);
      pen.text(4, y, label, 12, colours.ink, "left", true);
      const words = elide(run.figures, right - textWidth(label, 12, true) - 22, 12);
      if (words.length > 3) pen.text(14 + textWidth(label, 12, true), y, words, 12, colours.muted);
    }
    const visible = this.places.filter((p) => p.y - scroll + p.lane.height * p.scale > 0 && p.y - scroll < height);
    for (const p of visible) {
      const y = top + p.y - scroll, h = p.lane.height * p.scale, bold = p.lane.kind === "accelerator";
      pen.rect(left, y, Math.max(Math.min(this.x(this.scene.runs[p.run].span_ns), right) - left, 0), h, colours.lane);
      const whose = this.mode === "overlaid" ? elide(this.scene.runs[p.run].label, (left - 12) * 0.4, 11) : "";
      const taken = whose ? textWidth(whose, 11) + 8 : 0;
      if (whose) pen.text(left - 6, y + h / 2, whose, 11, colours.muted, "right");
      pen.text(left - 6 - taken, y + h / 2, elide(p.lane.name, left - 12 - taken, 12, bold), 12, colours.ink, "right", bold);
      if (right < width - 20) pen.text(right + 6, y + h / 2, p.lane.busy, 12, colours.ink, "left", bold);
    }
    pen.clip(left, top, right - left, height - AXIS);
    this.paintSteps(pen, top - scroll, visible);
    for (const p of visible) this.paintLane(pen, p, top + p.y - scroll);
    this.paintTarget(pen, top - scroll);
    pen.free();
    pen.free();
    this.paintAxis(pen, below);
    if (this.measured) this.paintMeasure(pen, top, below);
    if (!all && this.layoutNow.height > this.lanesHeight() + 1) { // a bar shows that there is more above or below
      const room = this.lanesHeight(), size = room * room / this.layoutNow.height;
      pen.rect(width - 4, top + scroll / this.layoutNow.height * room, 3, size, colours.muted);
    }
  }

  paintSteps(pen, top, visible) {
    const pixel = (this.last - this.first) / (this.right - this.left);
    for (const run of this.scene.runs) {
      const n = run.edge.length, mine = visible.filter((p) => p.run === run.index);
      if (n < 2 || (run.edge[n - 1] - run.edge[0]) / (n - 1) < 12 * pixel || !mine.length) continue;
      const ends = mine.map((p) => [p.y, p.y + p.lane.height * p.scale]); // woven lanes: each run's lines in its own
      const whole = [[ends[0][0], ends[ends.length - 1][1]]];
      for (let i = above(run.edge, this.first); i < n && run.edge[i] < this.last; i++) {
        const x = this.x(run.edge[i]);
        for (const [from, to] of this.mode === "stacked" ? whole : ends) pen.line(x, top + from, x, top + to, this.colours.line, 0.8);
      }
    }
  }

  paintLane(pen, p, y) {
    if (p.lane.kind === "accelerator") this.paintGaps(pen, p, y);
    for (const row of p.lane.rows) this.paintRow(pen, p, row.series, y + row.y * p.scale, row.h * p.scale);
  }

  paintRow(pen, p, list, y, h) {
    const shown = list.filter((s) => !this.hidden.has(s.category));
    if (!shown.length) return;
    const { first, last, left, right, colours } = this, room = right - left, pixel = (last - first) / room;
    // Where most spans are too short to be seen, columns of four pixels: single ones would be noise.
    let seen = 0;
    for (const s of shown) seen += above(s.start, last) - above(s.end, first);
    const size = seen > room / 3 ? 4 : 1, width = Math.max(Math.ceil(room / size), 1);
    const end = first + width * size * pixel; // columns of whole pixels; the last one may lie beyond the edge
    const base = new Float64Array(width), layers = shown.map((s) => columns(s, first, end, width, WIDE * pixel));
    const fade = this.matches ? 0.22 : 1;
    pen.fade(fade);
    shown.forEach((s, k) => {
      const before = this.matches ? base.slice() : null;
      this.paintShare(pen, layers[k].share, base, left, size, y, h, colours.fill[s.category]);
      if (!this.matches) return;
      const match = this.matches.series.get(s);
      if (!match) return;
      pen.fade(1);
      this.paintShare(pen, columns(match, first, end, width, WIDE * pixel).share, before, left, size, y, h, colours.fill[s.category]);
      pen.fade(fade);
    });
    shown.forEach((s, k) => {
      const match = this.matches?.runs[s.run];
      for (const i of layers[k].wide) {
        const name = this.scene.name[s.first + i], hit = !match || match.has(name);
        pen.fade(hit ? 1 : fade);
        this.paintSpan(pen, p, s, i, name, y, h);
        if (match && hit) pen.box(this.x(s.start[i]) + 0.5, y + 0.5, this.x(s.end[i]) - this.x(s.start[i]) - 1, h - 1, colours.ink, 1);
      }
    });
    pen.fade(1);
  }

  paintShare(pen, share, base, left, size, y, h, fill) {
    const n = share.length, bottom = y + h;
    for (let c = 0; c < n; c++) {
      if (!share[c]) continue;
      let end = c + 1;
      while (end < n && share[end]) end++;
      if (end - c < 3) {
        for (let k = c; k < end; k++) {
          const high = Math.max(share[k] * h, 0.5);
          pen.rect(left + k * size, bottom - base[k] * h - high, size, high, fill);
        }
      } else {
        const points = [];
        for (let k = c; k < end; k++) points.push(left + k * size, bottom - (base[k] + share[k]) * h, left + (k + 1) * size, bottom - (base[k] + share[k]) * h);
        for (let k = end - 1; k >= c; k--) points.push(left + (k + 1) * size, bottom - base[k] * h, left + k * size, bottom - base[k] * h);
        pen.shape(points, fill);
      }
      c = end - 1;
    }
    for (let c = 0; c < n; c++) base[c] += share[c];
  }

  paintSpan(pen, p, s, i, name, y, h) {
    const x = Math.max(this.x(s.start[i]), this.left - 2), x2 = Math.min(this.x(s.end[i]), this.right + 2), w = x2 - x;
    const { fill, on, background, gap } = this.colours, category = this.scene.categories[s.category];
    if (category.key === "wait") {
      if (h > 8 && w >= 6) { pen.hatch(x, y, w, h, "/", gap); pen.box(x + 0.5, y + 0.5, w - 1, h - 1, gap); } else pen.rect(x, y, w, h, gap);
      return;
    }
    pen.rect(x, y, w, h, fill[s.category]);
    if (w > 4 && h > 3) pen.rect(x2 - 0.6, y, 0.6, h, background); // neighbours of one colour stay two
    if (h < 8 || w < 6) return;
    if (category.hatch) pen.hatch(x, y, w, h, category.hatch, background);
    if (h < 10 || w < 26) return;
    const step = s.steps < 0 ? -1 : this.scene.step[s.steps + i];
    const words = category.key === "train" && step >= 0 ? `step ${step}` : this.scene.runs[p.run].names[name];
    const fits = elide(words, w - 8, 11);
    if (fits.length < 3 && fits !== words) return;
    if (category.hatch) pen.rect(x + w / 2 - textWidth(fits, 11) / 2 - 2, y + 1, textWidth(fits, 11) + 4, h - 2, fill[s.category]);
    pen.text(x + w / 2, y + h / 2 + 0.5, fits, 11, on[s.category], "center");
  }

  paintGaps(pen, p, y) {
    const { gap } = this.scene.runs[p.run], { colours } = this, h = p.lane.height * p.scale;
    const pixel = (this.last - this.first) / (this.right - this.left), n = gap.start.length;
    for (let i = Math.max(above(gap.start, this.first) - 1, 0); i < n && gap.start[i] < this.last; i++) {
      if (gap.length[i] < 3 * pixel || gap.start[i] + gap.length[i] <= this.first) continue;
      const x = Math.max(this.x(gap.start[i]), this.left - 3), x2 = Math.min(this.x(gap.start[i] + gap.length[i]), this.right + 3), w = x2 - x;
      if (w >= 6) pen.hatch(x, y, w, h, "/", colours.gap);
      pen.box(x + 0.5, y + 0.5, w - 1, h - 1, colours.gap, 1);
      const words = duration(gap.length[i]), size = textWidth(words, 11);
      if (size + 8 < w && h > 12) {
        pen.rect(x + w / 2 - size / 2 - 3, y + h / 2 - 7, size + 6, 14, colours.background);
        pen.text(x + w / 2, y + h / 2 + 0.5, words, 11, colours.ink, "center");
      }
    }
  }

  // What is selected, and for a gap the span it waited for: outlined, joined by a line.
  paintTarget(pen, top) {
    const { ink, background } = this.colours, boxes = [];
    const outline = (p, from, to, y, h) => {
      const x = Math.max(this.x(from), this.left - 4), x2 = Math.min(this.x(to), this.right + 4);
      if (x2 < x) return;
      pen.box(x - 1, y - 1, Math.max(x2 - x, 2) + 2, h + 2, background, 5);
      pen.box(x - 1, y - 1, Math.max(x2 - x, 2) + 2, h + 2, ink, 2.5);
      boxes.push([(x + x2) / 2, y, y + h]);
    };
    if (this.selected?.span) {
      const { series: s, i, row } = this.selected.span, p = this.places.find((q) => q.run === s.run && q.lane.index === s.lane);
      if (p) outline(p, s.start[i], s.end[i], top + p.y + row.y * p.scale, row.h * p.scale);
    }
    if (this.selected?.gap === undefined) return;
    const { run, gap: k } = this.selected, { gap } = this.scene.runs[run];
    const p = this.places.find((q) => q.run === run && q.lane.kind === "accelerator");
    outline(p, gap.start[k], gap.start[k] + gap.length[k], top + p.y, p.lane.height * p.scale);
    const q = this.places.find((other) => other.run === run && other.lane.index === gap.for_lane[k]);
    if (!q || gap.for_start[k] < 0) return;
    outline(q, gap.for_start[k], gap.for_end[k], top + q.y, q.lane.height * q.scale);
    if (boxes.length === 2) pen.line(boxes[0][0], boxes[0][2], boxes[1][0], boxes[1][1], ink, 1.5, [4, 3]);
  }

  paintAxis(pen, y) {
    const { colours, left, right } = this, unit = this.last - this.first < 2e4 ? 1e3 : 1e6;
    pen.line(left, y + 0.5, right, y + 0.5, colours.muted);
    const { step, at } = ticks(this.first / unit, this.last / unit, (right - left) / 85), digits = decimals(step);
    let free = left - 26;
    for (const t of at) {
      const x = this.x(t * unit), words = grouped(t, digits), half = textWidth(words, 11) / 2;
      pen.line(x, y, x, y + 4, colours.muted);
      const where = Math.min(Math.max(x, half + 2), this.width - half - 2);
      if (where - half < free) continue;
      free = where + half + 8;
      pen.text(where, y + 12, words, 11, colours.muted, "center");
    }
    pen.text(left - 30, y + 12, unit === 1e6 ? "ms" : "µs", 11, colours.muted, "right");
  }

  paintMeasure(pen, top, below) {
    const { ink, background } = this.colours, a = Math.max(this.x(this.measured.a), this.left), b = Math.min(this.x(this.measured.b), this.right);
    if (b < this.left || a > this.right) return;
    pen.fade(0.14);
    pen.rect(a, top, b - a, below - top, ink);
    pen.fade(1);
    pen.line(a, top, a, below, ink, 1.5);
    pen.line(b, top, b, below, ink, 1.5);
    const words = duration(this.measured.b - this.measured.a), size = textWidth(words, 12, true) + 8;
    const x = Math.min(Math.max((a + b) / 2, this.left + size / 2), this.right - size / 2);
    pen.rect(x - size / 2, below - 18, size, 16, background);
    pen.box(x - size / 2, below - 18, size, 16, ink);
    pen.text(x, below - 9.5, words, 12, ink, "center", true);
  }

  // The whole run: above the line the accelerator's busy share per pixel, below it the pipeline's, on average.
  paintOverview(pen) {
    const { colours, left, right, scene } = this, room = right - left;
    pen.rect(0, 0, this.width, scene.runs.length * (2 * STRIP + 4), colours.background);
    scene.runs.forEach((run, r) => {
      const top = r * (2 * STRIP + 4), span = room * run.span_ns / this.span;
      pen.text(left - 6, top + STRIP / 2, elide(scene.runs.length > 1 ? `${run.label}: accelerator` : "accelerator busy", left - 12, 10), 10, colours.muted, "right");
      pen.text(left - 6, top + 1.5 * STRIP + 1, elide(scene.runs.length > 1 ? `${run.label}: pipeline` : "pipeline busy", left - 12, 10), 10, colours.muted, "right");
      run.strips.forEach((strip, k) => {
        const y = top + k * (STRIP + 1), points = [];
        pen.rect(left, y, span, STRIP, colours.lane);
        const n = Math.max(Math.floor(span), 1);
        const sums = new Float64Array(strip.length + 1);
        for (let i = 0; i < strip.length; i++) sums[i + 1] = sums[i] + strip[i];
        const until = (t) => { const i = Math.min(Math.floor(t), strip.length - 1); return sums[i] + (t - i) * strip[i]; };
        points.push(left, y + STRIP);
        for (let c = 0; c < n; c++) {
          const share = (until((c + 1) / n * strip.length) - until(c / n * strip.length)) * n / strip.length;
          points.push(left + c, y + STRIP * (1 - share), left + c + 1, y + STRIP * (1 - share));
        }
        points.push(left + n, y + STRIP);
        pen.shape(points, k ? colours.fill[5] : colours.fill[1]);
      });
    });
    const high = scene.runs.length * (2 * STRIP + 4) - 2, at = (t) => left + t / this.span * room;
    pen.fade(0.55);
    pen.rect(left, 0, at(this.first) - left, high, colours.background);
    pen.rect(at(this.last), 0, right - at(this.last), high, colours.background);
    pen.fade(1);
    pen.box(at(this.first) + 0.75, 0.75, Math.max(at(this.last) - at(this.first) - 1.5, 2), high - 1.5, colours.ink, 1.5);
  }

  // -- legend -------------------------------------------------------------------------------------------------------

  legendButtons() {
    const { scene } = this, used = new Set();
    for (const run of scene.runs) for (const lane of run.lanes) for (const row of lane.rows) for (const s of row.series) if (s.count) used.add(s.category);
    const order = [1, 9, 8, 2, 3, 4, 5, 6, 7, 10, 0].filter((c) => used.has(c));
    this.legend.replaceChildren();
    for (const c of order) {
      const b = make("button", "", "", { type: "button", "aria-pressed": String(!this.hidden.has(c)), "data-category": scene.categories[c].key, "data-lm-suppress-shortcuts": "true" });
      const swatch = make("canvas", "", "", { "aria-hidden": "true" });
      swatch.category = c;
      const times = scene.runs.map((run) => duration(run.own_ns[c])).join(" → ");
      b.title = `${scene.categories[c].label}: time of its own, all threads together${scene.runs.length > 1 ? ", in the first and the second run" : ""}; press to hide or show`;
      b.append(swatch, make("span", "", scene.categories[c].label), make("small", "", times));
      b.addEventListener("click", () => this.filter(c));
      this.legend.append(b);
    }
    if (scene.runs.some((run) => run.gap.start.length)) {
      const key = make("span", "lt-key"), swatch = make("canvas", "", "", { "aria-hidden": "true" });
      swatch.category = -1;
      const times = scene.runs.map((run) => duration(run.idle_ns)).join(" → ");
      key.append(swatch, make("span", "", "accelerator idle: click for the cause"), make("small", "", times));
      this.legend.append(key);
    }
  }

  swatch(canvas) {
    const pen = new CanvasPen(canvas, 24, 13, window.devicePixelRatio || 1), { colours } = this, c = canvas.category;
    const key = c < 0 ? "wait" : this.scene.categories[c].key;
    if (key === "wait") { pen.hatch(0, 0, 24, 13, "/", colours.gap); pen.box(0.5, 0.5, 23, 12, colours.gap); return; }
    if (key === "iterator") { pen.rect(0, 5, 24, 4, colours.fill[c]); return; }
    pen.rect(0, 0, 24, 13, colours.fill[c]);
    if (this.scene.categories[c].hatch) pen.hatch(0, 0, 24, 13, this.scene.categories[c].hatch, colours.background);
  }

  filter(c) {
    if (this.hidden.has(c)) this.hidden.delete(c); else this.hidden.add(c);
    const { key, label } = this.scene.categories[c];
    this.legend.querySelector(`[data-category="${key}"]`).setAttribute("aria-pressed", String(!this.hidden.has(c)));
    this.say(`${label} ${this.hidden.has(c) ? "hidden" : "shown"}`);
    this.later();
  }

  // -- moving -------------------------------------------------------------------------------------------------------

  show(first, last, quiet = false) {
    const size = Math.min(Math.max(last - first, Math.min(100, this.span)), this.span);
    const middle = (first + last) / 2;
    this.first = Math.min(Math.max(middle - size / 2, 0), this.span - size);
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

  fit() {
    const s = this.selected;
    let from = 0, to = this.span;
    if (this.measured) ({ a: from, b: to } = this.measured);
    else if (s?.span) [from, to] = [s.span.series.start[s.span.i], s.span.series.end[s.span.i]];
    else if (s) {
      const { gap } = this.scene.runs[s.run], k = s.gap;
      [from, to] = [gap.start[k], gap.start[k] + gap.length[k]];
      if (gap.for_start[k] >= 0) [from, to] = [Math.min(from, gap.for_start[k]), Math.max(to, gap.for_end[k])];
    }
    const room = (to - from) * 0.05;
    this.show(from - room, to + room);
  }

  overlay() {
    if (this.scene.runs.length < 2) return;
    this.mode = this.mode === "stacked" ? "overlaid" : "stacked";
    this.overlayButton.setAttribute("aria-pressed", String(this.mode === "overlaid"));
    this.layout();
    this.say(this.mode === "overlaid" ? "lanes of the two runs side by side" : "one run below the other");
    this.later();
  }

  // -- keys, wheel, pointer -----------------------------------------------------------------------------------------

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = { w: () => this.zoom(0.5), "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), s: () => this.zoom(2), "-": () => this.zoom(2),
      _: () => this.zoom(2), a: () => this.pan(-0.2), d: () => this.pan(0.2), ArrowLeft: () => this.pan(-0.1), ArrowRight: () => this.pan(0.1),
      ArrowUp: () => this.lanesBy(-40), ArrowDown: () => this.lanesBy(40), 0: () => this.all(), f: () => this.fit(), n: () => this.nextGap(1),
      p: () => this.nextGap(-1), m: () => this.measureMode(), t: () => this.toggleTable(), o: () => this.overlay(), "?": () => this.toggleHelp(),
      "/": () => this.search.focus(), Escape: () => this.escape() };
    const act = acts[event.key] ?? (event.shiftKey ? null : acts[event.key.toLowerCase()]);
    if (!act || !this.scene) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  searchKey(event) {
    if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); this.nextMatch(event.shiftKey ? -1 : 1); }
    else if (event.key === "Escape") { event.preventDefault(); this.search.value = ""; this.find(""); this.canvas.focus(); }
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  }

  escape() {
    if (this.measuring || this.measured) { this.measured = null; if (this.measuring) this.measureMode(); this.say("measurement cleared"); this.sentence(); }
    else if (this.selected) { this.selected = null; this.say("selection cleared"); this.sentence(); }
    else if (this.matches) { this.search.value = ""; this.find(""); }
    else if (!this.help.hidden) this.toggleHelp();
    else this.canvas.blur();
    this.later();
  }

  lanesBy(pixels) { this.scroll += pixels; this.later(); }

  wheel(event) {
    if (document.activeElement !== this.canvas || event.ctrlKey) return; // the page scrolls, or the browser zooms
    event.preventDefault();
    const unit = event.deltaMode ? 30 : 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan((event.deltaX || event.deltaY) * unit / 1000);
    else this.zoom(Math.exp(Math.max(Math.min(event.deltaY * unit, 400), -400) / 350), this.timeAt(this.place(event)[0]));
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  down(event) {
    if (event.button > 0) return;
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture?.(event.pointerId);
    const [x, y] = this.place(event);
    this.fingers ??= new Map();
    this.fingers.set(event.pointerId, x);
    if (this.fingers.size === 2) { // two fingers: the times under them stay under them
      this.pinch = [...this.fingers.entries()].map(([id, at]) => [id, this.timeAt(at)]);
      this.drag = null;
      return;
    }
    this.drag = { x, y, first: this.first, last: this.last, scroll: this.scroll, moved: false, measure: this.measuring || event.shiftKey, from: this.timeAt(x) };
    this.tip.hidden = true;
  }

  move(event) {
    const [x, y] = this.place(event);
    if (this.fingers?.has(event.pointerId)) this.fingers.set(event.pointerId, x);
    if (this.fingers?.size === 2 && this.pinch) {
      const [[i, ti], [j, tj]] = this.pinch, xi = this.fingers.get(i), xj = this.fingers.get(j);
      if (Math.abs(xi - xj) > 8 && ti !== tj) {
        const size = (tj - ti) / (xj - xi) * (this.right - this.left), first = ti - (xi - this.left) / (this.right - this.left) * size;
        if (size > 0) this.show(first, first + size, true);
      }
      return;
    }
    const drag = this.drag;
    if (!drag) return this.hover(x, y);
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < 4) return;
    drag.moved = true;
    if (drag.measure) {
      const to = Math.min(Math.max(this.timeAt(x), 0), this.span), from = Math.min(Math.max(drag.from, 0), this.span);
      this.measured = { a: Math.min(from, to), b: Math.max(from, to) };
      this.sentence();
    } else {
      const by = (drag.x - x) / (this.right - this.left) * (drag.last - drag.first);
      this.show(drag.first + by, drag.last + by, true);
      this.scroll = drag.scroll + drag.y - y;
    }
    this.later();
  }

  up(event) {
    this.fingers?.delete(event.pointerId);
    if (this.fingers?.size) { this.pinch = null; return; }
    this.pinch = null;
    const drag = this.drag;
    this.drag = null;
    if (!drag) return;
    if (!drag.moved) this.click(drag.x, drag.y);
    else if (drag.measure) this.say(this.detail.textContent);
    else this.describe(`${duration(this.first)} to ${duration(this.last)}`);
  }

  overviewTime(event) {
    const box = this.overview.getBoundingClientRect();
    return (event.clientX - box.left - this.left) / (this.right - this.left) * this.span;
  }

  overviewDown(event) {
    if (event.button > 0) return;
    this.overview.setPointerCapture?.(event.pointerId);
    const t = this.overviewTime(event), near = 6 / (this.right - this.left) * this.span, { first, last } = this;
    const whole = last - first >= this.span * 0.999;
    if (whole) this.grip = { kind: "new", t };
    else if (Math.abs(t - first) < near) this.grip = { kind: "first" };
    else if (Math.abs(t - last) < near) this.grip = { kind: "last" };
    else {
      if (t < first || t > last) this.show(t - (last - first) / 2, t + (last - first) / 2);
      this.grip = { kind: "move", by: t - this.first };
    }
  }

  overviewMove(event) {
    const grip = this.grip;
    if (!grip) return;
    const t = this.overviewTime(event), size = this.last - this.first;
    if (grip.kind === "move") this.show(t - grip.by, t - grip.by + size, true);
    else if (grip.kind === "new") { if (Math.abs(t - grip.t) > this.span / 200) this.show(Math.min(t, grip.t), Math.max(t, grip.t), true); }
    else if (grip.kind === "first") this.show(Math.max(Math.min(t, this.last - 100), 0), this.last, true);
    else this.show(this.first, Math.min(Math.max(t, this.first + 100), this.span), true);
  }

  // -- pointing -----------------------------------------------------------------------------------------------------

  // What lies under a place of the canvas: a span, a gap of the accelerator, a lane, or nothing.
  hit(x, y) {
    if (x < 0 || x > this.width || y < 0 || y >= this.height - AXIS) return null;
    const at = y + this.scroll, p = this.places.find((q) => at >= q.y && at < q.y + q.lane.height * q.scale);
    if (!p || x < this.left || x > this.right) return p ? { place: p } : null;
    const t = this.timeAt(x), near = 2 * (this.last - this.first) / (this.right - this.left), inside = (at - p.y) / p.scale;
    let best = null;
    for (const row of p.lane.rows) {
      if (inside < row.y - 1 || inside >= row.y + row.h + 1) continue;
      for (const s of row.series) {
        if (this.hidden.has(s.category)) continue;
        const k = above(s.start, t) - 1;
        for (const i of [k, k + 1]) {
          if (i < 0 || i >= s.count) continue;
          const far = Math.max(s.start[i] - t, t - s.end[i], 0) + (inside >= row.y && inside < row.y + row.h ? 0 : near / 4);
          if (far <= near && (!best || far < best.far)) best = { far, span: { series: s, i, row }, place: p };
        }
      }
    }
    if (p.lane.kind === "accelerator" && (!best || best.far > 0)) {
      const { gap } = this.scene.runs[p.run], k = above(gap.start, t) - 1;
      let found = -1, least = near;
      for (const i of [k, k + 1]) {
        if (i < 0 || i >= gap.start.length) continue;
        const far = Math.max(gap.start[i] - t, t - gap.start[i] - gap.length[i], 0);
        if (far <= least) { found = i; least = far; }
      }
      if (found >= 0 && (!best || least < best.far)) return { gap: found, run: p.run, place: p };
    }
    return best ?? { place: p };
  }

  spanWords({ series: s, i }) {
    const { scene } = this, run = scene.runs[s.run], name = scene.name[s.first + i], lane = run.lanes[s.lane];
    const step = s.steps < 0 ? -1 : scene.step[s.steps + i], lines = [run.names[name]];
    lines.push(`${duration(s.end[i] - s.start[i])} · ${scene.categories[s.category].label}`);
    lines.push(`thread ${run.threads[s.thread][0]}${lane.name === run.threads[s.thread][0] ? "" : ` · lane ${lane.name}`}${run.label ? ` · ${run.label}` : ""}`);
    lines.push(`${(s.start[i] / 1e6).toFixed(3)} to ${(s.end[i] / 1e6).toFixed(3)} ms`);
    const during = above(run.edge, s.start[i]) - 1;
    const when = during >= 0 && during < run.number.length ? `during step ${run.number[during]}` : "";
    const [place, of] = this.ordinal(s.run, name, s.start[i]);
    const image = run.images && Math.abs(of - run.images) <= 0.1 * run.images ? `image ${place.toLocaleString("en-US")} of ${of.toLocaleString("en-US")} by order of start` : `${place.toLocaleString("en-US")} of ${of.toLocaleString("en-US")} of this name`;
    lines.push([step >= 0 ? `step ${step}` : when, image].filter(Boolean).join(" · "));
    return lines;
  }

  // How many spans of this name began before: one operation per image makes it the number of the image.
  ordinal(r, name, t) {
    let place = 1, of = 0;
    for (const lane of this.scene.runs[r].lanes) {
      if (!lane.export) continue;
      for (const row of lane.rows) for (const s of row.series) {
        for (let i = 0; i < s.count; i++) if (this.scene.name[s.first + i] === name) { of++; if (s.start[i] < t) place++; }
      }
    }
    return [place, of];
  }

  gapWords(r, k) {
    const run = this.scene.runs[r], { gap } = run, kind = run.gaps.kinds[gap.kind[k]];
    const head = `Gap ${(k + 1).toLocaleString("en-US")} of ${gap.start.length.toLocaleString("en-US")}${run.label ? `, ${run.label}` : ""}: ${duration(gap.length[k])}`;
    const lines = [`${head}, ${(gap.start[k] / 1e6).toFixed(3)} to ${((gap.start[k] + gap.length[k]) / 1e6).toFixed(3)} ms`];
    lines.push(run.gaps.texts[k] ?? `Mostly ${kind}${gap.for_name[k] >= 0 ? `: ${run.names[gap.for_name[k]]}` : ""}.`);
    if (run.gaps.parts[k]) lines.push(`of which ${run.gaps.parts[k]}`);
    if (gap.for_start[k] >= 0 && gap.for_lane[k] >= 0) {
      const name = gap.for_name[k] >= 0 ? run.names[gap.for_name[k]] : "span";
      lines.push(`Waited for ${name} on ${run.lanes[gap.for_lane[k]].name}, ${(gap.for_start[k] / 1e6).toFixed(3)} to ${(gap.for_end[k] / 1e6).toFixed(3)} ms (outlined).`);
    }
    return lines;
  }

  hover(x, y) {
    const hit = this.hit(x, y);
    let lines = null;
    if (hit?.span) lines = this.spanWords(hit.span);
    else if (hit?.gap !== undefined) lines = [...this.gapWords(hit.run, hit.gap).slice(0, 2), "click for the span it waited for"];
    else if (hit && x < this.left) lines = [hit.place.lane.name, `${hit.place.lane.busy} busy · ${hit.place.lane.spans.toLocaleString("en-US")} spans`, hit.place.lane.note].filter(Boolean);
    this.canvas.style.cursor = this.measuring ? "col-resize" : hit?.span || hit?.gap !== undefined ? "pointer" : "default";
    this.tip.hidden = !lines;
    if (!lines) return;
    this.tip.replaceChildren(make("b", "", lines[0]), document.createTextNode(lines.slice(1).join("\n")));
    const box = this.canvas.getBoundingClientRect(), root = this.root.getBoundingClientRect();
    const dx = box.left - root.left, dy = box.top - root.top, w = this.tip.offsetWidth, h = this.tip.offsetHeight;
    this.tip.style.left = `${Math.max(Math.min(dx + x + 14, root.width - w - 4), 4)}px`;
    this.tip.style.top = `${dy + y + 18 + h > root.height ? Math.max(dy + y - h - 10, 0) : dy + y + 18}px`;
  }

  click(x, y) {
    const hit = this.hit(x, y);
    if (hit?.gap !== undefined) this.selectGap(hit.run, hit.gap, false);
    else if (hit?.span) { this.selected = { span: hit.span }; this.sentence(); this.say(this.detail.textContent); }
    else { this.selected = null; this.sentence(); }
    this.later();
  }

  selectGap(r, k, reveal = true) {
    this.selected = { run: r, gap: k };
    const { gap } = this.scene.runs[r], from = gap.start[k], to = from + gap.length[k], size = this.last - this.first;
    if (reveal && (from < this.first || to > this.last || gap.length[k] < size / 400)) {
      const wide = Math.min(Math.max(size, gap.length[k] * 1.3), gap.length[k] < size / 400 ? gap.length[k] * 40 : Infinity);
      this.show((from + to - wide) / 2, (from + to + wide) / 2, true);
    }
    if (gap.for_start[k] >= 0) { // bring what it waited for into sight: along the axis, and in the list of lanes
      const wanted = [Math.max(gap.for_start[k], from - 10 * gap.length[k]), gap.for_end[k]];
      if (wanted[0] < this.first || wanted[1] > this.last) {
        const a = Math.min(wanted[0], this.first, from), b = Math.max(Math.min(wanted[1], to + 10 * gap.length[k]), to, Math.min(this.last, to + size));
        this.show(a - (b - a) * 0.03, b + (b - a) * 0.03, true);
      }
      const q = this.places.find((p) => p.run === r && p.lane.index === gap.for_lane[k]), room = this.lanesHeight();
      if (q && (q.y < this.scroll || q.y + q.lane.height * q.scale > this.scroll + room)) this.scroll = q.y + q.lane.height * q.scale - room + 8;
    }
    this.sentence();
    this.say(this.detail.textContent);
    this.later();
  }

  nextGap(way) {
    let r = this.selected?.gap !== undefined ? this.selected.run : 0, k;
    if (!this.scene.runs[r].gap.start.length) r = this.scene.runs.findIndex((run) => run.gap.start.length);
    if (r < 0) return this.say("there is no gap");
    const { gap } = this.scene.runs[r];
    if (this.selected?.gap !== undefined) k = this.selected.gap + way;
    else k = way > 0 ? above(gap.start, this.first - 1) : above(gap.start, this.last) - 1;
    if (k < 0 || k >= gap.start.length) { // on to the other run, or around
      const others = this.scene.runs.filter((run) => run.gap.start.length);
      r = others[(others.findIndex((run) => run.index === r) + way + others.length) % others.length].index;
      k = way > 0 ? 0 : this.scene.runs[r].gap.start.length - 1;
    }
    this.selectGap(r, k);
  }

  // -- measuring and searching ----------------------------------------------------------------------------------------

  measureMode() {
    this.measuring = !this.measuring;
    this.measureButton.setAttribute("aria-pressed", String(this.measuring));
    if (this.measuring && !this.measured) { // for the keyboard: what is seen, or what is selected
      const s = this.selected, g = s?.gap !== undefined ? this.scene.runs[s.run].gap : null;
      if (s) this.measured = g ? { a: g.start[s.gap], b: g.start[s.gap] + g.length[s.gap] } : { a: s.span.series.start[s.span.i], b: s.span.series.end[s.span.i] };
    }
    this.canvas.style.cursor = this.measuring ? "col-resize" : "default";
    this.sentence();
    this.say(this.measuring ? this.measured ? this.detail.textContent : "measure: drag over the lanes" : "measuring off");
    this.later();
  }

  measureWords() {
    const { a, b } = this.measured, lines = [`Measured: ${duration(b - a)}, ${(a / 1e6).toFixed(3)} to ${(b / 1e6).toFixed(3)} ms`];
    for (const run of this.scene.runs) {
      let idle = 0, steps = 0;
      const { gap } = run, end = Math.min(b, run.span_ns);
      for (let i = Math.max(above(gap.start, a) - 1, 0); i < gap.start.length && gap.start[i] < b; i++) {
        idle += Math.max(Math.min(gap.start[i] + gap.length[i], b) - Math.max(gap.start[i], a), 0);
      }
      for (let i = 1; i < run.edge.length; i++) if (run.edge[i] > a && run.edge[i] <= b) steps++;
      if (end > a) lines.push(`${run.label ? `${run.label}: ` : ""}accelerator idle ${duration(idle)} (${percent(idle / (end - a))}), ${steps} step${steps === 1 ? " ends" : "s end"} here`);
    }
    return lines;
  }

  find(words) {
    const wanted = words.trim().toLowerCase(), { scene } = this;
    this.matches = null;
    this.found.textContent = "";
    this.later();
    if (!wanted) return;
    const matches = { runs: scene.runs.map((run) => new Set(run.names.flatMap((name, k) => name.toLowerCase().includes(wanted) ? [k] : []))),
      series: new Map(), list: [] };
    let time = 0, count = 0;
    for (const run of scene.runs) for (const lane of run.lanes) {
      if (!lane.shown || (!lane.export && lane.kind === "accelerator")) continue;
      for (const row of lane.rows) for (const s of row.series) {
        const rows = [];
        for (let i = 0; i < s.count; i++) if (matches.runs[run.index].has(scene.name[s.first + i])) rows.push(i);
        if (!rows.length) continue;
        const start = Float64Array.from(rows, (i) => s.start[i]), end = Float64Array.from(rows, (i) => s.end[i]), total = new Float64Array(rows.length + 1);
        rows.forEach((_, k) => { total[k + 1] = total[k] + end[k] - start[k]; });
        matches.series.set(s, { start, end, total, rows });
        matches.list.push({ s, row, start, rows });
        count += rows.length;
        time += total[rows.length];
      }
    }
    matches.count = count;
    this.matches = matches;
    this.found.textContent = count ? `${count.toLocaleString("en-US")} found, ${duration(time)}` : "none found";
    this.say(this.found.textContent);
  }

  nextMatch(way) {
    if (!this.matches?.count) return;
    const now = this.selected?.span, at = now ? now.series.start[now.i] : way > 0 ? this.first - 1 : this.last;
    let best = null, outermost = null;
    const after = (t, k, u, j) => way * (t - u) > 0 || (t === u && way * (k - j) > 0);
    this.matches.list.forEach((m, order) => {
      const key = now && m.s === now.series ? 0 : now ? order - this.matches.list.findIndex((x) => x.s === now.series) : 0;
      const places = way > 0 ? [above(m.start, at), above(m.start, at - 0.5)] : [above(m.start, at - 0.5) - 1, above(m.start, at) - 1];
      for (const k of places) {
        if (k < 0 || k >= m.rows.length || !after(m.start[k], key, at, 0)) continue;
        if (!best || after(best.t, best.key, m.start[k], key)) best = { m, k, t: m.start[k], key };
      }
      const k = way > 0 ? 0 : m.rows.length - 1;
      if (!outermost || way * (m.start[k] - outermost.t) < 0) outermost = { m, k, t: m.start[k] };
    });
    const { m, k } = best ?? outermost, i = m.rows[k], from = m.s.start[i], to = m.s.end[i], size = this.last - this.first;
    this.selected = { span: { series: m.s, i, row: m.row } };
    if (from < this.first || to > this.last) this.show((from + to - Math.max(size, to - from)) / 2, (from + to + Math.max(size, to - from)) / 2, true);
    const p = this.places.find((q) => q.run === m.s.run && q.lane.index === m.s.lane), room = this.lanesHeight();
    if (p && (p.y < this.scroll || p.y + p.lane.height > this.scroll + room)) this.scroll = p.y - room / 2;
    this.sentence();
    this.say(this.detail.textContent);
    this.later();
  }

  // -- words --------------------------------------------------------------------------------------------------------

  say(words) { this.live.textContent = words; }

  // The name of the canvas for those who cannot see it; with what is seen now.
  describe(words) {
    const part = this.first > 0 || this.last < this.span ? ` Shown: ${duration(this.first)} to ${duration(this.last)}.` : "";
    this.canvas.setAttribute("aria-label", `${this.scene.alt}${part} Press question mark for keys, T for tables.`);
    if (words) this.say(words);
  }

  sentence() {
    const lines = this.measured ? this.measureWords() : this.selected?.span ? this.spanWords(this.selected.span)
      : this.selected ? this.gapWords(this.selected.run, this.selected.gap) : this.measuring ? ["Drag over the lanes to measure."]
        : this.scene.count ? [null, "Click a gap of the accelerator for its cause, or a span for its name. Press ? for keys."] : [null, "No spans: nothing was recorded in the window."];
    this.detail.replaceChildren(...(lines[0] ? [make("b", "", lines[0])] : []), document.createTextNode(lines.slice(1).join("\n")));
  }

  toggleHelp() {
    this.help.hidden = !this.help.hidden;
    this.helpButton.setAttribute("aria-expanded", String(!this.help.hidden));
    if (!this.help.hidden) this.say(KEYS.map(([key, words]) => `${key}: ${words}`).join("; "));
  }

  toggleTable() {
    this.panel.hidden = !this.panel.hidden;
    this.tableButton.setAttribute("aria-expanded", String(!this.panel.hidden));
    if (!this.panel.hidden) { this.tables(); this.panel.focus({ preventScroll: true }); } else this.canvas.focus({ preventScroll: true });
  }

  tables() {
    this.panel.replaceChildren();
    const table = (caption, heads, rows) => {
      const t = make("table");
      t.append(make("caption", "", caption));
      const head = t.createTHead().insertRow();
      for (const words of heads) head.append(make("th", "", words, { scope: "col" }));
      const body = t.createTBody();
      for (const cells of rows) {
        const row = body.insertRow();
        row.append(make("th", "", "", { scope: "row" }));
        row.firstChild.append(cells[0]);
        for (const cell of cells.slice(1)) {
          row.append(make("td", typeof cell === "number" ? "n" : "", typeof cell === "number" ? cell.toLocaleString("en-US") : cell));
        }
      }
      this.panel.append(t);
    };
    for (const run of this.scene.runs) {
      const of = run.label ? `${run.label}: ` : "";
      table(`${of}lanes`, ["lane", "kind", "busy", "spans", "time by kind of work"],
        run.lanes.filter((lane) => lane.shown).map((lane) => [lane.name, lane.kind, lane.busy, lane.spans, lane.note]));
      const { gap } = run, n = gap.start.length, most = 200;
      const order = Array.from({ length: n }, (_, i) => i).sort((a, b) => gap.length[b] - gap.length[a]).slice(0, most).sort((a, b) => a - b);
      table(`${of}${n > most ? `the ${most} longest of ${n.toLocaleString("en-US")} gaps` : `${n} gap${n === 1 ? "" : "s"}`} of the accelerator`,
        ["gap", "starts at, ms", "lasts, ms", "step", "cause"], order.map((k) => {
          const go = make("button", "", String(k + 1), { type: "button", "aria-label": `show gap ${k + 1}`, "data-lm-suppress-shortcuts": "true" });
          go.addEventListener("click", () => this.selectGap(run.index, k));
          return [go, (gap.start[k] / 1e6).toFixed(3), (gap.length[k] / 1e6).toFixed(3), gap.step[k] < 0 ? "" : String(gap.step[k]), this.gapWords(run.index, k).slice(1, 2).join(" ")];
        }));
    }
  }

  // -- downloads ----------------------------------------------------------------------------------------------------

  // Draw title, lanes and legend as one picture; returns its height, and draws only if there is a pen.
  sheet(pen) {
    const { scene, colours, width } = this, lines = [scene.title, ...[...this.heads.children].map((node) => node.textContent)];
    const top = 10 + lines.length * 18, body = this.layoutNow.height + AXIS;
    let x = 10, y = top + body + 18;
    const keys = [...this.legend.children].map((node) => ({ category: node.querySelector("canvas").category, off: node.getAttribute("aria-pressed") === "false",
      words: [...node.querySelectorAll("span,small")].map((part) => part.textContent).join(" ") })).filter((key) => !key.off);
    pen?.rect(0, 0, width, 1e4, colours.background);
    lines.forEach((line, k) => pen?.text(10, 16 + k * 18, elide(line, width - 20, k ? 12 : 14, !k), k ? 12 : 14, k ? colours.muted : colours.ink, "left", !k));
    if (pen) this.paint(pen, top, width, body, true);
    for (const { category: c, words } of keys) {
      const size = 40 + textWidth(words, 12);
      if (x + size > width - 10 && x > 10) { x = 10; y += 20; }
      if (pen) {
        const key = c < 0 ? "wait" : scene.categories[c].key;
        if (key === "wait") { pen.hatch(x, y - 6, 24, 12, "/", colours.gap); pen.box(x, y - 6, 24, 12, colours.gap); }
        else if (key === "iterator") pen.rect(x, y - 2, 24, 4, colours.fill[c]);
        else { pen.rect(x, y - 6, 24, 12, colours.fill[c]); if (scene.categories[c].hatch) pen.hatch(x, y - 6, 24, 12, scene.categories[c].hatch, colours.background); }
        pen.text(x + 30, y, words, 12, colours.ink);
      }
      x += size + 12;
    }
    return Math.ceil(y + 16);
  }

  svg() {
    const pen = new SvgPen(this.width, this.sheet(null));
    this.sheet(pen);
    return pen.toString(this.scene.title, this.scene.alt);
  }

  // At once, not with toBlob: a browser may drop a download that comes after the click.
  png() {
    const canvas = document.createElement("canvas"), scale = Math.max(window.devicePixelRatio || 1, 2);
    this.sheet(new CanvasPen(canvas, this.width, this.sheet(null), scale));
    const bytes = Uint8Array.from(atob(canvas.toDataURL("image/png").split(",")[1]), (c) => c.charCodeAt(0));
    return new Blob([bytes], { type: "image/png" });
  }

  file(ending) {
    const name = this.scene.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60);
    return `${name || "timeline"}${ending}`;
  }

  save(name, content, type) {
    const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    const link = make("a", "", "", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
    this.say(`saved ${name}`);
  }

  savePng() { this.save(this.file(".png"), this.png(), "image/png"); }
  saveSvg() { this.save(this.file(".svg"), this.svg(), "image/svg+xml"); }
  saveCsv() { this.save(this.file(".csv"), toCsv(this.scene), "text/csv"); }
  savePerfetto() { this.save(this.file(".json"), toPerfetto(this.scene), "application/json"); }
}

// -- two doors ------------------------------------------------------------------------------------------------------

// A saved page: bytes in base64, compressed.
export async function mount(el, text, look = {}) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const block = await new Response(stream).arrayBuffer();
  const picture = [...el.childNodes]; // it stays where scripts do not run, or this one fails
  const view = new View(el, block, look), shown = globalThis.labkitShown ??= new Map(), before = shown.get(look.key);
  picture.forEach((node) => node.remove());
  if (before && !before.root.deref()?.isConnected) { // this page takes the place of that one
    view.keep(before.seen);
    view.describe(null);
  }
  if (look.key) shown.set(look.key, { seen: view.seen, root: new WeakRef(view.root) });
  return view;
}

// anywidget.
function render({ model, el }) {
  const view = new View(el, model.get("scene"), model.get("look") ?? {});
  const changed = () => view.update(model.get("scene"));
  model.on("change:scene", changed);
  return () => { model.off("change:scene", changed); view.destroy(); };
}

export default { render };
