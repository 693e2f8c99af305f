"""Flows that augment one image of each datapoint together with its annotations."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, final

import numpy as np

from ... import _argument_checks as arguments
from ...flow import _flow_state
from ...flow._epoch import Epoch
from ...flow._flow import DataFlow
from ...flow.provenance import Origins
from ...operators._map_data import MapData
from .._augmentor import ImageAugmentor
from .._augmentor_list import AugmentorList
from ._augmented_datapoint import AugmentedDatapoint, Parts

__all__ = [
    "AugmentImageComponent",
    "AugmentImageComponents",
    "AugmentImageCoordinates",
    "augmenting_flow",
    "before_and_after",
]


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
    ) -> None:
        """Checks and stores the arguments."""
        parts = Parts(index, coords_index, boxes_index, masks_index)
        drops = arguments.flag("catch_exceptions", catch_exceptions)
        func = AugmentedDatapoint(augmentors, parts, arguments.flag("copy", copy), drops)
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
    ) -> None:
        """Checks and stores the arguments."""
        super().__init__(ds, augmentors, (index,), (), copy, catch_exceptions)


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

    Raises:
        ArgumentTypeError: an augmentor has another type, or a switch is not a boolean.
        ImageError: a component does not match its description; raised while iterating.
    """

    def __init__(
        self,
        ds: Any,
        augmentors: Augmentors,
        img_index: Hashable = 0,
        coords_index: Hashable = 1,
        copy: bool = True,
        catch_exceptions: bool = False,
    ) -> None:
        """Checks and stores the arguments."""
        super().__init__(ds, augmentors, (img_index,), (coords_index,), copy, catch_exceptions)
