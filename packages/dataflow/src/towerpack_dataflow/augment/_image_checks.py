"""Checks of images and of what belongs to them, whose errors name who takes them; results as images were."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._errors import ArgumentError, ImageError, extra

__all__ = [
    "Array",
    "as_before",
    "by_opencv",
    "check_boxes",
    "check_coords",
    "check_fill",
    "check_finite",
    "check_image",
    "check_range",
    "check_unmasked",
    "colour",
    "fraction",
    "interval",
    "opencv",
    "shape_pair",
    "with_channels",
]

Array = npt.NDArray[Any]
_DTYPES = frozenset(map(np.dtype, (np.uint8, np.float32, np.float64)))


@functools.cache
def opencv() -> Any:
    """Returns OpenCV, version 4 or 5.

    Raises:
        ImportError: it is not installed.
    """
    with extra("image", "this augmentation of images"):
        import cv2
    return cv2


def check_image(where: object, image: Any) -> Array:
    """Returns `image` if its dtype and shape are those that augmentors take; looks at no values.

    Args:
        where: an augmentor or a component, for the message.
        image: uint8, float32 or float64; shape [height, width] or [height, width, 1, 3 or 4].

    Raises:
        ImageError: it is no such image.
    """
    if not isinstance(image, np.ndarray):
        raise ImageError(f"{where}: an image is a NumPy array; received {type(image).__name__}")
    check_unmasked(where, image)
    if image.dtype not in _DTYPES:
        raise ImageError(
            f"{where}: an image is uint8, float32 or float64; received {image.dtype}. Convert it before"
        )
    if image.ndim not in {2, 3} or (image.ndim == 3 and image.shape[2] not in {1, 3, 4}) or not image.size:
        raise ImageError(
            f"{where}: an image has shape [height, width] or [height, width, 1, 3 or 4] and is not empty; "
            f"received shape {image.shape}"
        )
    return image


def check_fill(where: object, name: str, value: Any, image: Array) -> None:
    """Refuses a filling value that an image of uint8 does not hold; NumPy keeps its last eight bits.

    Raises:
        ImageError: the value, or that of a channel, is below 0 or above 255.
    """
    values = np.asarray(value)
    if image.dtype == np.uint8 and values.size and not (values.min() >= 0 and values.max() <= 255):
        raise ImageError(f"{where!r}: {name}={value!r} is not from 0 to 255, and the image is of uint8")


def check_unmasked(where: object, array: Array) -> None:
    """Refuses masked values: OpenCV and most functions of NumPy take the values below the mask.

    Raises:
        ImageError: `array` is a masked array in which something is masked.
    """
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise ImageError(
            f"{where}: received a masked array, and augmentation drops masks; fill it first, by x.filled(0)"
        )


def check_finite(where: object, image: Array) -> Array:
    """Returns an image without NaN and infinity.

    Raises:
        ImageError: it has some.
    """
    # A sum is several times faster than isfinite(); it may overflow, though, so that it only raises a
    # suspicion.
    if image.dtype != np.uint8 and not math.isfinite(image.sum()) and not np.isfinite(image).all():
        raise ImageError(f"{where}: an image has finite values; received NaN or infinity")
    return image


def colour(where: object, image: Array) -> Array:
    """Returns an image of three channels.

    Raises:
        ImageError: it has another number of channels.
    """
    if image.ndim != 3 or image.shape[2] != 3:
        raise ImageError(f"{where}: takes images of 3 channels; received shape {image.shape}")
    return image


def check_range(where: object, image: Array) -> Array:
    """Returns an image whose values lie from 0 to 255.

    Raises:
        ImageError: some lie outside.
    """
    if image.dtype != np.uint8 and (image.min() < 0 or image.max() > 255):
        raise ImageError(
            f"{where}: takes values from 0 to 255; received values from {image.min():g} to {image.max():g}. "
            "Put it before a normalisation, or clip before"
        )
    return image


def check_coords(coords: Any) -> Array:
    """Returns coordinates: floats of shape [number, 2], each row x and y in pixels from the top left corner.

    Raises:
        ImageError: they are something else.
    """
    if (
        not isinstance(coords, np.ndarray)
        or coords.ndim != 2
        or coords.shape[1] != 2
        or coords.dtype.kind != "f"
    ):
        raise ImageError(
            f"coordinates are a float array of shape [number, 2], rows of x and y; {_received(coords)}"
        )
    check_unmasked("coordinates", coords)
    if not np.isfinite(coords).all():
        raise ImageError("coordinates are finite; received NaN or infinity")
    return coords


def check_boxes(boxes: Any, image: Array) -> Array:
    """Returns boxes: floats of shape [number, 4], rows of x0, y0, x1, y1 in pixels, inside `image`.

    Raises:
        ImageError: they are something else.
    """
    if not isinstance(boxes, np.ndarray) or boxes.ndim != 2 or boxes.shape[1] != 4 or boxes.dtype.kind != "f":
        raise ImageError(
            f"boxes are a float array of shape [number, 4], rows of x0, y0, x1, y1; {_received(boxes)}"
        )
    check_unmasked("boxes", boxes)
    height, width = image.shape[:2]
    x0, y0, x1, y1 = boxes.T
    inside = (x0 >= 0) & (y0 >= 0) & (x0 <= x1) & (y0 <= y1) & (x1 <= width) & (y1 <= height)
    if not inside.all():
        row = int(np.argmin(inside))
        raise ImageError(
            f"boxes lie inside their image, which has width {width} and height {height}; received "
            f"box {row}: {boxes[row].tolist()}. Clip them before, and leave out those that are empty then"
        )
    return boxes


def with_channels(result: Array, image: Array) -> Array:
    """Returns what OpenCV has made of `image`, with the axis of one channel that OpenCV leaves out."""
    return result[:, :, None] if image.ndim == 3 and result.ndim == 2 else result


def by_opencv(
    where: object, function: Callable[..., Any], img: Array, *arguments: Any, **options: Any
) -> Array:
    """Returns an image as a function of OpenCV changes it, with its dtype and its axes.

    Args:
        where: a transform or an augmentor, for the message.
        function: a function of OpenCV.
        img: its first argument.
        arguments: the other arguments.
        options: the arguments by name.

    Raises:
        ImageError: OpenCV refuses such an image, or would convert it.
    """
    try:
        result = function(img, *arguments, **options)
    except opencv().error as error:
        reason = getattr(error, "err", None) or error
        raise ImageError(
            f"{where!r}: OpenCV takes no image of shape {img.shape} of {img.dtype} here: {reason}"
        ) from error
    if result.dtype != img.dtype:  # int64 as int32
        raise ImageError(
            f"{where!r}: OpenCV would convert an image of {img.dtype} to {result.dtype}. "
            "Convert it before, or apply_mask() to it, which moves values of any dtype"
        )
    return with_channels(result, img)


def shape_pair(name: str, value: Any) -> tuple[int, int]:
    """Returns height and width, given as two integers or as one.

    Raises:
        ArgumentError: `value` is neither.
    """
    pair = (value, value) if isinstance(value, (int, np.integer)) else tuple(value) if _lists(value) else ()
    if len(pair) != 2 or not all(isinstance(n, (int, np.integer)) and n > 0 for n in pair):
        raise ArgumentError(f"{name} is an integer above 0, or two: (height, width); received {value!r}")
    return int(pair[0]), int(pair[1])


def interval(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> tuple[Any, Any]:
    """Returns the two ends of an interval.

    Raises:
        ArgumentError: `value` is no pair of numbers in order, or an end lies outside of `least` and `most`.
    """
    pair = tuple(value) if _lists(value) else ()
    numbers = len(pair) == 2 and all(isinstance(n, (int, float, np.number)) for n in pair)
    if not numbers or not least <= pair[0] <= pair[1] <= most:
        bounds = "" if least == -math.inf and most == math.inf else f" between {least:g} and {most:g}"
        raise ArgumentError(f"{name} is a pair (lowest, highest){bounds}; received {value!r}")
    return pair[0], pair[1]


def fraction(name: str, value: Any) -> float:
    """Returns a probability or a share.

    Raises:
        ArgumentError: `value` is no number from 0 to 1.
    """
    if not isinstance(value, (int, float, np.number)) or not 0 <= value <= 1:
        raise ArgumentError(f"{name} is a number from 0 to 1; received {value!r}")
    return float(value)


def as_before(result: Array, dtype: np.dtype[Any], clip: bool) -> Array:
    """Returns values in another dtype; fractions are cut off, not rounded.

    Args:
        result: float, a new array, which is changed.
        dtype: of the image before.
        clip: whether values below 0 and above 255 are clipped; those of uint8 always are.
    """
    if clip or dtype == np.uint8:
        np.clip(result, 0, 255, out=result)
    return result.astype(dtype, copy=False)


def _lists(value: Any) -> bool:
    return isinstance(value, (tuple, list, np.ndarray))


def _received(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"received shape {value.shape} of {value.dtype}"
    return f"received {type(value).__name__}"
