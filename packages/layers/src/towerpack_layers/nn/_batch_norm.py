"""Batch normalisation and batch renormalisation, with moving averages of their statistics."""

from __future__ import annotations

import logging
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import TowerError
from ..arguments import is_number, layer_label
from ..registry._layer_info import REQUIRED
from ..registry._register_layer import register_layer
from ..tower._tower_context import (
    get_current_tower_context,
    graph_notes,
    in_nested_graph,
    resolve_training,
    shared_by_towers,
)
from ._batch_statistics import (
    UNSYNCHRONIZED_STATISTICS,
    CrossTowerSum,
    MovingAverages,
    as_image,
    check_batch,
    check_epsilon,
    check_ghost_batches,
    check_momentum,
    count_values,
    find_channels,
    make_scale_and_offset,
    name_result,
    normalize,
    normalize_ghost_batches,
    scale_and_offset,
    statistics_of_all_towers,
)

__all__ = ["BatchNorm", "BatchRenorm"]

_log = logging.getLogger("towerpack_layers")


_EMA_UPDATES = ("collection", "internal", "skip")


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
    virtual_batch_size: int | None = None,
) -> tf.Tensor:
    """Normalises each channel of a batch, after Ioffe and Szegedy (2015), arXiv:1502.03167.

    In training the layer uses the mean and the (biased) variance of the batch, and updates moving averages of
    both::

        average = momentum * average + (1 - momentum) * statistic of this batch

    An empty batch leaves the averages unchanged. If a layer is used twice in a tower, by reuse, each batch
    updates the averages, in the order of the calls.

    The moving average uses the unbiased variance, with `N - 1`, for inputs of every rank, as in the paper's
    inference rule (algorithm 2, step 10). In inference the layer uses the averages as statistics.

    Variables, always float32: trainable `gamma` and `beta`; `mean/EMA` and `variance/EMA`, not trainable, in
    the collections `GLOBAL_VARIABLES` and `MODEL_VARIABLES`.

    Args:
        x: float32, float16 or bfloat16 tensor, `[N, C]` or an image batch; the number of channels is
            static.
        axis: the channel axis. By default the last axis of a 2-D input, and the axis given by `data_format`
            for a 4-D input.
        training: whether to use the batch's statistics; by default the tower's `is_training`. `False` in a
            training tower freezes the statistics (`gamma` and `beta` still train).
        momentum: weight of the old value in the moving averages, between 0 and 1.
        epsilon: added to the variance; TensorFlow's kernel uses 1.001e-5 for anything smaller.
        center: whether to add `beta`.
        scale: whether to multiply by `gamma`.
        beta_initializer: zeros by default.
        gamma_initializer: ones by default.
        data_format: `channels_last` or `channels_first`, for 4-D inputs.
        ema_update: the update of the averages in training. `collection`: two ops in
            `tf.GraphKeys.UPDATE_OPS`, to run with the training step. `internal`: at each computation of the
            output, only in the main training tower; this also works inside `tf.cond` and `tf.while_loop`.
            `skip`: no update.
        sync_statistics: in training, use the joint statistics of all towers' batches, with equal weight for
            each example, as one tower with the whole batch would. Towers, and processes that train together,
            then wait for each other twice in this layer and twice in its gradient. If the tower is not
            connected with others, the layer's label is added to the collection `UNSYNCHRONIZED_STATISTICS`,
            and trainers with several processes refuse the model.
        virtual_batch_size: in training, normalise each group of this many consecutive examples separately,
            like a small batch ("ghost batches", after Hoffer et al. (2017), arXiv:1705.08741). It must divide
            the batch size. The moving averages use the means and unbiased variances averaged over all groups,
            which estimate the statistics of a group from all examples.

    Returns:
        Tensor of the input's shape and dtype; `.variables` holds `gamma`, `beta`, `mean` and
        `variance`.

    Raises:
        TowerError: the layer is outside any tower, and `training` is not given; or `sync_statistics` is set,
            but the context of several towers has no `cross_tower_sum`.
        TypeError: the input has another dtype.
        ValueError: an argument is out of range, the input has another rank or unknown channels, or
            `ema_update="collection"` or `sync_statistics` is used inside a body of control flow.
        tf.errors.InvalidArgumentError: (in a session) `virtual_batch_size` does not divide the batch.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import BatchNorm, TowerContext
        >>> with tf.Graph().as_default(), TowerContext("", is_training=True):
        ...     out = BatchNorm("bn", tf.ones([2, 3]))
        ...     [v.op.name for v in tf.global_variables()]
        ['bn/gamma', 'bn/beta', 'bn/mean/EMA', 'bn/variance/EMA']
    """
    call = layer_label("BatchNorm")
    check_batch(call, x)
    momentum = check_momentum(call, "momentum", momentum)
    _check_ema_update(call, ema_update)
    epsilon = check_epsilon(call, epsilon)
    code, channels = find_channels(call, x, axis, data_format)
    stretch = check_ghost_batches(call, x, virtual_batch_size, sync_statistics)
    training = _decide_training(call, training)
    update = ema_update if training else "skip"
    _check_update(call, update)
    sum_over_towers = _cross_tower_sum(call) if sync_statistics and training else None
    affine = make_scale_and_offset(
        call,
        channels,
        tf.float32,
        center=center,
        scale=scale,
        beta_initializer=beta_initializer,
        gamma_initializer=gamma_initializer,
    )
    averages = MovingAverages.make(channels)

    image, (scale_by, shift_by) = as_image(x, channels), scale_and_offset(affine, channels)
    examples = count_values(image)
    if sum_over_towers is not None:
        mean, biased, variance, examples = statistics_of_all_towers(image, code, sum_over_towers)
        out = normalize(image, code, mean, biased, shift_by, scale_by, epsilon)
    elif training and stretch is not None:
        given = (call, image, code, stretch, shift_by, scale_by, epsilon)
        out, mean, variance = normalize_ghost_batches(*given)
    else:
        statistics = {} if training else {"mean": averages.mean, "variance": averages.variance}
        options = {"epsilon": epsilon, "data_format": code, "is_training": training}
        out, mean, variance = tf.nn.fused_batch_norm(image, scale_by, shift_by, **statistics, **options)
    moves = []
    if _counts(update):
        moves = averages.move(mean, variance, momentum, examples)
    if update == "internal" and moves:
        with tf.control_dependencies(moves):
            out = tf.identity(out)
    elif moves:
        tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS).extend(moves)
    return name_result(x, out, **affine, mean=averages.mean, variance=averages.variance)


