"""Choose the long steps that CI runs for this commit; `.ci/run` runs what this prints. Standard library only.

    python3 .ci/choose.py

A line for each step: what `make` is called with, a tab, and why. CI has half an hour. So laws that take long run in
eighths, the eighth by the number of commits: a run can be repeated, and the next change sees another one. Of the other
steps one has its turn: of those whose base has changed since the last tag or in the last forty commits, whichever is
later, or else of all. Before a release all of them run: `make test-all`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EIGHTHS, QUARTERS, COMMITS = 8, 4, 40

_PINS = ("constraints.txt", "pyproject.toml")

#: What a step rests on: files, and folders with all that is in them. They have their turn in this order.
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
    yield f"test-long PART={commits % EIGHTHS}/{EIGHTHS}", f"an eighth of what is long, at {commits} commits"
    touched = {}
    for step, paths in RESTS_ON.items():
        if mine := [name for name in changed or () if any(name == p or name.startswith(f"{p}/") for p in paths)]:
            touched[step] = f"changed: {mine[0]}" + f" and {len(mine) - 1} more" * (len(mine) > 1)
    turns = touched or dict.fromkeys(RESTS_ON, "nothing has changed that a step rests on")
    rounds, turn = divmod(commits, len(turns))
    step, why = list(turns.items())[turn]
    yield step + f" PART={rounds % QUARTERS}/{QUARTERS}" * (step in IN_PARTS), f"its turn; {why}"


def main() -> None:
    """Print the steps; without a history, those that have their turn, and say so."""
    commits, changed = git("rev-list", "--count", "HEAD"), changed_files()
    for step, why in chosen(int(commits or 0), changed):
        print(f"{step}\t{why}" + (" (too little history here to see what has changed)" if changed is None else ""))


if __name__ == "__main__":
    main()
