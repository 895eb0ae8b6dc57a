"""What a notebook gets: paths, labels, classes, sizes, from the lab's set or a folder of the reader's own."""

import io
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from labkit.sources import photos
from labkit.sources import pixels as labkit_pixels
from labkit.sources.photo_files import generator


@pytest.fixture
def own(tmp_path):
    """Ten photos of the reader's: names with a space, an umlaut, capitals, and what systems leave behind."""
    for index in range(6):
        path = tmp_path / "my photos" / ("Äpfel und Birnen" if index % 2 else "cats") / f"IMG {index}.JPG"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(generator.make(index))
    root = tmp_path / "my photos"
    for litter in (".DS_Store", "cats/.DS_Store", "cats/Thumbs.db", "cats/desktop.ini", "LICENSE.txt"):
        (root / litter).write_text("left by a system")
    (root / "__MACOSX").mkdir()
    (root / ".ipynb_checkpoints").mkdir()
    return root


def test_the_lab_s_own_set_is_described(album):
    assert len(album) == 160
    assert album.classes == generator.CLASSES
    assert [Path(path).parent.name for path in album.paths[:12]] == [*generator.CLASSES, "balloon", "boat"]
    assert album.labels.dtype == album.sizes.dtype == np.int64
    assert list(album.sizes) == [os.path.getsize(path) for path in album.paths]
    assert len(album.train) == 140
    assert len(album.validation) == 20
    assert not set(album.train.paths) & set(album.validation.paths)
    assert set(np.bincount(album.validation.labels)) == {2}


def test_repr_and_summary_are_stable_and_tell_what_is_there():
    first, second = (photos.load(scale="tiny", progress=False) for _ in range(2))
    assert repr(first) == repr(second)
    assert re.fullmatch(r"Photos\(lab_photos/tiny, 160 photos, 10 classes, \d+\.\d MB\)", repr(first))
    assert "140 train, 20 validation" in first.summary()
    assert "balloon 16" in first.summary()


def test_files_is_a_dataset_of_paths_and_labels_that_plain_tf_data_reads(album):
    import tensorflow as tf

    listed = list(album.files().as_numpy_iterator())
    assert [path.decode() for path, _ in listed] == list(album.paths)
    assert [int(label) for _, label in listed] == album.labels.tolist()
    assert album.files().element_spec[1].dtype == tf.int64
    path, _ = next(iter(album.files()))
    assert tf.io.decode_jpeg(tf.io.read_file(path), channels=3).shape[-1] == 3


def test_taking_a_few_keeps_all_classes_and_refuses_more_than_there_are(album):
    assert set(album.take(10).labels) == set(range(10))
    for count in (0, -1, 161):
        with pytest.raises(ValueError, match=f"count is {count}; allowed: .*1 to 160 of lab_photos/tiny"):
            album.take(count)


def test_photos_are_picked_by_numbers_or_by_a_mask_and_by_nothing_else(album):
    boats = album.reordered(album.labels == 1)
    assert boats.paths == tuple(path for path in album.paths if Path(path).parent.name == album.classes[1])
    assert set(boats.labels) == {1}
    assert album.reordered(np.array([159, 0], np.uint8)).paths == (album.paths[159], album.paths[0])
    assert len(album.reordered([])) == len(album.reordered([False] * 160)) == 0
    for rows, value in (([-1], "-1"), ([0, 160], "160"), ([1.0], "1.0"), ([True, False], "True"), (["a"], "'a'")):
        with pytest.raises(ValueError, match=f"^a row is {value}; allowed: .* 0 to 159 of lab_photos/tiny, or a mask"):
            album.reordered(rows)


def test_columns_cannot_be_changed_by_accident(album):
    with pytest.raises(ValueError, match="read-only"):
        album.labels[0] = 3


def test_scale_comes_from_the_environment_and_an_unknown_one_is_named(album, monkeypatch):
    monkeypatch.setenv("LABKIT_SCALE", "tiny")
    assert len(photos.load(progress=False)) == 160
    monkeypatch.setenv("LABKIT_SCALE", "huge")
    with pytest.raises(ValueError, match="LABKIT_SCALE is 'huge'; allowed: tiny, small, full"):
        photos.load()
    with pytest.raises(ValueError, match="scale is ''; allowed: tiny, small, full"):
        photos.load(scale="")


def test_home_is_what_labkit_data_says_else_build_data_of_the_checkout(monkeypatch, tmp_path, root):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "here"))
    assert photos.home() == tmp_path / "here"
    monkeypatch.setenv("LABKIT_DATA", "~/there")
    assert photos.home() == Path("~/there").expanduser()
    monkeypatch.delenv("LABKIT_DATA")
    assert photos.home() == root / "build" / "data"


# -- a folder of the reader's own -----------------------------------------------


