"""What a learning platform hands out becomes a folder of submissions, and ``names.csv``.

The files of each call lie in a folder with its number, ``<student>/<set>/download-1/<file>``: what came with a later
call is graded instead of what is there.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from assignments.grader.names import NAMES, Student, names, write_names
from assignments.grader.pages import one_line
from assignments.grader.precheck import MOST_BYTES
from labkit.common.files import write_aside

#: Of a download: files, and bytes of all of them when they are unpacked.
MOST_FILES, MOST_UNPACKED = 20_000, 8 << 30
#: What a student or a file is called whose name has no plain letter.
_NAMELESS = "unnamed"
#: Files of one student in a download that have the same name.
_MOST_ALIKE = 20
#: What systems and editors put beside a file.
_BESIDE = ("__MACOSX", ".ipynb_checkpoints", ".DS_Store", "._")
_NUMBERED = re.compile(r"download-(\d{1,9})")

#: How platforms name a student's folder, or her file where there are no folders.
_PLATFORMS = {
    # mod/assign/locallib.php of Moodle, download_submissions(): name, identifier, "assignsubmission_file",
    # or "assignsubmission_onlinetext" for what was typed there.
    "moodle": r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)",
    # "Download submissions" of Canvas: name, LATE, numbers of the user, of a question of a quiz, and of the submission.
    "canvas": r"(?P<name>[^_]+)_(?:LATE_)?(?P<id>\d+)_(?:question_\d+_)?\d+_(?P<file>.+)",
}
_Report = Callable[[str], None]


class _File(NamedTuple):
    """A file of a download: its path there, its bytes, whether it is one and no link, and what reads it."""

    path: str
    size: int
    is_file: bool
    read: Callable[[], bytes]


def collect(
    download: Path, folder: Path, sets: Iterable[str], given: str = "", report: _Report = lambda _: None
) -> list[Student]:
    """Put a download in order: ``<student>/<set>/download-1/<file>``, and ``names.csv``.

    Parameters
    ----------
    download : Path
        A zip, or a folder: of Moodle or Canvas, also in one more folder, or one in which students' names are plain.
    folder : Path
        It may hold submissions already. Where both are of a set, that which came with the later call counts.
    sets : iterable of str
        Names of the problem sets.
    given : str
        The set that was handed in: that of files whose names tell none. A file that names another set is left out.
    report : callable
        Called with a sentence about each file that is left out.

    Raises
    ------
    ValueError
        If `download` is neither, is too large, or holds no student's file, or `given` is no set.
    """
    sets = sorted(sets, key=len, reverse=True)
    if given and given not in sets:
        raise ValueError(f"the set is {given!r}; allowed: {', '.join(sorted(sets))}")
    known = {student.student: student for student in names(folder)}
    before, written = len(known), 0
    number = 1 + max(map(number_of, folder.glob("*/**/download-*/*")), default=0)
    with _opened(download) as files:
        theirs = list(_whose(files, sets, given, report))
        # A file that tells no set is of the one that another file of its student tells.
        told = {author: name for _, author, _, name in reversed(theirs) if name}
        ids = defaultdict(set)
        for _, author, _, _ in theirs:
            ids[author.name].add(author.id)
        for file, author, path, name in theirs:
            try:
                data = file.read()
            except _DAMAGED as error:
                _leave_out(report, file, f"cannot be unpacked ({one_line(str(error), 100)})")
                continue
            student = _own(author, known, sets, name or told.get(author, ""), alone=len(ids[author.name]) == 1)
            place = folder / student.student / name / f"download-{number}" / path
            if not place.parent.resolve().is_relative_to(folder.resolve()):  # other programs unpack links, too
                links = f"{student.student} is a link" + (f", or {name} in it" if name else "")
                _leave_out(report, file, f"would be written to another folder: {links}")
            elif (place := _free(place)) is None:
                _leave_out(report, file, f"is one of more than {_MOST_ALIKE} files of that name")
            else:
                write_aside(place, data)
                known[student.student] = student
                written += 1
    if not written:
        raise ValueError(f"{download} holds no file of a student")
    write_names(folder, known.values())
    report(f"{written} files, {len(known) - before} new students: {folder}")
    return list(known.values())


def number_of(path: PurePath) -> int:
    """Return the number of the call of `collect` that brought a file; 0 if none did."""
    match = _NUMBERED.fullmatch(path.parent.name)
    return int(match[1]) if match else 0


def _leave_out(report: _Report, file: _File, reason: str) -> None:
    report(f"left out: {one_line(file.path, 300)} {reason}")


#: Errors of zipfile at an entry that is encrypted, packed in an unknown way, or broken.
_DAMAGED = (RuntimeError, zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError)


@contextlib.contextmanager
def _opened(download: Path) -> Iterator[list[_File]]:
    """Open a download; return what is in it. Nothing is written."""
    if download.is_dir():
        found = (Path(place, name) for place, _, inside in os.walk(download) for name in sorted(inside))
        yield [
            _File(str(p.relative_to(download)), p.lstat().st_size, stat.S_ISREG(p.lstat().st_mode), p.read_bytes)
            for p in found
        ]
        return
    if not zipfile.is_zipfile(download):
        raise ValueError(f"{download} is neither a folder nor a zip")
    try:
        archive = zipfile.ZipFile(download)
    except _DAMAGED as error:
        raise ValueError(f"{download} is a damaged zip ({one_line(str(error), 100)})") from None
    with archive:
        size = sum(entry.file_size for entry in archive.infolist())
        if len(archive.infolist()) > MOST_FILES or size > MOST_UNPACKED:
            raise ValueError(
                f"{download} holds {len(archive.infolist()):,} files of {size / 1e9:.1f} GB; allowed: {MOST_FILES:,} "
                f"files of {MOST_UNPACKED / 1e9:.1f} GB"
            )
        paths = {entry: entry.filename.replace("\\", "/") for entry in archive.infolist()}
        folders = {path.rpartition("/")[0] for path in paths.values()}  # some programs write one as an empty file
        yield [
            _File(path, entry.file_size, stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG),
                  lambda entry=entry: _unpacked(archive, entry))
            for entry, path in paths.items() if not path.endswith("/") and (entry.file_size or path not in folders)
        ]  # fmt: skip


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return what an entry holds, and unpack no more of it than it says."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others are unpacked at one go
        raise ValueError("it is packed as no platform packs")
    with archive.open(entry) as file:
        return file.read(entry.file_size + 1)


def _whose(
    files: list[_File], sets: list[str], given: str, report: _Report
) -> Iterator[tuple[_File, Student, str, str]]:
    """Yield each file that can be taken: it, its student, its name in plain letters, its set."""
    files = [file for file in files if not any(part.startswith(_BESIDE) for part in file.path.split("/"))]
    paths = [PurePosixPath(_seen(file.path)).parts for file in files]
    wrapper = _wrapper(paths)
    for file, parts in zip(files, paths, strict=True):
        author, rest, name = _author(parts[wrapper:] or parts, sets) if parts else (None, ("",), "")
        name = given if given and any(given in part for part in rest) else name or given
        raw = file.path.split("/")
        refused = [
            (file.path.startswith("/") or ".." in raw or ":" in raw[0][1:2] or "\0" in file.path, "leads out of it"),
            (not file.is_file, "is a link or no file"),
            (file.size > MOST_BYTES, f"has {file.size / 1e6:.0f} MB"),
            (author is None, "tells no student"),
            (given and name != given, f"is of {name}, and {given} was handed in"),
        ]
        if reason := next((reason for holds, reason in refused if holds), ""):
            _leave_out(report, file, reason)
        else:
            yield file, author, _file_name(rest[-1]), name


def _seen(path: str) -> str:
    """Return a path in the one form that all keyboards give, without what cannot be seen."""
    visible = (c if c.isprintable() else " " * (unicodedata.category(c) != "Cf") for c in path)
    return "/".join(part.strip() for part in unicodedata.normalize("NFC", "".join(visible)).split("/"))


def _platform(part: str) -> tuple[str, re.Match[str]] | None:
    matches = ((name, re.fullmatch(pattern, part, re.DOTALL)) for name, pattern in _PLATFORMS.items())
    return next(((name, match) for name, match in matches if match), None)


def _wrapper(paths: list[tuple[str, ...]]) -> int:
    """Return 1 if what most files lie in is a platform's, in one more folder, else 0."""
    tops = {parts[0] for parts in paths if len(parts) > 1}
    # Files beside the folders of students belong to no student: a list of grades, or files of the operating system.
    inside = [parts[1] for parts in paths if len(parts) > 2 or (len(parts) == 2 and parts[1].endswith(".ipynb"))]
    return int(len(tops) == 1 and not _platform(*tops) and 2 * len(list(filter(_platform, inside))) > len(inside))


