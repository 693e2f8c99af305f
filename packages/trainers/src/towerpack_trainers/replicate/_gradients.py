"""Gradients of several towers brought together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import TowerRuleError

__all__ = ["average_gradients"]

_Pairs = Sequence[tuple[Any, tf.Variable]]


def average_gradients(towers: Sequence[_Pairs]) -> list[tuple[Any, tf.Variable]]:
    """Averages gradients over towers that share their variables.

    Args:
        towers: for each tower, pairs of gradient (dense or `tf.IndexedSlices`) and variable, in one order.

    Returns:
        One pair per variable.

    Raises:
        TowerRuleError: the towers do not train the same variables.
    """
    _check_same_variables(towers)
    return [(_average([gradient for gradient, _ in column]), column[0][1]) for column in zip(*towers)]


def _check_same_variables(towers: Sequence[_Pairs]) -> None:
    first = [variable.op.name for _, variable in towers[0]]
    for index, pairs in enumerate(towers):
        names = [variable.op.name for _, variable in pairs]
        if names != first:
            different = sorted(set(names) ^ set(first)) or names
            raise TowerRuleError(
                f"Tower {index} does not train the same variables as tower 0; they differ in: "
                f"{', '.join(different)}. A tower function must build the same replica each time."
            )


def _average(gradients: Sequence[Any]) -> Any:
    if all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients):
        # Rows that several towers touched are summed when they are applied.
        return tf.IndexedSlices(
            tf.concat([gradient.values for gradient in gradients], 0) / len(gradients),
            tf.concat([gradient.indices for gradient in gradients], 0),
            gradients[0].dense_shape,
        )
    return tf.add_n([tf.convert_to_tensor(gradient) for gradient in gradients]) / len(gradients)
