// Rows and sliders of an explorer. What they stand for is computed by the kernel: in JupyterLab a widget asks it, in Colab a
// page. Elements of the browser, the same in both: they take the keyboard and have names for a screen reader. Python writes
// them, with the answer to the opening position.

const SILENCE_MS = 10000; // an answer takes a second; a kernel that runs another cell answers after it
const GONE = "No kernel answers. If no other cell is running, run this cell again. The picture shows the last answer.";
const MINE = "data-lm-suppress-shortcuts"; // JupyterLab leaves the keys of such elements to them

// Calls `moved` with the places of all sliders when one moved; returns what moves them, speaks, and shows an answer. Which
// bar is the lowest is shown when the reader has said which, at every position anew.
export function mount(root, spec, moved) {
  const inputs = [...root.querySelectorAll("label")].map((label, i) => {
    const [, input, read] = label.children; // a menu or a slider; its value is a place in the list of values
    const show = () => { read.textContent = spec.sliders[i][input.value]; input.setAttribute("aria-valuetext", read.textContent); };
    input.addEventListener("input", () => { show(); tell(); });
    show();
    return { place: () => Number(input.value), go: (at) => { input.value = at; show(); } };
  });
  const rows = [...root.querySelectorAll("[role=group]:not([data-part]) button")];
  const bars = root.querySelector("[data-part=bars]"), verdict = root.querySelector("[data-part=verdict]");
  let known = spec.bars; // null where an explorer has none
  const ask = (now) => { if ((known = now)) [bars.innerHTML, verdict.textContent] = [known.html, known.question]; };
  bars?.addEventListener("click", ({ target }) => {
    const all = [...bars.children], answer = all.indexOf(target.closest("button"));
    if (answer < 0) return;
    all.forEach((bar, i) => { bar.setAttribute("aria-pressed", i === answer); bar.lastElementChild.textContent = known.marks[i]; });
    verdict.textContent = known.verdicts[answer];
  });
  const places = () => inputs.map((input) => input.place());
  const press = () => rows.forEach((row, i) => row.setAttribute("aria-pressed", `${spec.rows[i]}` === `${places()}`));
  const tell = () => { press(); ask(known); moved(places()); };
  const go = (to) => { to.forEach((at, i) => inputs[i].go(at)); press(); };
  const say = (...words) => [...root.querySelector("[role=status]").children].forEach((node, i) => { node.textContent = words[i] ?? ""; });
  rows.forEach((row, i) => row.addEventListener("click", () => { go(spec.rows[i]); tell(); }));
  const show = (reply) => {
    say(reply.words, reply.changed);
    ask(reply.bars);
    const pictures = root.querySelector("[data-part=pictures]"), open = pictures.querySelector("details[open] > .labkit-picture");
    pictures.innerHTML = reply.pictures;
    if (open) pictures.querySelector(":scope > details")?.setAttribute("open", "");
    root.querySelector("[data-part=more] > pre").textContent = reply.details;
  };
  return { go, say, show };
}

// In Colab: while an answer is on its way only the last position is kept, so a drag asks no more than it can see.
export function inColab(root, spec) {
  let busy = false, waiting = null;
  const page = mount(root, spec, async (places) => {
    waiting = places;
    if (busy) return;
    busy = true;
    while (waiting) {
      const asked = waiting;
      waiting = null;
      try { page.show((await google.colab.kernel.invokeFunction(spec.name, [asked], {})).data["application/json"]); }
      catch { page.say(GONE); }
    }
    busy = false;
  });
}

function render({ model, el }) {
  el.innerHTML = model.get("html");
  const root = el.firstElementChild;
  let silence = 0; // a kernel that was restarted knows nothing of this page, and says nothing
  const page = mount(root, model.get("spec"), (places) => {
    clearTimeout(silence);
    silence = setTimeout(() => page.say(GONE), SILENCE_MS);
    model.set("places", places);
    model.save_changes();
  });
  const follow = () => page.go(model.get("places"));
  const show = () => { clearTimeout(silence); page.show(model.get("reply")); };
  const leave = ({ target, ctrlKey, metaKey, altKey }) => {
    if (root.contains(target)) target.toggleAttribute(MINE, !(ctrlKey || metaKey || altKey));
  };
  let instead; // the picture above, which is left where no kernel has this model
  const hide = () => {
    if (!el.isConnected) return requestAnimationFrame(hide);
    instead = el.closest(".jp-OutputArea-child")?.previousElementSibling?.querySelector(".labkit-picture");
    instead?.toggleAttribute("hidden", true);
  };
  [hide, follow, show].forEach((first) => first());
  model.on("change:places", follow);
  model.on("change:reply", show);
  window.addEventListener("keydown", leave, true);
  return () => {
    instead?.toggleAttribute("hidden", false);
    clearTimeout(silence);
    model.off("change:places", follow);
    model.off("change:reply", show);
    window.removeEventListener("keydown", leave, true);
  };
}

export default { render };
