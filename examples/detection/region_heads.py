"""The second stage: class, box and mask of the object in a region."""

import tensorflow.compat.v1 as tf
from box_geometry import choose, decode, encode, huber, mean_where, overlaps, suppress

from towerpack_layers import Conv2D, Conv2DTranspose, FullyConnected

MASK = 28  # height and width of a predicted mask
OBJECTS, OTHERS = 8, 16  # regions of each image that count in the cost
FOUND = 12  # maximum number of detections in an image


def align(features, boxes, size, stride):
    """Samples features on a grid of `size` x `size` cells in each box: ROIAlign.

    Each cell is the mean of four samples, and each sample lies between the centres of four features, whose
    centres lie in the middle of `stride` pixels.

    Args:
        features: [batch, rows, columns, channels].
        boxes: [batch, number, 4], in pixels.
        size: cells in each direction.
        stride: of the features, in pixels.

    Returns:
        [batch * number, size, size, channels].
    """
    number, samples = boxes.shape[1], 2 * size
    corners = tf.reshape(boxes, [-1, 4]) / stride
    step = (corners[:, 2:] - corners[:, :2]) / samples
    # The first and the last sample lie half a step inside of the box; the first feature lies at 0.5.
    first, last = corners[:, :2] + step / 2 - 0.5, corners[:, 2:] - step / 2 - 0.5
    whole = tf.constant([features.shape[2] - 1, features.shape[1] - 1], tf.float32)
    ends = tf.concat([(first / whole)[:, ::-1], (last / whole)[:, ::-1]], 1)
    images = tf.repeat(tf.range(tf.shape(boxes)[0]), number)
    sampled = tf.image.crop_and_resize(features, ends, images, [samples, samples])
    return tf.nn.avg_pool2d(sampled, 2, 2, "VALID")


def classify(regions, count, classes):
    """Returns the logits of regions, [batch, count, classes], and the changes of their boxes for each class.

    Args:
        regions: features, [batch * count, rows, columns, channels].
        count: regions of an image.
        classes: with the background, which is 0.

    Returns:
        Logits, and [batch, count, classes - 1, 4].
    """
    with tf.variable_scope("box_head"):
        hidden = FullyConnected("hidden", regions, 128, activation=tf.nn.relu)
        logits = FullyConnected("logits", hidden, classes)
        changes = FullyConnected("changes", hidden, 4 * (classes - 1))
    return tf.reshape(logits, [-1, count, classes]), tf.reshape(changes, [-1, count, classes - 1, 4])


def segment(regions, count, labels, classes):
    """Returns the logits of the masks of regions for one class each: [batch, count, MASK, MASK].

    Args:
        regions: features, [batch * count, MASK / 2, MASK / 2, channels].
        count: regions of an image.
        labels: classes, from 1, int32 [batch, count].
        classes: with the background.
    """
    with tf.variable_scope("mask_head"):
        for number in range(2):
            regions = Conv2D(f"conv{number}", regions, 32, 3, activation=tf.nn.relu)
        regions = Conv2DTranspose("wide", regions, 32, 2, strides=2, activation=tf.nn.relu)
        logits = Conv2D("logits", regions, classes - 1, 1)
    logits = tf.transpose(tf.reshape(logits, [-1, count, MASK, MASK, classes - 1]), [0, 1, 4, 2, 3])
    return tf.gather(logits, tf.maximum(labels - 1, 0), batch_dims=2)


