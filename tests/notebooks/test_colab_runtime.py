"""Every notebook as Colab opens it: its packages, its kernel, the file alone, and labkit from a wheel built here.

All of this file shares one environment, and its notebooks run two at a time: with pytest-xdist it stays in one process.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import psutil
import pytest
from colab_stand_in.runtime import Runtime, at_github, pins, plain, saved
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

from badges import bootstrap, settings
from build import FIGURE
from labcourse import grading

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
VIEW = "application/vnd.jupyter.widget-view+json"

#: One notebook and its kernel; two at a time where there is room for two.
BYTES_EACH = 3_000_000_000

pytestmark = [pytest.mark.colab, pytest.mark.xdist_group("colab")]


@pytest.fixture(scope="module")
def machine(wheel, tmp_path_factory):
    """A runtime with the wheel of this checkout, and the photos that every notebook would make for itself.

    160 of them, not 1,280: here it counts that every cell runs beside Colab's packages, and not what it measures.
    Progress bars stay on, unlike in other tests: in Colab they are widgets.
    """
    machine = Runtime(tmp_path_factory.mktemp("colab"))
    machine.environment["LABKIT_SCALE"] = "tiny"
    machine.before = machine.freeze()
    machine.run("-m", "pip", "install", "--quiet", f"labkit[opencl] @ {wheel.as_uri()}")
    machine.after = machine.freeze()
    if "opencl-intel" in machine.run("-m", "labkit.cli", "doctor", "opencl"):
        # A processor that is younger than pip's PoCL: what the doctor says there is done.
        machine.run("-m", "pip", "install", "--quiet", f"labkit[opencl-intel] @ {wheel.as_uri()}")
    machine.complete = machine.freeze()
    machine.run("-c", "from labkit import photos; photos.prepare(progress=False)")
    return machine


@pytest.fixture(scope="module")
def opened(machine, solved, request):
    """The notebooks that this run has tests for, solved, each opened in Colab: promises of them, by name.

    A trial run (LABKIT_FAST) shows as well that every cell runs beside these packages, and what it leaves. At full
    length the main course runs in the tour, and with its exercises open every notebook runs under nbval.
    """
    wanted = [solved / i.callspec.params["path"].name for i in request.session.items if i.originalname == WHOLE]
    room = max(1, min(2, psutil.virtual_memory().available // BYTES_EACH))
    with ThreadPoolExecutor(room) as pool:
        yield {path.stem: pool.submit(machine.open, path, LABKIT_FAST="1") for path in wanted}


def outputs(notebook):
    return [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]


def words(notebook):
    """Return all that the outputs of a notebook say as text."""
    return "\n".join(str(o.get("text", o.get("data", {}).get("text/plain", ""))) for o in outputs(notebook))


def test_the_environment_is_colabs_and_labkit_only_adds_to_it(machine):
    version = machine.run("-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    assert pins(version) <= set(map(plain, machine.before)), "the environment is not Colab's"
    assert not [line for line in machine.before if "labkit" in line]
    assert machine.before <= machine.after, f"installing labkit changed {sorted(machine.before - machine.after)}"

    def named(lines):
        return {re.split("==| @ ", line)[0].lower() for line in lines}

    assert {"labkit", "pyopencl", "pocl-binary-distribution"} <= named(machine.after - machine.before)
    assert named(machine.complete - machine.before) == machine.own(), "what was there already was installed again"


#: How what a check says begins: with its sign and the number of the exercise.
CHECKED = re.compile(r"[✓✗…?] \d\d\w?\.\d")

#: What `labkit.have` prints of a package that is not there.
LEFT_OUT = "is not installed here, so this part is left out"

#: And what `my_pipeline.ladder` says then.
NO_BAR = "Your ladder has no bar yet"


def pictures(cell):
    """Return the picture on each page that a cell shows."""
    pages = [o.get("data", {}).get("text/html", "") for o in cell.outputs]
    return [figure[0] for page in pages if (figure := FIGURE.search(page))]


def holds(notebook, path, checks):
    """Check what every notebook owes: what its checks say, a picture beside all that moves, a file that GitHub shows.

    `checks` are the signs that a check may begin with. What is measured may find the machine too busy, and says "?".
    """
    code = [c for c in notebook.cells if c.cell_type == "code"]
    assert all(c.execution_count for c in code)
    assert not [o for o in outputs(notebook) if o.output_type == "error"]
    red = [o.text for o in outputs(notebook) if o.output_type == "stream" and o.name == "stderr"]
    # Colab's TensorFlow warns of the dispatcher that a notebook has killed, at whatever level its log is.
    red = [text for text in red if not all("data_service_client" in line for line in text.splitlines())]
    assert not red, "Colab shows in red what a cell writes to stderr"
    assert "· Colab," in words(notebook)
    assert "You must restart" not in words(notebook)
    checked = [c for c in code if re.search(r"^check\(", c.source, re.MULTILINE)]
    assert len(checked) >= (2 if path.name < "11" and path.name[2] == "_" else 0), "an elective may have fewer"
    for cell in checked:
        results = [text for o in cell.outputs if CHECKED.match(text := o.get("data", {}).get("text/plain", ""))]
        assert results, "a check that says nothing"
        assert all(text.startswith(checks) for text in results), results
    for now, then in zip(notebook.cells, nbformat.read(path, as_version=4).cells, strict=True):
        if now.cell_type == "code":
            # Colab has no Grain and no DALI: what stands under `if labkit.have(…)` is left out there, which is said.
            optional = re.search(r"^if (labkit\.have\(|[A-Z]+\b)", now.source, re.MULTILINE)
            left_out = optional and LEFT_OUT in words(notebook)
            # A ladder has no bar before the reader has measured one, which is said.
            no_bar = "my_pipeline.ladder(" in now.source and NO_BAR in str(now.outputs)
            expected = (0, len(pictures(then))) if left_out or no_bar else (len(pictures(then)),)
            # An answer is drawn, or the evidence of a reading, or each machine of a job; the stored one has none.
            if checks != "…" and (answered := re.search(r"\b(try_it|check|judge)\(", now.source)):
                expected = (*expected, len(pictures(then)) + (2 if answered[1] == "judge" else 1))
            assert len(pictures(now)) in expected, f"other pictures than those stored in\n{now.source}"
            assert all(len(re.search(r'alt="([^"]*)"', picture)[1]) > 20 for picture in pictures(now))
            before = {}
            for output in now.outputs:
                data = output.get("data", {})
                if VIEW in data or "<script" in data.get("text/html", ""):
                    left = data if FIGURE.search(data.get("text/html", "")) else before
                    assert FIGURE.search(left.get("text/html", "")), f"nothing is left of {data['text/plain'][:200]}"
                    # A picture says all in words, too: below itself, or as the text of its output.
                    assert "</pre></details>" in left["text/html"] or len(left["text/plain"].splitlines()) > 1
                before = data
    nbformat.validate(notebook)
    # What GitHub runs: it refuses the models of widgets as Colab stores them.
    page, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    assert page.count('<figure class="labkit-picture"') >= sum(len(pictures(cell)) for cell in code)


def test_a_notebook_brings_labkit_from_the_address_that_it_names(machine, tmp_path):
    """On a machine without the lab: pip clones, builds a wheel, only adds; photos are made; every cell runs."""
    fresh = Runtime(tmp_path)
    fresh.environment["LABKIT_SCALE"] = "tiny"
    before = fresh.freeze()
    path, repository, tag = NOTEBOOKS[0], *settings(ROOT)
    with at_github(tmp_path, repository, tag) as variables:
        notebook = fresh.open(path, **variables)
    holds(notebook, path, "…")
    first = next(c for c in notebook.cells if c.cell_type == "code")
    assert first.source.startswith(bootstrap(repository, tag))
    printed = "".join(o.text for o in first.outputs)
    assert "labkit" in printed
    assert "restart" not in printed
    assert "ERROR" not in printed
    after = fresh.freeze()
    assert before <= after, f"the bootstrap changed {sorted(before - after)}"
    (own,) = (line for line in after if line.startswith("labkit"))
    assert re.fullmatch(rf"labkit @ git\+https://github.com/{repository}@[0-9a-f]{{40}}", own)
    others = (found - {line for line in found if line.startswith("labkit")} for found in (after, machine.after))
    assert len(set(map(frozenset, others))) == 1, "the address brings other packages than the wheel"


def test_where_the_lab_does_not_come_the_first_cell_ends_in_one_sentence(tmp_path):
    """With nothing at the address, and then with a version here that is too old; nothing is installed or replaced."""
    fresh = Runtime(tmp_path)
    repository, tag = settings(ROOT)
    address = f"git+https://github.com/{repository}@{tag} was not installed"
    with at_github(tmp_path, repository, tag) as variables:
        nothing = variables | {"GIT_CONFIG_KEY_0": f"url.file://{tmp_path / 'nothing'}.insteadOf"}
        with pytest.raises(CellExecutionError, match=rf"{re.escape(address)}, .*'{tmp_path}/nothing' does not"):
            fresh.open(NOTEBOOKS[0], **nothing)
        fresh.run("-m", "pip", "install", "--quiet", "--no-deps", "tqdm==4.60.0")
        before = fresh.freeze()
        with pytest.raises(CellExecutionError, match=rf"{re.escape(address)}, .* on tqdm>=.*\btqdm==4.60.0") as error:
            fresh.open(NOTEBOOKS[1], **variables)
    assert "ModuleNotFoundError" not in str(error.value)
    assert fresh.freeze() == before


WHOLE = "test_a_notebook_runs_from_top_to_bottom"


@pytest.mark.parametrize("path", NOTEBOOKS[1:], ids=lambda p: p.stem)
def test_a_notebook_runs_from_top_to_bottom(opened, path):
    notebook = opened[path.stem].result()
    holds(notebook, path, ("✓", "?"))
    if path.stem.startswith("08b_"):
        assert re.search("Portable Computing Language|Intel.* OpenCL", words(notebook)), "there is no OpenCL"


def test_what_colab_stores_of_a_widget_would_be_refused():
    """The check above must bite: the models as Colab writes them, without ``state``, are what GitHub trips over."""
    output = nbformat.v4.new_output("display_data", {VIEW: {"model_id": "a" * 32}, "text/plain": "IntSlider(value=3)"})
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=[output])])
    stored = saved(notebook, {"a" * 32: {"model_name": "IntSliderModel", "model_module": "@jupyter-widgets/controls"}})
    with pytest.raises(KeyError, match="state"):
        HTMLExporter(template_name="basic").from_notebook_node(stored)


def test_running_them_installs_nothing(opened, machine):
    for promise in opened.values():
        promise.exception()
    assert machine.freeze() == machine.complete


def test_what_depends_on_the_versions_of_packages_passes_its_tests(root, machine):
    files, words = [str(root / "tests" / name) for name in VERSIONED], " or ".join(VERSIONED.values())
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", str(root / "pyproject.toml"), "-k", words]
    # Without a root, a fixture of one file would serve all of them.
    assert " passed" in machine.run("-m", "pytest", *options, "--rootdir", str(root), *files)


#: The solution of every exercise, checked as in its notebook; of the rest of a notebook it needs TensorFlow only.
CHECK_SOLUTIONS = r"""
import json, pathlib, re, sys, labkit, labcourse.grading
labkit.setup()
import tensorflow as tf
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.ipynb")):
    space = {"tf": tf}
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        tags = cell["metadata"].get("tags", [])
        if "bootstrap" in tags:
            exec("\n".join(re.findall(r"(?m)^(?:import|from) .*$", source)), space)
        elif "solution" in tags:
            exec(source, space)
        elif found := re.search(r'\bcheck\("([\w.]+)", (\w+)\)', source):
            result = labcourse.grading.check(found[1], space[found[2]])
            print("RESULT", found[1], result.passed, repr(result))
