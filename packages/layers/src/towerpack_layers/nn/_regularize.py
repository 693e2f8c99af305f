"""The cost of large weights."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_layers.registry._graph_notes import graph_notes
from towerpack_layers.registry._layer_scope import require_graph
from towerpack_layers.tower._tower_context import get_current_tower_context

_logger = logging.getLogger("towerpack_layers")


def regularize_cost(regex: str, func: Callable[[Any], Any], name: str = "regularize_cost") -> tf.Tensor:
    """Return the sum of ``func`` over the trainable variables whose names match, as a term of the cost.

    Outside training (in an inference tower) it is 0. A tower with variables of its own counts only those; the
    names are then matched without the tower's prefix. The matches are logged once per graph.

    Args:
        regex: searched for in names like ``conv0/W``; ``^`` and ``$`` anchor it.
        func: function of a variable that returns a scalar, such as ``l2_regularizer(1e-4)``.
        name: name of the result.

    Returns:
        Scalar float32 tensor.

    Raises:
        GraphRequiredError: called in eager mode.
        ValueError: ``regex`` is not a regular expression.

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
    require_graph("regularize_cost")
    if not _in_training():
        return tf.zeros([], name=name)
    found = {short: variable for short, variable in _trainable_variables() if pattern.search(short)}
    _report(regex, list(found))
    with tf.name_scope(f"{name}_terms"):
        costs = [func(variable) for variable in found.values()]
    return _total(costs, name)


def regularize_cost_from_collection(name: str = "regularize_cost") -> tf.Tensor:
    """Return the sum of the costs that layers collected for their ``kernel_regularizer`` and the like.

    They are those in ``tf.GraphKeys.REGULARIZATION_LOSSES``: all of them, or, in a tower with variables of
    its own, those added since it was entered. Outside training it is 0.

    Args:
        name: name of the result.

    Returns:
        Scalar float32 tensor.

    Raises:
        GraphRequiredError: called in eager mode.

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
    require_graph("regularize_cost_from_collection")
    if not _in_training():
        return tf.zeros([], name=name)
    return _total(_of_this_tower(tf.GraphKeys.REGULARIZATION_LOSSES), name)


def l2_regularizer(scale: float) -> Callable[[Any], Any]:
    """Return the function ``w -> scale * sum(w ** 2) / 2``.

    Args:
        scale: weight of the cost, not negative.

    Raises:
        ValueError: ``scale`` is negative or no number.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import l2_regularizer
        >>> print(l2_regularizer(0.5)(tf.constant([2.0, 2.0])).numpy())
        2.0
    """
    _check_scale("l2_regularizer", scale)
    return lambda weights: tf.multiply(tf.nn.l2_loss(weights), scale, name="l2_regularizer")


def l1_regularizer(scale: float) -> Callable[[Any], Any]:
    """Return the function ``w -> scale * sum(|w|)``.

    Args:
        scale: weight of the cost, not negative.

    Raises:
        ValueError: ``scale`` is negative or no number.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import l1_regularizer
        >>> print(l1_regularizer(0.5)(tf.constant([2.0, -2.0])).numpy())
        2.0
    """
    _check_scale("l1_regularizer", scale)
    return lambda weights: tf.multiply(tf.reduce_sum(tf.abs(weights)), scale, name="l1_regularizer")


def _check_scale(function: str, scale: float) -> None:
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not scale >= 0:
        raise ValueError(f"{function}: scale must be a number of at least 0, got {scale!r}.")


def _compile(regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex)
    except re.error as error:
        raise ValueError(f"regularize_cost: {regex!r} is not a regular expression: {error}.") from error


def _in_training() -> bool:
    """Return whether costs count here; without any tower the caller is taken to train."""
    tower = get_current_tower_context()
    return tower is None or tower.is_training


def _of_this_tower(key: str) -> list[Any]:
    tower = get_current_tower_context()
    if tower is not None and tower.has_own_variables:
        return tower.get_collection_in_tower(key)
    return list(tf.get_collection(key))


def _trainable_variables() -> list[tuple[str, Any]]:
    """Return the variables that count here, with the names they have without the tower's prefix."""
    tower = get_current_tower_context()
    prefix = f"{tower.variable_scope}/" if tower is not None and tower.has_own_variables else ""
    variables = _of_this_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
    return [(variable.name.rpartition(":")[0].removeprefix(prefix), variable) for variable in variables]


def _report(regex: str, names: list[str]) -> None:
    if not graph_notes().first_time("regularize", f"{regex} {names}"):
        return
    if names:
        _logger.info("regularize_cost(%r) takes %d variables: %s", regex, len(names), ", ".join(names))
    else:
        _logger.warning("regularize_cost(%r) matches no trainable variable: the cost is 0.", regex)


def _total(costs: list[Any], name: str) -> tf.Tensor:
    if not costs:
        return tf.zeros([], name=name)
    return tf.add_n([tf.cast(cost, tf.float32) for cost in costs], name=name)
