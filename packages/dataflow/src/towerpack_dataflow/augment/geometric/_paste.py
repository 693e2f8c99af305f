"""Images pasted onto a larger background."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np

from ..._errors import ImageError
from .._augmentor import ImageAugmentor
from .._image_checks import Array, check_fill, shape_pair
from .._transform import Transform

__all__ = ["BackgroundFiller", "CenterPaste", "ConstantBackgroundFiller", "RandomPaste"]


class BackgroundFiller(ABC):
    """Makes backgrounds; subclass it with `_fill`.

    Example:
        >>> class Noise(BackgroundFiller):
        ...     def _fill(self, background_shape, img):
        ...         return np.random.default_rng(0).integers(0, 256, background_shape).astype(img.dtype)
        >>> CenterPaste((4, 4), Noise()).augment(np.zeros((2, 2), np.uint8)).shape
        (4, 4)
    """

    def fill(self, background_shape: tuple[int, int], img: Array) -> Array:
        """Returns a background for an image, with the image's channels and dtype.

        Args:
            background_shape: height and width.
            img: the image to paste.
        """
        return self._fill((background_shape[0], background_shape[1]), img)

    @abstractmethod
    def _fill(self, background_shape: tuple[int, int], img: Array) -> Array:
        """Returns a new background."""


@final
class ConstantBackgroundFiller(BackgroundFiller):
    """Makes backgrounds of one value.

    Args:
        value: from 0 to 255, or one per channel.

    Example:
        >>> CenterPaste((1, 3), ConstantBackgroundFiller(9)).augment(np.array([[7]], np.uint8))
        array([[9, 7, 9]], dtype=uint8)
    """

    def __init__(self, value: Any) -> None:
        """Stores the value."""
        self.value = value

    def _fill(self, background_shape: tuple[int, int], img: Array) -> Array:
        check_fill(self, "value", self.value, img)
        return np.full((*background_shape, *img.shape[2:]), self.value, img.dtype)

    def __repr__(self) -> str:
        """Shows the value."""
        return f"ConstantBackgroundFiller({self.value!r})"


class _Paste(ImageAugmentor):
    """Pastes the image onto a background; subclasses choose the position in rows and columns."""

    def __init__(
        self, background_shape: int | tuple[int, int], background_filler: BackgroundFiller | None = None
    ) -> None:
        """Stores the shape."""
        self.background_shape = shape_pair("background_shape", background_shape)
        self.background_filler = background_filler or ConstantBackgroundFiller(0)

    def get_transform(self, img: Array) -> Transform:
        """Returns the paste.

        Raises:
            ImageError: the image is larger than the background.
        """
        top, left = map(self._begin, _spare(self, img, self.background_shape))
        return _PasteTransform(top, left, self.background_shape, self.background_filler)

    def _begin(self, spare: int) -> int:
        """Returns the number of the spare pixels before the image."""
        raise NotImplementedError


@final
class CenterPaste(_Paste):
    """Pastes the image at the centre of a background.

    Args:
        background_shape: height and width of the result; one number, or two.
        background_filler: makes the background; zeros by default.

    Raises:
        ArgumentError: `background_shape` has another form.

    Example:
        >>> CenterPaste((3, 3)).augment(np.array([[7]], np.uint8))
        array([[0, 0, 0],
               [0, 7, 0],
               [0, 0, 0]], dtype=uint8)
    """

    read_only = True

    def _begin(self, spare: int) -> int:
        return spare // 2


@final
class RandomPaste(_Paste):
    """Pastes the image at a random position of a background.

    Args:
        background_shape: height and width of the result; one number, or two.
        background_filler: makes the background; zeros by default.

    Raises:
        ArgumentError: `background_shape` has another form.

    Example:
        >>> pasted = RandomPaste((4, 4)).augment(np.full((2, 2), 7, np.uint8))
        >>> pasted.shape, int((pasted == 7).sum())
        ((4, 4), 4)
    """

    read_only = True

    def _begin(self, spare: int) -> int:
        return int(self.rng.randint(spare + 1))


@final
class _PasteTransform(Transform):
    """Pastes images onto a background."""

    def __init__(self, top: int, left: int, shape: tuple[int, int], filler: BackgroundFiller) -> None:
        self.top, self.left, self.shape, self.filler = top, left, shape, filler

    def apply_image(self, img: Array) -> Array:
        """Returns the background with the image on it."""
        return self._onto(self.filler.fill(self.shape, img), img)

    def apply_coords(self, coords: Array) -> Array:
        """Returns the shifted coordinates."""
        shifted = coords + np.array([self.left, self.top], np.float64)
        return shifted.astype(coords.dtype, copy=False)

    def apply_mask(self, mask: Array) -> Array:
        """Returns the mask, with 0 around it."""
        return self._onto(np.zeros((*self.shape, *mask.shape[2:]), mask.dtype), mask)

    def _onto(self, background: Array, img: Array) -> Array:
        background[self.top : self.top + img.shape[0], self.left : self.left + img.shape[1]] = img
        return background


def _spare(where: ImageAugmentor, img: Array, shape: tuple[int, int]) -> tuple[int, int]:
    spare = shape[0] - img.shape[0], shape[1] - img.shape[1]
    if min(spare) < 0:
        raise ImageError(
            f"{where!r}: the image has shape {img.shape} and is larger than the background {shape}"
        )
    return spare
