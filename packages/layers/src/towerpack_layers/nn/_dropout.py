"""Dropout with masks that a resumed run repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import check_data_format, check_rank, is_number, layer_label
from ..registry._register_layer import register_layer
from ..tower._tower_context import resolve_training
from ._random_tensors import generator_of_step, seeded_tower

__all__ = ["Dropout", "SpatialDropout"]


@register_layer(use_scope=None, old_positional=["keep_prob"])
def Dropout(
    x: tf.Tensor,
    *,
    rate: float | tf.Tensor = 0.5,
    training: bool | None = None,
    noise_shape: Sequence[int | None] | None = None,
    seed: int | None = None,
) -> tf.Tensor:
    """Sets a random part of the input to 0 and scales up the rest, after Srivastava et al. (2014), JMLR 15.

    The name is optional: `Dropout(x, rate=0.3)`. A positional number, `Dropout("dropout", x, 0.9)`, and
    `keep_prob=` are the probability to keep an element, with a `DeprecationWarning`.

    In a tower with a `random_seed` and a `step`, the mask depends only on these two, the tower's index, the
    layer's position in the graph and, in a `tf.while_loop`, the iteration. A resumed run therefore draws the
    same masks as an uninterrupted one. Otherwise TensorFlow's stateful generator draws the masks.

    Args:
        x: floating tensor of any shape.
        rate: the fraction to drop, at least 0 and below 1: a number, or a scalar tensor such as a scheduled
            variable.
        training: whether to drop elements; by default the tower's `is_training`.
        noise_shape: shape of the mask, broadcast to the input: 1 (or `None`, for the input's size) per
            axis.
        seed: seed of the stateful generator; with a tower's `random_seed` it is mixed into the mask's key.

    Returns:
        Tensor of the input's shape and dtype.

    Raises:
        TowerError: the layer is outside any tower, and `training` is not given.
        ValueError: `rate` is out of range; or, in a tower with a `random_seed`, the layer is in a
            `tf.function`, or in a loop of TensorFlow 1's control flow. All calls or iterations would have the
            same mask.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import Dropout
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     dropped = Dropout("dropout", tf.ones([1000]), rate=0.5, training=True, seed=1)
        ...     sorted(set(session.run(dropped).tolist()))
        [0.0, 2.0]
    """
    call = layer_label("Dropout")
    check_rank(call, x)
    rate = _check_rate(call, rate)
    if not resolve_training(call, training) or (is_number(rate) and rate == 0):
        return x
    tower = seeded_tower()
    if tower is None:
        rate = tf.cast(rate, x.dtype) if tf.is_tensor(rate) else rate
        shape = None if noise_shape is None else _mask_shape(x, noise_shape)
        return tf.nn.dropout(x, rate=rate, noise_shape=shape, seed=seed)
    with tf.name_scope("mask") as scope:
        generator = generator_of_step(call, tower, scope, seed)
        kept, share = _draw_kept(_mask_shape(x, noise_shape), rate, generator)
        # A product with the mask would be NaN for a dropped infinite input.
        return tf.where_v2(kept, x * tf.cast(1 / share, x.dtype), tf.zeros([], x.dtype))


def _check_rate(call: str, rate: Any) -> Any:
    """Returns the rate as a float, or as a float32 tensor that is checked at run time."""
    if tf.is_tensor(rate) and rate.dtype.is_floating and rate.shape.rank == 0:
        message = f"{call}: rate must be in 0 <= rate < 1, received"
        rate = tf.cast(rate, tf.float32)
        with tf.control_dependencies([tf.debugging.Assert((rate >= 0) & (rate < 1), [message, rate])]):
            return tf.identity(rate, "rate")
    if not is_number(rate) or not 0 <= rate < 1:
        raise ValueError(f"{call}: rate must be a number with 0 <= rate < 1, received {rate!r}.")
    return float(rate)


def _mask_shape(x: tf.Tensor, noise_shape: Sequence[int | None] | None) -> tf.Tensor:
    if noise_shape is None:
        return tf.shape(x)
    sizes = [tf.shape(x)[axis] if size is None else size for axis, size in enumerate(noise_shape)]
    return tf.stack(sizes)


def _draw_kept(shape: tf.Tensor, rate: Any, generator: Mapping[str, Any]) -> tuple[tf.Tensor, Any]:
    """Draws the elements to keep.

    An element uses 16 random bits, half of those of a random float, and `rate` is rounded accordingly. This,
    and the lack of a seed derived in the graph, make the layer faster than
    `tf.nn.experimental.stateless_dropout`.

    Returns:
        A bool tensor, true for the elements to keep, and the average fraction kept.
    """
    threshold = _threshold(rate)
    size = tf.reduce_prod(shape)
    bits = tf.raw_ops.StatelessRandomUniformFullIntV2(shape=[(size + 1) // 2], dtype=tf.uint32, **generator)
    drawn = tf.reshape(tf.bitcast(bits, tf.uint16), [-1])[:size]
    return tf.reshape(drawn >= tf.cast(threshold, tf.uint16), shape), 1 - threshold / 2**16


def _threshold(rate: Any) -> Any:
    """Returns the threshold below which 16 bits mean "drop": a float or a float32 tensor."""
    if tf.is_tensor(rate):
        return tf.minimum(tf.round(rate * 2**16), 2**16 - 1)
    return min(round(rate * 2**16), 2**16 - 1)


@register_layer(use_scope=None)
def SpatialDropout(
    x: tf.Tensor,
    *,
    rate: float | tf.Tensor = 0.5,
    training: bool | None = None,
    data_format: str = "channels_last",
    seed: int | None = None,
) -> tf.Tensor:
    """Sets a random part of the feature maps to 0 and scales up the rest, after Tompson et al. (2015), CVPR.

    A map is one channel of one example. Otherwise the layer works like `Dropout`: the name is optional, and
    in a tower with a `random_seed` and a `step`, a resumed run draws the same masks as an uninterrupted one.

    Args:
        x: floating tensor of shape `[N, ..., C]`, or `[N, C, ...]` with `channels_first`, with one to three
            axes for the dots.
        rate: the fraction of the maps to drop, at least 0 and below 1: a number or a scalar tensor.
        training: whether to drop maps; by default the tower's `is_training`.
        data_format: `channels_last` or `channels_first`.
        seed: seed of the stateful generator; with a tower's `random_seed` it is mixed into the mask's key.

    Returns:
        Tensor of the input's shape and dtype.

    Raises:
        TowerError: the layer is outside any tower, and `training` is not given.
        ValueError: an argument is out of range, the input is not 3-D to 5-D; or the layer is in a place that
            `Dropout` refuses.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import SpatialDropout
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     dropped = SpatialDropout("dropout", tf.ones([1, 8, 8, 1000]), rate=0.5, training=True)
        ...     maps = session.run(dropped).reshape(64, 1000)
        ...     print((maps == maps[0]).all(), sorted(set(maps[0].tolist())))
        True [0.0, 2.0]
    """
    call = layer_label("SpatialDropout")
    rank = check_rank(call, x, 3, 4, 5)
    noise_shape: list[int | None] = [None] + [1] * (rank - 1)
    channel = 1 if check_data_format(call, data_format).channel == 1 else rank - 1
    noise_shape[channel] = None
    # Without its decorator, so that an argument scope of Dropout does not apply here.
    dropout = Dropout.layer_info.function
    return dropout(x, rate=rate, training=training, noise_shape=noise_shape, seed=seed)
