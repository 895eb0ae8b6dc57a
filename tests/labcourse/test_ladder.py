"""The rungs do equal work, are what the notebooks teach, and the scoreboard tells them apart."""

from __future__ import annotations

import ast
import importlib
import linecache
import symtable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import labkit
from labcourse import ladder
from labkit.pipelines import augment
from labkit.recording import accelerators, recorder
from tour import RUNGS


def batches(dataset, count):
    return [(images.numpy(), labels.numpy()) for images, labels in dataset.take(count)]


@pytest.mark.long
def test_every_rung_delivers_the_same_labels_in_the_same_order(album):
    """Into the second epoch, which caches serve from memory."""
    few = album.take(2 * ladder.BATCH)
    want = [labels.tolist() for _, labels in batches(ladder.RUNGS[0].build(few), 3)]
    for rung in ladder.RUNGS[1:]:
        got = batches(rung.build(few), 3)
        assert [labels.tolist() for _, labels in got] == want, rung.name


@pytest.mark.random
@pytest.mark.sample(1)
@pytest.mark.parametrize("rung", ladder.RUNGS, ids=lambda rung: rung.name)
def test_augmentation_is_fresh_every_epoch(album, rung):
    one = album.take(ladder.BATCH)
    first, second = batches(rung.build(one), 2)
    assert sorted(first[1]) == sorted(second[1])
    assert not np.allclose(np.sort(first[0].mean((1, 2, 3))), np.sort(second[0].mean((1, 2, 3))), atol=1e-3)


@pytest.mark.sample(1)
@pytest.mark.parametrize("rung", [r for r in ladder.RUNGS if r.cached], ids=lambda rung: rung.name)
def test_a_filled_cache_needs_its_files_no_more(album, rung, tmp_path):
    """Later epochs come from memory: the files and shards may be gone, and the batches are still whole."""
    copies = []
    for row, path in enumerate(album.paths[: ladder.BATCH]):
        copies.append(tmp_path / f"{row:03d}.jpg")
        copies[-1].write_bytes(Path(path).read_bytes())
    own = replace(album.take(ladder.BATCH), paths=tuple(map(str, copies)))
    dataset = rung.build(own)
    ladder.fill(dataset, own)
    for path in [*copies, *map(Path, ladder.packed(own).paths if rung.name == "best" else ())]:
        path.unlink()
    assert len(batches(dataset, 3)) == 3


def test_shards_of_another_album_lie_elsewhere(album):
    few, fewer = (ladder.packed(album.take(n)) for n in (40, 20))
    assert not set(few.paths) & set(fewer.paths)
    assert few.count == 40
    assert ladder.packed(album.take(40)) == few, "packed once"


def test_the_order_of_shards_is_the_order_of_all_rungs(album):
    rows = ladder.order(len(album))
    assert sorted(rows) == list(range(len(album)))
    paths = [path.numpy().decode() for path, _ in ladder.epoch(album)]
    assert paths == [album.paths[row] for row in rows]


@pytest.mark.long
def test_the_graph_that_runs_is_the_graph_that_is_named(album):
    """Not the clock but the nodes: naive has neither a prefetch nor anything fused or parallel."""
    graphs = {rung.name: recorder.graph(rung.build(album)) for rung in ladder.RUNGS}
    naive = " ".join(graphs["naive"])
    assert not any(word in naive for word in ("Prefetch", "MapAndBatch", "Parallel"))
    assert any(
        word in " ".join(graphs["naive, tf.data's defaults"]) for word in ("Prefetch", "MapAndBatch", "Parallel")
    )
    assert any("ParallelInterleave" in node for node in graphs["parallel interleave"])
    for name in ("parallel map, the guide", "vectorized map", "TFRecords", "best"):
        assert any("MapAndBatch" in node or "ParallelMap" in node for node in graphs[name]), name
    assert any("TFRecord" in node for node in graphs["TFRecords"])
    for name in ("prefetch(1)", "prefetch(AUTOTUNE)"):
        assert "Root::Prefetch" in graphs[name]
        assert not any(word in " ".join(graphs[name]) for word in ("MapAndBatch", "Parallel"))


@pytest.mark.long
def test_the_scoreboard_has_a_row_for_every_rung_on_equal_work(album):
    few = album.take(2 * ladder.BATCH)
    board = ladder.scoreboard(few, accelerators.modelled(step_ms=5), rounds=1, steps=2, progress=False)
    assert list(board) == [rung.name for rung in ladder.RUNGS]
    assert all(board.equal_work(name) == "yes" for name in list(board)[1:])
    head = board.table().head
    assert head == ("pipeline", "images/s", "speed-up over naive", "over the row above", "verdict (row above)")
    assert {rung.notebook for rung in ladder.RUNGS} <= {p.stem for p in notebooks()}
    drawn = ladder.traces(board, few, accelerators.modelled(step_ms=5))
    assert list(drawn) == [*board, ladder.MODELLED]
    assert [name for name, trace in drawn.items() if trace.run.origin == "modelled"] == [ladder.MODELLED]
    assert "stand-in" in ladder.OFFLOADED


