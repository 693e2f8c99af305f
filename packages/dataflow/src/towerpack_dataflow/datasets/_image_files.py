"""Image files with their labels: their paths or images, also of folders with one folder per class."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from pathlib import Path
from time import perf_counter, thread_time
from typing import Literal, cast, final

from .. import _argument_checks as arguments
from .._errors import DatasetError, FormatError
from ..augment import read_image
from ..operators._map_component import OfComponent
from ..operators._map_data import MapData
from ..sources._from_iterable import DataFromList
from ..storage import LabelledPaths
from ._download import PathLike

__all__ = [
    "ImageFiles",
    "ImageFolder",
    "ImageFolderFiles",
    "LabelledImages",
    "Places365Standard",
    "check_listed",
    "image_names",
    "text_lines",
]

_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
_LISTING = 4  # folders listed at a time if a disk or a server has to be waited for
_PATIENCE = 0.05  # seconds of waiting that count


class ImageFiles(DataFromList):
    """Yields `[path, label]`; addressable.

    Args:
        folder: common prefix of all paths.
        files: path below the folder and label of each file; or the lists of a whole path and a label.
        shuffle: whether each epoch has a different order.
        label_names: names of the labels, in order.
    """

    def __init__(
        self,
        folder: Path,
        files: LabelledPaths | Iterable[tuple[str, int]],
        shuffle: bool,
        label_names: Sequence[str] = (),
    ) -> None:
        """Stores the paths; opens nothing."""
        start = os.path.join(folder, "")
        members = files if isinstance(files, LabelledPaths) else [[start + name, n] for name, n in files]
        super().__init__(members, shuffle)
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
        return _images_among(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DatasetError(f"the folder {folder} is missing, or is not a folder") from error


def _images_among(names: Iterable[str]) -> list[str]:
    """Returns the names of images, sorted; hidden files are left out."""
    found = sorted(names)
    del found[bisect_left(found, ".") : bisect_left(found, "/")]  # "/" is the character after "."
    if all(map(str.endswith, found, repeat(_SUFFIXES))):  # the usual case, in an eighth of the time
        return found
    return [name for name in found if name.lower().endswith(_SUFFIXES)]


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


_PLACES = 365
_PLACES_URL = "http://data.csail.mit.edu/places/places365/places365standard_easyformat.tar"


@final
class ImageFolderFiles(ImageFiles):
    """Yields `[path, label]` of the images in a folder with one subfolder per class; addressable.

    The sorted names of the subfolders are the classes, numbered from 0. Images in deeper folders belong to
    the class, too; hidden files, and those without the extension of an image, do not.

    Args:
        dir: the folder.
        shuffle: whether each epoch has a different order.

    Raises:
        DatasetError: the folder is missing or has no subfolder, or a subfolder has no image.
        OSError: a folder cannot be listed.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("cats", "dogs"):
        ...     (folder / name).mkdir()
        ...     (folder / name / "0.jpg").touch()
        >>> [(Path(path).parent.name, label) for path, label in ImageFolderFiles(folder, shuffle=False)]
        [('cats', 0), ('dogs', 1)]
    """

    def __init__(self, dir: PathLike, shuffle: bool = True) -> None:
        """Lists the folders; opens no image."""
        folder = Path(dir).expanduser()
        classes = _sub_folders(folder)
        start = os.path.join(folder, "")
        listed = _listed(start, classes)
        for kind, folders in zip(classes, listed):
            if not any(names for _, names in folders):
                raise DatasetError(f"{folder / kind} has no image; remove the folder if it is not a class")
        of_folders = ((*each, label) for label, folders in enumerate(listed) for each in folders)
        super().__init__(folder, LabelledPaths(start, of_folders), shuffle, classes)


@final
class ImageFolder(LabelledImages):
    """Yields `[image, label]` of a folder with one subfolder per class; addressable.

    An image is uint8 of shape [height, width, 3], RGB. `ImageFolderFiles` defines the set of files.

    Args:
        dir: the folder.
        shuffle: whether each epoch has a different order.

    Raises:
        DatasetError: the folder is missing or has no subfolder, or a subfolder has no image.
        FormatError: a file is not an image; raised while iterating.
        ImportError: no image decoder is installed; raised while iterating.
        OSError: a folder cannot be listed.

    Example:
        >>> import tempfile
        >>> import cv2
        >>> import numpy as np
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("cats", "dogs"):
        ...     (folder / name).mkdir()
        ...     _ = cv2.imwrite(str(folder / name / "0.png"), np.zeros((4, 6, 3), np.uint8))
        >>> [(image.shape, label) for image, label in ImageFolder(folder, shuffle=False)]
        [((4, 6, 3), 0), ((4, 6, 3), 1)]
    """

    def __init__(self, dir: PathLike, shuffle: bool = True) -> None:
        """Lists the folders; opens no image."""
        super().__init__(ImageFolderFiles(dir, shuffle))


@final
class Places365Standard(LabelledImages):
    """Yields photographs of 365 kinds of places; addressable.

    A datapoint is `[image, label]`: uint8 of shape (256, 256, 3), RGB, and an int from 0 to 364. There are
    1,803,460 for training and 36,500 for validation, in the small version with "easy" folders.

    Source: B. Zhou, A. Lapedriza, A. Khosla, A. Oliva, A. Torralba, "Places: a 10 million image database for
    scene recognition", 2017.

    Args:
        dir: the folder with `train` and `val`, each with one folder per class.
        name: `"train"` or `"val"`.
        shuffle: whether each epoch has a different order; by default, only for the training set.

    Raises:
        ArgumentError: `name` has another value.
        DatasetError: a folder is missing, or there are not 365 classes.
        FormatError: a file is not an image; raised while iterating.

    Example:
        ```python
        flow = BatchData(Places365Standard("places365_standard", "train"), 64)
        ```
    """

    def __init__(self, dir: PathLike, name: Literal["train", "val"], shuffle: bool | None = None) -> None:
        """Lists the folders; opens no image."""
        folder = Path(dir).expanduser() / arguments.one_of("name", name, ("train", "val"))
        files = ImageFolderFiles(folder, name == "train" if shuffle is None else shuffle)
        if len(files.get_label_names()) != _PLACES:
            raise DatasetError(
                f"{folder} has {len(files.get_label_names())} classes, but {_PLACES} were expected; unpack "
                f"{_PLACES_URL} again"
            )
        super().__init__(files)


def _sub_folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir() and entry.name[0] != ".")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DatasetError(
            f"{folder} is missing, or is not a folder; pass a folder with one subfolder per class"
        ) from error
    if not names:
        raise DatasetError(f"{folder} has no subfolder; expected one per class, with its images")
    return names


def _listed(start: str, classes: Sequence[str]) -> list[list[tuple[str, list[str]]]]:
    """Returns `_images_below` of each class.

    The system gives up the lock of the interpreter for each file: threads that need not wait for the folders
    take half as long again as one thread.
    """
    listed = []
    begin, computed = perf_counter(), thread_time()
    for kind in classes:
        listed.append(_images_below(start, kind))
        computing = thread_time() - computed
        if perf_counter() - begin - computing > max(computing, _PATIENCE):
            break
    with ThreadPoolExecutor(_LISTING) as threads:
        return [*listed, *threads.map(partial(_images_below, start), classes[len(listed) :])]


def _images_below(start: str, kind: str) -> list[tuple[str, list[str]]]:
    """Returns the folders of a class and the names of their images, in the same order everywhere."""
    listed, waiting = [], [kind]
    while waiting:
        below = waiting.pop()
        folders, files = _members(start + below)
        listed.append((below, _images_among(files)))
        waiting += [f"{below}/{name}" for name in sorted(folders, reverse=True) if name[0] != "."]
    return listed


def _members(path: str) -> tuple[list[str], list[str]]:
    """Returns the names of the folders and of the files in a folder, like `os.walk` in half of its time.

    Raises:
        OSError: the folder cannot be listed; `os.walk` would leave its files out.
    """
    folders: list[str] = []
    files: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif not (entry.is_symlink() and os.path.isdir(entry.path)):
                files.append(entry.name)
    return folders, files
