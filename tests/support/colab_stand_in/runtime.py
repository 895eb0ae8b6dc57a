"""A Colab to test in: its packages, its kernel, its variables, and a folder that holds one notebook and nothing else.

What Colab preinstalls is installed once, in ``build/colab-venv``, and never changed. Each runtime is a layer on top of
it, as fresh as a machine that Colab has just handed out: what a notebook installs lands there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from packaging.requirements import Requirement

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[2] / "build"
PINS = HERE.with_name("colab-pins.txt")

#: As a Colab machine without a GPU has them; what names a port or a token of Google's is left out.
VARIABLES = {
    "COLAB_BACKEND_VERSION": "next",
    "COLAB_GPU": "",
    "COLAB_JUPYTER_IP": "172.28.0.12",
    "COLAB_JUPYTER_TRANSPORT": "ipc",
    "COLAB_NOTEBOOK_ID": "/v2/external/notebooks/intro.ipynb",
    "COLAB_RELEASE_TAG": "release-colab-external-images_20260917-060051_RC00",
    "COLAB_TPU_1VM": "",
    "COLAB_WARMUP_DEFAULTS": "1",
    "CLICOLOR": "1",
    "GIT_PAGER": "cat",
    "LANG": "en_US.UTF-8",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "PAGER": "cat",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "PYDEVD_USE_FRAME_EVAL": "NO",
    "PYTHONPATH": "/env/python",
    "PYTHONUTF8": "1",
    "PYTHONWARNINGS": "ignore:::pip._internal.cli.base_command",
    "TERM": "xterm-color",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}
#: What this process has and a fresh machine has not: the lab's own switches, and where this Python lives.
FOREIGN = ("LABKIT_", "PYTHON", "VIRTUAL_ENV", "CONDA", "TF_", "POCL_", "PYOPENCL", "OCL_", "PYTEST", "JUPYTER", "IPY")


class Runtime:
    """A machine of Colab's, just handed out.

    Parameters
    ----------
    folder : Path
        Where the layer, its caches and the folders of notebooks go.

    Attributes
    ----------
    python : Path
        Its interpreter: that of Colab's packages, with a place of its own for what is added.
    """

    def __init__(self, folder: Path) -> None:
        base = preinstalled()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.python = folder / "python" / "bin" / "python"
        subprocess.run([base, "-m", "venv", "--without-pip", folder / "python"], check=True)
        (own,) = (folder / "python" / "lib").glob("python*/site-packages")
        (shared,) = (base.parent.parent / "lib").glob("python*/site-packages")
        (own / "colab.pth").write_text(f"{shared}\n")
        shutil.copytree(HERE / "google", own / "google", ignore=shutil.ignore_patterns("__pycache__"))
        kept = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
        cache = folder / "cache"
        cache.mkdir()
        self.environment = kept | VARIABLES
        self.environment |= {
            "PATH": f"{self.python.parent}:{os.environ['PATH']}",
            "PIP_CACHE_DIR": str(BUILD / "pip-cache"),
            "XDG_CACHE_HOME": str(cache),
            "MPLCONFIGDIR": str(cache / "matplotlib"),
            "IPYTHONDIR": str(cache / "ipython"),
        }

    def run(self, *arguments: str, **words) -> str:
        """Run its Python with arguments, outside of any notebook; return what it printed.

        Raises
        ------
        RuntimeError
            If it ends with another status than 0; with the end of what it said.
        """
        done = subprocess.run(
            [self.python, *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            **words,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments)[:200]}: {done.stdout[-3000:]}{done.stderr[-2000:]}")
        return done.stdout

    def freeze(self) -> set[str]:
        """Return what ``pip freeze`` says, one line per package."""
        return set(self.run("-m", "pip", "freeze").splitlines())

    def own(self) -> set[str]:
        """Return the names of the packages in the layer: all that was installed here, anew or once more."""
        (place,) = (self.folder / "python" / "lib").glob("python*/site-packages")
        names = {found.metadata["Name"] for found in distributions(path=[str(place)])}
        return set(map(plain, names))

    def open(self, path: Path, cells: int | None = None, **variables: str) -> nbformat.NotebookNode:
        """Run a notebook as Colab does that was sent its badge: the file alone, from top to bottom.

        Parameters
        ----------
        path : Path
            The notebook; a copy is run, in an empty folder.
        cells : int, optional
            Run only the first so many.
        **variables
            More variables of the kernel's environment.

        Returns
        -------
        nbformat.NotebookNode
            The notebook with its outputs, as Colab saves it: see `saved`.

        Raises
        ------
        nbclient.exceptions.CellExecutionError
            If a cell fails.
        """
        content = self.folder / path.stem / "content"
        content.mkdir(parents=True)
        shutil.copy(path, content)
        notebook = nbformat.read(content / path.name, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        if cells is not None:
            notebook.cells = notebook.cells[:cells]
        client = NotebookClient(
            notebook,
            km=AsyncKernelManager(kernel_name="colab", kernel_spec_manager=_Spec(str(self.python))),
            timeout=300,
            resources={"metadata": {"path": str(content)}},
        )
        client.owns_km = True  # so that the kernel ends with the run
        client.execute(env=self.environment | variables)
        return saved(notebook, client.widget_state)


class _Spec(KernelSpecManager):
    """The one kernel that there is."""

    def __init__(self, python: str) -> None:
        super().__init__()
        self._python = python

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        launch = [self._python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        kernel = "--IPKernelApp.kernel_class=google.colab._kernel.Kernel"
        return KernelSpec(argv=[*launch, kernel], display_name="Python 3", language="python")


def saved(notebook: nbformat.NotebookNode, models: dict) -> nbformat.NotebookNode:
    """Return the notebook as Colab stores it: an older format without ids of cells, and the models of its widgets.

    Colab writes the models that a view in the notebook leads to, and forgets to put them below ``state``.
    """
    view = "application/vnd.jupyter.widget-view+json"
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = [output.data[view]["model_id"] for output in outputs if view in output.get("data", {})]
    notebook = nbformat.from_dict(notebook)
    notebook.nbformat_minor = 0
    for cell in notebook.cells:
        cell.pop("id", None)
        if cell.cell_type == "code" and "execution" in cell.metadata:
            del cell.metadata["execution"]
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "name": "python3"},
            "language_info": {"name": "python"},
            "colab": {"provenance": []},
        }
    )
    wanted = {name: models[name] for name in _reached(shown, models)}
    if wanted:
        notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": wanted}
    return notebook


def _reached(names: list[str], models: dict) -> list[str]:
    """Return these models and all that they refer to."""
    found: list[str] = []
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found or name not in models:
            continue
        found.append(name)
        waiting += [other for other in models if f"IPY_MODEL_{other}" in str(models[name])]
    return found


def preinstalled() -> Path:
    """Return the interpreter of an environment with Colab's pins, made once per set of pins and kept in build/.

    A process that comes while it is made waits: two test processes may ask at once.
    """
    base = next(pythons())
    where = BUILD / "colab-venv"
    stamp, key = where / ".ready", f"{base}\n{PINS.read_text()}"
    python = where / "bin" / "python"
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "colab-venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != key:
            shutil.rmtree(where, ignore_errors=True)
            subprocess.run([base, "-m", "venv", str(where)], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-compile", "-r", str(PINS)], check=True)
            stamp.write_text(key)
    return python


def pins(version: str) -> set[str]:
    """Return the pins that hold for a Python (``"3.13"``), each as ``name==version``, spelt as pip compares them."""
    found = (Requirement(line) for line in PINS.read_text().splitlines() if "==" in line)
    holds = (r for r in found if r.marker is None or r.marker.evaluate({"python_version": version}))
    return {f"{plain(r.name)}{r.specifier}" for r in holds}


def plain(name: str) -> str:
    """Return the name of a package, or a line of ``pip freeze``, as pip compares them."""
    return name.lower().replace("_", "-")


def pythons() -> Iterator[str]:
    """Yield interpreters at hand, Colab's version first: 3.13, then 3.12, then this one."""
    for version in ("3.13", "3.12"):
        for candidate in (
            shutil.which(f"python{version}"),
            *sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))),
        ):
            if candidate and not subprocess.run([candidate, "-c", "import ensurepip"], capture_output=True).returncode:
                yield candidate
                break
    yield sys.executable


