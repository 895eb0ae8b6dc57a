"""The folder listing is the architecture: who may import whom, and what stays cheap."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

# A room may import the rooms named here, and no other.
MAY_IMPORT = {
    # the type in the middle, and the arithmetic of intervals
    "trace": set(),
    "intervals": set(),
    # left of Trace: data, pipelines' ends, the recorder
    "shipped": set(),
    "bars": set(),
    "photo_files": {"bars", "shipped"},
    "photo_folder": {"photo_files"},
    "tfds_sets": {"photo_files", "shipped", "trace"},
    "photos": {"photo_files", "photo_folder", "shipped", "tfds_sets"},
    "records": {"framing", "photo_files", "photos", "trace"},
    "framing": set(),
    "damage": {"framing", "records", "trace"},
    "storage": set(),
    "work": set(),
    "blindfold": set(),
    "checks": {"blindfold"},
    "memory": set(),
    "accelerators": {"work"},
    "wire": set(),
    "xplane": {"trace", "wire"},
    "interrupts": set(),
    "session": {"interrupts", "trace", "work", "xplane"},
    "live": {"session", "trace", "widget"},
    "measures": {"intervals", "trace", "work"},
    "recorder": {"bars", "blindfold", "journal", "live", "measures", "notebook", "session", "trace", "xplane"},
    # what TensorFlow's tuning chose, and which node limits
    "nodes": set(),
    "diagnosis": {"blindfold", "differential", "nodes", "session"},
    "differential": {"blindfold", "causes", "recorder", "storage", "timeline", "wording"},
    "knobs": {"diagnosis", "palette", "picture"},
    # right of Trace: lanes and gaps, words, pictures
    "lanes": {"intervals", "trace"},
    "wording": {"lanes", "timeline"},
    "simulate": {"blindfold", "intervals", "timeline", "trace"},
    "timeline": {"causes", "intervals", "lanes", "trace", "wording"},
    "causes": {"blindfold", "intervals", "lanes", "timeline", "trace", "wording"},
    "palette": set(),
    "picture": {"palette", "trace"},
    "page": {"intervals", "lanes", "palette", "picture", "timeline", "trace", "wording"},
    "view": {"lanes", "page", "palette", "picture", "timeline", "trace", "wording"},
    "charts": {"palette", "picture"},
    "predictions": {"charts", "measures", "photos", "picture", "trace"},
    "sketch": {"palette", "picture", "trace", "view"},
    "scale": {"accelerators", "charts", "picture"},
    "explorers": {"picture", "scale", "simulate", "timeline", "trace", "view", "widget", "wording"},
    "discrepancy": {"palette", "picture"},
    "stack": {"intervals", "palette", "picture", "timeline", "trace", "wording"},
    "perfetto": {"intervals", "trace"},
    "scene": {"causes", "intervals", "lanes", "palette", "perfetto", "timeline", "trace", "wording"},
    "widget": {"palette", "scene", "timeline", "trace", "view"},
    # what readers and maintainers hold in their hands
    "grading": {"exercises"},
    "speed": {"grading", "notebook", "trace"},
    "exercises": {"blindfold", "drills", "grading", "offload", "reference", "sketch", "speed", "view", "widget"},
    "notebook": {"photos", "shipped"},
    "colab": {"trace"},
    "assignments": {"colab", "notebook", "shipped", "trace"},
    "doctor": {"card", "notebook", "offload", "photos"},
    "reference": set(),
    "offload": {"augment", "bars", "charts", "picture", "reference", "shipped", "simulate", "trace"},
    "augment": set(),
    "drills": {"accelerators", "blindfold", "grading", "journal", "recorder", "speed", "storage", "timeline", "view"},
    "journal": {"grading", "measures"},
    "variants": {"drills"},
    "results": {"charts", "journal", "notebook", "picture", "predictions", "trace", "variants"},
    "ladder": {"augment", "memory", "notebook", "photos", "records", "recorder"},
    "card": {"framing", "offload", "photos", "trace", "wire"},
    "tour": {"accelerators", "ladder", "notebook", "photos", "stack", "trace", "view"},
    "cli": {"assignments", "card", "colab", "doctor", "notebook", "photos", "results", "tour"},
}
# To the right of Trace nobody knows TensorFlow; below the views nobody draws.
NO_TENSORFLOW = {
    *("trace", "intervals", "wire", "xplane", "measures", "work", "colab", "tour", "cli", "framing", "damage"),
    *("lanes", "wording", "causes", "timeline", "palette", "picture", "page", "view", "charts", "perfetto"),
    *("nodes", "knobs", "stack", "simulate", "reference"),
}
NO_MATPLOTLIB = set(MAY_IMPORT) - {"palette", "picture", "page", "view", "charts", "discrepancy", "knobs", "stack"}


def imports(paths):
    for path in paths:
        yield from _imports(path)


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively; the lab names rooms in full"
            base = node.module or ""
            yield base
            if base == "labkit":
                yield from (f"labkit.{alias.name}" for alias in node.names)


def rooms(root):
    """Return the files of each room: one, or those of a folder."""
    flat = {p.stem: [p] for p in (root / "labkit").glob("*.py") if p.stem != "__init__"}
    return flat | {p.parent.name: sorted(p.parent.glob("*.py")) for p in (root / "labkit").glob("*/__init__.py")}


def inside(name, path):
    """Return the rooms that `name` imports, itself left out: files of one room may know each other."""
    return {i.split(".")[1] for i in imports(path) if i.startswith("labkit.")} - {"__version__", name}


def test_every_room_is_on_the_map(root):
    assert set(rooms(root)) == set(MAY_IMPORT)


def test_the_map_is_no_wider_than_the_house(root):
    for name, path in rooms(root).items():
        used = inside(name, path)
        assert MAY_IMPORT[name] <= used, f"{name} may import {sorted(MAY_IMPORT[name] - used)} and does not"


def test_rooms_import_only_what_the_map_allows(root):
    for name, path in rooms(root).items():
        used = inside(name, path)
        assert used <= MAY_IMPORT[name], f"{name} imports {sorted(used - MAY_IMPORT[name])}"


def test_the_right_side_of_trace_knows_no_tensorflow(root):
    for name in NO_TENSORFLOW:
        roots = {i.split(".")[0] for i in imports(rooms(root)[name])}
        assert not roots & {"tensorflow", "tensorflow_datasets", "keras"}, name


def test_only_the_view_draws(root):
    for name in NO_MATPLOTLIB:
        assert "matplotlib" not in {i.split(".")[0] for i in imports(rooms(root)[name])}, name


def test_rooms_stay_small(root):
    for path in (root / "labkit").glob("**/*.py"):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        assert lines <= 420, f"{path.name} has {lines} lines: about 250 is a full room, split it"


def test_nothing_imports_a_room_that_nobody_needs(root):
    everywhere = [
        *(root / "labkit").glob("**/*.py"),
        *(root / "notebooks").glob("**/*.py"),
        *(root / "benchmarks").glob("*.py"),
    ]
    text = "\n".join(p.read_text(encoding="utf-8") for p in everywhere)
    for name in rooms(root):
        assert name == "cli" or text.count(name) > 1, f"no code mentions {name}"


@pytest.mark.parametrize("heavy", ["tensorflow", "matplotlib", "pyopencl", "scipy", "tensorflow_datasets", "PIL"])
def test_import_labkit_is_cheap(heavy):
    code = f"import sys, labkit; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_name_on_offer_is_there():
    import labkit

    assert all(getattr(labkit, name) is not None for name in labkit.__all__)


def test_an_unknown_name_says_what_there_is():
    import labkit

    with pytest.raises(AttributeError, match=r"labkit has no 'recrod'; it offers: .*record"):
        labkit.recrod  # noqa: B018
    assert "record" in dir(labkit)
