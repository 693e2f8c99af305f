"""Augmentors that choose, skip or order others at random; and functions as augmentors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from .._errors import ArgumentError, ArgumentTypeError
from ._augmentor import ImageAugmentor
from ._augmentor_list import augmentor, chosen_transform, in_turn
from ._image_checks import Array, fraction
from ._transform import NoOpTransform, Transform, TransformFactory

__all__ = ["Identity", "MapImage", "RandomApplyAug", "RandomChooseAug", "RandomOrderAug"]


@final
class Identity(ImageAugmentor):
    """Changes nothing."""

    def get_transform(self, img: Array) -> Transform:
        """Returns a transform that changes nothing."""
        return NoOpTransform()


@final
class MapImage(ImageAugmentor):
    """Changes images by a function.

    Args:
        func: a function of an image, which returns another.
        coord_func: a function of coordinates, shape [number, 2]; without one, coordinates are rejected.

    Raises:
        ArgumentTypeError: an argument is not a function.

    Example:
        >>> import numpy as np
        >>> MapImage(lambda image: image[:1]).augment(np.zeros((4, 4), np.uint8)).shape
        (1, 4)
    """

    def __init__(self, func: Callable[[Any], Any], coord_func: Callable[[Any], Any] | None = None) -> None:
        """Stores the functions."""
        if not callable(func) or not (coord_func is None or callable(coord_func)):
            raise ArgumentTypeError(f"MapImage takes functions; received {func!r} and {coord_func!r}")
        self.func, self.coord_func = func, coord_func

    def get_transform(self, img: Array) -> Transform:
        """Returns the functions as a transform."""
        of_coords = {} if self.coord_func is None else {"apply_coords": self.coord_func}
        return TransformFactory(self, apply_image=self.func, **of_coords)


@final
class RandomApplyAug(ImageAugmentor):
    """Applies an augmentor to some images.

    Args:
        aug: the augmentor.
        prob: probability for each image.

    Raises:
        ArgumentError: `prob` is not from 0 to 1.
        ArgumentTypeError: `aug` is not an augmentor.
    """

    def __init__(self, aug: ImageAugmentor, prob: float) -> None:
        """Stores the arguments."""
        self.aug, self.prob = augmentor("aug", aug), fraction("prob", prob)

    def _members(self) -> Sequence[ImageAugmentor]:
        return (self.aug,)

    def get_transform(self, img: Array) -> Transform:
        """Returns the transform of the augmentor, or an identity."""
        return chosen_transform(self.aug, img) if self.rng.uniform() < self.prob else NoOpTransform()


@final
class RandomChooseAug(ImageAugmentor):
    """Applies one of several augmentors to each image.

    Args:
        aug_lists: augmentors, or pairs of an augmentor and its probability.

    Raises:
        ArgumentError: `aug_lists` is empty, or the probabilities do not sum to 1.
        ArgumentTypeError: a member is not an augmentor.
    """

    def __init__(self, aug_lists: Sequence[Any]) -> None:
        """Stores the augmentors."""
        even = 1 / max(1, len(aug_lists))
        pairs = [each if isinstance(each, (tuple, list)) else (each, even) for each in aug_lists]
        if not pairs or abs(sum(prob for _, prob in pairs) - 1) > 1e-6:
            raise ArgumentError(
                "aug_lists is augmentors, or pairs (augmentor, probability) that sum to 1; received "
                f"{aug_lists!r}"
            )
        self.aug_lists = [augmentor("aug_lists", each) for each, _ in pairs]
        self.prob = [fraction("prob", prob) for _, prob in pairs]

    def _members(self) -> Sequence[ImageAugmentor]:
        return self.aug_lists

    def get_transform(self, img: Array) -> Transform:
        """Returns the transform of the chosen augmentor."""
        return chosen_transform(self.aug_lists[self.rng.choice(len(self.aug_lists), p=self.prob)], img)


@final
class RandomOrderAug(ImageAugmentor):
    """Applies augmentors in random order; each receives the image changed by the previous ones.

    Args:
        aug_lists: the augmentors.

    Raises:
        ArgumentTypeError: a member is not an augmentor.
    """

    def __init__(self, aug_lists: Sequence[ImageAugmentor]) -> None:
        """Stores the augmentors."""
        self.aug_lists = [augmentor("aug_lists", each) for each in aug_lists]

    def _members(self) -> Sequence[ImageAugmentor]:
        return self.aug_lists

    def get_transform(self, img: Array) -> Transform:
        """Returns the transforms, in random order."""
        order = self.rng.permutation(len(self.aug_lists))
        return in_turn([self.aug_lists[place] for place in order], img, self.rng)
