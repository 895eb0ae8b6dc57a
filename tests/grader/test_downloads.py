"""What learning platforms hand out becomes a folder of submissions; grades become what they import."""

from __future__ import annotations

import csv
import html
import io
import os
import stat
import subprocess
import tracemalloc
import zipfile

import pytest
from class_of_25 import roster
from typer.testing import CliRunner

from assignments.grader import batch, course, downloads
from labkit.cli import app

SETS = (roster.PS1, roster.PS2, roster.PS3)
PS3 = roster.PS3
#: Where platforms put a file of Ada Lovelace, and what they call her.
PLACES = {
    f"Ada Lovelace_1234567_assignsubmission_file_/{PS3}.ipynb": ("Ada Lovelace", "1234567", "moodle"),
    f"Ada Lovelace_1234567_assignsubmission_file/mine {PS3}.ipynb": ("Ada Lovelace", "1234567", "moodle"),
    f"Ada Lovelace_1234567_assignsubmission_file_{PS3}.ipynb": ("Ada Lovelace", "1234567", "moodle"),
    f"lovelaceada_12345_67890_{PS3}.ipynb": ("lovelaceada", "12345", "canvas"),
    f"lovelaceada_LATE_12345_67890_{PS3}-2.ipynb": ("lovelaceada", "12345", "canvas"),
    f"Problem set_3_alovelace_attempt_2026-11-22-10-00-00_{PS3}.ipynb": ("alovelace", "alovelace", "blackboard"),
    f"12345-67890 - Ada Lovelace - Nov 22, 2026 1000 AM/{PS3}.ipynb": ("Ada Lovelace", "", "d2l"),
    f"12345-67890 - Ada Lovelace - Nov 22, 2026 1000 AM - {PS3}.ipynb": ("Ada Lovelace", "", "d2l"),
    f"Ada Lovelace - {PS3}.ipynb": ("Ada Lovelace", "Ada Lovelace", "classroom"),
    f"Copy of alovelace_{PS3}.ipynb": ("alovelace", "alovelace", ""),
    f"alovelace/Copy of {PS3}.ipynb": ("alovelace", "alovelace", ""),
    f"{PS3}/alovelace/answers.ipynb": ("alovelace", "alovelace", ""),
    f"{PS3}/alovelace.ipynb/x.ipynb": ("alovelace.ipynb", "alovelace.ipynb", ""),
    f"alovelace/{PS3}/x.ipynb": ("alovelace", "alovelace", ""),
    f"lovelaceada_12345_question_67_89_{PS3}.ipynb": ("lovelaceada", "12345", "canvas"),
    f"Ada Lovelace_1234567_assignsubmission_onlinetext_/{PS3}.html": ("Ada Lovelace", "1234567", "moodle"),
    f"Ada Lovelace - Copy of {PS3} (1).ipynb": ("Ada Lovelace", "Ada Lovelace", "classroom"),
    f"Copy of Copy of alovelace_{PS3}.ipynb": ("alovelace", "alovelace", ""),
    f"Set 3/Ada Lovelace_1234567_assignsubmission_file_/{PS3}.ipynb": ("Ada Lovelace", "1234567", "moodle"),
}


