// What ipywidgets leaves out of its sliders: a name, the value in words, a handle that is seen and shows its focus.
//
// A reader of the screen hears "slider, 5" from ipywidgets 8 and nothing from 7. This module draws nothing; it lives in the box
// of the sliders, takes each one's label and readout, and writes them where a screen reader looks (ARIA 1.2, role slider).

// Names every slider below `root`; what is right already stays untouched, so that a watcher of changes comes to rest.
export function name(root) {
  const put = (node, attribute, value) => { if (node.getAttribute(attribute) !== value) node.setAttribute(attribute, value); };
  for (const handle of root.querySelectorAll(".noUi-handle, .ui-slider-handle")) {
    const slider = handle.closest(".widget-inline-hbox, .widget-hslider");
    const label = slider?.querySelector(".widget-label"), readout = slider?.querySelector(".widget-readout");
    if (!label || !readout) continue;
    put(handle, "aria-label", label.textContent);
    put(handle, "aria-valuetext", readout.textContent);
    if (handle.matches(".ui-slider-handle")) { // ipywidgets 7: the place of the handle is all that it says
      put(handle, "role", "slider");
      put(handle, "aria-valuemin", "0");
      put(handle, "aria-valuemax", "100");
      put(handle, "aria-valuenow", String(Math.round(parseFloat(handle.style.left) || 0)));
    }
    put(label, "title", label.textContent); // a long label is cut off; ipywidgets 8 would show the word null
    put(readout, "contenteditable", "false"); // nothing can be written there: no stop for the Tab key
  }
}

function render({ el }) {
  el.style.cssText = "width:1px;height:1px;overflow:hidden;position:absolute"; // a size, so that being shown is noticed
  let changes = null;
  const shown = new ResizeObserver(() => {
    const root = el.closest(".labkit-controls");
    if (!root || changes) return;
    name(root);
    changes = new MutationObserver(() => name(root));
    changes.observe(root, { childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: ["aria-valuetext", "title", "style"] });
  });
  shown.observe(el);
  return () => { shown.disconnect(); changes?.disconnect(); };
}

export default { render };
