"""Work in vain: values that nobody gets, nodes in a row, datasets that begin anew, parts that are packed one by one."""

from __future__ import annotations

import pytest
from test_pipeline_facts import PARALLEL, ROOT, STEPS, asked, in_threads, many_calls, recorded, working

from labkit.timeline.run import Delivered, Made, ProcessorTime, Profile

HUE = "colours/AdjustHue:AdjustHue"
ELEMENT = Delivered(element=Made(1000, 4000))


def wasteful(runs, values, *, op=HUE, element=ELEMENT, width=4, **facts):
    """Return a timeline of 4 elements a step, for which an op runs so often, and makes so many values in a run."""
    made = {op: Made(values, width * values)}
    ops = working(PARALLEL, op, runs, threads=min(runs, 2))
    return recorded(ops, images=4 * STEPS, work=element, made=made, **facts)


@pytest.mark.parametrize(
    ("runs", "values", "makes"),
    [
        (4, 88_000, "88,000 values (352 kB)"),
        (4, 2_430_000, "2.43 million values (9.72 MB)"),
        (32, 1000, "8,000 values (32 kB) in 8 calls"),
        (1, 400_000, "100,000 values (400 kB)"),
    ],
    ids=["large", "larger", "often", "of a batch"],
)
def test_an_op_that_makes_many_times_what_is_delivered_is_named_with_both(runs, values, makes):
    stalls = wasteful(runs, values).stalls
    assert stalls.rules[0] == "work.smaller-first"
    assert f"AdjustHue makes {makes} for each element of 1,000 values (4 kB)" in stalls.advice.replace("4.00", "4")


@pytest.mark.parametrize(
    ("runs", "values", "element"),
    [(4, 3000, ELEMENT), (8, 1000, ELEMENT), (4, 88_000, Delivered()), (4, 60, Delivered(element=Made(1, 4)))],
    ids=["not much more", "twice", "nobody knows what is delivered", "a few values"],
)
def test_an_op_that_makes_about_what_is_delivered_wastes_nothing(runs, values, element):
    assert "work.smaller-first" not in wasteful(runs, values, element=element).stalls.rules


@pytest.mark.parametrize(("runs", "values", "said"), [(4, 6000, False), (24, 1000, True), (4, 9000, True)])
def test_pixels_that_become_fewer_floats_are_no_waste_unless_photos_are_left_out(runs, values, said):
    assert ("work.smaller-first" in wasteful(runs, values, width=1).stalls.rules) == said


def test_calls_that_the_window_cuts_off_do_not_change_what_is_said():
    said = {wasteful(runs, 88_000).stalls.advice for runs in (4, 5)}
    assert len(said) == 2, "five calls for four elements are more"
    cut = recorded(
        lambda a: [*asked(PARALLEL)(a), *in_threads(HUE, a, 4 if a else 3)],
        images=4 * STEPS, work=ELEMENT, made={HUE: Made(88_000, 352_000)},
    )  # fmt: skip
    assert cut.stalls.advice in said


def test_a_call_that_makes_several_batches_wastes_nothing():
    pools = recorded(
        lambda a: [*asked(PARALLEL)(a), *in_threads(HUE if a <= 20 else "x:DecodeJpeg", a, 1, threads=1)],
        images=4 * STEPS, work=ELEMENT, made={HUE: Made(16_000, 64_000)},
    )  # fmt: skip
    assert "work.smaller-first" not in pools.stalls.rules


def test_of_two_ops_that_take_long_the_one_that_wastes_is_named():
    """A slice of what was decoded takes a little longer than the decoder."""
    made = {"DecodeJpeg:DecodeJpeg": Made(50_000, 50_000), "slice:StridedSlice": Made(1000, 4000)}

    def make(a):
        slices = [("worker 1", "slice:StridedSlice", "map", a, a + 5)]
        return [*asked(PARALLEL)(a), *slices, ("worker 1", "DecodeJpeg:DecodeJpeg", "decode", a + 5.01, a + 9.5)]

    stalls = recorded(make, images=STEPS, work=ELEMENT, made=made).stalls
    assert stalls.blame == "StridedSlice"
    assert "DecodeJpeg makes 50,000 values" in stalls.advice


def test_waste_is_said_beside_other_programs_too():
    clock = ProcessorTime(at_ns=(), cpu_ns=(), queued_ns=10**10)
    stalls = wasteful(4, 88_000, host={"cpus": 2, "others": 0.9}, processor=clock).stalls
    assert stalls.rules[0] == "work.smaller-first"


# -- overhead for each element ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Concatenate", "ParallelMapV2", "Zip"])
@pytest.mark.parametrize(("links", "rule"), [(20, "work.chain"), (8, None)])
def test_nodes_of_one_kind_in_a_row_are_a_chain(kind, links, rule):
    paths = ["::".join([f"{ROOT}::BatchV2", *[kind] * k]) for k in range(1, links + 1)]
    stalls = recorded(lambda a: many_calls(paths[-1], a, 16, *paths[:-1])).stalls
    assert (rule in stalls.rules) == bool(rule)
    word = kind.removeprefix("Parallel").removesuffix("V2")
    assert not rule or f"{links} {word} stand in a row" in stalls.advice