def _author(parts: tuple[str, ...], sets: list[str]) -> tuple[Student | None, tuple[str, ...], str]:
    """Return whose file it is, what is left of its path, and the set if its path tells it."""
    if found := _platform(parts[0]):
        platform, match = found
        rest = (*parts[1:], *filter(None, [match["file"]]))[-8:] or parts
        return Student("", match["name"], match["id"], platform), rest, _set_in(rest, sets)
    name, of, rest = whose(parts, sets)
    return (None if len(parts) == 1 and not of else Student("", name, name, "")), rest, of


def _set_in(parts: Iterable[str], sets: Iterable[str]) -> str:
    return next((name for part in parts for name in sets if name in part), "")


def whose(parts: tuple[str, ...], sets: list[str]) -> tuple[str, str, tuple[str, ...]]:
    """Return the student and the set of a file by its path, and what is left of the path.

    Parameters
    ----------
    parts : tuple of str
        ``<student>/<set>/<anything>``, ``<set>/<student>/<anything>``, or ``<student>_<set>.ipynb``. A path that tells
        no set has the set ``""``.
    sets : list of str
        The longest first.
    """
    around, parts = (parts[0], parts[1:]) if len(parts) > 1 and parts[0] in sets else ("", parts)
    if len(parts) > 1:
        return parts[0], around or _set_in(parts[1:], sets), parts[1:]
    student, name = flat(parts[0], sets)
    return student, around or name, parts