"""


def test_every_solution_scores_in_colab(machine, solved):
    """With the versions that students have there, OpenCL's exercises included."""
    printed = machine.run("-c", CHECK_SOLUTIONS, str(solved))
    results = re.findall(r"(?m)^RESULT ([\w.]+) (\w+) (.*)", printed)
    assert sorted(number for number, _, _ in results) == sorted(grading.numbers())
    # Colab has PyTorch, the stand-in has not: that exercise passes where there is one (make test-loaders).
    unchecked = {number: text for number, passed, text in results if passed != "True"}
    assert list(unchecked) == ["13.3"], results
    assert "PyTorch is not installed here" in unchecked["13.3"]


def test_photos_serve_files_where_tfds_is_broken_and_say_why(machine, tmp_path):
    """Colab's own pins: tensorflow_datasets imports, logs an error, and is empty."""
    code = (
        "import labkit; labkit.setup(); import tensorflow_datasets as tfds; assert not hasattr(tfds, 'load');"
        "from labkit import photos; album = photos.prepare('tiny', progress=False);"
        "assert len(list(album.files())) == len(album) == 160; print('NOTE', album.note)"
    )
    assert "protobuf" in machine.run("-c", code).split("NOTE")[1]


#: A kernel of its own, as Colab has it; what a cell publishes is printed.
PUBLISHED = """
import json
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3")
code = '''
from labkit.timeline.trace import Span, Trace
import labkit
spans = [Span("consumer", n, c, 10_000_000 * i + a, 4_000_000, i)
         for i in range(9) for n, c, a in (("wait for batch", "wait", 0), ("train step", "train", 5_000_000))]
trace = Trace.from_spans(spans, kinds={"consumer": "consumer"}, name="nine", images=9)
labkit.show(trace, trace)
'''
wanted, found = client.execute(code), []
while True:
    message = client.get_iopub_msg(timeout=90)
    if message["parent_header"].get("msg_id") == wanted:
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            break
        if message["msg_type"] in ("display_data", "execute_result", "error", "stream"):
            found.append([message["msg_type"], message["content"]])
manager.shutdown_kernel(now=True)
print(json.dumps(found))
"""


def test_a_timeline_is_published_with_its_picture_under_colabs_widgets(machine):
    """ipywidgets 7.7.1 and IPython 7.34 lose the picture beside a widget, unless the widget publishes itself."""
    ((kind, content),) = json.loads(machine.run("-c", PUBLISHED))
    assert kind in ("display_data", "execute_result"), content
    data = content["data"]
    assert data["image/png"].startswith("iVBOR")
    assert "busy" in data["text/plain"]
    assert "busy" in content["metadata"]["image/png"]["alt"]
    assert {"application/vnd.jupyter.widget-view+json", "text/html"} & set(data), "nothing to touch"


#: What touches packages in which Colab's versions differ from ours, and what no notebook touches in passing: ipywidgets
#: and IPython below a view, TensorFlow's profiler below a recording. Everything else runs in the notebooks above.
VERSIONED = {
    "labkit/views/test_widget.py": "test_widget",
    "labkit/recording/test_recorder.py": "(test_recorder and (every_stage or both_clocks or nest or keras or naive))",
}