def _counts(update: str) -> bool:
    """Returns whether to update the averages here: `internal` does so only in the main training tower."""
    tower = get_current_tower_context()
    return update == "collection" or (
        update == "internal" and (tower is None or tower.is_main_training_tower)
    )


def _check_ema_update(call: str, ema_update: str) -> None:
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
    """Returns the function that sums a tensor over the towers, or `None` for a single tower."""
    tower = get_current_tower_context()
    if tower is None:
        raise TowerError(
            f"{call}: sync_statistics needs the towers to be connected; build it in a tower context."
        )
    if tower.cross_tower_sum is None and tower.num_towers > 1:
        raise TowerError(
            f"{call}: sync_statistics=True, but the {tower.num_towers} towers are not connected: the "
            f"context of {tower.name!r} has no cross_tower_sum. Pass one when building the towers."
        )
    if tower.cross_tower_sum is not None and _in_control_flow():
        raise ValueError(
            f"{call}: towers cannot be connected inside tf.cond, tf.while_loop or tf.function. Move the "
            "layer out of it, or do not set sync_statistics."
        )
    if tower.cross_tower_sum is None:
        tf.add_to_collection(UNSYNCHRONIZED_STATISTICS, call)
    return tower.cross_tower_sum


def _in_control_flow() -> bool:
    return in_nested_graph() or tf.get_default_graph()._get_control_flow_context() is not None


def _decide_training(call: str, given: bool | None) -> bool:
    """Returns whether to normalise by the batch, and logs frozen statistics in training once per layer."""
    training, tower = resolve_training(call, given), get_current_tower_context()
    scope = tf.get_variable_scope().name
    if not training and tower is not None and tower.is_training and graph_notes().first_time("frozen", scope):
        _log.info("%s: statistics are frozen in training, by training=False", scope)
    return training


