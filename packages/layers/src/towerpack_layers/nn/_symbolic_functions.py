"""Functions of tensors without variables: statistics, printing, concatenation, and costs of weights."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import check_rank, is_number, layer_label
from ..registry._layer_scope import check_graph_mode
from ..registry._register_layer import register_layer
from ..tower._tower_context import get_current_tower_context, graph_notes

__all__ = [
    "ConcatWith",
    "batch_flatten",
    "l1_regularizer",
    "l2_regularizer",
    "print_stat",
    "psnr",
    "regularize_cost",
    "regularize_cost_from_collection",
    "rms",
]

_log = logging.getLogger("towerpack_layers")


def rms(x: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Returns the root of the mean of the squares of all elements.

    Args:
        x: floating tensor; squares of 16-bit numbers are added in float32.
        name: name of the result; by default `<name of x>/rms`, independent of the current name scope.

    Returns:
        Scalar tensor of the input's dtype.

    Raises:
        TypeError: the input is not a floating tensor.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import rms
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     x = tf.constant([3.0, -4.0], name="x")
        ...     print(rms(x).name, round(float(session.run(rms(x))), 3))
        x/rms:0 3.536
    """
    check_graph_mode("rms")
    _check_floating("rms", "x", x)
    if name is not None:
        return _rms(x, name)
    with tf.name_scope(None):  # the name of x is absolute
        return _rms(x, f"{x.op.name}/rms")


def psnr(
    prediction: tf.Tensor, ground_truth: tf.Tensor, maxp: float | None = None, name: str = "psnr"
) -> tf.Tensor:
    """Returns the peak signal-to-noise ratio in dB, `20 log10(maxp) - 10 log10(mean squared error)`.

    Args:
        prediction: floating tensor.
        ground_truth: floating tensor of the same shape and dtype.
        maxp: the largest value that a pixel can have, such as 255; 1 by default.
        name: name of the result.

    Returns:
        Scalar tensor of the input's dtype; infinite if the two are equal.

    Raises:
        TypeError: an input is not a floating tensor.
        ValueError: `maxp` is not positive.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import psnr
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     print(session.run(psnr(tf.zeros([2, 8, 8, 3]), tf.fill([2, 8, 8, 3], 25.5), maxp=255)))
        20.0
    """
    check_graph_mode("psnr")
    _check_floating("psnr", "prediction", prediction)
    _check_floating("psnr", "ground_truth", ground_truth)
    if maxp is not None and (not is_number(maxp) or not maxp > 0):
        raise ValueError(f"psnr: maxp must be a positive number, received {maxp!r}.")
    with tf.name_scope(f"{name}_terms"):
        error = tf.reduce_mean(tf.square(_wide(prediction) - _wide(ground_truth)))
        peak = 20 * math.log10(1 if maxp is None else maxp)
        ratio = peak - 10 / math.log(10) * tf.log(error)
    return (
        tf.cast(ratio, prediction.dtype, name=name)
        if ratio.dtype != prediction.dtype
        else tf.identity(ratio, name)
    )


def print_stat(x: tf.Tensor, message: str | None = None) -> tf.Tensor:
    """Returns the input, and prints its shape, mean and root mean square at each computation.

    The line goes to the standard error of the process. Use the returned tensor instead of the input:
    `x = print_stat(x)`.

    Args:
        x: tensor of numbers or bools.
        message: the beginning of the line; by default the tensor's name.

    Returns:
        Tensor equal to the input.

    Raises:
        TypeError: the input is not a tensor of real numbers or bools.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import print_stat
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     x = print_stat(tf.constant([3.0, -4.0], name="x"))
        ...     print(session.run(x))  # and "x: shape [2] mean -0.5 rms 3.53553391" to standard error
        [ 3. -4.]
    """
    check_graph_mode("print_stat")
    if not tf.is_tensor(x) or not (x.dtype.is_floating or x.dtype.is_integer or x.dtype.is_bool):
        raise TypeError(f"print_stat: x must be a tensor of real numbers or bools, received {x!r}.")
    label = x.op.name if message is None else message
    with tf.name_scope("print_stat"):
        values = x if x.dtype == tf.float64 else tf.cast(x, tf.float32)
        mean, root = tf.reduce_mean(values), _rms(values, "rms")
        printed = tf.print(f"{label}: shape", tf.shape(x), "mean", mean, "rms", root)
        with tf.control_dependencies([printed]):
            return tf.identity(x, "output")


