"""`ILSVRC12Files` and `ILSVRC12`: ImageNet's images of the competition of 2012."""

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

    There are 1,281,167 to train on, 50,000 to validate with, and 100,000 to test with, whose labels are not
    published: they are 0. That the images in the folders are those of the list is checked when the flow is
    made, by the names alone.

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
        shuffle: whether each epoch has an order of its own; if not given, the training set does.
        dir_structure: of the validation set; if not given, it is found by looking at the folder.

    Raises:
        ArgumentError: `name` or `dir_structure` is none of those above.
        DatasetError: a folder, the list, or an image of the list is missing.
        FormatError: the list is damaged, or lacks images of the folders.
    """

    _holds = ()

    def __init__(
        self,
        dir: PathLike,
        name: Literal["train", "val", "test"],
        meta_dir: PathLike | None = None,
        shuffle: bool | None = None,
        dir_structure: Layout | None = None,
    ) -> None:
        """Reads the list, and compares it with the folders."""
        folder = Path(dir).expanduser() / arguments.one_of("name", name, ("train", "val", "test"))
        self._meta = ILSVRCMeta(meta_dir)
        found = ILSVRCMeta.guess_dir_structure(folder)  # an error without the folder, before any list is read
        files = self._meta.get_image_list(name, found if dir_structure is None else dir_structure)
        check_listed(folder, [file for file, _ in files], str(self._meta.dir / f"{name}.txt"))
        super().__init__(folder, files, name == "train" if shuffle is None else shuffle)

    def get_label_names(self) -> list[str]:
        """Returns the words of each label, such as `tench, Tinca tinca`.

        Raises:
            DatasetError: `synset_words.txt` is missing.
            FormatError: it has not 1000 lines.
        """
        return [words.partition(" ")[2] for words in self._meta.get_synset_words_1000().values()]


@final
class ILSVRC12(LabelledImages):
    """Yields `[image, label]` of ImageNet's images of 1000 classes; addressable.

    An image is uint8 of shape [height, width, 3], RGB, also where the file is grey, CMYK, or a PNG under the
    name of a JPEG, as some of the training set are. All else is as in `ILSVRC12Files`.

    Args:
        dir: the folder with the folder `name`.
        name: `"train"`, `"val"` or `"test"`.
        meta_dir: where the lists are; see `ILSVRCMeta`.
        shuffle: whether each epoch has an order of its own; if not given, the training set does.
        dir_structure: of the validation set; if not given, it is found by looking at the folder.

    Raises:
        ArgumentError: `name` or `dir_structure` is none of those.
        DatasetError: a folder, the list, or an image of the list is missing.
        FormatError: the list is damaged, or lacks images of the folders; a file is no image, which is raised
            while iterating.
        ImportError: no decoder of images is installed; raised while iterating.
    """

    _holds = ("ds",)

    def __init__(
        self,
        dir: PathLike,
        name: Literal["train", "val", "test"],
        meta_dir: PathLike | None = None,
        shuffle: bool | None = None,
        dir_structure: Layout | None = None,
    ) -> None:
        """Reads the list, and compares it with the folders; opens no image."""
        super().__init__(ILSVRC12Files(dir, name, meta_dir, shuffle, dir_structure))

    @staticmethod
    def get_training_bbox(
        bbox_dir: PathLike, imglist: Iterable[tuple[str, int]]
    ) -> list[npt.NDArray[np.float32] | None]:
        """Returns the boxes of training images, and None for those without a file of boxes.

        Args:
            bbox_dir: the folder whose folder `train` has a file of boxes, `n01440764/n01440764_18.xml`, for
                some images.
            imglist: files and labels, as `ILSVRCMeta.get_image_list("train")` returns them.

        Returns:
            for each image, float32 of shape [number of boxes, 4]: left, top, right and bottom, in pixels.

        Raises:
            FormatError: a file of boxes is damaged.
        """
        folder = Path(bbox_dir).expanduser() / "train"
        return [_boxes(folder / (os.path.splitext(file)[0] + ".xml")) for file, _ in imglist]


def _boxes(path: Path) -> npt.NDArray[np.float32] | None:
    import xml.etree.ElementTree as ET  # costs milliseconds, which `import towerpack_dataflow` would pay

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
