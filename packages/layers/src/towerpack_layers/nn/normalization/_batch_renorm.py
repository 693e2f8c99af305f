"""Batch renormalisation: statistics of the batch, corrected towards their moving averages."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from ...arguments import check_rank, is_number, layer_label
from ...registry import attach_variables, register_layer
from ...tower import get_current_tower_context, resolve_training, shared_by_towers
from ._channels import check_epsilon, find_channels, make_scale_and_offset
from ._moving_averages import MovingAverages
from ._sync_statistics import normalize

__all__ = ["BatchRenorm"]

_DTYPES = (tf.float32, tf.float16, tf.bfloat16)


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
    """Normalises by the batch, and corrects towards moving averages, after Ioffe (2017), arXiv:1702.03275.

    In training, with `r` and `d` taken as constants by the gradient::

        r = clip(deviation / average deviation, 1 / rmax, rmax)
        d = clip((mean - average mean) / average deviation, -dmax, dmax)
        output = ((x - mean) / deviation * r + d) * gamma + beta

    These averages are `renorm_mean` and `renorm_stddev`, as the step finds them, for all towers that share
    them. Inference uses `moving_mean` and `moving_variance`. All four move towards the batch's statistics
    whenever the output is computed in the main training tower, or in one with variables of its own; the
    variance is the biased one. A batch without examples leaves them as they are.

    Variables, float32 whatever the input: trainable `gamma` and `beta`; `moving_mean`, `moving_variance`,
    `renorm_mean` and `renorm_stddev`, in the collections `GLOBAL_VARIABLES` and `MODEL_VARIABLES`.

    Args:
        x: float32, float16 or bfloat16 tensor, `[N, C]` or an image batch; the number of channels is
            static.
        rmax: the largest correction of the scale, a number of at least 1 or a scalar tensor. 1 with
            `dmax=0` makes it batch normalisation.
        dmax: the largest correction of the mean, a number of at least 0 or a scalar tensor.
        training: whether to use the batch; by default the tower's `is_training`.
        momentum: weight of the past in `moving_mean` and `moving_variance`, between 0 and 1.
        renorm_momentum: the same in `renorm_mean` and `renorm_stddev`.
        epsilon: added to the variance.
        center: whether there is a `beta`.
        scale: whether there is a `gamma`.
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
    _check_options(call, x, rmax, dmax, momentum, renorm_momentum)
    epsilon = check_epsilon(call, epsilon)
    code, channels = find_channels(call, x, None, data_format)
    training = resolve_training(call, training)
    affine = make_scale_and_offset(
        call, channels, tf.float32, center=center, scale=scale, gamma_initializer=gamma_initializer
    )
    averages = MovingAverages.make(channels, "moving_mean", "moving_variance")
    corrected = MovingAverages.make(channels, "renorm_mean", "renorm_stddev")

    image = x if x.shape.rank == 4 else tf.reshape(x, [-1, 1, 1, channels])
    gamma = tf.ones([channels]) if affine["gamma"] is None else affine["gamma"]
    beta = tf.zeros([channels]) if affine["beta"] is None else affine["beta"]
    if not training:
        out = normalize(image, code, averages.mean, averages.variance, beta, gamma, epsilon)
    else:
        axes = [axis for axis, letter in enumerate(code) if letter != "C"]
        is_empty = tf.equal(tf.size(image), 0)
        moments = tf.nn.moments(tf.cast(image, tf.float32), axes)
        # Without a value they are undefined, and so were the gradients by scale and offset.
        mean, variance = (tf.where_v2(is_empty, tf.zeros([]), moment) for moment in moments)
        deviation = tf.sqrt(variance + epsilon)
        moves = []
        r, d, known = _correct(
            corrected, mean, deviation, tf.cast(rmax, tf.float32), tf.cast(dmax, tf.float32)
        )
        if _counts():
            with tf.control_dependencies(known):
                moves += corrected.move(mean, deviation, float(renorm_momentum), tf.size(image))
            moves += averages.move(mean, variance, float(momentum), tf.size(image))
        out = normalize(image, code, mean, variance, beta + d * gamma, r * gamma, epsilon)
        with tf.control_dependencies(moves):
            out = tf.identity(out)
    out = out if x.shape.rank == 4 else tf.reshape(out, tf.shape(x))
    out.set_shape(x.shape)
    return attach_variables(
        tf.identity(out, "output"), **affine, mean=averages.mean, variance=averages.variance
    )


def _correct(
    averages: MovingAverages, mean: tf.Tensor, deviation: tf.Tensor, rmax: tf.Tensor, dmax: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """Returns `r`, `d`, and the averages before the step."""

    def read() -> list[tf.Tensor]:
        return [averages.mean.read_value(), averages.variance.read_value()]

    known = shared_by_towers(f"averages {averages.mean.name} before the step", read)
    r = tf.clip_by_value(deviation / known[1], 1 / rmax, rmax)
    d = tf.clip_by_value((mean - known[0]) / known[1], -dmax, dmax)
    return tf.stop_gradient(r), tf.stop_gradient(d), known


def _counts() -> bool:
    """Returns whether the averages move: where towers share them, one of the towers moves them."""
    tower = get_current_tower_context()
    return tower is None or (tower.is_training and (tower.index == 0 or tower.has_own_variables))


def _check_options(call: str, x: Any, rmax: Any, dmax: Any, momentum: float, renorm_momentum: float) -> None:
    check_rank(call, x, 2, 4)
    if x.dtype not in _DTYPES:
        raise TypeError(
            f"{call}: the input must be float32, float16 or bfloat16, received {x.dtype.name}. Use tf.cast."
        )
    for argument, value, least in (("rmax", rmax, 1), ("dmax", dmax, 0)):
        scalar = value >= least if is_number(value) else getattr(value, "shape", None) == []
        if not scalar:
            raise ValueError(
                f"{call}: {argument} must be a number of at least {least} or a scalar tensor, received "
                f"{value!r}."
            )
    for argument, value in (("momentum", momentum), ("renorm_momentum", renorm_momentum)):
        if not is_number(value) or not 0 <= value <= 1:
            raise ValueError(f"{call}: {argument} must lie between 0 and 1, received {value!r}.")
