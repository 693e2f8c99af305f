"""The variables of a layer, as an attribute of its output tensor."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, final

import tensorflow.compat.v1 as tf

__all__ = ["VariableHolder", "attach_variables", "copy_variables"]


@final
class VariableHolder(SimpleNamespace):
    """The variables of one layer by their short names: the attribute `variables` of the layer's output.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected
        >>> with tf.Graph().as_default():
        ...     out = FullyConnected("fc", tf.ones([2, 3]), 4)
        >>> out.variables.W.name, [v.name for v in out.variables.all()]
        ('fc/W:0', ['fc/W:0', 'fc/b:0'])
    """

    def all(self) -> list[Any]:
        """Returns the variables in the order of their creation."""
        return list(vars(self).values())

    @property
    def moving_mean(self) -> Any:
        """The variable `mean` of a normalization layer, by the name in `tf.layers` and Tensorpack."""
        return self.mean

    @property
    def moving_variance(self) -> Any:
        """The variable `variance` of a normalization layer, by the name in `tf.layers` and Tensorpack."""
        return self.variance


def attach_variables(tensor: tf.Tensor, **variables: Any) -> tf.Tensor:
    """Sets `tensor.variables` to a holder of the variables that are not `None`, and returns the tensor.

    Args:
        tensor: a layer's result.
        **variables: variables by short name, in the order of their creation.
    """
    tensor.variables = VariableHolder(**{key: value for key, value in variables.items() if value is not None})
    return tensor


def copy_variables(source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Attaches the holder of `source`, if any, to `target`, and returns `target`."""
    if hasattr(source, "variables"):
        target.variables = source.variables
    return target
