"""Ghost batches: separately normalised parts of a batch, after Hoffer et al. (2017)."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from ...arguments import check_count

__all__ = ["check_ghost_batches", "normalize_ghost_batches"]


def check_ghost_batches(call: str, x: tf.Tensor, size: int | None, sync_statistics: bool) -> int | None:
    """Checks the size of ghost batches and returns it as a Python int.

    Raises:
        ValueError: the size is not a positive int, does not divide the batch size, or is combined with
            `sync_statistics`.
    """
    if size is None:
        return None
    size = check_count(call, "virtual_batch_size", size)
    if sync_statistics:
        raise ValueError(
            f"{call}: virtual_batch_size={size} makes batches smaller, but sync_statistics=True makes them "
            "larger. Set only one of the two."
        )
    batch = x.shape.as_list()[0]
    if batch is not None and batch % size:
        raise ValueError(f"{call}: {_rule(size)}; the batch has {batch} examples.")
    return size


def normalize_ghost_batches(
    call: str, image: tf.Tensor, code: str, size: int, beta: Any, gamma: Any, epsilon: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Normalises each group of consecutive examples of a batch separately.

    Args:
        call: the layer's label, for errors.
        image: the batch, 4-D.
        code: NHWC or NCHW.
        size: examples in a group.
        beta: added to each channel.
        gamma: multiplies each channel.
        epsilon: added to variances.

    Returns:
        The normalised batch; and the means and the unbiased variances, averaged over the groups.
    """
    shape = tf.shape(image)
    fits = tf.debugging.Assert(tf.equal(shape[0] % size, 0), [f"{call}: {_rule(size)}. Examples:", shape[0]])
    with tf.control_dependencies([fits]):
        split = tf.concat([[shape[0] // size, size], shape[1:]], 0)
    stretches = tf.reshape(tf.cast(image, tf.float32), split)
    channel = code.index("C") + 1
    axes = [axis for axis in range(1, 5) if axis != channel]
    mean, variance = tf.nn.moments(stretches, axes, keepdims=True)
    form = [-1 if axis == channel else 1 for axis in range(5)]
    beta, gamma = tf.reshape(beta, form), tf.reshape(gamma, form)
    normal = tf.nn.batch_normalization(stretches, mean, variance, beta, gamma, epsilon)
    values = tf.cast(tf.reduce_prod(tf.gather(split, axes)), tf.float32)
    variance *= values / tf.maximum(values - 1, 1)
    mean, variance = (tf.reduce_mean(tf.squeeze(each, axes), 0) for each in (mean, variance))
    return tf.reshape(tf.cast(normal, image.dtype), shape), mean, variance


def _rule(size: int) -> str:
    return f"virtual_batch_size={size} must divide the batch"
