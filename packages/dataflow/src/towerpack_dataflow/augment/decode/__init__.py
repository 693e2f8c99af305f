"""Image files: decodes them with OpenCV or Pillow, also at reduced size, in RGB or grey."""

from ._decode_image import decode_image, read_image

__all__ = ["decode_image", "read_image"]
