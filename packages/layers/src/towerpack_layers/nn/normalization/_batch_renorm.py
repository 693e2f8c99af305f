"""Batch renormalisation: statistics of the batch, corrected towards their moving averages."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from ...arguments import is_number, layer_label
from ...registry import register_layer
from ...tower import get_current_tower_context, resolve_training, shared_by_towers
from ._channels import (
    as_image,
    check_batch,
    check_epsilon,
    check_momentum,
    find_channels,
    make_scale_and_offset,
    name_result,
    scale_and_offset,
)
from ._moving_averages import MovingAverages, count_values
from ._sync_statistics import normalize

__all__ = ["BatchRenorm"]


@register_layer
def BatchRenorm(
    x: tf.Tensor,
    rmax: Any,
    dmax: Any,
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
        if _counts():
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


def _counts() -> bool:
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
