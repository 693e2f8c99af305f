"""Boxes and text on images."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._errors import ArgumentError, extra

__all__ = [
    "PALETTE_RGB",
    "Image",
    "as_picture",
    "draw_boxes",
    "draw_text",
    "intensity_to_rgb",
    "opencv",
    "pyplot",
    "written",
]

Image = npt.NDArray[Any]


def opencv() -> Any:
    """Returns OpenCV.

    Raises:
        ImportError: OpenCV is not installed.
    """
    with extra("image", "drawing and writing pictures"):
        import cv2
    return cv2


def pyplot() -> Any:
    """Returns `matplotlib.pyplot`.

    Raises:
        ImportError: matplotlib is not installed.
    """
    with extra("viz", "showing and colouring pictures"):
        import matplotlib.pyplot as module
    return module


def as_picture(where: str, image: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """Returns a copy of an image as uint8 of shape [height, width, 3], RGB.

    Args:
        where: the calling function, for the message.
        image: uint8, or float from 0 to 255; shape [height, width], [height, width, 1 or 3 or 4]; a fourth
            channel is dropped.

    Raises:
        ArgumentError: `image` is not such an image.
    """
    array = np.asarray(image)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in {1, 3, 4} or not array.size or array.dtype.kind not in "biuf":
        raise ArgumentError(
            f"{where} takes images of shape [height, width] or [height, width, 1, 3 or 4], of numbers; "
            f"received shape {np.shape(image)} of {array.dtype}"
        )
    if array.dtype != np.uint8:
        array = _bytes(where, array)
    return np.array(np.broadcast_to(array[:, :, :3], (*array.shape[:2], 3)), np.uint8, order="C")


def written(path: str, image: npt.NDArray[np.uint8]) -> None:
    """Writes an RGB picture, in the format of the file extension.

    Raises:
        ArgumentError: the extension is unknown to OpenCV.
        OSError: the file cannot be written.
    """
    cv2 = opencv()
    suffix = path[path.rfind(".") :] if "." in path else ""
    try:
        done, encoded = cv2.imencode(suffix, image[:, :, ::-1])
    except cv2.error:
        done = False
    if not done:
        raise ArgumentError(f"path={path!r}: expected the extension of an image format, such as .png or .jpg")
    with open(path, "wb") as file:
        file.write(encoded)


def _bytes(where: str, array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    if not np.isfinite(array).all() or array.min() < 0 or array.max() > 255:
        raise ArgumentError(
            f"{where} takes values from 0 to 255; received values from {array.min()} to {array.max()}. "
            f"Scale them, or show one channel with intensity_to_rgb"
        )
    return np.asarray(np.rint(array), np.uint8)


def intensity_to_rgb(
    intensity: npt.ArrayLike, colormap: str = "cubehelix", normalize: bool = False
) -> npt.NDArray[np.float32]:
    """Returns the values of one channel as colours, such as a saliency map.

    Args:
        intensity: shape [height, width], from 0 to 1; smaller values count as 0, larger ones as 1.
        colormap: name of a matplotlib colormap.
        normalize: whether to map the smallest value to 0 and the largest to 1.

    Returns:
        float32 of shape [height, width, 3], from 0 to 255, RGB.

    Raises:
        ArgumentError: `intensity` has another shape or contains NaN, or matplotlib has no such colormap.
        ImportError: matplotlib is not installed.
    """
    values = np.asarray(intensity)
    if values.ndim != 2 or not values.size or values.dtype.kind not in "biuf":
        raise ArgumentError(
            f"intensity is an array of numbers of shape [height, width]; "
            f"received shape {values.shape} of {values.dtype}"
        )
    values = values.astype(np.float64)
    if np.isnan(values).any():
        raise ArgumentError(f"intensity has {int(np.isnan(values).sum())} values that are NaN")
    if normalize:
        spread = values.max() - values.min()
        values = (values - values.min()) / spread if spread else np.zeros_like(values)
    try:
        mapped = pyplot().get_cmap(colormap)(values)
    except ValueError as error:
        raise ArgumentError(f"colormap={colormap!r}: {error}") from error
    colors: npt.NDArray[np.float32] = (mapped[:, :, :3] * 255).astype(np.float32)
    return colors


# Golden-ratio steps of hue, which keep successive colours far apart, in three strengths.
PALETTE_RGB: npt.NDArray[np.uint8] = np.array(
    [
        [round(255 * part) for part in colorsys.hsv_to_rgb(number * 0.618034 % 1, saturation, value)]
        for number in range(80)
        for saturation, value in [((0.85, 0.95), (0.55, 0.9), (0.95, 0.6))[number % 3]]
    ],
    np.uint8,
)
"""80 colours that are easy to distinguish: uint8 of shape [80, 3], RGB."""

Color = Sequence[int]


def draw_text(
    image: npt.ArrayLike,
    position: tuple[float, float],
    text: str,
    color: Color = (218, 218, 218),
    scale: float = 0.4,
) -> npt.NDArray[np.uint8]:
    """Returns a copy of an image with text on a background plate, moved inside the image.

    Args:
        image: shape [height, width] or [height, width, 1, 3 or 4], uint8 or float from 0 to 255, RGB.
        position: x and y in pixels, of the plate's bottom left corner.
        text: ASCII, the only characters in OpenCV's fonts; others become `?`.
        color: colour of the plate, RGB; the text is black or white, for contrast.
        scale: scale of the font; 1 is about 22 pixels.

    Returns:
        uint8 of shape [height, width, 3], RGB.

    Raises:
        ArgumentError: `image` is not an image, or `position` is not a pair of numbers.
        ImportError: OpenCV is not installed.
    """
    picture = as_picture("draw_text", image)
    place = np.asarray(position)
    if place.shape != (2,) or place.dtype.kind not in "iuf" or not np.isfinite(place).all():
        raise ArgumentError(f"position is a pair of numbers, x and y; received {position!r}")
    return _with_text(picture, place, text, color, scale)


def draw_boxes(
    image: npt.ArrayLike,
    boxes: npt.ArrayLike,
    labels: Sequence[str] | None = None,
    color: Color | None = None,
) -> npt.NDArray[np.uint8]:
    """Returns a copy of an image with boxes on it, the largest first.

    Args:
        image: shape [height, width] or [height, width, 1, 3 or 4], uint8 or float from 0 to 255, RGB.
        boxes: shape [number, 4], left, top, right and bottom in pixels; parts outside the image are
            invisible.
        labels: text for each box.
        color: colour of all boxes, RGB; by default, each label has one of `PALETTE_RGB`.

    Returns:
        uint8 of shape [height, width, 3], RGB.

    Raises:
        ArgumentError: `image` is not an image, a box ends before it begins or is not finite, or the number of
            labels differs from that of boxes.
        ImportError: OpenCV is not installed.
    """
    picture, corners = as_picture("draw_boxes", image), _checked_boxes(boxes, labels)
    kinds = sorted(set(labels or ()))
    areas = np.prod(corners[:, 2:] - corners[:, :2], axis=1)
    for number in np.argsort(-areas, kind="stable"):
        kind = kinds.index(labels[number]) if labels is not None else int(number)
        own = [int(part) for part in (PALETTE_RGB[kind % len(PALETTE_RGB)] if color is None else color)]
        left, top, right, bottom = (round(float(edge)) for edge in corners[number])
        picture = opencv().rectangle(picture, (left, top), (right, bottom), own, 1)
        if labels is not None:
            picture = _with_text(picture, np.array([left, top]), labels[number], own, 0.4)
    return picture


def _checked_boxes(boxes: npt.ArrayLike, labels: Sequence[str] | None) -> npt.NDArray[np.float64]:
    corners = np.asarray(boxes, np.float64).reshape(-1, 4) if np.size(boxes) % 4 == 0 else None
    if corners is None or (np.ndim(boxes) != 2 and np.size(boxes)):
        raise ArgumentError(f"boxes have shape [number, 4]; received shape {np.shape(boxes)}")
    wrong = ~np.isfinite(corners).all(axis=1) | (corners[:, :2] > corners[:, 2:]).any(axis=1)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise ArgumentError(
            f"a box is left, top, right, bottom with left <= right and top <= bottom; "
            f"boxes[{first}] is {corners[first].tolist()}"
        )
    if labels is not None and len(labels) != len(corners):
        raise ArgumentError(f"there are {len(corners)} boxes, but {len(labels)} labels")
    return corners


def _with_text(
    picture: npt.NDArray[np.uint8], place: npt.NDArray[np.float64], text: str, color: Color, scale: float
) -> npt.NDArray[np.uint8]:
    cv2 = opencv()
    font, line = cv2.FONT_HERSHEY_SIMPLEX, cv2.LINE_AA
    ascii_text = text.encode("ascii", "replace").decode()
    (width, height), below = cv2.getTextSize(ascii_text, font, scale, 1)
    left = int(np.clip(place[0], 0, max(0, picture.shape[1] - 1 - width)))
    bottom = int(np.clip(place[1], height + below, max(height + below, picture.shape[0] - 1)))
    plate = [int(part) for part in color]
    picture = cv2.rectangle(picture, (left, bottom - height - below), (left + width, bottom), plate, -1)
    ink = (0, 0, 0) if sum(plate) > 380 else (255, 255, 255)
    done: npt.NDArray[np.uint8] = cv2.putText(
        picture, ascii_text, (left, bottom - below), font, scale, ink, 1, line
    )
    return done
