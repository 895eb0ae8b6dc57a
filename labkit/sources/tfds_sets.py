"""The lab's photos in TFDS form: whether tensorflow-datasets works here, and the records that it loads.

Nothing here reaches for a network.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import json
import os
import shutil
import tempfile
import warnings
from pathlib import Path

from labkit.common import shipped
from labkit.common.files import write_aside
from labkit.common.quiet import muted
from labkit.sources import framing, photo_files
from labkit.sources.photo_files import generator


def problem() -> str | None:
    """Return why tensorflow-datasets cannot be used here, in one sentence, or None if it can."""
    try:
        with muted():  # beside another protobuf than its own, it logs a traceback, and what follows says the same
            tfds = importlib.import_module("tensorflow_datasets")
    except ModuleNotFoundError as error:
        reason = f"cannot be imported (no module {error.name})"
        if error.name == "tensorflow_datasets":
            reason = "is not installed (pip install 'labkit[tfds]')"
    except Exception as error:
        reason = f"cannot be imported ({(str(error).strip() or type(error).__name__).splitlines()[0]})"
    else:
        if hasattr(tfds, "load"):
            return None
        reason = (
            "imports as an empty module, because its tensorflow-metadata needs a newer protobuf than this one "
            "(pip install 'tensorflow-metadata<1.18' repairs it)"
        )
    return f"tensorflow-datasets {reason}, so the photos are plain files only."


def form(home: Path, scale: str) -> Path:
    """Return where ``tfds.load("lab_photos/<scale>", data_dir=home)`` looks."""
    return home / generator.NAME / scale / generator.VERSION


def is_built(home: Path, scale: str) -> bool:
    """Return whether the TFDS form of a scale is complete: TFDS renames it into place when it is."""
    return (form(home, scale) / "dataset_info.json").is_file()


def is_whole(home: Path, scale: str) -> bool:
    """Return whether the TFDS form of a scale can be loaded, and each of its records is whole: every byte is read."""
    place, count = form(home, scale), 0
    try:
        known = json.loads((place / "features.json").read_text("utf-8"))["featuresDict"]["features"]
        names = (place / "label.labels.txt").read_text("utf-8").split()
        for split in json.loads((place / "dataset_info.json").read_text("utf-8"))["splits"]:
            lengths = [int(length) for length in split["shardLengths"]]
            for number, length in enumerate(lengths):
                shard = f"{generator.NAME}-{split['name']}.tfrecord-{number:05}-of-{len(lengths):05}"
                faults = [record.fault for record in framing.scan(place / shard, "")]
                if any(faults) or len(faults) != length:
                    return False
                count += length
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return (count, names) == (generator.SCALES[scale], list(generator.CLASSES)) and {"image", "label"} <= set(known)


def build(home: Path, scale: str, files: Path, progress: bool = True) -> None:
    """Pack finished photos into TFDS's records, byte for byte; what is there and not whole is made again.

    Raises
    ------
    OSError
        If the disk is full; the sentence says what to do.
    """
    import tensorflow_datasets as tfds

    if is_whole(home, scale):
        return
    place = form(home, scale)
    if os.path.lexists(place):  # TFDS would take it for a set that is ready
        warnings.warn(f"packed again, because not whole: {place}", stacklevel=3)
        aside = place.with_name(f"incomplete.damaged-{os.getpid()}")
        os.replace(place, aside)
        shutil.rmtree(aside) if aside.is_dir() else aside.unlink()
    # Registered, it would stand in the way of a reader who imports the builder under its own name.
    with tfds.core.registered.skip_registration():
        builders = shipped.module("data/lab_photos", "lab_photos_dataset_builder")
    tfds.disable_progress_bar()
    builder = builders.Builder(data_dir=str(home), config=scale)
    builder.files = files
    config = tfds.download.DownloadConfig(compute_stats=tfds.download.ComputeStatsMode.SKIP)
    photo_files.sweep(form(home, scale).parent, "incomplete.*")
    try:
        with (
            photo_files.bar(generator.SCALES[scale], "packing for TFDS", progress) as shown,
            tempfile.TemporaryDirectory() as unused,
            # TFDS prints that it downloads, which it does not.
            contextlib.redirect_stdout(io.StringIO()),
        ):
            builder.passed = shown.update
            builder.download_and_prepare(download_dir=unused, download_config=config)
    except Exception as error:
        # Another process that packed the same scale may have been first.
        if is_built(home, scale):
            return
        # TFDS wraps what went wrong in errors of other types; the words survive.
        if os.strerror(errno.ENOSPC) in str(error):
            raise photo_files.explained(OSError(errno.ENOSPC, str(error)), home) from error
        raise
    finally:
        name_default(home, scale)


def name_default(home: Path, scale: str) -> None:
    """Let ``tfds.load("lab_photos")`` find what there is where the default scale is not built."""
    note = home / generator.NAME / ".config" / "metadata.json"
    if is_built(home, scale) and not is_built(home, "small"):
        write_aside(note, json.dumps({"default_config_name": scale}))
