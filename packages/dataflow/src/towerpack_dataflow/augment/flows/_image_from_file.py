"""`ImageFromFile`: reads image files as datapoints."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from ..._errors import ArgumentError
from ...operators._map_data import MapData
from ...sources._from_list import DataFromList
from .._decode_image import read_image
from .._image_checks import opencv, shape_pair, with_channels

__all__ = ["ImageFromFile"]


class ImageFromFile(MapData):
    """Reads images as `[image]`, RGB or grey; addressable.

    Args:
        files: paths, or URLs that `storage.open_url` reads.
        channel: 3 for RGB, 1 for grey.
        resize: height and width of all images, one number or two; unchanged by default.
        shuffle: whether each epoch has a different order.
        reduce: 2, 4 or 8: divides height and width, as in `decode_image`.

    Raises:
        ArgumentError: `files` is empty, or another argument is invalid.
        FormatError: a file is not an image; raised while iterating.
    """

    def __init__(
        self,
        files: Sequence[str | os.PathLike[str]],
        channel: int = 3,
        resize: int | tuple[int, int] | None = None,
        shuffle: bool = False,
        reduce: int = 1,
    ) -> None:
        """Stores the names; opens nothing."""
        if isinstance(files, (str, os.PathLike)) or not len(files):
            raise ArgumentError(f"files is a list of at least one file; received {files!r}")
        shape = None if resize is None else shape_pair("resize", resize)
        if channel not in {1, 3} or reduce not in {1, 2, 4, 8}:
            raise ArgumentError(
                f"channel is 1 or 3 and reduce is 1, 2, 4 or 8; received channel={channel!r}, "
                f"reduce={reduce!r}"
            )
        super().__init__(
            DataFromList([os.fspath(file) for file in files], shuffle), _Read(channel, shape, reduce)
        )


@final
class _Read:
    """Reads one file."""

    def __init__(self, channel: int, shape: tuple[int, int] | None, reduce: int) -> None:
        self._channel, self._shape, self._reduce = channel, shape, reduce

    def __call__(self, file: str) -> list[Any]:
        image = read_image(file, self._channel, self._reduce)
        if self._shape is not None:
            resized = opencv().resize(image, self._shape[::-1], interpolation=opencv().INTER_LINEAR)
            image = with_channels(np.asarray(resized), image)
        return [image]
