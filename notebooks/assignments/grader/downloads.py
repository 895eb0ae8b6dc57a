"""What a learning platform hands out becomes a folder of submissions; a table of grades becomes what it takes back.

``names.csv`` beside the submissions keeps what the platform calls a student, which a folder's name cannot hold.
``earlier.txt`` lists the notebooks that later downloads replaced, with a blank line between downloads: they stay, and a
newer one of the set is graded.
"""

from __future__ import annotations

import csv
import html
import io
import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, asdict, dataclass, fields, replace
from datetime import datetime, timezone
from pathlib import Path, PurePath, PurePosixPath

from assignments.grader.authoring import POINTS
from assignments.grader.pages import as_cell, of_cell, one_line
from assignments.grader.precheck import MOST_BYTES
from labkit.common.files import utf8_text, write_aside

#: Of a download: files, and bytes of all of them when they are unpacked.
MOST_FILES, MOST_UNPACKED = 20_000, 8 << 30
#: Files of one student that have the same name and another content.
_MOST_ALIKE = 20
#: What systems and editors put beside a file.
_BESIDE = ("__MACOSX", ".ipynb_checkpoints", ".DS_Store", "._")
NAMES, EARLIER = "names.csv", "earlier.txt"

#: How platforms name a student's folder, or her file where there are no folders.
_PLATFORMS = {
    # mod/assign/locallib.php of Moodle, download_submissions(): name, identifier, "assignsubmission_file",
    # or "assignsubmission_onlinetext" for what was typed there.
    "moodle": r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)",
    # Download of Brightspace: numbers of the user and the folder, name, date. Grades go by another number.
    "d2l": r"(?P<number>\d+)-\d+ - (?P<name>.+?) - (?P<date>\w+\.? \d+, \d{4} [\d:.]+ ?[AP]M)(?: - (?P<file>.+))?",
    # "Assignment File Download" of Blackboard's grade center: title, user name, date of the attempt.
    "blackboard": r"(?P<name>(?P<id>.+))_attempt_(?P<date>\d{4}(?:-\d\d){5})(?:_(?P<file>.+)|\.txt)",
    # "Download submissions" of Canvas: name, LATE, numbers of the user, of a question of a quiz, and of the submission.
    "canvas": r"(?P<name>[^_]+)_(?:LATE_)?(?P<id>\d+)_(?:question_\d+_)?\d+_(?P<file>.+)",
}


@dataclass(frozen=True)
class Student:
    """A student who handed in: the name of the folder, the name and the id on the platform, and the platform.

    ``numbers`` are the numbers of Moodle, which has a number for each set, as ``ps1_find_the_stall=12
    ps3_plan_a_cluster=34``, or the number of the user on D2L.
    """

    student: str
    name: str
    id: str
    platform: str
    numbers: str = ""

    def number_of(self, set_name: str) -> str:
        """Return the number by which the platform knows the student in a set; empty if it has none there."""
        return dict(pair.split("=", 1) for pair in self.numbers.split() if "=" in pair).get(set_name, "")


