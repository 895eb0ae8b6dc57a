"""The rungs do equal work, are what their names say, and the scoreboard tells them apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labkit.course import ladder
from labkit.recording import accelerators, recorder
from tour import run, walk


def batches(dataset, count):
    return [(images.numpy(), labels.numpy()) for images, labels in dataset.take(count)]


def test_every_rung_delivers_the_same_labels_in_the_same_order(album):
    """Into the second epoch, which caches serve from memory."""
    few = album.take(2 * ladder.BATCH)
    want = [labels.tolist() for _, labels in batches(ladder.RUNGS[0].build(few), 3)]
    for rung in ladder.RUNGS[1:]:
        got = batches(rung.build(few), 3)
        assert [labels.tolist() for _, labels in got] == want, rung.name


def test_images_are_float32_in_range_and_of_the_stated_shape(album):
    for rung in ladder.RUNGS:
        images, labels = batches(rung.build(album), 1)[0]
        assert images.shape == (ladder.BATCH, ladder.SIDE, ladder.SIDE, 3)
        assert images.dtype == np.float32
        assert labels.dtype == np.int64
        assert images.min() >= 0
        assert images.max() <= 1
        assert images.std() > 0.05, "the pictures are not blank"


@pytest.mark.parametrize("rung", ladder.RUNGS, ids=lambda rung: rung.name)
def test_augmentation_is_fresh_every_epoch(album, rung):
    one = album.take(ladder.BATCH)
    first, second = batches(rung.build(one), 2)
    assert sorted(first[1]) == sorted(second[1])
    assert not np.allclose(np.sort(first[0].mean((1, 2, 3))), np.sort(second[0].mean((1, 2, 3))), atol=1e-3)


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


def test_the_scoreboard_has_a_row_for_every_rung_on_equal_work(album):
    few = album.take(2 * ladder.BATCH)
    board = ladder.scoreboard(few, accelerators.modelled(step_ms=5), rounds=1, steps=2, progress=False)
    assert list(board) == [rung.name for rung in ladder.RUNGS]
    assert all(board.equal_work(name) == "yes" for name in list(board)[1:])
    assert {rung.notebook for rung in ladder.RUNGS} <= {p.stem for p in notebooks()}


def notebooks():
    return (Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb")


def tiny_checkout(folder, *sources):
    import nbformat

    (folder / "notebooks").mkdir(parents=True)
    cells = [nbformat.v4.new_code_cell(s) for s in sources]
    path = folder / "notebooks" / "00_tiny.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def test_a_tour_keeps_every_picture_that_a_notebook_shows(tmp_path):
    path = tiny_checkout(
        tmp_path,
        "import labkit; from labkit.timeline.trace import Span, Trace",
        "span = Span('consumer', 'train step', 'train', 0, 5_000_000, 0)",
        "labkit.draw(Trace.from_spans([span], kinds={'consumer': 'consumer'}), title='Mine')",
    )
    run(path, tmp_path / "out" / path.name, tmp_path / "out" / "figures" / "00_tiny")
    (sidecar,) = (tmp_path / "out" / "figures" / "00_tiny").glob("*.json")
    assert json.loads(sidecar.read_text())["title"] == "Mine"
    for theme in ("light", "dark"):
        assert sidecar.with_name(f"{sidecar.stem}.{theme}.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "out" / path.name).read_text())["cells"][2]["outputs"]


def test_a_broken_notebook_is_named_and_kept_up_to_there(tmp_path):
    path = tiny_checkout(tmp_path, "6 * 7", "1 / 0")
    with pytest.raises(RuntimeError, match="00_tiny stopped at cell 1 of 2: ZeroDivisionError"):
        run(path, tmp_path / "out" / path.name, tmp_path / "figures")
    assert "42" in (tmp_path / "out" / path.name).read_text()


def test_a_tour_without_notebooks_says_so(tmp_path):
    with pytest.raises(ValueError, match="holds no notebooks"):
        walk(tmp_path / "out", root=tmp_path)
