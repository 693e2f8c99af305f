"""`Mnist` and `FashionMnist`: 28 by 28 grey images of ten classes."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _argument_checks as arguments
from .._errors import FormatError
from ._download import DatasetFile, PathLike, dataset_folder, require
from ._image_arrays import ImageArrays

__all__ = ["FashionMnist", "Mnist"]

_KINDS = {"train": "train", "test": "t10k"}
_UBYTE = 8  # the only value type in these files


class _IdxFiles(NamedTuple):
    """Four files in the format of LeCun's page."""

    folder: str
    mirror: str
    checksums: dict[str, str]
    label_names: tuple[str, ...]

    def read(
        self, part: str, shuffle: bool | None, dir: PathLike | None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any], bool]:
        """Returns images and labels of a part, and whether to shuffle them."""
        kind = _KINDS[arguments.one_of("train_or_test", part, ("train", "test"))]
        folder = dataset_folder(dir, self.folder)
        images = _read_idx(self._file(folder, f"{kind}-images-idx3-ubyte.gz"), 3)
        path = self._file(folder, f"{kind}-labels-idx1-ubyte.gz")
        labels = _read_idx(path, 1)
        if len(labels) != len(images):
            raise FormatError(f"{path} has {len(labels)} labels, but there are {len(images)} images")
        return images.astype(np.float32) / 255, labels, part == "train" if shuffle is None else shuffle

    def _file(self, folder: Path, name: str) -> Path:
        return require(folder, DatasetFile(self.mirror + name, self.checksums[name]))


_DIGITS = _IdxFiles(
    "mnist",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    {
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    },
    tuple(map(str, range(10))),
)
_CLOTHES = _IdxFiles(
    "fashion_mnist",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    {
        "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
    },
    (
        *("t-shirt", "trouser", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ),
)


class Mnist(ImageArrays):
    """Yields handwritten digits; addressable.

    A datapoint is `[image, label]`: float32 of shape (28, 28) from 0 to 1, and an int from 0 to 9. There are
    60,000 for training and 10,000 for testing.

    Source: Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-based learning applied to document
    recognition", 1998.

    Args:
        train_or_test: `"train"` or `"test"`.
        shuffle: whether each epoch has a different order; by default, only for the training set.
        dir: the folder of the four files; by default, a folder in `$TOWERPACK_DATASETS`.

    Raises:
        ArgumentError: `train_or_test` has another value.
        DatasetError: a file is missing and cannot be downloaded.
        FormatError: a file is truncated or damaged.

    Example:
        ```python
        train, test = BatchData(Mnist("train"), 64), BatchData(Mnist("test"), 64, remainder=True)
        ```
    """

    def __init__(
        self,
        train_or_test: Literal["train", "test"],
        shuffle: bool | None = None,
        dir: PathLike | None = None,
    ) -> None:
        """Reads the images; downloads missing files."""
        super().__init__(*_DIGITS.read(train_or_test, shuffle, dir), label_names=_DIGITS.label_names)


class FashionMnist(ImageArrays):
    """Yields pictures of clothes; addressable, otherwise like `Mnist`.

    Source: H. Xiao, K. Rasul, R. Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine
    learning algorithms", 2017.

    Example:
        ```python
        train, test = BatchData(FashionMnist("train"), 64), BatchData(FashionMnist("test"), 100)
        ```
    """

    def __init__(
        self,
        train_or_test: Literal["train", "test"],
        shuffle: bool | None = None,
        dir: PathLike | None = None,
    ) -> None:
        """Reads the images; downloads missing files."""
        super().__init__(*_CLOTHES.read(train_or_test, shuffle, dir), label_names=_CLOTHES.label_names)


def _read_idx(path: Path, axes: int) -> npt.NDArray[Any]:
    """Reads an array in the IDX format of LeCun's page: big-endian sizes, then bytes."""
    try:
        with gzip.open(path) as file:
            content = file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(
            f"{path} is truncated or damaged ({error}); delete it to download it again"
        ) from error
    start = 4 + 4 * axes
    sizes = np.frombuffer(content[4:start], ">u4").tolist() if len(content) >= start else [-1]
    if content[:4] != bytes((0, 0, _UBYTE, axes)) or len(content) - start != np.prod(sizes):
        raise FormatError(
            f"{path} is not an IDX file of bytes with {axes} axes: it begins with {content[:start].hex()} "
            f"and has {len(content)} bytes"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(sizes)
