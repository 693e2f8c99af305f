"""Costs of large weights."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import is_number
from ..registry import check_graph_mode
from ..tower import get_current_tower_context, graph_notes

__all__ = ["l1_regularizer", "l2_regularizer", "regularize_cost", "regularize_cost_from_collection"]

_log = logging.getLogger("towerpack_layers")


def regularize_cost(regex: str, func: Callable[[Any], Any], name: str = "regularize_cost") -> tf.Tensor:
    """Returns the sum of `func` over the trainable variables with matching names, as a term of the cost.

    Outside training (in an inference tower) the cost is 0. A tower with separate variables counts only those,
    and matches their names without the tower's prefix. The matches are logged once per graph.

    Args:
        regex: regular expression, searched for in names like `conv0/W`; `^` and `$` anchor it.
        func: a function of a variable that returns a scalar, such as `l2_regularizer(1e-4)`.
        name: name of the result.

    Returns:
        Scalar float32 tensor.

    Raises:
        GraphRequiredError: TensorFlow is in eager mode.
        ValueError: `regex` is not a regular expression.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, l2_regularizer, regularize_cost
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     out = FullyConnected("fc", tf.ones([1, 2]), 3, kernel_initializer=tf.ones_initializer())
        ...     cost = regularize_cost("fc.*/W", l2_regularizer(1.0))
        ...     session.run(tf.global_variables_initializer())
        ...     print(session.run(cost))
        3.0
    """
    pattern = _compile(regex)
    check_graph_mode("regularize_cost")
    if not _in_training():
        return tf.zeros([], name=name)
    found = {short: variable for short, variable in _trainable_variables() if pattern.search(short)}
    _report(regex, list(found))
    with tf.name_scope(f"{name}_terms"):
        costs = [func(variable) for variable in found.values()]
    return _total(costs, name)


def regularize_cost_from_collection(name: str = "regularize_cost") -> tf.Tensor:
    """Returns the sum of the costs of layers' `kernel_regularizer` and similar arguments.

    They are the costs in `tf.GraphKeys.REGULARIZATION_LOSSES`, without those of other towers: a tower that
    shares its variables counts the costs of the shared variables, from `tf.get_variable(regularizer=...)`,
    and the costs added since it was entered, such as that of an `activity_regularizer`. A tower with separate
    variables counts only the latter. Outside training the sum is 0.

    Args:
        name: name of the result.

    Returns:
        Scalar float32 tensor.

    Raises:
        GraphRequiredError: TensorFlow executes eagerly.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, l1_regularizer, regularize_cost_from_collection
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     out = FullyConnected("fc", tf.ones([1, 2]), 3, kernel_regularizer=l1_regularizer(1.0),
        ...                          kernel_initializer=tf.ones_initializer())
        ...     cost = regularize_cost_from_collection()
        ...     session.run(tf.global_variables_initializer())
        ...     print(session.run(cost))
        6.0
    """
    check_graph_mode("regularize_cost_from_collection")
    if not _in_training():
        return tf.zeros([], name=name)
    return _total(_costs_of_this_tower(), name)


def l2_regularizer(scale: float) -> Callable[[Any], Any]:
    """Returns the function `w -> scale * sum(w ** 2) / 2`.

    Args:
        scale: weight of the cost, not negative.

    Raises:
        ValueError: `scale` is negative or no number.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import l2_regularizer
        >>> print(l2_regularizer(0.5)(tf.constant([2.0, 2.0])).numpy())
        2.0
    """
    _check_scale("l2_regularizer", scale)
    return lambda weights: tf.multiply(tf.nn.l2_loss(weights), scale, name="l2_regularizer")


def l1_regularizer(scale: float) -> Callable[[Any], Any]:
    """Returns the function `w -> scale * sum(|w|)`.

    Args:
        scale: weight of the cost, not negative.

    Raises:
        ValueError: `scale` is negative or no number.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import l1_regularizer
        >>> print(l1_regularizer(0.5)(tf.constant([2.0, -2.0])).numpy())
        2.0
    """
    _check_scale("l1_regularizer", scale)
    return lambda weights: tf.multiply(tf.reduce_sum(tf.abs(weights)), scale, name="l1_regularizer")


def _check_scale(function: str, scale: float) -> None:
    if not is_number(scale) or not scale >= 0:
        raise ValueError(f"{function}: scale must be a number of at least 0, received {scale!r}.")


def _compile(regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex)
    except re.error as error:
        raise ValueError(f"regularize_cost: {regex!r} is not a regular expression: {error}.") from error


def _in_training() -> bool:
    """Returns whether costs count here: in a training tower or outside any tower."""
    tower = get_current_tower_context()
    return tower is None or tower.is_training


def _of_this_tower(key: str) -> list[Any]:
    tower = get_current_tower_context()
    if tower is not None and tower.has_own_variables:
        return tower.get_collection_in_tower(key)
    return list(tf.get_collection(key))


def _costs_of_this_tower() -> list[Any]:
    """Returns the collected costs that count here, without those of other towers."""
    key, tower = tf.GraphKeys.REGULARIZATION_LOSSES, get_current_tower_context()
    if tower is None or tower.has_own_variables:
        return _of_this_tower(key)
    own = {id(cost) for cost in tower.get_collection_in_tower(key)}
    elsewhere = graph_notes().costs_of_towers
    return [
        cost
        for cost in tf.get_collection(key)
        if id(cost) in own or getattr(cost, "name", None) not in elsewhere or _is_of_a_variable(cost)
    ]


def _is_of_a_variable(cost: tf.Tensor) -> bool:
    # tf.get_variable creates the cost of the variable "fc/W" in the name scope "fc/W/Regularizer".
    return "/Regularizer/" in cost.name


def _trainable_variables() -> list[tuple[str, Any]]:
    """Returns the trainable variables that count here, with their names without the tower's prefix."""
    tower = get_current_tower_context()
    prefix = f"{tower.variable_scope}/" if tower is not None and tower.has_own_variables else ""
    variables = _of_this_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
    return [(variable.name.rpartition(":")[0].removeprefix(prefix), variable) for variable in variables]


def _report(regex: str, names: list[str]) -> None:
    if not graph_notes().first_time("regularize", f"{regex} {names}"):
        return
    if names:
        _log.info("regularize_cost(%r) takes %d variables: %s", regex, len(names), ", ".join(names))
    else:
        _log.warning("regularize_cost(%r) matches no trainable variable: the cost is 0.", regex)


def _total(costs: list[Any], name: str) -> tf.Tensor:
    if not costs:
        return tf.zeros([], name=name)
    return tf.add_n([tf.cast(cost, tf.float32) for cost in costs], name=name)
