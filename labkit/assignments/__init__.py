"""Problem sets in nbgrader's format: released, checked before they are graded, and graded where they can do no harm.

Notebooks of the sets use `look`; `labkit assignments release` and `labkit assignments grade` do the rest.
"""

from __future__ import annotations

from labkit.assignments.seen import Seen, look

__all__ = ["Seen", "look"]
