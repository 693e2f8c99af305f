"""Read rotated, scaled and shifted digits with a network that straightens them first.

    python spatial_transformer.py            with the transformer
    python spatial_transformer.py --plain    without it, to compare
    python spatial_transformer.py --data FOLDER --epochs 3    on MNIST; downloads missing files

A small network receives the whole image and predicts the part to sample; its gradient passes through
`ImageSample`. After Jaderberg et al., "Spatial Transformer Networks" (2015), arXiv:1506.02025.
"""

import argparse

import cv2
import numpy as np
import tensorflow.compat.v1 as tf
from classifier import Classifier, train_classifier
from handwritten import read_digits
from running import run

from towerpack_callbacks import SampleGrid, ScheduledHyperParamSetter
from towerpack_dataflow import (
    AugmentImageComponent,
    BatchData,
    CacheData,
    MapDataComponent,
    MultiProcessRunner,
)
from towerpack_dataflow.augment import (
    ConstantBackgroundFiller,
    RandomPaste,
    RandomResize,
    Rotation,
    SaltPepperNoise,
)
from towerpack_layers import Conv2D, FullyConnected, ImageSample, MaxPooling, argscope

SIZE, SEEN = 48, 20  # height and width, in pixels, of the image and of the sampled part


def large(digit):
    """Returns a digit as an image of three equal channels, 24 pixels high."""
    wide = cv2.resize(digit, (24, 24), interpolation=cv2.INTER_LINEAR)
    return np.repeat((255 * wide).astype(np.uint8)[:, :, None], 3, 2)


def make_flows(folder, workers):
    """Creates the flows for training and evaluation, with the same augmentation."""
    augmentors = [
        Rotation(45, center_range=(0.5, 0.5), border=cv2.BORDER_CONSTANT),
        RandomResize((0.6, 1.2), (0.6, 1.2)),
        RandomPaste((SIZE, SIZE), ConstantBackgroundFiller(0)),
        SaltPepperNoise(white_prob=0.01, black_prob=0.01),
    ]
    training, test = (MapDataComponent(read_digits(folder, name), large, 0) for name in ("train", "test"))
    training = BatchData(AugmentImageComponent(training, augmentors), 64)
    test = BatchData(AugmentImageComponent(test, augmentors), 64, remainder=True)
    return MultiProcessRunner(training, workers), CacheData(test)


class Straightened(Classifier):
    """A localisation network, a sampler, and a classifier of the sampled part."""

    def __init__(self, plain):
        super().__init__(size=SIZE)
        self.plain = plain

    def build_graph(self, image, label):
        cost = super().build_graph(image, label)
        # No other gradient brings back a part that has left the image.
        return cost if self.plain else cost + 0.03 * tf.reduce_mean(tf.square(self.moved))

    def logits(self, image):
        x = tf.cast(image, tf.float32)[..., :1] / 255
        seen = tf.image.resize_bilinear(x, [SEEN, SEEN]) if self.plain else self.straightened(x)
        tf.identity(seen, name="seen")
        with argscope(Conv2D, kernel_size=3, activation=tf.nn.relu):
            seen = MaxPooling("pool0", Conv2D("conv0", seen, 16), 2)
            seen = MaxPooling("pool1", Conv2D("conv1", seen, 32), 2)
        hidden = FullyConnected("hidden", seen, 64, activation=tf.nn.relu)
        return FullyConnected("linear", hidden, self.classes)

    def straightened(self, x):
        """Samples a grid placed by a predicted affine map, initially in the middle of the image."""
        with tf.variable_scope("where"), argscope(Conv2D, kernel_size=5, activation=tf.nn.relu):
            y = MaxPooling("pool0", Conv2D("conv0", x, 16), 2)
            y = MaxPooling("pool1", Conv2D("conv1", y, 16), 2)
            y = MaxPooling("pool2", Conv2D("conv2", y, 16), 2)
            y = FullyConnected("hidden", y, 64, activation=tf.nn.relu)
            self.moved = FullyConnected("affine", y, 6, kernel_initializer=tf.zeros_initializer())
        affine = self.moved + tf.constant([0.7, 0, 0, 0, 0.7, 0])
        line = np.linspace(-1, 1, SEEN)
        grid = np.stack([*np.meshgrid(line, line, indexing="ij"), np.ones((SEEN, SEEN))], 2).reshape(-1, 3)
        places = tf.einsum("nij,pj->npi", tf.reshape(affine, [-1, 2, 3]), tf.constant(grid, tf.float32))
        places = tf.reshape((places + 1) * (SIZE - 1) / 2, [-1, SEEN, SEEN, 2])
        return ImageSample("sample", [x, places], border_mode="constant")

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.get_variable("learning_rate", initializer=1e-3, trainable=False))


def train_on(folder, options):
    """Trains, and returns the figure; writes pictures of sampled parts to `images/seen`."""
    flow, held_out = make_flows(folder, options.workers)
    image, label = (array[:36] for array in next(iter(held_out)))
    callbacks = [
        ScheduledHyperParamSetter("learning_rate", [(0, 1e-3), (0.7 * options.epochs, 2e-4)]),
        SampleGrid("seen", {"image": image, "label": label}, 6, 6, value_range=(0, 1)),
    ]
    return train_classifier(Straightened(options.plain), flow, held_out, options, callbacks)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--plain", action="store_true", help="classify the whole image, made smaller")
    run(train_on, __doc__, epochs=40, parser=parser)
