"""Show the pixels that determine a prediction: guided backpropagation of the score of a class.

    python saliency.py --epochs 6

The gradient of the score passes backwards through a rectifier where both the gradient and the rectifier's
input are positive. After Springenberg et al., "Striving for Simplicity: The All Convolutional Net" (2015),
arXiv:1412.6806.
"""

import tensorflow.compat.v1 as tf
from located_shapes import ShapeClassifier, train_on_shapes
from running import run


@tf.custom_gradient
def guided_relu(x):
    """A rectifier that passes back only positive gradients of positive inputs."""

    def send_back(gradient):
        return tf.where((x > 0) & (gradient > 0), gradient, tf.zeros_like(gradient))

    return tf.nn.relu(x), send_back


class Guided(ShapeClassifier):
    """Computes the pixels that increase the score of the best class."""

    def rectifier(self, x):
        return super().rectifier(x) if self.training else guided_relu(x)

    def map_of(self, pixels):
        (gradient,) = tf.gradients(tf.reduce_max(self.scores, 1), pixels)
        return tf.reduce_max(tf.abs(gradient), 3)


if __name__ == "__main__":
    run(lambda folder, options: train_on_shapes(Guided(), folder, options), __doc__, epochs=6)
