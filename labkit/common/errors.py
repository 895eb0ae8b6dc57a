"""What an error says, in one line."""

from __future__ import annotations

import re


def error_text(error: BaseException) -> str:
    """Return class and sentence of an error of TensorFlow: no names of nodes and iterators, no lines of files."""
    noise = (
        r"Graph execution error:|Detected at node .*?\n\n(?=\S)|"
        r"Traceback \(most.*|\{\{[^}]*\}\}|\[Op:.*|\[\[.*|Error in user-defined function passed to .*? iterator: \S+: "
    )
    try:
        words = str(getattr(error, "message", error))
    except Exception:  # the words of an error may fail themselves
        words = ""
    text = re.sub(noise, "", words, flags=re.DOTALL)
    return f"{type(error).__name__}: {' '.join(text.split())}".rstrip(": ")


def os_sentence(error: BaseException) -> str:
    """Return what an error says; of one of the system the file and the reason, without its number."""
    if not isinstance(error, OSError) or error.filename is None or not error.strerror:
        return str(error)
    return f"{error.filename2 or error.filename} cannot be used: {error.strerror}"