@contextlib.contextmanager
def at_github(folder: Path, repository: str, tag: str) -> Iterator[dict[str, str]]:
    """Publish this checkout where git finds it when it is asked for the lab's repository at GitHub.

    pip is told nothing: it clones the address that stands in the cell, and builds a wheel of what it gets. Only git is
    told, by its own ``url.<base>.insteadOf``, that this one address lies in a folder.

    Yields
    ------
    dict
        The variables by which git is told.
    """
    made = folder / "github"
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(made)]
    subprocess.run(command, cwd=BUILD.parent, check=True, capture_output=True)
    (packed,) = made.glob("*.tar.gz")
    shutil.unpack_archive(packed, made, filter="data")
    (source,) = (p for p in made.iterdir() if p.is_dir())
    git = ["git", "-c", "user.name=lab", "-c", "user.email=lab@localhost", "-c", "init.defaultBranch=main"]
    for words in (["init", "-q"], ["add", "--all", "--force"], ["commit", "-q", "-m", "the lab"], ["tag", tag]):
        subprocess.run([*git, *words], cwd=source, check=True)
    yield {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{source}.insteadOf",
        "GIT_CONFIG_VALUE_0": f"https://github.com/{repository}",
    }


def pip_settings() -> dict[str, str]:
    """Return the variables by which uv takes packages from where pip is set up to take them."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    index = os.environ.get("PIP_INDEX_URL") or asked.stdout.strip()
    return {"UV_DEFAULT_INDEX": index} if index else {}
