"""Adapters for random functions and transforms of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from .._errors import ArgumentTypeError, ImageError
from ._augmentor import ImageAugmentor, drawing_from
from ._image_checks import Array, check_unmasked
from ._transform import Transform, TransformFactory

__all__ = ["Albumentations", "RandomMapImage"]

_OPENCV_BYTES = 2  # of the integers that every version of OpenCV can move


@final
class RandomMapImage(ImageAugmentor):
    """Changes images by a function with random numbers.

    Args:
        func: called with an image and a `numpy.random.RandomState`; returns another image. Augmentors called
            in it draw from the same numbers.

    Raises:
        ArgumentTypeError: `func` cannot be called.

    Example:
        >>> RandomMapImage(lambda image, rng: image + rng.randint(1, 2)).augment(np.zeros((1, 1)))
        array([[1.]])
    """

    def __init__(self, func: Callable[[Any, np.random.RandomState], Any]) -> None:
        """Stores the function."""
        if not callable(func):
            raise ArgumentTypeError(f"func is a function of an image and random numbers; received {func!r}")
        self.func = func

    def get_transform(self, img: Array) -> Transform:
        """Returns the function with separate random numbers, the same at each application."""
        seed = int(self.rng.randint(2**31))

        def apply_image(image: Array) -> Array:
            with drawing_from(np.random.RandomState(seed)) as rng:
                result = self.func(image, rng)
            check_unmasked(self, result)
            return np.asarray(result)

        return TransformFactory(self, apply_image=apply_image)


@final
class Albumentations(ImageAugmentor):
    """Changes images and masks by a transform in the style of Albumentations: takes `image=`, returns a dict.

    Args:
        augmentor: the transform. If it has `set_random_seed`, it is seeded from `self.rng`, so that its
            results are determined by the datapoint like all others.

    Raises:
        ArgumentTypeError: `augmentor` cannot be called.

    Example:
        >>> def brighter(image):  # such as a transform of Albumentations
        ...     return {"image": image + 1}
        >>> Albumentations(brighter).augment(np.zeros((1, 2), np.uint8))
        array([[1, 1]], dtype=uint8)
    """

    def __init__(self, augmentor: Callable[..., Any]) -> None:
        """Stores the transform."""
        if not callable(augmentor):
            raise ArgumentTypeError(f"augmentor is called with image=...; received {augmentor!r}")
        self.augmentor = augmentor

    def get_transform(self, img: Array) -> Transform:
        """Returns the transform with a separate seed."""
        seed = int(self.rng.randint(2**31))
        return TransformFactory(
            self,
            apply_image=lambda image: self._called(seed, image=image)["image"],
            apply_mask=lambda mask: self._moved(mask, self._called(seed, image=img, mask=mask)["mask"]),
        )

    def _moved(self, before: Array, mask: Array) -> Array:
        """Returns a mask that keeps its dtype and labels, except for one filling value per channel."""
        fills = before.shape[2] if before.ndim == 3 else 1
        exact = mask.dtype == before.dtype
        if exact and before.dtype.itemsize > _OPENCV_BYTES:
            exact = len(np.setdiff1d(mask, before)) <= fills
        if not exact:
            raise ImageError(
                f"{self!r}: labels of {before.dtype} were returned with other values, as {mask.dtype}; use "
                "masks of uint8 or uint16, which OpenCV moves exactly"
            )
        return mask

    def _called(self, seed: int, **arrays: Array) -> Any:
        set_seed = getattr(self.augmentor, "set_random_seed", None)
        if set_seed is not None:
            set_seed(seed)
        result = self.augmentor(**arrays)
        if not isinstance(result, dict) or not arrays.keys() <= result.keys():
            raise ImageError(
                f"{self!r} returns a dict with {sorted(arrays)}; received {type(result).__name__}"
            )
        return result
