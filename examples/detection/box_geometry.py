"""Boxes as tensors: anchors, overlaps, predicted changes, and selections among many boxes.

Boxes are float32 rows of x0, y0, x1, y1, in pixels of the image; leading dimensions are images of a batch.
"""

import numpy as np
import tensorflow.compat.v1 as tf

# A change of 0.1 times the size of a box, or of its size by exp(0.2), is as large as an output of 1.
UNITS = [0.1, 0.1, 0.2, 0.2]
LARGEST = float(np.log(100 / 16))  # limit of a change of size; larger ones are not plausible


def make_anchors(size, stride, sides, ratios=(0.5, 1.0, 2.0)):
    """Returns boxes around the centre of each cell of a grid: float32 [rows * columns * kinds, 4].

    Args:
        size: height and width of the image, in pixels; a multiple of the stride.
        stride: of the grid, in pixels.
        sides: of a square with an anchor's area, in pixels.
        ratios: of heights to widths.

    Raises:
        ValueError: the size is no multiple of the stride.
    """
    if size % stride:
        raise ValueError(f"size is a multiple of the stride, {stride}; received {size}")
    kinds = [(side / ratio**0.5, side * ratio**0.5) for side in sides for ratio in ratios]
    halves = np.array([[-width, -height, width, height] for width, height in kinds]) / 2
    centres = np.arange(size // stride) * stride + stride / 2
    y, x = np.meshgrid(centres, centres, indexing="ij")
    return (np.stack([x, y, x, y], 2)[:, :, None] + halves).reshape(-1, 4).astype(np.float32)


def overlaps(first, second):
    """Returns the intersection over union of boxes: [batch, first, second]."""
    first, second = first[..., :, None, :], second[..., None, :, :]
    low, high = tf.maximum(first[..., :2], second[..., :2]), tf.minimum(first[..., 2:], second[..., 2:])
    shared = tf.reduce_prod(tf.maximum(high - low, 0), -1)
    areas = [tf.reduce_prod(boxes[..., 2:] - boxes[..., :2], -1) for boxes in (first, second)]
    return shared / tf.maximum(areas[0] + areas[1] - shared, 1e-6)


def centres_and_sizes(boxes):
    """Returns the centres of boxes, and their widths and heights, at least one pixel."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return (low + high) / 2, tf.maximum(high - low, 1)


def encode(boxes, references):
    """Encodes boxes as changes of reference boxes."""
    (centre, size), (old_centre, old_size) = map(centres_and_sizes, (boxes, references))
    return tf.concat([(centre - old_centre) / old_size, tf.log(size / old_size)], -1) / UNITS


def decode(changes, references, size):
    """Decodes changes of reference boxes to boxes, clipped to an image of `size` x `size` pixels."""
    centre, old_size = centres_and_sizes(references)
    changes *= UNITS
    centre += changes[..., :2] * old_size
    half = tf.exp(tf.minimum(changes[..., 2:], LARGEST)) * old_size / 2
    return tf.clip_by_value(tf.concat([centre - half, centre + half], -1), 0, float(size))


def choose(candidates, count):
    """Chooses candidates of each image at random.

    Args:
        candidates: bool [batch, number].
        count: the number of candidates to choose.

    Returns:
        Their indices, int32 [batch, count], and weights, float32 [batch, count]: 1, or 0 for padding where an
        image has fewer.
    """
    drawn = tf.random_uniform(tf.shape(candidates), 0.5, 1) * tf.cast(candidates, tf.float32)
    best, places = tf.math.top_k(drawn, count)
    return places, tf.cast(best > 0, tf.float32)


def suppress(boxes, scores, count, overlap, least=-np.inf):
    """Drops each box that overlaps another one of a higher score by more than a threshold.

    Args:
        boxes: [batch, number, 4].
        scores: [batch, number].
        count: the maximum number of boxes to keep in each image.
        overlap: the threshold.
        least: lower scores are dropped.

    Returns:
        Indices of boxes, int32 [batch, count], the highest score first, and bool [batch, count]: false for
        padding if an image has fewer.
    """

    def of_image(given):
        kept = tf.image.non_max_suppression(*given, count, overlap, least)
        missing = [[0, count - tf.shape(kept)[0]]]
        return tf.pad(kept, missing), tf.pad(tf.ones_like(kept, tf.bool), missing)

    kinds = tf.TensorSpec([count], tf.int32), tf.TensorSpec([count], tf.bool)
    return tf.map_fn(of_image, (boxes, scores), fn_output_signature=kinds)


def huber(found, wanted):
    """Returns the sum of the smooth L1 costs of differences: half their squares, linear above 1."""
    return tf.reduce_sum(tf.losses.huber_loss(wanted, found, reduction="none"), -1)


def mean_where(values, weights):
    """Returns the mean of the values with weight 1; 0 without such values."""
    return tf.reduce_sum(values * weights) / tf.maximum(tf.reduce_sum(weights), 1)
