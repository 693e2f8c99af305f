"""Statistics over the batches of all towers, and normalisation with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["UNSYNCHRONIZED_STATISTICS", "CrossTowerSum", "normalize", "statistics_of_all_towers"]

# Collection of the labels of layers with synchronised statistics in a model of one tower. Trainers that use
# several processes read it.
UNSYNCHRONIZED_STATISTICS = "UNSYNCHRONIZED_STATISTICS"

CrossTowerSum = Callable[[tf.Tensor], tf.Tensor]


def statistics_of_all_towers(
    image: tf.Tensor, code: str, sum_over_towers: CrossTowerSum
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns mean, biased variance and unbiased variance of each channel, and the number of its values.

    Variances are computed around the mean of all towers, in a second exchange. The mean of squares, which the
    first exchange could include, loses digits if the mean is large.

    Args:
        image: this tower's batch, 4-D; towers may have batches of different sizes.
        code: NHWC or NCHW.
        sum_over_towers: `TowerContext.cross_tower_sum`.

    Returns:
        Three float32 vectors and a float32 scalar, equal in all towers.
    """
    image, axes = tf.cast(image, tf.float32), _all_but_channels(code)
    count = tf.reduce_prod(tf.gather(tf.shape(image), axes))
    total = sum_over_towers(tf.concat([[tf.cast(count, tf.float32)], tf.reduce_sum(image, axes)], 0))
    examples, mean = total[0], total[1:] / total[0]
    squares = sum_over_towers(tf.reduce_sum(tf.math.squared_difference(image, _as_image(mean, code)), axes))
    return mean, squares / examples, squares / tf.maximum(examples - 1, 1), examples


def normalize(
    image: tf.Tensor, code: str, mean: Any, variance: Any, beta: Any, gamma: Any, epsilon: float
) -> tf.Tensor:
    """Normalises the batch with the given statistics, in its dtype."""
    mean, variance, beta, gamma = (_as_image(vector, code) for vector in (mean, variance, beta, gamma))
    whole = tf.nn.batch_normalization(tf.cast(image, tf.float32), mean, variance, beta, gamma, epsilon)
    return tf.cast(whole, image.dtype)


def _all_but_channels(code: str) -> list[int]:
    return [axis for axis, letter in enumerate(code) if letter != "C"]


def _as_image(vector: Any, code: str) -> tf.Tensor:
    return tf.reshape(vector, [-1 if letter == "C" else 1 for letter in code])
