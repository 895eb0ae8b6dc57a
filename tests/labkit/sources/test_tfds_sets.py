"""The TFDS form: offline and without our code; without TFDS; and sets of others by name."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets  # noqa: F401 -- without it, these tests would show nothing

from labkit.sources import framing, photo_files, photos, tfds_sets
from labkit.sources.photo_files import generator


@pytest.fixture(scope="module")
def home(album, tmp_path_factory):
    """The tiny scale as files, which are those of all tests, and in TFDS form."""
    place = tmp_path_factory.mktemp("tfds")
    there, here = photo_files.folder(photos.home()), photo_files.folder(place)
    for path in [there / photo_files.LEDGER, *map(Path, album.paths)]:
        copy = here / path.relative_to(there)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    assert photos.prepare("tiny", place, progress=False).note is None
    return place


LOAD = """
import json, sys
events = []
sys.addaudithook(lambda event, _: events.append(event) if event.startswith("socket.") else None)
import tensorflow_datasets as tfds
data = tfds.load("lab_photos", data_dir=sys.argv[1])
counts = {split: sum(1 for _ in data[split]) for split in data}
for name in ("lab_photos/tiny", "lab_photos/tiny:1.0.0"):
    next(iter(tfds.load(name, split="train", data_dir=sys.argv[1])))
attempts = sorted({e for e in events if e not in ("socket.__new__", "socket.bind", "socket.gethostname")})
ours = [name for name in sys.modules if "lab_photos" in name or name.startswith("labkit.")]
print(json.dumps([counts, attempts, ours]))
"""


@pytest.mark.long
def test_tfds_loads_the_set_without_network_and_without_our_code(home, tmp_path):
    unplugged = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--net"]
    if not shutil.which("unshare") or subprocess.run([*unplugged, "true"], capture_output=True, check=False).returncode:
        unplugged = []
    command = [*unplugged, sys.executable, "-c", LOAD, str(home)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts, attempts, ours = json.loads(done.stdout.splitlines()[-1])
    assert counts == {"train": 140, "validation": 20}
    assert attempts == []
    assert ours == []


AFTERWARDS = """
import json, sys
events = []
sys.addaudithook(lambda event, _: events.append(event) if event.startswith("socket.") else None)
if sys.argv[2] == "before":
    import tensorflow_datasets as tfds
from labkit import photos
photos.load(scale="tiny", home=sys.argv[1], progress=False)
import tensorflow_datasets as tfds
for _ in range(2):
    data = tfds.load("lab_photos")
counts = {split: sum(1 for _ in data[split]) for split in data}
attempts = sorted({e for e in events if e not in ("socket.__new__", "socket.bind", "socket.gethostname")})
print(json.dumps([counts, attempts]))
"""


@pytest.mark.long
@pytest.mark.parametrize(("imported", "packed"), [("before", False), ("after", False), ("after", True)])
def test_after_the_photos_are_loaded_tfds_finds_them_by_name_alone(home, tmp_path, imported, packed):
    """Whether it is imported before or after, and whether the photos are packed or not; nothing is put elsewhere."""
    shutil.copytree(home, tmp_path / "home")
    if not packed:
        shutil.rmtree(tmp_path / "home" / "lab_photos")
    (tmp_path / "user").mkdir()
    command = [sys.executable, "-c", AFTERWARDS, str(tmp_path / "home"), imported]
    own = {"HOME": str(tmp_path / "user"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [{"train": 140, "validation": 20}, []], "and it prints nothing"
    assert "WARNING" not in done.stderr, "a notebook shows it in red"
    assert tfds_sets.is_whole(tmp_path / "home", "tiny")
    assert not list((tmp_path / "user").rglob("*.tfrecord*"))
    assert {path.name for path in (tmp_path / "home").iterdir()} == {path.name for path in home.iterdir()}


#: What tensorflow-datasets does beside another protobuf than its own, in Python and below it.
LOUD = """
import os, sys
from absl import logging
try:
    raise ValueError("gencode 6.31.1 runtime 5.29.6")
except ValueError:
    logging.exception("cannot be loaded")
print("a warning", file=sys.stderr)
os.write(2, b"an error from C++")
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("last", "reason"),
    [("", "imports as an empty module"), ("raise TypeError('Descriptors')", "cannot be imported (Descriptors)")],
)
def test_a_set_that_cannot_be_imported_is_one_sentence_and_nothing_in_red(last, reason, tmp_path):
    (tmp_path / "tensorflow_datasets.py").write_text(LOUD + last)
    ask = "import os, sys; from labkit.sources import tfds_sets; print(tfds_sets.problem());"
    ask += "print('heard', file=sys.stderr, flush=True); os.write(2, b'again'); import logging; logging.error('logged')"
    place = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "-c", ask], env={**os.environ, **place}, capture_output=True, text=True, check=True
    )
    assert reason in done.stdout
    assert done.stderr.split()[0] == "heard"
    assert all(word in done.stderr for word in ("again", "logged"))  # what comes later is seen again
    assert "Traceback" not in done.stderr