def pack(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("place", PLACES)
def test_a_platforms_name_is_a_student_and_a_set(tmp_path, place):
    (found,) = downloads.collect(pack(tmp_path / "x.zip", {place: "{}"}), tmp_path / "out", SETS)
    assert (found.name, found.id, found.platform) == PLACES[place]
    (handed,) = batch.collect(tmp_path / "out", SETS)
    assert (handed.student, handed.set_name, len(handed.files)) == (found.student, PS3, 1)
    assert batch.STUDENT.fullmatch(found.student)
    assert downloads.names(tmp_path / "out") == [found]


def test_the_set_may_be_said_and_students_of_one_name_stay_apart(tmp_path):
    files = {f"Zoë Ng_{n}_assignsubmission_file_/x.ipynb": str(n) for n in (1, 2)}
    found = downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out", SETS, given=PS3)
    assert [(s.student, s.name, s.id) for s in found] == [("Zoe-Ng", "Zoë Ng", "1"), ("Zoe-Ng-2", "Zoë Ng", "2")]
    assert {h.student: h.files[0].read_text() for h in batch.collect(tmp_path / "out", SETS)} == {
        "Zoe-Ng": "1",
        "Zoe-Ng-2": "2",
    }
    # The same once more changes nothing, and a later one with other students adds them.
    assert downloads.collect(tmp_path / "x.zip", tmp_path / "out", SETS, given=PS3) == found
    more = {"Zoë Ng_2_assignsubmission_file_/x.ipynb": "later", "Al_3_assignsubmission_file_/x.ipynb": "3"}
    again = downloads.collect(pack(tmp_path / "y.zip", more), tmp_path / "out", SETS, given=PS3)
    assert [s.student for s in again] == ["Zoe-Ng", "Zoe-Ng-2", "Al"]
    assert {p.name for p in (tmp_path / "out" / "Zoe-Ng-2" / PS3).iterdir()} == {"x.ipynb", "x-2.ipynb"}


def test_a_file_cannot_speak_for_another_student(tmp_path):
    files = {f"mallory/ada_1_2_{PS3}.ipynb": "{}", f"bob/{PS3}.ipynb": "{}"}
    found = downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out", SETS)
    assert {s.student for s in found} == {"mallory", "bob"}
    files = {f"M_1_assignsubmission_file_/Ada_2_assignsubmission_file_{PS3}.ipynb": "{}"}
    (found,) = downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out2", SETS)
    assert found.id == "1"


def test_the_title_before_a_user_name_may_have_underscores(tmp_path):
    files = {f"Set_3_{author}_attempt_2026-11-22-10-00-00_{PS3}.ipynb": "{}" for author in ("a_lee", "b_lee", "hopper")}
    files["Set_3_a_lee_attempt_2026-11-22-10-00-00.txt"] = "Submitted late"
    found = downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out", SETS)
    assert sorted(s.id for s in found) == ["a_lee", "b_lee", "hopper"]
    assert len(batch.collect(tmp_path / "out", SETS)) == 3


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_attempts_the_newest_is_graded(tmp_path, order):
    messages, days = [], {"09-30": "old", "10-02": "new", "10-01": "old"}
    files = {f"Set 3_{author}_attempt_2026-{day}-10-00-00_{PS3}.ipynb": text for author in ("ada", "bob")
             for day, text in list(days.items())[::order]}  # fmt: skip
    files[f"Set 3_ada_attempt_2026-09-29-10-00-00_{roster.PS1}.ipynb"] = "another set"
    files["Set 3_ada_attempt_2026-10-05-10-00-00.txt"] = "An attempt without a file"
    downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out", SETS, report=messages.append)
    handed = {(h.student, h.set_name): [f.read_text() for f in h.files] for h in batch.collect(tmp_path / "out", SETS)}
    assert handed == {("ada", roster.PS1): ["another set"], ("ada", PS3): ["new"], ("bob", PS3): ["new"]}
    assert sum("is an earlier attempt" in line for line in messages) == 4


def test_nothing_is_unpacked_outside_of_the_folder(tmp_path):
    messages = []
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in (f"../out_{PS3}.ipynb", f"/tmp/labkit-out_{PS3}.ipynb", f"a/../../b_{PS3}.ipynb",
                     f"..\\w_{PS3}.ipynb", f"C:\\w_{PS3}.ipynb", f"ada_{PS3}.ipynb"):  # fmt: skip
            archive.writestr(name, "{}")
        link = zipfile.ZipInfo(f"eve_{PS3}.ipynb")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr(f"__MACOSX/._ada_{PS3}.ipynb", "{}")
    downloads.collect(tmp_path / "x.zip", tmp_path / "out", SETS, report=messages.append)
    assert {p.name for p in tmp_path.iterdir()} == {"x.zip", "out"}
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"ada", "names.csv"}
    assert sum("leads out of the zip" in line for line in messages) == 5
    assert sum("is a link" in line for line in messages) == 1


@pytest.mark.parametrize("link", ["Bob", f"Bob/{PS3}"])
def test_no_link_that_another_program_unpacked_leads_out_of_the_folder(tmp_path, link):
    messages, out, elsewhere = [], tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (out / link).parent.mkdir(parents=True)
    (out / link).symlink_to(elsewhere)
    files = {moodle("Ada", 1): "{}", moodle("Bob", 2): "{}"}
    downloads.collect(pack(tmp_path / "x.zip", files), out, SETS, report=messages.append)
    assert not list(elsewhere.iterdir())
    assert (out / "Ada" / PS3 / f"{PS3}.ipynb").exists()
    assert sum("would be written to another folder: Bob is a link" in line for line in messages) == 1


def test_what_is_too_much_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    many = pack(tmp_path / "x.zip", {f"s{n}_{PS3}.ipynb": "{}" for n in range(10)})
    monkeypatch.setattr(downloads, "MOST_FILES", 9)
    with pytest.raises(ValueError, match=r"holds 10 files of 0.0 GB; allowed: 9 files"):
        downloads.collect(many, tmp_path / "out", SETS)
    monkeypatch.setattr(downloads, "MOST_UNPACKED", 1000)
    with pytest.raises(ValueError, match=r"holds 1 files of 0\.0 GB; allowed: 9 files of 0\.0 GB"):
        downloads.collect(pack(tmp_path / "y.zip", {f"s_{PS3}.ipynb": "0" * 2000}), tmp_path / "out", SETS)
    assert not (tmp_path / "out").exists()
    (tmp_path / "z.zip").write_bytes(b"PK")
    for path in (tmp_path / "z.zip", tmp_path / "none"):
        with pytest.raises(ValueError, match="is neither a folder nor a zip"):
            downloads.collect(path, tmp_path / "out", SETS)
    with pytest.raises(ValueError, match="the set is 'ps9'; allowed"):
        downloads.collect(many, tmp_path / "out", SETS, given="ps9")


