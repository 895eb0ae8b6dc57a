"""The lab's photos as a TFDS dataset, made on this machine: nothing is downloaded."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from . import generator


class Builder(tfds.core.GeneratorBasedBuilder):
    """Photos in three scales; a JPEG goes into the records byte for byte as it was made."""

    VERSION = tfds.core.Version(generator.VERSION)
    RELEASE_NOTES: ClassVar = {generator.VERSION: "First release."}
    BUILDER_CONFIGS: ClassVar = [
        tfds.core.BuilderConfig(name=scale, description=f"The first {count:,} photos.")
        for scale, count in generator.SCALES.items()
    ]
    DEFAULT_BUILDER_CONFIG_NAME = "small"

    #: Folder of photos that are already made, ``<class>/<number>.jpg``; None paints each one here.
    files: Path | None = None
    #: Called with nothing after each photo, for a progress bar.
    passed: Callable[[], object] | None = None

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(encoding_format="jpeg", doc="Orientation tags are ignored."),
                    "label": tfds.features.ClassLabel(names=list(generator.CLASSES)),
                    "file": tfds.features.Text(doc="class/number.jpg, unique in every scale"),
                }
            ),
            supervised_keys=("image", "label"),
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
        del dl_manager  # Nothing to download.
        return {"train": self._generate_examples(held_out=False), "validation": self._generate_examples(held_out=True)}

    def _generate_examples(self, held_out: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        for index in range(generator.SCALES[self.builder_config.name]):
            shot = generator.plan(index)
            if shot.held_out == held_out:
                image = self.files / shot.file if self.files else io.BytesIO(generator.make(index))
                yield index, {"image": image, "label": generator.CLASSES[shot.label], "file": shot.file}
                if self.passed:
                    self.passed()
