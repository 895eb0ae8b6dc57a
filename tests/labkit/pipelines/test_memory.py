"""The memory of a cache is known before it is taken, and a cache that does not fit is refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.pipelines import memory


@given(n=st.integers(0, 500), height=st.integers(1, 64), width=st.integers(1, 64), batch=st.integers(1, 7))
@settings(max_examples=25)
def test_fixed_shapes_need_no_reading_and_add_up(n, height, width, batch):
    images = tf.data.Dataset.from_tensors(np.zeros((height, width, 3), np.uint8)).repeat(n).enumerate()
    found = memory.estimate(images)
    assert (found.elements, found.measured, found.error_bytes) == (n, 0, 0)
    assert found.bytes == n * (height * width * 3 + 8 + 2 * memory.OVERHEAD)
    whole = memory.estimate(images.batch(batch, drop_remainder=True))
    assert whole.bytes == n // batch * (batch * (height * width * 3 + 8) + 2 * memory.OVERHEAD)


def ragged_sizes():
    sizes = tf.data.Dataset.from_tensor_slices([10, 20, 30, 40])
    return sizes.map(lambda n: tf.ensure_shape(tf.zeros([n, n, 3], tf.uint8), [None, None, 3]))


def test_sizes_that_differ_are_measured():
    found = memory.estimate(ragged_sizes())
    assert found.measured == 4
    assert found.error_bytes == 0  # all were seen
    assert found.bytes == 3 * (100 + 400 + 900 + 1600) + 4 * memory.OVERHEAD
    part = memory.estimate(ragged_sizes(), sample=2)
    assert part.measured == 2
    assert part.high_bytes > part.bytes == 4 * (750 + memory.OVERHEAD)


def test_strings_count_with_their_text():
    texts = tf.data.Dataset.from_tensor_slices([b"x" * 1000, b"y" * 3000])
    assert memory.estimate(texts).bytes == 2 * (24 + 2000 + memory.OVERHEAD)


def test_ragged_batches_dicts_and_unknown_lengths_are_measured():
    rows = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1, 2, 3], [4], [5, 6]])).batch(2)
    assert memory.estimate(rows).bytes >= 6 * 4
    odd = tf.data.Dataset.range(10).filter(lambda i: i % 2 == 1).map(lambda i: {"x": tf.fill([100], i)})
    assert memory.estimate(odd).elements == 5
    with pytest.raises(ValueError, match=r"does not know how many .* say elements="):
        memory.estimate(odd, sample=3)
    assert memory.estimate(odd, elements=5, sample=3).bytes == 5 * (800 + memory.OVERHEAD)


def test_a_dataset_that_never_ends_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"never ends.*cache before repeat\(\)"):
        memory.cache(tf.data.Dataset.range(3).repeat())


def test_photos_are_estimated_close_to_their_real_size(album):
    decoded = album.files().map(lambda path, _: tf.io.decode_jpeg(tf.io.read_file(path), channels=3))
    real = sum(int(np.prod(image.shape)) for image in decoded.as_numpy_iterator())
    found = memory.estimate(decoded)
    assert (
        found.bytes - 2 * (found.high_bytes - found.bytes) < real < found.bytes + 2 * (found.high_bytes - found.bytes)
    )
    assert memory.estimate(album.files().map(lambda path, _: tf.io.read_file(path))).bytes == pytest.approx(
        album.sizes.sum(), rel=0.2
    )


GROWS = {
    "d.range(300).map(lambda i: tf.fill([224, 224, 3], tf.cast(i, tf.float32)))": 300,
    "d.range(100_000)": 100_000,
    "d.range(400).map(lambda i: tf.io.serialize_tensor(tf.fill([50_000], i)))": 400,
}


@pytest.mark.long
def test_the_estimate_is_what_a_process_really_grows_by():
    code = """if True:
        import psutil, sys; import tensorflow as tf; from labkit import memory; d = tf.data.Dataset
        for _ in d.range(9).map(lambda i: i): pass
        me, kept = psutil.Process(), []
        for made in sys.argv[1:]:
            data = eval(made); cached = data.cache(); kept.append(cached)  # what is given back would be used again
            before = me.memory_info().rss; n = int(cached.reduce(0, lambda n, _: n + 1))
            print(n, me.memory_info().rss - before, memory.estimate(data).bytes)"""
    done = subprocess.run([sys.executable, "-c", code, *GROWS], capture_output=True, text=True, check=True)
    for line, (made, elements) in zip(done.stdout.splitlines(), GROWS.items(), strict=True):
        n, grown, predicted = map(int, line.split())
        assert n == elements, made
        assert 0.6 < predicted / grown < 1.6, (made, predicted, grown)


def test_what_does_not_fit_is_refused_before_one_element_is_read():
    read = []

    def notice(i):
        read.append(int(i))
        return np.zeros((1000, 1000, 3), np.float32)

    def load(i):
        return tf.ensure_shape(tf.numpy_function(notice, [i], tf.float32), [1000, 1000, 3])

    huge = tf.data.Dataset.range(10**9).map(load)
    with pytest.raises(MemoryError, match=r"would take about 12000 TB|would take about .* TB") as refused:
        memory.cache(huge)
    assert not read
    text = str(refused.value)
    for word in ("1,000,000,000 elements of 12 MB", "free (", "cache earlier", "into a file"):
        assert word in text
    assert "\n" not in text


def test_what_fits_is_cached():
    data = tf.data.Dataset.range(5)
    assert list(memory.cache(data).as_numpy_iterator()) == [0, 1, 2, 3, 4]
    need = memory.estimate(data).bytes
    assert memory.guard(data, share=1, available_bytes=need).bytes == need
    with pytest.raises(MemoryError, match="as given"):
        memory.guard(data, share=1, available_bytes=need - 1)


def test_the_uncertainty_of_a_sample_counts_against_it():
    found = memory.estimate(ragged_sizes(), sample=3)
    assert found.bytes < found.high_bytes
    varied = ragged_sizes().repeat(100)
    with pytest.raises(MemoryError):
        memory.guard(varied, share=1, available_bytes=memory.estimate(varied).bytes)


def test_a_file_cache_asks_the_disk(tmp_path):
    data = tf.data.Dataset.range(5)
    assert list(memory.cache(data, tmp_path / "c").as_numpy_iterator()) == [0, 1, 2, 3, 4]
    assert list(tmp_path.glob("c.*"))
    huge = tf.data.Dataset.from_tensors(np.zeros((1000, 1000), np.float32)).repeat(10**9)
    with pytest.raises(OSError, match=r"free in .*: cache earlier"):
        memory.cache(huge, tmp_path / "huge")
    assert not list(tmp_path.glob("huge*"))
    with pytest.raises(FileNotFoundError, match="does not exist"):
        memory.cache(data, tmp_path / "no" / "c")


def test_choices_are_a_table_that_says_what_fits():
    small, large = memory.Estimate(100, 1000.0), memory.Estimate(10**9, 1e9)
    table = memory.choices({"bytes": small, "floats": large})
    assert table.bytes == {"bytes": 100_000, "floats": 10**18}
    first, second = repr(table).splitlines()[1:]
    assert (first.split()[0], first.split()[-1]) == ("bytes", "yes")
    assert (second.split()[0], second.split()[-1]) == ("floats", "no")
    assert table._repr_html_().count("<tr>") == 3
    assert "&lt;b&gt;" in memory.choices({"<b>": small})._repr_html_()
    names = tf.data.Dataset.from_tensor_slices(["a" * 100] * 70)
    assert memory.choices({"all": names}, sample=70).estimates["all"].measured == 70


def group(root, own, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    path = root / "own"
    path.write_text(own)
    return memory.container(path, root)


def test_the_limit_of_a_v2_container_or_of_one_around_it_counts(tmp_path):
    files = {
        "a/memory.max": "1000\n", "a/memory.current": "700\n", "a/memory.stat": "anon 1\ninactive_file 50\n",
        "a/b/memory.max": "max\n", "a/b/memory.current": "600\n", "a/b/memory.stat": "inactive_file 0\n",
    }  # fmt: skip
    assert group(tmp_path, "0::/a/b\n", files) == 350
    assert group(tmp_path, "0::/a/b\n", files | {"a/b/memory.max": "610\n"}) == 10
    assert group(tmp_path, "0::/a/b\n", files | {"a/b/memory.max": "500\n"}) == 0


def test_the_limit_of_a_v1_container_counts(tmp_path):
    files = {
        "memory/memory.limit_in_bytes": "5000", "memory/memory.usage_in_bytes": "4000",
        "memory/memory.stat": "total_inactive_file 500",
        "memory/x/memory.limit_in_bytes": str(2**63 - 4096), "memory/x/memory.usage_in_bytes": "1",
        "memory/x/memory.stat": "",
    }  # fmt: skip
    assert group(tmp_path, "5:cpu,memory:/x\n4:pids:/y\n", files) == 1500


def test_no_container_no_limit(tmp_path):
    assert memory.container(tmp_path / "missing", tmp_path) is None
    assert group(tmp_path, "0::/\n", {}) is None
    free, source = memory.available()
    assert free > 0
    assert source in ("of this machine", "limit of the container")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (602_112, "602 kB"), (1.934e9, "1.93 GB"), (5e15, "5000 TB")],
)
def test_sizes_are_three_digits(count, text):
    assert memory.size(count) == text


@pytest.mark.parametrize("share", [0, -1, 1.1, True, "half", float("nan")])
def test_an_impossible_share_is_named(share):
    with pytest.raises(ValueError, match=r"share is .*allowed: a number above 0 and at most 1"):
        memory.guard(tf.data.Dataset.range(3), share=share)


def test_other_bad_input_is_one_sentence():
    with pytest.raises(TypeError, match=r"dataset is a list; allowed: a tf.data.Dataset"):
        memory.estimate([1, 2])
    for name, value in (("sample", 0), ("elements", -1), ("elements", 2.5)):
        with pytest.raises(ValueError, match=f"{name} is {value!r}; allowed: a whole number of"):
            memory.estimate(tf.data.Dataset.range(3), **{name: value})
