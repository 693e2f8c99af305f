"""Measures of detected edges: the cost in training, and the F-measure of precision and recall."""

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Inferencer


def balanced_cross_entropy(logits, truth):
    """Returns the class-balanced cross entropy: the few edges have the same weight as all other pixels."""
    share = tf.reduce_mean(truth)
    weight = truth * (1 - share) + (1 - truth) * share
    return tf.reduce_mean(weight * tf.nn.sigmoid_cross_entropy_with_logits(labels=truth, logits=logits))


class BestFMeasure(Inferencer):
    """Computes the F-measure, pixel by pixel, at the one threshold that is best for all images.

    The model has the tensors `probability` and `edges`, of one shape; thresholds are multiples of 0.01.
    """

    def _get_fetches(self):
        return ["probability", "edges"]

    def _before_inference(self):
        self.counts = np.zeros((2, 100), int)

    def _on_fetches(self, values, batch_size):
        probability, edges = values
        bins = np.minimum((probability * 100).astype(int), 99)
        self.counts += [np.bincount(bins[edges == truth], minlength=100) for truth in (0, 1)]

    def _after_inference(self):
        wrong, right = np.cumsum(self.counts[:, ::-1], 1)
        return {"validation_f": float(np.max(2 * right / (right + wrong + right[-1])))}

    def produces(self):
        return ["validation_f"]
