"""Image decoders of several libraries: uint8, [height, width, channels], RGB or grey."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._errors import extra
from .._image_checks import Array

__all__ = ["Decoder", "installed_decoder"]

Decoder = Callable[[Array, int, int], Array | None]

# Flags of OpenCV: 16, 32 and 64 reduce by 2, 4 and 8; 1 is for colour; 256, since 4.10, for RGB and not BGR.
_REDUCED, _COLOUR, _RGB = 8, 1, 256


def installed_decoder() -> Decoder:
    """Returns the decoder of OpenCV, or of Pillow if OpenCV is not installed.

    Both decode JPEGs with libjpeg-turbo, to the same pixels.

    Raises:
        ImportError: neither is installed.
    """
    try:
        import cv2
    except ImportError:
        with extra("image", "decoding images"):
            import PIL.Image  # noqa: F401
        return _by_pillow
    return _rgb_by_opencv if hasattr(cv2, "IMREAD_COLOR_RGB") else _by_opencv


def _by_opencv(buffer: Array, channels: int, reduce: int) -> Array | None:
    """Returns the image; None if the bytes are not an image."""
    import cv2

    by_decoder = reduce > 1 and bytes(buffer[:2]) == b"\xff\xd8"  # other formats would be subsampled
    image: Any
    try:
        image = cv2.imdecode(buffer, by_decoder * _REDUCED * reduce + _COLOUR * (channels == 3))
    except cv2.error:  # a header with an impossible size
        return None
    if image is None:
        return None
    if reduce > 1 and not by_decoder:
        height, width = (-(-size // reduce) for size in image.shape[:2])
        image = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(
        cv2.cvtColor(image, cv2.COLOR_BGR2RGB, dst=image) if channels == 3 else image[:, :, None]
    )


def _rgb_by_opencv(buffer: Array, channels: int, reduce: int) -> Array | None:
    """Returns the image; None if the bytes are not an image."""
    if channels == 1 or reduce > 1:
        return _by_opencv(buffer, channels, reduce)
    import cv2

    try:
        image: Array | None = cv2.imdecode(buffer, _RGB)
    except cv2.error:
        return None
    return image


def _by_pillow(buffer: Array, channels: int, reduce: int) -> Array | None:
    """Returns the image; None if the bytes are not an image."""
    from PIL import Image, ImageOps

    mode = "RGB" if channels == 3 else "L"
    try:
        image: Any = Image.open(io.BytesIO(buffer.tobytes()))
        height = image.height
        if reduce > 1:
            image.draft(mode, (image.width // reduce, height // reduce))  # effective for JPEGs
            image = image.reduce(max(1, reduce * image.height // height))
        image = ImageOps.exif_transpose(image)
        if image.mode.startswith("I"):  # 16 bits
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        # A writable copy, as from all decoders.
        return np.array(image.convert(mode)).reshape(image.height, image.width, channels)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None
