"""Hue, saturation, and the colour of the light."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from ..._errors import ArgumentError
from .._augmentor import PhotometricAugmentor
from .._image_checks import Array, as_before, colour, interval, opencv
from ._brightness import changed_levels, looked_up, mixed

__all__ = ["Hue", "Lighting", "Saturation"]


@final
class Hue(PhotometricAugmentor):
    """Rotates the hue by a random angle.

    Args:
        range: bounds of the angle, in units of two degrees: (0, 180) and (-90, 90) are the whole circle.
        rgb: whether images are RGB; else BGR.

    Raises:
        ArgumentError: `range` is not an ordered pair of numbers.
    """

    def __init__(self, range: tuple[float, float] = (0, 180), rgb: bool = True) -> None:
        """Stores the bounds."""
        self.range, self.rgb = interval("range", range), rgb

    def _get_augment_params(self, img: Array) -> Any:
        return self._rand_range(*self.range)

    def _augment(self, img: Array, params: Any) -> Array:
        cv2 = opencv()
        there, back = (
            (cv2.COLOR_RGB2HSV, cv2.COLOR_HSV2RGB) if self.rgb else (cv2.COLOR_BGR2HSV, cv2.COLOR_HSV2BGR)
        )
        values = colour(self, img) if img.dtype == np.uint8 else colour(self, img).astype(np.float32)
        hsv = cv2.cvtColor(values, there)
        if img.dtype == np.uint8:  # OpenCV's range: 0 to 179, and 0 to 360 for floats
            levels = np.arange(256)
            hsv = looked_up(hsv, np.stack([(levels + params) % 180, levels, levels], 1).astype(np.uint8))
        else:
            hsv[..., 0] = (hsv[..., 0] + 2 * params) % 360
        return np.asarray(cv2.cvtColor(hsv, back), img.dtype)


@final
class Saturation(PhotometricAugmentor):
    """Mixes the image with its grey version: `image * v + grey * (1 - v)`, with a random v.

    Args:
        alpha: v is from 1 - alpha to 1 + alpha; below 1.
        rgb: whether images are RGB; else BGR.
        clip: whether float images are also clipped to 0 to 255.

    Raises:
        ArgumentError: `alpha` is not from 0 to below 1.
    """

    def __init__(self, alpha: float = 0.4, rgb: bool = True, clip: bool = True) -> None:
        """Stores the bound."""
        if not 0 <= alpha < 1:
            raise ArgumentError(f"alpha is from 0 to below 1; received {alpha!r}")
        self.alpha, self.rgb, self.clip = alpha, rgb, clip

    def _get_augment_params(self, img: Array) -> Any:
        return 1 + self._rand_range(-self.alpha, self.alpha)

    def _augment(self, img: Array, params: Any) -> Array:
        cv2 = opencv()
        values = colour(self, img) if img.dtype == np.uint8 else colour(self, img).astype(np.float32)
        grey = cv2.cvtColor(values, cv2.COLOR_RGB2GRAY if self.rgb else cv2.COLOR_BGR2GRAY)
        result = mixed(values, cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB), params)
        return as_before(result, img.dtype, self.clip)


@final
class Lighting(PhotometricAugmentor):
    """Adds a random colour, along the principal axes of the colours of a data set.

    Source: Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks" (2012),
    section 4.1, as in fb.resnet.torch.

    Args:
        std: standard deviation of the share of each axis.
        eigval: shape [3], eigenvalues of the covariance of the channels.
        eigvec: shape [3, 3], an eigenvector in each column.
        clip: whether float images are also clipped to 0 to 255.

    Raises:
        ArgumentError: `eigval` or `eigvec` has another shape.
    """

    def __init__(self, std: float, eigval: npt.ArrayLike, eigvec: npt.ArrayLike, clip: bool = True) -> None:
        """Stores the axes."""
        self.std, self.clip = std, clip
        self.eigval, self.eigvec = np.asarray(eigval, np.float64), np.asarray(eigvec, np.float64)
        if self.eigval.shape != (3,) or self.eigvec.shape != (3, 3):
            raise ArgumentError(
                f"eigval has shape (3,) and eigvec (3, 3); received {self.eigval.shape} and "
                f"{self.eigvec.shape}"
            )

    def _get_augment_params(self, img: Array) -> Any:
        return self.rng.standard_normal(3) * self.std

    def _augment(self, img: Array, params: Any) -> Array:
        added = self.eigvec @ (params * self.eigval)
        return changed_levels(colour(self, img), lambda values: values + np.float32(added), self.clip)