def collect(
    download: Path,
    folder: Path,
    sets: Iterable[str],
    given: str = "",
    report: Callable[[str], None] = lambda _: None,
) -> list[Student]:
    """Put a download in order: ``<student>/<set>/<file>``, and ``names.csv``.

    Parameters
    ----------
    download : Path
        A zip, or a folder.
    folder : Path
        It may hold submissions already; a file of the same name with another content stays, too. Where both are of a
        set, that which came with the later call counts (see `earlier`).
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
    before = set(known)
    found = 0

    def leave_out(path: str, reason: str) -> None:
        report(f"left out: {one_line(path, 300)} {reason}")

    paths = [PurePosixPath(path) for path, _ in _files(download, lambda *_: None)]
    wrapper = _wrapper(paths, sets)
    title = _title(paths, wrapper, {student.id for student in known.values() if student.platform == "blackboard"})
    if title:
        report(f"user names of Blackboard are what follows {one_line(title)!r}; if not, correct the ids in {NAMES}")

    def facts_of(path: PurePosixPath) -> tuple[Student | None, tuple[str, ...], str, str]:
        """Return the student of a file, the rest of its path, its set, and the date of its attempt."""
        author, parts, name = _author(path.parts[wrapper:] or path.parts, sets, title)
        if given and any(given in part for part in parts):
            name = given
        name = name or next((s for part in parts for s in sets if s in part), given)
        dated = path.parts if author and author.platform in ("blackboard", "d2l") else ()
        return author, parts, name, next(filter(None, map(_attempt, dated)), "")

    brought: dict[Path, tuple[str, str]] = {}
    newest: dict[tuple[Student | None, str], str] = {}
    handed_in: dict[Student | None, str] = {}  # the set of files that tell none, where others of the student do
    namesakes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in paths:
        if not _tells_of_an_attempt(path, wrapper):
            author, _, name, date = facts_of(path)
            newest[author, name] = max(date, newest.get((author, name), ""))
            if name:
                handed_in.setdefault(author, name)
            if author:
                namesakes[author.name, name].add(author.id)
    for path, read in _files(download, leave_out):
        if _tells_of_an_attempt(PurePosixPath(path), wrapper):
            continue
        author, parts, name, date = facts_of(PurePosixPath(path))
        if author is None:
            leave_out(path, "tells no student")
            continue
        if given and name != given:
            leave_out(path, f"is of {name}, and {given} was handed in")
            continue
        if date and date < newest[author, name]:
            leave_out(path, "is an earlier attempt")
            continue
        try:
            data = read()
        except _DAMAGED as error:
            leave_out(path, f"cannot be unpacked ({one_line(str(error), 100)})")
            continue
        any_set = name or handed_in.get(author, "")
        author = _own(author, known, sets, any_set, alone=len(namesakes[author.name, any_set]) == 1)
        place = folder / author.student / name / _file_name(parts[-1])
        if not place.parent.resolve().is_relative_to(folder.resolve()):  # other programs unpack links, too
            links = f"{author.student} is a link" + (f", or {name} in it" if name else "")
            leave_out(path, f"would be written to another folder: {links}")
            continue
        place = _write(place, data)
        if place is None:
            leave_out(path, f"is one of more than {_MOST_ALIKE} files of that name")
            continue
        brought[place] = author.student, name
        known[author.student] = author
        found += 1
    if not found:
        raise ValueError(f"{download} holds no file of a student")
    write_aside(folder / NAMES, _csv([f.name for f in fields(Student)], (asdict(s).values() for s in known.values())))
    _replace(folder, set(brought), report)
    counts = Counter(name for _, name in brought.values())
    for place, (student, name) in sorted(brought.items()):
        if name and 2 * counts[name] < max(counts.values()) and student in before:
            report(f"of another set than most: {place.relative_to(folder)}")
    report(f"{found} files, {len(known) - len(before)} new students: {folder}")
    return list(known.values())


def earlier(folder: Path) -> list[set[str]]:
    """Return the notebooks, as ``ada/ps1_find_the_stall/x.ipynb``, that each later download replaced, oldest first."""
    path = folder / EARLIER
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [set(replaced.splitlines()) for replaced in text.split("\n\n")]


def _replace(folder: Path, brought: set[Path], report: Callable[[str], None]) -> None:
    """Note which notebooks are older than those that a download brought."""
    notebooks = {path for path in brought if _is_notebook(path)}
    # Beside a new one, or where one of the two names told no set: such a file may be of the same set.
    places = {place for new in notebooks for place in (new.parent, folder / new.relative_to(folder).parts[0])}
    unclear = {new.parent for new in notebooks if new.parent.parent == folder}
    places |= {place for student in unclear for place in student.iterdir() if place.is_dir()}
    beside = {path for place in places for path in place.iterdir() if path.is_file() and _is_notebook(path)}
    known = earlier(folder)
    older = {path.relative_to(folder).as_posix() for path in beside - notebooks}.difference(*known)
    for path in sorted(older):
        report(f"older, and graded only where nothing newer is of its set: {path}")
    newest = {path.relative_to(folder).as_posix() for path in notebooks}
    still = [replaced - newest for replaced in known]
    if older or still != known:
        parts = ("".join(f"{path}\n" for path in sorted(part)) for part in (*still, older) if part)
        write_aside(folder / EARLIER, "\n".join(parts))


def _is_notebook(path: PurePath) -> bool:
    return path.suffix.lower() == ".ipynb"


def names(folder: Path) -> list[Student]:
    """Return the students of a folder's ``names.csv``; none if there is no such file.

    Raises
    ------
    ValueError
        If it has no header, or is not UTF-8, as a spreadsheet may save it.
    """
    path = folder / NAMES
    if not path.exists():
        return []
    text = io.StringIO(utf8_text(path), newline=None).getvalue()  # a Mac's spreadsheet ends lines in its own way
    # Where a comma stands in numbers, a spreadsheet saves semicolons.
    head = text.partition("\n")[0]
    rows = csv.DictReader(io.StringIO(text), delimiter=next((c for c in ";\t" if c in head), ","))
    needed = [f.name for f in fields(Student) if f.default is MISSING]
    if not {*needed} <= {*(rows.fieldnames or ())}:
        raise ValueError(f"the first line of {path} is {one_line(head, 100)!r}; allowed: {','.join(needed)}")
    found = (Student(*(of_cell(row.get(f.name) or "") for f in fields(Student))) for row in rows)
    return [student for student in found if student.student]


#: Errors of zipfile at an entry that is encrypted, packed in an unknown way, or broken.
_DAMAGED = (RuntimeError, zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError)


def _files(download: Path, leave_out: Callable[[str, str], None]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the path of each file in a download, and what reads it; nothing is written."""
    if download.is_dir():
        for place, _, inside in os.walk(download):
            for path in (Path(place, name) for name in sorted(inside)):
                name = str(path.relative_to(download))
                if _is_beside(name):
                    continue
                if not path.is_symlink() and path.is_file() and path.stat().st_size <= MOST_BYTES:
                    yield _seen(name), path.read_bytes
                else:
                    leave_out(name, "is a link, no file, or too large")
        return
    if not zipfile.is_zipfile(download):
        raise ValueError(f"{download} is neither a folder nor a zip")
    try:
        archive = zipfile.ZipFile(download)
    except _DAMAGED as error:
        raise ValueError(f"{download} is a damaged zip ({one_line(str(error), 100)})") from None
    with archive:
        paths = {entry: entry.filename.replace("\\", "/") for entry in archive.infolist()}
        folders = {path.rpartition("/")[0] for path in paths.values()}
        # Some programs write a folder as a file without bytes.
        entries = [e for e, path in paths.items() if path and path[-1] != "/" and (e.file_size or path not in folders)]
        size = sum(entry.file_size for entry in entries)
        if len(entries) > MOST_FILES or size > MOST_UNPACKED:
            raise ValueError(
                f"{download} holds {len(entries):,} files of {size / 1e9:.1f} GB; allowed: {MOST_FILES:,} files of "
                f"{MOST_UNPACKED / 1e9:.1f} GB"
            )
        for entry in entries:
            path = paths[entry]
            parts = path.split("/")
            if path.startswith("/") or ".." in parts or ":" in parts[0][1:2] or "\0" in path:
                leave_out(path, "leads out of the zip")
            elif stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
                leave_out(path, "is a link or no file")
            elif entry.file_size > MOST_BYTES:
                leave_out(path, f"has {entry.file_size / 1e6:.0f} MB")
            elif not PurePosixPath(_seen(path)).parts:
                leave_out(path, "has no name")
            elif not _is_beside(path):
                yield _seen(path), lambda entry=entry: _unpacked(archive, entry)


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return what an entry holds, and unpack no more of it than it says."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others are unpacked at one go
        raise ValueError("it is packed as no platform packs")
    with archive.open(entry) as file:
        return file.read(entry.file_size + 1)


