"""How many wrong answers the checks of the exercises let pass: solutions of the notebooks, changed one place at a time.

    python benchmarks/exercise_mutants.py             all exercises
    python benchmarks/exercise_mutants.py 02.1 05.3   some of them
    python benchmarks/exercise_mutants.py --all       and every change that passed, one a line

Each solution is changed by rule (`mutants`): another number, another operator, a step or an option that is left out,
added or in another place, a value that is rounded. What is still right after its change is listed in `EQUIVALENT`, with
the reason. The last line is one JSON object: ``mutants`` and ``equivalent`` count changed answers, ``survivors`` is the
share of the answers that are not equivalent and pass, and ``hanging`` counts the checks that did not come back.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import io
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupytext

from labkit.common.table import Table

SOURCES = Path(__file__).resolve().parent.parent / "notebooks" / "source"
LIMIT_S = 60  # the longest check of a right answer takes four seconds on a machine at rest
#: What the benchmark between pipelines cannot decide on a busy machine, all other checks have let pass.
PASSED = ("passed", "inconclusive")

_WHOLE = "05.3|08b.3|11.1|11.8|12.3|13.4|14.1"
#: Changes after which an answer is as right as before: exercises and changed line, both as patterns, and the reason.
EQUIVALENT: list[tuple[str, str, str]] = [
    (_WHOLE, r"return (round|int|math.ceil)\(.*\)$", "the number is whole before it is rounded"),
    (_WHOLE, r"return max\(.*, 1\)$", "the number is never below 1"),
    ("11.9", r"return min\(.*, 100\)$", "True and False are below 100"),
    ("14.1", r"return -\(-", "a whole number as a float is the same number"),
    ("05.3", r"inf'\) \+ 1", "one more than infinity is infinity"),
    ("05.3", r"int\(\(first - later\) / ", "int() cuts what // cuts"),
    ("08b.3", r"1000001\.0|999999\.0|999999999\.0|1000000001\.0", "a millionth is within the tolerance"),
    ("01.3", r"zip\(before, after(, strict=False)?\)", "both lists have an entry for each round"),
    ("10.1", r"seed >= 40", "only 35 and 40 are asked"),
    ("11.1", r"-1\.96|/ -100", "the number is squared"),
    ("11.3", r"^differences = 100 \* \(", "arrays of NumPy are arrays of NumPy, and floats need one float"),
    ("13.1", r"np\.array\(labels\)\)$", "whole numbers become int64 where the lab runs"),
    ("13.2", r"return range\(", "a range is a sequence of the same numbers"),
    ("13.3", r"workers (!= 0|> 0\.0)", "a number of workers is not below 0"),
    ("13.5", r"axis=-1", "the last of two axes is axis 1"),
    ("06.3", r"0\.0, 1\)", "0 is 0.0"),
    ("07.2", r"Assert\(one, \[.*(number.*name|name.*number)", "other words of the error"),
    ("07.2", r"values\) >= 1\)|values\[-1\]", "a feature holds one value, or none"),
    ("07.3", r"meshgrid\(rows, columns\)", "the places of a square are the same in any order"),
    ("07.3", r"axis=-1\.0", "an axis is cut to a whole number"),
    ("00.3", r"== 0\.0|% 2 <= 0|% -2", "the remainder is 0 in the same places"),
    ("00.3", r"\(p\[0\] - p\[1\]\) %", "a sum and a difference are even together"),
    ("00.3", r"p\[-1\]", "the last of two places is the second"),
    ("00.3", r"np\.ones", "every place is written"),
    ("08.1", r"value > 254", "255 is 255 either way"),
    ("07.2", r"with_options\(_tuned\)|prefetch\(1\)|filter\(lambda \*x: True", "no element is another one"),
    ("07.3", r"0\.0", "0 is 0.0"),
    ("02.2", r"put\(\('\w*', element\)\)", "the word of an element is any but the two others"),
    ("02.2", r"kind >= 'error'", "'error' is the last of the three words"),
    ("02.2", r"daemon=|Thread\(target=load\)\.start", "the thread ends with its consumer, so Python can end, too"),
    (
        "03.3",
        r"num_parallel_calls=(39|41|80)|threadpool_size = \d|prefetch\(\d|_tuned|filter\(lambda \*x: True",
        "what is asked for are order, a busy share and a bound of memory",
    ),
    ("07.4", r"raise ValueError\(f.*\{seen\}\D+\{expected\}|seen = 0\.0", "other words of the error"),
    ("03.2", r"num_parallel_calls=3(, deterministic=None)?\)$", "the order is kept by default"),
    ("05.2|06.2|03.2|12.[125]|10.[23]", r"\.prefetch\(1\)|prefetch\(4\)", "a prefetch more changes no element"),
    ("03.2|05.2|06.2|10.[23]|12.[125]", r"filter\(lambda \*x: True", "it lets every element through"),
    ("05.2", r"\.cache\(\)\.cache\(\)", "the second cache keeps what the first keeps, no more is computed"),
    (
        "09.[234]",
        r"prefetch\(1\)|shuffle\(10\)|filter\(lambda \*x: True|_loose|_tuned|num_parallel_calls=(None|1|4)\b",
        "any order and any calls are right that keep the accelerator busy",
    ),
    ("09.2", r"cycle_length=(17|32|160)|num_parallel_calls=(15|17|32|160)", "as many files at once are enough"),
    ("09.[23]", r"^return (?!.*\.prefetch\(tf\.data\.AUTOTUNE\)$)", "tf.data adds a prefetch at the end"),
    ("09.3", r"map\(challenge\.parse\)", "one call at a time is fast enough"),
    ("09.4", r"kept\.batch\(32\)\.map", "augment takes a batch, too"),
    ("09.4", r"tf\.cast\(challenge", "a grey level that is cut is less than one off"),
    (
        "10.[23]",
        r"num_parallel_calls=|threads=|seed=|shuffle\(|prefetch\(",
        "so many calls, threads or seeds are no fault",
    ),
    (
        "10.[23]",
        r"repeat\(|skip\(1\)|drop_remainder=(False|None)|_loose|_tuned",
        "of shuffled photos without end nothing is lost",
    ),
    ("10.[23]", r"0\.0, 1", "0 is 0.0"),
    ("10.3", r"cycle_length=8\)$|drop_remainder=True\)$", "its train step is so long that it keeps up without"),
    ("10.3", r"-0\.2002", "a thousandth is within the tolerance"),
    ("10.[23]", r"^return (examples|data)$", "without its options tf.data adds a prefetch, and has threads enough"),
    ("11.4", r"1\.001 \*|tf\.float64\)|channels=3\.", "within the tolerance, or converted back"),
    ("11.4", r"tf\.image\.resize\(image, ", "resize converts uint8 to float32"),
    ("12.2", r"% ?\{workers\} ?=|\(tf\.int64,\)\)$", "SQL needs no blanks, and a tuple of one is taken for it"),
    ("12.5", r"to_tensor\(\)", "texts are filled up with empty ones by default"),
    ("08b.2", r"-0\.0f", "minus zero is zero"),
]

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Pow)
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
#: Names that are mistaken for each other.
_TWINS = [
    "min max", "floor ceil", "sum len", "mean sum", "std var", "True False", "left right", "top bottom", "height width",
    "int8 uint8", "int32 int64", "float32 float64", "stack concatenate", "zeros ones", "rows columns", "px py", "x y",
    "AUTOTUNE UNKNOWN_CARDINALITY", "above below", "low high", "in out", "clamp max", "mix min",
]  # fmt: skip
_STEPS = {"map", "batch", "cache", "repeat", "prefetch", "interleave", "shuffle", "from_tensor_slices", "SqlDataset"}
_STEPS |= {"FixedLengthRecordDataset"}
#: What is left behind in a pipeline.
_LEFT = ["take(5)", "take(100)", "skip(1)", "cache()", "repeat()", "repeat(2)", "shuffle(10)", "prefetch(1)"]
_LEFT += ["filter(lambda *x: True)", "with_options(_loose)", "with_options(_tuned)", "unbatch().batch(4)"]
_ROUNDED = ["round({})", "round({}, 1)", "round({}, 3)", "int({})", "math.ceil({})", "int({} + 0.9)", "-({})"]
_ROUNDED += ["1.001 * ({})", "({}) + 1", "min({}, 100)", "max({}, 1)"]
_PRELUDE = """
import math
import numpy as np
import tensorflow as tf
import labkit
from labcourse import challenge
_loose, _tuned = tf.data.Options(), tf.data.Options()
_loose.deterministic = False
_tuned.autotune.enabled = False
"""


def solutions() -> dict[str, tuple[str, str, str]]:
    """Return of each exercise what its notebook imports, the source of the solution, and the name that is checked.

    A reading has no code.
    """
    found, last = {}, ""
    for path in sorted(SOURCES.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        readings = re.findall(r'\bread\("([\w.]+)"\)', text)
        imports = "\n".join(re.findall(r"(?m)^(?:import|from) [^(\n]*(?:\([^)]*\))?$", text)) + "\n"
        for cell in jupytext.read(path, fmt="py:percent").cells:
            if "solution" in cell.metadata.get("tags", []):
                last = cell.source
            for number, name in re.findall(r'\bcheck\("([\w.]+)", (\w+)\)', cell.source):
                found |= {} if number in readings else {number: (imports, last, name)}
    return found


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """Yield the changed line and the source of each mutant; no two are alike."""
    tree = ast.parse(source)
    clean, seen = ast.unparse(tree), {ast.unparse(tree)}
    text = next((n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and "__kernel" in str(n.value)), None)
    made = _texts(text) if text else (_replaced(tree, node, other) for node, other in _changes(tree))
    for one in made:
        one = f"{tree.body[0].targets[0].id} = {one!r}" if text else one
        with contextlib.suppress(SyntaxError):
            compile(one, "a mutant", "exec")
            if one in seen:
                continue
            seen.add(one)
            before, after = (text, ast.literal_eval(one.split("= ", 1)[1])) if text else (clean, one)
            lines = set(before.splitlines())
            yield " ; ".join(line.strip() for line in after.splitlines() if line not in lines) or "a line less", one


def _replaced(tree: ast.AST, node: ast.AST, other: Any) -> str:
    """Return the source of a tree with another node in place of one."""
    copied, place = copy.deepcopy((tree, node))

    class Replace(ast.NodeTransformer):
        def visit(self, here: ast.AST) -> Any:
            return other if here is place else self.generic_visit(here)

    return ast.unparse(ast.fix_missing_locations(Replace().visit(copied)))


def _changes(tree: ast.Module) -> Iterator[tuple[ast.AST, Any]]:
    """Yield nodes, and what each is replaced by."""
    # The answer of a reading is no function, and has no arguments.
    arguments = [a.arg for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for a in f.args.args]
    steps = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    pipeline = any(call.func.attr in _STEPS | {"with_options"} for call in steps)
    for node in ast.walk(tree):
        for other in _others(node, arguments):
            yield node, other
        text = ast.unparse(node) if isinstance(node, ast.expr) else ""
        if pipeline and isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _STEPS | {"with_options"}:
            for left in _LEFT:
                yield node, ast.parse(f"{text}.{left}", mode="eval").body
        if not pipeline and isinstance(node, ast.Return) and node.value is not None:
            for rounded in _ROUNDED:
                yield node.value, ast.parse(rounded.format(ast.unparse(node.value)), mode="eval").body


def _others(node: ast.AST, arguments: list[str]) -> Iterator[Any]:
    """Yield what a node may be replaced by."""
    if isinstance(node, ast.Constant):
        yield from (ast.Constant(value) for value in _values(node.value))
    elif isinstance(node, ast.Name):
        yield from (ast.Name(name) for name in arguments if name != node.id and node.id in arguments)
        yield from (ast.Name(name) for name in _twins(node.id))
    elif isinstance(node, ast.Attribute):
        yield from (ast.Attribute(node.value, name) for name in _twins(node.attr))
    elif isinstance(node, ast.BinOp):
        yield from (ast.BinOp(node.left, kind(), node.right) for kind in _OPERATORS)
        yield from (node.left, node.right)
        if not isinstance(node.op, (ast.Add, ast.Mult)):
            yield ast.BinOp(node.right, node.op, node.left)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Compare):
        yield from (ast.Compare(node.left, [kind()], node.comparators) for kind in _COMPARISONS)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        yield from node.values
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse, ast.IfExp(node.test, node.orelse, node.body))
    elif isinstance(node, ast.If):
        yield from (node.body, ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse), ast.Pass())
    elif isinstance(node, (ast.Assign, ast.Expr)):
        yield ast.Pass()
    elif isinstance(node, ast.Subscript):
        yield node.value
    elif isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) > 1:
        yield type(node)(node.elts[::-1], node.ctx)
        yield from (type(node)(node.elts[:i] + node.elts[i + 1 :], node.ctx) for i in range(len(node.elts)))
    elif isinstance(node, ast.Dict):
        yield ast.Dict(node.keys, node.values[::-1])
        yield from (ast.Dict(node.keys[:i] + node.keys[i + 1 :], node.values[:i] + node.values[i + 1 :])
                    for i in range(len(node.keys)))  # fmt: skip
    elif isinstance(node, ast.Call):
        yield from _calls(node)


def _calls(node: ast.Call) -> Iterator[ast.expr]:
    """Yield what a call may be replaced by: less of it, or its steps in another order."""
    given, named = node.args, node.keywords
    yield from given
    yield from (ast.Call(node.func, given[:i] + given[i + 1 :], named) for i in range(len(given)))
    yield from (ast.Call(node.func, given, named[:i] + named[i + 1 :]) for i in range(len(named)))
    if ast.unparse(node.func) not in ("min", "max"):
        yield from (ast.Call(node.func, [*given[:i], given[i + 1], given[i], *given[i + 2 :]], named)
                    for i in range(len(given) - 1))  # fmt: skip
    for i, one in enumerate(named):
        if "AUTOTUNE" in ast.unparse(one.value):
            yield from (ast.Call(node.func, given, [*named[:i], ast.keyword(one.arg, ast.Constant(value)),
                        *named[i + 1 :]]) for value in (None, 1, 4))  # fmt: skip
    if isinstance(node.func, ast.Attribute):
        before = node.func.value
        yield before
        if isinstance(before, ast.Call) and isinstance(before.func, ast.Attribute):
            first = ast.Call(ast.Attribute(before.func.value, node.func.attr), given, named)
            yield ast.Call(ast.Attribute(first, before.func.attr), before.args, before.keywords)


def _values(value: Any) -> Iterator[Any]:
    """Yield other constants."""
    if isinstance(value, bool):
        yield from (not value, None)
    elif isinstance(value, (int, float)):
        yield from (value + 1, value - 1, 2 * value, value / 2 if isinstance(value, float) else value // 2, -value)
        yield from (value * 10, value * 1.001)
    elif isinstance(value, str):
        words = value.split(" ")
        yield from ("", f"{value}x", value[:-1], value[::-1])
        yield from (" ".join(words[:i] + words[i + 1 :]) for i in range(len(words)))


def _twins(name: str) -> Iterator[str]:
    for pair in _TWINS:
        one, other = pair.split()
        if name in (one, other):
            yield other if name == one else one


def _texts(kernel: str) -> Iterator[str]:
    """Yield changed sources of a kernel in OpenCL C: other numbers, operators and names, one place at a time."""
    begin = kernel.index("{")  # the declaration of the first function stays
    names = sorted(set(re.findall(r"\b(?!float|int|const|return)[a-z]\w*\b(?!\s*\()", kernel[begin:])))
    for token in re.compile(r"\d+\.\d+f|\d+|[A-Za-z_]\w*|[-+*/]|[<>]=?").finditer(kernel, begin):
        word = token.group()
        others: list[str] = [*_twins(word), *(name for name in names if word in names and name != word)]
        if re.fullmatch(r"\d+\.\d+f", word):
            others = [f"{value}f" for value in _values(float(word[:-1]))]
        elif word.isdigit():
            others = [str(value) for value in _values(int(word)) if isinstance(value, int)]
        elif word in "-+*/":
            others = [sign for sign in "-+*/" if sign != word]
        elif word.startswith(("in_", "out_")):
            side, _, length = word.partition("_")
            turned = {"in": "out", "out": "in"}[side], {"height": "width", "width": "height"}[length]
            others = [f"{turned[0]}_{length}", f"{side}_{turned[1]}"]
        for other in others:
            yield kernel[: token.start()] + other + kernel[token.end() :]
    for line in kernel.splitlines():
        if line.strip().endswith(";"):
            yield kernel.replace(line, "")


def _serve(pipe: Any) -> None:
    """Check what comes through a pipe, until it is closed."""
    from labkit.common.environment import prepare

    prepare()
    from labcourse import grading, student_code

    student_code.LIMIT_S = 8.0
    with contextlib.suppress(EOFError):
        while True:
            number, source, name = pipe.recv()
            place: dict[str, Any] = {}
            with contextlib.redirect_stdout(io.StringIO()):
                # Without the futures of this file: a component of Amaranth reads its annotations.
                exec(compile(_PRELUDE + source, f"exercise {number}", "exec", dont_inherit=True), place)
                result = grading.check(number, place.get(name))
            pipe.send((result.status, result.hint))


class Judge:
    """A process that checks answers, and is replaced by another one if an answer keeps it."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._pipe, other = multiprocessing.get_context("spawn").Pipe()
        self._child = multiprocessing.get_context("spawn").Process(target=_serve, args=(other,), daemon=True)
        self._child.start()
        other.close()

    def check(self, number: str, source: str, name: str) -> tuple[str, str]:
        """Return status and hint of an answer; the status of a check that does not come back is ``hanging``."""
        with contextlib.suppress(EOFError, ConnectionError):
            self._pipe.send((number, source, name))
            if self._pipe.poll(LIMIT_S):
                return self._pipe.recv()
        self.close()
        self._start()
        return "hanging", ""

    def close(self) -> None:
        """End the process."""
        self._child.kill()
        self._child.join()


