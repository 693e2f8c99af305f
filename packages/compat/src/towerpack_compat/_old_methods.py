"""The methods of Tensorpack's flows and augmentors that Towerpack's lack."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

import towerpack_dataflow
from towerpack_dataflow.augment import CropTransform, ImageAugmentor

__all__ = ["add_to_augmentors", "add_to_flows"]


@functools.cache
def add_to_flows() -> None:
    """Adds the methods `size` and `get_data` to `DataFlow`; a subclass may define them instead."""
    kind: Any = towerpack_dataflow.DataFlow

    def __init_subclass__(cls: Any, **arguments: Any) -> None:
        for old, new in (("get_data", "__iter__"), ("size", "__len__")):
            if old in vars(cls) and new not in vars(cls):
                setattr(cls, new, vars(cls)[old])
        super(kind, cls).__init_subclass__(**arguments)

    wrapped: Any = __init_subclass__
    kind.__init_subclass__ = classmethod(wrapped)
    kind.get_data = lambda self: iter(self)
    kind.size = lambda self: len(self)


@functools.cache
def add_to_augmentors() -> None:
    """Adds methods to augmentors for transforms as parameters, and Tensorpack's names to transforms.

    Random ranges are float32, so that the product with a float32 image keeps the dtype.
    """
    kind: Any = ImageAugmentor
    crop: Any = CropTransform
    crop.y0, crop.x0 = (property(operator.attrgetter(name)) for name in ("h0", "w0"))
    uniform = kind._rand_range
    kind._rand_range = lambda self, *bounds, **named: np.float32(uniform(self, *bounds, **named))

    def augment_return_params(self: Any, d: Any) -> tuple[Any, Any]:
        transform = self.get_transform(d)
        return transform.apply_image(d), transform

    kind.augment_return_params = augment_return_params
    kind.augment_with_params = lambda self, d, param: param.apply_image(d)
    kind.augment_coords = lambda self, coords, param: param.apply_coords(coords)
