"""The outcomes for a JPEG file: decoded, unsupported, damaged."""

from __future__ import annotations

from dataclasses import dataclass

#: The codes of a `Damaged` that is a JPEG file after all: every one but ``format``.
DAMAGES = ("signature", "truncated", "segment", "table", "size", "marker", "data")


@dataclass(frozen=True, slots=True)
class Status:
    """The outcome for one file of a batch.

    Parameters
    ----------
    ok : bool
        There is an image, and it is the one TensorFlow gives.
    code : str
        ``fine``, or the code of an `Unsupported` or a `Damaged`.
    text : str
        One sentence; empty where the device decoded the file and found nothing to report.
    byte : int
        Where in the file the sentence applies; -1 without.
    where : str
        The place of the decoding: ``device``, ``host`` or ``none``.
    """

    ok: bool
    code: str = "fine"
    text: str = ""
    byte: int = -1
    where: str = "none"

    def __str__(self) -> str:
        """Return one line: who decoded it, or what is wrong and where."""
        result = f"decoded on the {self.where}" if self.ok else "not decoded"
        return f"{result}: {self.reason}" if self.reason else result

    @property
    def reason(self) -> str:
        """The sentence and its byte, without who decoded the file."""
        return self.text + (f" (byte {self.byte})" if self.text and self.byte >= 0 else "")

    @property
    def refusal(self) -> str:
        """Why there is no image: the sentence alone says whether the file is damaged, no JPEG, or of another kind."""
        if self.code == "format":
            return self.text
        lead = "the JPEG is damaged" if self.code in DAMAGES else "the JPEG is not decoded"
        return f"{lead}: {self.reason}"


class Refusal(ValueError):
    """A file that the kernels do not decode, and why.

    Parameters
    ----------
    code : str
        One word; see `Unsupported` and `Damaged`.
    text : str
        One sentence.
    byte : int
        Where in the file.
    """

    def __init__(self, code: str, text: str, byte: int) -> None:
        super().__init__(text)
        self.code, self.text, self.byte = code, text, byte

    def status(self) -> Status:
        """Return the status of the file; the host may decode a file of another kind, unless it is too large."""
        where = "host" if isinstance(self, Unsupported) and self.code != "large" else "none"
        return Status(False, self.code, self.text, self.byte, where)


class Unsupported(Refusal):
    """A JPEG file of another kind, as its header says.

    The codes: ``progressive``, ``lossless``, ``arithmetic``, ``hierarchical``, ``precision``, ``components``,
    ``sampling``, ``scans``, ``tables`` and ``large``.
    """


class Damaged(Refusal):
    """A file that is no JPEG file, or not a whole one.

    The codes: ``format`` (an empty file, or one of another format), and those in `DAMAGES`.
    """