def flat(name: str, sets: Iterable[str]) -> tuple[str, str]:
    """Return student and set of a file's name, the longest of the sets first; without a set all of it is the student's.

    Browsers add a number to a second copy, Google "Copy of" and a hyphen.
    """
    for known in sets:
        number = "" if known[-1].isdigit() else r"\d*"
        pattern = rf"(?:Copy of )*(.+?)(?:_| - )(?:Copy of )*{re.escape(known)}{number}(?![^\W_]).*"
        if match := re.fullmatch(pattern, name, re.DOTALL):
            return match[1], known
    return Path(name).stem, ""


def _own(author: Student, known: dict[str, Student], sets: Iterable[str], set_name: str, alone: bool) -> Student:
    """Give a student the name of a folder: as before, or her own in plain letters, with a number if another has it.

    Where capitals do not count, two folders must not be one; what else has a name here is nobody's. Moodle has another
    id for her in each set, so there her name must say who she is: it does where she is `alone` in having it.
    """
    same = [s for s in known.values() if (s.name, s.platform) == (author.name, author.platform)]
    mine = [s for s in same if s.id == author.id]
    if author.platform == "moodle":
        pair = f"{set_name}={author.id}"
        author = replace(author, numbers=pair if set_name else "")
        mine = [replace(s, numbers=s.numbers or author.numbers) for s in mine]
        mine = [s for s in same if pair in s.numbers.split()] or mine
        if not mine and set_name and alone and len(same) == 1 and same[0].numbers and not same[0].number_of(set_name):
            mine = [replace(same[0], numbers=f"{same[0].numbers} {pair}")]
    if mine:
        return mine[0]
    taken = {name.casefold() for name in (*known, *sets, NAMES)}
    name, number = _plain(author.name), 2
    if name == _NAMELESS and author.id:  # no letter of it is plain: the platform's number tells students apart
        name = f"student-{_plain(author.id)}"
    short = name[:50]
    while name.casefold() in taken:
        name, number = f"{short}-{number}", number + 1
    return replace(author, student=name)


def _plain(text: str) -> str:
    """Return a text in the letters that the name of a student or a file may have."""
    bare = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    stem, dot, ending = re.sub(r"[^A-Za-z0-9._@-]+", "-", bare).strip("-.@").rpartition(".")
    return f"{stem[:56] or _NAMELESS}{dot}{ending}"[:64] if dot else (ending[:60] or _NAMELESS)


def _file_name(text: str) -> str:
    """Return the name of a file in plain letters; it keeps its ending where it has no other."""
    stem, dot, ending = text.rpartition(".")
    return f"{_NAMELESS}.{_plain(ending)}" if dot and _plain(stem) == _NAMELESS else _plain(text)


def _free(path: Path) -> Path | None:
    """Return a path, with a number if there is such a file; None if there are too many."""
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(2, _MOST_ALIKE + 1))
    return next((place for place in (path, *numbered) if not place.exists()), None)