def test_a_folder_gives_a_class_per_subfolder_and_passes_over_what_systems_leave(own):
    album = photos.load(own)
    assert album.name == "my photos"
    assert album.classes == ("cats", "Äpfel und Birnen")
    assert [Path(path).name for path in album.paths] == [f"IMG {n}.JPG" for n in range(6)]
    assert album.labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert len(list(album.files())) == 6
    assert album.note is None


@pytest.mark.parametrize(
    "spell", [str, Path, lambda p: f"~/{p.name}", os.path.relpath], ids=["str", "Path", "~", "relative"]
)
def test_a_folder_may_be_spelled_in_every_usual_way(own, spell, monkeypatch):
    monkeypatch.setenv("HOME", str(own.parent))
    assert len(photos.load(spell(own))) == 6


def test_a_plain_name_is_a_folder_where_there_is_one(own, monkeypatch):
    monkeypatch.chdir(own.parent)
    own.rename(own.parent / "mine")
    assert len(photos.load("mine")) == 6


def test_every_eighth_photo_of_a_class_is_held_out(tmp_path):
    jpeg = generator.make(3)
    for name, count in (("a", 17), ("b", 7)):
        (tmp_path / name).mkdir()
        for number in range(count):
            (tmp_path / name / f"{number:02d}.jpg").write_bytes(jpeg)
    album = photos.load(tmp_path)
    assert [Path(path).stem for path in album.validation.paths] == ["07", "15"]
    assert len(album.train) == 22


