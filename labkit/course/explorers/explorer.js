// The sliders of an explorer in Colab. What they stand for is computed by the kernel: google.colab.kernel.invokeFunction.
//
// Elements of the browser, and no widgets: they take the keyboard, have names for a screen reader, and no model that
// Colab would store. While an answer is on its way only the last position is kept, so a drag asks no more than it can see.

const STYLE = `
.labkit-explorer{max-width:64em;line-height:1.5;color:var(--colab-primary-text-color,inherit)}
.labkit-explorer h3{margin:.4em 0}
.labkit-explorer [data-part=controls]{display:flex;flex-flow:row wrap;gap:.3em 2em}
.labkit-explorer [role=group]{flex-basis:100%}
.labkit-explorer button{margin:0 .5em .3em 0;padding:.2em .7em;font:inherit}
.labkit-explorer label{display:grid;grid-template-columns:12em 11em 6em;gap:.6em;align-items:center}
.labkit-explorer :focus-visible{outline:3px solid currentColor;outline-offset:2px}
.labkit-explorer img{max-width:100%}
.labkit-explorer pre{white-space:pre-wrap;color:inherit}
.labkit-explorer pre:empty{display:none}
`;

export function mount(root, spec) {
  const part = (name) => root.querySelector(`[data-part=${name}]`);
  const make = (kind, more = {}) => Object.assign(document.createElement(kind), more);
  const say = root.querySelector("[role=status]");
  root.append(make("style", { textContent: STYLE }));

  const group = make("div");
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", "positions of all sliders");
  part("controls").append(group);

  const inputs = spec.sliders.map((slider) => {
    const label = make("label"), read = make("span", { textContent: slider.values[slider.at] });
    read.setAttribute("aria-hidden", "true"); // the slider itself says its value
    label.append(make("span", { textContent: slider.label }));
    let input;
    if (slider.words) {
      input = make("select");
      for (const value of slider.values) input.append(make("option", { textContent: value }));
      input.selectedIndex = slider.at;
      read.hidden = true;
    } else {
      input = make("input", { type: "range", min: 0, max: slider.values.length - 1, step: 1 });
      input.value = slider.at;
    }
    const place = () => (slider.words ? input.selectedIndex : Number(input.value));
    const show = () => { read.textContent = slider.values[place()]; input.setAttribute("aria-valuetext", read.textContent); };
    input.setAttribute("aria-label", slider.label);
    input.addEventListener("input", () => { show(); ask(); });
    show();
    label.append(input, read);
    part("controls").append(label);
    return { place, go: (at) => { if (slider.words) input.selectedIndex = at; else input.value = at; show(); } };
  });

  for (const button of spec.buttons) {
    const node = make("button", { type: "button", textContent: button.label });
    node.addEventListener("click", () => {
      button.at.forEach((at, i) => { if (at !== null) inputs[i].go(at); });
      ask();
    });
    group.append(node);
  }

  let busy = false, waiting = false;
  async function ask() {
    waiting = true;
    if (busy) return;
    busy = true;
    while (waiting) {
      waiting = false;
      try {
        const got = await google.colab.kernel.invokeFunction(spec.name, [inputs.map((i) => i.place())], {});
        const reply = got.data["application/json"];
        say.textContent = reply.words;
        part("pictures").replaceChildren(...reply.pictures.map((picture) => make("img", picture)));
        root.querySelector("pre").textContent = reply.details;
      } catch (error) {
        say.textContent = "No kernel answers: run this cell again. The picture shows the last answer.";
      }
    }
    busy = false;
  }
}