def sample_regions(proposals, boxes, labels):
    """Draws regions for the cost: of objects first, then of the background.

    The boxes of the objects are among the proposals, so that the heads train from the start.

    Args:
        proposals: [batch, number, 4].
        boxes: of objects, [batch, objects, 4].
        labels: classes of objects, int32 [batch, objects].

    Returns:
        Regions, [batch, OBJECTS + OTHERS, 4]; their weights, 0 or 1, of this shape without the last; their
        classes; and the nearest object of each.
    """
    regions = tf.concat([proposals, boxes], 1)
    shared = overlaps(regions, boxes)
    nearest = tf.argmax(shared, 2, output_type=tf.int32)
    there = tf.reduce_any(regions[..., 2:] > regions[..., :2], 2)
    objects = tf.reduce_max(shared, 2) >= 0.5
    drawn = [choose(objects, OBJECTS), choose(~objects & there, OTHERS)]
    places, weights = (tf.concat(parts, 1) for parts in zip(*drawn))
    nearest = tf.gather(nearest, places, batch_dims=1)
    is_object = tf.concat([tf.ones_like(drawn[0][0]), tf.zeros_like(drawn[1][0])], 1)
    classes = tf.gather(labels, nearest, batch_dims=1) * is_object
    return tf.gather(regions, places, batch_dims=1), weights, classes, nearest


def box_cost(logits, changes, regions, weights, classes, wanted):
    """Returns the cost of classes, and of the boxes of objects.

    Args:
        logits: [batch, number, classes].
        changes: [batch, number, classes - 1, 4].
        regions: [batch, number, 4].
        weights: [batch, number].
        classes: int32 [batch, number].
        wanted: the boxes of the nearest objects, [batch, number, 4].
    """
    class_cost = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits)
    own = tf.gather(changes, tf.maximum(classes - 1, 0), batch_dims=2)
    objects = weights * tf.cast(classes > 0, tf.float32)
    return mean_where(class_cost, weights), mean_where(huber(own, encode(wanted, regions)), objects)


def mask_cost(logits, weights, regions, instances, nearest):
    """Returns the cost of the masks of objects, each compared within its region.

    Args:
        logits: [batch, number, MASK, MASK].
        weights: [batch, number].
        regions: [batch, number, 4].
        instances: 1 + the number of the object of each pixel, int32 [batch, height, width].
        nearest: the number of the object of each region, int32 [batch, number].
    """
    height, width = instances.shape[1:]
    own = tf.cast(tf.equal(instances[:, None], nearest[..., None, None] + 1), tf.float32)
    own = tf.reshape(own, [-1, height, width, 1])
    wanted = align(own, tf.reshape(regions, [-1, 1, 4]), MASK, 1)
    wanted = tf.cast(tf.reshape(wanted, [-1, *logits.shape[1:]]) >= 0.5, tf.float32)
    cost = tf.nn.sigmoid_cross_entropy_with_logits(labels=wanted, logits=logits)
    return mean_where(tf.reduce_mean(cost, [2, 3]), weights)


def find(logits, changes, proposals, size):
    """Returns the detections of each image; boxes of one class do not overlap much.

    Args:
        logits: [batch, number, classes].
        changes: [batch, number, classes - 1, 4].
        proposals: [batch, number, 4].
        size: height and width of the image.

    Returns:
        Boxes, [batch, FOUND, 4], their scores, 0 for those that pad, and their classes, from 1.
    """
    number, kinds = changes.shape[1:3]
    there = tf.cast(tf.reduce_any(proposals[..., 2:] > proposals[..., :2], 2), tf.float32)
    scores = tf.reshape(tf.nn.softmax(logits)[..., 1:] * there[..., None], [-1, number * kinds])
    boxes = tf.reshape(decode(changes, proposals[:, :, None], size), [-1, number * kinds, 4])
    classes = tf.tile(tf.range(1, kinds + 1), [number])
    # Boxes of different classes are moved apart, so that they do not overlap.
    apart = boxes + 2 * size * tf.cast(classes, tf.float32)[:, None]
    kept, valid = suppress(apart, scores, FOUND, overlap=0.5, least=0.05)
    scores = tf.gather(scores, kept, batch_dims=1) * tf.cast(valid, tf.float32)
    return tf.gather(boxes, kept, batch_dims=1), scores, tf.gather(classes, kept)