def spoil(own, what):
    bad = own / "cats" / "bad.jpg"
    good = generator.make(0)
    if what == "text":
        bad.write_text("I am no photo")
    elif what == "cut short":
        bad.write_bytes(good[: len(good) // 2])
    elif what == "cut short behind a thumbnail":
        # As a camera has it: a small picture with an end of its own, in the header.
        camera = b"Exif\0\0" + generator.make(1)[:3000] + b"\xff\xd9"
        segment = b"\xff\xe1" + (len(camera) + 2).to_bytes(2, "big") + camera
        bad.write_bytes(good[:2] + segment + good[2 : len(good) // 2])
    elif what == "cut in the header":
        bad.write_bytes(good[:100])
    elif what == "text between markers":
        bad.write_bytes(b"\xff\xd8\xff" + b"Iam no photo at all" * 9 + b"\xff\xd9")
    elif what == "line break":
        bad = own / "cats" / "two\nlines.jpg"
        bad.touch()
    elif what == "loop":
        bad.symlink_to(bad)
    elif what == "broken link":
        bad.symlink_to(own / "nowhere")
    elif what == "nested folder":
        bad.mkdir()
    elif what == "loose photo":
        bad = own / "loose.jpeg"
        bad.write_bytes(good)
    elif what == "empty class":
        bad = own / "dogs"
        bad.mkdir()
    return bad


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("text", r"bad\.jpg is not a JPEG or PNG file but something else \(it starts with b'I am no '\)"),
        ("cut short", r"bad\.jpg is cut short: it has no end-of-image marker"),
        ("cut short behind a thumbnail", r"bad\.jpg is cut short: it has no end-of-image marker"),
        ("cut in the header", r"bad\.jpg is cut short: it ends inside its header"),
        ("text between markers", r"bad\.jpg is a damaged JPEG file: no segment of a header begins at byte 2"),
        ("line break", r"two\\nlines\.jpg' is an empty file"),
        ("loop", r"bad\.jpg cannot be read: Too many levels of symbolic links"),
        ("broken link", r"bad\.jpg is not a file: its link leads nowhere"),
        ("nested folder", r"bad\.jpg is a folder within a class: the layout is my photos/<class>/<photo>\.jpg"),
        ("loose photo", r"loose\.jpeg lies outside a class"),
        ("empty class", r"dogs is empty: a class needs at least one photo, JPEG or PNG"),
    ],
)
def test_what_is_not_a_photo_is_one_sentence_that_names_it(own, what, sentence):
    bad = spoil(own, what)
    with pytest.raises(ValueError, match=sentence) as caught:
        photos.load(own)
    assert repr(str(bad))[1:-1] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_bad_files_are_named_at_once(own):
    bad = [own / "cats" / f"bad {n:02d}.jpg" for n in range(60)]
    for path in bad:
        path.write_bytes(b"GIF89a")
    loose = spoil(own, "loose photo")
    with pytest.raises(
        ValueError, match=r"^61 files are not photos \(photos\.load\(…, skip_bad=True\) goes.*:\n"
    ) as caught:
        photos.load(own)
    listed = str(caught.value).splitlines()[1:]
    assert listed[-1] == "  and 11 more"
    assert str(loose) in listed[0]
    assert listed[1:-1] == [
        f"  {path} is not a JPEG or PNG file but a GIF image: convert it or take it away" for path in bad[:49]
    ]


def png(mode, **how):
    """Return a drawing as a PNG file of a mode of Pillow, and its pixels as colours."""
    drawn = Image.open(io.BytesIO(generator.make(2))).resize((40, 30)).convert(mode)
    drawn.save(file := io.BytesIO(), "PNG", **how)
    return file.getvalue(), np.asarray(drawn.convert("RGB"))


def grey_of_16_bits():
    import tensorflow as tf

    return tf.io.encode_png(np.arange(1200, dtype=np.uint16).reshape(30, 40, 1) * 50).numpy()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1"])
def test_png_photos_stand_beside_jpeg_ones_and_are_decoded_alike(own, mode):
    import tensorflow as tf

    data, pixels = png(mode)
    (own / "cats" / "drawn.PNG").write_bytes(data)
    (own / "cats" / "longer.png").write_bytes(data + bytes(5000))
    album = photos.load(own)
    assert len(album) == 8
    assert album.note is None
    for name in ("drawn.PNG", "longer.png"):
        [path] = [path for path in album.paths if path.endswith(name)]
        assert np.array_equal(tf.io.decode_jpeg(tf.io.read_file(path), 3, dct_method="INTEGER_ACCURATE"), pixels)
    small = labkit_pixels.of(album, 8, progress=False)
    assert small.images.shape == (8, 8, 8, 3)


@pytest.mark.parametrize(
    ("spoiled", "sentence"),
    [
        (lambda data: data[: len(data) // 2], "is cut short: it has no end-of-image marker"),
        (lambda data: data[:20], "is cut short: it ends inside its header"),
        (lambda data: data[:20] + b"\xff" + data[21:], "is a damaged PNG file: its header does not agree"),
        (lambda data: grey_of_16_bits(), "is a grey PNG of 16 bits, which libraries turn into 8 bits"),
    ],
)
def test_a_png_that_cannot_be_read_alike_everywhere_is_one_sentence(own, spoiled, sentence):
    (own / "cats" / "bad.png").write_bytes(spoiled(png("RGB")[0]))
    with pytest.raises(
        ValueError, match=rf"bad\.png {sentence}.*; photos\.load\(…, skip_bad=True\) goes on without it$"
    ):
        photos.load(own)


@pytest.mark.parametrize("what", ["text", "cut short", "nested folder", "loose photo", "broken link"])
def test_bad_files_are_left_out_where_that_is_asked_for_and_named(own, what):
    bad = spoil(own, what)
    album = photos.load(own, skip_bad=True)
    assert len(album) == 6
    assert str(bad) not in album.paths
    assert re.match(rf"left out, as no photos \(1 in all\): .*{re.escape(bad.name)} ", album.note)


def test_a_class_of_bad_files_is_refused_all_the_same(own):
    (own / "dogs").mkdir()
    (own / "dogs" / "a.jpg").write_text("I am no photo")
    with pytest.raises(ValueError, match=r"dogs holds no whole photo, and a class needs at least one: .*a\.jpg is not"):
        photos.load(own, skip_bad=True)


@pytest.mark.parametrize(("source", "error"), [("", ValueError), (None, TypeError), (5, TypeError), (b"d", TypeError)])
def test_what_names_no_photos_is_one_sentence(source, error, own, monkeypatch):
    monkeypatch.chdir(own)
    with pytest.raises(error, match=rf"source is {source!r}; allowed: 'lab_photos', a folder, .*TFDS"):
        photos.load(source)


def test_a_camera_may_write_more_behind_the_end_of_the_image(own):
    path = own / "cats" / "IMG 0.JPG"
    path.write_bytes(path.read_bytes() + bytes(5000))
    assert len(photos.load(own)) == 6


def test_missing_empty_and_mistaken_folders_are_one_sentence_each(own, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="there is no folder /no/such/place"):
        photos.load("/no/such/place")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        photos.load("./lab photos")
    with pytest.raises(ValueError, match="empty is empty: put each class into a folder of its own"):
        photos.load(tmp_path / "empty")
    with pytest.raises(NotADirectoryError, match=r"IMG 0\.JPG is a file; name the folder"):
        photos.load(own / "cats" / "IMG 0.JPG")
    with pytest.raises(ValueError, match=r"IMG 0\.JPG lies outside a class"):
        photos.load(own / "cats")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("a")
    with pytest.raises(ValueError, match=r"notes holds no folder of photos"):
        photos.load(tmp_path / "notes")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such a name themselves")
def test_a_name_that_is_not_utf8_is_named(own):
    with open(os.fsencode(own / "cats") + b"/b\xe4d.jpg", "wb") as file:
        file.write(generator.make(0))
    with pytest.raises(ValueError, match=r"is not UTF-8: rename"):
        photos.load(own)


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"labels has shape \(1,\); there are 2 paths"):
        photos.Photos("x", ("a", "b"), np.zeros(1), ("c",), np.zeros(2), np.zeros(2))
