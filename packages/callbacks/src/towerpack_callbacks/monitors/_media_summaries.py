"""Encodes images and histograms as TensorFlow summaries, and decodes them; without a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from ..writing import PNG_CHANNELS, encode_png

__all__ = ["histogram_summary", "histograms_of", "image_summary", "images_of"]

_BINS = 64


def image_summary(name: str, images: Any) -> tf.Summary:
    """Makes a summary of one or more images, each as a PNG.

    Args:
        name: the tag; for several images, the prefix of the numbered tags.
        images: array of shape [height, width], [height, width, channels] or [number, height, width, channels]
            with 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA) channels, values in 0…255 of any number type;
            other values are clipped.

    Raises:
        TypeError: the values are no real numbers.
        ValueError: the shape is not one of these.
    """
    array = np.asarray(images)
    if array.dtype.kind not in "buif":
        raise TypeError(f"put_image({name!r}) takes an array of numbers in 0…255, received {array.dtype}.")
    batch = array[None, :, :, None] if array.ndim == 2 else array[None] if array.ndim == 3 else array
    if batch.ndim != 4 or not batch.size or batch.shape[3] not in PNG_CHANNELS:
        raise ValueError(
            f"put_image({name!r}) takes [height, width], [height, width, channels] or [number, height, "
            f"width, channels] with 1 to 4 channels, received shape {array.shape}."
        )
    if batch.dtype != np.uint8:
        batch = np.clip(np.nan_to_num(np.asarray(batch, np.float64)), 0, 255).round().astype(np.uint8)
    tags = [name] if len(batch) == 1 else [f"{name}/{number}" for number in range(len(batch))]
    return tf.Summary(value=[_image_value(tag, image) for tag, image in zip(tags, batch)])


def _image_value(tag: str, image: np.ndarray) -> Any:
    height, width, channels = image.shape
    encoded = tf.Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=encode_png(image)
    )
    return tf.Summary.Value(tag=tag, image=encoded)


def histogram_summary(name: str, values: Any) -> tf.Summary:
    """Makes a summary of the distribution of numbers, in 64 bins of equal width.

    Raises:
        TypeError: the values are no real numbers.
        ValueError: none of the values is finite.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "buif":
        raise TypeError(f"put_histogram({name!r}) takes an array of numbers, received {array.dtype}.")
    finite = array[np.isfinite(array)].astype(np.float64)
    if not finite.size:
        raise ValueError(
            f"put_histogram({name!r}) needs at least one finite number; received {array.size} non-finite "
            "ones."
        )
    counts, edges = np.histogram(finite, bins=_BINS)
    histogram = tf.HistogramProto(
        min=finite.min(),
        max=finite.max(),
        num=finite.size,
        sum=finite.sum(),
        sum_squares=np.square(finite).sum(),
        bucket_limit=edges[1:],
        bucket=counts,
    )
    return tf.Summary(value=[tf.Summary.Value(tag=name, histo=histogram)])


def images_of(summary: tf.Summary) -> Iterator[tuple[str, bytes]]:
    """Yields tags and encoded images of a summary; TensorFlow and `image_summary` encode as PNG."""
    for value in summary.value:
        if value.HasField("image"):
            yield value.tag, value.image.encoded_image_string


def histograms_of(summary: tf.Summary) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yields tags, counts [n] and edges [n + 1] of histograms; edges are within the range of the values."""
    for value in summary.value:
        if value.HasField("histo"):
            histogram = value.histo
            limits = np.clip(np.asarray(histogram.bucket_limit), histogram.min, histogram.max)
            yield value.tag, np.asarray(histogram.bucket), np.concatenate([[histogram.min], limits])
