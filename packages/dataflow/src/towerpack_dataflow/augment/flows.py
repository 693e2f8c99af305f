"""Flows of images: read from files, augmented together with their annotations."""

from __future__ import annotations

import logging
import os
from collections.abc import Hashable, Sequence
from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError, ArgumentTypeError, ImageError
from ..flow import _flow_state
from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ..flow._trace import Origins
from ..operators._map_component import no_component
from ..operators._map_data import MapData
from ..sources._from_iterable import DataFromList
from ._augmentor import ImageAugmentor, drawing_from
from ._augmentor_list import AugmentorList, in_turn
from ._decode_image import read_image
from ._image_checks import (
    Array,
    check_boxes,
    check_coords,
    check_finite,
    check_image,
    check_unmasked,
    opencv,
    shape_pair,
    with_channels,
)

__all__ = [
    "AugmentImageComponent",
    "AugmentImageComponents",
    "AugmentImageCoordinates",
    "AugmentedDatapoint",
    "ImageFromFile",
    "Parts",
    "augmenting_flow",
    "before_and_after",
]

_log = logging.getLogger("towerpack_dataflow")


def augmenting_flow(flow: DataFlow, component: Hashable = None) -> AugmentImageComponents | None:
    """Returns the topmost flow of a tree that augments images.

    Args:
        flow: the root of the tree.
        component: position or key of an augmented image; any by default.
    """
    for _, each in _flow_state.walk(flow):
        if isinstance(each, AugmentImageComponents):
            images = each._func._parts.images  # type: ignore[attr-defined]
            if component is None or component in images:
                return each
    return None


def before_and_after(flow: AugmentImageComponents, component: Hashable = None) -> MapData:
    """Returns a flow of `[image, augmented image]`.

    Args:
        flow: the augmenting flow.
        component: position or key of the image; the first by default.
    """
    augment: Any = flow._func
    index = augment._parts.images[0] if component is None else component
    return MapData(flow.ds, _BeforeAndAfter(augment, index), rng=True, drops=flow._drops)


@final
class _BeforeAndAfter:
    def __init__(self, augment: Any, index: Any) -> None:
        self._augment, self._index = augment, index

    def __call__(self, datapoint: Any, rng: np.random.Generator) -> list[Any] | None:
        before = np.copy(datapoint[self._index])
        changed = self._augment(datapoint, rng)
        return None if changed is None else [before, changed[self._index]]


Augmentors = ImageAugmentor | Sequence[ImageAugmentor]


class AugmentImageComponents(MapData):
    """Augments components of each datapoint by the same transforms, chosen for the first image.

    The random numbers are those of the datapoint: from the seed, the epoch and the index, the same in any
    process.

    Args:
        ds: the flow below.
        augmentors: one augmentor, or a list applied in order.
        index: positions or keys of images in the form required by `ImageAugmentor`.
        coords_index: positions or keys of coordinates: float, shape [number, 2], rows of x and y.
        copy: whether images are copied if a custom augmentor may write to them, or if results would share
            their memory.
        catch_exceptions: whether datapoints that fail are dropped; the first nine and then each hundredth are
            logged.
        boxes_index: positions or keys of boxes inside the first image: float, shape [number, 4], rows of x0,
            y0, x1, y1; the results are clipped to the augmented image.
        masks_index: positions or keys of label maps; their values are not interpolated.
        opencv_images: as in `AugmentorList`; also those of a given list.

    Raises:
        ArgumentError: there is no image, or a component is named twice.
        ArgumentTypeError: an augmentor has another type, or a switch is not a boolean.
        ImageError: a component does not match its description; raised while iterating, with the component and
            the augmentor.

    Example:
        >>> import numpy as np
        >>> from towerpack_dataflow.augment import Flip
        >>> below = [[np.zeros((4, 6), np.uint8), np.array([[1.0, 2.0]])]]
        >>> flow = AugmentImageComponents(below, Flip(horiz=True, prob=1), index=(0,), coords_index=(1,))
        >>> next(iter(flow))[1]
        array([[5., 2.]])
    """

    def __init__(
        self,
        ds: Any,
        augmentors: Augmentors,
        index: Sequence[Hashable] = (0, 1),
        coords_index: Sequence[Hashable] = (),
        copy: bool = True,
        catch_exceptions: bool = False,
        *,
        boxes_index: Sequence[Hashable] = (),
        masks_index: Sequence[Hashable] = (),
        opencv_images: bool = False,
    ) -> None:
        """Checks and stores the arguments."""
        parts = Parts(index, coords_index, boxes_index, masks_index)
        drops = arguments.flag("catch_exceptions", catch_exceptions)
        opencv_images = arguments.flag("opencv_images", opencv_images)
        func = AugmentedDatapoint(augmentors, parts, arguments.flag("copy", copy), drops, opencv_images)
        super().__init__(ds, func, rng=True, drops=drops)

    @property
    def augs(self) -> AugmentorList:
        """The augmentors."""
        augmentors: AugmentorList = self._func.augmentors  # type: ignore[attr-defined]
        return augmentors

    def origins(self, epoch: Epoch, index: int) -> Origins:
        """Returns the datapoint of the same index in the flow below, and the augmentors as a note."""
        found = super().origins(epoch, index)
        return Origins(found, {**found.notes, "augmentors": repr(self.augs.augmentors)})


