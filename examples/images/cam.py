"""Show the evidence for a class: class activation maps of a network with global average pooling.

    python cam.py --epochs 6

The score of a class is a weighted sum of the means of the last features, so the same sum over the features
is the contribution of each position. After Zhou et al., "Learning Deep Features for Discriminative
Localization" (2016), arXiv:1512.04150.
"""

import tensorflow.compat.v1 as tf
from located_shapes import ShapeClassifier, train_on_shapes
from running import run


class Activated(ShapeClassifier):
    """Computes the contribution of each position to the score of the best class."""

    def map_of(self, pixels):
        best = tf.argmax(self.scores, 1)
        weights = tf.gather(tf.transpose(self.weights), best)
        added = tf.einsum("nhwc,nc->nhw", self.features, weights)
        wide = tf.image.resize_bilinear(tf.nn.relu(added)[..., None], tf.shape(pixels)[1:3])
        return wide[..., 0]


if __name__ == "__main__":
    run(lambda folder, options: train_on_shapes(Activated(), folder, options), __doc__, epochs=6)
