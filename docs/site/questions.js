// Predictions, readings and the strip above them. What is asked, and what is said of every answer, was computed when the
// page was made (questions.py); here it is asked, kept in the browser, and drawn. Nothing leaves the browser but by export.

(() => {
const KEY = "labkit-course", FORMAT = "labkit page 1", CLOSED = "tag_labkit-after-";
const kept = { format: FORMAT, predictions: {}, readings: {}, seen: {}, ...remembered() };
const forms = new Map(), reads = []; // what draws the state of each prediction, by name; the numbers of the readings

function remembered() { // without storage, the page remembers until it is left
  try { return [JSON.parse(localStorage.getItem(KEY))].find((found) => found?.format === FORMAT); } catch { return {}; }
}

function save() {
  try { localStorage.setItem(KEY, JSON.stringify(kept)); } catch { /* see above */ }
  refresh();
}

const slug = (name) => name.replace(".", "-");
const isOpen = (name) => name in kept.predictions || name in kept.seen;
const short = (value) => value >= 100 ? Math.round(value).toLocaleString("en-US") : String(+value.toPrecision(3));
const upper = (text) => text.replace(/^./, (first) => first.toUpperCase());
const dataOf = (node) => JSON.parse(node.querySelector("script[type='application/json']").textContent);

function element(kind, attributes = {}, ...inside) {
  const node = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) node[name.startsWith("on") ? "addEventListener" : "setAttribute"](name.replace(/^on/, ""), value);
  node.append(...inside);
  return node;
}
const press = (words, does) => element("button", { type: "button", onclick: does }, words);

// -- predictions ----------------------------------------------------------------------------------------------------

function look(...names) {
  for (const name of names) kept.seen[name] = true;
  save();
}

// Fills the place of a form; `show` draws what is kept.
function ask(place) {
  const asked = dataOf(place), { file, unit, spec, said, rows } = asked, { name } = file, share = file.unit === "share";
  const mark = document.querySelector(`.lq-mark[data-name="${name}"]`), picture = [...mark.childNodes];
  const words = (value) => typeof value === "string" ? value : [value].flat().map((one) => short(share ? 100 * one : one)).join(", ") + ` ${unit}`;
  const told = element("p", { role: "status", tabindex: "-1" }), body = element("div", {});
  const keep = (value) => {
    kept.predictions[name] ??= { ...file, value };
    save();
    told.focus();
  };
  const anyway = press("Show me anyway", () => { look(name); told.focus(); });
  if (spec) {
    const chart = element("div", { class: "labkit-curve" });
    labkitCurve.mount(chart, { ...spec, unit }, keep);
    body.append(`Your prediction ${name}, ${unit}:`, chart, anyway);
  } else if (said) {
    const choices = rows.map(({ label }) => press(label, () => keep(label)));
    body.append(element("div", { class: "lq-row" }, `Your prediction ${name}:`, ...choices, anyway));
  } else {
    const input = element("input", { type: "number", step: "any", min: 0, ...(share ? { max: 1 } : {}), required: "" });
    const label = element("label", {}, `Your prediction ${name}, ${share ? "a share from 0 to 1" : unit === "times" ? "how many times as much" : `in ${unit}`}: `, input);
    body.append(element("form", { class: "lq-row", onsubmit: (event) => { event.preventDefault(); keep(input.valueAsNumber); } },
      label, element("button", {}, "Keep it"), anyway));
  }
  place.append(body, told);
  const verdict = (value) => { // of a number, and of each point of a curve
    const each = [value].flat().map((one, i) => asked.verdicts[i].find(([end]) => end === null || one <= end)[1]);
    const judged = each.filter((word) => !word.startsWith("not judged")); // as in the notebook
    return new Set(judged).size < 2 ? judged[0] ?? each[0] : `${judged.filter((word) => word.startsWith("right")).length} of ${judged.length} points right`;
  };
  forms.set(name, () => {
    const value = kept.predictions[name]?.value, given = value !== undefined;
    body.hidden = isOpen(name);
    told.textContent = given ? `You predicted ${name}: ${words(value)}.` : isOpen(name) ? `${name}: you looked first, so nothing is judged.` : "";
    if (!given) return mark.replaceChildren(...picture);
    const sentence = said ? said[value]
      : `You predicted ${words(value)}. Measured: ${spec ? asked.measured : rows.at(-1).words}. ${upper(verdict(value))}.`;
    const drawn = spec ? curve(asked, value, sentence) : bars(rows, said ? null : value, said ? value : null, words);
    mark.replaceChildren(drawn, element("p", {}, sentence));
  });
}

// A bar for each row; `mine` is a dashed line across them, or `chosen` the label of one.
function bars(rows, mine, chosen, words) {
  const most = Math.max(mine ?? 0, ...rows.map(({ value }) => value)) || 1, at = (value) => `${(100 * value) / most}%`;
  const line = () => mine === null ? [] : [element("s", { style: `left:calc(${at(mine)} - 2px)` })];
  const own = mine === null ? [] : [element("span", {}, "◆ you"), element("div", {}, ...line()), element("span", {}, words(mine))];
  const each = rows.flatMap(({ label, value, words }) => [
    element("span", {}, label === chosen ? `◆ ${label} (you)` : label),
    element("div", {}, element("i", { style: `width:${at(value)}` }), ...line()), element("span", {}, words)]);
  return element("div", { class: "lq-bars" }, ...own, ...each);
}

// The predicted curve as it was drawn, and over it what was measured.
function curve({ spec, lines, unit }, values, sentence) {
  const { mount, drawn, WIDTH, HEIGHT, LEFT, RIGHT, TOP, BELOW } = labkitCurve;
  const chart = element("div", { class: "labkit-curve" }), top = Math.max(spec.top, ...Object.values(lines).flat());
  mount(chart, { ...spec, unit, top, values, words: "" }, () => {});
  const [svg, button, status] = chart.children;
  button.remove();
  status.textContent = "Dashed: you. Solid: measured." + ("the model" in lines ? " Dotted: the model." : "");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", sentence);
  for (const point of svg.querySelectorAll("circle")) for (const name of point.getAttributeNames()) if (/^(aria|role|tabindex)/.test(name)) point.removeAttribute(name);
  const place = (value, i) => [LEFT + 20 + (i * (WIDTH - LEFT - RIGHT - 40)) / (values.length - 1), TOP + (HEIGHT - BELOW - TOP) * (1 - value / top)];
  for (const [title, line] of Object.entries(lines)) drawn(svg, "polyline", { class: title === "measured" ? "lq-line" : "lq-model", points: line.map(place).join(" ") });
  return chart;
}

// Closes the outputs that answer a prediction, and what follows its review in the section, until it is made.
function lock() {
  for (const cell of document.querySelectorAll(`[class*="${CLOSED}"]`)) {
    const names = [...forms.keys()].filter((name) => cell.classList.contains(CLOSED + slug(name)) && !isOpen(name));
    cell.classList.toggle("lq-open", !names.length);
    cell.querySelector(":scope > .lq-closed")?.remove();
    if (!names.length) continue;
    const links = names.map((name) => element("a", { href: `#predict-${slug(name)}` }, name));
    cell.append(element("p", { class: "lq-closed" }, "Closed until you have predicted ", ...links.flatMap((link, i) => i ? [", ", link] : [link]), ". ",
      press("Show me anyway", () => { look(...names); cell.setAttribute("tabindex", "-1"); cell.focus(); })));
  }
  for (const section of new Set([...document.querySelectorAll(".lq-mark")].map((mark) => mark.closest(".cell").parentElement))) {
    let shut = false;
    for (const child of section.children) {
      if (shut || child.classList.contains("lq-shut")) child.classList.toggle("lq-shut", child.hidden = shut);
      shut ||= child.matches(".cell:not(.lq-open)") && Boolean(child.querySelector(".lq-mark"));
    }
  }
}

// -- readings -------------------------------------------------------------------------------------------------------

// Opens what is said of an answer: only the answer gives the stream that hides it (questions.py, sealed).
function unsealed(text, answer) {
  let state = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(answer)) state = Math.imul(state ^ byte, 0x01000193);
  const bytes = Uint8Array.from(atob(text), (letter) => {
    for (const [by, left] of [[13, true], [17, false], [5, true]]) state ^= left ? state << by : state >>> by;
    return letter.charCodeAt(0) ^ (state & 255);
  });
  return JSON.parse(new TextDecoder().decode(bytes));
}

