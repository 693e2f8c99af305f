"""Batch normalisation, and the moving averages of its statistics."""

from __future__ import annotations

import logging
import numbers
from typing import Any

import tensorflow.compat.v1 as tf

from ..._errors import TowerError
from ...arguments import (
    check_channels,
    check_data_format,
    check_rank,
    is_number,
    layer_label,
    resolve_initializer,
)
from ...registry import attach_variables, register_layer
from ...tower import get_current_tower_context, graph_notes, in_nested_graph, resolve_training
from ._moving_averages import MovingAverages
from ._sync_statistics import UNSYNCHRONIZED_STATISTICS, CrossTowerSum, normalize, statistics_of_all_towers

__all__ = ["BatchNorm"]

_log = logging.getLogger("towerpack_layers")
_EMA_UPDATES = ("collection", "internal", "skip")
_DTYPES = (tf.float32, tf.float16, tf.bfloat16)


@register_layer
def BatchNorm(
    x: tf.Tensor,
    axis: int | None = None,
    *,
    training: bool | None = None,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = None,
    gamma_initializer: Any = None,
    data_format: str = "channels_last",
    ema_update: str = "collection",
    sync_statistics: bool = False,
) -> tf.Tensor:
    """Normalises each channel by its statistics, after Ioffe and Szegedy (2015), arXiv:1502.03167.

    In training these are the mean and the (biased) variance of the batch, and moving averages of both are
    kept::

        average = momentum * average + (1 - momentum) * statistic of this batch

    A batch without examples leaves the averages as they are. Where one layer is used twice in a tower, by
    reuse, each batch enters the averages, in the order in which the layer was called.

    The variance that enters the average is the unbiased one, with `N - 1`, for inputs of every rank, as the
    paper's inference rule has it (algorithm 2, step 10). Otherwise the averages are the statistics.

    Variables, float32 whatever the input: trainable `gamma` and `beta`; `mean/EMA` and
    `variance/EMA`, not trainable, in the collections `GLOBAL_VARIABLES` and `MODEL_VARIABLES`.

    Args:
        x: float32, float16 or bfloat16 tensor, `[N, C]` or an image batch; the number of channels is
            static.
        axis: the channel axis. By default the last axis of a 2-D input, and the one of `data_format` for a
            4-D input.
        training: whether to use the batch; by default the tower's `is_training`. `False` in a training tower
            freezes the statistics (`gamma` and `beta` still train).
        momentum: weight of the past in the moving averages, between 0 and 1.
        epsilon: added to the variance; TensorFlow's kernel uses 1.001e-5 for anything smaller.
        center: whether there is a `beta`.
        scale: whether there is a `gamma`.
        beta_initializer: zeros by default.
        gamma_initializer: ones by default.
        data_format: `channels_last` or `channels_first`, for 4-D inputs.
        ema_update: how the averages are updated in training. `collection`: by two ops in
            `tf.GraphKeys.UPDATE_OPS`, to be run with the training step. `internal`: whenever the output is
            computed, and only in the main training tower; this also works inside `tf.cond` and
            `tf.while_loop`. `skip`: not at all.
        sync_statistics: in training, use the statistics of all towers' batches together, each example
            counting alike, as one tower with all of them would. The towers then wait for one another twice
            in this layer and twice in its gradient. Where there is one tower, the layer's label is in the
            collection `UNSYNCHRONIZED_STATISTICS`: what trains that tower in several processes refuses it.

    Returns:
        Tensor of the input's shape and dtype; `.variables` holds `gamma`, `beta`, `mean` and
        `variance`.

    Raises:
        TowerError: the layer is outside any tower, and `training` is not given; or `sync_statistics` is set,
            and the context of several towers has no `cross_tower_sum`.
        TypeError: the input has another dtype.
        ValueError: an argument is out of range, the input has another rank or unknown channels, or
            `ema_update="collection"` or `sync_statistics` is used inside a body of control flow.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import BatchNorm, TowerContext
        >>> with tf.Graph().as_default(), TowerContext("", is_training=True):
        ...     out = BatchNorm("bn", tf.ones([2, 3]))
        ...     [v.op.name for v in tf.global_variables()]
        ['bn/gamma', 'bn/beta', 'bn/mean/EMA', 'bn/variance/EMA']
    """
    call = layer_label("BatchNorm")
    _check_options(call, x, momentum, epsilon, ema_update)
    code, channels = _layout(call, x, axis, data_format)
    training = _decide_training(call, training)
    update = ema_update if training else "skip"
    _check_update(call, update)
    sum_over_towers = _cross_tower_sum(call) if sync_statistics and training else None
    affine, averages = _make_variables(call, channels, center, scale, beta_initializer, gamma_initializer)

    image = x if x.shape.rank == 4 else tf.reshape(x, [-1, 1, 1, channels])
    scale_by = tf.ones([channels]) if affine["gamma"] is None else affine["gamma"]
    shift_by = tf.zeros([channels]) if affine["beta"] is None else affine["beta"]
    examples = tf.size(image)
    if sum_over_towers is not None:
        mean, biased, variance, examples = statistics_of_all_towers(image, code, sum_over_towers)
        out = normalize(image, code, mean, biased, shift_by, scale_by, float(epsilon))
    else:
        statistics = {} if training else {"mean": averages.mean, "variance": averages.variance}
        options = {"epsilon": float(epsilon), "data_format": code, "is_training": training}
        out, mean, variance = tf.nn.fused_batch_norm(image, scale_by, shift_by, **statistics, **options)
    moves = []
    if _counts(update):
        moves = averages.move(mean, variance, float(momentum), is_empty=tf.equal(examples, 0))
    if update == "internal" and moves:
        with tf.control_dependencies(moves):
            out = tf.identity(out)
    elif moves:
        tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS).extend(moves)
    out = out if x.shape.rank == 4 else tf.reshape(out, tf.shape(x))
    out.set_shape(x.shape)
    return attach_variables(
        tf.identity(out, "output"), **affine, mean=averages.mean, variance=averages.variance
    )


