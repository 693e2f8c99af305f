"""MixUp and CutMix: mix images and labels within a batch."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import ArgumentError, ImageError
from .._image_checks import Array, check_unmasked

__all__ = ["CutMix", "MixUp"]


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
                f"{type(self).__name__}: labels are {size} integers below {self.num_classes}, or "
                "floats of shape "
                f"{size, self.num_classes}; received {labels.dtype} of shape {labels.shape}"
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
