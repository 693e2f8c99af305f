"""`ImageAugmentor`: chooses a transform at random; `PhotometricAugmentor`: changes pixel values."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from .._errors import FlowDefinitionError
from ._image_checks import Array, check_finite, check_image
from ._transform import PhotometricTransform, Transform, TransformFactory

__all__ = ["ImageAugmentor", "PhotometricAugmentor", "active_rng", "drawing_from"]

_ACTIVE: ContextVar[np.random.RandomState | None] = ContextVar("towerpack_augment_rng", default=None)


@contextmanager
def drawing_from(rng: np.random.Generator | np.random.RandomState) -> Iterator[np.random.RandomState]:
    """Sets `self.rng` of all augmentors, in this thread and in this block.

    The flows of this package do so for each datapoint. A custom function that calls augmentors uses it with
    the generator from `MapData(..., rng=True)`; its results are then the same in any process.

    Args:
        rng: a generator, passed to augmentors as a `RandomState` over the same bits; or a `RandomState`.

    Example:
        >>> from towerpack_dataflow.augment import RandomCrop
        >>> def crop(seed):
        ...     with drawing_from(np.random.default_rng(seed)):
        ...         return RandomCrop(2).augment(np.arange(100, dtype=np.uint8).reshape(10, 10)).tolist()
        >>> crop(1) == crop(1)
        True
    """
    state = rng if isinstance(rng, np.random.RandomState) else np.random.RandomState(rng.bit_generator)
    token = _ACTIVE.set(state)
    try:
        yield state
    finally:
        _ACTIVE.reset(token)


def active_rng() -> np.random.RandomState | None:
    """Returns the random numbers set by `drawing_from` in this thread, or None."""
    return _ACTIVE.get()


class ImageAugmentor:
    """Chooses a transform for an image; subclass it with `get_transform`.

    All randomness is in `get_transform`, through `self.rng`. In a flow, that is a `RandomState` with the
    random numbers of the datapoint, from seed, epoch and index; elsewhere it belongs to the augmentor, unless
    `drawing_from` sets another.

    Images are uint8 from 0 to 255, or float32 or float64 from 0 to 255, of shape [height, width] or [height,
    width, 1, 3 or 4]. Augmentors that move pixels accept float images of other ranges; those that change
    values compute and clip from 0 to 255.

    Attributes:
        rng: a `numpy.random.RandomState`.
        opencv_images: as in `AugmentorList`, for `augment()`; a subclass may set it.
        read_only: whether the transforms never write to the image, so that flows need not copy it. It holds
            for the class that sets it, not for its subclasses.

    Example:
        >>> from towerpack_dataflow.augment import CropTransform
        >>> class LeftHalf(ImageAugmentor):
        ...     def get_transform(self, image):
        ...         return CropTransform(0, 0, image.shape[0], image.shape[1] // 2)
        >>> LeftHalf().augment(np.zeros((4, 6), np.uint8)).shape
        (4, 3)
    """

    opencv_images = False
    read_only = False
    _own_rng: tuple[int, np.random.RandomState] | None = None

    def __init__(self) -> None:
        """Creates an augmentor without attributes."""

    def _init(self, params: dict[str, Any] | None = None) -> None:
        """Sets attributes, from `locals()` of a constructor, or from a dict."""
        for name, value in (params or {}).items():
            if name != "self" and not name.startswith("_"):
                setattr(self, name, value)

    @property
    def rng(self) -> np.random.RandomState:
        """The current random numbers."""
        active = active_rng()
        if active is not None:
            return active
        own = self._own_rng
        if own is None or own[0] != os.getpid():  # a forked process must not repeat the numbers of its parent
            own = self._own_rng = (os.getpid(), np.random.RandomState())
        return own[1]

    @rng.setter
    def rng(self, rng: np.random.RandomState) -> None:
        self._own_rng = (os.getpid(), rng)

    def reset_state(self) -> None:
        """Drops the random numbers of this augmentor and its members. Flows do not need this call."""
        self._own_rng = None
        for each in self._members():
            each.reset_state()

    def _may_write(self) -> bool:
        """Tells whether a transform may write to the image: its class or a member's does not rule it out."""
        members = self._members()
        if members:
            return any(member._may_write() for member in members)
        return not vars(type(self)).get("read_only", False)

    def _members(self) -> Sequence[ImageAugmentor]:
        """Returns the augmentors applied by this one."""
        return ()

    def _rand_range(self, low: float = 1.0, high: float | None = None, size: Any = None) -> Any:
        """Returns uniform random numbers from `low` to `high`, or from 0 to `low` if only that is given."""
        return self.rng.uniform(0 if high is None else low, low if high is None else high, size)

    def get_transform(self, img: Array) -> Transform:
        """Returns the transform to apply, chosen randomly for this image.

        Raises:
            FlowDefinitionError: the subclass does not define it.
        """
        if not hasattr(self, "_augment"):
            raise FlowDefinitionError(f"{type(self).__name__} defines no get_transform(self, img)")
        warnings.warn(
            f"{type(self).__name__} defines _augment; define get_transform(self, img)",
            DeprecationWarning,
            stacklevel=2,
        )
        chosen = self._get_augment_params(img) if hasattr(self, "_get_augment_params") else None
        if isinstance(chosen, Transform):
            return chosen
        of_coords = getattr(self, "_augment_coords", lambda coords, _: coords)
        return TransformFactory(
            self,
            apply_image=lambda image: self._augment(image, chosen),
            apply_coords=lambda coords: of_coords(coords, chosen),
        )

    def augment(self, img: Array) -> Array:
        """Returns the image, changed by a transform chosen for it.

        Raises:
            ImageError: the augmentor rejects the image.
        """
        check_finite(self, check_image(self, img, self.opencv_images))
        return self.get_transform(img).apply_image(img)

    def __repr__(self) -> str:
        """Shows the arguments of the constructor that differ from the defaults."""
        shown = []
        for name, parameter in inspect.signature(type(self).__init__).parameters.items():
            value = vars(self).get(name, parameter.default)
            if name != "self" and repr(value) != repr(parameter.default):
                shown.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the random numbers; a copy draws different ones."""
        return {name: value for name, value in vars(self).items() if name != "_own_rng"}


class PhotometricAugmentor(ImageAugmentor):
    """Changes only pixel values; subclass it with `_augment(img, params)`.

    `_get_augment_params(img)` draws the parameters of `_augment`.

    Example:
        >>> class Dim(PhotometricAugmentor):
        ...     def _get_augment_params(self, img):
        ...         return self._rand_range(0.5, 0.5)
        ...     def _augment(self, img, factor):
        ...         return (img * factor).astype(img.dtype)
        >>> Dim().augment(np.full((1, 2), 100, np.uint8))
        array([[50, 50]], dtype=uint8)
    """

    def _get_augment_params(self, img: Array) -> Any:
        """Returns the random parameters."""
        return None

    def _augment(self, img: Array, params: Any) -> Array:
        """Returns the changed image, as another array."""
        raise FlowDefinitionError(f"{type(self).__name__} defines no _augment(self, img, params)")

    def get_transform(self, img: Array) -> Transform:
        """Returns the transform to apply, chosen randomly for this image."""
        params = self._get_augment_params(img)
        return PhotometricTransform(lambda image: self._augment(image, params), self)