def batch_flatten(x: tf.Tensor) -> tf.Tensor:
    """Flattens the input to a matrix with one row per example.

    Args:
        x: tensor of shape `[N, ...]`; sizes may be unknown.

    Returns:
        Tensor `[N, features]` of the input's dtype; the number of features is static if all sizes are.

    Raises:
        TypeError: the input is not a tensor.
        ValueError: the input is a scalar, or its rank is unknown.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import batch_flatten
        >>> with tf.Graph().as_default():
        ...     batch_flatten(tf.placeholder(tf.float32, [None, 4, 4, 3])).shape
        TensorShape([None, 48])
    """
    check_graph_mode("batch_flatten")
    if check_rank("batch_flatten", x) == 0:
        raise ValueError("batch_flatten: the input needs a batch axis, received a scalar.")
    batch, *sizes = x.shape.as_list()
    # A size of -1 cannot be inferred for an empty batch.
    rows = tf.shape(x)[0] if batch is None else batch
    columns = tf.reduce_prod(tf.shape(x)[1:]) if None in sizes else math.prod(sizes)
    flat = tf.reshape(x, [rows, columns])
    flat.set_shape([batch, None if None in sizes else math.prod(sizes)])
    return flat


def _rms(x: tf.Tensor, name: str) -> tf.Tensor:
    root = tf.sqrt(tf.reduce_mean(tf.square(_wide(x))))
    return tf.identity(root, name) if root.dtype == x.dtype else tf.cast(root, x.dtype, name)


def _wide(x: tf.Tensor) -> tf.Tensor:
    """Casts numbers to at least 32 bits, so that their squares can be added without an overflow."""
    return tf.cast(x, tf.float32) if x.dtype.size < 4 else x


def _check_floating(call: str, argument: str, x: Any) -> None:
    if not tf.is_tensor(x) or not x.dtype.is_floating:
        raise TypeError(f"{call}: {argument} must be a floating tensor, received {x!r}.")


@register_layer(use_scope=None)
def ConcatWith(x: tf.Tensor, tensor: tf.Tensor | Sequence[tf.Tensor], dim: int) -> tf.Tensor:
    """Appends other tensors to the input along an axis.

    Args:
        x: tensor of known rank, at least 1.
        tensor: one or more tensors to append, with the input's dtype and, except along this axis, shape.
        dim: the axis; -1 is the last.

    Returns:
        Tensor of the input's dtype.

    Raises:
        ValueError: `dim` is not an axis of the input, or a shape does not match.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import LinearWrap
        >>> with tf.Graph().as_default():
        ...     LinearWrap(tf.ones([2, 3])).ConcatWith(tf.ones([2, 4]), 1).FullyConnected("fc", 5)().shape
        TensorShape([2, 5])
    """
    call = layer_label("ConcatWith")
    rank = check_rank(call, x)
    if isinstance(dim, bool) or dim not in range(-rank, rank):
        raise ValueError(f"{call}: dim must be an axis of a tensor of shape {x.shape}, received {dim!r}.")
    wanted = x.shape.as_list()
    wanted[dim] = None
    others = [tf.convert_to_tensor(other, x.dtype) for other in _as_list(tensor)]
    for other in others:
        if not other.shape.is_compatible_with(wanted):
            raise ValueError(
                f"{call}: tensor must have the shape {tf.TensorShape(wanted)}, received one of shape "
                f"{other.shape}."
            )
    return tf.concat([x, *others], int(dim))


def _as_list(tensor: Any) -> list[Any]:
    return list(tensor) if isinstance(tensor, (list, tuple)) else [tensor]


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
