"""The variables of a layer, at hand on the tensor it returns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tensorflow.compat.v1 as tf


class VariableHolder(SimpleNamespace):
    """The variables of one layer by their short names, as the attribute ``variables`` of the tensor it
    returns.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected
        >>> with tf.Graph().as_default():
        ...     out = FullyConnected("fc", tf.ones([2, 3]), 4)
        >>> out.variables.W.name, [v.name for v in out.variables.all()]
        ('fc/W:0', ['fc/W:0', 'fc/b:0'])
    """

    def all(self) -> list[Any]:
        """Return the variables in the order the layer made them."""
        return list(vars(self).values())


def attach_variables(tensor: tf.Tensor, **variables: Any) -> tf.Tensor:
    """Set ``tensor.variables`` to a holder of those variables that are not ``None``, and return the tensor.

    Args:
        tensor: a layer's result.
        **variables: variables by short name, in the order they were made.
    """
    tensor.variables = VariableHolder(**{key: value for key, value in variables.items() if value is not None})
    return tensor


def carry_variables(source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Attach to ``target`` what is attached to ``source``, and return ``target``."""
    if hasattr(source, "variables"):
        target.variables = source.variables
    return target
