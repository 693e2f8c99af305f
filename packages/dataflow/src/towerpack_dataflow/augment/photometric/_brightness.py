"""Brightness, contrast and gamma."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

from ..._errors import ArgumentError
from .._augmentor import PhotometricAugmentor
from .._image_checks import Array, as_before, check_range, colour, interval, opencv, with_channels

__all__ = [
    "Brightness",
    "BrightnessScale",
    "Contrast",
    "Gamma",
    "Hue",
    "Lighting",
    "Saturation",
    "along_row",
    "changed_levels",
    "looked_up",
    "mean_of",
    "mixed",
    "normalised",
]

_LEVELS = np.arange(256, dtype=np.float32)[:, None]


def changed_levels(img: Array, change: Callable[[Array], Array], clip: bool) -> Array:
    """Returns the image with each value changed by a function.

    Args:
        img: an image.
        change: a function of a float32 array with channels, or 1, as its last axis; returns a new array.
        clip: whether float images are also clipped to 0 to 255.
    """
    if img.dtype != np.uint8:
        return as_before(change(img.astype(np.float32)), img.dtype, clip)
    return looked_up(img, as_before(change(_LEVELS), img.dtype, clip))


def looked_up(img: Array, table: Array) -> Array:
    """Returns the entries of a table, shape [256] or [256, channels], at the values of a uint8 image."""
    columns = table.reshape(256, 1, -1)
    return with_channels(opencv().LUT(img, columns if columns.shape[2] > 1 else columns[:, :, 0]), img)


def mean_of(img: Array) -> Any:
    """Returns the mean of each channel, shape [channels]; a number for images without channels."""
    mean = np.asarray(opencv().mean(img), np.float32)
    return mean[0] if img.ndim == 2 else mean[: img.shape[2]]


def mixed(img: Array, other: Array, share: float) -> Array:
    """Returns `share * img + (1 - share) * other`; clips and truncates for uint8."""
    below = -0.499 if img.dtype == np.uint8 else 0.0  # OpenCV rounds
    return np.asarray(opencv().addWeighted(img, share, other, 1 - share, below))


def normalised(img: Array, mean: Any, factor: Any) -> Array:
    """Returns `(img - mean) * factor` as float32, each a number, or a row from `along_row`."""
    values: Array = np.subtract(img.reshape(len(img), -1), mean, dtype=np.float32)
    values *= factor
    return values.reshape(img.shape)


def along_row(each: Any, width: int) -> Array:
    """Returns one number per channel, repeated for a row: vector instructions need more than three."""
    each = np.asarray(each, np.float32)
    return np.broadcast_to(each, (width, *each.shape)).reshape(-1) if each.ndim else each


@final
class Brightness(PhotometricAugmentor):
    """Adds one random number to all values.

    Args:
        delta: the number is from -delta to delta.
        clip: whether float images are also clipped to 0 to 255.

    Raises:
        ArgumentError: `delta` is not above 0.

    Example:
        >>> image = np.full((2, 2), 100, np.uint8)
        >>> bool(abs(Brightness(30).augment(image).astype(int) - 100).max() <= 30)
        True
    """

    read_only = True

    def __init__(self, delta: float, clip: bool = True) -> None:
        """Stores the bound."""
        if not delta > 0:
            raise ArgumentError(f"delta is above 0; received {delta!r}")
        self.delta, self.clip = delta, clip

    def _get_augment_params(self, img: Array) -> Any:
        return self._rand_range(-self.delta, self.delta)

    def _augment(self, img: Array, params: Any) -> Array:
        return changed_levels(img, lambda values: values + np.float32(params), self.clip)


@final
class BrightnessScale(PhotometricAugmentor):
    """Multiplies all values by one random factor.

    Args:
        range: bounds of the factor.
        clip: whether float images are also clipped to 0 to 255.

    Raises:
        ArgumentError: `range` is not an ordered pair of numbers.

    Example:
        >>> BrightnessScale((2, 2)).augment(np.array([[50, 200]], np.uint8))
        array([[100, 255]], dtype=uint8)
    """

    read_only = True

    def __init__(self, range: tuple[float, float], clip: bool = True) -> None:
        """Stores the bounds."""
        self.range, self.clip = interval("range", range), clip

    def _get_augment_params(self, img: Array) -> Any:
        return self._rand_range(*self.range)

    def _augment(self, img: Array, params: Any) -> Array:
        return changed_levels(img, lambda values: values * np.float32(params), self.clip)


@final
class Contrast(PhotometricAugmentor):
    """Multiplies the distance of all values from a mean by one random factor.

    Args:
        factor_range: bounds of the factor.
        rgb: True or False: uses the mean of the grey version of an RGB or BGR image. None: each channel uses
            its own mean.
        clip: whether float images are also clipped to 0 to 255.

    Raises:
        ArgumentError: `factor_range` is not an ordered pair of numbers.

    Example:
        >>> Contrast((0.5, 0.5)).augment(np.array([[100, 200]], np.uint8))
        array([[125, 175]], dtype=uint8)
    """

    read_only = True

    def __init__(self, factor_range: tuple[float, float], rgb: bool | None = None, clip: bool = True) -> None:
        """Stores the bounds."""
        self.factor_range, self.rgb, self.clip = interval("factor_range", factor_range), rgb, clip

    def _get_augment_params(self, img: Array) -> Any:
        return self._rand_range(*self.factor_range)

    def _augment(self, img: Array, params: Any) -> Array:
        mean = self._mean(img)
        return changed_levels(img, lambda values: (values - mean) * np.float32(params) + mean, self.clip)

    def _mean(self, img: Array) -> Any:
        """Returns the mean of each channel, or of the grey image."""
        if self.rgb is None:
            return mean_of(img)
        cv2 = opencv()
        code = cv2.COLOR_RGB2GRAY if self.rgb else cv2.COLOR_BGR2GRAY
        return mean_of(cv2.cvtColor(colour(self, img).astype(np.float32), code))


@final
class Gamma(PhotometricAugmentor):
    """Raises values, as shares of 255, to the power of `1 / (1 + gamma)` with a random gamma.

    Args:
        range: bounds of gamma, above -1.

    Raises:
        ArgumentError: `range` is not such a pair.

    Example:
        >>> Gamma((1, 1)).augment(np.array([[0, 64, 255]], np.uint8))
        array([[  0, 127, 255]], dtype=uint8)
    """

    read_only = True

    def __init__(self, range: tuple[float, float] = (-0.5, 0.5)) -> None:
        """Stores the bounds."""
        self.range = interval("range", range, -0.999)

    def _get_augment_params(self, img: Array) -> Any:
        return self._rand_range(*self.range)

    def _augment(self, img: Array, params: Any) -> Array:
        power = 1.0 / (1.0 + params)
        if img.dtype == np.uint8:
            return looked_up(img, ((np.arange(256, dtype=np.float32) / 255) ** power * 255).astype(np.uint8))
        return np.asarray((check_range(self, img) / 255) ** power * 255, img.dtype)


@final
class Hue(PhotometricAugmentor):
    """Rotates the hue by a random angle.

    Args:
        range: bounds of the angle, in units of two degrees: (0, 180) and (-90, 90) are the whole circle.
        rgb: whether images are RGB; else BGR.

    Raises:
        ArgumentError: `range` is not an ordered pair of numbers.

    Example:
        >>> Hue((60, 60)).augment(np.array([[[255, 0, 0]]], np.uint8))  # red turns green
        array([[[  0, 255,   0]]], dtype=uint8)
    """

    read_only = True

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

    Example:
        >>> Saturation(0.4).augment(np.full((1, 2, 3), 100, np.uint8))[0, 0]  # grey stays grey
        array([100, 100, 100], dtype=uint8)
    """

    read_only = True

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

    Example:
        >>> eigenvalues, eigenvectors = [55.5, 4.8, 1.1], np.eye(3)
        >>> Lighting(0.1, eigenvalues, eigenvectors).augment(np.full((2, 2, 3), 128, np.uint8)).shape
        (2, 2, 3)
    """

    read_only = True

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