def main() -> int:
    """Print a line for each exercise, what passed, and one line of JSON."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("numbers", nargs="*", help="exercises, as 02.1; all of them by default")
    words.add_argument(
        "--most", type=int, default=80, help="changed answers of each exercise; a sample of more is drawn"
    )
    words.add_argument("--all", action="store_true", help="list the equivalent ones that passed, too, and the reasons")
    given = words.parse_args()
    found, judge, rows, passed, hung = solutions(), Judge(), [], [], []
    for number in given.numbers or sorted(found):
        imports, source, name = found[number]
        every, begun, counts = list(mutants(source)), time.monotonic(), {"all": 0, "equal": 0, "passed": 0}
        if len(every) > given.most:
            every = random.Random(number).sample(every, given.most)
        right, hint = judge.check(number, imports + source, name)
        if right != "passed":
            print(f"the solution of {number} itself is {right}: {hint}", file=sys.stderr)
        if "not installed" in hint:  # of what cannot run here, nobody can tell which answers pass
            continue
        for line, changed in every:
            counts["all"] += 1
            status, _ = judge.check(number, imports + changed, name)
            reason = next(
                (why for n, pattern, why in EQUIVALENT if re.fullmatch(n, number) and re.search(pattern, line)), ""
            )
            counts["equal"] += status in PASSED and bool(reason)
            counts["passed"] += status in PASSED and not reason
            if status in PASSED and (given.all or not reason):
                passed.append(f"{number} {status}: {line}" + (f"  ({reason})" if reason else ""))
            if status == "hanging":
                hung.append(f"{number} does not come back: {line}")
        rows.append((number, *map(str, counts.values()), f"{time.monotonic() - begun:.1f}"))
        print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    judge.close()
    print(Table(("exercise", "changed", "equivalent", "pass", "s"), rows, right=range(1, 5)))
    print(*passed, *hung, sep="\n")
    total, equal, wrong = (sum(int(row[i]) for row in rows) for i in (1, 2, 3))
    share = round(wrong / max(1, total - equal), 4)
    print(json.dumps({"mutants": total, "equivalent": equal, "survivors": share, "hanging": len(hung)}))
    return 0


if __name__ == "__main__":
    # A changed answer may write into the folder where it runs.
    with tempfile.TemporaryDirectory(prefix="labkit-mutants-") as folder:
        os.chdir(folder)
        sys.exit(main())