def test_records_hold_the_files_byte_for_byte(home):
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(tfds_sets.form(home, "tiny")))
    assert builder.info.features["label"].names == list(generator.CLASSES)
    for split, held_out in (("train", False), ("validation", True)):
        examples = builder.as_dataset(split=split, decoders={"image": tfds.decode.SkipDecoding()})
        found = {}
        for example in examples.as_numpy_iterator():
            name = example["file"].decode()
            assert generator.CLASSES[example["label"]] == Path(name).parent.name
            found[name] = example["image"]
        shots = [generator.plan(index) for index in range(160)]
        assert set(found) == {shot.file for shot in shots if shot.held_out == held_out}
        for name, jpeg in found.items():
            assert jpeg == (photo_files.folder(home) / name).read_bytes()


def test_a_second_preparation_writes_nothing(home):
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*") if path.is_file()}
    photos.prepare("tiny", home, progress=False)
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("file", "harm"),
    [
        ("lab_photos-train.tfrecord-00000-of-00001", "missing"),
        ("lab_photos-validation.tfrecord-00000-of-00001", "cut"),
        ("lab_photos-train.tfrecord-00000-of-00001", "flipped"),
        ("dataset_info.json", "{"),
        ("dataset_info.json", "missing"),
        ("features.json", "missing"),
        ("label.labels.txt", "missing"),
    ],
)
def test_what_is_not_whole_of_the_set_is_noticed(home, tmp_path, file, harm):
    shutil.copytree(home / "lab_photos", tmp_path / "lab_photos")
    assert tfds_sets.is_whole(tmp_path, "tiny")
    path = tfds_sets.form(tmp_path, "tiny") / file
    data = bytearray(path.read_bytes())
    if harm == "missing":
        path.unlink()
    elif harm == "cut":
        end = max(record.byte for record in framing.scan(path, ""))  # whole records, and fewer
        path.write_bytes(data[:end])
    elif harm == "flipped":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    else:
        path.write_text(harm)
    assert not tfds_sets.is_whole(tmp_path, "tiny")


def test_preparing_packs_again_what_is_not_whole(home, tmp_path):
    shutil.copytree(home, tmp_path / "home")
    place = tfds_sets.form(tmp_path / "home", "tiny")
    next(place.glob("*train.tfrecord*")).unlink()
    with pytest.warns(UserWarning, match=rf"^packed again, because not whole: {re.escape(str(place))}$"):
        photos.prepare("tiny", tmp_path / "home", progress=False)
    assert {p.name: p.read_bytes() for p in place.iterdir()} == {
        p.name: p.read_bytes() for p in tfds_sets.form(home, "tiny").iterdir()
    }
    assert [p.name for p in place.parent.iterdir()] == [place.name]


STUBS = {
    "empty module, as with Colab's protobuf": ("", "imports as an empty module"),
    "not installed": (
        "raise ModuleNotFoundError(\"No module named 'tensorflow_datasets'\", name='tensorflow_datasets')",
        "tensorflow-datasets is not installed",
    ),
}
WITHOUT = """
import sys
from labkit.sources import photos
album = photos.prepare("tiny", sys.argv[1], progress=False)
print(album.note)
assert photos.load(scale="tiny", home=sys.argv[1]).note == album.note
assert album.note in album.summary()
if len(sys.argv) < 3:
    print(len(album))
    sys.exit()
import tensorflow as tf
images = album.files().map(lambda path, label: (tf.io.decode_jpeg(tf.io.read_file(path), channels=3), label))
print(sum(1 for _ in images))
"""


