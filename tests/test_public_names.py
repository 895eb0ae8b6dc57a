"""Every public name is there for somebody: a notebook, a verb, the README or a benchmark reaches it."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import jupytext

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("labkit", "labcourse", "labextras")


def dotted(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    dotted(path): ast.parse(path.read_text(encoding="utf-8")) for part in PARTS for path in (ROOT / part).rglob("*.py")
}
TYPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: What stands beside others of its kind that a notebook calls, and what a sentence of advice tells its reader to call.
BESIDE = {
    "labextras.extract.source_check.parquet", "labextras.loaders.known_callables.known",
    "labextras.loaders.loader_settings.count_workers",
    "labextras.offload.hardware.chip_view.chip_picture", "labextras.offload.hardware.placement.synthesise",
    "labextras.offload.twins.image_operations.random_brightness_per_pixel",
}  # fmt: skip


@cache
def readers():
    """Return the syntax trees of all that stands outside of the package and uses it."""
    return tuple(_readers())


def _readers():
    yield from (ast.parse(p.read_text(encoding="utf-8")) for p in sorted((ROOT / "benchmarks").glob("*.py")))
    yield from (ast.parse(p.read_text(encoding="utf-8")) for p in sorted((ROOT / "notebooks").glob("*.py")))
    yield from (ast.parse(p.read_text(encoding="utf-8")) for p in (ROOT / "notebooks/assignments").rglob("*.py"))
    yield from (ast.parse(p.read_text(encoding="utf-8")) for p in (ROOT / "data").rglob("*.py"))
    yield from (ast.parse(p.read_text(encoding="utf-8")) for p in (ROOT / "docs").rglob("*.py"))
    for path in sorted((ROOT / "notebooks" / "source").glob("*.py")):
        cells = jupytext.read(path, fmt="py:percent").cells
        code = [re.sub(r"(?m)^\s*[%!].*$", "pass", c.source) for c in cells if c.cell_type == "code"]
        yield ast.parse("\n".join([f"import {', '.join(PARTS)}", *code]))
        yield mentioned("\n".join(c.source for c in cells if c.cell_type == "markdown"))
    for page in ("README.md", "docs/instructors/grading.md", "notebooks/INSTRUCTORS.md"):
        for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL):
            yield ast.parse(block)
        yield mentioned((ROOT / page).read_text(encoding="utf-8"))


def mentioned(text):
    """Return code that names the functions that a text tells its reader to call."""
    calls = re.findall(rf"`((?:{'|'.join(PARTS)})(?:\.\w+)+)\(", text)
    return ast.parse("\n".join([f"import {', '.join(PARTS)}", *calls]))


@cache
def definitions(module):
    """Return what a module defines at its top level, by name: the nodes that mention it."""
    found = {}
    for node in MODULES[module].body:
        if isinstance(node, TYPES):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            for name in names:
                found.setdefault(name, []).append(node)
    return found


@cache
def given(module):
    """Return where a module has the names from that it imports under their own names."""
    nodes = [n for n in MODULES[module].body if isinstance(n, ast.ImportFrom) and n.module in MODULES]
    return {alias.name: node.module for node in nodes for alias in node.names if not alias.asname}


def lookup(module, name):
    """Return what `name` of a module is: another module, a definition, or what the module imports under it."""
    if name in definitions(module):
        return module, name
    origin = given(module).get(name)
    if origin is not None and origin != module and (found := lookup(origin, name)) is not None:
        return found
    if f"{module}.{name}" in MODULES:
        return f"{module}.{name}", None
    # A package may hand out names of its modules when they are first asked for.
    if "__getattr__" in definitions(module) and name in (package := importlib.import_module(module)).__all__:
        found = getattr(package, name)
        if inspect.ismodule(found):
            return found.__name__, None
        inside = (m for m in MODULES if m.startswith(f"{module}.") and name in definitions(m))
        return next(((m, name) for m in inside), None)
    return None


@cache
def imported(tree):
    """Return what the names that a tree imports from the package stand for."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if (part := alias.name.split(".")[0]) in PARTS:
                    found[alias.asname or part] = (alias.name if alias.asname else part, None)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PARTS:
            for alias in node.names:
                if (target := lookup(node.module, alias.name)) is not None:
                    found[alias.asname or alias.name] = target
    return found


