"""Kernel, bias, activation and activity cost: the shared parts of layers with a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from ..registry import attach_variables
from ._layer_arguments import check_function, is_number

__all__ = ["KernelAndBias", "TensorFunction", "resolve_initializer"]

TensorFunction = Callable[[Any], Any]

# The activations that TensorFlow fuses with a convolution.
_ELEMENTWISE = (tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.leaky_relu, tf.nn.sigmoid, tf.nn.tanh)


def _is_function(instance: KernelAndBias, attribute: attrs.Attribute[Any], value: object) -> None:
    check_function(instance.call, attribute.name, value)


def _are_functions(
    instance: KernelAndBias, _attribute: attrs.Attribute[Any], value: tuple[object, object]
) -> None:
    for argument, function in zip((instance.argument, "bias"), value):
        check_function(instance.call, f"{argument}_regularizer", function)


@final
@attrs.frozen(eq=False)
class KernelAndBias:
    """Variables and output functions of a layer, checked before any variable is created.

    A graph cannot remove a variable that was created before an error.

    Args:
        call: the layer's label, for errors.
        shape: the kernel's shape.
        dtype: the dtype of both variables.
        use_bias: whether to create `b`.
        initializers: for kernel and bias, each an initializer, number or array; by default an untruncated
            normal distribution with variance 2 / fan-in, and zeros.
        regularizers: for kernel and bias, each a function of the variable that returns a scalar cost, for the
            regularization losses.
        activation: function applied to the layer's result.
        activity_regularizer: function of the output that returns a scalar cost.
        name: the kernel's name.
        argument: the prefix of the kernel's arguments, for errors.
        outputs: the size of the bias; by default the size of the kernel's last axis.
        fan_in: the number of inputs per output; by default the product of all kernel sizes except the last.

    Raises:
        TypeError: an initializer or a function has another type.
        ValueError: an initial array has another shape.
    """

    call: str
    shape: Sequence[int]
    dtype: tf.DType
    use_bias: bool
    initializers: tuple[Any, Any]
    regularizers: tuple[TensorFunction | None, TensorFunction | None] = attrs.field(validator=_are_functions)
    activation: TensorFunction | None = attrs.field(validator=_is_function)
    activity_regularizer: TensorFunction | None = attrs.field(validator=_is_function)
    name: str = "W"
    argument: str = "kernel"
    outputs: int | None = None
    fan_in: int | None = None
    _resolved: tuple[Any, Any] = attrs.field(init=False)

    @_resolved.default
    def _resolve(self) -> tuple[Any, Any]:
        call, (kernel, bias), zeros = self.call, self.initializers, tf.zeros_initializer()
        fan_in = self.fan_in or math.prod(self.shape[:-1])
        he = tf.random_normal_initializer(stddev=math.sqrt(2 / max(fan_in, 1)))
        return (
            resolve_initializer(call, f"{self.argument}_initializer", kernel, he, self.shape),
            resolve_initializer(call, "bias_initializer", bias, zeros, [self._bias_size]),
        )

    @property
    def _bias_size(self) -> int:
        return self.outputs or self.shape[-1]

    def make(self) -> tuple[Any, Any]:
        """Creates the variables of the current layer: the kernel, and `b` or `None`."""
        initializers, regularizers = self._resolved, self.regularizers
        kernel = tf.get_variable(self.name, self.shape, self.dtype, initializers[0], regularizers[0])
        if not self.use_bias:
            return kernel, None
        size = [self._bias_size]
        return kernel, tf.get_variable("b", size, self.dtype, initializers[1], regularizers[1])

    def take_elementwise(self) -> tuple[TensorFunction | None, KernelAndBias]:
        """Separates the activation from these parts, if it is known to be elementwise.

        An elementwise activation may be applied before part of the result is cut off.
        """
        if self.activation not in _ELEMENTWISE:
            return None, self
        return self.activation, attrs.evolve(self, activation=None)

    def finish(self, out: tf.Tensor, kernel: Any, bias: Any) -> tf.Tensor:
        """Applies the activation, collects the cost of the output, and attaches the variables to the output.

        Args:
            out: the layer's result before the activation.
            kernel: the kernel's variable.
            bias: the variable `b`, or `None`.

        Returns:
            The layer's output, named `output`.
        """
        if self.activation is not None:
            out = self.activation(out)
        if self.activity_regularizer is not None:
            tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, self.activity_regularizer(out))
        return attach_variables(tf.identity(out, "output"), **{self.name: kernel}, b=bias)


def resolve_initializer(call: str, argument: str, given: Any, default: Any, shape: Sequence[int]) -> Any:
    """Returns an initializer for `tf.get_variable`.

    Args:
        call: the layer's label, for errors.
        argument: the argument's name, for errors.
        given: the argument: `None`, an initializer, a number, or an array of the variable's shape.
        default: the initializer for `None`.
        shape: the variable's shape.

    Raises:
        TypeError: `given` has another type.
        ValueError: `given` is an array with another shape.
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
