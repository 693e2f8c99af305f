"""Augments one datapoint: one choice of transforms for all related components."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from typing import Any, final

import numpy as np

from ..._errors import ArgumentError, ArgumentTypeError, ImageError
from ...operators._map_component import no_component
from .._augmentor import ImageAugmentor, drawing_from
from .._augmentor_list import AugmentorList, in_turn
from .._image_checks import Array, check_boxes, check_coords, check_finite, check_image, check_unmasked

__all__ = ["AugmentedDatapoint", "Parts"]

_ROOT = __name__.partition(".flows.")[0]
_WRITE_NOTHING = tuple(f"{_ROOT}.{folder}." for folder in ("crop", "geometric", "photometric", "policies"))

_log = logging.getLogger("towerpack_dataflow")


@final
class Parts:
    """The components of a datapoint that hold images and their annotations.

    Args:
        images: positions or keys; the transforms are chosen for the first.
        coords: positions or keys of coordinates, shape [number, 2].
        boxes: positions or keys of boxes, shape [number, 4].
        masks: positions or keys of label maps.

    Raises:
        ArgumentError: there is no image, or a component is named twice.
        ArgumentTypeError: an argument is not a tuple or list of keys.
    """

    def __init__(self, images: Any, coords: Any = (), boxes: Any = (), masks: Any = ()) -> None:
        """Stores the positions."""
        self.images, self.coords = _keys("index", images), _keys("coords_index", coords)
        self.boxes, self.masks = _keys("boxes_index", boxes), _keys("masks_index", masks)
        self.every = (*self.images, *self.coords, *self.boxes, *self.masks)
        if not self.images or len(set(self.every)) < len(self.every):
            raise ArgumentError(
                f"index names an image, and no component is named twice; received {list(self.every)}"
            )


@final
class AugmentedDatapoint:
    """Augments datapoints; a function for `MapData(..., rng=True)`.

    Args:
        augmentors: one augmentor, or a list.
        parts: the components.
        copy: whether augmentors may write to their arguments, and results share no memory with them.
        catch_exceptions: whether a datapoint that fails is dropped.
    """

    def __init__(
        self,
        augmentors: ImageAugmentor | Sequence[ImageAugmentor],
        parts: Parts,
        copy: bool,
        catch_exceptions: bool,
    ) -> None:
        """Stores the arguments."""
        if isinstance(augmentors, ImageAugmentor) and not isinstance(augmentors, AugmentorList):
            augmentors = [augmentors]
        self.augmentors = augmentors if isinstance(augmentors, AugmentorList) else AugmentorList(augmentors)
        self._parts, self._copy, self._catch = parts, copy, catch_exceptions
        self._writes = _may_write(self.augmentors)
        self._errors = 0
        self.__qualname__ = repr(self.augmentors)

    def __call__(self, datapoint: Any, rng: np.random.Generator) -> Any:
        """Returns the augmented datapoint; None for a dropped one."""
        try:
            return _replaced(datapoint, self._changed(datapoint, rng))
        except Exception:
            if not self._catch:
                raise
            self._errors += 1
            if self._errors < 10 or self._errors % 100 == 0:
                _log.exception("augmentation has failed %d times; the datapoint is dropped", self._errors)
            return None

    def _changed(self, datapoint: Any, rng: np.random.Generator) -> dict[Any, Any]:
        """Returns the changed components."""
        changed: dict[Any, Any] = {}
        try:
            with drawing_from(rng) as numbers:
                self._change(datapoint, numbers, changed)
        except ImageError as error:
            raise ImageError(f"component {self._parts.every[len(changed)]!r}: {error}") from error
        except Exception as error:
            error.add_note(f"while augmenting component {self._parts.every[len(changed)]!r}")
            raise
        return changed

    def _change(self, datapoint: Any, numbers: np.random.RandomState, changed: dict[Any, Any]) -> None:
        """Stores the changed components in `changed`, in the order of `Parts.every`."""
        parts = self._parts
        image = self._image(datapoint, parts.images[0])
        transforms = in_turn(self.augmentors.augmentors, image, numbers)
        result = changed[parts.images[0]] = self._apart(transforms.apply_image(image), image)
        for index in parts.images[1:]:
            also = self._image(datapoint, index)
            changed[index] = self._apart(transforms.apply_image(also), also)
        for index in parts.coords:
            coords = check_coords(self._part(datapoint, index))
            changed[index] = transforms.apply_coords(coords)
        for index in parts.boxes:
            boxes = check_boxes(self._part(datapoint, index), image)
            changed[index] = _inside(transforms.apply_boxes(boxes), result)
        for index in parts.masks:
            changed[index] = transforms.apply_mask(_check_mask(self._part(datapoint, index), image))

    def _image(self, datapoint: Any, index: Any) -> Array:
        where = self.augmentors.augmentors[0] if self.augmentors.augmentors else self.augmentors
        image = self._part(datapoint, index, self._writes)
        return check_finite(where, check_image(where, image))

    def _apart(self, result: Array, image: Array) -> Array:
        """Returns a result that shares no memory with the image, if copies are requested."""
        if self._copy and not self._writes and np.may_share_memory(result, image):
            return result.copy()
        return result

    def _part(self, datapoint: Any, index: Any, copy: bool = True) -> Any:
        try:
            part = datapoint[index]
        except (LookupError, TypeError) as error:
            raise no_component(datapoint, index, "index= is a position") from error
        return part.copy() if copy and self._copy and isinstance(part, np.ndarray) else part


def _may_write(augmentor: ImageAugmentor) -> bool:
    """Tells whether transforms of an augmentor may write to their argument; those of this package do not."""
    members = augmentor._members()
    if members:
        return any(map(_may_write, members))
    return not type(augmentor).__module__.startswith(_WRITE_NOTHING)


def _inside(boxes: Array, image: Array) -> Array:
    """Returns boxes clipped to an image."""
    height, width = image.shape[:2]
    most = np.array([width, height, width, height], np.float64)
    return np.clip(boxes, 0, most).astype(boxes.dtype, copy=False)


def _check_mask(mask: Any, image: Array) -> Array:
    if not isinstance(mask, np.ndarray) or mask.dtype.kind not in "biu" or mask.shape[:2] != image.shape[:2]:
        what = f"{mask.dtype} of shape {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
        raise ImageError(
            "a mask is an array of integers or booleans with the image's height and width, "
            f"{image.shape[:2]}; "
            f"received {what}"
        )
    check_unmasked("a mask", mask)
    return mask


def _replaced(datapoint: Any, changed: dict[Any, Any]) -> Any:
    if not isinstance(datapoint, tuple):
        for index, value in changed.items():
            datapoint[index] = value  # the list or dict belongs to this pass: sources yield copies
        return datapoint
    members = list(datapoint)
    for index, value in changed.items():
        members[index] = value
    return type(datapoint)._make(members) if hasattr(datapoint, "_make") else tuple(members)


def _keys(name: str, value: Any) -> tuple[Hashable, ...]:
    if not isinstance(value, (tuple, list)) or not all(isinstance(key, Hashable) for key in value):
        raise ArgumentTypeError(f"{name} is a tuple of positions or keys; received {value!r}")
    return tuple(value)
