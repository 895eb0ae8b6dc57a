"""What a reader meets who uses keys, a screen reader, or eyes that see few colours: for `test_accessibility.py`."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np


class Page(HTMLParser):
    """What matters of HTML: words of pictures, levels of headings, heads of tables, language, title."""

    def __init__(self, text):
        super().__init__()
        self.alts, self.levels, self.tables, self.heads, self.lang, self.title = [], [], 0, [], None, ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        known = dict(attributes)
        self._inside = tag
        if tag == "img":
            self.alts.append(known.get("alt") or "")
        elif re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        elif tag == "html":
            self.lang = known.get("lang")
        self.tables += tag == "table"
        self.heads += [known.get("scope")] if tag == "th" else []

    def handle_data(self, data):
        self.title += data if self._inside == "title" else ""


def ciede2000(one, other):
    """Return the difference of two CIELAB colours (Sharma, Wu and Dalal 2005, equations 2 to 22)."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = ((np.hypot(a1, b1) + np.hypot(a2, b2)) / 2) ** 7
    a1, a2 = (a * (1.5 - 0.5 * np.sqrt(mean / (mean + 25**7))) for a in (a1, a2))
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    light, c, h = (l1 + l2) / 2, (c1 + c2) / 2, (h1 + turn / 2) % 360 if c1 * c2 else h1 + h2
    waves = ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63))
    t = 1 + sum(k * np.cos(np.radians(n * h + phase)) for k, n, phase in waves)
    dl = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2))
    dc = (c2 - c1) / (1 + 0.045 * c)
    dh = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * c * t)
    rotation = -2 * np.sqrt(c**7 / (c**7 + 25**7)) * np.sin(np.radians(60 * np.exp(-(((h - 275) / 25) ** 2))))
    return float(np.sqrt(dl**2 + dc**2 + dh**2 + rotation * dc * dh))


#: Contrast of all visible text with what lies behind it; opacity counts.
CONTRAST = """(root) => {
  const rgba = (c) => { const v = c.match(/[\\d.]+/g).map(Number); return [v[0], v[1], v[2], v[3] ?? 1]; };
  const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, k, i) => { const v = c[i] / 255;
    return sum + k * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); }, 0);
  const low = [];
  for (const node of document.querySelector(root).querySelectorAll('*')) {
    const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !node.checkVisibility() || node.matches('style, script, title, :disabled')) continue;
    let behind = [], seen = 1;
    for (let e = node; e; e = e.parentElement) {
      const style = getComputedStyle(e);
      behind.push(rgba(style.backgroundColor));
      seen *= Number(style.opacity);
    }
    const empty = matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18, 1] : [255, 255, 255, 1];
    const page = behind.reduceRight((under, c) => over(c, under), empty);
    const ink = rgba(getComputedStyle(node).color); ink[3] *= seen;
    const [a, b] = [light(over(ink, page)), light(page)].sort((x, y) => x - y);
    if ((b + 0.05) / (a + 0.05) < 4.5) low.push([node.tagName, node.textContent.slice(0, 30), (b + 0.05) / (a + 0.05)]);
  }
  return low; }"""

#: Where the focus is: a number of its own, whether it is inside, and how its outline looks.
FOCUS = """(root) => { const e = document.activeElement, style = getComputedStyle(e);
  window.stops ??= new Map(); if (!window.stops.has(e)) window.stops.set(e, window.stops.size);
  return [window.stops.get(e), !!e.closest(root), style.outlineStyle, parseFloat(style.outlineWidth),
          (e.getAttribute('aria-label') || e.textContent || e.id || e.tagName).slice(0, 40)]; }"""

#: How many elements below a root can have the focus by keys.
STOPS = """(root) => [...document.querySelector(root).querySelectorAll(
  'button, input, select, textarea, a[href], [tabindex], summary, [contenteditable=true]')]
  .filter((e) => e.tabIndex >= 0 && !e.disabled && e.checkVisibility()).length"""


def tabbed(page, root, key="Tab", most=120):
    """Press a key until the focus has left `root`; return where it stopped inside, in order."""
    stops = []
    for _ in range(most):
        page.keyboard.press(key)
        number, inside, style, width, words = page.evaluate(FOCUS, root)
        if not inside:
            return stops
        assert style != "none", f"nobody sees that {words!r} has the focus"
        assert width >= 1, f"nobody sees that {words!r} has the focus"
        assert number not in [stop[0] for stop in stops], f"the focus goes around and never leaves: {words!r} again"
        stops.append((number, words))
    raise AssertionError(f"the focus never leaves {root}: {stops[-5:]}")


def nameless(page, css):
    """Return role and name of all below `css` that can have the focus and has no name, or no role, for Chromium."""
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("Accessibility.enable")
    root = session.send("DOM.getDocument")["root"]["nodeId"]
    found = []
    for place in session.send("DOM.querySelectorAll", {"nodeId": root, "selector": css})["nodeIds"]:
        for node in session.send("Accessibility.queryAXTree", {"nodeId": place})["nodes"]:
            known = {p["name"]: p["value"].get("value") for p in node.get("properties", [])}
            role, name = (node.get(what, {}).get("value", "") for what in ("role", "name"))
            if known.get("focusable") and not node.get("ignored"):
                found.append((role, name))
    session.detach()
    assert found, "the tree of accessibility holds nothing: the test is blind"
    return [(role, name) for role, name in found if not name.strip() or role in ("", "generic", "none")]
