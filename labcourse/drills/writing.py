"""How the pipeline of a job is written: a function ``pipeline(case)`` of plain tf.data without a word about a fault."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf


def written(how: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the source of a pipeline.

    Parameters
    ----------
    how : dict
        ``source`` ("photos", "pairs", "files", "packed"), ``layout`` (0: one function; 1: one that reads and one that
        prepares; 2: one that reads and decodes, and one that changes), ``calls`` of the two at once, ``pool`` of
        threads, ``cycle`` of files at once, ``cache`` ("", "names", "between" the two functions, "after" both) with
        ``take`` ("", "before", "after"), ``shuffle`` ("names", "images", "batches"), ``repeat`` ("early", "end",
        "first"), batches kept ready ``early`` and ``ahead``, ``lines`` for each chain of steps, and truths: ``clean``
        in ``python``, ``tone`` in a ``loop``, ``drop`` what fills no batch, ``flip`` the channels, ``divide`` by 255,
        random brightness ``first``, ``own_draw``, ``own_mask``, ``loose`` order.
    names : sequence of str
        Of the dataset, three functions, an image and a label.
    """
    data, one, two, three, image, label = names
    listed = how["source"] in ("photos", "pairs")
    given = f"path, {label}" if listed else "record"
    parsed = [] if listed else [f"data, {label} = case.parse(record)"]
    bytes_ = "case.read(path)" if listed else "data"
    decoded = [f"{image} = case.decode({{}}){'[..., ::-1]' * how['flip']}"]
    change = _changes(how, image)
    body = {
        0: [(one, given, [*parsed, decoded[0].format(bytes_), *change], f"{image}, {label}")],
        1: [
            (one, given, [], f"case.read(path), {label}" if listed else "case.parse(record)"),
            (two, f"data, {label}", [decoded[0].format("data"), *change], f"{image}, {label}"),
        ],
        2: [
            (one, given, [*parsed, decoded[0].format(bytes_)], f"{image}, {label}"),
            (two, f"{image}, {label}", change, f"{image}, {label}"),
        ],
    }[how["layout"]]
    if how["tone"]:
        toned = f"tf.map_fn(case.tone, {image}s)" if how["loop"] else f"case.tone({image}s)"
        body.append((three, f"{image}s, {label}s", [], f"{toned}, {label}s"))
    lines = ["def pipeline(case):"]
    for name, arguments, work, result in body:
        inside = [f"        {line}" for line in (*work, f"return {result}")]
        lines += [f"    def {name}({arguments}):", *inside, ""]
    start, *steps = _steps(how, [name for name, *_ in body])
    lines.append(f"    {data} = {start}{''.join(steps[: how['lines'] - 1])}")
    for place in range(how["lines"] - 1, len(steps), how["lines"]):
        lines.append(f"    {data} = {data}{''.join(steps[place : place + how['lines']])}")
    return "\n".join([*lines, f"    return {data}.with_options(case.options(threads={how['pool']}))", ""])


def _changes(how: Mapping[str, Any], image: str) -> list[str]:
    """Return the lines that make of the pixels of a photo what the job asks for."""
    number = "tf.random.uniform([], -0.2, 0.2)" if how["own_draw"] else f"case.draw({image}, 0.2)"
    convert = f"{image} = tf.cast({image}, tf.float32){' / 255' * how['divide']}"
    shade = f"{image} = tf.clip_by_value({image} + {number}, 0, 1)"
    if how["first"]:
        lines = [f"{image} = tf.clip_by_value({image} + case.draw({image}, 51), 0, 255)", convert]
    else:
        lines = [convert, shade]
    if how["python"]:
        lines.append(f"{image} = tf.py_function(case.clean, [{image}], tf.float32)")
        lines.append(f"{image} = tf.ensure_shape({image}, [case.height, case.width, 3])")
    elif how["clean"]:
        lines.append(f"{image} = case.clean({image})")
    masked = f"tf.concat([tf.zeros_like({image}[:8]), {image}[8:]], 0)" if how["own_mask"] else f"case.mask({image})"
    return [*lines, f"{image} = {masked}"]


def _steps(how: Mapping[str, Any], functions: Sequence[str]) -> list[str]:
    """Return the source and each step behind it, as they are written."""
    loose = ", deterministic=False" * how["loose"]
    mapped = [
        f".map({name}" + (f", num_parallel_calls={calls}{loose}" if calls > 1 else "") + ")"
        for name, calls in zip(functions, [*how["calls"][: min(how["layout"], 1) + 1], 1], strict=False)
    ]
    maps, tone = (mapped[:-1], mapped[-1:]) if how["tone"] else (mapped, [])
    source = {"pairs": "tf.data.Dataset.zip((case.paths, case.labels))"}.get(how["source"], f"case.{how['source']}")
    steps = [source, *[".cache()"] * (how["cache"] == "names")]
    if how["source"] in ("files", "packed"):
        cycle = f"cycle_length={how['cycle']}, num_parallel_calls={how['cycle']}" if how["cycle"] else "cycle_length=4"
        steps.append(f".interleave(case.records, {cycle})")
    shuffle, repeat = [".shuffle(case.size)"], [".repeat()"] * (how["repeat"] == "early")
    order = [".repeat()", *shuffle] if how["repeat"] == "first" else [*shuffle, *repeat]
    take = [".take(case.size)"]
    cache = [*take * (how["take"] == "before"), ".cache()", *take * (how["take"] == "after")]
    early = [f".prefetch({how['early']})"] * bool(how["early"])
    if how["cache"] == "between":
        steps += [*early, maps[0], *cache, *order, *maps[1:]]
    elif how["cache"] == "after":
        steps += [*early, *maps, *cache, *order]
    elif how["shuffle"] == "names":
        steps += [*order, *early, *maps]
    else:
        steps += [*early, *maps, *(order if how["shuffle"] == "images" else [])]
    steps.append(f".batch(case.batch{', drop_remainder=True' * how['drop']})")
    steps += [".shuffle(4)"] * (how["shuffle"] == "batches") + [".repeat()"] * (how["repeat"] == "end")
    return [*steps, *tone, *[f".prefetch({how['ahead']})"] * bool(how["ahead"])]


def build(source: str) -> Callable[[Any], Any]:
    """Return the function ``pipeline`` of a source text; TensorFlow and NumPy are there as tf and np."""
    # Errors and AutoGraph look the source up by this name, so that two sources must not share one.
    file = f"<pipeline {hashlib.sha256(source.encode()).hexdigest()[:8]}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"tf": tf, "np": np}
    exec(compile(source, file, "exec"), space)
    return space["pipeline"]