@pytest.mark.long
@pytest.mark.parametrize("case", STUBS)
def test_without_a_working_tfds_the_files_serve_and_the_reason_is_said(home, case, tmp_path):
    code, reason = STUBS[case]
    (tmp_path / "stub" / "tensorflow_datasets").mkdir(parents=True)
    (tmp_path / "stub" / "tensorflow_datasets" / "__init__.py").write_text(code)
    shutil.copytree(home / "lab_photos_files", tmp_path / "home" / "lab_photos_files")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "stub")}
    command = [sys.executable, "-c", WITHOUT, str(tmp_path / "home"), *(["decode"] if not code else [])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    note, count = done.stdout.splitlines()
    assert reason in note
    assert "plain files only" in note
    assert count == "160"


def test_a_tfds_set_by_name_comes_as_the_same_files(home):
    album = photos.load("lab_photos/tiny", home=home, progress=False)
    own = photos.load(scale="tiny", home=home, progress=False)
    assert album.classes == own.classes
    assert (len(album.train), len(album.validation)) == (140, 20)
    assert sorted(Path(p).read_bytes() for p in album.paths) == sorted(Path(p).read_bytes() for p in own.paths)
    assert set(album.take(10).labels) == set(range(10))
    assert "copied unchanged" in album.note
    before = {path: os.stat(path).st_mtime_ns for path in album.paths}
    os.unlink(album.paths[3])
    again = photos.load("lab_photos/tiny", home=home, progress=False)
    assert again.paths == album.paths
    assert {p for p in before if os.stat(p).st_mtime_ns != before[p]} == {album.paths[3]}


def packed(place, name, splits, **features):
    """Write a small TFDS set to disk with TFDS itself."""
    import tensorflow_datasets as tfds

    config = tfds.core.BuilderConfig(name="plain")
    tfds.dataset_builders.store_as_tfds_dataset(
        name=name,
        version="2.0.1",
        data_dir=str(place),
        config=config,
        split_datasets=splits,
        features=tfds.features.FeaturesDict(features),
        disable_shuffling=True,
    )


def dataset(images, labels):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices({"image": images, "label": labels})


def test_the_test_split_stands_in_where_there_is_no_validation(tmp_path):
    import tensorflow_datasets as tfds

    images, labels = np.random.default_rng(0).integers(0, 255, (6, 16, 16, 3), np.uint8), np.array([0, 1, 0, 1, 0, 1])
    features = {
        "image": tfds.features.Image(shape=(16, 16, 3), encoding_format="jpeg"),
        "label": tfds.features.ClassLabel(names=["a/b", "c"]),
    }
    packed(tmp_path, "pair", {"train": dataset(images, labels), "test": dataset(images[:2], labels[:2])}, **features)
    album = photos.load("pair", home=tmp_path, progress=False)
    assert (len(album.train), len(album.validation)) == (6, 2)
    assert album.classes == ("a/b", "c")


def test_a_set_of_png_images_is_copied_as_png_files(tmp_path):
    import tensorflow as tf
    import tensorflow_datasets as tfds

    images, labels = np.random.default_rng(0).integers(0, 255, (4, 8, 8, 1), np.uint8), np.array([0, 1, 0, 1])
    features = {
        "image": tfds.features.Image(shape=(8, 8, 1), encoding_format="png"),
        "label": tfds.features.ClassLabel(num_classes=2),
    }
    packed(tmp_path, "pngs", {"train": dataset(images, labels)}, **features)
    for _ in range(2):
        album = photos.load("pngs", home=tmp_path, progress=False)
        assert [Path(path).suffix for path in album.paths] == [".png"] * 4
    decoded = [tf.io.decode_jpeg(tf.io.read_file(path), 3).numpy() for path in album.paths]
    assert sorted(map(np.sum, decoded)) == sorted(3 * images.sum((1, 2, 3), int))


def test_a_set_without_labels_is_refused_in_one_sentence(tmp_path):
    import tensorflow as tf
    import tensorflow_datasets as tfds

    packed(
        tmp_path,
        "bare",
        {"train": tf.data.Dataset.from_tensor_slices({"image": np.zeros((2, 8, 8, 3), np.uint8)})},
        image=tfds.features.Image(shape=(8, 8, 3), encoding_format="jpeg"),
    )
    with pytest.raises(ValueError, match="the TFDS set 'bare' has no class label in its features"):
        photos.load("bare", home=tmp_path, progress=False)


@pytest.mark.parametrize("name", ["mnist", "imagenet2012", "food101:2.0.0", "imagenette/320px-v2"])
def test_a_set_that_is_not_prepared_is_one_sentence_at_once(tmp_path, name, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "elsewhere"))
    with pytest.raises(ValueError, match=f"'{name}' is no folder here and no TFDS set prepared in "):
        photos.load(name, home=tmp_path)


def test_the_newest_version_and_the_default_configuration_are_found(tmp_path):
    for folder in ("a/x/1.0.0", "a/x/1.10.0", "a/x/1.9.0", "a/y/3.0.0", "b/2.0.0"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "features.json").touch()
    assert tfds_sets.find("b", [tmp_path]) == tmp_path / "b/2.0.0"
    assert tfds_sets.find("a/x", [tmp_path]) == tmp_path / "a/x/1.10.0"
    assert tfds_sets.find("a/x:1.9.0", [tmp_path]) == tmp_path / "a/x/1.9.0"
    assert tfds_sets.find("a/z", [tmp_path]) is None
    with pytest.raises(ValueError, match=r"'a' has several configurations in .*; name one: a/x, a/y"):
        tfds_sets.find("a", [tmp_path])
    (tmp_path / "a/.config").mkdir()
    (tmp_path / "a/.config/metadata.json").write_text('{"default_config_name": "y"}')
    assert tfds_sets.find("a", [tmp_path]) == tmp_path / "a/y/3.0.0"
