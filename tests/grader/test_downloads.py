"""What learning platforms hand out becomes a folder of submissions; grades become what they import."""

from __future__ import annotations

import csv
import html
import io
import re
import stat
import subprocess
import tracemalloc
import zipfile

import pytest
from class_of_25 import roster
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from assignments.grader import batch, downloads, names, pages
from labkit.cli import app

SETS = (roster.PS1, roster.PS2, roster.PS3)
PS3 = roster.PS3
#: Where platforms put a file of Ada Lovelace, and what they call her.
PLACES = {
    f"Ada Lovelace_1234567_assignsubmission_file_/{PS3}.ipynb": ("Ada Lovelace", "1234567", "moodle"),
    f"Ada Lovelace_1234567_assignsubmission_file/mine {PS3}.ipynb": ("Ada Lovelace", "1234567", "moodle"),
    f"Ada Lovelace_1234567_assignsubmission_file_{PS3}.ipynb": ("Ada Lovelace", "1234567", "moodle"),
    f"Ada Lovelace_1234567_assignsubmission_onlinetext_/{PS3}.html": ("Ada Lovelace", "1234567", "moodle"),
    f"Set 3/Ada Lovelace_1234567_assignsubmission_file_/{PS3}.ipynb": ("Ada Lovelace", "1234567", "moodle"),
    f"lovelaceada_12345_67890_{PS3}.ipynb": ("lovelaceada", "12345", "canvas"),
    f"lovelaceada_LATE_12345_67890_{PS3}-2.ipynb": ("lovelaceada", "12345", "canvas"),
    f"lovelaceada_12345_question_67_89_{PS3}.ipynb": ("lovelaceada", "12345", "canvas"),
    f"Ada Lovelace - Copy of {PS3} (1).ipynb": ("Ada Lovelace", "Ada Lovelace", ""),
    f"Copy of Copy of alovelace_{PS3}.ipynb": ("alovelace", "alovelace", ""),
    f"alovelace/Copy of {PS3}.ipynb": ("alovelace", "alovelace", ""),
    f"{PS3}/alovelace/answers.ipynb": ("alovelace", "alovelace", ""),
    f"{PS3}/alovelace.ipynb/x.ipynb": ("alovelace.ipynb", "alovelace.ipynb", ""),
    f"alovelace/{PS3}/x.ipynb": ("alovelace", "alovelace", ""),
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
    assert names.names(tmp_path / "out") == [found]


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
    assert {str(p.relative_to(tmp_path / "out" / "Zoe-Ng-2" / PS3)) for p in tmp_path.glob("out/Zoe-Ng-2/*/*/*")} == {
        f"download-{n}/x.ipynb" for n in (1, 2, 3)
    }


def test_a_file_cannot_speak_for_another_student(tmp_path):
    files = {f"mallory/ada_1_2_{PS3}.ipynb": "{}", f"bob/{PS3}.ipynb": "{}"}
    found = downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out", SETS)
    assert {s.student for s in found} == {"mallory", "bob"}
    files = {f"M_1_assignsubmission_file_/Ada_2_assignsubmission_file_{PS3}.ipynb": "{}"}
    (found,) = downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out2", SETS)
    assert found.id == "1"


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
    assert sum("leads out of it" in line for line in messages) == 5
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
    assert (out / "Ada" / PS3 / "download-1" / f"{PS3}.ipynb").exists()
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
}
IDS = {"moodle": "Participant 77", "canvas": "77"}