@register_layer
def BatchRenorm(
    x: tf.Tensor,
    rmax: Any = REQUIRED,
    dmax: Any = REQUIRED,
    *,
    training: bool | None = None,
    momentum: float = 0.9,
    renorm_momentum: float = 0.99,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Any = None,
    data_format: str = "channels_last",
) -> tf.Tensor:
    """Normalises by the batch, corrected towards moving averages, after Ioffe (2017), arXiv:1702.03275.

    In training, with `r` and `d` as constants in the gradient::

        r = clip(deviation / average deviation, 1 / rmax, rmax)
        d = clip((mean - average mean) / average deviation, -dmax, dmax)
        output = ((x - mean) / deviation * r + d) * gamma + beta

    These averages are `renorm_mean` and `renorm_stddev` at the beginning of the step, for all towers that
    share them. Inference uses `moving_mean` and `moving_variance`. Each computation of the output in the main
    training tower, or in a tower with separate variables, moves all four towards the batch's statistics, with
    the biased variance. An empty batch leaves them unchanged.

    Variables, always float32: trainable `gamma` and `beta`; `moving_mean`, `moving_variance`, `renorm_mean`
    and `renorm_stddev`, in the collections `GLOBAL_VARIABLES` and `MODEL_VARIABLES`.

    Args:
        x: float32, float16 or bfloat16 tensor, `[N, C]` or an image batch; the number of channels is
            static.
        rmax: the largest correction of the scale, a number of at least 1 or a scalar tensor. 1 with `dmax=0`
            gives batch normalisation.
        dmax: the largest correction of the mean, a number of at least 0 or a scalar tensor.
        training: whether to use the batch's statistics; by default the tower's `is_training`.
        momentum: weight of the old value in `moving_mean` and `moving_variance`, between 0 and 1.
        renorm_momentum: the same for `renorm_mean` and `renorm_stddev`.
        epsilon: added to the variance.
        center: whether to add `beta`.
        scale: whether to multiply by `gamma`.
        gamma_initializer: ones by default.
        data_format: `channels_last` or `channels_first`, for 4-D inputs.

    Returns:
        Tensor of the input's shape and dtype; `.variables` holds `gamma`, `beta`, `mean` and `variance`.

    Raises:
        TowerError: the layer is outside any tower, and `training` is not given.
        TypeError: the input has another dtype.
        ValueError: an argument is out of range, or the input has another rank or unknown channels.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import BatchRenorm, TowerContext
        >>> with tf.Graph().as_default(), TowerContext("", is_training=True):
        ...     out = BatchRenorm("bn", tf.ones([2, 3]), rmax=3.0, dmax=5.0)
        ...     [v.op.name for v in tf.trainable_variables()]
        ['bn/gamma', 'bn/beta']
    """
    call = layer_label("BatchRenorm")
    check_batch(call, x)
    _check_limits(call, rmax, dmax)
    momentum = check_momentum(call, "momentum", momentum)
    renorm_momentum = check_momentum(call, "renorm_momentum", renorm_momentum)
    epsilon = check_epsilon(call, epsilon)
    code, channels = find_channels(call, x, None, data_format)
    training = resolve_training(call, training)
    affine = make_scale_and_offset(
        call, channels, tf.float32, center=center, scale=scale, gamma_initializer=gamma_initializer
    )
    averages = MovingAverages.make(channels, "moving_mean", "moving_variance")
    corrected = MovingAverages.make(channels, "renorm_mean", "renorm_stddev")

    image, (gamma, beta) = as_image(x, channels), scale_and_offset(affine, channels)
    if not training:
        out = normalize(image, code, averages.mean, averages.variance, beta, gamma, epsilon)
    else:
        axes = [axis for axis, letter in enumerate(code) if letter != "C"]
        examples = count_values(image)
        is_empty = tf.equal(examples, 0)
        moments = tf.nn.moments(tf.cast(image, tf.float32), axes)
        # For an empty batch they are undefined, and the gradients by scale and offset would be, too.
        mean, variance = (tf.where_v2(is_empty, tf.zeros([]), moment) for moment in moments)
        deviation = tf.sqrt(variance + epsilon)
        moves = []
        r, d, known = _correct(
            corrected, mean, deviation, tf.cast(rmax, tf.float32), tf.cast(dmax, tf.float32)
        )
        if _renorm_counts():
            with tf.control_dependencies(known):
                moves += corrected.move(mean, deviation, renorm_momentum, examples)
            moves += averages.move(mean, variance, momentum, examples)
        out = normalize(image, code, mean, variance, beta + d * gamma, r * gamma, epsilon)
        with tf.control_dependencies(moves):
            out = tf.identity(out)
    return name_result(x, out, **affine, mean=averages.mean, variance=averages.variance)


def _correct(
    averages: MovingAverages, mean: tf.Tensor, deviation: tf.Tensor, rmax: tf.Tensor, dmax: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """Returns `r`, `d` and the averages before the step."""

    def read() -> list[tf.Tensor]:
        return [averages.mean.read_value(), averages.variance.read_value()]

    known = shared_by_towers(f"averages {averages.mean.name} before the step", read)
    r = tf.clip_by_value(deviation / known[1], 1 / rmax, rmax)
    d = tf.clip_by_value((mean - known[0]) / known[1], -dmax, dmax)
    return tf.stop_gradient(r), tf.stop_gradient(d), known


def _renorm_counts() -> bool:
    """Returns whether to update the averages here: one of the towers that share them does."""
    tower = get_current_tower_context()
    return tower is None or (tower.is_training and (tower.index == 0 or tower.has_own_variables))


def _check_limits(call: str, rmax: Any, dmax: Any) -> None:
    for argument, value, least in (("rmax", rmax, 1), ("dmax", dmax, 0)):
        scalar = value >= least if is_number(value) else getattr(value, "shape", None) == []
        if not scalar:
            raise ValueError(
                f"{call}: {argument} must be a number of at least {least} or a scalar tensor, received "
                f"{value!r}."
            )
