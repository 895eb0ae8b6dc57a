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
from labcourse import variants
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
    f"{PS3}/alovelace.ipynb/x.ipynb": ("alovelace.ipynb", "alovelace.ipynb", ""),
    f"alovelace/{PS3}/x.ipynb": ("alovelace", "alovelace", ""),
}


def pack(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def moodle(name, number=1, file=f"{PS3}.ipynb"):
    return f"{name}_{number}_assignsubmission_file_/{file}"


@pytest.fixture
def collect(tmp_path):
    """A function: files of a download, as ``{path: text}``, or a zip, to its students; `said` holds the sentences."""

    def collect(files, given="", out="out"):
        collect.said.clear()
        download = pack(tmp_path / "x.zip", files) if isinstance(files, dict) else files
        return downloads.collect(download, tmp_path / out, SETS, given, collect.said.append)

    collect.said = []
    return collect


def graded(folder):
    """The texts that the grader looks at, by student and set."""
    return {(h.student, h.set_name): [f.read_text() for f in h.files] for h in batch.collect(folder, SETS)}


@pytest.mark.parametrize("place", PLACES)
def test_a_platforms_name_is_a_student_and_a_set(tmp_path, collect, place):
    (found,) = collect({place: "{}"})
    assert (found.name, found.id, found.platform) == PLACES[place]
    assert graded(tmp_path / "out") == {(found.student, PS3): ["{}"]}
    assert batch.STUDENT.fullmatch(found.student)
    assert names.names(tmp_path / "out") == [found]


def test_the_set_may_be_said_and_students_of_one_name_stay_apart(tmp_path, collect):
    files, out = {moodle("Zoë Ng", n, "x.ipynb"): str(n) for n in (1, 2)}, tmp_path / "out"
    found = collect(files, PS3)
    assert [(s.student, s.name, s.id) for s in found] == [("Zoe-Ng", "Zoë Ng", "1"), ("Zoe-Ng-2", "Zoë Ng", "2")]
    assert graded(out) == {("Zoe-Ng", PS3): ["1"], ("Zoe-Ng-2", PS3): ["2"]}
    # The same once more changes nothing, and a later one with other students adds them.
    assert collect(files, PS3) == found
    again = collect({moodle("Zoë Ng", 2, "x.ipynb"): "later", moodle("Al", 3, "x.ipynb"): "3"}, PS3)
    assert [s.student for s in again] == ["Zoe-Ng", "Zoe-Ng-2", "Al"]
    assert graded(out)["Zoe-Ng-2", PS3] == ["later"]
    assert {str(p.relative_to(out / "Zoe-Ng-2" / PS3)) for p in out.glob("Zoe-Ng-2/*/*/*")} == {
        f"download-{n}/x.ipynb" for n in (1, 2, 3)
    }


def test_a_file_cannot_speak_for_another_student(collect):
    found = collect({f"mallory/ada_1_2_{PS3}.ipynb": "{}", f"bob/{PS3}.ipynb": "{}"})
    assert {s.student for s in found} == {"mallory", "bob"}
    (found,) = collect({moodle("M", 1, f"Ada_2_assignsubmission_file_{PS3}.ipynb"): "{}"}, out="other")
    assert found.id == "1"


def test_nothing_is_unpacked_outside_of_the_folder(tmp_path, collect):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    for link in ("Bob", f"Cy/{PS3}"):  # another program has unpacked them
        (out / link).parent.mkdir(parents=True, exist_ok=True)
        (out / link).symlink_to(elsewhere)
    leads_out = [f"../out_{PS3}.ipynb", f"/tmp/labkit-out_{PS3}.ipynb", f"a/../../b_{PS3}.ipynb"]
    leads_out += [f"..\\w_{PS3}.ipynb", f"C:\\w_{PS3}.ipynb"]
    files = dict.fromkeys([*leads_out, f"ada_{PS3}.ipynb", f"Bob_{PS3}.ipynb", f"Cy_{PS3}.ipynb"], "{}")
    with zipfile.ZipFile(pack(tmp_path / "y.zip", files), "a") as archive:
        link = zipfile.ZipInfo(f"eve_{PS3}.ipynb")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr(f"__MACOSX/._ada_{PS3}.ipynb", "{}")
    collect(tmp_path / "y.zip")
    assert {p.name for p in tmp_path.iterdir()} == {"y.zip", "out", "elsewhere"}
    assert {p.name for p in out.iterdir()} == {"ada", "names.csv", "Bob", "Cy"}
    assert not list(elsewhere.iterdir())
    for words, times in (("leads out of it", 5), ("is a link or no file", 1), ("would be written to another", 2)):
        assert sum(words in line for line in collect.said) == times


def test_what_is_too_much_is_refused_before_anything_is_written(tmp_path, collect, monkeypatch):
    many = {f"s{n}_{PS3}.ipynb": "{}" for n in range(10)}
    monkeypatch.setattr(downloads, "MOST_FILES", 9)
    with pytest.raises(ValueError, match=r"holds 10 files of 0.0 GB; allowed: 9 files"):
        collect(many)
    monkeypatch.setattr(downloads, "MOST_UNPACKED", 1000)
    with pytest.raises(ValueError, match=r"holds 1 files of 0\.0 GB; allowed: 9 files of 0\.0 GB"):
        collect({f"s_{PS3}.ipynb": "0" * 2000})
    (tmp_path / "z.zip").write_bytes(b"PK")
    for path in (tmp_path / "z.zip", tmp_path / "none"):
        with pytest.raises(ValueError, match="is neither a folder nor a zip"):
            collect(path)
    with pytest.raises(ValueError, match="the set is 'ps9'; allowed"):
        collect(many, "ps9")
    damaged = pack(tmp_path / "y.zip", {moodle("A\u00e9"): "{}"})
    damaged.write_bytes(damaged.read_bytes().replace("\u00e9".encode(), b"\xff\xfe"))
    with pytest.raises(ValueError, match="is a damaged zip"):
        collect(damaged)
    assert not (tmp_path / "out").exists()


#: The head of what a platform imports, and a student's line in it.
IMPORTS = {
    "moodle": (["Identifier", "Full name", "Grade", "Last modified (grade)", "Feedback comments"],
               ["Participant 77", "Ada L, Ph. D.", "32.5"]),
    "canvas": (["Student", "ID", "SIS User ID", "SIS Login ID", "Section", PS3],
               ["Ada L, Ph. D.", "77", "", "", "", "32.5"]),
}  # fmt: skip


@pytest.mark.parametrize("platform", IMPORTS)
def test_grades_go_back_under_the_platforms_own_ids(tmp_path, platform):
    students = [names.Student("Ada-L", "Ada L, Ph. D.", "77", platform)]
    said = "3.4: ValueError: '<img src=x onerror=alert(1)> <a href=//evil.test>a & b</a>'"
    rows = [
        batch.Row("Ada-L", PS3, "x", "graded", {"3.1": 20, "3.2": 12.5}, said),
        batch.Row("err", PS3, "x", "error", {"3.1": 0}, "Grade it by hand."),
        batch.Row("Ada-L", roster.PS1, "x", "graded", {"1.1": 3}, ""),
        batch.Row("Bob", PS3, "x", "graded", {"3.1": 7}),
    ]
    batch.write(rows, tmp_path / "grades.csv")
    text, left_out = names.export(tmp_path / "grades.csv", platform, PS3, students)
    head, *lines = csv.reader(io.StringIO(text))
    line, _ = (line for line in lines if "Points Possible" not in line[0])
    assert (head, line[: len(IMPORTS[platform][1])]) == IMPORTS[platform]
    assert left_out == [
        "err is left out: Grade it by hand.",
        "not in names.csv, so the name of the folder is taken for the id: Bob",
    ]
    if platform == "moodle":  # words of students are no HTML in it, and it is told the zone of its time
        assert line[3].endswith(" UTC")
        assert "<" not in line[4]
        assert html.unescape(line[4]) == said
    for wrong, words in (("classroom", "'classroom'; allowed: moodle, canvas"), (platform, "holds no grade of 'ps9'")):
        with pytest.raises(ValueError, match=words):
            names.export(tmp_path / "grades.csv", wrong, "ps9", students)


def test_the_verbs_collect_and_tell_who_is_who(tmp_path):
    def call(*words):
        return CliRunner().invoke(app, list(map(str, words)))

    pack(tmp_path / "x.zip", {f"lovelaceada_12345_67890_{PS3}.ipynb": "{}"})
    done = call("assignments", "collect", tmp_path / "x.zip", "--out", tmp_path / "out")
    assert (done.exit_code, done.output[:26]) == (0, "1 files, 1 new students: /")
    ids = tmp_path / "ids.txt"
    ids.write_text("alovelace\n\nghopper\n")
    head, *lines = call("class", "names", ids, "--course", "fall").output.splitlines()
    assert head.split()[:2] == ["id", "pseudonym"]
    for line, student in zip(lines, ("alovelace", "ghopper"), strict=True):
        drawn = ", ".join(map(str, variants.of(student, problem="drills", course="fall").drills)).split()
        assert line.split()[:2] == [student, variants.pseudonym(student, "fall")]
        assert line.split()[-len(drawn) :] == drawn
    ids.write_bytes("alovelace\nmüller\n".encode("cp1252"))
    done = call("class", "names", ids)
    assert (done.exit_code, done.output) == (1, f"labkit: {ids} is not UTF-8 (line 2); save it as UTF-8\n")


def test_git_ignores_students_work_and_grades(root):
    wanted = ["submissions/ada/x.ipynb", "notebooks/assignments/grades.csv", "notebooks/assignments/gradebook.db"]
    wanted += ["gradebook.db", "grades.csv", "build/assignments/gradebook.db", "results/result-x.json"]
    done = subprocess.run(["git", "check-ignore", *wanted], cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.split() == wanted


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
        ("李 雷", "李 雷", "student-1"),
        ("Αθηνά Παππά", "Αθηνά Παππά", "student-1"),
    ],
)
def test_an_odd_name_is_one_student_in_the_list_and_on_the_disk(tmp_path, collect, name, shown, folder):
    (found,) = collect({moodle(name): "{}"})
    assert (found.name, found.student) == (shown, folder)
    assert collect({moodle(name): "{}"}) == names.names(tmp_path / "out") == [found]
    assert graded(tmp_path / "out") == {(folder, PS3): ["{}"]}


