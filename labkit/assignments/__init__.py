"""What problem sets look at: a pipeline's elements and the nodes that it is made of."""

from __future__ import annotations

from labkit.assignments.inspection import Inspection, inspect_pipeline

__all__ = ["Inspection", "inspect_pipeline"]
