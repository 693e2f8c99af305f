"""Noise, blur and JPEG artefacts."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ..._errors import ArgumentError, ImageError
from .._augmentor import PhotometricAugmentor
from .._image_checks import Array, as_before, check_range, fraction, interval, opencv, with_channels

__all__ = ["GaussianBlur", "GaussianNoise", "JpegNoise", "SaltPepperNoise"]

_REPLICATE = 1


@final
class GaussianBlur(PhotometricAugmentor):
    """Blurs with a Gaussian of random size.

    Args:
        size_range: bounds of k for a window of 2k + 1 pixels; the upper one is exclusive. A number is the
            upper one, and the lower one is 0.
        sigma_range: bounds of the standard deviation, in pixels; 0 derives it from the window.
        symmetric: whether size and deviation are equal in x and y.

    Raises:
        ArgumentError: a range is not an ordered pair of numbers from 0 up.

    Example:
        >>> image = np.zeros((5, 5), np.uint8)
        >>> image[2, 2] = 255
        >>> GaussianBlur((1, 2)).augment(image)[1:4, 1:4]
        array([[16, 32, 16],
               [32, 64, 32],
               [16, 32, 16]], dtype=uint8)
    """

    read_only = True

    def __init__(
        self,
        size_range: int | tuple[int, int] = (0, 3),
        sigma_range: tuple[float, float] = (0, 0),
        symmetric: bool = True,
    ) -> None:
        """Stores the bounds."""
        size_range = (0, size_range) if isinstance(size_range, int) else size_range
        self.size_range = interval("size_range", size_range, 0)
        if self.size_range[0] == self.size_range[1]:
            raise ArgumentError(
                f"size_range is a pair of integers, the second larger; received {size_range!r}"
            )
        self.sigma_range, self.symmetric = interval("sigma_range", sigma_range, 0), symmetric

    def _get_augment_params(self, img: Array) -> Any:
        size = self.rng.randint(*self.size_range, size=(2,)) * 2 + 1
        sigma = self._rand_range(*self.sigma_range, size=(2,))
        if self.symmetric:
            size[1], sigma[1] = size[0], sigma[0]
        return size.tolist(), sigma.tolist()

    def _augment(self, img: Array, params: Any) -> Array:
        size, (x, y) = params
        return with_channels(
            opencv().GaussianBlur(img, tuple(size), sigmaX=x, sigmaY=y, borderType=_REPLICATE), img
        )


@final
class JpegNoise(PhotometricAugmentor):
    """Encodes the image as JPEG of random quality and decodes it.

    Args:
        quality_range: bounds of the quality, from 1 to 100; the upper one is exclusive.

    Raises:
        ArgumentError: `quality_range` is not such a pair.

    Example:
        >>> JpegNoise((50, 80)).augment(np.full((8, 8, 3), 128, np.uint8)).shape
        (8, 8, 3)
    """

    read_only = True

    def __init__(self, quality_range: tuple[int, int] = (40, 100)) -> None:
        """Stores the bounds."""
        self.quality_range = interval("quality_range", quality_range, 1, 101)
        if self.quality_range[0] == self.quality_range[1]:
            raise ArgumentError(
                f"quality_range is a pair of integers, the second larger; received {quality_range!r}"
            )

    def _get_augment_params(self, img: Array) -> Any:
        return int(self.rng.randint(*self.quality_range))

    def _augment(self, img: Array, params: Any) -> Array:
        if img.ndim == 3 and img.shape[2] == 4:
            raise ImageError(f"{self!r}: JPEG has 1 or 3 channels; received shape {img.shape}")
        cv2 = opencv()
        values = check_range(self, img).astype(np.uint8, copy=False)
        code = cv2.imencode(".jpg", values, [cv2.IMWRITE_JPEG_QUALITY, params])[1]
        grey = img.ndim == 2 or img.shape[2] == 1
        read = cv2.imdecode(code, cv2.IMREAD_GRAYSCALE if grey else cv2.IMREAD_COLOR)
        return with_channels(read, img).astype(img.dtype, copy=False)


@final
class GaussianNoise(PhotometricAugmentor):
    """Adds Gaussian noise to each value.

    Args:
        sigma: standard deviation of the noise.
        clip: whether float images are also clipped to 0 to 255.

    Raises:
        ArgumentError: `sigma` is below 0.

    Example:
        >>> noisy = GaussianNoise(sigma=5).augment(np.full((100, 100), 128, np.uint8))
        >>> bool(4 < noisy.std() < 6)
        True
    """

    read_only = True

    def __init__(self, sigma: float = 1, clip: bool = True) -> None:
        """Stores the arguments."""
        if not sigma >= 0:
            raise ArgumentError(f"sigma is from 0 up; received {sigma!r}")
        self.sigma, self.clip = sigma, clip

    def _get_augment_params(self, img: Array) -> Any:
        return self.rng.standard_normal(img.shape)

    def _augment(self, img: Array, params: Any) -> Array:
        return as_before(img + params * self.sigma, img.dtype, self.clip)


@final
class SaltPepperNoise(PhotometricAugmentor):
    """Sets some values to 255 and some to 0, independently in each channel.

    Args:
        white_prob: share of values set to 255.
        black_prob: share of values set to 0.

    Raises:
        ArgumentError: a share is not from 0 to 1, or their sum is above 1.

    Example:
        >>> noisy = SaltPepperNoise(0.1, 0.1).augment(np.full((100, 100), 128, np.uint8))
        >>> sorted(int(value) for value in np.unique(noisy))
        [0, 128, 255]
    """

    read_only = True

    def __init__(self, white_prob: float = 0.05, black_prob: float = 0.05) -> None:
        """Stores the shares."""
        self.white_prob, self.black_prob = (
            fraction("white_prob", white_prob),
            fraction("black_prob", black_prob),
        )
        if white_prob + black_prob > 1:
            raise ArgumentError(
                f"white_prob and black_prob are at most 1 together; received {white_prob!r} and "
                f"{black_prob!r}"
            )

    def _get_augment_params(self, img: Array) -> Any:
        return self.rng.uniform(0, 1, img.shape)

    def _augment(self, img: Array, params: Any) -> Array:
        result = check_range(self, img).copy()
        result[params > 1 - self.white_prob] = 255
        result[params < self.black_prob] = 0
        return result
