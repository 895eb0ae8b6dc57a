"""Run a notebook from top to bottom without a reader: for the tour, the build and the tests."""

from __future__ import annotations

import logging
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from jupyter_client.connect import ConnectionFileMixin
from jupyter_client.manager import AsyncKernelManager, KernelManager
from jupyter_core.paths import jupyter_runtime_dir
from traitlets import default

from labkit.common import other_programs

#: What a path of a Unix socket may hold on every system (sun_path of macOS, its final zero byte left out).
_LONGEST_SOCKET_PATH = 103

#: What other programs take is judged piece by piece, and no piece is shorter than this. Seconds: a burst that ends at
#: once is no reason to run a notebook again, a measurement beside a compiler is, however quiet the rest was.
_PIECE_S = 5.0


class _ThroughFiles(ConnectionFileMixin):
    """A kernel manager whose kernel is spoken to through socket files, where the system has them.

    Jupyter picks free TCP ports, lets them go and hopes that they are still free when the kernel binds them a second
    later. Where several kernels start at a time, now and then they are not, and "Kernel died before replying" is all
    that is seen. A file whose name is nobody else's cannot be taken.
    """

    @default("connection_file")
    def _unique_name(self) -> str:
        folder = Path(jupyter_runtime_dir())
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(folder / f"kernel-{uuid4().hex}.json")

    @default("transport")
    def _files_where_they_fit(self) -> str:
        fits = len(self.connection_file.encode()) <= _LONGEST_SOCKET_PATH - len("-ipc-1") + len(".json")
        return "ipc" if hasattr(socket, "AF_UNIX") and fits else "tcp"


class Kernel(_ThroughFiles, KernelManager):
    """A kernel for callers that wait."""


class Crowded(RuntimeError):
    """Other programs took too much of the cores beside a run: its times mean little."""


class _Neighbours:
    """What other programs take beside a run, piece by piece.

    Parameters
    ----------
    title : str
        What is run.
    limit : float
        The share of the cores from which on a run is refused.
    """

    def __init__(self, title: str, limit: float) -> None:
        self._title, self._limit, self._meter, self._since = title, limit, other_programs.Meter(), time.monotonic()

    def look(self, cell: int, least_s: float = _PIECE_S) -> None:
        """End a piece with a cell where it is long enough; raise `Crowded` if others took too much of it."""
        if time.monotonic() - self._since < least_s:
            return
        share = self._meter.share()
        self._meter, self._since = other_programs.Meter(), time.monotonic()
        if share > self._limit:
            took, limit = other_programs.took(share), f"{100 * self._limit:.0f} %"
            raise Crowded(f"{self._title} is not stored: up to cell {cell}, {took}, allowed are {limit}")


class AsyncKernel(_ThroughFiles, AsyncKernelManager):
    """A kernel for callers that await."""


def execute(notebook: Any, title: str, folder: Path, timeout_s: int = 600, most_others: float | None = None) -> Any:
    """Run every cell of a notebook in a fresh kernel, with a progress bar; outputs land in its cells.

    The kernel ends with this call, however it ends, and with this process if that is killed.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
    title : str
        What the progress bar says.
    folder : Path
        Where the kernel runs.
    timeout_s : int
        Seconds that one cell may take.
    most_others : float, optional
        The share of the cores, 0 to 1, that other programs may take beside the run; without one, nobody looks.

    Returns
    -------
    nbformat.NotebookNode
        The same notebook.

    Raises
    ------
    RuntimeError
        If a cell fails; the sentence names the notebook, the cell and the error.
    Crowded
        If other programs took more of the cores than they may; the run ends there.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, DeadKernelError
    from tqdm.auto import tqdm

    code = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    running = code[0] if code else 0

    neighbours = None if most_others is None else _Neighbours(title, most_others)

    def started(cell: Any, cell_index: int) -> None:
        nonlocal running
        running = cell_index

    def executed(cell: Any, cell_index: int, **_: Any) -> None:
        bar.update(cell_index in code)
        if neighbours:
            neighbours.look(cell_index)

    # What a kernel writes to no cell, as where it falls over its own end, is shown unless the run was interrupted.
    with tempfile.TemporaryFile() as written, tqdm(total=len(code), desc=title, unit="cell") as bar:
        client = NotebookClient(
            notebook,
            timeout=timeout_s,
            kernel_name="python3",
            kernel_manager_class=AsyncKernel,
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": str(folder)}},
            on_cell_start=started,
            on_cell_executed=executed,
        )
        # On Ctrl-C nbclient ends the kernel, and then it and asyncio trip over its absence in several ways.
        noisy = logging.getLogger("asyncio")
        level = noisy.level
        noisy.setLevel(logging.CRITICAL)
        try:
            client.execute(stderr=written)
            if neighbours:
                neighbours.look(running, least_s=other_programs.SHORTEST_S)
        except Crowded:
            raise
        except BaseException as error:
            if getattr(client, "_async_cleanup_kernel_future", None) is not None:
                written.truncate(0)
                raise KeyboardInterrupt from None
            if not isinstance(error, (CellControlSignal, DeadKernelError)):
                raise
            reason = f"{error.ename}: {error.evalue}" if hasattr(error, "ename") else str(error).splitlines()[0]
            raise RuntimeError(f"{title} stopped at cell {running} of {len(notebook.cells)}: {reason}") from error
        finally:
            noisy.setLevel(level)
            written.seek(0)
            sys.stderr.write(written.read().decode(errors="replace"))
    return notebook
