"""Images of one shape each with a known position, for the evaluation of saliency maps."""

import numpy as np
import tensorflow.compat.v1 as tf
from classifier import Classifier
from drawn_images import NAMES, background, draw, noisy
from running import train

from towerpack_callbacks import ClassificationError, Inferencer, InferenceRunner, SampleGrid
from towerpack_dataflow import BatchData, DataFromList
from towerpack_layers import BatchNorm, Conv2D, FullyConnected, GlobalAvgPooling, MaxPooling, argscope


def located_image(label, rng, size=48):
    """Returns an image of a shape, its label, and a mask of its bounding box with a margin of 2 pixels."""
    image = background((size, size), rng)
    rows, columns = np.nonzero(draw(image, NAMES[label], size * rng.uniform(0.18, 0.28), rng))
    inside = np.zeros((size, size), np.uint8)
    inside[max(rows.min() - 2, 0) : rows.max() + 3, max(columns.min() - 2, 0) : columns.max() + 3] = 1
    return [noisy(image, rng), label, inside]


def make_flows(count=2000, held_out=200):
    """Draws images, and creates the flows of batches for training and evaluation."""
    rng = np.random.default_rng(0)
    drawn = [located_image(number % len(NAMES), rng) for number in range(count + held_out)]
    training, test = DataFromList(drawn[held_out:], shuffle=True), DataFromList(drawn[:held_out])
    return BatchData(training, 64), BatchData(test, 64, remainder=True)


class ShapeClassifier(Classifier):
    """Classifies shapes by four convolutions and global average pooling; a subclass defines `map_of`."""

    def __init__(self):
        super().__init__(classes=len(NAMES), size=48)

    def inputs(self):
        return [*super().inputs(), tf.TensorSpec([None, self.size, self.size], tf.uint8, "inside")]

    def build_graph(self, image, label, inside=None):
        self.pixels = tf.cast(image, tf.float32) / 128 - 1
        cost = super().build_graph(self.pixels, label)
        if not self.training:
            found = tf.identity(self.map_of(self.pixels), name="found")
            shown = found / (tf.reduce_max(found, [1, 2], keepdims=True) + 1e-9)
            heat = tf.stack([shown] * 3, 3)
            tf.concat([(self.pixels + 1) / 2, heat], 2, name="beside")  # the image, and its map
        return cost

    def logits(self, image):
        with argscope(Conv2D, kernel_size=3, use_bias=False, activation=self.activation):
            x = MaxPooling("pool0", Conv2D("conv0", image, 16), 2)
            x = MaxPooling("pool1", Conv2D("conv1", x, 32), 2)
            x = Conv2D("conv2", x, 64)
            self.features = Conv2D("conv3", x, 64)
        linear = FullyConnected("linear", GlobalAvgPooling("gap", self.features), self.classes)
        self.weights, self.scores = linear.variables.W, linear
        return linear

    def activation(self, x):
        """The activation of the convolutions."""
        return self.rectifier(BatchNorm("bn", x))

    def rectifier(self, x):
        """A rectifier."""
        return tf.nn.relu(x)

    def map_of(self, pixels):
        """Returns the saliency of each pixel for the predicted class: [batch, height, width], at least 0."""
        raise NotImplementedError

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.get_variable("learning_rate", initializer=3e-3, trainable=False))


class ShareInside(Inferencer):
    """Computes the share of the maps inside the boxes, and the share of pixels inside the boxes."""

    def _get_fetches(self):
        return ["found", "inside"]

    def _before_inference(self):
        self.shares, self.areas = [], []

    def _on_fetches(self, values, batch_size):
        found, inside = values
        total = found.sum((1, 2)) + 1e-9
        self.shares += list((found * inside).sum((1, 2)) / total)
        self.areas += list(inside.mean((1, 2)))

    def _after_inference(self):
        return {"share_inside": float(np.mean(self.shares)), "area_inside": float(np.mean(self.areas))}

    def produces(self):
        return ["share_inside", "area_inside"]


def train_on_shapes(model, folder, options):
    """Trains, and returns the figure; pictures of images and their maps go to `images/maps`."""
    if folder is not None:
        raise SystemExit(f"received --data {folder}; the boxes are known of drawn images alone: leave it out")
    flow, held_out = make_flows()
    image, label, inside = (array[:16] for array in next(iter(held_out)))
    shown = {"image": image, "label": label, "inside": inside}
    callbacks = [
        InferenceRunner(held_out, [ClassificationError(), ShareInside()]),
        SampleGrid("beside", shown, 4, 4, value_range=(0, 1), name="maps"),
    ]
    monitors = train(model, flow, options, callbacks)
    share, area, error = map(monitors.get_latest, ("share_inside", "area_inside", "validation_error"))
    return f"share in the box {share:.4f}, whose area is {area:.4f}; accuracy {1 - error:.4f}"
