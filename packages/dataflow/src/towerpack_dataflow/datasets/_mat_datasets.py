"""`SVHNDigit` and `Caltech101Silhouettes`: images in MATLAB files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from .. import _argument_checks as arguments
from .._errors import DatasetError, FormatError, extra
from ._download import DatasetFile, PathLike, dataset_folder, require
from ._image_arrays import ImageArrays

__all__ = ["Caltech101Silhouettes", "SVHNDigit", "read_mat"]

_SVHN = "http://ufldl.stanford.edu/housenumbers/"
_SILHOUETTES = "caltech101_silhouettes_28_split1.mat"
_SILHOUETTES_URL = f"https://people.cs.umass.edu/~marlin/data/{_SILHOUETTES}"


@final
class SVHNDigit(ImageArrays):
    """Yields digits of house numbers; addressable.

    A datapoint is `[image, label]`: uint8 of shape (32, 32, 3), RGB, and an int from 0 to 9 (the files have
    10 for a zero). There are 73,257 for training, 26,032 for testing, and 531,131 additional easier ones.

    Source: Y. Netzer et al., "Reading digits in natural images with unsupervised feature learning", 2011.

    Args:
        name: `"train"`, `"test"` or `"extra"`.
        shuffle: whether each epoch has a different order; by default, for all except the test set.
        dir: the folder of the files; by default, a folder in `$TOWERPACK_DATASETS`.

    Raises:
        ArgumentError: `name` is not one of the three.
        DatasetError: the file is missing and cannot be downloaded.
        FormatError: the file is truncated or damaged.
        ImportError: SciPy is missing.

    Example:
        ```python
        train = RandomMixData([SVHNDigit("train"), SVHNDigit("extra")])
        ```
    """

    _checksums = {
        "train": "e26dedcc434d2e4c54c9b2d4a06d8373",
        "test": "eb5a983be6a315427106f1b164d9cef3",
        "extra": "a93ce644f1a588dc4d68dda5feec44a7",
    }

    def __init__(
        self,
        name: Literal["train", "test", "extra"],
        shuffle: bool | None = None,
        dir: PathLike | None = None,
    ) -> None:
        """Reads the images; downloads the file if it is missing."""
        arguments.one_of("name", name, ("train", "test", "extra"))
        file = DatasetFile(f"{_SVHN}{name}_32x32.mat", self._checksums[name])
        path = require(dataset_folder(dir, "svhn"), file)
        content = read_mat(path, ("X", "y"))
        images, labels = content["X"], content["y"].ravel()
        if images.shape[:3] != (32, 32, 3) or images.shape[3:] != labels.shape or images.dtype != np.uint8:
            raise FormatError(
                f"{path}: expected X of uint8 of shape (32, 32, 3, number), and one label each in y; "
                f"found {images.dtype} of shape {images.shape}, and {labels.shape} labels"
            )
        shuffle = name != "test" if shuffle is None else shuffle
        digits = tuple(map(str, range(10)))
        super().__init__(np.ascontiguousarray(images.transpose(3, 0, 1, 2)), labels % 10, shuffle, digits)


@final
class Caltech101Silhouettes(ImageArrays):
    """Yields silhouettes of objects; addressable.

    A datapoint is `[image, label]`: float32 of shape (28, 28), 0 or 1, and an int from 0 to 100. Its authors
    publish no checksum, so the file is not downloaded: put it into the folder.

    Source: B. Marlin, K. Swersky, B. Chen, N. de Freitas, "Inductive principles for restricted Boltzmann
    machine learning", 2010.

    Args:
        name: `"train"` (4,100 images), `"test"` (2,307) or `"val"` (2,264).
        shuffle: whether each epoch has a different order; by default, only for the training set.
        dir: the folder of the file; by default, a folder in `$TOWERPACK_DATASETS`.

    Raises:
        ArgumentError: `name` is not one of the three.
        DatasetError: the file is missing.
        FormatError: the file is truncated or damaged.
        ImportError: SciPy is missing.

    Example:
        ```python
        train = BatchData(Caltech101Silhouettes("train", dir="silhouettes"), 64)
        ```
    """

    def __init__(
        self,
        name: Literal["train", "test", "val"],
        shuffle: bool | None = None,
        dir: PathLike | None = None,
    ) -> None:
        """Reads the images."""
        arguments.one_of("name", name, ("train", "test", "val"))
        path = dataset_folder(dir, "caltech101_silhouettes") / _SILHOUETTES
        if not path.exists():
            raise DatasetError(f"{path} is missing; put the file from {_SILHOUETTES_URL} there")
        content = read_mat(path, (f"{name}_data", f"{name}_labels", "classnames"))
        images, labels = content[f"{name}_data"], content[f"{name}_labels"].ravel()
        if images.shape != (len(labels), 28 * 28):
            raise FormatError(
                f"{path}: expected {len(labels)} images of {28 * 28} pixels in {name}_data, one per "
                f"label; found shape {images.shape}"
            )
        shuffle = name == "train" if shuffle is None else shuffle
        names = tuple(str(np.ravel(entry)[0]) for entry in content["classnames"].ravel())
        # MATLAB arrays are in column-major order.
        upright = images.reshape(-1, 28, 28).transpose(0, 2, 1).astype(np.float32)
        super().__init__(np.ascontiguousarray(upright), labels.astype(np.int64) - 1, shuffle, names)


def read_mat(path: Path, names: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    """Reads variables of a MATLAB file.

    Raises:
        FormatError: the file is truncated or damaged, or has no such variable.
        ImportError: SciPy is missing.
    """
    with extra("datasets", f"reading {path}"):
        from scipy.io import loadmat
    with open(path, "rb") as file:
        try:
            content: dict[str, Any] = loadmat(file, variable_names=names)
        except Exception as error:  # SciPy's parser raises errors of many types
            raise FormatError(f"{path} is truncated or damaged ({type(error).__name__}: {error})") from error
    missing = [name for name in names if name not in content]
    if missing:
        raise FormatError(f"{path} has no {', '.join(missing)}")
    return content
