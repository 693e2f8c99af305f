"""Files of images: decoded by OpenCV or Pillow, also at a fraction of the size, in RGB or grey."""

from ._decode_image import decode_image, read_image

__all__ = ["decode_image", "read_image"]
