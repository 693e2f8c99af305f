"""Kernel, bias, activation and activity cost: the parts that `Conv2D` and `FullyConnected` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from ..registry import attach_variables
from ._layer_arguments import check_function, is_number

__all__ = ["KernelAndBias", "TensorFunction", "resolve_initializer"]

TensorFunction = Callable[[Any], Any]


def _is_function(instance: KernelAndBias, attribute: attrs.Attribute[Any], value: object) -> None:
    check_function(instance.call, attribute.name, value)


def _are_functions(
    instance: KernelAndBias, _attribute: attrs.Attribute[Any], value: tuple[object, object]
) -> None:
    for argument, function in zip(("kernel_regularizer", "bias_regularizer"), value):
        check_function(instance.call, argument, function)


@final
@attrs.frozen(eq=False)
class KernelAndBias:
    """What a layer makes `W` and `b` with, and applies to its output, checked before there is a variable.

    A variable that was made before an error is found could not be taken back.

    Args:
        call: the layer's label, for errors.
        shape: the kernel's shape; the last axis is that of the outputs.
        dtype: the dtype of both variables.
        use_bias: whether there is a `b`.
        initializers: of `W` and `b`, each an initializer, number or array; by default normal, not truncated,
            with variance 2 / fan-in, and zeros.
        regularizers: of `W` and `b`, each a function of the variable that returns a scalar cost, for the
            regularization losses.
        activation: function applied to the layer's result.
        activity_regularizer: function of the output that returns a scalar cost.

    Raises:
        TypeError: an initializer or a function is something else.
        ValueError: an array that initializes is of another shape.
    """

    call: str
    shape: Sequence[int]
    dtype: tf.DType
    use_bias: bool
    initializers: tuple[Any, Any]
    regularizers: tuple[TensorFunction | None, TensorFunction | None] = attrs.field(validator=_are_functions)
    activation: TensorFunction | None = attrs.field(validator=_is_function)
    activity_regularizer: TensorFunction | None = attrs.field(validator=_is_function)

    def make(self) -> tuple[Any, Any]:
        """Makes the variables of the layer being built: `W`, and `b` or `None`."""
        he = tf.variance_scaling_initializer(2.0, mode="fan_in", distribution="untruncated_normal")
        zeros, size = tf.zeros_initializer(), self.shape[-1:]
        initializers = (
            resolve_initializer(self.call, "kernel_initializer", self.initializers[0], he, self.shape),
            resolve_initializer(self.call, "bias_initializer", self.initializers[1], zeros, size),
        )
        kernel = tf.get_variable("W", self.shape, self.dtype, initializers[0], self.regularizers[0])
        if not self.use_bias:
            return kernel, None
        return kernel, tf.get_variable("b", size, self.dtype, initializers[1], self.regularizers[1])

    def finish(self, out: tf.Tensor, kernel: Any, bias: Any) -> tf.Tensor:
        """Applies the activation, collects the cost of the output, and attaches the variables to the output.

        Args:
            out: the layer's result before the activation.
            kernel: the variable `W`.
            bias: the variable `b`, or `None`.

        Returns:
            The layer's output, named `output`.
        """
        if self.activation is not None:
            out = self.activation(out)
        if self.activity_regularizer is not None:
            tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, self.activity_regularizer(out))
        return attach_variables(tf.identity(out, "output"), W=kernel, b=bias)


def resolve_initializer(call: str, argument: str, given: Any, default: Any, shape: Sequence[int]) -> Any:
    """Returns an initializer for `tf.get_variable`.

    Args:
        call: the layer's label, for errors.
        argument: the argument's name, for errors.
        given: the argument: `None`, an initializer, a number, or an array of the variable's shape.
        default: the initializer for `None`.
        shape: the variable's shape.

    Raises:
        TypeError: `given` is something else.
        ValueError: `given` is an array of another shape.
    """
    if given is None or callable(given):
        return default if given is None else given
    if not is_number(given) and not (hasattr(given, "tolist") and hasattr(given, "shape")):
        raise TypeError(
            f"{call}: {argument} must be an initializer such as tf.zeros_initializer(), a number or an "
            f"array, received {given!r}."
        )
    if not is_number(given) and list(given.shape) != list(shape):
        raise ValueError(
            f"{call}: {argument} must have the variable's shape {list(shape)}, received an array of shape "
            f"{list(given.shape)}."
        )
    return tf.constant_initializer(given)