HEADS = {
    "moodle": ["Identifier", "Full name", "Grade", "Last modified (grade)", "Feedback comments"],
    "canvas": ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", PS3],
    "blackboard": ["Username", PS3],
    "d2l": ["Username", f"{PS3} Points Grade", "End-of-Line Indicator"],
}
IDS = {"moodle": "Participant 77", "canvas": "77", "blackboard": "77", "d2l": "77"}


@pytest.mark.parametrize("platform", HEADS)
def test_grades_go_back_under_the_platforms_own_ids(tmp_path, platform):
    students = [downloads.Student("Ada-L", "Ada L, Ph. D.", "77", platform), downloads.Student("Al", "Al", "", "d2l")]
    rows = [
        batch.Row("Ada-L", PS3, "x", "graded", {"3.1": 20, "3.2": 12.5}, "=1: fails"),
        batch.Row("Al", PS3, "x", "graded", {"3.1": 20}, ""),
        batch.Row("err", PS3, "x", "error", {"3.1": 0}, "Grade it by hand."),
        batch.Row("Ada-L", roster.PS1, "x", "graded", {"1.1": 3}, ""),
    ]
    batch.write(rows, tmp_path / "grades.csv")
    text, left_out = downloads.export(tmp_path / "grades.csv", platform, PS3, students)
    head, *lines = csv.reader(io.StringIO(text))
    assert head == HEADS[platform]
    (line,) = [line for line in lines if "Points Possible" not in line[0]]
    assert len(line) == len(head)
    assert IDS[platform] in line
    assert "32.5" in line
    assert not any(cell.startswith("=") for cell in line)
    assert [sentence.split(" is left out")[0] for sentence in left_out] == ["Al", "err"]
    with pytest.raises(ValueError, match="Google Classroom takes no file of grades; allowed: moodle"):
        downloads.export(tmp_path / "grades.csv", "classroom", PS3, students)
    with pytest.raises(ValueError, match="holds no grade of 'ps9'"):
        downloads.export(tmp_path / "grades.csv", platform, "ps9", students)


