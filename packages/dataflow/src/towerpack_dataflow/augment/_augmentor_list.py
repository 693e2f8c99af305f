"""`AugmentorList`: applies augmentors in order; `LazyTransform`: a transform chosen for its first image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError, ArgumentTypeError, ImageError
from ._augmentor import ImageAugmentor, active_rng, drawing_from
from ._image_checks import Array, check_image, fraction
from ._transform import NoOpTransform, Transform, TransformFactory, TransformList

__all__ = [
    "AugmentorList",
    "Identity",
    "LazyTransform",
    "MapImage",
    "RandomApplyAug",
    "RandomChooseAug",
    "RandomOrderAug",
    "augmentor",
    "chosen_transform",
    "in_turn",
]


@final
class LazyTransform(Transform):
    """A transform chosen for the first image and kept afterwards.

    Args:
        get_transform: chooses it for an image.
        rng: the random numbers for the choice.

    Example:
        >>> import numpy as np
        >>> from towerpack_dataflow.augment import RandomCrop
        >>> crop = LazyTransform(RandomCrop(2).get_transform)
        >>> left, right = np.arange(16).reshape(4, 4), np.arange(16).reshape(4, 4)
        >>> bool((crop.apply_image(left) == crop.apply_image(right)).all())
        True
    """

    def __init__(
        self, get_transform: Callable[[Array], Transform], rng: np.random.RandomState | None = None
    ) -> None:
        """Stores the arguments; chooses nothing."""
        self._get_transform = get_transform
        self._rng = rng
        self._chosen: Transform | None = None

    def apply_image(self, img: Array) -> Array:
        """Returns the changed image; chooses the transform first if necessary."""
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
    """Applies augmentors in order; each receives the image changed by the previous ones.

    Args:
        augmentors: the augmentors.
        opencv_images: whether images may also be int8, uint16, int16 or int32, and have 1 to 512 channels:
            OpenCV moves the pixels of these, such as label maps and depths.

    Raises:
        ArgumentTypeError: a member is not an `ImageAugmentor`, or `opencv_images` is not a boolean.

    Example:
        >>> from towerpack_dataflow.augment import CenterCrop, Clip
        >>> AugmentorList([CenterCrop(2), Clip(0, 9)]).augment(np.full((4, 4), 20, np.uint8))
        array([[9, 9],
               [9, 9]], dtype=uint8)
    """

    def __init__(self, augmentors: Sequence[ImageAugmentor], *, opencv_images: bool = False) -> None:
        """Stores the arguments."""
        if not isinstance(augmentors, (list, tuple)):
            raise ArgumentTypeError(f"augmentors is a list of augmentors; received {augmentors!r}")
        self.augmentors = [augmentor(f"augmentors[{n}]", each) for n, each in enumerate(augmentors)]
        self.opencv_images = arguments.flag("opencv_images", opencv_images)

    def _members(self) -> Sequence[ImageAugmentor]:
        return self.augmentors

    def get_transform(self, img: Array) -> Transform:
        """Returns the transforms; the first is chosen now, the others when they receive the image.

        Raises:
            ImageError: `img` is no image.
        """
        check_image(self, img, self.opencv_images)
        return in_turn(self.augmentors, img, self.rng, self.opencv_images)

    def __repr__(self) -> str:
        """Shows the augmentors."""
        option = ", opencv_images=True" if self.opencv_images else ""
        return f"AugmentorList({self.augmentors!r}{option})"


def in_turn(
    augmentors: Sequence[ImageAugmentor], img: Array, rng: np.random.RandomState, opencv_images: bool
) -> Transform:
    """Returns the transforms of augmentors in order, all drawn from `rng`.

    Args:
        augmentors: the augmentors.
        img: an image that is checked already.
        rng: the random numbers.
        opencv_images: as in `AugmentorList`, for the images between the augmentors.
    """
    transforms: list[Transform] = []
    for number, each in enumerate(augmentors):
        if number == 0:
            first = _drawn(partial(chosen_transform, each), img, rng)
            transforms.extend(first.tfms if isinstance(first, TransformList) else [first])
        else:
            choose = partial(chosen_transform, each, opencv_images=opencv_images)
            transforms.append(LazyTransform(choose, rng))
    return TransformList(transforms)


def chosen_transform(each: ImageAugmentor, img: Array, opencv_images: bool | None = None) -> Transform:
    """Returns the transform of an augmentor for an image.

    Args:
        each: the augmentor.
        img: the image.
        opencv_images: as in `AugmentorList`, for an image from another augmentor, which may be any array;
            `None` for an image that is checked already.

    Raises:
        ImageError: the augmentor rejects the image.
        ArgumentTypeError: `get_transform` has returned an object of another type.
    """
    if opencv_images is not None:
        check_image(each, img, opencv_images)
    transform = each.get_transform(img)
    if not isinstance(transform, Transform):
        raise ArgumentTypeError(f"get_transform of {each!r} returns a Transform; received {transform!r}")
    return transform


def augmentor(name: str, value: Any) -> ImageAugmentor:
    """Returns `value` if it is an augmentor.

    Raises:
        ArgumentTypeError: `value` is not an augmentor.
    """
    if not isinstance(value, ImageAugmentor):
        raise ArgumentTypeError(
            f"{name} is an ImageAugmentor; received {value!r}. MapImage converts a function"
        )
    return value


def _drawn(choose: Callable[[Array], Transform], img: Array, rng: np.random.RandomState | None) -> Transform:
    """Returns the transform chosen with random numbers of `rng`, or with the current ones if it is None."""
    if rng is None or rng is active_rng():
        return choose(img)
    with drawing_from(rng):
        return choose(img)


@final
class Identity(ImageAugmentor):
    """Changes nothing.

    Example:
        >>> import numpy as np
        >>> from towerpack_dataflow.augment import Flip
        >>> either = RandomChooseAug([(Flip(horiz=True, prob=1), 0.2), (Identity(), 0.8)])
        >>> Identity().augment(np.array([[1, 2]], np.uint8))
        array([[1, 2]], dtype=uint8)
    """

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

    Example:
        >>> import numpy as np
        >>> from towerpack_dataflow.augment import BrightnessScale
        >>> images = [np.full((1, 1), 100, np.uint8)] * 50
        >>> aug = RandomApplyAug(BrightnessScale((2, 2)), prob=0.5)
        >>> sorted({int(aug.augment(image)[0, 0]) for image in images})
        [100, 200]
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

    Example:
        >>> import numpy as np
        >>> from towerpack_dataflow.augment import Flip
        >>> aug = RandomChooseAug([Flip(horiz=True, prob=1), Flip(vert=True, prob=1)])
        >>> aug.augment(np.zeros((2, 3), np.uint8)).shape
        (2, 3)
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

    Example:
        >>> import numpy as np
        >>> from towerpack_dataflow.augment import Brightness, Contrast
        >>> aug = RandomOrderAug([Brightness(20), Contrast((0.8, 1.2))])
        >>> aug.augment(np.zeros((2, 3), np.uint8)).shape
        (2, 3)
    """

    def __init__(self, aug_lists: Sequence[ImageAugmentor]) -> None:
        """Stores the augmentors."""
        self.aug_lists = [augmentor("aug_lists", each) for each in aug_lists]

    def _members(self) -> Sequence[ImageAugmentor]:
        return self.aug_lists

    def get_transform(self, img: Array) -> Transform:
        """Returns the transforms, in random order."""
        order = self.rng.permutation(len(self.aug_lists))
        return in_turn([self.aug_lists[place] for place in order], img, self.rng, self.opencv_images)
