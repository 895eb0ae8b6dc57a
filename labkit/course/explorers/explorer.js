// The sliders of an explorer in Colab. What they stand for is computed by the kernel: google.colab.kernel.invokeFunction.
//
// Elements of the browser, and no widgets: they take the keyboard, have names for a screen reader, and no model that
// Colab would store. While an answer is on its way only the last position is kept, so a drag asks no more than it can see.

export function mount(root, spec) {
  const part = (name) => root.querySelector(`[data-part=${name}]`);
  const say = root.querySelector("[role=status]");

  const inputs = [...root.querySelectorAll("label")].map((label, i) => {
    const [, input, read] = label.children; // a menu or a slider; its value is a place in the list of values
    const show = () => { read.textContent = spec.sliders[i][input.value]; input.setAttribute("aria-valuetext", read.textContent); };
    input.addEventListener("input", () => { show(); ask(); });
    show();
    return { place: () => Number(input.value), go: (at) => { input.value = at; show(); } };
  });

  root.querySelectorAll("[role=group] button").forEach((button, i) => button.addEventListener("click", () => {
    spec.buttons[i].forEach((at, k) => { if (at !== null) inputs[k].go(at); });
    ask();
  }));

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
        part("pictures").replaceChildren(...reply.pictures.map((picture) => Object.assign(new Image(), picture)));
        root.querySelector("pre").textContent = reply.details;
      } catch (error) {
        say.textContent = "No kernel answers: run this cell again. The picture shows the last answer.";
      }
    }
    busy = false;
  }
}
