"""The folder listing is the architecture: who may import whom, and what stays cheap."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import subprocess
import sys
from collections import Counter

import pytest

PARTS = ("labkit", "labcourse", "labextras")
# The packages of labkit, the lowest first. A package imports only packages below it.
ORDER = ("common", "advice", "timeline", "pipelines", "sources", "recording", "views", "simulate")
# What stands beside them: what a notebook does first, and the verbs.
BESIDE = ("notebook", "doctor", "cli")
# An extra imports labkit alone, but for the card, which preprocesses as offload does.
ALLOWED = {("labextras.card", "labextras.offload")}
# Code lines, counted without docstrings and comments: of each part, of all, of the tests, and of the longest file.
# Circuits and files that are written through a card brought 800 lines; readings, the challenge, the reader's own
# pipeline and drills of the machine 1,400; loops and scripts of the reader's own, and loaders that are inspected and
# improved as pipelines are, 760.
BUDGETS = {"labkit": 10_480, "labcourse": 7_060, "labextras": 10_830, "all": 28_365, "tests": 32_650}
LONGEST, SCRIPT, COURSE, PLUGIN, ENTRIES = 420, 1_100, 200, 750, 13
# What is beyond its budget by more than this has to give something back before it grows.
LEEWAY = 1.05
NO_TENSORFLOW = ("common", "timeline", "views", "simulate")
# What the lowest packages need of others; CONTRIBUTING.md says it of the timeline.
THIRD_PARTY = {"common": {"IPython", "platformdirs", "psutil", "tqdm"}, "timeline": {"numpy", "scipy"}}
DRAWS = ("views", "simulate")
# What tests import of this checkout: the parts, and the tools beside them.
OURS = {*PARTS, "assignments", "badges", "build", "execution", "kit", "lab_folder", "tour"}


@functools.cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(paths):
    for path in paths:
        yield from _imports(path)


def _imports(path):
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively; the lab names rooms in full"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and re.fullmatch(r"lab(kit|course|extras)(\.\w+)+", str(node.value)):
            yield node.value  # imported, or started as a process, by its name


def packages(root):
    """Return the files of each package of labkit, and of what stands beside them."""
    beside = {p.stem: [p] for p in (root / "labkit").glob("*.py") if p.stem != "__init__"}
    return beside | {p.parent.name: sorted(p.parent.rglob("*.py")) for p in (root / "labkit").glob("*/__init__.py")}


def test_labkit_imports_neither_extras_nor_course_and_an_extra_imports_labkit_alone(root):
    wrong = set()
    for part in ("labkit", "labextras"):
        for path in (root / part).rglob("*.py"):
            mine = ".".join(path.relative_to(root).with_suffix("").parts[:2])
            for name in imports([path]):
                top, room = name.split(".")[0], ".".join(name.split(".")[:2])
                above = top in PARTS[1:] if part == "labkit" else top == "labcourse"
                beside = part == top == "labextras" != room != mine and (mine, room) not in ALLOWED
                if above or beside:
                    wrong.add(f"{path.relative_to(root)} imports {name}")
    assert not wrong, sorted(wrong)


def test_a_package_imports_only_packages_below_it(root):
    order = [*ORDER, *BESIDE]
    assert sorted(packages(root)) == sorted(order), "every package has its place in the order"
    for name, paths in packages(root).items():
        used = {i.split(".")[1] for i in imports(paths) if i.startswith("labkit.")} - {"__version__", name}
        above = {other for other in used if order.index(other) > order.index(name)}
        assert not above, f"{name} imports {sorted(above)}, which stand above it"


def code_lines(path):
    """Count the lines that hold code: no blank ones, no comments, no docstrings."""
    documented, bodies = set(), (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in (node for node in ast.walk(parsed(path)) if isinstance(node, bodies) and ast.get_docstring(node)):
        documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    text = path.read_text(encoding="utf-8").splitlines()
    return sum(bool(re.match(r"\s*[^\s#]", line)) and n not in documented for n, line in enumerate(text, 1))


def test_each_part_stays_small(root):
    lines = {part: [code_lines(path) for path in (root / part).rglob("*.py")] for part in (*PARTS, "tests")}
    sums = {part: sum(each) for part, each in lines.items()}
    sums["all"] = sum(sums[part] for part in PARTS)
    assert {part: size for part, size in sums.items() if size > BUDGETS[part] * LEEWAY} == {}
    assert max(max(lines[part]) for part in PARTS) <= LONGEST


@pytest.mark.parametrize(
    ("pattern", "budget"), [("labkit/**/*.js", SCRIPT), ("lab[ce]*/**/*.js", COURSE), ("lab*/**/*.cc", PLUGIN)]
)
def test_what_is_not_python_stays_small(pattern, budget, root):
    found = [path for path in root.glob(pattern) if path.relative_to(root).parts[0] in PARTS]
    assert 0 < sum(len(path.read_text(encoding="utf-8").splitlines()) for path in found) <= budget


def test_the_listing_of_labkit_fits_on_a_screen(root):
    listed = [path.name for path in (root / "labkit").iterdir() if not path.name.startswith(("__pycache__", "."))]
    assert len(set(listed) - {"py.typed"}) <= ENTRIES, sorted(listed)


@pytest.mark.parametrize("line", ["import labkit.views", "from labkit import views", "run('labkit.views')"])
def test_an_import_is_seen_however_it_is_written(line, tmp_path):
    (tmp_path / "any.py").write_text(line)
    assert "labkit.views" in imports([tmp_path / "any.py"])


@pytest.fixture(scope="module")
def taken(root):
    """What the file of each test takes from the inside of our code, by name: the imports, and what it reaches."""
    found = {}
    for path in (root / "tests").rglob("*.py"):
        tree = parsed(path)
        found[str(path)] = [*_imported(tree)], [*_private(tree)]
    return found


def _imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            yield from (one.name for one in node.names if one.name.startswith("_") and one.name != "__version__")


def test_no_test_imports_a_private_name(taken):
    assert {name: imported for name, (imported, _) in taken.items() if imported} == {}


def _private(tree):
    """Yield what a test takes from the inside of an imported module, or class: ``module._name``, also as a text."""
    known = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {one.asname or one.name.split(".")[0] for one in node.names if one.name.split(".")[0] in OURS}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            known |= {one.asname or one.name for one in node.names}
    for node in ast.walk(tree):
        of, name = None, ""
        if isinstance(node, ast.Attribute):
            of, name = node.value, node.attr
        elif isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            of, name = node.args[0], str(node.args[1].value)  # getattr and setattr
        while isinstance(of, ast.Attribute):
            of = of.value
        inside = of.id in known if isinstance(of, ast.Name) else isinstance(of, ast.Call) and _imports_a_module(of)
        if inside and re.fullmatch(r"_[^_]\w*[^_]", name):
            yield f"line {node.lineno}: {name}"


def _imports_a_module(call):
    return "import_module" in (getattr(call.func, "attr", ""), getattr(call.func, "id", ""))


def test_no_test_reaches_a_private_name(taken):
    wrong = [
        "from labkit import doctor\ndoctor._hidden()\nsetattr(doctor, '_hidden', 1)",
        "import build\nbuild.cells._hidden()\nfrom assignments.grader import batch\nbatch._hidden",
        "import importlib\nimportlib.import_module(name)._hidden",
    ]
    found = [sorted(_private(ast.parse(text))) for text in wrong]
    assert found == [[f"line {line}: _hidden" for line in lines] for lines in ((2, 3), (2, 4), (2,))]
    assert {name: lines for name, (_, lines) in taken.items() if lines} == {}


def test_a_file_name_and_a_class_name_occur_once(root):
    every = [p for part in PARTS for p in (root / part).rglob("*.py")]
    files = [p for p in every if p.stem != "__init__"]
    folders = {p.parent for p in every if p.stem == "__init__"}
    # The file that gives a package its name is called like it; no other package is.
    names = Counter([p.stem for p in files] + [f.name for f in folders if not (f / f"{f.name}.py").exists()])
    assert [name for name, times in names.items() if times > 1] == []
    trees = map(parsed, every)
    classes = Counter(n.name.lstrip("_") for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef))
    assert [name for name, times in classes.items() if times > 1] == []


def test_what_follows_from_a_trace_knows_no_tensorflow(root):
    for name in NO_TENSORFLOW:
        roots = {i.split(".")[0] for i in imports(packages(root)[name])}
        assert not roots & {"tensorflow", "tensorflow_datasets", "keras"}, name


#: What runs in a page without a kernel, where there is none of `sys.argv`: from a recording to what would be if.
IN_A_PAGE = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[1:]))
import labkit
from labcourse import explorers, idea
from labkit import simulate
from labkit.common import shipped
trace = labkit.Trace.load(min(shipped.folder("data").glob("recordings/*")))
costs = simulate.Costs(read=1, map={"decode": 3}, batch=1, train=60)
print(labkit.Timeline(trace), simulate.fit(simulate.run(costs)).predict(prefetch=4))
for explorer in (*map(explorers.explore, explorers.SHEETS), explorers.fleet(), explorers.scale()):
    print(explorer.reply(explorer.start).shown())
idea("02")._repr_mimebundle_()
"""


