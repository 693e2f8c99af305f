"""Augmentation policies: randomly chosen operations, and mixtures of the images of a batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError, ImageError
from ._augmentor import ImageAugmentor
from ._augmentor_list import LazyTransform
from ._image_checks import Array, check_unmasked, colour, opencv
from ._transform import NoOpTransform, PhotometricTransform, Transform, TransformList
from .geometric._warp import WarpAffineTransform
from .photometric._brightness import changed_levels, looked_up, mean_of, mixed

__all__ = ["OPERATIONS", "CutMix", "MixUp", "RandAugment", "TrivialAugment", "operation"]


@final
class RandAugment(ImageAugmentor):
    """Applies random operations, all with the same strength.

    Source: Cubuk et al., "RandAugment: Practical Automated Data Augmentation with a Reduced Search Space"
    (2020). Images are uint8, RGB.

    Args:
        num_ops: number of operations per image.
        magnitude: strength of the operations, from 0 to 30.

    Raises:
        ArgumentError: an argument is outside its range.

    Example:
        >>> RandAugment(num_ops=2, magnitude=9).augment(np.zeros((16, 16, 3), np.uint8)).shape
        (16, 16, 3)
    """

    read_only = True

    def __init__(self, num_ops: int = 2, magnitude: float = 9) -> None:
        """Stores the settings."""
        self.num_ops = arguments.count("num_ops", num_ops, least=0)
        if not 0 <= magnitude <= 30:
            raise ArgumentError(f"magnitude is from 0 to 30; received {magnitude!r}")
        self.magnitude = magnitude

    def get_transform(self, img: Array) -> Transform:
        """Returns the operations.

        Raises:
            ImageError: the image is not uint8, or not RGB.
        """
        _check(self, img)
        return TransformList([_drawn(self, self.magnitude / 30, False) for _ in range(self.num_ops)])


@final
class TrivialAugment(ImageAugmentor):
    """Applies one random operation with a random strength.

    Source: Müller and Hutter, "TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation" (2021),
    with its wide ranges. Images are uint8, RGB.

    Example:
        >>> TrivialAugment().augment(np.zeros((16, 16, 3), np.uint8)).shape
        (16, 16, 3)
    """

    read_only = True

    def get_transform(self, img: Array) -> Transform:
        """Returns the operation.

        Raises:
            ImageError: the image is not uint8, or not RGB.
        """
        _check(self, img)
        return TransformList([_drawn(self, self.rng.randint(31) / 30, True)])


def _drawn(where: ImageAugmentor, strength: float, wide: bool) -> Transform:
    name = OPERATIONS[where.rng.randint(len(OPERATIONS))]
    sign = 1 if where.rng.uniform() < 0.5 else -1
    return LazyTransform(lambda image: operation(name, image, strength, sign, wide))


def _check(where: ImageAugmentor, img: Array) -> None:
    if colour(where, img).dtype != np.uint8:
        raise ImageError(f"{where!r}: takes uint8 images; received {img.dtype}. Convert them with ToUint8")


_TO_GREY = 7  # OpenCV's COLOR_RGB2GRAY
_LEVELS = np.arange(256, dtype=np.uint8)


def operation(name: str, img: Array, strength: float, sign: int, wide: bool = False) -> Transform:
    """Returns an operation as a transform.

    Args:
        name: one of `OPERATIONS`.
        img: uint8, shape [height, width, 3], RGB.
        strength: from 0 to 1.
        sign: -1 or 1, for operations with two directions.
        wide: whether to use the ranges of TrivialAugment.
    """
    if name == "identity":
        return NoOpTransform()
    if name in _GEOMETRIC:
        return _warp(name, img, strength * sign, wide)
    if name == "posterize":
        kept = np.uint8(256 - 2 ** round(strength * (6 if wide else 4)))
        return PhotometricTransform(lambda image: image & kept, name)
    change = _VALUES[name]
    amount = strength * (0.99 if wide else 0.9)
    return PhotometricTransform(lambda image: change(image, strength, 1 + amount * sign), name)


def _warp(name: str, img: Array, amount: float, wide: bool) -> Transform:
    h, w = img.shape[:2]
    if name == "rotate":
        angle = amount * (135 if wide else 30)
        matrix = opencv().getRotationMatrix2D((w * 0.5 - 0.5, h * 0.5 - 0.5), angle, 1.0)
    else:
        matrix = np.eye(2, 3)
        axis = int(name.endswith("y"))
        if name.startswith("shear"):
            matrix[axis, 1 - axis] = amount * (0.99 if wide else 0.3)
            matrix[axis, 2] = -matrix[axis, 1 - axis] * ((w, h)[1 - axis] * 0.5 - 0.5)
        else:
            matrix[axis, 2] = round(amount * (32 if wide else 150 / 331 * (w, h)[axis]))
    return WarpAffineTransform(matrix, (w, h), interp=0)


def _brightness(image: Array, _: float, factor: float) -> Array:
    return changed_levels(image, lambda values: values * np.float32(factor), True)


def _contrast(image: Array, _: float, factor: float) -> Array:
    mean = mean_of(opencv().cvtColor(image, _TO_GREY))
    return changed_levels(image, lambda values: mean + np.float32(factor) * (values - mean), True)


def _colour(image: Array, _: float, factor: float) -> Array:
    cv2 = opencv()
    return mixed(image, cv2.cvtColor(cv2.cvtColor(image, _TO_GREY), cv2.COLOR_GRAY2RGB), factor)


def _sharpness(image: Array, _: float, factor: float) -> Array:
    kernel = np.ones((3, 3), np.float32)
    kernel[1, 1] = 5
    smooth = image.copy()
    smooth[1:-1, 1:-1] = opencv().filter2D(image, -1, kernel / 13)[1:-1, 1:-1]
    return mixed(image, smooth, factor)


def _solarize(image: Array, strength: float, _: float) -> Array:
    return looked_up(image, np.where(255 * (1 - strength) <= _LEVELS, 255 - _LEVELS, _LEVELS))


def _autocontrast(image: Array, *_: float) -> Array:
    # Along whole rows first: NumPy is slow along an axis of three channels.
    low, high = (bound(bound(image, axis=0), axis=0).astype(np.float64) for bound in (np.min, np.max))
    table = (_LEVELS[:, None] - low) * (255 / np.where(high > low, high - low, 255))
    table = np.where(high > low, table, _LEVELS[:, None])
    return looked_up(image, np.clip(table, 0, 255).astype(np.uint8))


def _equalize(image: Array, *_: float) -> Array:
    return looked_up(image, np.stack([_flattened(image, channel) for channel in range(3)], axis=1))


def _flattened(image: Array, channel: int) -> Array:
    """Returns the table, shape [256], that equalizes the values of a channel, as computed by Pillow."""
    counts = opencv().calcHist([image], [channel], None, [256], [0, 256]).ravel().astype(np.int64)
    step = (counts.sum() - counts[np.flatnonzero(counts)[-1]]) // 255
    if not step:
        return _LEVELS
    return np.asarray(np.minimum((step // 2 + np.cumsum(counts) - counts) // step, 255), np.uint8)


_GEOMETRIC = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")
_VALUES: dict[str, Callable[[Array, float, float], Array]] = {
    "autocontrast": _autocontrast,
    "brightness": _brightness,
    "color": _colour,
    "contrast": _contrast,
    "equalize": _equalize,
    "sharpness": _sharpness,
    "solarize": _solarize,
}
OPERATIONS = ("identity", *_GEOMETRIC, "posterize", *_VALUES)


class _Mixing:
    """A function of a batch, `[images, labels, ...]`, for `MapData(batches, ..., rng=True)`."""

    def __init__(self, num_classes: int, alpha: float) -> None:
        self.num_classes = arguments.count("num_classes", num_classes)
        if not alpha > 0:
            raise ArgumentError(f"alpha is above 0; received {alpha!r}")
        self.alpha = float(alpha)

    def __call__(self, batch: Any, rng: np.random.Generator) -> list[Any]:
        """Returns the batch with mixed images, and labels as shares of classes: float32, [batch, classes]."""
        images, labels, *others = batch
        images, labels = self._unmasked(images), self._unmasked(labels)
        one_hot = self._one_hot(labels, len(images))
        order = rng.permutation(len(images))
        mixed, share = self._mix(images, order, float(rng.beta(self.alpha, self.alpha)), rng)
        return [mixed, one_hot * np.float32(share) + one_hot[order] * np.float32(1 - share), *others]

    def _unmasked(self, values: Any) -> Array:
        """Returns images or labels as one array; members of a list may be masked arrays."""
        for part in values if isinstance(values, (list, tuple)) else [values]:
            check_unmasked(type(self).__name__, part)
        return np.asarray(values)

    def _mix(
        self, images: Array, order: Array, share: float, rng: np.random.Generator
    ) -> tuple[Array, float]:
        raise NotImplementedError

    def _one_hot(self, labels: Array, size: int) -> Array:
        if labels.dtype.kind == "f" and labels.shape == (size, self.num_classes):
            return labels.astype(np.float32)
        if labels.dtype.kind not in "iu" or labels.shape != (size,) or not _inside(labels, self.num_classes):
            raise ImageError(
                f"{type(self).__name__}: labels are {size} integers below {self.num_classes}, or floats of "
                f"shape {size, self.num_classes}; received {labels.dtype} of shape {labels.shape}"
            )
        return np.eye(self.num_classes, dtype=np.float32)[labels]


@final
class MixUp(_Mixing):
    """Mixes each image of a batch with another one: `share * image + (1 - share) * other`; labels too.

    Source: Zhang et al., "mixup: Beyond Empirical Risk Minimization" (2018).

    Args:
        num_classes: number of classes.
        alpha: the share has the distribution beta(alpha, alpha).

    Raises:
        ArgumentError: an argument is outside its range.
        ImageError: labels are neither classes nor shares of them, or values are masked; raised when called.

    Example:
        >>> from towerpack_dataflow import BatchData, MapData
        >>> pictures = [[np.full((2, 2), 100 * n, np.uint8), n] for n in range(2)]
        >>> batches = MapData(BatchData(pictures, 2), MixUp(num_classes=2), rng=True)
        >>> [part.shape for part in next(iter(batches))]
        [(2, 2, 2), (2, 2)]
    """

    def __init__(self, num_classes: int, alpha: float = 0.2) -> None:
        """Stores the settings."""
        super().__init__(num_classes, alpha)

    def _mix(
        self, images: Array, order: Array, share: float, rng: np.random.Generator
    ) -> tuple[Array, float]:
        mixed = images * np.float32(share) + images[order] * np.float32(1 - share)
        return mixed.astype(images.dtype, copy=False), share


@final
class CutMix(_Mixing):
    """Replaces a rectangle of all images of a batch by that of others, and mixes labels by its area.

    Source: Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with Localizable
    Features" (2019).

    Args:
        num_classes: number of classes.
        alpha: the remaining share of the area has the distribution beta(alpha, alpha).

    Raises:
        ArgumentError: an argument is outside its range.
        ImageError: labels are neither classes nor shares of them, or values are masked; raised when called.

    Example:
        >>> from towerpack_dataflow import BatchData, MapData
        >>> pictures = [[np.full((4, 4), 100 * n, np.uint8), n] for n in range(2)]
        >>> batches = MapData(BatchData(pictures, 2), CutMix(num_classes=2), rng=True)
        >>> [part.shape for part in next(iter(batches))]
        [(2, 4, 4), (2, 2)]
    """

    def __init__(self, num_classes: int, alpha: float = 1.0) -> None:
        """Stores the settings."""
        super().__init__(num_classes, alpha)

    def _mix(
        self, images: Array, order: Array, share: float, rng: np.random.Generator
    ) -> tuple[Array, float]:
        height, width = images.shape[1:3]
        edge = math.sqrt(1 - share) / 2
        y, x = rng.uniform(0, height), rng.uniform(0, width)
        top, bottom = (int(np.clip(y + side * edge * height, 0, height)) for side in (-1, 1))
        left, right = (int(np.clip(x + side * edge * width, 0, width)) for side in (-1, 1))
        mixed = images.copy()
        mixed[:, top:bottom, left:right] = images[order, top:bottom, left:right]
        return mixed, 1 - (bottom - top) * (right - left) / (height * width)


def _inside(labels: Array, classes: int) -> bool:
    return not labels.size or (labels.min() >= 0 and labels.max() < classes)
