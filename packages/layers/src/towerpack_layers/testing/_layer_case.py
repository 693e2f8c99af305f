"""The description of a layer that all checks of layers start from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

__all__ = ["LayerCase"]

Arrays = Mapping[str, np.ndarray]


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
        shape: the shape of an input, batch first and channels last.
        dtype: the dtype of the input. Integers are drawn from 0 to 3.
        reference: the layer in NumPy: takes the input and the variables by name, all float64 (integers stay
            integers), and returns the output in training. `None` for a layer that draws random numbers.
        inputs: what the layer is called with, made of a tensor of this shape and dtype; it is also called on
            an array. By default the tensor.
        label: what to call this row where a layer has several.
        constants: what the layer's gradient takes as constant, made by NumPy of what `reference` takes; the
            reference finds it among its variables.
        any_batch: whether the options go with a batch of any size.
        tolerance: how far numbers may be from the reference, in ulp of the largest of them.
    """

    layer: Any
    options: Mapping[str, Any] = attrs.field(factory=dict)
    variables: tuple[str, ...] = ()
    shape: tuple[int, ...] = (4, 6, 8, 3)
    dtype: tf.DType = tf.float32
    reference: Callable[[np.ndarray, Arrays], Any] | None = None
    inputs: Callable[[Any], Any] = _itself
    label: str = ""
    constants: Callable[[np.ndarray, Arrays], Arrays] | None = None
    any_batch: bool = True
    tolerance: float = 32.0

    @property
    def name(self) -> str:
        """The layer's name, and the label."""
        return " ".join(filter(None, (self.layer.layer_name, self.label)))

    @property
    def has_data_format(self) -> bool:
        """Whether the layer takes images of either data format."""
        return "data_format" in inspect.signature(self.layer).parameters

    def build(self, x: Any, **more: Any) -> Any:
        """Builds the layer, of the name `layer`, over a tensor of the described shape and dtype.

        Args:
            x: the tensor, which `inputs` is applied to.
            **more: arguments besides `options`, or instead of some of them.
        """
        return self.layer("layer", self.inputs(x), **{**self.options, **more})

    def draw_input(self) -> np.ndarray:
        """Draws an input, always the same one."""
        random = np.random.default_rng(16)
        if self.dtype.is_integer:
            return random.integers(0, 4, self.shape).astype(self.dtype.as_numpy_dtype)
        return random.normal(size=self.shape).astype(self.dtype.as_numpy_dtype)