def test_two_students_are_two_folders_wherever_they_are_unpacked(tmp_path, collect):
    """Capitals and the way in which an accent was typed make no other folder, and long names end somewhere."""
    many = ["Ada", "ada", "ADA", "a" * 300, "a" * 301, "a" * 302]
    found = collect({moodle(name, number): "{}" for number, name in enumerate(many)})
    assert len({s.student.casefold() for s in found}) == len(many)
    assert all(batch.STUDENT.fullmatch(s.student) for s in found)
    assert len(collect({f"Zo\u00eb/{PS3}.ipynb": "1", f"Zoe\u0308/{PS3}.ipynb": "2"}, out="accents")) == 1
    for number, name in enumerate(["作业", "🎉", "---", ""]):  # without a plain letter a file keeps its ending
        collect({moodle("Li", 1, f"{name}.ipynb"): "{}"}, PS3, out=f"plain{number}")
        assert [p.name for p in (tmp_path / f"plain{number}").rglob("*.ipynb")] == ["unnamed.ipynb"]


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
def test_one_broken_file_costs_no_other(tmp_path, collect, spoil):
    path = pack(tmp_path / "y.zip", {moodle("Eve", 1): "{}", moodle("Ada", 2): "{}"})
    path.write_bytes(spoil(path.read_bytes()))
    assert [s.name for s in collect(path)] == ["Ada"]
    assert sum("Eve" in line and "cannot be unpacked" in line for line in collect.said) == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_file_that_says_less_than_it_unpacks_to_fills_no_memory(tmp_path, collect, packing):
    path = tmp_path / "y.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(moodle("Eve", 1), bytes(32 << 20), packing)
        archive.writestr(moodle("Ada", 2), "{}")
    path.write_bytes(in_directory(24, b"\x64\0\0\0")(path.read_bytes()))
    tracemalloc.start()
    try:
        assert [s.name for s in collect(path)] == ["Ada"]
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert sum("Eve" in line and "cannot be unpacked" in line for line in collect.said) == 1


