// A curve to predict: points that are dragged, or moved by the arrow keys, and a button that hands their values to the
// kernel. In JupyterLab a widget does so, in Colab a page.

const WIDTH = 520, HEIGHT = 220, LEFT = 46, RIGHT = 16, TOP = 12, BELOW = 40;
const GONE = "No kernel answers: run this cell again, or type the numbers.";
const PARTS = { ArrowUp: 80, ArrowRight: 80, ArrowDown: -80, ArrowLeft: -80, PageUp: 8, PageDown: -8, End: 1, Home: -1 }; // of the axis

function drawn(svg, kind, attributes, words = "") {
  const node = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", kind));
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = words;
  return node;
}

// Draws the points of `spec`; `keep` is called with their values. Returns what shows the kernel's answer.
export function mount(root, spec, keep) {
  const { top, at, places } = spec, values = spec.values.slice(), digits = top <= 2 ? 2 : 1, high = HEIGHT - BELOW - TOP;
  const x = (i) => LEFT + 20 + (i * (WIDTH - LEFT - RIGHT - 40)) / (at.length - 1), y = (value) => TOP + high * (1 - value / top);
  root.innerHTML = `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="group"></svg><button type="button">Keep these numbers</button><p role="status"></p>`;
  const [svg, button, status] = root.children;
  svg.setAttribute("aria-label", spec.title);
  for (const value of [0, 1, 2, 3, 4].map((n) => (n * top) / 4)) {
    drawn(svg, "line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value), class: "grid" });
    drawn(svg, "text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, +value.toFixed(2));
  }
  drawn(svg, "text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, spec.label);
  const line = drawn(svg, "polyline", {});
  const points = at.map((_, i) => {
    drawn(svg, "text", { x: x(i), y: HEIGHT - BELOW + 18, "text-anchor": "middle" }, places[i]);
    const read = drawn(svg, "text", { x: x(i), "text-anchor": "middle" });
    const point = drawn(svg, "circle", { cx: x(i), r: 9, tabindex: 0, role: "slider", "aria-orientation": "vertical",
      "aria-label": `${places[i]} ${spec.label}`.trim(), "aria-valuemin": 0, "aria-valuemax": top });
    const show = () => {
      point.setAttribute("cy", y(values[i]));
      point.setAttribute("aria-valuenow", values[i]);
      point.setAttribute("aria-valuetext", `${values[i]} ${spec.unit}`);
      read.setAttribute("y", y(values[i]) + (y(values[i]) < TOP + 22 ? 24 : -14));
      read.textContent = values[i];
      line.setAttribute("points", values.map((value, k) => `${x(k)},${y(value)}`).join(" "));
    };
    const move = (value) => {
      values[i] = +Math.min(top, Math.max(0, value)).toFixed(digits);
      status.textContent = "Not kept yet: press the button.";
      show();
    };
    point.addEventListener("pointerdown", (event) => { point.setPointerCapture(event.pointerId); point.focus(); event.preventDefault(); });
    point.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      if (point.hasPointerCapture(event.pointerId)) move((1 - (((event.clientY - box.top) * HEIGHT) / box.height - TOP) / high) * top);
    });
    point.addEventListener("keydown", (event) => {
      if (!PARTS[event.key]) return;
      event.preventDefault();
      move(values[i] + Math.sign(PARTS[event.key]) * Math.max(Math.abs(top / PARTS[event.key]), 10 ** -digits));
    });
    return show;
  });
  const answer = (reply) => {
    status.textContent = reply.words;
    reply.values?.forEach((value, i) => { values[i] = value; });
    points.forEach((show) => show());
  };
  button.addEventListener("click", () => keep(values.slice()));
  answer(spec);
  return answer;
}

export function inColab(root, spec) {
  const answer = mount(root, spec, async (values) => {
    try { answer((await google.colab.kernel.invokeFunction(spec.name, [values], {})).data["application/json"]); }
    catch { answer({ words: GONE }); }
  });
}

function render({ model, el }) {
  let silence = 0; // a kernel that was restarted says nothing
  const answer = mount(el, model.get("spec"), (values) => {
    silence = setTimeout(() => answer({ words: GONE }), 10000);
    model.set("asked", { values, time: Date.now() });
    model.save_changes();
  });
  const show = () => { clearTimeout(silence); answer(model.get("reply")); };
  const above = (hidden) => { // the picture, which is left where no kernel has this model
    if (hidden && !el.isConnected) return requestAnimationFrame(() => above(hidden));
    el.closest(".jp-OutputArea-child")?.previousElementSibling?.querySelector(".labkit-picture")?.toggleAttribute("hidden", hidden);
  };
  el.classList.add("labkit-curve");
  el.setAttribute("data-lm-suppress-shortcuts", "true"); // JupyterLab leaves the keys to it
  above(true);
  model.on("change:reply", show);
  return () => { above(false); clearTimeout(silence); model.off("change:reply", show); };
}

export default { render };