@pytest.mark.long
def test_where_no_card_can_run_its_rung_is_left_out_with_a_sentence(album, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    monkeypatch.setenv("LABKIT_OPENCL_DEVICE", "a device that nobody has")
    few = album.take(ladder.BATCH)
    pipelines = ladder.build(few)
    assert list(pipelines) == [rung.name for rung in ladder.RUNGS if rung.name != ladder.OFFLOADED]
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert said.startswith(f"{ladder.OFFLOADED}: left out, since no card can run here (")
    assert "a device that nobody has" in said
    # Of a scoreboard without that row, a modelled card is no row either.
    board = {"naive": None}
    assert ladder.traces(SimpleBoard(board), few, None) == board


class SimpleBoard(dict):
    """A scoreboard of names."""

    def trace(self, name):
        return self[name]


def notebooks():
    return (Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb")


# -- the notebooks' own pipelines ------------------------------------------------------------

SOURCES = Path(__file__).resolve().parents[2] / "notebooks" / "source"

#: The pipeline of a rung in the names of its notebook; 03 stops at the bytes of photos, and 07 at their pixels.
CELLS = {
    "naive": "naive",
    "naive, tf.data's defaults": "as_it_comes",
    "prefetch(1)": "overlapped",
    "prefetch(AUTOTUNE)": "plain(files.map(load).batch(32).prefetch(tf.data.AUTOTUNE))",
    "parallel interleave": "on_disk['parallel, cycle 16']",
    "parallel map, the guide": "files.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(32)",
    "cache of pixels": "cached",
    "vectorized map": "on_photos['compiled']",
    "TFRecords": "tf.data.TFRecordDataset(packed.paths).map(parse).map(decode)",
    "offload, stand-in for a card": "job(on_card, unpack)",
}
TAUGHT = [rung for rung in ladder.RUNGS if rung.name in CELLS]


def names(statement):
    """Return the global names that a statement binds or changes, and those that it reads, in functions as well."""
    module = symtable.symtable(ast.unparse(statement), "a statement", "exec")
    bound = {s.get_name() for s in module.get_symbols() if s.is_assigned() or s.is_imported()}
    read = {s.get_name() for s in module.get_symbols() if s.is_referenced()}
    inner = list(module.get_children())
    while inner:
        table = inner.pop()
        read |= {s.get_name() for s in table.get_symbols() if s.is_global()}
        inner += table.get_children()
    for node in ast.walk(statement):  # options.autotune.enabled = False changes options
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            while isinstance(node, (ast.Attribute, ast.Subscript)):
                node = node.value
            bound |= {node.id} if isinstance(node, ast.Name) else set()
    return bound, read


def evaluated(source, expression, **given):
    """Return the value of an expression after those statements of a notebook that it depends on, and their names.

    A name may hold a folder that is deleted with it.
    """
    wanted, kept = names(ast.parse(expression).body[0])[1], []
    for statement in reversed(ast.parse(source).body):
        bound, read = names(statement)
        if (bound - set(given)) & wanted:
            kept.append(statement)
            wanted |= read
    space = {"labkit": labkit, **given}
    cells = ast.unparse(ast.Module(kept[::-1], []))
    file = f"<cells {hash(cells)}>"
    linecache.cache[file] = (len(cells), None, cells.splitlines(keepends=True), file)  # AutoGraph reads it again
    exec(compile(cells, file, "exec"), space)
    return eval(expression, space), space


def photos_of(dataset, few):
    """Return (row in the album, label) of each photo of the first epoch; raise if it is no version of a photo.

    Pixels of the walk's own size may be flipped, brighter and more or less saturated, as notebook 01 draws it.
    """
    jpegs = tuple(Path(path).read_bytes() for path in few.paths)
    if len(dataset.element_spec[1].shape) == 1:
        dataset = dataset.unbatch()
    found = []
    for photo, label in dataset.take(len(few)).as_numpy_iterator():
        if isinstance(photo, bytes):
            row = jpegs.index(photo)
        elif photo.dtype == np.uint8:
            row = next(row for row, pixels in enumerate(decoded(jpegs)) if np.array_equal(photo, pixels))
        else:
            row = augmented_from(photo, jpegs)
        found.append((row, int(label)))
    return sorted(found)


@lru_cache
def decoded(jpegs):
    return [ladder.decode(jpeg).numpy() for jpeg in jpegs]


@lru_cache
def bases(jpegs):
    """Return photos in the walk's own size, and the patterns of them and of their mirror images."""
    small = np.stack([ladder.shrink(jpeg).numpy() for jpeg in jpegs])
    return small, np.concatenate([pattern(small), pattern(small[:, :, ::-1])])


def augmented_from(image, jpegs):
    """Return the row of the photo that an image was made of, after the drawn numbers are found in its pixels."""
    small, patterns = bases(jpegs)
    flip, row = divmod(int(np.argmax(patterns @ pattern(image[None])[0])), len(small))
    base = (small[row][:, ::-1] if flip else small[row]) / 255
    (low, high), (dark, bright) = extremes(image), extremes(base)
    free = (high < 0.99) & (low > 0.01)
    delta = np.median((high - bright)[free])
    chroma, before = (high - low)[free], (bright - dark)[free]
    colour = float(before @ before)
    factor = float(chroma @ before) / colour if colour > 1 else 1.0  # of a grey photo nobody can tell
    assert abs(delta) <= augment.BRIGHTNESS + 0.01
    assert augment.SATURATION[0] - 0.03 <= factor <= augment.SATURATION[1] + 0.03
    drawn = (tf.constant([bool(flip)]), tf.constant([delta], tf.float32), tf.constant([factor], tf.float32))
    again = augment.compiled()(small[row][None], *drawn).numpy()
    # Notebook 05 leaves saturation out, and what is clipped then differs.
    assert np.abs(again[0] - image)[free].max() < 2 * augment.TOLERANCE_UINT8, "not the pixels of any photo"
    return row


def extremes(images):
    """Return the smallest and the largest channel of each pixel, ten times as fast as ``images.min(-1)``."""
    red, green, blue = np.moveaxis(images, -1, 0)
    return np.minimum(np.minimum(red, green), blue), np.maximum(np.maximum(red, green), blue)


def pattern(images):
    """Return what neither brightness nor saturation changes: where the largest channel is high and where low."""
    n, height, width, _ = images.shape
    blocks = extremes(images)[1].reshape(n, height // 16, 16, width // 16, 16).mean((2, 4)).reshape(n, -1)
    blocks = blocks - blocks.mean(1, keepdims=True)
    return blocks / np.linalg.norm(blocks, axis=1, keepdims=True)


def notebook_of(rung):
    return (SOURCES / f"{rung.notebook}.py").read_text(encoding="utf-8")


@pytest.fixture
def few(album, tmp_path, monkeypatch):
    """A batch of photos, and a data folder of its own for the shards that notebooks and rungs write."""
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    return album.take(ladder.BATCH)


@pytest.mark.random
@pytest.mark.long
@pytest.mark.parametrize("rung", TAUGHT, ids=lambda rung: rung.name)
def test_a_rung_delivers_the_elements_of_the_notebook_that_teaches_it(rung, few):
    taught, _names = evaluated(notebook_of(rung), CELLS[rung.name], album=few, everything=few)
    every = [(row, int(label)) for row, label in enumerate(few.labels)]
    assert photos_of(taught, few) == photos_of(rung.build(few), few) == every


def test_every_rung_but_those_that_put_others_together_is_taught():
    assert {rung.name for rung in ladder.RUNGS} - set(CELLS) == {"best", "best, cache of pixels"}


def test_the_page_of_a_tour_has_a_sentence_for_each_rung():
    assert set(RUNGS) == {rung.name for rung in ladder.RUNGS} | {ladder.MODELLED}


@pytest.fixture
def around_opencv(monkeypatch):
    """The pipeline that a benchmark compares other loaders with."""
    monkeypatch.syspath_prepend(str(SOURCES.parents[1] / "benchmarks"))
    return importlib.import_module("loaders").around_opencv


@pytest.mark.long
def test_the_rung_around_opencv_loads_the_same_photos_in_the_same_order(album, monkeypatch, around_opencv):
    few = album.take(2 * ladder.BATCH)
    want = [labels.tolist() for _, labels in batches(ladder.RUNGS[0].build(few), 3)]
    assert [labels.tolist() for _, labels in batches(around_opencv(few), 3)] == want

    def nothing(count):
        return tf.zeros(count, tf.bool), tf.zeros(count), tf.ones(count)

    monkeypatch.setattr(augment, "draws", nothing)
    epoch = ladder.epoch(few).batch(ladder.BATCH)
    for (fast, _), paths in zip(batches(around_opencv(few), 2), epoch, strict=True):
        exact = np.stack([ladder.shrink(tf.io.read_file(path)).numpy() for path in paths[0]])
        # The fast transform is a level darker; fast colours differ at the edges of colours.
        assert abs((fast - exact).mean()) < 1.5
        assert np.abs(fast - exact).mean() < 2


@pytest.mark.random
def test_the_rung_around_opencv_augments_anew_in_each_epoch(album, around_opencv):
    first, second = batches(around_opencv(album.take(ladder.BATCH)), 2)
    assert first[0].dtype == np.uint8
    assert (np.abs(first[0].astype(int) - second[0]).mean((1, 2, 3)) > 1).sum() > ladder.BATCH / 2
