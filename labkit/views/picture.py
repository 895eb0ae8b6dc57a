"""A picture that can be shown, saved and read aloud; it is made when it is first needed, in either theme."""

from __future__ import annotations

import base64
import contextlib
import html
import io
import os
import struct
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.common.files import write_aside
from labkit.common.palette import Theme, asked_for, theme
from labkit.common.progress import fast
from labkit.common.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Inches of every picture, and pixels per inch of a PNG.
WIDTH, DPI = 10.0, 100

#: Colours of a PNG: a page has two dozen, some only as thin lines, and the edges of its letters take the others. Photos
#: need all.
COLOURS, PHOTO_COLOURS = 96, 256

_FORMATS = ("png", "svg")

#: A picture on a page: the one in the colours of the page, and its text to unfold. The attribute ``hidden`` holds where
#: a page drops styles: a notebook that is not trusted. A JPEG is never inverted: it holds photos, and the negative of a
#: photo shows dark what is bright.
_FIGURE = """<figure class="labkit-picture" style="margin:0">
<style>
.labkit-picture img{{max-width:100%;height:auto}}
{dark} .labkit-picture .labkit-light:not(:only-of-type){{display:none}}
{dark} .labkit-picture .labkit-light:only-of-type:not([src^="data:image/jpeg"])
{{filter:invert(.93) hue-rotate(180deg) saturate(1.3)}}
{dark} .labkit-picture .labkit-dark{{display:inline!important}}
</style>
{images}
<details><summary>in words</summary><pre>{text}</pre></details>{note}
</figure>"""

#: How JupyterLab, Colab, Jupyter Book and Visual Studio Code say that a page is dark.
DARK = ":is([data-jp-theme-light=false],[theme=dark],[data-theme=dark],.vscode-dark)"


def figure_html(images: Mapping[str, bytes], kind: str, width: int, alt: str, text: str, note: str = "") -> str:
    """Return an image as HTML, in the theme of the page that shows it, with its text below it to unfold.

    Parameters
    ----------
    images : mapping of str to bytes
        The same picture by theme; "" in place of a theme where the reader chose one for every page. A light picture
        without a dark one is inverted where the page is dark, but for a JPEG.
    kind : str
        What comes after ``image/`` in the name of their format.
    width : int
        Pixels of the page; the image may have more.
    alt, text, note : str
        The note stands below the image, for all to see.
    """
    shown = [
        f'<img class="labkit-{look}"{" hidden" * (look == "dark")} width="{width}" alt="{html.escape(alt)}" '
        f'src="data:image/{kind};base64,{base64.b64encode(data).decode("ascii")}">'
        for look, data in images.items()
    ]
    note = f"\n<figcaption>{html.escape(note)}</figcaption>" if note else ""
    return _FIGURE.format(dark=DARK, images="\n".join(shown), text=html.escape(text), note=note)


class Picture:
    """A figure with its title and its text equivalent.

    Notebooks show it in the theme of the page, at twice the density of its pixels, with its text to unfold. It opens
    no window and leaves no figure behind in pyplot.

    Parameters
    ----------
    make : callable
        Takes a `Theme`, returns a new matplotlib figure.
    title, alt, text : str
        One line; one or two sentences; all numbers of the picture.
    name : str, optional
        Theme in which it is shown; without one, that of ``LABKIT_THEME``, or else that of the page.
    photos : bool
        There are photos in it: a page gets it as JPEG, and never shows it inverted.
    """

    def __init__(
        self, make: Callable[[Theme], Figure], title: str, alt: str, text: str, name: str | None = None,
        photos: bool = False,
    ) -> None:  # fmt: skip
        theme(name)  # an unknown theme is refused here, not when the notebook shows the picture
        self.title, self.alt, self.text = title, alt, text
        self._make, self._theme, self._photos = make, name, photos
        self._pixels: dict[tuple[str, str], bytes] = {}

    def __str__(self) -> str:
        """Return the text equivalent."""
        return self.text

    __repr__ = __str__

    def figure(self, theme: str | None = None) -> Figure:
        """Return a new matplotlib figure, unknown to pyplot.

        Raises
        ------
        ValueError
            If there is no such theme.
        """
        with plain_style():
            return self._make(self._look(theme))

    def png(self, theme: str | None = None) -> bytes:
        """Return the picture as PNG, 100 pixels per inch."""
        return self._encode(self._look(theme).name, "png")

    def html(self, both: bool = True, note: str = "") -> str:
        """Return the picture for a page, see `figure_html`; not `both` leaves the dark one out: half the size.

        Where LABKIT_FAST is set, the PNG stands for both: nobody looks, and a notebook needs it in any case.
        """
        if fast():
            return figure_html({"": self.png()}, "png", round(WIDTH * DPI), self.alt, self.text, note)
        asked = asked_for(self._theme)
        looks = {"": asked[0]} if len(asked) == 1 else {look: look for look in asked[: 1 + both]}
        kind = "jpeg" if self._photos else "webp"
        images = {look: self._encode(name, kind) for look, name in looks.items()}
        return figure_html(images, kind, round(WIDTH * DPI), self.alt, self.text, note)

    def svg(self, theme: str | None = None) -> str:
        """Return the picture as SVG; title and alternative text are in its metadata."""
        return self._encode(self._look(theme).name, "svg").decode()

    def save(self, path: str | os.PathLike[str], theme: str | None = None) -> Path:
        """Write the picture as PNG or SVG, by the ending of `path`; aside and renamed.

        Raises
        ------
        ValueError
            If the ending or the theme is another.
        """
        path = Path(path)
        ending = path.suffix.lower().lstrip(".")
        if ending not in _FORMATS:
            raise ValueError(f"{path} ends in {path.suffix!r}; allowed: {', '.join(f'.{f}' for f in _FORMATS)}")
        return write_aside(path, self._encode(self._look(theme).name, ending))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a notebook shows: a page in both themes, a PNG with alternative text, and the text equivalent."""
        return self.bundle()

    def bundle(self, page: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a notebook shows, with another page in place of the picture's own, if one is given."""
        png = self.png()
        width, height = struct.unpack(">II", png[16:24])
        data = {
            "text/html": page or self.html(), "image/png": base64.b64encode(png).decode("ascii"),
            "text/plain": self.text,
        }  # fmt: skip
        return data, {"image/png": {"width": width, "height": height, "alt": self.alt}}

    def _look(self, name: str | None) -> Theme:
        return theme(name or self._theme)

    def _encode(self, look: str, form: str) -> bytes:
        if (look, form) in self._pixels:
            return self._pixels[look, form]
        out = io.BytesIO()
        with plain_style():
            figure = self._make(theme(look))
            if form != "svg":
                self._write_pixels(figure, out, form)
            else:
                known = {"Date": None, "Creator": None, "Title": self.title, "Description": self.alt}
                figure.savefig(out, format=form, dpi=DPI, metadata=known)
                return out.getvalue()
        return self._pixels.setdefault((look, form), out.getvalue())

    def _write_pixels(self, figure: Figure, out: io.BytesIO, form: str) -> None:
        """Write a PNG, a JPEG, or a WebP at twice the density.

        In few colours a drawing takes a third of the size, without a visible change.
        """
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from PIL import Image, PngImagePlugin

        figure.set_dpi(2 * DPI if form == "webp" else DPI)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        image = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB")
        if form == "jpeg":
            image.save(out, "jpeg", quality=60, optimize=True)
            return
        image = image.quantize(
            PHOTO_COLOURS if self._photos else COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE
        )
        if form == "webp":
            image.convert("RGB").save(out, "webp", lossless=True, quality=50, method=2)
            return
        words = PngImagePlugin.PngInfo()
        words.add_itxt("Title", self.title)
        words.add_itxt("Description", self.alt)
        image.save(out, "png", optimize=True, pnginfo=words, dpi=(DPI, DPI))


