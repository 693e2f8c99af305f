"""`ILSVRC12Files` and `ILSVRC12`: the ImageNet images of the 2012 competition."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from .. import _argument_checks as arguments
from .._errors import FormatError
from ._download import PathLike
from ._ilsvrc_meta import ILSVRCMeta, Layout
from ._image_files import ImageFiles, LabelledImages, check_listed

__all__ = ["ILSVRC12", "ILSVRC12Files"]

_CORNERS = ("xmin", "ymin", "xmax", "ymax")


@final
class ILSVRC12Files(ImageFiles):
    """Yields `[path, label]` of ImageNet's images of 1000 classes; addressable.

    There are 1,281,167 for training, 50,000 for validation, and 100,000 for testing; the labels of the latter
    are not published and set to 0. When the flow is created, the names of the images in the folders are
    compared with those in the list; no image is opened.

    ::

        dir/train/n01440764/n01440764_10026.JPEG
        dir/val/ILSVRC2012_val_00000293.JPEG              dir_structure="original"
        dir/val/n01440764/ILSVRC2012_val_00000293.JPEG    dir_structure="train"
        dir/test/ILSVRC2012_test_00000001.JPEG

    Source: O. Russakovsky et al., "ImageNet large scale visual recognition challenge", 2015.

    Args:
        dir: the folder with the folder `name`.
        name: `"train"`, `"val"` or `"test"`.
        meta_dir: where the lists are; see `ILSVRCMeta`.
        shuffle: whether each epoch has a different order; by default, only for the training set.
        dir_structure: structure of the validation set; by default, determined from the folder.

    Raises:
        ArgumentError: `name` or `dir_structure` has another value.
        DatasetError: a folder, the list, or an image of the list is missing.
        FormatError: the list is damaged, or lacks images of the folders.
    """

    def __init__(
        self,
        dir: PathLike,
        name: Literal["train", "val", "test"],
        meta_dir: PathLike | None = None,
        shuffle: bool | None = None,
        dir_structure: Layout | None = None,
    ) -> None:
        """Reads the list and compares it with the folders."""
        folder = Path(dir).expanduser() / arguments.one_of("name", name, ("train", "val", "test"))
        self._meta = ILSVRCMeta(meta_dir)
        found = ILSVRCMeta.guess_dir_structure(folder)  # raises without the folder, before any list is read
        files = self._meta.get_image_list(name, found if dir_structure is None else dir_structure)
        check_listed(folder, [file for file, _ in files], str(self._meta.dir / f"{name}.txt"))
        super().__init__(folder, files, name == "train" if shuffle is None else shuffle)

    def get_label_names(self) -> list[str]:
        """Returns the words of each label, such as `tench, Tinca tinca`.

        Raises:
            DatasetError: `synset_words.txt` is missing.
            FormatError: it does not have 1000 lines.
        """
        return [words.partition(" ")[2] for words in self._meta.get_synset_words_1000().values()]


@final
class ILSVRC12(LabelledImages):
    """Yields `[image, label]` of ImageNet's images of 1000 classes; addressable.

    An image is uint8 of shape [height, width, 3], RGB, also for files that are grey, CMYK, or a PNG under the
    name of a JPEG, as some of the training set. Otherwise like `ILSVRC12Files`.

    Args:
        dir: the folder with the folder `name`.
        name: `"train"`, `"val"` or `"test"`.
        meta_dir: where the lists are; see `ILSVRCMeta`.
        shuffle: whether each epoch has a different order; by default, only for the training set.
        dir_structure: structure of the validation set; by default, determined from the folder.

    Raises:
        ArgumentError: `name` or `dir_structure` has another value.
        DatasetError: a folder, the list, or an image of the list is missing.
        FormatError: the list is damaged, or lacks images of the folders; or, while iterating, a file is not
            an image.
        ImportError: no image decoder is installed; raised while iterating.
    """

    def __init__(
        self,
        dir: PathLike,
        name: Literal["train", "val", "test"],
        meta_dir: PathLike | None = None,
        shuffle: bool | None = None,
        dir_structure: Layout | None = None,
    ) -> None:
        """Reads the list and compares it with the folders; opens no image."""
        super().__init__(ILSVRC12Files(dir, name, meta_dir, shuffle, dir_structure))

    @staticmethod
    def get_training_bbox(
        bbox_dir: PathLike, imglist: Iterable[tuple[str, int]]
    ) -> list[npt.NDArray[np.float32] | None]:
        """Returns the boxes of training images, and None for those without a file of boxes.

        Args:
            bbox_dir: a folder that contains the folder `train` with a file of boxes, such as
                `n01440764/n01440764_18.xml`, for some images.
            imglist: files and labels, from `ILSVRCMeta.get_image_list("train")`.

        Returns:
            for each image, float32 of shape [number of boxes, 4]: left, top, right and bottom, in pixels.

        Raises:
            FormatError: a file of boxes is damaged.
        """
        folder = Path(bbox_dir).expanduser() / "train"
        return [_boxes(folder / (os.path.splitext(file)[0] + ".xml")) for file, _ in imglist]


def _boxes(path: Path) -> npt.NDArray[np.float32] | None:
    import xml.etree.ElementTree as ET  # imported here to keep `import towerpack_dataflow` fast

    try:
        root: Any = ET.parse(path)
        found = [[float(box.find(corner).text) for corner in _CORNERS] for box in root.iter("bndbox")]
    except FileNotFoundError:
        return None
    except (ET.ParseError, AttributeError, TypeError, ValueError) as error:
        raise FormatError(
            f"{path} is damaged ({error}); expected bndbox with {', '.join(_CORNERS)}"
        ) from error
    return np.array(found, np.float32).reshape(-1, 4)