def _is_beside(path: str) -> bool:
    return any(part.startswith(_BESIDE) for part in path.split("/"))


def _seen(path: str) -> str:
    """Return a path in the one form that all keyboards give, without what cannot be seen."""
    visible = (c if c.isprintable() else " " * (unicodedata.category(c) != "Cf") for c in path)
    return "/".join(part.strip() for part in unicodedata.normalize("NFC", "".join(visible)).split("/"))


def _match(part: str) -> tuple[str, re.Match[str]] | None:
    matches = ((name, re.fullmatch(pattern, part, re.DOTALL)) for name, pattern in _PLATFORMS.items())
    return next(((name, match) for name, match in matches if match), None)


def _attempt(part: str) -> str:
    """Return the date of an attempt, which sorts; empty where the platform tells none."""
    found = _match(part)
    date = found[1].groupdict().get("date") if found else None
    parts = re.fullmatch(r"(\w{3})\w*\.? (\d+, \d{4}) ([\d:.]+) ?([AP]M)", date or "")
    if not parts:
        return date or ""
    try:  # "1000 AM" of D2L
        clock = re.sub(r"\D", "", parts[3]).zfill(4)
        return str(datetime.strptime(f"{parts[1]} {parts[2]} {clock} {parts[4]}", "%b %d, %Y %I%M %p"))
    except ValueError:
        return ""