class Photographs:
    """Photos side by side, each under its name, small: what a reader looks at before anything is measured.

    A notebook shows one JPEG with alternative text; the text equivalent is a table of names, sizes in pixels and bytes.

    Parameters
    ----------
    paths : mapping of str to path
        The words above a photo, and its file.
    columns : int
        Photos in a row.

    Raises
    ------
    ValueError
        If there is no photo, or no column.
    """

    def __init__(self, paths: Mapping[str, str | os.PathLike[str]], columns: int = 5) -> None:
        from PIL import Image

        if not paths or columns < 1:
            raise ValueError(f"{len(paths)} photos in {columns} columns; allowed: at least one of each")
        self._paths, self._columns = {name: Path(path) for name, path in paths.items()}, columns
        rows = []
        for name, path in self._paths.items():
            with Image.open(path) as photo:  # reads the header only
                rows.append((name, f"{photo.width}×{photo.height} pixels", f"{path.stat().st_size:,} bytes"))
        self.text = str(Table((), rows, right=[1, 2]))
        self.alt = f"{len(rows)} photo{'s' if len(rows) > 1 else ''}, each under its name: {', '.join(paths)}."

    def __str__(self) -> str:
        """Return the text equivalent."""
        return self.text

    __repr__ = __str__

    def jpeg(self, name: str | None = None) -> bytes:
        """Return the sheet as JPEG in a theme, by name; without one, in the theme in force."""
        from matplotlib.figure import Figure
        from PIL import Image

        look, rows = theme(name), -(-len(self._paths) // self._columns)
        out = io.BytesIO()
        with plain_style():
            figure = Figure(figsize=(9, 2 * rows), dpi=60, layout="constrained", facecolor=look.background)
            for number, (words, path) in enumerate(self._paths.items(), 1):
                axes = figure.add_subplot(rows, self._columns, number)
                with Image.open(path) as photo:
                    axes.imshow(photo.convert("RGB"))
                axes.set_title(words, color=look.ink, parse_math=False)
                axes.axis("off")
            figure.savefig(out, format="jpeg", pil_kwargs={"quality": 45, "optimize": True})
        return out.getvalue()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a notebook shows: HTML, whose picture has its words in every viewer, a JPEG, and the text."""
        asked = asked_for()
        images = {look if len(asked) > 1 else "": self.jpeg(look) for look in asked}
        page = figure_html(images, "jpeg", 540, self.alt, self.text)
        jpeg = base64.b64encode(self.jpeg()).decode("ascii")
        return {"text/html": page, "image/jpeg": jpeg, "text/plain": self.text}, {"image/jpeg": {"alt": self.alt}}


@contextlib.contextmanager
def plain_style() -> Iterator[None]:
    """Draw in one style: the reader's own must not make the background transparent."""
    from matplotlib import style

    with warnings.catch_warnings(), style.context(["default", {"svg.hashsalt": "labkit"}]):
        # A name in a script that the font lacks is drawn as boxes; the text equivalent has it in full.
        warnings.filterwarnings("ignore", message="(?s)Glyph .* missing")
        yield
