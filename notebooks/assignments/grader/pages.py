"""Students' text on an instructor's pages, terminal and tables: nothing of it that these would run, load or send.

Feedback and formgrader come from the address of JupyterLab, so a script of a student there would have the rights of the
instructor. Outputs are those of the grader, which are plain text (`assignments.grader.course.with_outputs`); what is
left is Markdown, which may hold HTML.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import html
import io
import math
import re
from collections.abc import Iterable
from typing import Any

#: What Markdown itself makes. A picture is none of it: an address may tell somebody who looks at it, and when.
TAGS = """
    a b blockquote br code del dd div dl dt em h1 h2 h3 h4 h5 h6 hr i li ol p pre s span strong sub sup table tbody td
    th thead tr u ul
""".split()
_MOST_LETTERS = 20_000
_ADDRESSES = ("http://", "https://", "mailto:", "#")


def harmless(markdown: str) -> str:
    """Return the HTML of a Markdown text; what it holds of HTML stands there as text."""
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    class Renderer(IPythonRenderer):
        """Names a picture instead of showing it: nbconvert ends at an attachment that is not there."""

        def image(self, text: str, url: str, title: str | None = None) -> str:
            return html.escape(f"[picture: {text or url}]")

    try:
        if len(markdown) > _MOST_LETTERS:
            raise ValueError("too long to look for Markdown in it: that takes the square of the time")
        made = MarkdownWithMath(renderer=Renderer(escape=True)).render(markdown)
    except Exception:  # a page must not end at one cell
        made = f"<pre>{html.escape(markdown)}</pre>"
    return _cleaner().clean(made)


@functools.cache
def _cleaner() -> Any:
    import nh3

    schemes = {"http", "https", "mailto"}
    return nh3.Cleaner(
        tags=set(TAGS), attributes={"a": {"href"}}, attribute_filter=_address, url_schemes=schemes, link_rel=None
    )


def _address(tag: str, name: str, value: str) -> str | None:
    """Return an address that may be clicked; None, which leaves it out, for one of the instructor's own server."""
    return value if value.startswith(_ADDRESSES) else None


def as_code(text: str) -> str:
    """Return Markdown that shows a text as it is."""
    fence = "`" * max([2, *map(len, re.findall("`+", text))]) + "`"
    return f"{fence}text\n{text}\n{fence}"


def one_line(text: str, most: int = 2000) -> str:
    """Return a text for a terminal or a table: what cannot be seen, or turns the direction of writing, is spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:most])


#: What a spreadsheet may take for the beginning of a formula; the last four are the wide signs of East Asia.
_SIGN = "[=+\\-@\t\n\uff1d\uff0b\uff0d\uff20]"
#: Where a cell may begin: spreadsheets split a table at semicolons or tabs, too, and at the ends of lines.
_BEGIN = '(^|[;\t\n][ "]*)'


def as_cell(text: str) -> str:
    """Return a text that a spreadsheet takes for text, with a "'" before each formula; a number stays a number."""
    with contextlib.suppress(ValueError):
        if math.isfinite(float(text)):
            return text
    text = text.replace("\r", "\n")  # Python's csv puts no quotes around the one, which ends a row
    return re.sub(f"{_BEGIN}(?='*{_SIGN})", r"\1'", text)


def of_cell(text: str) -> str:
    """Return what `as_cell` was given."""
    return re.sub(f"{_BEGIN}'(?='*{_SIGN})", r"\1", text)


def as_csv(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of which no cell is a formula."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([head, *(map(as_cell, row) for row in rows)])
    return out.getvalue()
