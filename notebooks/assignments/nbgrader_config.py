"""nbgrader's own commands, run in this folder, work on build/assignments.

`make release` and `make grade` need no configuration; this file is for `nbgrader generate_feedback`, `nbgrader export`
and `make formgrader`. `nbgrader autograde` isolates what it runs, as `make grade` does.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

from assignments.grader.course import Course

Course().configure(get_config())  # noqa: F821 - nbgrader defines it