@final
class AugmentImageComponent(AugmentImageComponents):
    """Augments one image of each datapoint.

    Args:
        ds: the flow below.
        augmentors: one augmentor, or a list applied in order.
        index: position or key of the image.
        copy: as in `AugmentImageComponents`.
        catch_exceptions: as in `AugmentImageComponents`.
        opencv_images: as in `AugmentImageComponents`.

    Raises:
        ArgumentTypeError: an augmentor has another type, or a switch is not a boolean.
        ImageError: the component is not an image; raised while iterating.

    Example:
        >>> import numpy as np
        >>> from towerpack_dataflow.augment import CenterCrop
        >>> below = [[np.zeros((8, 8), np.uint8), 3]]
        >>> [image.shape for image, _ in AugmentImageComponent(below, [CenterCrop(4)])]
        [(4, 4)]
    """

    def __init__(
        self,
        ds: Any,
        augmentors: Augmentors,
        index: Hashable = 0,
        copy: bool = True,
        catch_exceptions: bool = False,
        *,
        opencv_images: bool = False,
    ) -> None:
        """Checks and stores the arguments."""
        super().__init__(ds, augmentors, (index,), (), copy, catch_exceptions, opencv_images=opencv_images)


@final
class AugmentImageCoordinates(AugmentImageComponents):
    """Augments one image of each datapoint, with its coordinates.

    Args:
        ds: the flow below.
        augmentors: one augmentor, or a list applied in order.
        img_index: position or key of the image.
        coords_index: position or key of the coordinates: float, shape [number, 2], rows of x and y.
        copy: as in `AugmentImageComponents`.
        catch_exceptions: as in `AugmentImageComponents`.
        opencv_images: as in `AugmentImageComponents`.

    Raises:
        ArgumentTypeError: an augmentor has another type, or a switch is not a boolean.
        ImageError: a component does not match its description; raised while iterating.

    Example:
        >>> import numpy as np
        >>> from towerpack_dataflow.augment import Flip
        >>> below = [[np.zeros((4, 6), np.uint8), np.array([[1.0, 2.0]])]]
        >>> next(iter(AugmentImageCoordinates(below, Flip(horiz=True, prob=1))))[1]
        array([[5., 2.]])
    """

    def __init__(
        self,
        ds: Any,
        augmentors: Augmentors,
        img_index: Hashable = 0,
        coords_index: Hashable = 1,
        copy: bool = True,
        catch_exceptions: bool = False,
        *,
        opencv_images: bool = False,
    ) -> None:
        """Checks and stores the arguments."""
        super().__init__(
            ds, augmentors, (img_index,), (coords_index,), copy, catch_exceptions, opencv_images=opencv_images
        )


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
        opencv_images: as in `AugmentorList`.
    """

    def __init__(
        self,
        augmentors: Augmentors,
        parts: Parts,
        copy: bool,
        catch_exceptions: bool,
        opencv_images: bool,
    ) -> None:
        """Stores the arguments."""
        if isinstance(augmentors, ImageAugmentor) and not isinstance(augmentors, AugmentorList):
            augmentors = [augmentors]
        self.augmentors = augmentors if isinstance(augmentors, AugmentorList) else AugmentorList(augmentors)
        self._opencv_images = opencv_images or self.augmentors.opencv_images
        self._parts, self._copy, self._catch = parts, copy, catch_exceptions
        self._writes = self.augmentors._may_write()
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
        transforms = in_turn(self.augmentors.augmentors, image, numbers, self._opencv_images)
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
        return check_finite(where, check_image(where, image, self._opencv_images))

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
            f"{image.shape[:2]}; received {what}"
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


class ImageFromFile(MapData):
    """Reads images as `[image]`, RGB or grey; addressable.

    Args:
        files: paths, or URLs that `storage.open_url` reads.
        channel: 3 for RGB, 1 for grey.
        resize: height and width of all images, one number or two; unchanged by default.
        shuffle: whether each epoch has a different order.
        reduce: 2, 4 or 8: divides height and width, as in `decode_image`.

    Raises:
        ArgumentError: `files` is empty, or another argument is invalid.
        FormatError: a file is not an image; raised while iterating.

    Example:
        >>> import tempfile
        >>> import cv2
        >>> import numpy as np
        >>> path = tempfile.mkdtemp() + "/black.png"
        >>> _ = cv2.imwrite(path, np.zeros((4, 6, 3), np.uint8))
        >>> [image.shape for (image,) in ImageFromFile([path], channel=1, resize=8)]
        [(8, 8, 1)]
    """

    def __init__(
        self,
        files: Sequence[str | os.PathLike[str]],
        channel: int = 3,
        resize: int | tuple[int, int] | None = None,
        shuffle: bool = False,
        reduce: int = 1,
    ) -> None:
        """Stores the names; opens nothing."""
        if isinstance(files, (str, os.PathLike)) or not len(files):
            raise ArgumentError(f"files is a list of at least one file; received {files!r}")
        shape = None if resize is None else shape_pair("resize", resize)
        if channel not in {1, 3} or reduce not in {1, 2, 4, 8}:
            raise ArgumentError(
                f"channel is 1 or 3 and reduce is 1, 2, 4 or 8; received channel={channel!r}, "
                f"reduce={reduce!r}"
            )
        super().__init__(
            DataFromList([os.fspath(file) for file in files], shuffle), _Read(channel, shape, reduce)
        )


@final
class _Read:
    """Reads one file."""

    def __init__(self, channel: int, shape: tuple[int, int] | None, reduce: int) -> None:
        self._channel, self._shape, self._reduce = channel, shape, reduce

    def __call__(self, file: str) -> list[Any]:
        image = read_image(file, self._channel, self._reduce)
        if self._shape is not None:
            resized = opencv().resize(image, self._shape[::-1], interpolation=opencv().INTER_LINEAR)
            image = with_channels(np.asarray(resized), image)
        return [image]
