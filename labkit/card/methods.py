"""The methods of TensorFlow's filesystem class, one by one: what each is for, and what a card does with it."""

from __future__ import annotations

from typing import NamedTuple


class Method(NamedTuple):
    """One method: its `name` in C++, `what` TensorFlow calls it for, and what the `plugin` does.

    `works` is False where a card refuses: it is read, and never written.
    """

    name: str
    what: str
    plugin: str
    works: bool


_NO = "refused: PermissionDeniedError, a card is read and never written"

#: In the order of ``tensorflow/core/platform/file_system.h``.
METHODS = (
    Method(
        "NewRandomAccessFile",
        "opens a file to read any stretch of it: read_file, TFRecordDataset, GFile",
        "asks nothing yet; the first read brings the image or the records, later ones are served from them",
        True,
    ),
    Method("NewWritableFile", "opens a new file to write: write_file, GFile(..., 'w')", _NO, False),
    Method("NewAppendableFile", "opens a file to write behind its end: GFile(..., 'a')", _NO, False),
    Method(
        "NewReadOnlyMemoryRegionFromFile",
        "gives a file as memory: ImmutableConst",
        "reads the whole file or image and keeps it as long as it is used",
        True,
    ),
    Method("CreateDir", "makes a folder: gfile.mkdir", _NO, False),
    Method("RecursivelyCreateDir", "makes a folder and those above it: gfile.makedirs", _NO, False),
    Method("DeleteFile", "removes a file: gfile.remove", _NO, False),
    Method("DeleteDir", "removes an empty folder", _NO, False),
    Method("DeleteRecursively", "removes a folder and all in it: gfile.rmtree", _NO, False),
    Method("RenameFile", "moves a file: gfile.rename", _NO, False),
    Method("CopyFile", "copies a file within the filesystem: gfile.copy", _NO + "; a copy to a disk works", False),
    Method("FileExists", "says whether a name stands for something: gfile.exists", "asks the card", True),
    Method("FilesExist", "says it of many names", "asks the card for each", True),
    Method(
        "GetChildren",
        "lists a folder: gfile.listdir, gfile.walk",
        "asks the card; links out of it are left out",
        True,
    ),
    Method(
        "Stat",
        "gives length and time of change: gfile.stat",
        "asks the card; with a size, the length of the pixels",
        True,
    ),
    Method("IsDirectory", "says whether a name is a folder: gfile.isdir", "asks the card, as for Stat", True),
    Method("GetFileSize", "gives the length: FixedLengthRecordDataset", "asks the card, as for Stat", True),
    Method(
        "GetMatchingPaths",
        "finds the names that fit a pattern: gfile.glob, list_files",
        "lets the card match, and puts the parameters of the pattern behind every name",
        True,
    ),
    Method("FlushCaches", "forgets what a filesystem remembers", "closes connections that nobody uses", True),
    Method(
        "TranslateName",
        "makes a name of the filesystem from a URI",
        "keeps the URI whole: the parameters are at its end",
        True,
    ),
)
