"""The first stage: a network that predicts, for each anchor, an object score and a box."""

import tensorflow.compat.v1 as tf
from box_geometry import choose, decode, encode, huber, mean_where, overlaps, suppress

from towerpack_layers import Conv2D

SURE, NONE = 0.6, 0.3  # minimum overlap of positive anchors, and maximum overlap of negative ones
SAMPLED = 32  # anchors of each image that count in the cost, of objects and of the background each
CONSIDERED = 200  # anchors with the highest scores, among which proposals are chosen


def score_anchors(features, kinds):
    """Returns the logits of all anchors, [batch, anchors], and changes of their boxes, [batch, anchors, 4].

    Args:
        features: [batch, rows, columns, channels].
        kinds: the number of anchors at each position.
    """
    with tf.variable_scope("rpn"):
        hidden = Conv2D("hidden", features, 64, 3, activation=tf.nn.relu)
        logits = Conv2D("logits", hidden, kinds, 1)
        changes = Conv2D("changes", hidden, 4 * kinds, 1)
    anchors = features.shape[1] * features.shape[2] * kinds
    return tf.reshape(logits, [-1, anchors]), tf.reshape(changes, [-1, anchors, 4])


def label_anchors(anchors, boxes):
    """Returns the positive and the negative anchors; anchors with overlaps in between are neither.

    The anchor with the largest overlap with an object is also positive.

    Args:
        anchors: [anchors, 4].
        boxes: of objects, [batch, objects, 4]; those that pad have no area.

    Returns:
        bool [batch, anchors], bool [batch, anchors], and the nearest object of each anchor, int64
        [batch, anchors].
    """
    shared = overlaps(tf.constant(anchors)[None], boxes)
    nearest = tf.reduce_max(shared, 2)
    best = tf.reduce_max(shared, 1, keepdims=True)
    alone = tf.reduce_any((shared >= best) & (best > 0.1), 2)
    objects = (nearest >= SURE) | alone
    return objects, (nearest < NONE) & ~objects, tf.argmax(shared, 2)


def proposal_cost(logits, changes, anchors, boxes):
    """Returns the cost of logits, and of changes at positive anchors, over sampled anchors."""
    objects, others, nearest = label_anchors(anchors, boxes)
    drawn = [choose(objects, SAMPLED), choose(others, SAMPLED)]
    places, counts = (tf.concat(parts, 1) for parts in zip(*drawn))
    truth = tf.concat([drawn[0][1], tf.zeros_like(drawn[1][1])], 1)
    scores = tf.gather(logits, places, batch_dims=1)
    score_cost = mean_where(tf.nn.sigmoid_cross_entropy_with_logits(labels=truth, logits=scores), counts)
    places, counts = drawn[0]
    wanted = tf.gather(boxes, tf.gather(nearest, places, batch_dims=1), batch_dims=1)
    wanted = encode(wanted, tf.gather(tf.constant(anchors), places))
    return score_cost, mean_where(huber(tf.gather(changes, places, batch_dims=1), wanted), counts)


def propose(logits, changes, anchors, size, count):
    """Returns the boxes of the anchors with the highest scores that do not overlap each other much.

    Args:
        logits: [batch, anchors].
        changes: [batch, anchors, 4].
        anchors: [anchors, 4].
        size: height and width of the image.
        count: the number of proposals of each image.

    Returns:
        [batch, count, 4]; those that pad are empty. No gradient goes through them.
    """
    scores, places = tf.math.top_k(logits, CONSIDERED)
    references = tf.gather(tf.constant(anchors), places)
    boxes = decode(tf.gather(changes, places, batch_dims=1), references, size)
    kept, valid = suppress(boxes, scores, count, overlap=0.7)
    boxes = tf.gather(boxes, kept, batch_dims=1) * tf.cast(valid, tf.float32)[..., None]
    return tf.stop_gradient(boxes)