def test_a_chain_of_maps_that_work_is_no_chain_that_costs():
    paths = ["::".join([f"{ROOT}::BatchV2", *["Map"] * k]) for k in range(1, 21)]

    def make(a):
        return [*many_calls(paths[-1], a, 16, *paths[:-1]), *in_threads(HUE, a, 4, threads=2)]

    assert "work.chain" not in recorded(make).stalls.rules


@pytest.mark.parametrize(
    ("begun", "anew"),
    [
        ({"TensorSlice": 64 * STEPS}, "64 datasets begin"),
        ({"Root": 16 * STEPS, "Range": 16 * STEPS}, "16 datasets begin"),
        ({"BatchV2": STEPS, "Shuffle": STEPS}, "a dataset begins"),
        ({"TFRecord": 32 * STEPS, "FlatMap": STEPS}, "larger files: 32 are begun"),
        ({"TFRecord": 31 * STEPS, "FlatMap": 60 * STEPS}, None),
        ({}, None),
    ],
    ids=["for each row", "in Python", "for each batch", "small files", "files", "none"],
)
def test_datasets_that_give_only_a_few_elements_are_counted(begun, anew):
    facts = {"images": 64 * STEPS, "profiler": Profile(begun=begun)}
    stalls = recorded(lambda a: many_calls(f"{ROOT}::BatchV2::FlatMap", a, 64), **facts).stalls
    assert (stalls.rules[0] in ("start.anew", "fetch.small-files")) == bool(anew)
    assert not anew or anew in stalls.advice
    longer = {"images": 4 * STEPS, "profiler": Profile(begun={"TFRecord": 4 * STEPS})}  # two milliseconds for a file
    assert recorded(asked(f"{ROOT}::BatchV2::FlatMap"), **longer).stalls.rules[0] != "fetch.small-files"


@pytest.mark.parametrize(
    ("kind", "nodes", "anew"),
    [
        ("Tensor", ["ForeverRepeat::FromTensor"], False),
        ("TensorSlice", ["ForeverRepeatV2::TensorSlice"], False),
        ("TensorSlice", ["FlatMap::ForeverRepeat::TensorSlice", "FlatMap::TensorSlice"], True),
    ],
)
def test_a_source_in_memory_that_is_repeated_begins_at_once(kind, nodes, anew):
    paths = [f"{ROOT}::BatchV2::{node}" for node in nodes]
    facts = {"images": 64 * STEPS, "profiler": Profile(begun={kind: 64 * STEPS})}
    stalls = recorded(lambda a: many_calls(paths[-1], a, 64, *paths[:-1]), **facts).stalls
    assert (stalls.rules[0] == "start.anew") == anew


@pytest.mark.parametrize(("root", "anew"), [("Root", True), ("Zip", False)])
def test_beside_long_ops_only_iterators_that_python_begins_cost(root, anew):
    def make(a):
        return [*asked(f"{ROOT}::BatchV2::FlatMap")(a), ("worker", "PyFunc:PyFunc", "map", a, a + 9.8)]

    profile = Profile(begun={root: 8 * STEPS, "Range": 8 * STEPS})
    assert ("start.anew" in recorded(make, images=8 * STEPS, profiler=profile).stalls.rules) == anew


@pytest.mark.parametrize(("packed", "ms", "said"), [("sparse", 0.01, True), ("ragged", 0.01, True), (None, 0.01, False),
                                                    ("sparse", 9.0, False)])  # fmt: skip
def test_parts_that_are_packed_one_by_one_matter_where_ops_are_short(packed, ms, said):
    def make(a):
        return [*many_calls(PARALLEL, a, 32), ("worker", "DecodeJpeg:DecodeJpeg", "decode", a, a + ms)]

    stalls = recorded(make, images=(32 if ms < 1 else 16) * STEPS, work=Delivered(packed=packed)).stalls
    assert ("small.packed" in stalls.rules) == said
    assert not said or f"{packed} parts" in stalls.advice


def test_one_long_span_of_a_thread_without_a_core_does_not_make_calls_long():
    def make(a):
        ops = [("worker", "add:AddV2", "map", a + 0.07 * k, a + 0.07 * k + 0.01) for k in range(127)]
        return [*many_calls(PARALLEL, a, 128), *ops, ("worker 2", "add:AddV2", "map", a + 0.5, a + 9.9)]

    assert "small.batch-first" in recorded(make).stalls.rules


@pytest.mark.parametrize(("converting", "said"), [(0.9, True), (0.1, False)])
def test_lists_are_named_where_tensors_are_made_of_them_most_of_the_time(converting, said):
    def make(a):
        return [*asked(f"{ROOT}::BatchV2::FlatMap::Generator")(a), ("worker", "PyFunc:PyFunc", "map", a, a + 9.8)]

    rules = recorded(make, processor=ProcessorTime(converting=converting)).stalls.rules
    assert ("python.lists" in rules) == said


def test_what_is_made_for_an_element_does_not_depend_on_how_far_the_pipeline_worked_ahead():
    """In the window, the batch asks for three of four elements, and a map of batches runs for three batches of five."""

    def make(a):
        rows = many_calls(f"{PARALLEL}::BatchV2::TensorSlice", a, 3, f"{PARALLEL}::BatchV2")
        return [*asked(PARALLEL)(a), *rows, *(in_threads(HUE, a, 1, 1) if a < 60 else [])]

    stalls = recorded(make, images=4 * STEPS, work=ELEMENT, made={HUE: Made(400_000, 1_600_000)}).stalls
    assert "AdjustHue makes 100,000 values (400 kB)" in stalls.advice
