"""The kernel of a Colab notebook: a shell of its own, and ``google.colab`` imported before the first cell."""

from __future__ import annotations

from importlib.metadata import distributions

from google.colab import output  # noqa: F401  a library looks for it among the imported modules
from ipykernel.ipkernel import IPythonKernel
from ipykernel.zmqshell import ZMQInteractiveShell


class Shell(ZMQInteractiveShell):
    """A shell that says what Colab's says after an installation which changed something: restart the runtime."""

    def system(self, command):
        """Run a command of the shell, as ``!`` and ``%pip`` do."""
        before = _installed()
        super().system(command)
        after = _installed()
        if changed := sorted(name for name in before if after.get(name) != before[name]):
            print(f"WARNING: {', '.join(changed)} changed. You must restart the runtime in order to use new versions.")


class Kernel(IPythonKernel):
    """Colab's kernel."""

    shell_class = Shell


def _installed():
    """Return the version of every package; of two copies the one that is imported counts."""
    found = {}
    for package in distributions():
        found.setdefault(package.metadata["Name"], package.version)
    return found
