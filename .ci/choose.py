"""Choose the long steps that CI runs for this commit; `.ci/run` runs what this prints. Standard library only.

    python3 .ci/choose.py

A line for each step: what `make` is called with, a tab, and why. Laws that take long run in quarters, the quarter by
the number of commits, so that a run can be repeated and the next change sees another one. Every other step has its turn
once in four commits, and runs as well where what it rests on has changed since the last tag or in the last forty
commits, whichever is later. Before a release all of them run: `make test-all`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUARTERS, COMMITS = 4, 40

_PINS = ("constraints.txt", "pyproject.toml")

#: What a step rests on: files, and folders with all that is in them. Its place in this table is its turn.
RESTS_ON = {
    "test-colab": ("notebooks", "pyproject.toml", "tests/notebooks", "tests/support/colab-pins.txt",
                   "tests/support/colab_stand_in"),
    "test-xprof": ("labextras/fit", "labkit/recording", "labkit/timeline", "tests/labextras/fit", *_PINS),
    "test-loaders": ("labextras/loaders", "labkit/common", "labkit/recording", "labkit/timeline",
                     "tests/labextras/loaders", *_PINS),
    "test-kernels": ("kernels", "labextras/offload", "tests/oclgrind.py"),
}  # fmt: skip

#: Steps of which a run takes a quarter.
IN_PARTS = ("test-colab", "test-loaders")


def git(*words: str, root: Path = ROOT) -> str | None:
    """Return what git prints, or None where it cannot answer."""
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def changed_files(root: Path = ROOT) -> list[str] | None:
    """Return what differs from the last tag, or from forty commits ago if that is later; None if neither is here.

    A shallow clone, and a project with fewer commits, may have neither.
    """
    tag = git("describe", "--tags", "--abbrev=0", root=root)
    since = git("rev-list", "--count", f"{tag}..HEAD", root=root) if tag else None
    base = tag if since is not None and int(since) <= COMMITS else f"HEAD~{COMMITS}"
    found = git("diff", "--name-only", base, "--", root=root)
    return None if found is None else found.splitlines()


def chosen(commits: int, changed: list[str] | None) -> Iterator[tuple[str, str]]:
    """Yield what `make` is called with, and why, for the commit that is the `commits`-th."""
    quarter = commits % QUARTERS
    yield f"test-long PART={quarter}/{QUARTERS}", f"a quarter of what is long, at {commits} commits"
    for turn, (step, paths) in enumerate(RESTS_ON.items()):
        touched = [name for name in changed or () if any(name == p or name.startswith(f"{p}/") for p in paths)]
        # One notebook in four beside Colab's packages, and of the pool of loaders one pipeline in four; moved on by one
        # in each round, else a turn would see the same.
        part = f" PART={(commits + commits // QUARTERS) % QUARTERS}/{QUARTERS}" if step in IN_PARTS else ""
        if touched:
            more = f" and {len(touched) - 1} more" if len(touched) > 1 else ""
            yield step + part, f"changed: {touched[0]}{more}"
        elif quarter == turn:
            yield step + part, "its turn, once in four commits"


def main() -> None:
    """Print the steps; without a history, those that have their turn, and say so."""
    commits, changed = git("rev-list", "--count", "HEAD"), changed_files()
    for step, why in chosen(int(commits or 0), changed):
        print(f"{step}\t{why}" + (" (too little history here to see what has changed)" if changed is None else ""))


if __name__ == "__main__":
    main()