function read(root) {
  const { number, choices, said, blocks } = dataOf(root), parts = Object.keys(choices), before = kept.readings[number] ?? {};
  const given = Object.fromEntries(parts.filter((part) => choices[part].includes(before[part])).map((part) => [part, before[part]]));
  const status = element("p", { role: "status" }), check = press("Check", () => judge(true));
  root.append(check, status);
  const draw = ([place, block, look], points) => globalThis.labkitPen?.mount(root.querySelector(`[data-place="${place}"]`), block,
    { ...look, points: points ?? look.points, page: labkitPen.page, key: `${number}-${place}` }).catch((error) => console.warn(`the picture stays: ${error}`));
  const chosen = () => {
    for (const button of root.querySelectorAll("button[data-value]")) button.ariaPressed = String(given[button.dataset.part] === JSON.parse(button.dataset.value));
    for (const place of root.querySelectorAll("output[data-pick]")) place.textContent = given[place.dataset.part] ?? place.textContent;
  };
  const answered = (part, value) => {
    given[part] = value;
    status.textContent = `Your answer: ${part ? `${part}: ` : ""}${value}. When all is answered, press Check.`;
    chosen();
  };
  const judge = (fresh) => {
    const missing = parts.filter((part) => given[part] === undefined);
    if (missing.length) return void (status.textContent = `No answer yet${missing[0] ? `: ${missing.join(", ")}` : ""}.`);
    const replies = parts.map((part) => ({ part, ...unsealed(said[part][choices[part].indexOf(given[part])], `${number}|${part}|${given[part]}`) }));
    const wrong = replies.find(({ right }) => !right), shown = wrong ? [wrong] : replies;
    for (const { place, points } of shown) if (points) draw(blocks.find(([k]) => k === place), points);
    const because = new Map(); // parts with the same answer share its reason
    for (const { part, words } of shown) because.set(words, [...(because.get(words) ?? []), part]);
    const sentences = [...because].map(([words, of]) => of[0] ? `${of.join(", ")}${wrong ? "" : ` (${given[of[0]]})`}: ${words}` : upper(words));
    status.textContent = `${wrong ? "✗ Not yet." : "✓ Right."} ${sentences.join(". ").replace(/\?$|$/, (end) => end || ".")}`;
    if (fresh && !wrong) { kept.readings[number] = { ...given }; save(); }
  };
  root.addEventListener("click", ({ target }) => {
    const button = target.closest("button[data-value]");
    if (button) answered(button.dataset.part, JSON.parse(button.dataset.value));
  });
  root.addEventListener("labkit-pick", ({ detail }) => {
    for (const place of root.querySelectorAll("output[data-pick]")) if (choices[place.dataset.part].includes(detail[place.dataset.pick])) answered(place.dataset.part, detail[place.dataset.pick]);
  });
  const near = new IntersectionObserver((entries) => {
    if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
    near.disconnect();
    Promise.all(blocks.map((one) => draw(one))).then(() => kept.readings[number] && judge(false));
  }, { rootMargin: "300px" });
  near.observe(root);
  chosen();
  reads.push(number);
}

