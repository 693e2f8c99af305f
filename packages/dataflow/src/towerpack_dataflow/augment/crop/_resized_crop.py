"""`GoogleNetRandomCropAndResize`: the random crop for training on ImageNet."""

from __future__ import annotations

import math
from typing import final

from .._augmentor import ImageAugmentor
from .._image_checks import Array, interval, shape_pair
from .._transform import Transform, TransformList
from ..geometric import ResizeTransform
from ._crops import CropTransform

__all__ = ["GoogleNetRandomCropAndResize"]

_TRIES = 10


@final
class GoogleNetRandomCropAndResize(ImageAugmentor):
    """Crops a part of random size and aspect and resizes it.

    If ten attempts find no such part inside the image, the shorter edge is resized to the target and the
    centre is cropped. Source: Szegedy et al., "Going Deeper with Convolutions" (2015), section 6, as in
    fb.resnet.torch.

    Args:
        crop_area_fraction: bounds of the area of the crop, as a share of the image's area.
        aspect_ratio_range: bounds of the ratio of width to height; inverted in half of the cases.
        target_shape: height and width of the result, in pixels; one number, or two.
        interp: interpolation, a constant of OpenCV; linear by default.

    Raises:
        ArgumentError: a pair of bounds or the shape is invalid.
    """

    def __init__(
        self,
        crop_area_fraction: tuple[float, float] = (0.08, 1.0),
        aspect_ratio_range: tuple[float, float] = (0.75, 1.333),
        target_shape: int | tuple[int, int] = 224,
        interp: int = 1,
    ) -> None:
        """Stores the bounds."""
        self.crop_area_fraction = interval("crop_area_fraction", crop_area_fraction, 0, 1)
        self.aspect_ratio_range = interval("aspect_ratio_range", aspect_ratio_range, 1e-3, 1e3)
        self.target_shape = shape_pair("target_shape", target_shape)
        self.interp = interp

    def get_transform(self, img: Array) -> Transform:
        """Returns a crop and a resize."""
        height, width = img.shape[:2]
        for _ in range(_TRIES):
            area = self.rng.uniform(*self.crop_area_fraction) * height * width
            aspect = self.rng.uniform(*self.aspect_ratio_range)
            w, h = int(math.sqrt(area * aspect) + 0.5), int(math.sqrt(area / aspect) + 0.5)
            if self.rng.uniform() < 0.5:
                w, h = h, w
            if 0 < h <= height and 0 < w <= width:
                x, y = int(self.rng.randint(width - w + 1)), int(self.rng.randint(height - h + 1))
                return TransformList(
                    [CropTransform(y, x, h, w), ResizeTransform(h, w, *self.target_shape, self.interp)]
                )
        return self._middle(height, width)

    def _middle(self, height: int, width: int) -> Transform:
        target_h, target_w = self.target_shape
        scale = max(target_h / height, target_w / width)
        h, w = max(target_h, int(height * scale + 0.5)), max(target_w, int(width * scale + 0.5))
        crop = CropTransform((h - target_h) // 2, (w - target_w) // 2, target_h, target_w)
        return TransformList([ResizeTransform(height, width, h, w, self.interp), crop])
