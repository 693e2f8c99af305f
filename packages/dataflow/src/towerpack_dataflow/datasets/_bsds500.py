"""`BSDS500`: photographs with edges drawn by several people."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from .. import _argument_checks as arguments
from .._errors import DatasetError, FormatError
from ..augment import read_image
from ..operators._map_data import MapData
from ..sources._from_iterable import DataFromList
from ._download import PathLike, dataset_folder
from ._image_files import image_names
from ._mat_datasets import read_mat

__all__ = ["BSDS500"]

_URL = "http://www.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/BSR/BSR_bsds500.tgz"
_SHAPE = (321, 481)


@final
class BSDS500(MapData):
    """Yields photographs and their edges; addressable.

    A datapoint is `[image, edges]`: uint8 of shape (321, 481, 3), RGB, and float32 of shape (321, 481), the
    fraction of the people who drew an edge at each pixel, from 0 to 1. Upright photographs are transposed.
    There are 200 for training, 200 for testing, and 100 for validation. The files are read in each pass; put
    a `CacheData` over the flow to keep their content. Its authors publish no checksum, so the archive is not
    downloaded: unpack it into the folder.

    Source: P. Arbelaez, M. Maire, C. Fowlkes, J. Malik, "Contour detection and hierarchical image
    segmentation", 2011.

    Args:
        name: `"train"`, `"test"` or `"val"`.
        shuffle: whether each epoch has a different order; by default, only for the training set.
        dir: the folder that contains the archive's folder `BSR`; by default, a folder in
            `$TOWERPACK_DATASETS`.

    Raises:
        ArgumentError: `name` is not one of the three.
        DatasetError: a folder is missing, or an image has no edges, or edges have no image.
        FormatError: a file is truncated or damaged; raised while iterating.
        ImportError: SciPy, or an image decoder, is missing; raised while iterating.

    Example:
        ```python
        train = CacheData(BSDS500("train", dir="bsds500"), shuffle=True)
        ```
    """

    def __init__(
        self,
        name: Literal["train", "test", "val"],
        shuffle: bool | None = None,
        dir: PathLike | None = None,
    ) -> None:
        """Lists the files; opens none."""
        arguments.one_of("name", name, ("train", "test", "val"))
        folder = dataset_folder(dir, "bsds500").expanduser() / "BSR" / "BSDS500" / "data"
        pairs = _pairs(folder / "images" / name, folder / "groundTruth" / name)
        super().__init__(DataFromList(pairs, name == "train" if shuffle is None else shuffle), _read)


def _pairs(images: Path, truths: Path) -> list[list[str]]:
    """Returns the files of each photograph: image and edges."""
    if not (images.is_dir() and truths.is_dir()):
        lacking = truths if images.is_dir() else images
        raise DatasetError(f"the folder {lacking} is missing; unpack {_URL} there")
    names = {Path(name).stem: name for name in image_names(images)}
    alone = names.keys() ^ {path.stem for path in truths.glob("*.mat")}
    if alone or not names:
        raise DatasetError(
            f"{images} has {len(names)} images; expected some, and the edges of each in {truths}"
            + (f", but {min(alone)} is in only one of the folders" if alone else "")
            + f"; unpack {_URL} again"
        )
    return [[str(images / names[stem]), str(truths / f"{stem}.mat")] for stem in sorted(names)]


def _read(datapoint: list[str]) -> list[Any]:
    image, truth = datapoint
    pixels, edges = _lying(read_image(image)), _lying(_edges(Path(truth)))
    for path, array in ((image, pixels), (truth, edges)):
        if array.shape[:2] != _SHAPE:
            raise FormatError(f"{path}: expected {_SHAPE} pixels, or transposed; found {array.shape[:2]}")
    return [pixels, edges]


def _edges(path: Path) -> npt.NDArray[np.float32]:
    people = read_mat(path, ("groundTruth",))["groundTruth"].ravel()
    try:
        drawn = np.stack([person["Boundaries"][0, 0] for person in people])
        mean: npt.NDArray[np.float32] = (drawn != 0).mean(axis=0, dtype=np.float32)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: expected Boundaries of one shape in groundTruth ({error})") from error
    return mean


def _lying(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    height, width = array.shape[:2]
    return np.ascontiguousarray(array.swapaxes(0, 1)) if height > width else array