def _wrapper(paths: list[PurePosixPath], sets: list[str]) -> int:
    """Return 1 if what most files lie in is a platform's, in one more folder, else 0."""
    paths = [path for path in paths if len(path.parts) > 1 or _is_notebook(path) or _match(path.name)]
    tops = {path.parts[0] for path in paths}
    if len(tops) != 1 or _match(*tops):
        return 0
    # Files beside the folders of students belong to no student: a list of grades, or files of the operating system.
    inside = [path for path in paths if len(path.parts) > 2 or _is_notebook(path) or _match(path.name)]
    theirs = [path.parts[1] for path in inside if len(path.parts) > 1 and _match(path.parts[1])]
    copies = (_author(path.parts[1:], sets, "")[0] for path in inside if len(path.parts) == 2)
    of_classroom = [author.name for author in copies if author and author.platform == "classroom"]
    if len(set(of_classroom)) > 1:  # one name alone may be how a student calls her own files
        theirs += of_classroom
    return int(2 * len(theirs) > len(inside))


def _tells_of_an_attempt(path: PurePosixPath, wrapper: int) -> bool:
    """Tell if a file holds what Blackboard says of an attempt."""
    return len(path.parts) == wrapper + 1 and bool(re.fullmatch(r".+_attempt_[\d-]+\.txt", path.name))


def _title(paths: list[PurePosixPath], wrapper: int, ids: set[str]) -> str:
    """Return what Blackboard puts before every user name: a title that may have a "_" in it, as user names may.

    It is the longest that leaves as many of the known ids as can be.
    """
    found = [_match(path.parts[wrapper]) for path in paths if len(path.parts) > wrapper]
    heads = {match["id"] for name, match in filter(None, found) if name == "blackboard"}
    first, last = min(heads, default=""), max(heads, default="")
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    titles = [first[: i + 1] for i, letter in enumerate(first[:same]) if letter == "_"]
    return max(titles, key=lambda t: (len(ids & {head.removeprefix(t) for head in heads}), len(t)), default="")


