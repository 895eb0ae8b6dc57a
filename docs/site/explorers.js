// Explorers: the front end of the notebooks, whose model is a table here (explorers.py) and not a kernel. A position that the
// table does not hold is said to need the notebook, and the sliders go back to where they were.

(() => {
// What anywidget calls a model: names with values, and who is told when one changes.
function model(values) {
  const told = new Map(), set = (name, value) => { values[name] = value; };
  return { get: (name) => values[name], set, on: (what, call) => told.set(what, call), off() {},
    tell: (name, value) => { set(name, value); told.get(`change:${name}`)(); } };
}

// Returns what looks a position up: its words, and the block of its timeline.
async function table({ positions, said, heads, columns }, text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const bytes = new Uint8Array(await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
  const words = JSON.parse(new TextDecoder().decode(bytes.subarray(0, said))), places = new Map(positions.map((to, k) => [`${to}`, k]));
  const starts = (from, lengths) => lengths.reduce((all, length) => [...all, all.at(-1) + length], [from]);
  const head = starts(said, heads), column = starts(head.at(-1), columns);
  const block = (k) => {
    const parts = [bytes.subarray(head[k], head[k + 1]), bytes.subarray(column[k], column[k + 1])];
    const whole = new Uint8Array(parts[0].length + parts[1].length);
    parts.forEach((part, i) => whole.set(part, i && parts[0].length));
    return new DataView(whole.buffer);
  };
  return (to) => {
    const k = places.get(`${to}`);
    return k === undefined ? null : { reply: { ...words[k], places: to }, block: heads.length ? block(k) : null };
  };
}

async function enliven(root) {
  const [about, answers] = [...root.querySelectorAll(":scope > script")].map((script) => script.textContent);
  const { html, spec, places, stops, labels, ...index } = JSON.parse(about), find = await table(index, answers), first = find(places);
  const panel = document.createElement("div"), lanes = document.createElement("div");
  const explorer = model({ html, spec, places, reply: first.reply });
  let at = places, view = null;
  explorer.save_changes = () => {
    const asked = explorer.get("places"), found = find(asked);
    if (found) {
      at = asked;
      explorer.tell("reply", found.reply);
      return view?.update(found.block);
    }
    const moved = asked.map((to, k) => to === at[k] ? "" : labels[k]).filter(Boolean).join(", ");
    explorer.tell("places", at);
    explorer.tell("reply", { ...find(at).reply, words: `${moved}: this position needs the notebook. ${find(at).reply.words}` });
  };
  root.replaceChildren(panel, lanes);
  labkitExplorer({ model: explorer, el: panel });
  if (first.block) {
    lanes.className = "labkit-explorer-lanes";
    view = new labkitPen.View(lanes, first.block, { page: labkitPen.page, heading: false });
  }
  // A main slider stops where the table has an answer; the others say what they need, and stay.
  panel.querySelectorAll("label").forEach((label, k) => {
    const input = label.children[1];
    if (!(k in stops)) {
      label.classList.add("lx-asleep");
      label.title = `${labels[k]} needs the notebook`;
      return input.setAttribute("aria-description", "needs the notebook");
    }
    input.addEventListener("input", () => {
      const to = Number(input.value), step = to - at[k]; // a key moves by one place: on to the next stop in its direction
      const ahead = Math.abs(step) === 1 ? stops[k].filter((stop) => (stop - at[k]) * step > 0) : stops[k];
      input.value = ahead.reduce((best, stop) => Math.abs(stop - to) < Math.abs(best - to) ? stop : best, ahead[0] ?? at[k]);
    }, true);
  });
  const needs = document.createElement("p");
  needs.textContent = "Grey sliders need the notebook: here they stay where they are.";
  panel.querySelector("[data-part=sliders]").after(needs);
}

const near = new IntersectionObserver((entries) => entries.filter(({ isIntersecting }) => isIntersecting).forEach(({ target }) => {
  near.unobserve(target);
  if (globalThis.labkitPen) enliven(target).catch((error) => console.warn(`the picture stays: ${error}`));
}), { rootMargin: "300px" });
document.querySelectorAll(".lx-explorer").forEach((root) => near.observe(root));
})();
