"""The images of a flow before and after augmentation."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, final

import numpy as np

from ...flow import _flow_state
from ...flow._flow import DataFlow
from ...operators._map_data import MapData
from ._augment_components import AugmentImageComponents

__all__ = ["augmenting_flow", "before_and_after"]


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
    return MapData(flow.ds, _Both(augment, index), rng=True, drops=flow._drops)


@final
class _Both:
    def __init__(self, augment: Any, index: Any) -> None:
        self._augment, self._index = augment, index

    def __call__(self, datapoint: Any, rng: np.random.Generator) -> list[Any] | None:
        before = np.copy(datapoint[self._index])
        changed = self._augment(datapoint, rng)
        return None if changed is None else [before, changed[self._index]]
