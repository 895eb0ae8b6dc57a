"""The faults of the drills: for each one a healthy pipeline, and the edits that break it.

Students see the broken pipeline as it stands, so no pipeline has a comment or a word that gives its fault away. The
pipelines and edits are in ``faults.json``; the texts for students in ``diagnoses.json``: the tasks, the names of the
faults, and their signs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from labcourse.drills.faults import Fault


def _stored(name: str) -> Any:
    return json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


_WORDS, _CODE = _stored("diagnoses.json"), _stored("faults.json")

#: What the pipeline should deliver, by kind of task.
TASKS: dict[str, str] = _WORDS["tasks"]


def _fault(key: str, pipeline: str, edits: list[list[str]], **more: Any) -> Fault:
    healthy = "".join(f"{line}\n" for line in _CODE["pipelines"][pipeline])
    return Fault(key, **_WORDS["faults"][key], fixed_code=healthy, edits=tuple(map(tuple, edits)), **more)


#: All faults by their keys, in the order of their diagnoses.
FAULTS = {
    fault.key: fault
    for fault in sorted((_fault(key, **how) for key, how in _CODE["faults"].items()), key=lambda f: f.diagnosis)
}
