"""Photo sets in TFDS form: whether it works here, the lab's own set, and any other that is prepared on disk.

Nothing here reaches for a network: a set that is not on disk is an error that says so.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from labkit.common import shipped
from labkit.common.file_formats import photo_format
from labkit.common.files import write_aside
from labkit.common.hooks import AfterImport
from labkit.common.progress import bar
from labkit.common.quiet import muted
from labkit.sources import framing, photo_files
from labkit.sources.photo_files import PhotoFile, generator


def problem() -> str | None:
    """Return why tensorflow-datasets cannot be used here, in one sentence, or None if it can."""
    try:
        with muted():  # beside another protobuf than its own, it logs a traceback, and what follows says the same
            tfds = importlib.import_module("tensorflow_datasets")
    except ModuleNotFoundError as error:
        reason = f"cannot be imported (no module {error.name})"
        if error.name == "tensorflow_datasets":
            reason = "is not installed (pip install tensorflow-datasets importlib_resources)"
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
    """Pack finished photos into TFDS's records, byte for byte, in place of what is there and not whole.

    Raises
    ------
    OSError
        If the disk is full; the sentence says what to do.
    """
    import tensorflow_datasets as tfds

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
    photo_files.sweep(form(home, scale).parent, "incomplete.*")
    try:
        with (
            bar(generator.SCALES[scale], "packing for TFDS", not progress) as step,
            tempfile.TemporaryDirectory() as unused,
            # TFDS prints that it downloads, which it does not.
            contextlib.redirect_stdout(io.StringIO()),
        ):
            builder.passed = step
            builder.download_and_prepare(download_dir=unused)
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


def offer(home: Path, scale: str) -> None:
    """Let ``tfds.load("lab_photos")`` find the photos of `home`; where they are not packed yet, it packs them first.

    If tensorflow-datasets is imported later, it is told then: to import it takes seconds, and most readers never do.
    """
    _waiting[:] = [(home, scale)]
    if "tensorflow_datasets" in sys.modules:
        _register(sys.modules["tensorflow_datasets"])
    elif _after_import not in sys.meta_path:
        sys.meta_path.insert(0, _after_import)


def _register(tfds: Any) -> None:
    """Tell tensorflow-datasets, which is imported, where the photos are, if it works here."""
    if not hasattr(tfds, "load"):
        return
    home, scale = _waiting[0]
    tfds.core.add_data_dir(str(home))
    if is_built(home, scale) or generator.NAME in tfds.core.registered.list_imported_builders():
        return
    with tfds.core.registered.skip_registration():
        builders = shipped.module("data/lab_photos", "lab_photos_dataset_builder")

    class PhotosBuilder(builders.Builder):
        """Packs the photos of `home`, beside them."""

        name, __module__ = generator.NAME, builders.__name__
        DEFAULT_BUILDER_CONFIG_NAME, files = scale, photo_files.folder(home)

        def __init__(self, *, data_dir: str | None = None, **rest: Any) -> None:
            super().__init__(data_dir=data_dir or str(home), **rest)

        def is_prepared(self) -> bool:
            """Tell whether they are packed; TFDS would log a warning, which notebooks show in red, if not."""
            return (Path(self.data_dir) / "dataset_info.json").is_file()

        def download_and_prepare(self, **how: Any) -> None:
            """Pack the photos, without the words of TFDS that it downloads: it does not."""
            tfds.disable_progress_bar()
            with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as unused:
                super().download_and_prepare(**{"download_dir": unused, **how})


def name_default(home: Path, scale: str) -> None:
    """Let ``tfds.load("lab_photos")`` find what there is where the default scale is not built."""
    note = home / generator.NAME / ".config" / "metadata.json"
    if is_built(home, scale) and not is_built(home, "small"):
        write_aside(note, json.dumps({"default_config_name": scale}))


#: Where the photos are, and their scale, of which tensorflow-datasets is told.
_waiting: list[tuple[Path, str]] = []
_after_import = AfterImport("tensorflow_datasets".__eq__, _register)


# -- sets of others -------------------------------------------------------------


def looks_like_name(source: str) -> bool:
    """Return whether `source` could name a TFDS set: ``name``, ``name/config``, either with ``:version``."""
    return re.fullmatch(r"[A-Za-z]\w*(/[\w.+-]+)?(:\d+\.\d+\.\d+)?", source) is not None


def find(source: str, places: list[Path]) -> Path | None:
    """Return the folder of a prepared TFDS set, the newest version, or None if no place has it.

    Raises
    ------
    ValueError
        If the set has several configurations and none is named.
    """
    rest, _, version = source.partition(":")
    name, _, config = rest.partition("/")
    for place in places:
        root = place / name
        found = [p.parent for p in [*root.glob("*/features.json"), *root.glob("*/*/features.json")]]
        found = [p for p in found if re.fullmatch(r"\d+\.\d+\.\d+", p.name) and version in ("", p.name)]
        configs = sorted({p.parent.name for p in found if p.parent != root})
        wanted = config or _default_config(root, configs)
        if wanted is None and len(configs) > 1:
            named = ", ".join(f"{name}/{c}" for c in configs)
            raise ValueError(f"{name!r} has several configurations in {place}; name one: {named}")
        found = [p for p in found if p.parent == (root / wanted if wanted else root)]
        if found:
            return max(found, key=lambda p: [int(n) for n in p.name.split(".")])
    return None


def _default_config(root: Path, configs: list[str]) -> str | None:
    if len(configs) == 1:
        return configs[0]
    try:
        return json.loads((root / ".config" / "metadata.json").read_text("utf-8")).get("default_config_name")
    except (OSError, ValueError):
        return None


def export(source: str, prepared: Path, home: Path, progress: bool) -> tuple[tuple[str, ...], list[PhotoFile]]:
    """Write the JPEG or PNG files of a prepared TFDS set to files, once and unchanged; return its classes and photos.

    The splits ``train`` and ``validation`` (else ``test``) are taken; the latter is held out. Files go
    to ``<home>/tfds_files/<name>``, written aside and renamed; a second call writes what is missing.

    Raises
    ------
    ValueError
        If the set has no photos, no classes, or photos that are neither JPEG nor PNG files.
    """
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(prepared))
    features = builder.info.features
    image = next((k for k, f in features.items() if isinstance(f, tfds.features.Image)), None)
    label = next((k for k, f in features.items() if isinstance(f, tfds.features.ClassLabel)), None)
    if image is None or label is None:
        missing = "image" if image is None else "class label"
        raise ValueError(f"the TFDS set {source!r} has no {missing} in its features")
    classes = tuple(features[label].names)
    splits = [s for s in ("train", "validation") if s in builder.info.splits]
    if "validation" not in splits and "test" in builder.info.splits:
        splits.append("test")
    total = sum(builder.info.splits[s].num_examples for s in splits)
    if not total:
        raise ValueError(f"the TFDS set {source!r} has no photo in a split train, validation or test")
    place = home / "tfds_files" / builder.info.full_name
    title = f"# {builder.name} {prepared.name} seed 0"
    photos = _exported(place, title)
    if len(photos) < total:
        try:
            photo_files.require_space(place, sum(builder.info.splits[s].num_bytes for s in splits), source)
            place.mkdir(parents=True, exist_ok=True)
            skip = {photo.path for photo in photos}
            with photo_files.appending(place, title) as add, bar(total, builder.name, not progress) as step:
                for split in splits:
                    decoders = {image: tfds.decode.SkipDecoding()}
                    examples = builder.as_dataset(split=split, decoders=decoders, shuffle_files=False)
                    for number, example in enumerate(examples.as_numpy_iterator()):
                        photo = example[image]
                        if (kind := photo_format(photo)) is None:
                            wrong = f"is neither a JPEG nor a PNG file (it starts with {photo[:4]!r})"
                            raise ValueError(f"{source!r} {split} photo {number} {wrong}; the lab reads no others")
                        suffix = {"JPEG": "jpg", "PNG": "png"}[kind]
                        name = f"{split}/{int(example[label]):04d}/{number:07d}.{suffix}"
                        if place / name not in skip:
                            write_aside(place / name, photo)
                            add(name, len(photo), hashlib.sha256(photo).hexdigest())
                        step()
        except OSError as error:
            raise photo_files.explained(error, place) from error
        photos = _exported(place, title)
    return classes, photos


def _exported(place: Path, title: str) -> list[PhotoFile]:
    """Return the photos of an export that are there and as long as the ledger says, one of each class in turn."""
    photos, ranks = [], Counter()
    for name, entry in sorted(photo_files.ledger(place, title).items()):
        split, label, _ = Path(name).parts
        path = place / name
        if path.is_file() and path.stat().st_size == entry.bytes:
            photos.append(PhotoFile(path, int(label), ranks[label], entry.bytes, split != "train"))
            ranks[label] += 1
    return sorted(photos, key=lambda photo: (photo.rank, photo.label))
