"""Shows an image in a window, and writes the images of a flow to files."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _argument_checks as arguments
from .._errors import ArgumentError, ArgumentTypeError, ComponentError
from ..flow._flow import DataFlow
from ..sources._from_iterable import as_dataflow
from ._drawing import Image, as_picture, pyplot, written

__all__ = [
    "dump_dataflow_images",
    "gen_stack_patches",
    "images_of",
    "interactive_imshow",
    "save_grid",
    "stack_patches",
]

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


OnClick = Callable[[npt.NDArray[Any], int, int], Any]


def interactive_imshow(
    image: npt.ArrayLike,
    on_left_click: OnClick | None = None,
    on_right_click: OnClick | None = None,
    **on_keys: Callable[[npt.NDArray[Any]], Any],
) -> str:
    """Shows an image until a key is pressed or the window is closed.

    Args:
        image: shape [height, width] or [height, width, 1, 3 or 4], uint8 or float from 0 to 255, RGB.
        on_left_click: called with the image, x and y in pixels.
        on_right_click: called likewise.
        **on_keys: functions called with the image when a key is pressed, by the key's name in matplotlib; the
            window stays open.

    Returns:
        the name of the key that closed the window; empty if the window itself was closed.

    Raises:
        ArgumentError: `image` is not an image.
        ArgumentTypeError: another argument is not callable.
        ImportError: matplotlib is not installed.
    """
    buttons = {1: on_left_click, 3: on_right_click}
    for name, function in {
        "on_left_click": on_left_click,
        "on_right_click": on_right_click,
        **on_keys,
    }.items():
        if function is not None and not callable(function):
            raise ArgumentTypeError(f"{name} is a function; received {function!r}")
    picture, plot = as_picture("interactive_imshow", image), pyplot()
    figure, axes = plot.subplots()
    axes.imshow(picture)
    ended_by = ""

    def click(event: Any) -> None:
        function = buttons.get(event.button)
        if function is not None and event.xdata is not None:
            function(picture, round(event.xdata), round(event.ydata))

    def press(event: Any) -> None:
        nonlocal ended_by
        function = on_keys.get(event.key)
        if function is not None:
            function(picture)
        else:
            ended_by = event.key
            plot.close(figure)

    figure.canvas.mpl_connect("button_press_event", click)
    figure.canvas.mpl_connect("key_press_event", press)
    plot.show(block=True)
    return ended_by


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