// -- the strip ------------------------------------------------------------------------------------------------------

function exported() {
  const file = new Blob([JSON.stringify(kept)], { type: "application/json" });
  const link = element("a", { download: "labkit-page.json", href: URL.createObjectURL(file) });
  link.click();
  state.append(` Exported. In a notebook, labcourse.take_up("${link.download}") takes it up.`);
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function forget() {
  if (!confirm("Forget all predictions and readings of this browser?")) return;
  try { localStorage.removeItem(KEY); } catch { /* nothing was kept */ }
  location.reload();
}

function strip() {
  const asked = [...forms.keys()], left = [...asked.filter((name) => !isOpen(name)).map((name) => ["predict", name]),
    ...reads.filter((name) => !(name in kept.readings)).map((name) => ["read", name])];
  const links = left.flatMap(([what, name], i) => [i ? ", " : "Still open: ", element("a", { href: `#${what}-${slug(name)}` }, name)]);
  const counts = [[kept.predictions, asked, "Predicted"], [kept.readings, reads, "Read"]].filter(([, all]) => all.length)
    .map(([done, all, word]) => `${word} ${all.filter((name) => name in done).length} of ${all.length}. `);
  state.replaceChildren(...counts, ...(links.length ? [...links, "."] : ["Nothing is open."]));
  state.prepend("Your answers, kept in this browser: ");
}

function refresh() {
  for (const show of forms.values()) show();
  lock();
  strip();
}

for (const place of document.querySelectorAll(".lq-form")) ask(place);
for (const root of document.querySelectorAll(".lq-reading")) read(root);
const state = element("p", { role: "status" });
if (forms.size || reads.length) {
  const buttons = element("div", { class: "lq-row" }, press("Export as a file", exported), press("Forget all", forget));
  (document.querySelector("article") ?? document.body).prepend(element("aside", { class: "lq-strip lq-row", "aria-label": "Your progress" }, state, buttons));
}
refresh();
})();
