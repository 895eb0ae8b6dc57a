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
    from PIL import Image

#: Inches of every picture, and pixels per inch of a PNG.
WIDTH, DPI = 10.0, 100

#: Colours of a PNG: a page has two dozen, some only as thin lines, and the edges of its letters take the others. Photos
#: need all.
COLOURS, PHOTO_COLOURS = 96, 256

_FORMATS = ("png", "svg")

#: Photos in a row of `Photographs`.
_COLUMNS = 5

#: A picture on a page: the one in the colours of the page, and its text to unfold. Where a page is so narrow that the
#: words would be too small, the picture is moved sideways. The attribute ``hidden`` holds where a page drops styles: a
#: notebook that is not trusted, of which JupyterLab drops attributes without a value, too. Photos are never dyed: the
#: negative of a photo shows dark what is bright.
_FIGURE = """<figure class="labkit-picture" style="margin:0">
<style>
.labkit-picture{{overflow-x:auto}}
.labkit-picture img{{max-width:100%;height:auto}}
.labkit-picture img:not(.labkit-photo){{min-width:640px}}
{dark} .labkit-picture .labkit-light:not(:only-of-type){{display:none}}
{dark} .labkit-picture .labkit-light:only-of-type:not(.labkit-photo)
{{filter:url("{dyed}")}}
{dark} .labkit-picture .labkit-dark{{display:inline!important}}
</style>
{images}
<details><summary>in words</summary><pre>{text}</pre></details>{note}
</figure>"""

#: What a light picture is seen through on a dark page that has no dark one: it mixes the channels, then bends each. It
#: was fitted to the pairs of colours of the two themes, first of all to idle time, ground, ink and the insides of what
#: is hollow, so that mixtures stay mixtures and all words have a contrast of 4.5 to 1. Black on a light teal becomes
#: white: of the teals the darkest one becomes the lightest.
_DYED = (
    "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'><filter id='d' color-interpolation-filters='sRGB'>"
    "<feColorMatrix values='.575 -1.484 -.039 0 1 -.495 -.469 .006 0 1.021 -.703 -1.021 .913 0 .931 0 0 0 1 0'/>"
    "<feComponentTransfer><feFuncR type='table' tableValues='.067 .226 .406 .461 .821 1'/>"
    "<feFuncG type='table' tableValues='.057 .235 .425 .434 .795 1'/>"
    "<feFuncB type='table' tableValues='.005 .212 .409 .492 .846 1'/></feComponentTransfer></filter></svg>#d"
)

#: How JupyterLab, Colab, Jupyter Book and Visual Studio Code say that a page is dark.
DARK = ":is([data-jp-theme-light=false],[theme=dark],[data-theme=dark],.vscode-dark)"


