"""What a file is by its first bytes."""

from __future__ import annotations

#: First bytes of the photos that the lab reads, by format.
PHOTOS = {"JPEG": b"\xff\xd8\xff", "PNG": b"\x89PNG\r\n\x1a\n"}

#: First bytes of formats that are taken for JPEG files by mistake, their names, and what they are.
_FORMATS = (
    (b"\x89PNG", "PNG", "image"),
    (b"GIF8", "GIF", "image"),
    (b"RIFF", "WebP or other RIFF", "file"),
    (b"BM", "BMP", "image"),
    (b"II*\0", "TIFF", "image"),
    (b"MM\0*", "TIFF", "image"),
    (b"PK\x03\x04", "ZIP", "archive"),
    (b"%PDF", "PDF", "document"),
)
#: So many bytes that can be printed are a text: a page of a failed download, for example.
_TEXT_BYTES = 16


def photo_format(start: bytes) -> str | None:
    """Return which of `PHOTOS` a file is by its first bytes, None where it is none of them."""
    return next((name for name, magic in PHOTOS.items() if start.startswith(magic)), None)


def other_format(start: bytes) -> tuple[str, str] | None:
    """Return what a file is that is no JPEG, as ``("PNG", "image")``, from its first bytes; None where unknown."""
    for magic, name, what in _FORMATS:
        if start.startswith(magic):
            return name, what
    head = start[:_TEXT_BYTES]
    printed = len(head) == _TEXT_BYTES and all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in head)
    return ("text", "file") if printed else None
