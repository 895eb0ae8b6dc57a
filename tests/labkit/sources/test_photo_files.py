"""The generated set on disk, against real kills, real interrupts, real damage and a really full disk."""

import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
from interrupts import interruptible
from waiting import ended, until

from labkit.common import shipped
from labkit.sources import photo_files, photos
from labkit.sources.photo_files import generator

MAKE_SMALL = "import sys; from labkit import photos; photos.load(scale='small', home=sys.argv[1], progress=False)"


def start(code, *arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,
        **options,
    )


def listed(place):
    return photo_files.ledger(place)


def identities(place):
    return {name: ((place / name).stat().st_ino, (place / name).stat().st_mtime_ns) for name in listed(place)}


def underway(home, process, count=12):
    """Wait until a process has finished `count` photos; return its painters."""
    place = photo_files.folder(home)
    while len(listed(place)) < count:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    painters = psutil.Process(process.pid).children(recursive=True)
    assert painters
    return place, painters


@pytest.fixture(scope="module")
def painted(tmp_path_factory):
    place = photo_files.folder(tmp_path_factory.mktemp("painted"))
    photo_files.make(place, range(24), progress=False)
    return place


@pytest.fixture
def few(painted, tmp_path):
    """A folder with the first 24 photos, for one test alone."""
    return shutil.copytree(painted, photo_files.folder(tmp_path))


def test_files_on_disk_are_what_the_generator_makes(few):
    assert not photo_files.faults(few, 24, thorough=True)
    for index in (0, 11, 23):
        assert (few / generator.plan(index).file).read_bytes() == generator.make(index)


@pytest.mark.long
def test_a_killed_run_leaves_no_orphan_and_the_next_one_makes_only_what_is_missing(tmp_path):
    process = start(MAKE_SMALL, tmp_path)
    place, painters = underway(tmp_path, process)
    process.kill()
    process.wait()
    until(lambda: all(map(ended, painters)), "the painters to end")
    before = identities(place)
    assert 12 <= len(before) < generator.SCALES["small"]
    photos.load(scale="tiny", home=tmp_path, progress=False)
    after = identities(place)
    assert {name: after[name] for name in before} == before
    assert not photo_files.faults(photo_files.folder(tmp_path), 160, thorough=True)


@pytest.mark.sample(1)
@pytest.mark.parametrize("whole_group", [False, True], ids=["to the process alone", "as a terminal sends it"])
def test_an_interrupt_keeps_every_finished_photo_and_leaves_no_orphan(tmp_path, whole_group):
    process = start(MAKE_SMALL, tmp_path, start_new_session=True)
    place, painters = underway(tmp_path, process)
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    until(lambda: all(map(ended, painters)), "the painters to end")
    assert errors.count("KeyboardInterrupt") == 1
    assert "KeyboardInterrupt" in errors.splitlines()[-1]
    on_disk = {str(path.relative_to(place)) for path in place.glob("*/*") if not path.name.startswith(".")}
    assert on_disk == set(listed(place))
    assert not list(place.glob("*/.*"))


@pytest.mark.long
def test_a_painter_that_dies_is_an_error_and_not_a_wait_without_end(tmp_path):
    process = start(MAKE_SMALL, tmp_path)
    _, painters = underway(tmp_path, process)
    painters[0].kill()
    _, errors = process.communicate(timeout=60)
    assert process.returncode
    assert "RuntimeError: a painting process ended early" in errors
    until(lambda: all(map(ended, painters)), "the painters to end")


@pytest.mark.long
def test_two_processes_may_prepare_the_same_set_at_once(tmp_path):
    code = "import sys; from labkit import photos; photos.load(scale='tiny', home=sys.argv[1], progress=False)"
    both = [start(code, tmp_path), start(code, tmp_path)]
    for process in both:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert not photo_files.faults(photo_files.folder(tmp_path), 160, thorough=True)


@pytest.mark.sample(1)
@pytest.mark.parametrize("damage", ["flip a bit", "cut short", "empty", "delete"])
def test_a_damaged_photo_is_found_named_and_made_again(few, damage):
    path = few / generator.plan(7).file
    good = path.read_bytes()
    if damage == "flip a bit":
        path.write_bytes(good[:5000] + bytes([good[5000] ^ 4]) + good[5001:])
    elif damage == "cut short":
        path.write_bytes(good[:-1])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
    (fault,) = photo_files.faults(few, 24, thorough=True)
    assert (fault.index, fault.path) == (7, path)
    assert fault.what == ("missing" if damage == "delete" else "damaged")
    before = identities_of_others(few, path)
    photo_files.make(few, [7], progress=False)
    assert path.read_bytes() == good
    assert identities_of_others(few, path) == before


def identities_of_others(place, path):
    return {other: other.stat().st_mtime_ns for other in place.glob("*/*.jpg") if other != path}


def test_a_line_cut_short_by_a_kill_costs_one_photo_and_no_more(few):
    ledger = few / photo_files.LEDGER
    ledger.write_bytes(ledger.read_bytes()[:-30])
    (fault,) = photo_files.faults(few, 24)
    assert fault.what == "unlisted"
    photo_files.make(few, [fault.index], progress=False)
    assert not photo_files.faults(few, 24, thorough=True)


def test_a_folder_that_holds_another_set_is_refused_by_name(few):
    ledger = few / photo_files.LEDGER
    ledger.write_text(ledger.read_text().replace(photo_files.TITLE, "# lab_photos 0.0.1 seed 5"))
    with pytest.raises(ValueError, match=r"is of the set 'lab_photos 0\.0\.1 seed 5', not 'lab_photos .* seed 0'"):
        photo_files.faults(few, 24)


def test_leftovers_of_a_kill_go_once_they_are_old(few):
    young, old = few / "boat/.000001.jpg.1.part", few / "boat/.000011.jpg.2.part"
    young.touch()
    old.touch()
    os.utime(old, (time.time() - 7200,) * 2)
    photo_files.make(few, [24], progress=False)
    assert young.exists()
    assert not old.exists()


FULL_DISK = """
import sys
from pathlib import Path
from labkit.sources import photo_files, photos
home = Path(sys.argv[1])
for attempt in (
    lambda: photos.load(scale="tiny", home=home, progress=False),
    lambda: photo_files.make(photo_files.folder(home), range(160), progress=False),
):
    try:
        attempt()
    except OSError as error:
        print(error.errno, error)
place = photo_files.folder(home)
known = photo_files.ledger(place)
print(len(known), all((place / name).stat().st_size == entry.bytes for name, entry in known.items()))
print(len(list(place.glob("*/.*"))), len(list(place.glob("*/*.jpg"))))
"""


@pytest.mark.long
def test_a_full_disk_is_one_sentence_and_keeps_what_is_finished(tmp_path, on_small_disk):
    done = subprocess.run(
        [*on_small_disk(), sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    early, late, kept, files = done.stdout.splitlines()
    assert early.startswith(f"28 preparing lab_photos/tiny needs 18 MB in {tmp_path}, where 3 MB are free")
    assert late.startswith(f"28 the disk that holds {tmp_path}")
    assert "set LABKIT_DATA" in late
    count, whole = kept.split()
    assert int(count) >= 5
    assert whole == "True"
    assert files == f"0 {count}"


def test_a_place_that_cannot_be_a_folder_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"cannot be written \(.*\): set LABKIT_DATA to a folder that can"):
        photos.load(scale="tiny", home=tmp_path / "file", progress=False)


def test_a_damaged_installation_is_named():
    with pytest.raises(FileNotFoundError, match="data/nothing is neither at"):
        shipped.folder("data/nothing")
