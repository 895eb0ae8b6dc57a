"""A table that reads the same as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape


class Html(str):
    """A cell that is HTML already, as one with a button is: it is not escaped.

    >>> Table((), [(Html("<button>1</button>"), "a < b")], styled=False)._repr_html_()
    '<table><tbody><tr><th scope="row"><button>1</button></th><td>a &lt; b</td></tr></tbody></table>'
    """

    __slots__ = ()


@dataclass(frozen=True, repr=False)
class Table:
    """Rows of text under a row of headings, with sentences below.

    Parameters
    ----------
    head : sequence of str
        The headings, one for each column; empty for a table without them.
    rows : sequence of sequence of str
        The cells; the first one of a row names the row.
    right : iterable of int
        The columns that are aligned to the right, as numbers are.
    notes : sequence of str
        Sentences, one below the other, under the table.
    caption : str
        One line or several above the table.
    rule : bool
        Draw a line under the headings of the text.
    indent : str
        What every line of the text begins with.
    styled : bool
        Whether the HTML says how cells are aligned; a page with a style of its own leaves it out.
    more : sequence of str and Table
        What few readers want, such as how the figures were measured: in HTML it is folded, and in text it follows last.
    more_title : str
        The line that unfolds it, and that stands above it in text.

    Examples
    --------
    >>> print(Table(("pipeline", "images/s"), [("naive", "90"), ("prefetch", "140")], right=[1]))
    pipeline  images/s
    naive           90
    prefetch       140
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Iterable[int] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    caption: str = ""
    rule: bool = False
    indent: str = ""
    styled: bool = True
    more: Sequence[str | Table] = ()
    more_title: str = "how this was measured"

    def lines(self) -> list[str]:
        """Return caption, headings, rows, notes and what is folded as lines of text whose columns are aligned."""
        right = set(self.right)
        cells = [list(self.head), *map(list, self.rows)] if self.head else list(map(list, self.rows))
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        pads = [str.rjust if column in right else str.ljust for column in range(len(widths))]
        body = ["  ".join(pad(c, w) for pad, c, w in zip(pads, row, widths, strict=True)) for row in cells]
        if self.rule:
            body.insert(1, "  ".join("─" * width for width in widths))
        text = [self.indent + line.rstrip() for line in body]
        above = [self.caption] if self.caption else []
        below = ["", f"{self.more_title}:", *(line for part in self.more for line in _lines(part))] if self.more else []
        return [*above, *text, *([""] if self.notes and self.rule else []), *self.notes, *below]

    def __repr__(self) -> str:
        """Return the table as text."""
        return "\n".join(self.lines())

    def markdown(self) -> str:
        """Return the table as Markdown; cells may hold links.

        >>> print(Table(("notebook", "solved"), [("[one](1.ipynb)", "2")], right=[1], notes=["Go on."]).markdown())
        | notebook | solved |
        | --- | ---: |
        | [one](1.ipynb) | 2 |
        <BLANKLINE>
        **Go on.**
        """
        right = set(self.right)
        sides = ["---:" if column in right else "---" for column in range(len(self.head))]
        rows = [f"| {' | '.join(row)} |" for row in (self.head, sides, *self.rows)]
        notes, more = [f"\n**{note}**" for note in self.notes], [f"\n{self._fold()}"] if self.more else []
        return "\n".join([*rows, *notes, *more])

    def _repr_html_(self) -> str:
        """Return the table for a notebook, without colours, so that it suits every theme."""
        right = set(self.right)

        def style(text: str) -> str:
            return f' style="{text}"' if self.styled else ""

        def cell(tag: str, text: str, column: int, scope: str = "") -> str:
            side = "right" if column in right else "left"
            # A word joiner on both sides keeps a range on one line of a narrow column.
            words = text if isinstance(text, Html) else escape(text).replace("–", "&#8288;–&#8288;")
            if tag == "td" and column in right and not isinstance(text, Html):
                words = words.replace(" ", "&nbsp;")  # a number keeps its unit beside it
            # The name of a row keeps the spaces that it begins with: a tree of names is drawn with them.
            spaces = ";white-space:pre-wrap;overflow-wrap:anywhere" if "row" in scope else ""
            return f"<{tag}{scope}{style(f'text-align:{side}{spaces}')}>{words}</{tag}>"

        parts = ["<table>"]
        if self.caption:
            look = style("text-align:left;white-space:pre-line")
            parts.append(f"<caption{look}>{escape(self.caption)}</caption>")
        if self.head:
            heads = "".join(cell("th", text, i, ' scope="col"') for i, text in enumerate(self.head))
            parts.append(f"<thead><tr>{heads}</tr></thead>")
        parts.append("<tbody>")
        for row in self.rows:
            first = cell("th", row[0], 0, ' scope="row"')
            parts.append(f"<tr>{first}{''.join(cell('td', t, i) for i, t in enumerate(row[1:], 1))}</tr>")
        return "".join([*parts, "</tbody></table>", *map(_block, self.notes), self._fold()])

    def _fold(self) -> str:
        """Return what is folded as HTML, which a browser opens by mouse and by keyboard without a script."""
        inside = "".join(map(_block, self.more))
        return f"<details><summary>{escape(self.more_title)}</summary>{inside}</details>" if inside else ""


def _lines(part: str | Table) -> list[str]:
    return ["", *part.lines()] if isinstance(part, Table) else [part]


def _block(part: str | Table) -> str:
    return part._repr_html_() if isinstance(part, Table) else f"<div>{escape(part)}</div>"


class Tabular:
    """What is shown as the table that its method `table` returns: as text, and as HTML in a notebook."""

    def __repr__(self) -> str:
        """Return the table as text."""
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
