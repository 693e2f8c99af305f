"""`GaussianDeform`: deforms an image at anchor points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from ..._errors import ImageError
from .._augmentor import ImageAugmentor
from .._image_checks import Array, by_opencv, opencv, shape_pair
from .._transform import Transform, TransformFactory

__all__ = ["GaussianDeform"]

_LINEAR = _REPLICATE = 1


@final
class GaussianDeform(ImageAugmentor):
    """Shifts the image at anchors by random offsets, which decay with the distance from the anchor.

    Args:
        anchors: points (y, x), as shares of height and width.
        shape: height and width of the images.
        sigma: the weight of an anchor at distance d, in shares, is exp(-d**2 / sigma).
        randrange: largest offset in y and x, in pixels; an eighth of the height by default.

    Raises:
        ArgumentError: `shape` has another form.
    """

    def __init__(
        self,
        anchors: Sequence[tuple[float, float]],
        shape: tuple[int, int],
        sigma: float = 0.5,
        randrange: float | None = None,
    ) -> None:
        """Computes the weights of the anchors."""
        self.anchors, self.sigma = anchors, sigma
        self.shape = shape_pair("shape", shape)
        self.randrange = self.shape[0] / 8 if randrange is None else randrange
        y, x = (np.arange(size, dtype=np.float32) / size for size in self.shape)
        self._weights = np.stack(
            [np.exp(-((y[:, None] - top) ** 2 + (x - left) ** 2) / sigma) for top, left in anchors], axis=2
        ).astype(np.float32)

    def get_transform(self, img: Array) -> Transform:
        """Returns the deformation of images and masks.

        Raises:
            ImageError: the image has another shape.
        """
        if img.shape[:2] != self.shape:
            raise ImageError(f"{self!r}: the image has shape {img.shape}, not {self.shape}")
        pulls = self.rng.uniform(-self.randrange, self.randrange, (len(self.anchors), 2)).astype(np.float32)
        offsets = self._weights @ pulls
        rows, columns = np.indices(self.shape, dtype=np.float32)
        y, x = rows + offsets[..., 0], columns + offsets[..., 1]
        return TransformFactory(
            self,
            apply_image=lambda image: by_opencv(
                self, opencv().remap, image, x, y, _LINEAR, borderMode=_REPLICATE
            ),
            apply_mask=lambda mask: _nearest(mask, x, y),
        )


def _nearest(mask: Array, x: Array, y: Array) -> Array:
    # OpenCV does not support integers of 32 bits and more, which instance labels may have.
    height, width = mask.shape[:2]
    rows = np.rint(y).astype(np.intp).clip(0, height - 1)
    moved: Array = mask[rows, np.rint(x).astype(np.intp).clip(0, width - 1)]
    return moved
