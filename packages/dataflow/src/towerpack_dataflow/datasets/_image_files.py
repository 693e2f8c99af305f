"""Files of images with their labels: `ImageFiles` yields their paths, `LabelledImages` the images."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from .._errors import DatasetError, FormatError
from ..augment.decode import read_image
from ..operators._map_component import OfComponent
from ..operators._map_data import MapData
from ..sources._from_list import DataFromList

__all__ = ["ImageFiles", "LabelledImages", "check_listed", "image_names", "text_lines"]

_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")


class ImageFiles(DataFromList):
    """Yields `[path, label]`; addressable.

    Args:
        folder: common prefix of all paths.
        files: path below the folder and label of each file.
        shuffle: whether each epoch has a different order.
        label_names: names of the labels, in order.
    """

    def __init__(
        self, folder: Path, files: Iterable[tuple[str, int]], shuffle: bool, label_names: Sequence[str] = ()
    ) -> None:
        """Stores the paths; opens nothing."""
        start = os.path.join(folder, "")
        super().__init__([[start + name, label] for name, label in files], shuffle)
        self._label_names = tuple(label_names)

    def get_label_names(self) -> list[str]:
        """Returns the names of the labels, in order."""
        return list(self._label_names)


class LabelledImages(MapData):
    """Yields `[image, label]` of files: uint8 of shape [height, width, 3], RGB; addressable.

    The bytes of an image determine its decoder, not the name of the file.

    Args:
        files: the flow of paths, stored as `ds`.
    """

    def __init__(self, files: ImageFiles) -> None:
        """Stores the flow; reads nothing."""
        super().__init__(files, OfComponent(read_image, 0))

    def get_label_names(self) -> list[str]:
        """Returns the names of the labels, in order."""
        return cast(ImageFiles, self.ds).get_label_names()


def image_names(folder: Path) -> list[str]:
    """Returns the names of the images in a folder, sorted; hidden files are left out.

    Raises:
        DatasetError: the folder is missing, or is not a folder.
    """
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DatasetError(f"the folder {folder} is missing, or is not a folder") from error
    return sorted(name for name in names if name.lower().endswith(_SUFFIXES) and not name.startswith("."))


def check_listed(folder: Path, names: Sequence[str], source: str) -> None:
    """Checks that the images in a folder are those of a list, without opening them.

    Args:
        folder: folder of the images.
        names: paths below it, such as `"n01440764/n01440764_18.JPEG"`.
        source: source of the names, for messages.

    Raises:
        DatasetError: files of the list are missing.
        FormatError: the list has a duplicate name, or lacks files of its folders.
    """
    listed = defaultdict(set)
    for name in names:
        parent, _, file = name.rpartition("/")
        listed[parent].add(file)
    if sum(map(len, listed.values())) != len(names):
        raise FormatError(f"{source} lists {len(names)} files, some of them twice")
    missing, unlisted = [], []
    for parent in sorted(listed):
        there = set(image_names(folder / parent))
        missing += [os.path.join(parent, file) for file in listed[parent] - there]
        unlisted += [os.path.join(parent, file) for file in there - listed[parent]]
    if missing:
        raise DatasetError(
            f"{folder} lacks {len(missing)} of the {len(names)} files in {source}, {min(missing)} "
            "among them; unpack the data set again"
        )
    if unlisted:
        raise FormatError(
            f"{source} lists {len(names)} files, but {folder} has {len(unlisted)} more, {min(unlisted)} "
            "among them; the list is truncated, or belongs to another data set"
        )


def text_lines(path: Path, whence: str, content: bytes | None = None) -> list[str]:
    """Returns the lines of a text file, without empty ones at its end.

    Args:
        path: path of the file.
        whence: its source for users, for the message about a missing file.
        content: content of the file, if already read.

    Raises:
        DatasetError: the file is missing.
        FormatError: it is empty, or not text.
    """
    try:
        lines = (path.read_bytes() if content is None else content).decode().rstrip().splitlines()
    except FileNotFoundError as error:
        raise DatasetError(f"{path} is missing; {whence}") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not text ({error}); {whence}") from error
    if not lines:
        raise FormatError(f"{path} is empty; {whence}")
    return lines
