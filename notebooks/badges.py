"""Where the notebooks' badges and bootstrap cells point, and how to point them elsewhere.

A notebook opened in Colab arrives alone: no package, no data, no environment. Its badge
must name its own file, and its first code cell must bring labkit without touching what
Colab has installed. Both are made here, from one place: ``[tool.labkit]`` in pyproject.toml.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from labkit.common.files import write_aside

_BADGE = "https://colab.research.google.com/assets/colab-badge.svg"
# What GitHub and git take: no name is "." or "..", or ends in ".git"; no part of a tag is empty, or ends in ".lock".
_SLUG = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?/(?!\.{1,2}$)[A-Za-z0-9._-]+(?<!\.git)")
_PART = r"[A-Za-z0-9][A-Za-z0-9._+-]*(?<!\.)(?<!\.lock)"
_TAG = re.compile(rf"(?!.*\.\.){_PART}(?:/{_PART})*")
_SETTING = {
    "repository": re.compile(r'(?m)^(repository\s*=\s*)"([^"]*)"'),
    "tag": re.compile(r'(?m)^(tag\s*=\s*)"([^"]*)"'),
}


def badge(notebook: str, repository: str, tag: str) -> str:
    """Return the Markdown of the *Open in Colab* badge of one notebook (its file name)."""
    target = f"https://colab.research.google.com/github/{repository}/blob/{tag}/notebooks/{notebook}"
    return f"[![Open in Colab]({_BADGE})]({target})"


def site(repository: str) -> str:
    """Return the address at which GitHub Pages publishes what `make site` builds."""
    owner, name = repository.split("/")
    return f"https://{owner.lower()}.github.io/{name}/"


#: The first code cell, without its address. It starts pip as a command: after the magic of that name, IPython asks for
#: a restart that nobody needs, and Colab's IPython takes no `x = !command` under its Python.
_BOOTSTRAP = """\
try:
    import labkit
except ImportError:  # Colab, or any kernel that has not seen the lab yet
    import re, subprocess, sys
    lab, pip = "ADDRESS", f'"{sys.executable}" -m pip'
    # What is here stays, TensorFlow above all: pip adds what is missing, or says which version does not fit.
    subprocess.getoutput(f"{pip} list --format=freeze > labkit-versions.txt")
    pip += f' install -c labkit-versions.txt "labkit[opencl] @ {lab}"'
    failed, said = subprocess.getstatusoutput(pip)
    if failed:
        why = re.findall(r"fatal.*|pathspec.*|\S.* depends on .*|\S.*constraint.*|\S.* different Python.*", said)
        takes = f"a network, a public address, and versions that fit: {'; '.join(why) or said[-300:]}"
        raise SystemExit(f"{lab} was not installed, which takes {takes}") from None
    import labkit

labkit.setup()"""


def bootstrap(repository: str, tag: str) -> str:
    """Return the source of the first code cell: bring labkit and OpenCL if they are missing, then say where we are.

    pip only adds, since the versions of what is installed already are constraints. Where one of them does not fit, the
    cell ends with a sentence that names both versions; as it does without a network, or with nothing at the address.
    """
    return _BOOTSTRAP.replace("ADDRESS", f"git+https://github.com/{repository}@{tag}")


#: What a notebook of the kit begins with: it names no address, for solutions stand in the checkout.
KIT = "# In Colab, first upload the wheel of the kit, and run: %pip install -q labkit-*.whl\nimport labkit"


def settings(root: Path) -> tuple[str, str]:
    """Return ``(repository, tag)`` as ``[tool.labkit]`` of the checkout at `root` has them.

    Raises
    ------
    ValueError
        If there is no pyproject.toml there, or it lacks one of the two.
    """
    text = _pyproject(root)
    return _setting(text, "repository"), _setting(text, "tag")


def rewrite(root: Path, repository: str | None = None, tag: str | None = None) -> list[Path]:
    """Point every badge and bootstrap cell of the checkout at `root` to another repository or tag.

    pyproject.toml is written last, so that an interrupted call can simply be repeated.

    Parameters
    ----------
    root : Path
        The checkout.
    repository : str, optional
        ``owner/name`` on GitHub; the present one by default.
    tag : str, optional
        A tag, branch or commit; the present one by default.

    Returns
    -------
    list of Path
        The files that changed.

    Raises
    ------
    ValueError
        If `repository` is not ``owner/name`` or `tag` is no ref name, `root` is no checkout of the lab, or a
        notebook in it is not whole.
    """
    old = settings(root)
    new = (old[0] if repository is None else repository, old[1] if tag is None else tag)
    if not _SLUG.fullmatch(new[0]):
        raise ValueError(f"repository is {new[0]!r}; allowed: owner/name, as in pipeline-lab/labkit")
    if not _TAG.fullmatch(new[1]):
        raise ValueError(f"tag is {new[1]!r}; allowed: a tag, branch or commit name, as in v0.1.0")
    notebooks = sorted((root / "notebooks").glob("*.ipynb"))
    for path in notebooks:
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is no notebook, and nothing was changed: {error}") from None
    changed = []
    for path in [*notebooks, root / "README.md", root / "pyproject.toml"]:
        if path.exists() and (text := path.read_text(encoding="utf-8")) != (moved := _moved(text, old, new)):
            changed.append(write_aside(path, moved))
    return changed


def _moved(text: str, old: tuple[str, str], new: tuple[str, str]) -> str:
    """Replace every address of the lab's repository in `text`; other repositories stay."""
    for before, after in (
        (f"/github/{old[0]}/blob/{old[1]}/", f"/github/{new[0]}/blob/{new[1]}/"),
        (f"git+https://github.com/{old[0]}@{old[1]}", f"git+https://github.com/{new[0]}@{new[1]}"),
        (f'https://github.com/{old[0]}"', f'https://github.com/{new[0]}"'),
        (f"https://github.com/{old[0]}.git", f"https://github.com/{new[0]}.git"),
        (site(old[0]), site(new[0])),
    ):
        text = text.replace(before, after)
    section = text.find("[tool.labkit]")
    if section >= 0:
        head, tail = text[:section], text[section:]
        for pattern, value in zip(_SETTING.values(), new, strict=True):
            tail = pattern.sub(lambda m, v=value: f'{m[1]}"{v}"', tail, count=1)
        text = head + tail
    return text


def _pyproject(root: Path) -> str:
    path = root / "pyproject.toml"
    if not path.exists():
        raise ValueError(f"{root} holds no pyproject.toml; allowed: the root of a checkout of the lab")
    text = path.read_text(encoding="utf-8")
    if "[tool.labkit]" not in text:
        raise ValueError(f"{path} has no [tool.labkit]; allowed: the root of a checkout of the lab")
    return text[text.index("[tool.labkit]") :]


def _setting(text: str, key: str) -> str:
    # tomllib is missing on Python 3.10, and two quoted strings are no reason for a dependency.
    found = _SETTING[key].search(text)
    if not found:
        raise ValueError(f"[tool.labkit] in pyproject.toml has no {key}")
    return found[2]