def figure_html(
    images: Mapping[str, bytes], kind: str, width: int, alt: str, text: str, note: str = "", photos: bool = False
) -> str:
    """Return an image as HTML, in the theme of the page that shows it, with its text below it to unfold.

    Parameters
    ----------
    images : mapping of str to bytes
        The same picture by theme; "" in place of a theme where the reader chose one for every page. A light picture
        without a dark one is dyed where the page is dark, unless it holds photos.
    kind : str
        What comes after ``image/`` in the name of their format.
    width : int
        Pixels of the page; the image may have more.
    alt, text, note : str
        The note stands below the image, for all to see.
    photos : bool
    """
    shown = [
        f'<img class="labkit-{look}{" labkit-photo" * photos}"{" hidden=hidden" * (look == "dark")} width="{width}" '
        f'alt="{html.escape(alt)}" src="data:image/{kind};base64,{base64.b64encode(data).decode("ascii")}">'
        for look, data in images.items()
    ]
    note = f"\n<figcaption>{html.escape(note)}</figcaption>" if note else ""
    return _FIGURE.format(dark=DARK, dyed=_DYED, images="\n".join(shown), text=html.escape(text), note=note)


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
    photos : bool
        There are photos in it: a page gets it with a loss, for both themes, and never shows it dyed.
    """

    def __init__(self, make: Callable[[Theme], Figure], title: str, alt: str, text: str, photos: bool = False) -> None:
        theme()  # an unknown theme is refused here, not when the notebook shows the picture
        self.title, self.alt, self.text = title, alt, text
        self._make, self._photos = make, photos
        self._pixels: dict[tuple[str, str], bytes] = {}

    def __str__(self) -> str:
        """Return the text equivalent."""
        return self.text

    __repr__ = __str__

    def figure(self, name: str | None = None) -> Figure:
        """Return a new matplotlib figure, unknown to pyplot.

        Raises
        ------
        ValueError
            If there is no such theme.
        """
        with plain_style():
            return self._make(theme(name))

    def png(self, name: str | None = None) -> bytes:
        """Return the picture as PNG, 100 pixels per inch."""
        return self._encode(theme(name).name, "png")

    def html(self, both: bool = True, note: str = "") -> str:
        """Return the picture for a page, see `figure_html`; not `both` leaves the dark one out: half the size.

        Where LABKIT_FAST is set, the PNG stands for both: nobody looks, and a notebook needs it in any case.
        """
        if fast():
            return figure_html({"": self.png()}, "png", round(WIDTH * DPI), self.alt, self.text, note)
        asked = asked_for()
        looks = {"": asked[0]} if len(asked) == 1 else {look: look for look in asked[: 1 + both]}
        images = {look: self._encode(name, "webp") for look, name in looks.items()}
        return figure_html(images, "webp", round(WIDTH * DPI), self.alt, self.text, note, self._photos)

    def svg(self) -> str:
        """Return the picture as SVG; title and alternative text are in its metadata."""
        return self._encode(theme().name, "svg").decode()

    def save(self, path: str | os.PathLike[str], name: str | None = None) -> Path:
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
        return write_aside(path, self._encode(theme(name).name, ending))

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

    def _encode(self, look: str, form: str) -> bytes:
        if (look, form) in self._pixels:
            return self._pixels[look, form]
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from PIL import Image

        out = io.BytesIO()
        with plain_style():
            figure = self._make(theme(look))
            if form == "svg":
                known = {"Date": None, "Creator": None, "Title": self.title, "Description": self.alt}
                figure.savefig(out, format=form, dpi=DPI, metadata=known)
                return out.getvalue()
            figure.set_dpi(DPI if self._photos else 2 * DPI)
            canvas = FigureCanvasAgg(figure)
            canvas.draw()
        image = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB")
        # A notebook shows both, of one drawing.
        for each in ("png", "webp") if look == asked_for()[0] and not fast() else (form,):
            self._pixels[look, each] = self._compressed(image, each)
        return self._pixels[look, form]

    def _compressed(self, image: Image.Image, form: str) -> bytes:
        """Return a PNG, or a WebP: of photos with a loss, of a drawing at twice the density.

        In few colours a drawing takes a third of the size, without a visible change.
        """
        from PIL import Image, PngImagePlugin

        lossy, out, words = form == "webp" and self._photos, io.BytesIO(), PngImagePlugin.PngInfo()
        if form == "png" and not self._photos:
            image = image.reduce(2)
        if not lossy:
            colours = PHOTO_COLOURS if self._photos else COLOURS
            image = image.quantize(colours, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        if form == "webp":  # a page holds two
            how = {"quality": 42, "method": 6} if lossy else {"lossless": True, "quality": 50, "method": 2}
            image.convert("RGB").save(out, form, **how)
        else:
            words.add_itxt("Title", self.title)
            words.add_itxt("Description", self.alt)
            image.save(out, form, optimize=True, pnginfo=words, dpi=(DPI, DPI))
        return out.getvalue()


class Photographs:
    """Photos side by side, each under its name, small: what a reader looks at before anything is measured.

    A notebook shows one JPEG with alternative text; the text equivalent is a table of names, sizes in pixels and bytes.

    Parameters
    ----------
    paths : mapping of str to path
        The words above a photo, and its file.

    Raises
    ------
    ValueError
        If there is no photo.
    """

    def __init__(self, paths: Mapping[str, str | os.PathLike[str]]) -> None:
        from PIL import Image

        if not paths:
            raise ValueError("paths is empty; allowed: at least one photo")
        self._paths = {name: Path(path) for name, path in paths.items()}
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

        look, rows = theme(name), -(-len(self._paths) // _COLUMNS)
        out = io.BytesIO()
        with plain_style():
            figure = Figure(figsize=(9, 2 * rows), dpi=60, layout="constrained", facecolor=look.background)
            for number, (words, path) in enumerate(self._paths.items(), 1):
                axes = figure.add_subplot(rows, _COLUMNS, number)
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
        page = figure_html(images, "jpeg", 540, self.alt, self.text, photos=True)
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