def _counts(update: str) -> bool:
    """Returns whether the averages are updated from here: by `internal`, in the main training tower alone."""
    tower = get_current_tower_context()
    return update == "collection" or (
        update == "internal" and (tower is None or tower.is_main_training_tower)
    )


def _check_options(call: str, x: Any, momentum: float, epsilon: float, ema_update: str) -> None:
    check_rank(call, x, 2, 4)
    if x.dtype not in _DTYPES:
        raise TypeError(
            f"{call}: the input must be float32, float16 or bfloat16, received {x.dtype.name}. Use tf.cast."
        )
    if not is_number(momentum) or not 0 <= momentum <= 1:
        raise ValueError(f"{call}: momentum must lie between 0 and 1, received {momentum!r}.")
    if not is_number(epsilon) or not epsilon >= 0:
        raise ValueError(f"{call}: epsilon must not be negative, received {epsilon!r}.")
    if ema_update not in _EMA_UPDATES:
        raise ValueError(
            f"{call}: ema_update must be one of {', '.join(_EMA_UPDATES)}; received {ema_update!r}."
        )


def _check_update(call: str, update: str) -> None:
    if update == "collection" and in_nested_graph():
        raise ValueError(
            f"{call}: inside tf.cond, tf.while_loop or tf.function, an op in UPDATE_OPS cannot be run from "
            f"outside. Pass ema_update='internal' (or 'skip')."
        )


def _cross_tower_sum(call: str) -> CrossTowerSum | None:
    """Returns the function that sums a tensor over the towers, or `None` if there is one tower."""
    tower = get_current_tower_context()
    if tower is None:
        raise TowerError(
            f"{call}: sync_statistics needs the towers to be connected; build it in a tower context."
        )
    if tower.cross_tower_sum is None and tower.num_towers > 1:
        raise TowerError(
            f"{call}: sync_statistics=True, but the {tower.num_towers} towers are not connected: the context "
            f"of {tower.name!r} has no cross_tower_sum. The builder of the towers must give one."
        )
    if tower.cross_tower_sum is not None and in_nested_graph():
        raise ValueError(
            f"{call}: towers cannot be connected inside tf.cond, tf.while_loop or tf.function. Move the "
            f"layer out, or leave sync_statistics out."
        )
    if tower.cross_tower_sum is None:
        tf.add_to_collection(UNSYNCHRONIZED_STATISTICS, call)
    return tower.cross_tower_sum


def _decide_training(call: str, given: bool | None) -> bool:
    """Returns whether to normalise by the batch, and logs frozen statistics in training once per layer."""
    training, tower = resolve_training(call, given), get_current_tower_context()
    scope = tf.get_variable_scope().name
    if not training and tower is not None and tower.is_training and graph_notes().first_time("frozen", scope):
        _log.info("%s: statistics are frozen in training, by training=False", scope)
    return training


def _layout(call: str, x: tf.Tensor, axis: int | None, data_format: str) -> tuple[str, int]:
    """Returns TensorFlow's name of the data format, and the number of channels."""
    rank = x.shape.rank
    if axis is not None and not isinstance(axis, numbers.Integral):
        raise ValueError(f"{call}: axis must be an int, received {axis!r}.")
    channel = (1 if rank == 2 else check_data_format(call, data_format).channel) if axis is None else axis
    if channel % rank not in ((1,) if rank == 2 else (1, 3)) or not -rank <= channel < rank:
        wanted = "1" if rank == 2 else "1 or 3"
        raise ValueError(f"{call}: axis of a {rank}-D input must be {wanted}, received {axis}.")
    code = "NCHW" if rank == 4 and channel % rank == 1 else "NHWC"
    return code, check_channels(call, x, channel % rank)


def _make_variables(
    call: str, channels: int, center: bool, scale: bool, beta_initializer: Any, gamma_initializer: Any
) -> tuple[dict[str, Any], MovingAverages]:
    """Makes `gamma` and `beta` (`None` where left out), and the moving averages."""

    def variable(name: str, argument: str, given: Any, default: Any) -> Any:
        initializer = resolve_initializer(call, argument, given, default, [channels])
        return tf.get_variable(name, [channels], tf.float32, initializer)

    zeros, ones = tf.zeros_initializer(), tf.ones_initializer()
    affine = {
        "gamma": variable("gamma", "gamma_initializer", gamma_initializer, ones) if scale else None,
        "beta": variable("beta", "beta_initializer", beta_initializer, zeros) if center else None,
    }
    return affine, MovingAverages.make(channels)
