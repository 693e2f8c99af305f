"""Checks of images and annotations, with errors that name the checking component; conversion of results."""

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
_CHANNELS = frozenset((1, 3, 4))
# Of the images that OpenCV can move.
_OPENCV_DTYPES = _DTYPES.union(map(np.dtype, (np.int8, np.uint16, np.int16, np.int32)))
_OPENCV_CHANNELS = range(1, 513)


@functools.cache
def opencv() -> Any:
    """Returns OpenCV, version 4 or 5.

    Raises:
        ImportError: OpenCV is not installed.
    """
    with extra("image", "this augmentation of images"):
        import cv2
    return cv2


def check_image(where: object, image: Any, opencv_images: bool) -> Array:
    """Returns `image` if augmentors accept its dtype and shape; does not check its values.

    Args:
        where: an augmentor or a component named in the message.
        image: uint8, float32 or float64; shape [height, width] or [height, width, 1, 3 or 4].
        opencv_images: as in `AugmentorList`.

    Raises:
        ImageError: `image` is not such an image.
    """
    if not isinstance(image, np.ndarray):
        raise ImageError(f"{where}: an image is a NumPy array; received {type(image).__name__}")
    check_unmasked(where, image)
    if image.dtype not in (_OPENCV_DTYPES if opencv_images else _DTYPES):
        raise ImageError(
            f"{where}: an image is uint8, float32 or float64; received {image.dtype}. Convert it first, or "
            "set opencv_images=True for the integers that OpenCV moves"
        )
    channels = _OPENCV_CHANNELS if opencv_images else _CHANNELS
    if image.ndim not in {2, 3} or (image.ndim == 3 and image.shape[2] not in channels) or not image.size:
        raise ImageError(
            f"{where}: an image has shape [height, width] or [height, width, 1, 3 or 4] and is not empty; "
            f"received shape {image.shape}"
        )
    return image


def check_fill(where: object, name: str, value: Any, image: Array) -> None:
    """Rejects a filling value that uint8 cannot represent; NumPy would keep its last eight bits.

    Raises:
        ImageError: the value, or that of a channel, is below 0 or above 255.
    """
    values = np.asarray(value)
    if image.dtype == np.uint8 and values.size and not (values.min() >= 0 and values.max() <= 255):
        raise ImageError(f"{where!r}: {name}={value!r} is not from 0 to 255, and the image is of uint8")


def check_unmasked(where: object, array: Array) -> None:
    """Rejects masked values: OpenCV and most functions of NumPy would use the values under the mask.

    Raises:
        ImageError: `array` is a masked array with masked values.
    """
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise ImageError(
            f"{where}: received a masked array, but augmentation drops masks; fill it first, by x.filled(0)"
        )


def check_finite(where: object, image: Array) -> Array:
    """Returns the image if it has no NaN and no infinity.

    Raises:
        ImageError: it has NaN or infinity.
    """
    # A sum is several times faster than isfinite(); but it may overflow, so it only raises a suspicion.
    if image.dtype != np.uint8 and not math.isfinite(image.sum()) and not np.isfinite(image).all():
        raise ImageError(f"{where}: an image has finite values; received NaN or infinity")
    return image


def colour(where: object, image: Array) -> Array:
    """Returns the image if it has three channels.

    Raises:
        ImageError: it has another number of channels.
    """
    if image.ndim != 3 or image.shape[2] != 3:
        raise ImageError(f"{where}: takes images of 3 channels; received shape {image.shape}")
    return image


def check_range(where: object, image: Array) -> Array:
    """Returns the image if its values are from 0 to 255.

    Raises:
        ImageError: some values are outside.
    """
    if image.dtype != np.uint8 and (image.min() < 0 or image.max() > 255):
        raise ImageError(
            f"{where}: takes values from 0 to 255; received values from {image.min():g} to {image.max():g}. "
            "Put it before a normalisation, or clip first"
        )
    return image


def check_coords(coords: Any) -> Array:
    """Returns valid coordinates: floats, shape [number, 2], rows of x and y in pixels from the top left.

    Raises:
        ImageError: `coords` has another dtype, shape or value.
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
    """Returns valid boxes: floats of shape [number, 4], rows of x0, y0, x1, y1 in pixels, inside `image`.

    Raises:
        ImageError: `boxes` has another dtype or shape, or is outside.
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
            f"box {row}: {boxes[row].tolist()}. Clip them first, and drop empty ones"
        )
    return boxes


def with_channels(result: Array, image: Array) -> Array:
    """Returns a result of OpenCV for `image`, with the axis of one channel that OpenCV drops."""
    return result[:, :, None] if image.ndim == 3 and result.ndim == 2 else result


def by_opencv(
    where: object, function: Callable[..., Any], img: Array, *arguments: Any, **options: Any
) -> Array:
    """Returns an image changed by a function of OpenCV, with the same dtype and axes.

    Args:
        where: a transform or an augmentor, named in the message.
        function: a function of OpenCV.
        img: its first argument.
        arguments: further positional arguments.
        options: keyword arguments.

    Raises:
        ImageError: OpenCV rejects the image, or would convert it.
    """
    try:
        result = function(img, *arguments, **options)
    except opencv().error as error:
        reason = getattr(error, "err", None) or error
        raise ImageError(
            f"{where!r}: OpenCV does not accept an image of shape {img.shape} of {img.dtype} here: {reason}"
        ) from error
    if result.dtype != img.dtype:  # int64 as int32
        raise ImageError(
            f"{where!r}: OpenCV would convert an image of {img.dtype} to {result.dtype}. "
            "Convert it first, or use apply_mask(), which moves values of any dtype"
        )
    return with_channels(result, img)


def shape_pair(name: str, value: Any) -> tuple[int, int]:
    """Returns height and width, from two integers or one.

    Raises:
        ArgumentError: `value` is neither of these.
    """
    pair = (value, value) if isinstance(value, (int, np.integer)) else tuple(value) if _lists(value) else ()
    if len(pair) != 2 or not all(isinstance(n, (int, np.integer)) and n > 0 for n in pair):
        raise ArgumentError(f"{name} is an integer above 0, or two: (height, width); received {value!r}")
    return int(pair[0]), int(pair[1])


def interval(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> tuple[Any, Any]:
    """Returns the two ends of an interval.

    Raises:
        ArgumentError: `value` is not an ordered pair of numbers, or an end is outside `least` to `most`.
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
        ArgumentError: `value` is not a number from 0 to 1.
    """
    if not isinstance(value, (int, float, np.number)) or not 0 <= value <= 1:
        raise ArgumentError(f"{name} is a number from 0 to 1; received {value!r}")
    return float(value)


def as_before(result: Array, dtype: np.dtype[Any], clip: bool) -> Array:
    """Returns values in another dtype; truncates fractions.

    Args:
        result: a new float array, which is overwritten.
        dtype: dtype of the original image.
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
