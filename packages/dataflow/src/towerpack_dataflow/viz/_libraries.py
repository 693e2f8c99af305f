"""The libraries for drawing, writing and showing pictures; errors name the missing extra."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._errors import ArgumentError, extra

__all__ = ["Image", "as_picture", "opencv", "pyplot", "written"]

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