def test_entries_that_are_no_files_are_no_students(tmp_path, collect):
    files = {
        "Ada_1_assignsubmission_file_": "",  # a folder, as some programs write one
        moodle("Ada"): "{}",
        "\u200e": "x",
        f"Ada_1_assignsubmission_file_/.ipynb_checkpoints/{PS3}.ipynb": "old",
        "\x1b[2J": "x",
    }
    (found,) = collect(files)
    assert [p.name for p in (tmp_path / "out" / found.student).rglob("*") if p.is_file()] == [f"{PS3}.ipynb"]
    assert all(line.isprintable() for line in collect.said)
    for place, text in ((f"{PS3}.ipynb", "{}"), (f".ipynb_checkpoints/{PS3}.ipynb", "old")):
        (tmp_path / "f" / "Ada" / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "f" / "Ada" / place).write_text(text)
    collect(tmp_path / "f", out="plain")
    assert graded(tmp_path / "plain") == {("Ada", PS3): ["{}"]}


def test_many_files_of_one_name_are_not_all_compared(tmp_path, collect):
    collect({moodle("Eve", 1, f"{n}/{PS3}.ipynb"): str(n) for n in range(50)} | {moodle("Ada", 2): "{}"})
    assert len(list((tmp_path / "out" / "Eve" / PS3 / "download-1").iterdir())) == 20
    assert sum("more than 20 files of that name" in line for line in collect.said) == 30


