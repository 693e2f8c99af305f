"""The description of a layer for all checks."""

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
    """A layer, the arguments of its call, and its expected behaviour.

    Args:
        layer: the layer, made by `register_layer`.
        options: the arguments of the call, besides name and input.
        variables: the names of its variables, in order of creation, relative to its scope.
        shape: the shape of an input, batch first and channels last.
        dtype: the dtype of the input. Integers are drawn from 0 to 3.
        reference: the layer in NumPy: takes the input and the variables by name, all float64 (integers are
            not converted), and returns the output in training. `None` for a layer with random numbers.
        inputs: a function that makes the layer's input from a tensor of this shape and dtype, or from an
            array. By default the tensor itself.
        label: a name for this row if a layer has several.
        constants: a NumPy function of the arguments of `reference` that returns the constants of the layer's
            gradient; the reference receives them among its variables.
        any_batch: whether the options work with any batch size.
        tolerance: the maximum distance from the reference, in ulp of the largest number.
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
        """The layer's name and the label."""
        return " ".join(filter(None, (self.layer.layer_name, self.label)))

    @property
    def has_data_format(self) -> bool:
        """Whether the layer supports images of both data formats."""
        return "data_format" in inspect.signature(self.layer).parameters

    def build(self, x: Any, **more: Any) -> Any:
        """Builds the layer with the name `layer` on a tensor of the described shape and dtype.

        Args:
            x: the tensor, to which `inputs` is applied.
            **more: arguments that extend or override `options`.
        """
        return self.layer("layer", self.inputs(x), **{**self.options, **more})

    def draw_input(self) -> np.ndarray:
        """Draws an input, the same one at each call."""
        random = np.random.default_rng(16)
        if self.dtype.is_integer:
            return random.integers(0, 4, self.shape).astype(self.dtype.as_numpy_dtype)
        return random.normal(size=self.shape).astype(self.dtype.as_numpy_dtype)
