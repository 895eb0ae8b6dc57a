"""Photos as pixels in memory: as an image library makes them, kept, and resumed."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from labkit import photos, pixels
from labkit.sources.photo_files import generator
from labkit.sources.pixels import PART, shrink


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    return tmp_path


def by_pil(data, size):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB").resize((size, size), Image.Resampling.BILINEAR))


def test_the_resize_reads_every_pixel_as_image_libraries_do(album):
    for path in album.paths[:6]:
        data = Path(path).read_bytes()
        difference = np.abs(shrink(data, 48).numpy().astype(int) - by_pil(data, 48))
        assert difference.mean() < 1, "grey levels"
        assert difference.max() <= 8


def test_pixels_are_those_of_the_photos_in_their_order(album):
    few = album.take(20)
    found = pixels.of(few, 16, progress=False)
    assert found.images.shape == (20, 16, 16, 3)
    assert found.images.dtype == np.uint8
    assert (found.labels == few.labels).all()
    again = pixels.of(few.reordered([3, 1]), 16, progress=False)
    assert (again.images == found.images[[3, 1]]).all()
    assert len(found.take(found.labels == found.labels[0])) == (few.labels == few.labels[0]).sum()
    assert repr(found) == "SmallPhotos(20 photos of 16×16, 10 classes)"


@pytest.mark.long
def test_held_out_photos_are_of_another_seed_and_made_once(own_home):
    first = pixels.held_out(12, size=16, progress=False)
    assert (first.labels == [generator.plan(i, 1).label for i in range(12)]).all()
    assert (first.images[5] == shrink(generator.make(5, 1), 16).numpy()).all()
    files = {file: file.stat().st_mtime_ns for file in own_home.rglob("*.npy")}
    assert (pixels.held_out(12, size=16, progress=False).images == first.images).all()
    assert {file: file.stat().st_mtime_ns for file in own_home.rglob("*.npy")} == files
    assert (pixels.held_out(12, seed=2, size=16, progress=False).images != first.images).any()


@pytest.mark.long
def test_readings_are_other_ways_to_read_the_same_photos(own_home, monkeypatch):
    painted = []
    data = {i: generator.make(i, 1) for i in range(30)}
    monkeypatch.setattr(generator, "make", lambda i, seed: painted.append(i) or data[i])
    found = pixels.readings(30, size=24, progress=False)
    assert painted == list(range(30)), "each photo is painted once for all readings"
    assert set(found) == set(pixels.READINGS)
    right = pixels.held_out(30, size=24, progress=False).images.astype(int)
    away = {name: np.abs(one.images - right).mean((1, 2, 3)) for name, one in found.items()}
    for name in ("Pillow", "fast DCT", "mean of areas"):
        assert away[name].max() < 6, f"{name}: all pixels of the photo are read"
    for name in ("no antialias", "nearest neighbour", "letterbox"):
        assert away[name].mean() > 6, f"{name}: another picture"
    assert (found["Pillow"].images[7] == by_pil(data[7], 24)).all()
    orientation = [Image.open(io.BytesIO(data[i])).getexif().get(0x0112, 1) for i in range(30)]
    turned = (found["turned as EXIF says"].images != found["Pillow"].images).any((1, 2, 3))
    assert turned.tolist() == [one != 1 for one in orientation]
    assert any(turned)


@pytest.mark.long
def test_work_that_was_interrupted_goes_on(own_home, monkeypatch):
    made, count = [], PART + 5

    def paint(number, seed):
        if len(made) == PART + 3:
            raise KeyboardInterrupt
        made.append(number)
        return DATA

    file = io.BytesIO()
    Image.new("RGB", (20, 20), (9, 90, 200)).save(file, "JPEG")
    DATA = file.getvalue()
    monkeypatch.setattr(generator, "make", paint)
    with pytest.raises(KeyboardInterrupt):
        pixels.held_out(count, size=8, progress=False)
    assert [file.name for file in own_home.rglob("*.npy")] == [f"0-{PART}.npy"], "a part is whole or not there"
    assert not list(own_home.rglob("*.part"))
    made.clear()
    assert len(pixels.held_out(count, size=8, progress=False)) == count
    assert made == list(range(PART, count))


def test_a_part_that_is_damaged_is_made_again(own_home):
    first = pixels.held_out(4, size=8, progress=False)
    (file,) = own_home.rglob("*.npy")
    file.write_bytes(file.read_bytes()[:100])
    assert (pixels.held_out(4, size=8, progress=False).images == first.images).all()


def test_smaller_pixels_are_the_mean_of_larger_ones(album):
    found = pixels.of(album.take(2), 48, progress=False)
    small = found.shrunk(3)
    assert small.images.shape == (2, 16, 16, 3)
    assert small.images[1, 2, 5, 0] == round(found.images[1, 6:9, 15:18, 0].mean())
    with pytest.raises(ValueError, match="factor is 5"):
        found.shrunk(5)


@pytest.mark.parametrize(
    ("wrong", "names"), [({"count": 0}, "count is 0"), ({"seed": 0}, "seed is 0"), ({"size": 4}, "size is 4")]
)
def test_wrong_arguments_are_named(wrong, names):
    with pytest.raises(ValueError, match=names):
        pixels.held_out(**{"count": 2, **wrong}, progress=False)


def test_a_photo_that_cannot_be_decoded_is_named(tmp_path):
    folder = tmp_path / "own" / "cats"
    folder.mkdir(parents=True)
    data = bytearray(generator.make(2))
    data[data.index(b"\xff\xc0") + 4] = 12  # bits of a colour: a whole JPEG file, which few decoders read
    (folder / "a.jpg").write_bytes(generator.make(1))
    (folder / "b.jpg").write_bytes(data)
    with pytest.raises(ValueError, match=r"^\S+/cats/b\.jpg cannot be decoded: InvalidArgumentError: [^{\n]*$"):
        pixels.of(photos.load(folder.parent, progress=False), 16, progress=False)


def test_a_part_of_an_album_that_holds_no_photo_has_no_pixels(album):
    with pytest.raises(ValueError, match="lab_photos/tiny, validation holds no photo; allowed: "):
        pixels.of(album.take(10).validation, progress=False)