FORMULAS = ["=1+1", "-1+1", "@SUM(A1)", "\t=1", "\uff1d1", 'x;  "=1"', "x\t+1", "a\n@b", "'=1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_table_holds_a_formula_and_numbers_stay_numbers(tmp_path, text):
    rows = [batch.Row("ada", PS3, text, "graded", {"3.1": -2.5}, text, text)]
    (line,) = csv.DictReader(io.StringIO(batch.table(rows)))
    assert line["total"] == line["3.1"] == "-2.5"
    batch.write(rows, tmp_path / "grades.csv")
    for platform in IMPORTS:
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


@pytest.mark.parametrize("name", [f"{PS3}.ipynb", "final.ipynb", "A.IPYNB"])
def test_who_hands_in_again_is_graded_on_the_newer_file(tmp_path, collect, name):
    collect({moodle("Ada", 0): "old", moodle("Bob", 1): "old"}, PS3)
    for text in ("new", "new", "old"):  # at last she takes it back
        collect({moodle("Ada", 0, name): text}, PS3)
        assert graded(tmp_path / "out") == {("Ada", PS3): [text], ("Bob", PS3): ["old"]}


@pytest.mark.parametrize("first", [f"{PS3}", "first"])
@pytest.mark.parametrize("later", [f"{PS3}-b", "later"])
def test_a_newer_notebook_replaces_one_of_its_set_whichever_of_their_names_tells_it(tmp_path, collect, first, later):
    files = {first: PS3, roster.PS1: roster.PS1}
    for name, text in [*files.items(), (later, f"{PS3} again")]:
        collect({moodle("Ada", 1, f"{name}.ipynb"): text})
    handed = batch.collect(tmp_path / "out", SETS, lambda path: path.read_text().split()[0])
    assert {h.set_name: [f.read_text() for f in h.files] for h in handed} == {
        roster.PS1: [roster.PS1],
        PS3: [f"{PS3} again"],
    }


@pytest.mark.parametrize("stray", [None, "desktop.ini", "Set 3/index.html", "Set 3/Untitled.ipynb", "Set 3/a.xlsx"])
@pytest.mark.parametrize("place", ["{}_1_2_x.ipynb", "{}_1_assignsubmission_file_/x.ipynb"])
def test_students_in_one_more_folder_stay_apart_whatever_lies_beside_them(tmp_path, collect, place, stray):
    files = {f"Set 3/{place.format(author)}": author for author in ("Ada", "Bob")} | ({stray: "x"} if stray else {})
    assert [s.name for s in collect(files, PS3)] == ["Ada", "Bob"]
    assert graded(tmp_path / "out") == {("Ada", PS3): ["Ada"], ("Bob", PS3): ["Bob"]}
    assert sum("tells no student" in line for line in collect.said) == bool(stray)


def test_an_old_set_in_the_box_of_another_is_left_out(tmp_path, collect):
    collect({f"mallory_1_2_{PS3}.ipynb": "3", f"mallory_1_3_{roster.PS1}.ipynb": "1"}, PS3)
    assert sum(f"is of {roster.PS1}, and {PS3} was handed in" in line for line in collect.said) == 1
    assert graded(tmp_path / "out").keys() == {("mallory", PS3)}


def test_moodles_numbers_of_one_student_in_several_sets_are_hers(tmp_path, collect):
    def box(given, *who):
        return collect({moodle(name, number, "x.ipynb"): str(number) for name, number in who}, given)

    box(roster.PS1, ("Ada", 1), ("Zo", 2), ("Zo", 3))
    box(PS3, ("Ada", 11), ("Zo", 12), ("Zo", 13))
    found = box(PS3, ("Ada", 11), ("Zo", 12), ("Ada", 14))  # another Ada, late
    assert [s.name for s in found] == ["Ada", "Zo", "Zo", "Zo", "Zo", "Ada"]
    assert found[0].numbers == f"{roster.PS1}=1 {PS3}=11"
    assert [len(texts) for texts in graded(tmp_path / "out").values()] == [1] * 7
    batch.write([batch.Row("Ada", name, "x", "graded", {"1": 7}) for name in SETS], tmp_path / "grades.csv")
    for name, number in ((roster.PS1, 1), (PS3, 11), (roster.PS2, 1)):
        text, _ = names.export(tmp_path / "grades.csv", "moodle", name, found)
        assert text.splitlines()[1].startswith(f"Participant {number},Ada,7,")


@pytest.mark.parametrize("name", ["a notebook", "z notebook"])
def test_a_file_that_tells_no_set_is_of_the_student_whose_other_file_does(collect, name):
    collect({moodle("Ada", 1, f"{roster.PS1}.ipynb"): "1"})
    files = {moodle("Ada", 9, f"{file}.ipynb"): "3" for file in sorted([name, PS3])}
    (found,) = collect(files)
    assert found.numbers == f"{roster.PS1}=1 {PS3}=9"
    # Of two students of one name the file tells which of them it is.
    found = collect(files | {moodle("Ada", 10): "another Ada"}, out="both")
    assert sorted(s.numbers for s in found) == [f"{PS3}=10", f"{PS3}=9"]


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_a_list_of_names_that_a_spreadsheet_saved_is_the_same_list(tmp_path, collect, sign, end):
    out, files = tmp_path / "out", {f"Ada, PhD_7_8_{PS3}.ipynb": "{}"}
    (found,) = collect(files)
    rows = list(csv.reader(io.StringIO((out / "names.csv").read_text())))
    rows[1][4] = "a note"
    with (out / "names.csv").open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=sign, lineterminator=end).writerows([*rows, [""] * len(rows[0])])
    wanted = [names.Student(found.student, "Ada, PhD", "7", "canvas", "a note")]
    assert names.names(out) == wanted
    assert collect(files) == names.names(out) == wanted


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
def test_a_list_of_names_that_cannot_be_read_is_refused_before_it_is_overwritten(tmp_path, collect, data, words):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "names.csv").write_bytes(data)
    with pytest.raises(ValueError, match=words):
        collect({f"Ada/{PS3}.ipynb": "{}"})
    assert (tmp_path / "out" / "names.csv").read_bytes() == data
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["names.csv"]
