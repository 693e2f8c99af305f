"""Dropout of whole feature maps."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from ...arguments import check_data_format, check_rank, layer_label
from ...registry import register_layer
from ._dropout import Dropout

__all__ = ["SpatialDropout"]


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
