"""Many images in one picture, in rows and columns."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from .. import _argument_checks as arguments
from .._errors import ArgumentError
from ._libraries import Image, as_picture, written

__all__ = ["gen_stack_patches", "save_grid", "stack_patches"]

Color = int | tuple[int, int, int]


def stack_patches(
    patches: Sequence[npt.ArrayLike] | Image,
    rows: int,
    columns: int,
    border: int | None = None,
    pad: bool = False,
    background: Color = 255,
) -> npt.NDArray[np.uint8]:
    """Returns one picture of several images, in rows from the top left.

    Args:
        patches: at most `rows * columns` images of shape [height, width] or [height, width, 1, 3 or 4], uint8
            or float from 0 to 255, RGB.
        rows: number of rows.
        columns: number of columns.
        border: pixels between two images; by default, a tenth of an image's longer side.
        pad: whether images of different shapes are allowed; each is centred in a cell with the size of the
            largest one.
        background: colour between and around the images: a grey level, or red, green and blue, from 0 to 255.

    Returns:
        uint8 of shape [height, width, 3], RGB.

    Raises:
        ArgumentError: there are no images, or more than cells, or their shapes differ, or one is not an
            image.

    Example:
        >>> stack_patches(np.zeros((5, 8, 8)), rows=2, columns=3, border=2).shape
        (18, 28, 3)
    """
    arguments.count("rows", rows)
    arguments.count("columns", columns)
    pictures = [as_picture("stack_patches", patch) for patch in patches]
    if not 0 < len(pictures) <= rows * columns:
        raise ArgumentError(
            f"stack_patches takes 1 to {rows * columns} images for rows={rows} and columns={columns}; "
            f"received {len(pictures)}. gen_stack_patches makes several pictures"
        )
    cell = _cell([picture.shape[:2] for picture in pictures], pad)
    gap = max(1, max(cell) // 10) if border is None else arguments.count("border", border, least=0)
    pitch = (cell[0] + gap, cell[1] + gap)
    canvas = np.empty((rows * pitch[0] - gap, columns * pitch[1] - gap, 3), np.uint8)
    canvas[:] = _color(background)
    for number, picture in enumerate(pictures):
        row, column = divmod(number, columns)
        top = row * pitch[0] + (cell[0] - picture.shape[0]) // 2
        left = column * pitch[1] + (cell[1] - picture.shape[1]) // 2
        canvas[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return canvas


def gen_stack_patches(
    patches: Sequence[npt.ArrayLike] | Image,
    rows: int,
    columns: int,
    border: int | None = None,
    pad: bool = False,
    background: Color = 255,
) -> Iterator[npt.NDArray[np.uint8]]:
    """Yields pictures of `rows * columns` images each, until all are shown; see `stack_patches`.

    Raises:
        ArgumentError: as for `stack_patches`.

    Example:
        >>> [page.shape for page in gen_stack_patches(np.zeros((5, 8, 8)), rows=1, columns=3, border=0)]
        [(8, 24, 3), (8, 24, 3)]
    """
    page = arguments.count("rows", rows) * arguments.count("columns", columns)
    for first in range(0, len(patches), page):
        yield stack_patches(patches[first : first + page], rows, columns, border, pad, background)


def save_grid(images: Sequence[npt.ArrayLike] | Image, path: str | os.PathLike[str]) -> None:
    """Writes one picture of several images, with about the same number of rows and columns.

    Args:
        images: as in `stack_patches`; their shapes may differ.
        path: path of the picture; its extension, such as `.png`, selects the format.

    Raises:
        ArgumentError: there are no images, one is not an image, or the extension is unknown.
        ImportError: OpenCV is not installed.
        OSError: the file cannot be written.
    """
    columns = max(1, math.ceil(math.sqrt(len(images))))
    rows = max(1, math.ceil(len(images) / columns))
    written(os.fspath(path), stack_patches(images, rows, columns, pad=True))


def _cell(shapes: Sequence[tuple[int, ...]], pad: bool) -> tuple[int, int]:
    if not pad and len(set(shapes)) > 1:
        raise ArgumentError(
            f"stack_patches takes images of one shape; received {sorted(set(shapes))}. Set pad=True"
        )
    height, width = (max(sizes) for sizes in zip(*shapes))
    return height, width


def _color(color: Color) -> npt.NDArray[np.uint8]:
    array = np.asarray(color)
    if array.dtype.kind not in "iu" or array.shape not in {(), (3,)} or array.min() < 0 or array.max() > 255:
        raise ArgumentError(f"background is a grey level or three colours from 0 to 255; received {color!r}")
    return array.astype(np.uint8)