@pytest.mark.parametrize("platform", HEADS)
def test_grades_go_back_under_the_platforms_own_ids(tmp_path, platform):
    students = [names.Student("Ada-L", "Ada L, Ph. D.", "77", platform)]
    rows = [
        batch.Row("Ada-L", PS3, "x", "graded", {"3.1": 20, "3.2": 12.5}, "=1: fails"),
        batch.Row("err", PS3, "x", "error", {"3.1": 0}, "Grade it by hand."),
        batch.Row("Ada-L", roster.PS1, "x", "graded", {"1.1": 3}, ""),
    ]
    batch.write(rows, tmp_path / "grades.csv")
    text, left_out = names.export(tmp_path / "grades.csv", platform, PS3, students)
    head, *lines = csv.reader(io.StringIO(text))
    assert head == HEADS[platform]
    (line,) = [line for line in lines if "Points Possible" not in line[0]]
    assert len(line) == len(head)
    assert IDS[platform] in line
    assert "32.5" in line
    assert not any(cell.startswith("=") for cell in line)
    assert [sentence.split(" is left out")[0] for sentence in left_out] == ["err"]
    with pytest.raises(ValueError, match="the platform is 'classroom'; allowed: moodle, canvas"):
        names.export(tmp_path / "grades.csv", "classroom", PS3, students)
    with pytest.raises(ValueError, match="holds no grade of 'ps9'"):
        names.export(tmp_path / "grades.csv", platform, "ps9", students)


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
        ("names.csv", "names.csv", "names.csv-2"),
        (PS3, PS3, f"{PS3}-2"),
        ("=cmd|x!A1", "=cmd|x!A1", "cmd-x-A1"),
        ("'=1", "'=1", "1"),
        ("-7", "-7", "7"),
    ],
)
def test_an_odd_name_is_one_student_in_the_list_and_on_the_disk(tmp_path, name, shown, folder):
    files = pack(tmp_path / "x.zip", {moodle(name): "{}"})
    (found,) = downloads.collect(files, tmp_path / "out", SETS)
    assert (found.name, found.student) == (shown, folder)
    assert downloads.collect(files, tmp_path / "out", SETS) == names.names(tmp_path / "out") == [found]
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
        in_directory(10, b"\x0e"),
    ],
    ids=["encrypted", "wrong sum", "unknown packing", "wrong size", "nowhere", "no lzma"],
)
def test_one_broken_file_costs_no_other(tmp_path, spoil):
    messages, path = [], pack(tmp_path / "x.zip", {moodle("Eve", 1): "{}", moodle("Ada", 2): "{}"})
    path.write_bytes(spoil(path.read_bytes()))
    found = downloads.collect(path, tmp_path / "out", SETS, report=messages.append)
    assert [s.name for s in found] == ["Ada"]
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
    assert (tmp_path / "out2" / "Ada" / PS3 / "download-1" / f"{PS3}.ipynb").read_text() == "{}"
    assert len(list((tmp_path / "out2" / "Ada" / PS3).glob("*/*"))) == 1


def test_many_files_of_one_name_are_not_all_compared(tmp_path):
    messages = []
    files = {moodle("Eve", 1, f"{n}/{PS3}.ipynb"): str(n) for n in range(50)} | {moodle("Ada", 2): "{}"}
    downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out", SETS, report=messages.append)
    assert len(list((tmp_path / "out" / "Eve" / PS3 / "download-1").iterdir())) == 20
    assert sum("more than 20 files of that name" in line for line in messages) == 30


