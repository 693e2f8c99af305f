"""The ImageNet competition of 2012: its classes and image lists, and its images as flows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from .. import _argument_checks as arguments
from .._errors import ArgumentError, DatasetError, FormatError, extra
from ..augment import _image_checks as checks
from ..formats._wire_format import WireError, fields, packed_varints
from ._download import DatasetFile, PathLike, dataset_folder, read_members, require
from ._image_files import ImageFiles, LabelledImages, check_listed, text_lines

__all__ = ["ILSVRC12", "ILSVRC12Files", "ILSVRCMeta", "Layout"]

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

    Example:
        ```python
        flow = MultiProcessRunner(MapData(ILSVRC12Files("imagenet", "train"), read_and_augment), 8)
        ```
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

    Example:
        ```python
        flow = AugmentImageComponent(ILSVRC12("imagenet", "train"), [GoogleNetRandomCropAndResize()])
        flow = BatchData(MultiProcessRunner(flow, 8), 64)
        ```
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


Layout = Literal["original", "train"]

_ARCHIVE = DatasetFile(
    "http://dl.caffe.berkeleyvision.org/caffe_ilsvrc12.tar.gz", "f963098ea0e785a968ca1eb634003a90"
)
_CLASSES = 1000
_LABELS = {str(label): label for label in range(_CLASSES)}
_SIZES, _DATA, _SHAPE, _DIM = (1, 2, 3, 4), 5, 7, 1  # fields of Caffe's BlobProto and BlobShape
_FORM = "the original is text with lines 'file label', with labels from 0 to 999"


@final
class ILSVRCMeta:
    """Reads the metadata published by the authors of Caffe for the ImageNet images of 2012.

    The files `synsets.txt`, `synset_words.txt`, `train.txt`, `val.txt`, `test.txt` and
    `imagenet_mean.binaryproto` are in the folder, or in the archive `caffe_ilsvrc12.tar.gz` there, which is
    downloaded on demand if both are missing.

    Args:
        dir: the folder; by default, `ilsvrc_metadata` in `$TOWERPACK_DATASETS`.

    Attributes:
        dir: the folder.

    Example:
        ```python
        names = ILSVRCMeta().get_synset_words_1000()
        mean = ILSVRCMeta().get_per_pixel_mean(size=(224, 224))
        ```
    """

    def __init__(self, dir: PathLike | None = None) -> None:
        """Stores the folder; reads nothing."""
        self.dir = dataset_folder(dir, "ilsvrc_metadata").expanduser()

    def get_synset_1000(self) -> dict[int, str]:
        """Returns the WordNet ID of each label, such as `n01440764`.

        Raises:
            DatasetError: `synsets.txt` is missing.
            FormatError: it does not have 1000 lines.
        """
        return dict(enumerate(self._classes("synsets.txt")))

    def get_synset_words_1000(self) -> dict[int, str]:
        """Returns WordNet ID and words of each label, such as `n01440764 tench, Tinca tinca`.

        Raises:
            DatasetError: `synset_words.txt` is missing.
            FormatError: it does not have 1000 lines.
        """
        return dict(enumerate(self._classes("synset_words.txt")))

    def get_image_list(
        self, name: Literal["train", "val", "test"], dir_structure: Layout = "original"
    ) -> list[tuple[str, int]]:
        """Returns file and label of each image; the unpublished labels of the test set are 0.

        Args:
            name: `"train"`, `"val"` or `"test"`.
            dir_structure: whether the images of the validation set are in one folder (`"original"`) or in one
                folder per class (`"train"`), like those of the training set.

        Raises:
            ArgumentError: an argument has another value.
            DatasetError: the list is missing.
            FormatError: a line does not consist of file and label.
        """
        arguments.one_of("name", name, ("train", "val", "test"))
        if arguments.one_of("dir_structure", dir_structure, ("original", "train")) == "train" == name:
            dir_structure = "original"  # the list contains the folders
        if name == "test" and dir_structure == "train":
            raise ArgumentError(
                "dir_structure='train' has a folder for each class, and the classes of the test set are not "
                "published; received name='test'"
            )
        listed = self._listed(f"{name}.txt")
        if dir_structure == "original":
            return listed
        synsets = self.get_synset_1000()
        return [(f"{synsets[label]}/{file}", label) for file, label in listed]

    def get_per_pixel_mean(self, size: int | tuple[int, int] | None = None) -> npt.NDArray[np.float32]:
        """Returns the mean of the training images: float32 of shape [height, width, 3], RGB, from 0 to 255.

        Args:
            size: height and width for a resize by OpenCV; (256, 256) by default.

        Raises:
            ArgumentError: `size` is neither a number nor a pair.
            DatasetError: `imagenet_mean.binaryproto` is missing.
            FormatError: it is damaged.
            ImportError: a resize is requested, but OpenCV is missing.
        """
        shape = None if size is None else checks.shape_pair("size", size)
        name = "imagenet_mean.binaryproto"
        mean = np.ascontiguousarray(_blob(self._content(name), self.dir / name)[::-1].transpose(1, 2, 0))
        if shape is None or shape == mean.shape[:2]:
            return mean
        with extra("image", "resizing the mean image"):
            import cv2
        return np.asarray(cv2.resize(mean, shape[::-1]), np.float32)

    @staticmethod
    def guess_dir_structure(dir: PathLike) -> Layout:
        """Returns `"train"` if images are in folders by class, such as `n01440764`; else `"original"`.

        Raises:
            DatasetError: the folder is missing.
        """
        try:
            with os.scandir(dir) as entries:
                by_class = any(entry.name.startswith("n") and entry.is_dir() for entry in entries)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise DatasetError(f"the folder {dir} is missing, or is not a folder") from error
        return "train" if by_class else "original"

    def _classes(self, name: str) -> list[str]:
        lines = self._lines(name)
        if len(lines) != _CLASSES:
            raise FormatError(f"{self.dir / name} has {len(lines)} lines; expected {_CLASSES}, one per class")
        return lines

    def _listed(self, name: str) -> list[tuple[str, int]]:
        listed = []
        for number, line in enumerate(self._lines(name), 1):
            file, _, label = line.strip().rpartition(" ")
            if label not in _LABELS or not file:
                raise FormatError(f"{self.dir / name}, line {number}: received {line!r:.80}; {_FORM}")
            listed.append((file.rstrip(), _LABELS[label]))
        return listed

    def _lines(self, name: str) -> list[str]:
        return text_lines(self.dir / name, f"it is in {_ARCHIVE.url}", self._content(name))

    def _content(self, name: str) -> bytes:
        path = self.dir / name
        if path.exists():
            return path.read_bytes()
        try:
            archive = require(self.dir, _ARCHIVE)
        except DatasetError as error:
            raise DatasetError(f"{path} is missing, and so is its archive: {error}") from error
        return read_members(archive, [name], "is it the archive of Caffe's authors?")[name]


def _blob(content: bytes, path: Path) -> npt.NDArray[np.float32]:
    """Returns the array of a message `BlobProto`, of shape [3, height, width]."""
    sizes, data = dict.fromkeys(_SIZES, 1), bytearray()
    shape: Sequence[int] | None = None
    try:
        for number, _, value in fields(memoryview(content)):
            if number in sizes:
                sizes[number] = int(value)
            elif number == _DATA:
                data += value
            elif number == _SHAPE:
                shape = _dimensions(value)
    except (WireError, TypeError) as error:
        raise FormatError(f"{path} is truncated or damaged: {error}") from error
    shape = [size for size in shape or sizes.values() if size != 1]
    if not data or len(shape) != 3 or shape[0] != 3 or len(data) != 4 * np.prod(shape):
        raise FormatError(
            f"{path}: expected float32 of 3 channels, height and width; found {len(data)} bytes of shape "
            f"{shape}"
        )
    return np.frombuffer(data, "<f4").astype(np.float32).reshape(shape)


def _dimensions(message: memoryview) -> list[int]:
    sizes: list[int] = []
    for number, _, value in fields(message):
        if number == _DIM:
            sizes += [value] if isinstance(value, int) else packed_varints(value).tolist()
    return sizes
