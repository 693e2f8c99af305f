"""The average of the gradients of several towers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from ..towers._builder import check_same_variables
from ..towers._cost_gradients import Pairs

__all__ = ["average", "average_gradients"]


def average_gradients(towers: Sequence[Pairs]) -> list[tuple[Any, tf.Variable]]:
    """Averages gradients over towers that share their variables, each on the device of its variable.

    Args:
        towers: for each tower, pairs of gradient (dense or `tf.IndexedSlices`) and variable, in the same
            order.

    Returns:
        One pair per variable.

    Raises:
        TowerRuleError: the towers do not train the same variables.
    """
    check_same_variables([[variable.op.name for _, variable in pairs] for pairs in towers])
    pairs = []
    for column in zip(*towers):
        variable = column[0][1]
        with tf.device(variable.device):
            pairs.append((average([gradient for gradient, _ in column]), variable))
    return pairs


def average(gradients: Sequence[Any]) -> Any:
    """Averages one gradient over towers; the average is sparse if the gradient is sparse in all towers."""
    if len(gradients) == 1:
        return gradients[0]
    if all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients):
        # Rows that several towers touched are summed when they are applied.
        return tf.IndexedSlices(
            tf.concat([gradient.values for gradient in gradients], 0) / len(gradients),
            tf.concat([gradient.indices for gradient in gradients], 0),
            gradients[0].dense_shape,
        )
    return tf.add_n([tf.convert_to_tensor(gradient) for gradient in gradients]) / len(gradients)