def _author(parts: tuple[str, ...], sets: list[str], title: str) -> tuple[Student | None, tuple[str, ...], str]:
    """Return whose file it is, what is left of its path, and the set if a folder around students names it."""
    found = _match(parts[0])
    if found:
        platform, match = found
        data = match.groupdict()
        name, number = (data[key].removeprefix(title) if data.get(key) else "" for key in ("name", "id"))
        rest = (*parts[1:], *filter(None, [data["file"]]))[-8:] or parts
        return Student("", name, number, platform, data.get("number") or ""), rest, ""
    if parts[0] in sets and len(parts) > 1:
        author, rest, _ = _author(parts[1:], sets, title)
        return author, rest, parts[0]
    if len(parts) > 1:
        return Student("", parts[0], parts[0], ""), parts[1:], ""
    file = re.sub("^(Copy of )+", "", parts[0])
    for known in sets:
        # "Ada Lovelace - set" is what Google Classroom makes of a copy for each student.
        match = re.fullmatch(rf"(.+?)(_| - )(?:Copy of )*{re.escape(known)}(?![^\W_]).*", file, re.DOTALL)
        if match:
            platform = "classroom" if match[2] == " - " else ""
            return Student("", match[1], match[1], platform), (file,), known
    return None, parts, ""


def _own(author: Student, known: dict[str, Student], sets: Iterable[str], set_name: str, *, alone: bool) -> Student:
    """Give a student the name of a folder: as before, or her own in plain letters, with her id if another has it.

    Where capitals do not count, two folders must not be one; what else has a name here is nobody's. Moodle has another
    id for her in each set, so there her name must say who she is: it does where she is `alone` in having it.
    """
    same = [s for s in known.values() if (s.name, s.platform) == (author.name, author.platform)]
    if author.platform == "blackboard":  # its user name may have been corrected in the list
        same = [s for s in known.values() if (s.id, s.platform) == (author.id, author.platform)]
    elif author.platform == "d2l":
        mine = [s for s in same if s.numbers == author.numbers]
        same = mine or [replace(s, numbers=author.numbers) for s in same if not s.numbers]
    elif author.platform == "moodle":
        pair = f"{set_name}={author.id}"
        author = replace(author, numbers=pair if set_name else "")
        mine = [s for s in same if pair in s.numbers.split()]
        mine = mine or [replace(s, numbers=s.numbers or author.numbers) for s in same if author.id == s.id]
        if not mine and set_name and alone and len(same) == 1 and same[0].numbers and not same[0].number_of(set_name):
            mine = [replace(same[0], numbers=f"{same[0].numbers} {pair}")]
        same = mine
    else:
        same = [s for s in same if s.id == author.id]
    if same:
        return same[0]
    taken = {name.casefold() for name in (*known, *sets, NAMES, EARLIER)}
    name = _plain(author.name)
    if name.casefold() in taken:
        name = _plain(f"{author.name}-{author.id or len(known)}")
    short, number = name[:50], 2
    while name.casefold() in taken:
        name, number = f"{short}-{number}", number + 1
    return replace(author, student=name)


def _plain(text: str) -> str:
    """Return a text in the letters that the name of a student or a file may have."""
    bare = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    stem, dot, ending = re.sub(r"[^A-Za-z0-9._@-]+", "-", bare).strip("-.@").rpartition(".")
    return f"{stem[:56] or 'unnamed'}{dot}{ending}"[:64] if dot else (ending[:60] or "unnamed")


def _file_name(text: str) -> str:
    """Return the name of a file in plain letters; it keeps its ending where it has no other."""
    stem, dot, ending = text.rpartition(".")
    return f"unnamed.{_plain(ending)}" if dot and _plain(stem) == "unnamed" else _plain(text)


def _write(path: Path, data: bytes) -> Path | None:
    """Write a file; where another content has that name, under a name with a number. Return where, if one was left."""
    for number in range(1, _MOST_ALIKE + 1):
        place = path.with_name(f"{path.stem}-{number}{path.suffix}") if number > 1 else path
        if not place.exists():
            write_aside(place, data)
            return place
        if place.stat().st_size == len(data) and place.read_bytes() == data:
            return place
    return None


