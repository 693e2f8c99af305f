"""`Cifar10` and `Cifar100`: 32 by 32 colour images of ten and of a hundred classes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _argument_checks as arguments
from .._errors import FormatError
from ._download import DatasetFile, PathLike, dataset_folder, read_members, require
from ._image_arrays import ImageArrays

__all__ = ["Cifar10", "Cifar100"]

_SHAPE = (3, 32, 32)
_BYTES = 3 * 32 * 32


class _BinaryArchive(NamedTuple):
    """An archive of the binary version.

    Attributes:
        label_bytes: number of bytes before each image; the last one is the label.
    """

    folder: str
    archive: DatasetFile
    members: dict[str, list[str]]
    names_member: str
    label_bytes: int

    def read(
        self, part: str, shuffle: bool | None, dir: PathLike | None
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], bool, tuple[str, ...]]:
        """Returns images and labels of a part, whether to shuffle them, and the names of the labels."""
        arguments.one_of("train_or_test", part, ("train", "test"))
        path = require(dataset_folder(dir, self.folder), self.archive)
        wanted = self.members[part]
        found = read_members(path, [*wanted, self.names_member], "is it the binary version of the data set?")
        records = np.concatenate([self._records(path, name, found[name]) for name in wanted])
        images = records[:, self.label_bytes :].reshape(-1, *_SHAPE).transpose(0, 2, 3, 1)
        names = tuple(found[self.names_member].decode().split())
        shuffle = part == "train" if shuffle is None else shuffle
        return np.ascontiguousarray(images), records[:, self.label_bytes - 1], shuffle, names

    def _records(self, path: Path, name: str, content: bytes) -> npt.NDArray[np.uint8]:
        size = self.label_bytes + _BYTES
        if not content or len(content) % size:
            raise FormatError(f"{path}: {name} has {len(content)} bytes, which is not a multiple of {size}")
        return np.frombuffer(content, np.uint8).reshape(-1, size)


_TEN = _BinaryArchive(
    "cifar10",
    DatasetFile(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"
    ),
    {
        "train": [f"cifar-10-batches-bin/data_batch_{number}.bin" for number in range(1, 6)],
        "test": ["cifar-10-batches-bin/test_batch.bin"],
    },
    "cifar-10-batches-bin/batches.meta.txt",
    1,
)
_HUNDRED = _BinaryArchive(
    "cifar100",
    DatasetFile(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"
    ),
    {"train": ["cifar-100-binary/train.bin"], "test": ["cifar-100-binary/test.bin"]},
    "cifar-100-binary/fine_label_names.txt",
    2,
)


class Cifar10(ImageArrays):
    """Yields small photographs; addressable.

    A datapoint is `[image, label]`: uint8 of shape (32, 32, 3), RGB, and an int from 0 to 9. There are 50,000
    for training and 10,000 for testing.

    Source: A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009, the binary version.

    Args:
        train_or_test: `"train"` or `"test"`.
        shuffle: whether each epoch has a different order; by default, only for the training set.
        dir: the folder of the archive; by default, a folder in `$TOWERPACK_DATASETS`.

    Raises:
        ArgumentError: `train_or_test` has another value.
        DatasetError: the archive is missing and cannot be downloaded.
        FormatError: the archive is truncated or damaged.

    Example:
        ```python
        train = AugmentImageComponent(Cifar10("train"), [RandomCrop(28), Flip(horiz=True)])
        ```
    """

    def __init__(
        self,
        train_or_test: Literal["train", "test"],
        shuffle: bool | None = None,
        dir: PathLike | None = None,
    ) -> None:
        """Reads the images; downloads the archive if it is missing."""
        super().__init__(*_TEN.read(train_or_test, shuffle, dir))


class Cifar100(ImageArrays):
    """Yields small photographs of a hundred classes; addressable, otherwise like `Cifar10`.

    A label is an int from 0 to 99, the finer of the two in the files.

    Example:
        ```python
        train = AugmentImageComponent(Cifar100("train"), [RandomCrop(28), Flip(horiz=True)])
        ```
    """

    def __init__(
        self,
        train_or_test: Literal["train", "test"],
        shuffle: bool | None = None,
        dir: PathLike | None = None,
    ) -> None:
        """Reads the images; downloads the archive if it is missing."""
        super().__init__(*_HUNDRED.read(train_or_test, shuffle, dir))
