"""The same operations in tf.data, with all settings chosen by AUTOTUNE."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from _images_files import paths
from _images_row import AREA, ASPECT, BATCH, COUNT, FACTORS, MEAN, SIZE, STD, Run, passes

GREY = np.asarray([0.299, 0.587, 0.114], np.float32)


def decode(path: str) -> np.ndarray:
    """A picture decoded with TensorFlow's default options."""
    import tensorflow as tf

    return tf.io.decode_jpeg(tf.io.read_file(path), 3).numpy()


def decode_halved(path: str) -> np.ndarray:
    """A picture of half the height and width, resized while it is decoded."""
    import tensorflow as tf

    return tf.io.decode_jpeg(tf.io.read_file(path), 3, ratio=2).numpy()


def whole(data: Any, ratio: int = 1) -> Any:
    """Decodes a file, and cuts a part out."""
    import tensorflow as tf

    image = tf.io.decode_jpeg(data, 3, ratio)
    begin, size = part(tf.shape(image))
    return tf.slice(image, begin, size)


def fused(data: Any) -> Any:
    """Decodes a part of a file."""
    import tensorflow as tf

    begin, size = part(tf.io.extract_jpeg_shape(data))
    return tf.io.decode_and_crop_jpeg(data, tf.concat([begin[:2], size[:2]], 0), 3)


def part(shape: Any) -> Any:
    """Where the random part of a picture begins, and how large it is."""
    import tensorflow as tf

    begin, size, _ = tf.image.sample_distorted_bounding_box(
        shape,
        tf.zeros([1, 0, 4]),
        min_object_covered=0.0,
        aspect_ratio_range=ASPECT,
        area_range=AREA,
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    return begin, size


def jittered(image: Any) -> Any:
    """Brightness, contrast and saturation, always in this order."""
    import tensorflow as tf

    def clipped(values: Any) -> Any:
        return tf.clip_by_value(values, 0.0, 255.0)

    def grey(values: Any) -> Any:
        return tf.tensordot(values, tf.constant(GREY), 1)

    factors = tf.random.uniform([3], *FACTORS)
    image = clipped(image * factors[0])
    mean = tf.reduce_mean(grey(image))
    image = clipped((image - mean) * factors[1] + mean)
    return clipped(image * factors[2] + grey(image)[:, :, None] * (1 - factors[2]))


def load(cut: Any, path: Any) -> Any:
    """A picture out of a file."""
    import tensorflow as tf

    image = tf.image.resize(cut(tf.io.read_file(path)), (SIZE, SIZE))
    image = jittered(tf.image.random_flip_left_right(image))
    return (image - 255 * MEAN) * (1 / (255 * STD))


def batches(folder: str, cut: Any = whole) -> Run:
    """A pass is one of a dataset that is made once."""
    import tensorflow as tf

    dataset = (
        tf.data.Dataset.from_tensor_slices(paths(folder, COUNT))
        .map(partial(load, cut), tf.data.AUTOTUNE, deterministic=False)
        .batch(BATCH, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )
    return passes(lambda: dataset)


def halved(folder: str) -> Run:
    """Decoded at half their height and width."""
    return batches(folder, partial(whole, ratio=2))


def cropped(folder: str) -> Run:
    """Decodes only the cropped part."""
    return batches(folder, fused)
