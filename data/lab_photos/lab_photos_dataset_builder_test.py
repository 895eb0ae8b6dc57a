"""TFDS's own checks of the builder, on the photos themselves: the tiny scale takes seconds to paint."""

from pathlib import Path
from typing import ClassVar

from tensorflow_datasets import testing

from . import lab_photos_dataset_builder


class LabPhotosTest(testing.DatasetBuilderTestCase):
    DATASET_CLASS = lab_photos_dataset_builder.Builder
    BUILDER_CONFIG_NAMES_TO_TEST: ClassVar = ["tiny"]
    SPLITS: ClassVar = {"train": 140, "validation": 20}
    # The builder reads no example files; TFDS asks for a folder all the same.
    EXAMPLE_DIR = str(Path(__file__).parent)