def test_the_verbs_collect_and_tell_who_is_who(tmp_path):
    pack(tmp_path / "x.zip", {f"lovelaceada_12345_67890_{PS3}.ipynb": "{}"})
    done = CliRunner().invoke(app, ["assignments", "collect", str(tmp_path / "x.zip"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "1 files, 1 new students" in done.output
    (tmp_path / "ids.txt").write_text("alovelace\n\nghopper\n")
    done = CliRunner().invoke(app, ["class", "names", str(tmp_path / "ids.txt"), "--course", "fall"])
    head, *lines = done.output.splitlines()
    assert head.split()[:2] == ["id", "pseudonym"]
    from labcourse import variants

    assert [line.split()[:2] for line in lines] == [
        [student, variants.pseudonym(student, "fall")] for student in ("alovelace", "ghopper")
    ]
    drawn = [variants.of(student, problem="drills", course="fall").drills for student in ("alovelace", "ghopper")]
    assert [line.split()[-len(drawn[0]) :] for line in lines] == [", ".join(map(str, some)).split() for some in drawn]


@pytest.mark.parametrize(
    ("text", "encoding", "line"),
    [("alovelace\nmüller\n", "cp1252", 2), ("ada\n", "utf-16", 1), ("\ufeffada\nal\n\udcff\n", "utf-8", 3)],
)
def test_a_list_of_ids_in_another_encoding_is_named(tmp_path, text, encoding, line):
    (tmp_path / "ids.txt").write_bytes(text.encode(encoding, "surrogateescape"))
    done = CliRunner().invoke(app, ["class", "names", str(tmp_path / "ids.txt")])
    assert done.exit_code == 1
    assert done.output == f"labkit: {tmp_path / 'ids.txt'} is not UTF-8 (line {line}); save it as UTF-8\n"


def test_a_file_of_grades_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(course, "CHECKOUT", tmp_path)
    rows = [batch.Row("Ada-L", PS3, "x", "graded", {"3.1": 20}, "")]
    batch.write(rows, tmp_path / "build" / "assignments" / "grades.csv")
    old = tmp_path / "old.csv"
    old.write_text("what stood there before")
    os.link(old, tmp_path / "link")
    for out in (tmp_path / "new" / "blackboard.csv", old):
        done = CliRunner().invoke(app, ["assignments", "export", "blackboard", PS3, "--out", str(out)])
        assert done.exit_code == 0
        assert f"{out}\n" in done.output
        assert "Ada-L" in out.read_text()
    assert (tmp_path / "link").read_text() == "what stood there before", "it is not written over in its place"


def test_git_ignores_students_work_and_grades(root):
    wanted = ["submissions/ada/x.ipynb", "notebooks/assignments/grades.csv", "notebooks/assignments/gradebook.db"]
    wanted += ["gradebook.db", "grades.csv", "build/assignments/gradebook.db", "results/result-x.json"]
    done = subprocess.run(["git", "check-ignore", *wanted], cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.split() == wanted


def moodle(name, number=1, file=f"{PS3}.ipynb"):
    return f"{name}_{number}_assignsubmission_file_/{file}"


@pytest.mark.parametrize(
    ("name", "shown", "folder"),
    [
        ("Ada\rB", "Ada B", "Ada-B"),
        ("\x1b[31mAda", "[31mAda", "31mAda"),
        ("\u202eAda", "Ada", "Ada"),
        ("Zoe\u0308", "Zo\u00eb", "Zoe"),
        (".Ada", ".Ada", "Ada"),
        ("names.csv", "names.csv", "names.csv-1"),
        (PS3, PS3, f"{PS3}-1"),
        ("=cmd|x!A1", "=cmd|x!A1", "cmd-x-A1"),
        ("'=1", "'=1", "1"),
        ("-7", "-7", "7"),
    ],
)
def test_an_odd_name_is_one_student_in_the_list_and_on_the_disk(tmp_path, name, shown, folder):
    files = pack(tmp_path / "x.zip", {moodle(name): "{}"})
    (found,) = downloads.collect(files, tmp_path / "out", SETS)
    assert (found.name, found.student) == (shown, folder)
    assert downloads.collect(files, tmp_path / "out", SETS) == downloads.names(tmp_path / "out") == [found]
    (handed,) = batch.collect(tmp_path / "out", SETS)
    assert (handed.student, handed.set_name) == (folder, PS3)


def test_two_students_are_two_folders_wherever_they_are_unpacked(tmp_path):
    """Capitals and the way in which an accent was typed make no other folder, and long names end somewhere."""
    names = ["Ada", "ada", "ADA", "a" * 300, "a" * 301, "a" * 302]
    files = {moodle(name, number): "{}" for number, name in enumerate(names)}
    found = downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out", SETS)
    assert len({s.student.casefold() for s in found}) == len(names)
    assert all(batch.STUDENT.fullmatch(s.student) for s in found)
    same = {f"Zo\u00eb/{PS3}.ipynb": "1", f"Zoe\u0308/{PS3}.ipynb": "2"}
    assert len(downloads.collect(pack(tmp_path / "y.zip", same), tmp_path / "new", SETS)) == 1


def with_flag(data, number):
    """Set a bit of the first file's flags, in both places where a zip has them."""
    data = bytearray(data)
    for mark, place in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        data[data.find(mark) + place] |= number
    return bytes(data)


def in_directory(place, value):
    def spoil(data):
        at = data.find(b"PK\x01\x02") + place
        return data[:at] + value + data[at + len(value) :]

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: with_flag(data, 1),
        in_directory(16, b"\0\0\0\0"),
        in_directory(10, b"\x4d"),
        in_directory(24, b"\x01\0\0\0"),
        in_directory(42, b"\xff\xff\xff"),
    ],
    ids=["encrypted", "wrong sum", "unknown packing", "wrong size", "nowhere"],
)
def test_one_broken_file_costs_no_other(tmp_path, spoil):
    messages, path = [], pack(tmp_path / "x.zip", {moodle("Eve", 1): "{}", moodle("Ada", 2): "{}"})
    path.write_bytes(spoil(path.read_bytes()))
    found = downloads.collect(path, tmp_path / "out", SETS, report=messages.append)
    assert [s.name for s in found] == ["Ada"]
    assert sum("Eve" in line and "cannot be unpacked" in line for line in messages) == 1


def test_a_file_that_is_no_lzma_costs_no_other(tmp_path):
    messages, path = [], pack(tmp_path / "x.zip", {moodle("Eve", 1): "[" + 99 * " " + "]", moodle("Ada", 2): "{}"})
    path.write_bytes(in_directory(10, b"\x0e")(path.read_bytes()))
    assert [s.name for s in downloads.collect(path, tmp_path / "out", SETS, report=messages.append)] == ["Ada"]
    assert sum("Eve" in line and "cannot be unpacked" in line for line in messages) == 1


def test_a_zip_whose_list_of_files_is_broken_is_refused_in_a_sentence(tmp_path):
    path = pack(tmp_path / "x.zip", {moodle("A\u00e9"): "{}"})
    path.write_bytes(path.read_bytes().replace("\u00e9".encode(), b"\xff\xfe"))
    with pytest.raises(ValueError, match="is a damaged zip"):
        downloads.collect(path, tmp_path / "out", SETS)


def test_entries_that_are_no_files_are_no_students(tmp_path):
    messages = []
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("Ada_1_assignsubmission_file_", "")  # a folder, as some programs write one
        archive.writestr(moodle("Ada"), "{}")
        archive.writestr("\u200e", "x")
        nameless = zipfile.ZipInfo("x")
        nameless.filename = ""
        archive.writestr(nameless, "x")
        archive.writestr(f"Ada_1_assignsubmission_file_/.ipynb_checkpoints/{PS3}.ipynb", "old")
        archive.writestr("\x1b[2J", "x")
    (found,) = downloads.collect(tmp_path / "x.zip", tmp_path / "out", SETS, report=messages.append)
    assert [p.name for p in (tmp_path / "out" / found.student).rglob("*") if p.is_file()] == [f"{PS3}.ipynb"]
    assert all(line.isprintable() for line in messages)
    (tmp_path / "f" / "Ada" / ".ipynb_checkpoints").mkdir(parents=True)
    (tmp_path / "f" / "Ada" / f"{PS3}.ipynb").write_text("{}")
    (tmp_path / "f" / "Ada" / ".ipynb_checkpoints" / f"{PS3}.ipynb").write_text("old")
    downloads.collect(tmp_path / "f", tmp_path / "out2", SETS)
    assert (tmp_path / "out2" / "Ada" / PS3 / f"{PS3}.ipynb").read_text() == "{}"
    assert len(list((tmp_path / "out2" / "Ada" / PS3).iterdir())) == 1


def test_many_files_of_one_name_are_not_all_compared(tmp_path):
    messages = []
    files = {moodle("Eve", 1, f"{n}/{PS3}.ipynb"): str(n) for n in range(50)} | {moodle("Ada", 2): "{}"}
    downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out", SETS, report=messages.append)
    assert len(list((tmp_path / "out" / "Eve" / PS3).iterdir())) == 20
    assert sum("more than 20 files of that name" in line for line in messages) == 30


FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_table_holds_a_formula_and_numbers_stay_numbers(tmp_path, text):
    rows = [batch.Row("ada", PS3, text, "graded", {"3.1": -2.5}, text, text)]
    (line,) = csv.DictReader(io.StringIO(batch.table(rows)))
    assert line["total"] == line["3.1"] == "-2.5"
    batch.write(rows, tmp_path / "grades.csv")
    for platform in HEADS:
        exported, _ = downloads.export(
            tmp_path / "grades.csv", platform, PS3, [downloads.Student("ada", text, text, platform)]
        )
        assert "-2.5" in exported
        for cell in [*line.values(), *(cell for line in csv.reader(io.StringIO(exported)) for cell in line)]:
            assert cell == "-2.5" or not cell.startswith(tuple("=+-@\t\r\uff1d")), platform


def test_a_table_shows_no_sign_that_a_terminal_obeys(tmp_path):
    place = tmp_path / "eve\x1b[2J\u202e" / PS3
    place.mkdir(parents=True)
    (place / "a\x1b[2J\nb.ipynb").write_text("{}")
    messages = []

    class Nothing:
        files = dict.fromkeys(SETS)
        notebooks = forbidden = api = forget = lambda *_: {}

    rows = batch.grade(tmp_path, Nothing(), report=messages.append)
    assert len(rows) == 1
    assert all(text.isprintable() for text in [*messages, *batch.table(rows).splitlines()])


def graded(folder):
    """The files that the grader looks at, by student and set."""
    return {(h.student, h.set_name): [f.read_text() for f in h.files] for h in batch.collect(folder, SETS)}


@pytest.mark.parametrize("name", [f"{PS3}.ipynb", "final.ipynb", "A.IPYNB"])
def test_who_hands_in_again_is_graded_on_the_newer_file(tmp_path, name):
    messages, out = [], tmp_path / "out"

    def collect(**texts):
        files = {moodle(author, n, name if text == "new" else f"{PS3}.ipynb"): text
                 for n, (author, text) in enumerate(texts.items())}  # fmt: skip
        downloads.collect(pack(tmp_path / "x.zip", files), out, SETS, PS3, messages.append)

    collect(Ada="old", Bob="old")
    collect(Ada="new")
    assert graded(out) == {("Ada", PS3): ["new"], ("Bob", PS3): ["old"]}
    assert [line for line in messages if "older" in line] == [
        f"older, and graded only where nothing newer is of its set: Ada/{PS3}/{PS3}.ipynb"
    ]
    collect(Ada="new")
    assert graded(out)["Ada", PS3] == ["new"]
    collect(Ada="old")  # she takes it back
    assert graded(out)["Ada", PS3] == ["old"]


def test_a_newer_notebook_replaces_none_of_another_set(tmp_path):
    """Names that tell no set: the contents do, when they are graded."""
    for text in (roster.PS1, PS3, f"{PS3} again"):
        downloads.collect(pack(tmp_path / "x.zip", {moodle("Ada", 1, "x.ipynb"): text}), tmp_path / "out", SETS)
    handed = batch.collect(tmp_path / "out", SETS, lambda path: path.read_text().split()[0])
    assert {h.set_name: [f.read_text() for f in h.files] for h in handed} == {
        roster.PS1: [roster.PS1],
        PS3: [f"{PS3} again"],
    }
    downloads.collect(pack(tmp_path / "x.zip", {moodle("Ada", 1, "why.txt"): "late"}), tmp_path / "out", SETS)
    assert len(batch.collect(tmp_path / "out", SETS, lambda path: path.read_text().split()[0])) == 2


@pytest.mark.parametrize("first", [f"{PS3}", "first"])
@pytest.mark.parametrize("later", [f"{PS3}-b", "later"])
def test_a_newer_notebook_replaces_one_of_its_set_whichever_of_their_names_tells_it(tmp_path, first, later):
    files, out = {first: PS3, roster.PS1: roster.PS1}, tmp_path / "out"
    for name, text in [*files.items(), (later, f"{PS3} again")]:
        downloads.collect(pack(tmp_path / "x.zip", {moodle("Ada", 1, f"{name}.ipynb"): text}), out, SETS)
    handed = batch.collect(out, SETS, lambda path: path.read_text().split()[0])
    assert {h.set_name: [f.read_text() for f in h.files] for h in handed} == {
        roster.PS1: [roster.PS1],
        PS3: [f"{PS3} again"],
    }


def test_what_was_replaced_stays_replaced_when_the_next_set_comes(tmp_path):
    """Names that tell no set: those that came together stay together, and older ones do not come back."""
    set_of = {"old": roster.PS1, "new": roster.PS1, "also new": roster.PS1}.get
    for files in ({"z": "old"}, {"work": "new", "draft": "also new"}, {PS3: "3"}, {PS3: "3 again"}):
        download = {f"ada_1_{n}_{name}.ipynb": text for n, (name, text) in enumerate(files.items())}
        downloads.collect(pack(tmp_path / "x.zip", download), tmp_path / "out", SETS)
    handed = batch.collect(tmp_path / "out", SETS, lambda path: set_of(path.read_text()))
    assert {h.set_name: {f.read_text() for f in h.files} for h in handed} == {
        roster.PS1: {"new", "also new"},
        PS3: {"3 again"},
    }


@pytest.mark.parametrize("order", [1, -1])
def test_of_attempts_on_d2l_the_newest_is_graded(tmp_path, order):
    dates = {"Sep 30, 2026 1159 PM": "old", "Oct. 2, 2026 1230 AM": "old", "Oct 2, 2026 115 PM": "new"}
    files = {f"1-2 - {author} - {date}/{PS3}.ipynb": text for author in ("Ada L", "Bob")
             for date, text in list(dates.items())[::order]}  # fmt: skip
    downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out", SETS)
    assert graded(tmp_path / "out") == {("Ada-L", PS3): ["new"], ("Bob", PS3): ["new"]}


@pytest.mark.parametrize("name", ["作业", "ДЗ", "🎉", "---", ""])
def test_a_file_without_a_plain_letter_keeps_its_ending(tmp_path, name):
    files = {moodle("Li", 1, f"{name}.ipynb"): "{}"}
    downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out", SETS, given=PS3)
    (handed,) = batch.collect(tmp_path / "out", SETS)
    assert [f.name for f in handed.notebooks] == ["unnamed.ipynb"]


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_file_that_says_less_than_it_unpacks_to_fills_no_memory(tmp_path, packing):
    messages, path = [], tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr(moodle("Eve", 1), bytes(32 << 20))
        archive.writestr(moodle("Ada", 2), "{}", zipfile.ZIP_DEFLATED)
    path.write_bytes(in_directory(24, b"\x64\0\0\0")(path.read_bytes()))
    tracemalloc.start()
    try:
        found = downloads.collect(path, tmp_path / "out", SETS, report=messages.append)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert [s.name for s in found] == ["Ada"]
    assert sum("Eve" in line and "cannot be unpacked" in line for line in messages) == 1


@pytest.mark.parametrize("stray", [None, "desktop.ini", "Set 3/index.html", "Set 3/Untitled.ipynb", "Set 3/a.xlsx"])
@pytest.mark.parametrize(
    "place",
    ["{} - " + PS3 + ".ipynb", "{}_1_assignsubmission_file_/x.ipynb", "1-2 - {} - Nov 22, 2026 1000 AM/x.ipynb"],
)
def test_students_in_one_more_folder_stay_apart_whatever_lies_beside_them(tmp_path, place, stray):
    messages = []
    files = {f"Set 3/{place.format(author)}": author for author in ("Ada", "Bob")} | ({stray: "x"} if stray else {})
    found = downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out", SETS, PS3, messages.append)
    assert [s.name for s in found] == ["Ada", "Bob"]
    assert graded(tmp_path / "out") == {("Ada", PS3): ["Ada"], ("Bob", PS3): ["Bob"]}
    assert sum("tells no student" in line for line in messages) == bool(stray)


def test_a_student_alone_in_a_folder_is_nobody_else(tmp_path):
    files = {f"ada/{name}.ipynb": name for name in (PS3, f"draft_{PS3}", f"old - {PS3}")}
    assert [s.name for s in downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out", SETS)] == ["ada"]
    for names in ([f"Lab - {PS3}"], [f"Lab - {PS3}", f"Copy of Lab - {PS3} (1)", f"Lab - {roster.PS1}"]):
        files = {f"ada/{name}.ipynb": name for name in names}
        assert [s.name for s in downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out", SETS)] == ["ada"]
    files = {f"ada/{PS3}/old - {PS3}.ipynb": ""}
    assert [s.name for s in downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out", SETS)] == ["ada"]


def test_an_old_set_in_the_box_of_another_is_left_out_or_said(tmp_path):
    messages, out = [], tmp_path / "out"
    canvas = "{}_12345_9{}_{}.ipynb".format
    downloads.collect(pack(tmp_path / "x.zip", {canvas("mallory", 1, roster.PS2): "2"}), out, SETS)
    files = {canvas("mallory", 2, PS3): "3", canvas("mallory", 3, roster.PS1): "1", canvas("ada", 4, PS3): "3"}
    files[canvas("bob", 5, PS3)] = "3"
    downloads.collect(pack(tmp_path / "y.zip", files), out, SETS, PS3, messages.append)
    assert sum(f"is of {roster.PS1}, and {PS3} was handed in" in line for line in messages) == 1
    assert ("mallory", roster.PS1) not in graded(out)
    downloads.collect(tmp_path / "y.zip", out, SETS, report=messages.append)
    assert f"of another set than most: mallory/{roster.PS1}/{roster.PS1}.ipynb" in messages


def test_two_students_of_one_name_on_d2l_are_told_apart_by_their_numbers(tmp_path):
    out, place = tmp_path / "out", "{}-7 - Wei Zhang - Nov 22, 2026 1{}00 AM/{}.ipynb".format
    files = {place(1, 0, PS3): "1", place(2, 1, PS3): "2"}
    downloads.collect(pack(tmp_path / "x.zip", files), out, SETS)
    found = downloads.collect(pack(tmp_path / "y.zip", {place(2, 0, roster.PS1): "3"}), out, SETS)
    assert [(s.name, s.numbers) for s in found] == [("Wei Zhang", "1"), ("Wei Zhang", "2")]
    one, two = (s.student for s in found)
    assert graded(out) == {(one, PS3): ["1"], (two, PS3): ["2"], (two, roster.PS1): ["3"]}
    # A list from before there were numbers: the first student of the name is the one in the list.
    downloads.collect(pack(tmp_path / "z.zip", {f"Al/{PS3}.ipynb": ""}), tmp_path / "old", SETS)
    (tmp_path / "old" / "names.csv").write_text("student,name,id,platform\nWei,Wei Zhang,wz,d2l\n")
    found = downloads.collect(tmp_path / "x.zip", tmp_path / "old", SETS)
    assert [(s.id, s.numbers) for s in found] == [("wz", "1"), ("", "2")]


def test_where_blackboards_user_names_begin_is_said_and_asked_of_the_list(tmp_path):
    messages, out, place = [], tmp_path / "out", "Set 3_{}_attempt_2026-11-2{}-10-00-00_{}.ipynb".format
    files = {place(author, 2, PS3): author for author in ("s_1", "s_2")}
    downloads.collect(pack(tmp_path / "x.zip", files), out, SETS, report=messages.append)
    assert "user names of Blackboard are what follows 'Set 3_s_'; if not, correct the ids in names.csv" in messages
    corrected = (out / "names.csv").read_text().replace(",1,black", ",s_1,black").replace(",2,black", ",s_2,black")
    (out / "names.csv").write_text(corrected)
    files = {place("s_2", 4, PS3): "again"}
    found = downloads.collect(pack(tmp_path / "y.zip", files), out, SETS, report=messages.append)
    assert [s.id for s in found] == ["s_1", "s_2"]
    assert "user names of Blackboard are what follows 'Set 3_'; if not, correct the ids in names.csv" in messages
    assert graded(out)["2", PS3] == ["again"]


def test_moodles_numbers_of_one_student_in_several_sets_are_hers(tmp_path):
    out = tmp_path / "out"

    def collect(given, *who):
        files = {moodle(name, number, "x.ipynb"): str(number) for name, number in who}
        return downloads.collect(pack(tmp_path / "x.zip", files), out, SETS, given)

    collect(roster.PS1, ("Ada", 1), ("Zo", 2), ("Zo", 3))
    collect(PS3, ("Ada", 11), ("Zo", 12), ("Zo", 13))
    found = collect(PS3, ("Ada", 11), ("Zo", 12), ("Ada", 14))  # another Ada, late
    assert [s.name for s in found] == ["Ada", "Zo", "Zo", "Zo", "Zo", "Ada"]
    assert found[0].numbers == f"{roster.PS1}=1 {PS3}=11"
    assert [len(texts) for texts in graded(out).values()] == [1] * 7
    batch.write([batch.Row("Ada", name, "x", "graded", {"1": 7}) for name in SETS], tmp_path / "grades.csv")
    for name, number in ((roster.PS1, 1), (PS3, 11), (roster.PS2, 1)):
        text, _ = downloads.export(tmp_path / "grades.csv", "moodle", name, found)
        assert text.splitlines()[1].startswith(f"Participant {number},Ada,7,")


@pytest.mark.parametrize("name", ["a notebook", "z notebook"])
def test_a_file_that_tells_no_set_is_of_the_student_whose_other_file_does(tmp_path, name):
    out = tmp_path / "out"
    downloads.collect(pack(tmp_path / "x.zip", {moodle("Ada", 1, f"{roster.PS1}.ipynb"): "1"}), out, SETS)
    files = {moodle("Ada", 9, f"{file}.ipynb"): "3" for file in sorted([name, PS3])}
    (found,) = downloads.collect(pack(tmp_path / "y.zip", files), out, SETS)
    assert found.numbers == f"{roster.PS1}=1 {PS3}=9"
    # Of two students of one name the file tells which of them it is.
    files |= {moodle("Ada", 10): "another Ada"}
    found = downloads.collect(pack(tmp_path / "y.zip", files), tmp_path / "both", SETS)
    assert sorted(s.numbers for s in found) == [f"{PS3}=10", f"{PS3}=9"]


def test_moodle_reads_a_time_in_its_own_zone_unless_it_is_told_another(tmp_path):
    batch.write([batch.Row("Ada", PS3, "x", "graded", {"1": 7})], tmp_path / "grades.csv")
    (line,) = csv.DictReader(io.StringIO(downloads.export(tmp_path / "grades.csv", "moodle", PS3, [])[0]))
    assert line["Last modified (grade)"].endswith(" UTC")


def test_words_of_students_are_no_html_in_moodles_feedback(tmp_path):
    sentence = "3.4: ValueError: '<img src=x onerror=alert(1)> <a href=//evil.test>a & b</a>'"
    batch.write([batch.Row("Ada", PS3, "x", "graded", {"1": 7}, sentence)], tmp_path / "grades.csv")
    (line,) = csv.DictReader(io.StringIO(downloads.export(tmp_path / "grades.csv", "moodle", PS3, [])[0]))
    assert "<" not in line["Feedback comments"]
    assert html.unescape(line["Feedback comments"]) == sentence


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_a_list_of_names_that_a_spreadsheet_saved_is_the_same_list(tmp_path, sign, end):
    out = tmp_path / "out"
    files = pack(tmp_path / "x.zip", {f"1-2 - Ada, PhD - Nov 22, 2026 1000 AM/{PS3}.ipynb": "{}"})
    (found,) = downloads.collect(files, out, SETS)
    rows = list(csv.reader(io.StringIO((out / "names.csv").read_text())))
    rows[1][2] = "alovelace"
    with (out / "names.csv").open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=sign, lineterminator=end).writerows([*rows, [""] * len(rows[0])])
    wanted = [downloads.Student(found.student, found.name, "alovelace", "d2l", "1")]
    assert downloads.names(out) == wanted
    assert downloads.collect(files, out, SETS) == downloads.names(out) == wanted


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("student;name;id;platform\nÅsa;Åsa;1;d2l".encode("cp1252"), r"names.csv is not UTF-8 \(line 2\); save it as"),
        ("student,name,id".encode("utf-16"), r"names.csv is not UTF-8 \(line 1\); save it as UTF-8"),
        (b"Ada-L,Ada L,alovelace,d2l\n", "is 'Ada-L,Ada L,alovelace,d2l'; allowed: student,name,id,platform"),
        (b"", "is ''; allowed: student,name,id,platform"),
    ],
)
def test_a_list_of_names_that_cannot_be_read_is_refused_before_it_is_overwritten(tmp_path, data, words):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "names.csv").write_bytes(data)
    with pytest.raises(ValueError, match=words):
        downloads.collect(pack(tmp_path / "x.zip", {f"Ada/{PS3}.ipynb": "{}"}), tmp_path / "out", SETS)
    assert (tmp_path / "out" / "names.csv").read_bytes() == data
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["names.csv"]


def test_who_is_in_no_list_of_names_is_named_when_grades_are_exported(tmp_path):
    students = [downloads.Student("Ada", "Ada", "77", "moodle")]
    batch.write([batch.Row(s, PS3, "x", "graded", {"1": 7}) for s in ("Ada", "Bob", "Cy")], tmp_path / "grades.csv")
    text, notes = downloads.export(tmp_path / "grades.csv", "d2l", PS3, students)
    assert notes == ["not in names.csv, so the name of the folder is taken for the id: Bob, Cy"]
    assert len(text.splitlines()) == 4
