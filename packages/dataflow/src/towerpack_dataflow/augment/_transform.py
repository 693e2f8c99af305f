"""`Transform`: a deterministic change of an image and its annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, final

import numpy as np

from .._errors import ArgumentError, ArgumentTypeError, UnsupportedTransformError
from ._image_checks import Array

__all__ = ["NoOpTransform", "PhotometricTransform", "Transform", "TransformFactory", "TransformList"]


class Transform:
    """Changes images, coordinates, boxes and masks deterministically; subclasses define `apply_image`.

    Coordinates are in pixels from the top left corner of the image, so that the centre of the first pixel is
    (0.5, 0.5). Nothing is changed in place. A result may be a view of the argument.

    Example:
        >>> class Invert(Transform):
        ...     def apply_image(self, img):
        ...         return 255 - img
        ...
        ...     def apply_coords(self, coords):
        ...         return coords
        >>> Invert().apply_image(np.array([[0, 100]], np.uint8))
        array([[255, 155]], dtype=uint8)
    """

    def _init(self, params: dict[str, Any] | None = None) -> None:
        """Sets attributes, as in `ImageAugmentor._init`."""
        for name, value in (params or {}).items():
            if name != "self" and not name.startswith("_"):
                setattr(self, name, value)

    def apply_image(self, img: Array) -> Array:
        """Returns the changed image.

        Args:
            img: uint8 or float, shape [height, width] or [height, width, channels].

        Raises:
            UnsupportedTransformError: the subclass does not define it.
        """
        raise _unsupported(self, "apply_image")

    def apply_coords(self, coords: Array) -> Array:
        """Returns the positions of points in the changed image.

        Args:
            coords: float, shape [number, 2], rows of x and y.

        Raises:
            UnsupportedTransformError: the subclass does not define it.
        """
        raise _unsupported(self, "apply_coords")

    def apply_boxes(self, boxes: Array) -> Array:
        """Returns the smallest boxes around the changed corners of boxes; they may lie outside the image.

        Args:
            boxes: float, shape [number, 4], rows of x0, y0, x1, y1.

        Raises:
            UnsupportedTransformError: the subclass does not define `apply_coords`.
        """
        corners = self.apply_coords(boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 2)).reshape(-1, 4, 2)
        return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)

    def apply_mask(self, mask: Array) -> Array:
        """Returns the changed label map: values are moved, never mixed.

        Args:
            mask: integers or booleans, shape [height, width] or [height, width, channels].

        Raises:
            UnsupportedTransformError: the subclass does not define it.
        """
        raise _unsupported(self, "apply_mask")

    def __getattr__(self, name: str) -> Any:
        """Returns a method that raises for any other `apply_...`."""
        if not name.startswith("apply_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

        def refuse(*_: Any) -> Any:
            raise _unsupported(self, name)

        return refuse

    def __repr__(self) -> str:
        """Shows the arguments."""
        shown = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if not k.startswith("_"))
        return f"{type(self).__name__}({shown})"


@final
class NoOpTransform(Transform):
    """Changes nothing.

    Example:
        >>> NoOpTransform().apply_image(np.array([[1, 2]]))
        array([[1, 2]])
    """

    def __getattribute__(self, name: str) -> Any:
        """Returns the identity function for each `apply_...`."""
        return _same if name.startswith("apply_") else super().__getattribute__(name)


@final
class PhotometricTransform(Transform):
    """Changes only pixel values; coordinates, boxes and masks are unchanged.

    Args:
        func: a function of an image.
        name: a name or the augmentor, shown by `repr()`.

    Example:
        >>> invert = PhotometricTransform(lambda image: 255 - image, "invert")
        >>> invert.apply_image(np.array([[0, 100]])), invert.apply_coords(np.array([[1.0, 2.0]]))
        (array([[255, 155]]), array([[1., 2.]]))
    """

    def __init__(self, func: Callable[[Array], Array], name: object = None) -> None:
        """Stores the function."""
        self._func = func
        self.name = name

    def apply_image(self, img: Array) -> Array:
        """Returns the result of the function for the image."""
        return self._func(img)

    def apply_coords(self, coords: Array) -> Array:
        """Returns the coordinates unchanged."""
        return coords

    def apply_boxes(self, boxes: Array) -> Array:
        """Returns the boxes unchanged."""
        return boxes

    def apply_mask(self, mask: Array) -> Array:
        """Returns the mask unchanged."""
        return mask


@final
class TransformFactory(Transform):
    """A transform built from functions.

    Args:
        name: a name or the augmentor, shown by `repr()`.
        functions: `apply_image=...`, `apply_coords=...`, or any other `apply_...=`.

    Raises:
        ArgumentError: a function has another name.

    Example:
        >>> TransformFactory(apply_image=lambda image: image + 1).apply_image(np.zeros(2))
        array([1., 1.])
    """

    def __init__(self, name: object = None, **functions: Callable[..., Any]) -> None:
        """Stores the functions as methods."""
        for method, function in functions.items():
            if not method.startswith("apply_") or not callable(function):
                raise ArgumentError(
                    f"TransformFactory takes functions apply_...=; received {method}={function!r}"
                )
        vars(self).update(functions)
        self.name = name

    def __repr__(self) -> str:
        """Shows the name."""
        return f"TransformFactory(name={self.name!r})"


@final
class TransformList(Transform):
    """A sequence of transforms; `+` joins lists.

    Args:
        tfms: the transforms, in order.

    Raises:
        ArgumentTypeError: a member is not a `Transform`.

    Example:
        >>> from towerpack_dataflow.augment import CropTransform, FlipTransform
        >>> both = TransformList([CropTransform(0, 0, 1, 2), FlipTransform(1, 2)])
        >>> both.apply_image(np.array([[1, 2, 3]], np.uint8))
        array([[2, 1]], dtype=uint8)
    """

    def __init__(self, tfms: Iterable[Transform]) -> None:
        """Stores the transforms."""
        self.tfms = list(tfms)
        for transform in self.tfms:
            if not isinstance(transform, Transform):
                raise ArgumentTypeError(f"TransformList takes transforms; received {transform!r}")

    def apply_image(self, img: Array) -> Array:
        """Returns the image, changed by all transforms."""
        return np.asarray(self._apply("apply_image", img))

    def apply_coords(self, coords: Array) -> Array:
        """Returns the coordinates, changed by all transforms."""
        return np.asarray(self._apply("apply_coords", coords))

    def apply_boxes(self, boxes: Array) -> Array:
        """Returns the boxes, changed by all transforms."""
        return np.asarray(self._apply("apply_boxes", boxes))

    def apply_mask(self, mask: Array) -> Array:
        """Returns the mask, changed by all transforms."""
        return np.asarray(self._apply("apply_mask", mask))

    def __getattr__(self, name: str) -> Any:
        """Returns any other `apply_...` of all transforms."""
        if not name.startswith("apply_"):
            raise AttributeError(f"TransformList has no attribute {name!r}")
        return lambda value: self._apply(name, value)

    def __add__(self, other: Transform) -> TransformList:
        """Returns these transforms followed by another transform or list."""
        return TransformList([*self.tfms, *(other.tfms if isinstance(other, TransformList) else [other])])

    def __len__(self) -> int:
        """Returns the number of transforms."""
        return len(self.tfms)

    def __getitem__(self, index: int) -> Transform:
        """Returns one transform."""
        return self.tfms[index]

    def _apply(self, method: str, value: Any) -> Any:
        for transform in self.tfms:
            value = getattr(transform, method)(value)
        return value


def _same(value: Any) -> Any:
    return value


def _unsupported(transform: Transform, method: str) -> UnsupportedTransformError:
    return UnsupportedTransformError(
        f"{transform!r} has no {method}: define it in the transform, or remove the augmentor where "
        "this is needed"
    )
