"""Sampling of images at given coordinates, for spatial transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import check_rank, layer_label
from ..registry._register_layer import register_layer

__all__ = ["ImageSample"]


# "repeat" is the name in Tensorpack.
_BORDERS = ("replicate", "repeat", "constant")


@register_layer(log_shape=True)
def ImageSample(x: Sequence[tf.Tensor], border_mode: str = "replicate") -> tf.Tensor:
    """Samples images at coordinates by bilinear interpolation between pixels.

    After Jaderberg et al., "Spatial Transformer Networks" (2015), arXiv:1506.02025. Gradients flow to the
    images and the coordinates.

    Args:
        x: list of two floating tensors: images of shape `[N, H, W, C]`, and coordinates of shape
            `[N, H', W', 2]`, as pairs of y and x in pixels: (1.0, 2.0) is the pixel of row 1 and column 2.
            Coordinates need at least 32 bits, also within `mixed_precision`: with 16 bits, large ones have no
            fraction.
        border_mode: the values outside of the images: `replicate` (or `repeat`, as in Tensorpack) for the
            nearest pixel of the border, or `constant` for zero.

    Returns:
        Tensor of shape `[N, H', W', C]`, of the images' dtype.

    Raises:
        TypeError: the input is not a list of two tensors, one of them is not floating, or the coordinates
            have 16 bits.
        ValueError: the `border_mode` is unknown, a tensor is not 4-D, or the shapes do not match.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import ImageSample
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     image = tf.reshape(tf.constant([1.0, 2.0, 3.0, 4.0]), [1, 2, 2, 1])
        ...     between = tf.constant([0.5, 0.5], shape=[1, 1, 1, 2])
        ...     print(session.run(ImageSample("sample", [image, between])).item())
        2.5
    """
    call = layer_label("ImageSample")
    images, coordinates = _check_inputs(call, x)
    if border_mode not in _BORDERS:
        raise ValueError(f"{call}: border_mode must be 'replicate' or 'constant', received {border_mode!r}.")
    inside = tf.clip_by_value(coordinates, 0, _last_pixel(images, coordinates.dtype))
    out = _interpolate(images, inside)
    if border_mode == "constant":
        # A coordinate changed by clipping was outside.
        is_inside = tf.reduce_all(tf.equal(inside, coordinates), -1, keepdims=True)
        out = tf.where_v2(is_inside, out, tf.zeros([], out.dtype))
    out.set_shape([images.shape[0], *coordinates.shape[1:3], images.shape[3]])
    return out


def _check_inputs(call: str, x: Any) -> tuple[tf.Tensor, tf.Tensor]:
    if not isinstance(x, (list, tuple)) or len(x) != 2:
        raise TypeError(
            f"{call}: the input must be a list of two tensors, images and coordinates, received "
            f"{type(x).__name__}."
        )
    for tensor in x:
        check_rank(call, tensor, 4)
        if not tensor.dtype.is_floating:
            raise TypeError(f"{call}: the inputs must be floating tensors, received {tensor.dtype.name}.")
    images, coordinates = x[0], _before_cast(x[1])
    if coordinates.dtype.size < 4:
        raise TypeError(
            f"{call}: the coordinates must be float32 or float64, received {coordinates.dtype.name}, which "
            "cannot represent fractions of pixels. Use tf.cast before computing them."
        )
    if not coordinates.shape.is_compatible_with([images.shape[0], None, None, 2]):
        raise ValueError(
            f"{call}: images of shape {images.shape} need coordinates of shape ({images.shape[0]}, height, "
            f"width, 2), received {coordinates.shape}."
        )
    return images, coordinates


def _before_cast(x: tf.Tensor) -> tf.Tensor:
    """Returns the float32 tensor before the cast of `mixed_precision`, or the tensor itself."""
    is_cast = x.op.type == "Cast" and x.op.inputs[0].dtype == tf.float32
    return x.op.inputs[0] if is_cast and x.dtype.size < 4 else x


def _last_pixel(images: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return tf.cast(tf.shape(images)[1:3] - 1, dtype)


def _interpolate(images: tf.Tensor, coordinates: tf.Tensor) -> tf.Tensor:
    """Returns the mean of the four pixels around each pair of coordinates, weighted by proximity."""
    low = tf.floor(coordinates)
    high = tf.minimum(low + 1, _last_pixel(images, coordinates.dtype))
    toward_high = coordinates - low
    (top, left), (bottom, right) = (tf.unstack(tf.cast(corner, tf.int32), axis=-1) for corner in (low, high))
    down, across = (tf.cast(part, images.dtype) for part in tf.split(toward_high, 2, -1))
    upper = (1 - across) * _pixels(images, top, left) + across * _pixels(images, top, right)
    lower = (1 - across) * _pixels(images, bottom, left) + across * _pixels(images, bottom, right)
    return (1 - down) * upper + down * lower


def _pixels(images: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    sizes = tf.shape(rows)
    count = tf.range(tf.shape(images)[0])
    # Stacking fails if the numbers of images and coordinates differ.
    numbers = tf.tile(tf.reshape(count, [-1, 1, 1]), tf.stack([1, sizes[1], sizes[2]]))
    return tf.gather_nd(images, tf.stack([numbers, rows, columns], axis=-1))
