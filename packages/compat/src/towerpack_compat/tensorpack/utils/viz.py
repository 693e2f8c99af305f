"""`tensorpack.utils.viz`: visualization of images with OpenCV's order of channels: blue, green, red."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from towerpack_dataflow import DataFlow, RepeatedData
from towerpack_dataflow import viz as library
from towerpack_dataflow.viz._drawing import opencv  # noqa: PLC2701
from towerpack_dataflow.viz._show_images import images_of  # noqa: PLC2701

__all__ = [
    "draw_boxes",
    "draw_text",
    "dump_dataflow_images",
    "gen_stack_patches",
    "interactive_imshow",
    "stack_patches",
]

Color = int | tuple[int, int, int]


def interactive_imshow(img: Any, lclick_cb: Any = None, rclick_cb: Any = None, **kwargs: Any) -> None:
    """Shows an image until a key is pressed: x exits, s writes `out.png`, + and - change the size.

    Args:
        img: the image, BGR.
        lclick_cb: called with the image, x and y on a left click.
        rclick_cb: called with the same arguments on a right click.
        kwargs: `key_cb_<key>`, such as `key_cb_a`: called with the image when the key is pressed.
    """
    array = np.asarray(img)
    has_colors = array.ndim == 3 and array.shape[2] == 3

    def at(function: Any) -> Any:
        return None if function is None else lambda _shown, x, y: function(img, x, y)

    key = library.interactive_imshow(array[..., ::-1] if has_colors else array, at(lclick_cb), at(rclick_cb))
    if f"key_cb_{key}" in kwargs:
        kwargs[f"key_cb_{key}"](img)
    elif key == "x":
        sys.exit()
    elif key == "s":
        opencv().imwrite("out.png", img)
    elif key in {"+", "=", "-"}:
        factor = 0.7 if key == "-" else 1.3
        larger = opencv().resize(img, None, fx=factor, fy=factor, interpolation=opencv().INTER_CUBIC)
        interactive_imshow(larger, lclick_cb, rclick_cb, **kwargs)


def _as_patches(patches: Any) -> np.ndarray:
    array = np.asarray(patches)
    assert array.dtype != object, "the patches have different shapes: give pad=True"
    array = array[..., np.newaxis] if array.ndim == 3 else array
    assert array.ndim == 4 and array.shape[3] in (1, 3), array.shape
    return array


def _padded(patches: Sequence[Any], color: Color) -> np.ndarray:
    arrays = [patch[..., np.newaxis] if patch.ndim == 2 else patch for patch in patches]
    height, width = (max(sizes) for sizes in zip(*(array.shape[:2] for array in arrays)))
    result = np.empty((len(arrays), height, width, 3), arrays[0].dtype)
    result[...] = color
    for cell, array in zip(result, arrays):
        top, left = (height - array.shape[0]) // 2, (width - array.shape[1]) // 2
        cell[top : top + array.shape[0], left : left + array.shape[1]] = array
    return result


def _page(
    patches: np.ndarray, grid: tuple[int, int, int], color: Color, shows: bool, on_click: Any, first: int = 0
) -> np.ndarray:
    """Returns the image of the patches from `first` on.

    It shows the image on demand, and calls a function with each clicked patch and its index.
    """
    rows, columns, border = grid
    high, wide = (size + border for size in patches.shape[1:3])
    shown = patches[first : first + rows * columns].astype(np.uint8)
    canvas = library.stack_patches(shown, rows, columns, border, background=color)
    if patches.shape[3] == 1 and isinstance(color, int):
        canvas = canvas[..., :1]

    def click(_image: Any, x: int, y: int) -> None:
        number = y // high * columns + x // wide + first
        if number < len(patches):
            on_click(patches[number], number)

    if shows or on_click is not None:
        interactive_imshow(canvas, lclick_cb=on_click and click)
    return canvas


def _border(patches: np.ndarray, border: int | None) -> int:
    return int(0.05 * min(patches.shape[1:3])) if border is None else border


def stack_patches(
    patch_list: Any,
    nr_row: int,
    nr_col: int,
    border: int | None = None,
    pad: bool = False,
    bgcolor: Color = 255,
    viz: bool = False,
    lclick_cb: Callable[[Any, int], Any] | None = None,
) -> np.ndarray:
    """Combines several images into one, in rows from the top left.

    Args:
        patch_list: images of one shape, [height, width] or [height, width, 1 or 3], of 0 to 255.
        nr_row: the number of rows.
        nr_col: the number of columns.
        border: the number of pixels between two images; None: 0.05 of the shorter side of an image.
        pad: whether to pad images of different shapes.
        bgcolor: the colour between and around the images: a grey level, or blue, green and red.
        viz: whether to show the result.
        lclick_cb: called with a clicked image and its index.
    """
    patches = _as_patches(_padded(patch_list, bgcolor) if pad else patch_list)
    assert nr_row * nr_col >= len(patches), f"{nr_row}*{nr_col} < {len(patches)}"
    return _page(patches, (nr_row, nr_col, _border(patches, border)), bgcolor, viz, lclick_cb)


def gen_stack_patches(
    patch_list: Any,
    nr_row: int | None = None,
    nr_col: int | None = None,
    border: int | None = None,
    max_width: int = 1000,
    max_height: int = 1000,
    bgcolor: Color = 255,
    viz: bool = False,
    lclick_cb: Callable[[Any, int], Any] | None = None,
) -> Iterator[np.ndarray]:
    """Yields combined images of `nr_row * nr_col` images each, for the whole list; see `stack_patches`.

    Args:
        patch_list: the images.
        nr_row: the number of rows; None: as many as fit in `max_height`.
        nr_col: the number of columns; None: as many as fit in `max_width`.
        border: the number of pixels between two images.
        max_width: the maximum width of a combined image, in pixels.
        max_height: the maximum height of a combined image, in pixels.
        bgcolor: the colour between the images.
        viz: whether to show the combined images.
        lclick_cb: called with a clicked image and its index.
    """
    patches = _as_patches(patch_list)
    height, width = patches.shape[1:3]
    gap = _border(patches, border)
    rows = int(max_height / (height + gap)) if nr_row is None else nr_row
    columns = int(max_width / (width + gap)) if nr_col is None else nr_col
    for first in range(0, len(patches), rows * columns):
        yield _page(patches, (rows, columns, gap), bgcolor, viz, lclick_cb, first)


def dump_dataflow_images(
    df: DataFlow,
    index: int = 0,
    batched: bool = True,
    number: int = 1000,
    output_dir: str | None = None,
    scale: float = 1,
    resize: Any = None,
    viz: Any = None,
    flipRGB: bool = False,
) -> None:
    """Writes or shows the images of a flow.

    Args:
        df: the flow.
        index: the index of the image component.
        batched: whether the component is a batch of images.
        number: the maximum number of images.
        output_dir: the directory for `001.jpg`, ...; None writes no files.
        scale: the factor of the values.
        resize: the size of the images, an int or a pair.
        viz: the rows and columns of combined images to show; None shows no images.
        flipRGB: whether to reverse the order of the colours.
    """
    if output_dir:
        os.makedirs(output_dir, exist_ok=True)
    shown: list[np.ndarray] = []
    rows, columns = _pair(viz or 1)
    for count, image in enumerate(images_of(RepeatedData(df, -1), index, number - 1, batched), start=1):
        picture = image * scale if scale != 1 else image
        picture = picture if resize is None else opencv().resize(picture, _pair(resize))
        picture = picture[:, :, ::-1] if flipRGB else picture
        if output_dir:
            opencv().imwrite(os.path.join(output_dir, f"{count:03d}.jpg"), picture)
        shown += [picture] if viz is not None else []
        if len(shown) == rows * columns:
            stack_patches(shown, rows, columns, viz=True)
            shown = []


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def draw_text(
    img: np.ndarray, pos: tuple[float, float], text: str, color: tuple[int, int, int], font_scale: float = 0.4
) -> np.ndarray:
    """Draws text on an image, and returns the image as uint8.

    Args:
        img: the image, BGR.
        pos: x and y of the lower left corner of the text; moved if the text would lie outside.
        text: the text.
        color: the background colour of the text, BGR.
        font_scale: the scale of the font.
    """
    cv2 = opencv()
    picture = img.astype(np.uint8)
    font = cv2.FONT_HERSHEY_SIMPLEX
    (width, height), _ = cv2.getTextSize(text, font, font_scale, 1)
    left, bottom = min(int(pos[0]), picture.shape[1] - width), max(int(pos[1]), int(1.15 * height))
    cv2.rectangle(picture, (left, bottom - int(1.3 * height)), (left + width, bottom), color, -1)
    place = (left, bottom - int(0.25 * height))
    cv2.putText(picture, text, place, font, font_scale, (222, 222, 222), lineType=cv2.LINE_AA)
    return picture


def draw_boxes(
    im: np.ndarray, boxes: Any, labels: Sequence[str] | None = None, color: tuple[int, int, int] | None = None
) -> np.ndarray:
    """Draws boxes on a copy of an image, the largest first.

    Args:
        im: the image, BGR.
        boxes: an array of shape [n, 4] with left, top, right and bottom in each row.
        labels: a text for each box.
        color: the colour of the lines, BGR; None: green.
    """
    corners = np.asarray(boxes, np.int32)
    assert labels is None or len(labels) == len(corners), f"{len(labels or ())} != {len(corners)}"
    areas = (corners[:, 2] - corners[:, 0] + 1) * (corners[:, 3] - corners[:, 1] + 1)
    assert areas.min() > 0, areas.min()
    inside = corners[:, :2].min() >= 0 and (corners[:, 2:].max(axis=0) <= (im.shape[1], im.shape[0])).all()
    assert inside, f"Image shape: {im.shape}\n Boxes:\n{corners}"
    cv2, chosen, picture = opencv(), color or (15, 128, 15), im.copy()
    if picture.ndim == 2 or picture.shape[2] == 1:
        picture = cv2.cvtColor(picture, cv2.COLOR_GRAY2BGR)
    for number in np.argsort(-areas):
        left, top, right, bottom = map(int, corners[number])
        if labels is not None:
            picture = draw_text(picture, (left, top), labels[number], chosen)
        cv2.rectangle(picture, (left, top), (right, bottom), color=chosen, thickness=1)
    return picture