def uses(tree, names, module=None):
    """Yield the definitions that a tree mentions, given what its imported names stand for."""

    def resolve(node):
        if isinstance(node, ast.Name):
            if node.id in names:
                return names[node.id]
            return (module, node.id) if module and node.id in definitions(module) else None
        if isinstance(node, ast.Attribute):
            base = resolve(node.value)
            return lookup(base[0], node.attr) if base and base[1] is None and base[0] in MODULES else None
        return None

    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and (found := resolve(node)) and found[1] is not None:
            yield found
        elif isinstance(node, ast.ImportFrom):
            yield from (t for t in imported(node).values() if t[1] is not None)


def meanings(tree):
    """Yield what the names of a tree stand for, once for each way where it chooses: ``kernels = a if there else b``."""
    names = imported(tree)
    yield names
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.IfExp) and isinstance(node.targets[0], ast.Name):
            for chosen in (node.value.body, node.value.orelse):
                if isinstance(chosen, ast.Name) and chosen.id in names:
                    yield names | {node.targets[0].id: names[chosen.id]}


def reached():
    """Return all definitions that are reached from outside, as (module, name)."""
    todo = [t for tree in readers() for names in meanings(tree) for t in uses(tree, names)]
    # Code that runs when a module is imported or started.
    todo += [t for module, tree in MODULES.items() for t in top_level(module, tree)]
    # What a part hooks in.
    todo += re.findall(r'(?m)^\w+ = "(lab[\w.]+):(\w+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    # Every kernel has a twin of its name.
    twins = [lookup("labextras.offload.twins", path.stem) for path in (ROOT / "kernels").glob("*.cl")]
    todo += [twin for twin in twins if twin is not None]
    seen = set()
    while todo:
        module, name = todo.pop()
        if (module, name) in seen or module not in MODULES:
            continue
        seen.add((module, name))
        names = imported(MODULES[module])
        todo += [t for node in definitions(module).get(name, ()) for t in uses(node, names, module)]
    return seen


def top_level(module, tree):
    """Yield what the statements of a module use that are neither definitions nor imports: registrations, mains."""
    names = imported(tree)
    for node in tree.body:
        if isinstance(node, TYPES):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call):  # it registers what it decorates
                    yield module, node.name
        elif not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)):
            yield from uses(node, names, module)
    if module.endswith((".daemon", ".worker", "_child", ".cli")):
        yield from ((module, name) for name in definitions(module) if name in ("main", "app"))


def test_every_public_name_is_reached_from_outside():
    seen = reached()
    public = {
        (module, name)
        for module in MODULES
        for name, nodes in definitions(module).items()
        if not name.startswith("_") and isinstance(nodes[0], TYPES)
    }
    unused = sorted({f"{module}.{name}" for module, name in public - seen} - BESIDE)
    assert not unused, f"{len(unused)} public names that nobody needs: {', '.join(unused)}"


def test_every_public_method_has_its_name_called_somewhere():
    """Or in a text, which `getattr` may take; a class built on another library's is called by that library."""
    classes = {
        node.name: node for tree in MODULES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }

    def ours(node):
        bases = [getattr(base, "attr", getattr(base, "id", None)) for base in node.bases]
        return all(hasattr(builtins, str(base)) or (base in classes and ours(classes[base])) for base in bases)

    called = set()
    for node in (node for tree in (*MODULES.values(), *readers()) for node in ast.walk(tree)):
        if isinstance(node, (ast.Attribute, ast.Constant)):
            called.add(node.attr if isinstance(node, ast.Attribute) else node.value)
    unused = sorted(
        f"{node.name}.{method.name}"
        for node in classes.values()
        for method in node.body
        if ours(node) and isinstance(method, TYPES) and not method.name.startswith("_") and method.name not in called
    )
    assert not unused, f"{len(unused)} public methods that nobody calls: {', '.join(unused)}"
