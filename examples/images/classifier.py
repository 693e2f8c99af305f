"""The common parts of the classifiers in this folder: inputs, cost, evaluation."""

from abc import abstractmethod

import tensorflow.compat.v1 as tf
from running import train

from towerpack_callbacks import ClassificationError, InferenceRunner, MinSaver, add_moving_summary
from towerpack_layers import l2_regularizer, regularize_cost
from towerpack_trainers import ModelDesc


class Classifier(ModelDesc):
    """Classifies square images of one size; a subclass defines `logits` and `optimizer`.

    Args:
        classes: number of classes.
        size: height and width of the images, in pixels.
        shares: whether labels are probabilities, float32 [batch, classes], instead of class indices.
        decay: weight of the squares of weights in the cost.
    """

    def __init__(self, classes=10, size=32, shares=False, decay=1e-4):
        self.classes, self.size, self.shares, self.decay = classes, size, shares, decay

    def inputs(self):
        label = tf.TensorSpec([None, self.classes], tf.float32, "label")
        return [
            tf.TensorSpec([None, self.size, self.size, 3], tf.uint8, "image"),
            label if self.shares else tf.TensorSpec([None], tf.int32, "label"),
        ]

    @abstractmethod
    def logits(self, image):
        """Returns the logits, [batch, classes], of images of uint8."""

    def build_graph(self, image, label):
        shares = label if self.shares else tf.one_hot(label, self.classes)
        logits = self.logits(image)
        wrong = self.wrong(logits, tf.argmax(shares, 1))
        loss = tf.nn.softmax_cross_entropy_with_logits_v2(labels=shares, logits=logits)
        decay = regularize_cost(".*/W", l2_regularizer(self.decay))
        cost = tf.add(tf.reduce_mean(loss), decay, name="cost")
        if self.training:
            add_moving_summary(cost, tf.reduce_mean(wrong, name="training_error"))
        return cost

    def wrong(self, logits, label):
        """Returns the evaluated tensor: 1 for each wrong answer."""
        return tf.cast(tf.not_equal(tf.argmax(logits, 1), label), tf.float32, name="incorrect_vector")


def train_classifier(model, flow, held_out, options, callbacks, inferencers=(), steps=None):
    """Trains, and returns the figure: the accuracy on held-out images.

    Args:
        model: a `Classifier`.
        flow: batches to train on, for each device.
        held_out: batches to evaluate with after each epoch.
        options: the options of `running`.
        callbacks: the schedule, and further callbacks of the script.
        inferencers: further statistics.
        steps: of an epoch; a pass over the flow if not given.
    """
    evaluation = InferenceRunner(held_out, [ClassificationError(), *inferencers])
    callbacks = [evaluation, MinSaver("validation_error"), *callbacks]
    monitors = train(model, flow, options, callbacks, steps_per_epoch=steps)
    return f"accuracy {1 - monitors.get_latest('validation_error'):.4f}"
