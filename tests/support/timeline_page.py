"""The interactive timeline in a page of a browser, as anywidget would show it."""

from __future__ import annotations

import base64

from labkit.views.layout import TimelineLayout
from labkit.views.widget import MODULE, page

#: A model as anywidget gives it to the module; its bytes begin at an odd place, as they may.
MODEL = """async ([source, text, look]) => {
  window.lab = await import(URL.createObjectURL(new Blob([source], {type: 'text/javascript'})));
  window.bytes = (text) => { const b = atob(text), a = new Uint8Array(b.length + 3);
    for (let i = 0; i < b.length; i++) a[i + 3] = b.charCodeAt(i); return new DataView(a.buffer, 3); };
  window.listeners = [];
  window.model = { block: bytes(text), get: (name) => name === 'block' ? model.block : look,
    on: (what, does) => listeners.push([what, does]),
    off: (what, does) => { listeners = listeners.filter(([w, d]) => w !== what || d !== does); } };
  document.body.innerHTML = '<button id=before>before</button><div id=here></div><button id=after>after</button>';
  document.body.append(Object.assign(document.createElement('div'), { style: 'height:3000px' }));
  window.done = lab.default.render({ model, el: document.getElementById('here') });
  window.view = document.querySelector('.labkit-timeline').timeline;
  view.redraw();
}"""

#: On a page that the lab writes: every timeline has taken the place of its picture.
ALL_LIVE = "[...document.querySelectorAll('[data-block]')].every((place) => place.querySelector('.labkit-timeline'))"


def labelled(timelines):
    """Return the labels of one timeline or of two."""
    return [""] if len(timelines) == 1 else ["before", "after"]


def encoded(*timelines):
    """Return the block of timelines as text."""
    return base64.b64encode(TimelineLayout(timelines, labelled(timelines)).encode()).decode()


def show_in(tab, *timelines, **look):
    """Show timelines in a page; ``view`` is there the view, ``lab`` the module, ``model`` the model."""
    look = {"page": page(), "theme": None, "height": None, **look}
    tab.evaluate(MODEL, [MODULE.read_text(encoding="utf-8"), encoded(*timelines), look])


#: Where the middle of a gap of the first run lies in the page, once the timeline below `root` has been painted.
GAP = """([root, number]) => { const view = document.querySelector(`${root} .labkit-timeline`)?.timeline;
  if (!view?.painted) return null;
  const { gap } = view.layout.runs[0], place = view.placeOf(0, 0), canvas = view.canvas.getBoundingClientRect();
  return [canvas.left + view.x((gap.start[number] + gap.end[number]) / 2), canvas.top + place.y + place.h / 2]; }"""


def click_gap(tab, number, root="body"):
    """Wait until a saved timeline lives, click a gap of its first run, and return what the timeline says."""
    tab.wait_for_function(GAP, arg=[root, number])
    tab.locator(f"{root} .lt-lanes").first.scroll_into_view_if_needed()
    tab.mouse.click(*tab.evaluate(GAP, [root, number]))
    return tab.locator(f"{root} .lt-detail").first.inner_text()