def test_what_a_page_runs_needs_no_tensorflow_and_nothing_that_only_a_kernel_has():
    missing = ["tensorflow", "keras", "psutil", "anywidget", "ipywidgets"]
    done = subprocess.run([sys.executable, "-c", IN_A_PAGE, *missing], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", THIRD_PARTY)
def test_the_lowest_packages_need_no_more_of_others_than_is_listed(root, name):
    roots = {imported.split(".")[0] for imported in imports(packages(root)[name])}
    assert roots - sys.stdlib_module_names - {"labkit"} == THIRD_PARTY[name]


def reached(root, start):
    """Return the modules that importing `start`, and using all of it, imports from labkit."""
    found, todo = set(), [start]
    while todo:
        module = todo.pop()
        file = root.joinpath(*module.split("."))
        file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
        if module in found or not file.is_file():
            continue
        found.add(module)
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("labkit"):
                todo += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


def test_what_records_draws_no_conclusions_and_knows_no_other_loader(root):
    found = reached(root, "labkit.recording.recorder")
    assert {"labkit.recording.tfdata.driver", "labkit.timeline.trace"} <= found
    conclusions = ("labkit.timeline.causes", "labkit.timeline.timeline", "labkit.recording.measures", "labkit.views")
    assert not [module for module in found if module.startswith((*conclusions, "labextras.loaders"))]


def test_only_the_views_and_those_above_them_draw(root):
    for name in set(ORDER) - set(DRAWS):
        assert "matplotlib" not in {i.split(".")[0] for i in imports(packages(root)[name])}, name


@pytest.mark.parametrize("heavy", ["tensorflow", "matplotlib", "pyopencl", "scipy", "tensorflow_datasets", "PIL"])
def test_import_labkit_is_cheap(heavy):
    code = f"import sys, labkit, labcourse, labextras; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def faces(root):
    """Return the packages that hand out names: the parts and each extra, by their names."""
    return ["labkit", "labcourse", *sorted(f"labextras.{p.parent.name}" for p in root.glob("labextras/*/__init__.py"))]


def test_every_name_on_offer_is_there(root):
    for face in map(importlib.import_module, faces(root)):
        assert all(getattr(face, name) is not None for name in getattr(face, "__all__", ())), face


def test_an_unknown_name_says_what_there_is():
    import labkit

    with pytest.raises(AttributeError, match=r"labkit has no 'recrod'; it offers: .*record"):
        labkit.recrod  # noqa: B018
    assert "record" in dir(labkit)
