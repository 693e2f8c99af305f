"""`ImageFolder`: images in one folder per class; `Places365Standard`: a data set of this form."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, final

from .. import _argument_checks as arguments
from .._errors import DatasetError
from ._download import PathLike
from ._image_files import ImageFiles, LabelledImages, image_names

__all__ = ["ImageFolder", "ImageFolderFiles", "Places365Standard"]

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
    """

    def __init__(self, dir: PathLike, shuffle: bool = True) -> None:
        """Lists the folders; opens no image."""
        folder = Path(dir).expanduser()
        classes = _sub_folders(folder)
        files = [(name, label) for label, kind in enumerate(classes) for name in _images_below(folder, kind)]
        super().__init__(folder, files, shuffle, classes)


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


def _images_below(folder: Path, kind: str) -> Iterator[str]:
    """Yields the paths of a class's images below `folder`, in the same order everywhere."""
    found = False
    for parent, folders, _ in os.walk(folder / kind):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        for name in image_names(Path(parent)):
            found = True
            yield os.path.relpath(os.path.join(parent, name), folder)
    if not found:
        raise DatasetError(f"{folder / kind} has no image; remove the folder if it is not a class")
