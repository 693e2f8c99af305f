"""Decodes image files to RGB or grey with OpenCV or Pillow, in the orientation meant for display."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .._errors import ArgumentError, FormatError, extra
from ..storage import open_url
from ._image_checks import Array

__all__ = ["Decoder", "decode_image", "installed_decoder", "read_image"]

_ENDS = {b"\xff\xd8": (b"\xff\xda", b"\xff\xd9"), b"\x89P": (b"IHDR", b"IEND")}
_TAIL = 12  # bytes; the last chunk of a PNG is the longest end


def decode_image(data: Any, channels: int = 3, reduce: int = 1, name: str = "the image") -> Array:
    """Returns the image in the bytes of a file.

    The image is rotated to its EXIF orientation. CMYK is converted to RGB, 16 bits to 8.

    Args:
        data: bytes, or another buffer: JPEG, PNG, or another format of OpenCV, or of Pillow without it.
        channels: 3 for RGB, 1 for grey.
        reduce: 2, 4 or 8: divides height and width. JPEGs are decoded at that size, which is faster than a
            later resize.
        name: name of the file, for messages.

    Returns:
        uint8, shape [height, width, channels].

    Raises:
        ArgumentError: `channels` or `reduce` has another value.
        FormatError: the bytes are not an image, or its end is missing.
        ImportError: neither OpenCV nor Pillow is installed.
    """
    if channels not in {1, 3} or reduce not in {1, 2, 4, 8}:
        raise ArgumentError(
            f"channels is 1 or 3 and reduce is 1, 2, 4 or 8; received channels={channels!r}, "
            f"reduce={reduce!r}"
        )
    decoder = installed_decoder()
    buffer = np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
    _check_end(buffer, name)
    image = decoder(buffer, channels, reduce) if buffer.size else None
    if image is None:
        raise FormatError(
            f"{name}: expected an image; received {buffer.size} bytes that begin with "
            f"{bytes(buffer[:8])!r}. The file is damaged, or not an image"
        )
    return image


def read_image(url: str | os.PathLike[str], channels: int = 3, reduce: int = 1) -> Array:
    """Returns the image in a local or remote file; see `decode_image`.

    Raises:
        FileNotFoundError: there is no such file.
        FormatError: the file is not an image, or its end is missing.
        StorageError: the file cannot be reached.
    """
    path = os.fspath(url)
    if "://" in path:
        with open_url(path) as file:
            return decode_image(file.read(), channels, reduce, file.name)
    # Reading a small file is faster than mapping it.
    with open(os.path.expanduser(path), "rb", buffering=0) as file:
        return decode_image(file.read(), channels, reduce, path)


def _check_end(buffer: Array, name: str) -> None:
    """Detects truncated files, which decoders fill with grey.

    Raises:
        FormatError: the end marker is missing after the data.
    """
    start, end = _ENDS.get(bytes(buffer[:2]), (b"", b""))
    if end in bytes(buffer[-_TAIL:]):
        return
    data = buffer.tobytes()
    # A thumbnail within the file has a separate end, before the data of the image itself.
    if data.rfind(end) < data.rfind(start):
        raise FormatError(
            f"{name}: the end of the image is missing; the file is truncated at {len(data)} bytes"
        )


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
