"""Writes the images of a flow to files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _argument_checks as arguments
from .._errors import ComponentError
from ..flow._flow import DataFlow
from ..sources._from_iterable import as_dataflow
from ._libraries import as_picture, written

__all__ = ["dump_dataflow_images", "images_of"]


def dump_dataflow_images(
    df: DataFlow | Iterable[Any],
    folder: str | os.PathLike[str],
    index: int | str = 0,
    number: int = 1000,
    batched: bool = True,
    scale: float = 1.0,
) -> list[str]:
    """Writes the first images of a flow, each to a separate file.

    Args:
        df: a flow of images, uint8 or float, RGB.
        folder: folder for `0000.png`, `0001.png`, …; created if missing.
        index: position or key of the image component.
        number: largest number of images.
        batched: whether the component is a batch of images.
        scale: factor for the values before they are clipped to 0 to 255.

    Returns:
        the paths of the files.

    Raises:
        ArgumentError: a component is not an image.
        ComponentError: datapoints have no such component.
        ImportError: OpenCV is not installed.
        OSError: a file cannot be written.
    """
    arguments.count("number", number)
    os.makedirs(folder, exist_ok=True)
    paths = []
    for count, image in enumerate(images_of(df, index, number, batched)):
        picture = as_picture("dump_dataflow_images", np.clip(image * np.float64(scale), 0, 255))
        paths.append(os.path.join(os.fspath(folder), f"{count:04}.png"))
        written(paths[-1], picture)
    return paths


def images_of(
    df: DataFlow | Iterable[Any], index: int | str, number: int, batched: bool
) -> Iterator[npt.NDArray[Any]]:
    """Yields the first images of a flow of images, or of batches of them.

    Raises:
        ComponentError: datapoints have no such component.
    """
    components = (np.asarray(_component(datapoint, index)) for datapoint in as_dataflow(df))
    return islice(chain.from_iterable(components) if batched else components, number)


def _component(datapoint: Any, index: int | str) -> Any:
    try:
        return datapoint[index]
    except (LookupError, TypeError) as error:
        raise ComponentError(f"index={index!r}: the datapoints of the flow have no such component") from error
