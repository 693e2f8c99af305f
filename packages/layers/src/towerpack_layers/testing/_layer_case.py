"""The description of a layer that all checks of layers start from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

__all__ = ["LayerCase"]


def _itself(x: Any) -> Any:
    return x


@final
@attrs.frozen(eq=False)
class LayerCase:
    """A layer, how to call it, and what is known of it.

    Args:
        layer: the layer, made by `register_layer`.
        options: the arguments to call it with, besides name and input.
        variables: the names of the variables that it makes, in order, relative to its scope.
        shape: the shape of an input, batch first.
        dtype: the dtype of the input.
        reference: the layer in NumPy: takes the input and the variables by name, all float64 (integers stay
            integers), and returns the output in training. `None` for a layer that draws random numbers.
        inputs: what the layer is called with, made of a tensor of this shape and dtype; it is also called on
            an array. By default the tensor.
        label: what to call this row where a layer has several.
    """

    layer: Any
    options: Mapping[str, Any] = attrs.field(factory=dict)
    variables: tuple[str, ...] = ()
    shape: tuple[int, ...] = (4, 6, 8, 3)
    dtype: tf.DType = tf.float32
    reference: Callable[[np.ndarray, Mapping[str, np.ndarray]], np.ndarray] | None = None
    inputs: Callable[[Any], Any] = _itself
    label: str = ""

    @property
    def name(self) -> str:
        """The layer's name, and the label."""
        return " ".join(filter(None, (self.layer.layer_name, self.label)))

    @property
    def has_data_format(self) -> bool:
        """Whether the layer takes images of either data format."""
        return "data_format" in inspect.signature(self.layer).parameters