def _csv(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([head, *(map(as_cell, row) for row in rows)])
    return out.getvalue()


def export(grades: Path, platform: str, set_name: str, students: list[Student]) -> tuple[str, list[str]]:
    """Return the grades of a set as CSV that a platform imports, and sentences about who is not in it or not known.

    Parameters
    ----------
    grades : Path
        The table of `assignments.grader.batch.table`.
    platform : str
        ``moodle``, ``canvas``, ``blackboard`` or ``d2l``.
    set_name : str
    students : list of Student
        See `names`; a student who is not there is taken to have the folder's name as id.

    Raises
    ------
    ValueError
        If there is no such platform, or the table holds no grade of the set.
    """
    if platform not in _IMPORTS:
        more = ": Google Classroom takes no file of grades" * (platform == "classroom")
        raise ValueError(f"the platform is {platform!r}{more}; allowed: {', '.join(_IMPORTS)}")
    known = {student.student: student for student in students}
    rows, left_out = [], []
    for row in csv.DictReader(io.StringIO(grades.read_text(encoding="utf-8"))):
        if row["set"] != set_name:
            continue
        author = known.get(row["student"], Student(row["student"], row["student"], row["student"], ""))
        if row["status"] == "error":
            left_out.append(f"{author.student} is left out: {row['sentence']}")
        elif not author.id:
            left_out.append(f"{author.student} is left out: no id in {NAMES}; write the user name there")
        else:
            rows.append((author, row))
    unknown = [author.student for author, _ in rows if author.student not in known]
    if unknown:
        left_out.append(f"not in {NAMES}, so the name of the folder is taken for the id: {', '.join(unknown)}")
    if not rows and not left_out:
        raise ValueError(f"{grades} holds no grade of {set_name!r}")
    return _IMPORTS[platform](set_name, rows), left_out


_Graded = list[tuple[Student, dict[str, str]]]


def _moodle(set_name: str, rows: _Graded) -> str:
    # mod/assign/feedback/offline/importgradeslib.php: the three columns that are asked for, and feedback by its name.
    # A time without its zone is read in that of the site, and a grade that is newer than the time stays as it is.
    # Feedback is HTML there (mod/assign/feedback/comments/locallib.php), and a sentence quotes words of students.
    head = ["Identifier", "Full name", "Grade", "Last modified (grade)", "Feedback comments"]
    now = datetime.now(timezone.utc).strftime("%A, %d %B %Y, %I:%M %p UTC")
    ids = (f"Participant {author.number_of(set_name) or author.id}" for author, _ in rows)
    sentences = (html.escape(of_cell(row["sentence"]), quote=False) for _, row in rows)
    return _csv(head, ([i, w.name, r["total"], now, s] for i, (w, r), s in zip(ids, rows, sentences, strict=True)))


def _canvas(set_name: str, rows: _Graded) -> str:
    # Instructor guide of Canvas, "How do I import grades in the Gradebook?": five columns, then assignments.
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", set_name]
    most = ["    Points Possible", "", "", "", "", str(POINTS)]
    return _csv(head, [most, *([w.name, w.id, "", "", "", r["total"]] for w, r in rows)])


def _blackboard(set_name: str, rows: _Graded) -> str:
    # Help of Blackboard, "Upload grades": the user name says who, a new column's header becomes its title.
    return _csv(["Username", set_name], ([w.id, r["total"]] for w, r in rows))


def _d2l(set_name: str, rows: _Graded) -> str:
    # community.d2l.com, article 3538 "Importing grades": an id, "<item> Points Grade", and a column that ends the line.
    head = ["Username", f"{set_name} Points Grade", "End-of-Line Indicator"]
    return _csv(head, ([w.id, r["total"], "#"] for w, r in rows))


_IMPORTS = {"moodle": _moodle, "canvas": _canvas, "blackboard": _blackboard, "d2l": _d2l}
