"""How Sphinx makes the pages of the course; `docs/site/build.py` prepares its sources and calls it."""

import json
import os
import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

#: What build.py knows: the address of the repository, the version that the notebooks name, and the scripts in order.
_SITE = json.loads(os.environ["LABKIT_SITE"])

project = html_title = "The input-pipeline lab"
project_copyright = author = "the authors of labkit"
extensions = ["myst_nb"]
exclude_patterns = ["_*"]
nb_execution_mode = "off"  # what is stored is shown
nb_ipywidgets_js = {}  # no notebook stores a widget, and these would be asked for outside
nb_merge_streams = True
myst_enable_extensions = ["attrs_inline", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
html_theme = "furo"
html_static_path = [_SITE["static"]]
html_css_files = _SITE["styles"]
# The first one runs before anything is seen, the others when the page is there.
html_js_files = [
    (name, {"defer": "defer"} if place else {"priority": 100}) for place, name in enumerate(_SITE["scripts"])
]
html_math_renderer = "mathml"
html_show_sourcelink = html_copy_source = False
html_show_search_summary = False  # it would fetch pages, which a folder does not allow
html_use_index = False
html_theme_options = {
    "footer_icons": [{"name": "repository", "url": _SITE["repository"], "html": "The lab's repository"}],
    "top_of_page_buttons": [],
    "light_css_variables": {"color-brand-primary": "#01429c", "color-brand-content": "#01429c"},
    "dark_css_variables": {"color-brand-primary": "#9ab0f0", "color-brand-content": "#9ab0f0"},
}  # fmt: skip


def _mathml(writer, node):
    """Write a formula as MathML, which browsers draw by themselves."""
    formula = re.sub(r"\\t?frac(\d)(\d)", r"\\frac{\1}{\2}", node.astext())  # docutils wants the braces
    block = node.tagname == "math_block"
    words = tex2mathml(formula, as_block=block)
    writer.body.append(f'<div class="math" tabindex="0">{words}</div>' if block else words)
    raise nodes.SkipNode


def _reach(app, name, template, context, tree):
    """Let keys reach every text that may be wider than its page, and say which level the headings of the menu have."""
    for part in ("body", "furo_navigation_tree"):
        if part in context:
            reached = context[part].replace("<pre>", '<pre tabindex="0">')
            context[part] = reached.replace(' role="heading">', ' role="heading" aria-level="2">')


def setup(app):
    """Tell Sphinx how formulas and wide texts are written."""
    app.add_html_math_renderer("mathml", (_mathml, None), (_mathml, None))
    app.connect("html-page-context", _reach, priority=900)  # after the theme has made its menu
    # Written one after the other: Sphinx says nothing of a page that fails in another process, and exits with 0.
    return {"parallel_read_safe": True, "parallel_write_safe": False}