FORMULAS = [
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\uff1d1",
    "x;=1+1;y",
    "x\t+1",
    'x;  "=1"',
    "a\n@b",
    "'=1",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_table_holds_a_formula_and_numbers_stay_numbers(tmp_path, text):
    rows = [batch.Row("ada", PS3, text, "graded", {"3.1": -2.5}, text, text)]
    (line,) = csv.DictReader(io.StringIO(batch.table(rows)))
    assert line["total"] == line["3.1"] == "-2.5"
    batch.write(rows, tmp_path / "grades.csv")
    for platform in HEADS:
        exported, _ = names.export(tmp_path / "grades.csv", platform, PS3, [names.Student("ada", text, text, platform)])
        assert "-2.5" in exported
        cells = [*line.values(), *(cell for line in csv.reader(io.StringIO(exported)) for cell in line)]
        # Spreadsheets also split a table at semicolons and tabs, whatever stands around it.
        cells += [part.strip(' "') for cell in cells for part in re.split("[;\t\n]", cell)]
        for cell in cells:
            assert cell == "-2.5" or not cell.startswith(tuple("=+-@\t\r\uff1d")), platform


@given(st.text(st.sampled_from("=-;\t\n'a\" ")))
def test_a_cell_is_read_back_as_the_text_that_it_was(text):
    assert pages.of_cell(pages.as_cell(text)) == text


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
    collect(Ada="new")
    assert graded(out)["Ada", PS3] == ["new"]
    collect(Ada="old")  # she takes it back
    assert graded(out)["Ada", PS3] == ["old"]


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
@pytest.mark.parametrize("place", ["{}_1_2_x.ipynb", "{}_1_assignsubmission_file_/x.ipynb"])
def test_students_in_one_more_folder_stay_apart_whatever_lies_beside_them(tmp_path, place, stray):
    messages = []
    files = {f"Set 3/{place.format(author)}": author for author in ("Ada", "Bob")} | ({stray: "x"} if stray else {})
    found = downloads.collect(pack(tmp_path / "x.zip", files), tmp_path / "out", SETS, PS3, messages.append)
    assert [s.name for s in found] == ["Ada", "Bob"]
    assert graded(tmp_path / "out") == {("Ada", PS3): ["Ada"], ("Bob", PS3): ["Bob"]}
    assert sum("tells no student" in line for line in messages) == bool(stray)


def test_an_old_set_in_the_box_of_another_is_left_out(tmp_path):
    messages, canvas = [], "{}_12345_9{}_{}.ipynb".format
    files = {canvas("mallory", 2, PS3): "3", canvas("mallory", 3, roster.PS1): "1"}
    downloads.collect(pack(tmp_path / "y.zip", files), tmp_path / "out", SETS, PS3, messages.append)
    assert sum(f"is of {roster.PS1}, and {PS3} was handed in" in line for line in messages) == 1
    assert graded(tmp_path / "out").keys() == {("mallory", PS3)}


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
        text, _ = names.export(tmp_path / "grades.csv", "moodle", name, found)
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
    (line,) = csv.DictReader(io.StringIO(names.export(tmp_path / "grades.csv", "moodle", PS3, [])[0]))
    assert line["Last modified (grade)"].endswith(" UTC")


def test_words_of_students_are_no_html_in_moodles_feedback(tmp_path):
    sentence = "3.4: ValueError: '<img src=x onerror=alert(1)> <a href=//evil.test>a & b</a>'"
    batch.write([batch.Row("Ada", PS3, "x", "graded", {"1": 7}, sentence)], tmp_path / "grades.csv")
    (line,) = csv.DictReader(io.StringIO(names.export(tmp_path / "grades.csv", "moodle", PS3, [])[0]))
    assert "<" not in line["Feedback comments"]
    assert html.unescape(line["Feedback comments"]) == sentence


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_a_list_of_names_that_a_spreadsheet_saved_is_the_same_list(tmp_path, sign, end):
    out = tmp_path / "out"
    files = pack(tmp_path / "x.zip", {f"Ada, PhD_7_8_{PS3}.ipynb": "{}"})
    (found,) = downloads.collect(files, out, SETS)
    rows = list(csv.reader(io.StringIO((out / "names.csv").read_text())))
    rows[1][4] = "a note"
    with (out / "names.csv").open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=sign, lineterminator=end).writerows([*rows, [""] * len(rows[0])])
    wanted = [names.Student(found.student, "Ada, PhD", "7", "canvas", "a note")]
    assert names.names(out) == wanted
    assert downloads.collect(files, out, SETS) == names.names(out) == wanted


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            "student;name;id;platform\nÅsa;Åsa;1;canvas".encode("cp1252"),
            r"names.csv is not UTF-8 \(line 2\); save it as",
        ),
        ("student,name,id".encode("utf-16"), r"names.csv is not UTF-8 \(line 1\); save it as UTF-8"),
        (b"Ada-L,Ada L,alovelace,canvas\n", "is 'Ada-L,Ada L,alovelace,canvas'; allowed: student,name,id,platform"),
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
    students = [names.Student("Ada", "Ada", "77", "moodle")]
    batch.write([batch.Row(s, PS3, "x", "graded", {"1": 7}) for s in ("Ada", "Bob", "Cy")], tmp_path / "grades.csv")
    text, notes = names.export(tmp_path / "grades.csv", "canvas", PS3, students)
    assert notes == ["not in names.csv, so the name of the folder is taken for the id: Bob, Cy"]
    assert len(text.splitlines()) == 5
