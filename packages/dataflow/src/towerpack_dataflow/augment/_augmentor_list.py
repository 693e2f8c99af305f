"""`AugmentorList`: augmentors one after another; `LazyTransform`: one chosen when its image is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import numpy as np

from .._errors import ArgumentTypeError, ImageError
from ._augmentor import ImageAugmentor
from ._image_checks import Array, check_image
from ._random_source import active_rng, drawing_from
from ._transform import Transform, TransformList

__all__ = ["AugmentorList", "LazyTransform", "augmentor", "chosen_transform", "in_turn"]


@final
class LazyTransform(Transform):
    """A transform that is chosen for the first image it is applied to, and then stays.

    Args:
        get_transform: chooses it, given an image.
        rng: the random numbers that it is chosen with.
    """

    def __init__(
        self, get_transform: Callable[[Array], Transform], rng: np.random.RandomState | None = None
    ) -> None:
        """Chooses nothing yet."""
        self._get_transform = get_transform
        self._rng = rng
        self._chosen: Transform | None = None

    def apply_image(self, img: Array) -> Array:
        """Returns the changed image; chooses the transform first if none was."""
        if self._chosen is None:
            self._chosen = _drawn(self._get_transform, img, self._rng)
        return self._chosen.apply_image(img)

    def apply_coords(self, coords: Array) -> Array:
        """Returns the changed coordinates."""
        return self._known().apply_coords(coords)

    def apply_boxes(self, boxes: Array) -> Array:
        """Returns the changed boxes."""
        return self._known().apply_boxes(boxes)

    def apply_mask(self, mask: Array) -> Array:
        """Returns the changed mask."""
        return self._known().apply_mask(mask)

    def __getattr__(self, name: str) -> Any:
        """Returns any other `apply_...` of the chosen transform."""
        if not name.startswith("apply_"):
            raise AttributeError(f"LazyTransform has no attribute {name!r}")
        return getattr(self._known(), name)

    def __repr__(self) -> str:
        """Shows the chosen transform."""
        return f"LazyTransform({self._chosen!r})"

    def _known(self) -> Transform:
        if self._chosen is None:
            raise ImageError(
                "this transform is chosen for an image: call apply_image before any other apply_..."
            )
        return self._chosen


@final
class AugmentorList(ImageAugmentor):
    """Applies augmentors in order; each sees the image as those before it have changed it.

    Args:
        augmentors: the augmentors.

    Raises:
        ArgumentTypeError: one is no `ImageAugmentor`.

    Example:
        >>> from towerpack_dataflow.augment import CenterCrop, Clip
        >>> AugmentorList([CenterCrop(2), Clip(0, 9)]).augment(np.full((4, 4), 20, np.uint8))
        array([[9, 9],
               [9, 9]], dtype=uint8)
    """

    def __init__(self, augmentors: Sequence[ImageAugmentor]) -> None:
        """Keeps the augmentors."""
        if not isinstance(augmentors, (list, tuple)):
            raise ArgumentTypeError(f"augmentors is a list of augmentors; received {augmentors!r}")
        self.augmentors = [augmentor(f"augmentors[{n}]", each) for n, each in enumerate(augmentors)]

    def _members(self) -> Sequence[ImageAugmentor]:
        return self.augmentors

    def get_transform(self, img: Array) -> Transform:
        """Returns the transforms; the first is chosen now, the others when the image reaches them."""
        return in_turn(self.augmentors, img, self.rng)

    def __repr__(self) -> str:
        """Shows the augmentors."""
        return f"AugmentorList({self.augmentors!r})"


def in_turn(augmentors: Sequence[ImageAugmentor], img: Array, rng: np.random.RandomState) -> Transform:
    """Returns transforms of augmentors one after another, all of which draw from `rng`."""
    transforms: list[Transform] = []
    for number, each in enumerate(augmentors):
        if number == 0:
            first = _drawn(partial(chosen_transform, each), img, rng)
            transforms.extend(first.tfms if isinstance(first, TransformList) else [first])
        else:
            transforms.append(LazyTransform(partial(chosen_transform, each), rng))
    return TransformList(transforms)


def chosen_transform(each: ImageAugmentor, img: Array) -> Transform:
    """Returns the transform of an augmentor for an image, both of which are checked.

    Raises:
        ImageError: the augmentor cannot take such an image.
        ArgumentTypeError: `get_transform` has returned something else than a transform.
    """
    transform = each.get_transform(check_image(each, img))
    if not isinstance(transform, Transform):
        raise ArgumentTypeError(f"get_transform of {each!r} returns a Transform; received {transform!r}")
    return transform


def augmentor(name: str, value: Any) -> ImageAugmentor:
    """Returns an augmentor.

    Raises:
        ArgumentTypeError: `value` is none.
    """
    if not isinstance(value, ImageAugmentor):
        raise ArgumentTypeError(
            f"{name} is an ImageAugmentor; received {value!r}. MapImage makes one of a function"
        )
    return value


def _drawn(choose: Callable[[Array], Transform], img: Array, rng: np.random.RandomState | None) -> Transform:
    """Returns what is chosen by random numbers of `rng`, or by those at hand if it is None."""
    if rng is None or rng is active_rng():
        return choose(img)
    with drawing_from(rng):
        return choose(img)
