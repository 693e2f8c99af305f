"""Filter each picture by a filter that a network generates from another input: dynamic filter networks.

    python dynamic_filter.py                 two photographs of scikit-learn, one of them held out
    python dynamic_filter.py --data FOLDER   photographs of BSDS500; FOLDER has its folder BSR

The data are a picture, an angle, and the picture filtered by a second derivative of a Gaussian in this
direction. A network computes the weights of a filter from the angle; each picture has its own filter. For
comparison, one filter for all angles is trained on the same pictures. The last line has the errors of both
for held-out pictures, at angles between those of the training; `images/beside` in the log directory shows
results and targets, and `images/filters` the filters.

After Jia et al., "Dynamic Filter Networks" (2016), arXiv:1605.09673; the turned filter is that of Freeman and
Adelson, "The Design and Use of Steerable Filters" (1991).
"""

import argparse
from importlib import resources

import cv2
import numpy as np
import tensorflow.compat.v1 as tf
from running import run, train

from towerpack_callbacks import (
    InferenceRunner,
    MinSaver,
    SampleGrid,
    ScalarStats,
    ScheduledHyperParamSetter,
    add_moving_summary,
)
from towerpack_dataflow import (
    BatchData,
    CacheData,
    DataFromList,
    MapData,
    MapDataComponent,
    MultiProcessRunner,
    RepeatedData,
)
from towerpack_dataflow.datasets import BSDS500
from towerpack_layers import FullyConnected
from towerpack_trainers import ModelDesc

SIZE, FILTER = 40, 9  # height and width, in pixels, of pictures and filters
SEEN = SIZE - FILTER + 1  # and of filtered pictures
SECTORS, TRAINED = 12, 0.8  # of the angles; the share of each, from its beginning, that is trained


def steered_filter(angle):
    """Returns the second derivative of a Gaussian in a direction.

    Args:
        angle: of the direction, in radians.
    """
    y, x = np.mgrid[-1 : 1 : FILTER * 1j, -1 : 1 : FILTER * 1j] * 2.7
    along = x * np.cos(angle) + y * np.sin(angle)
    return (0.9213 * (2 * along**2 - 1) * np.exp(-(x**2) - y**2)).astype(np.float32)


class Steer:
    """Cuts a part out of a gray picture, draws an angle, and filters the part.

    Args:
        begin: the start of the range of angles, as a fraction of a sector.
        end: the end of the range.
    """

    def __init__(self, begin, end):
        self.begin, self.end = begin, end

    def __call__(self, datapoint, rng):
        picture = datapoint[0]
        top, left = (rng.integers(size - SIZE + 1) for size in picture.shape)
        part = picture[top : top + SIZE, left : left + SIZE].astype(np.float32)
        part = (part - part.mean()) / (part.std() + 1)
        sector = rng.integers(SECTORS) + rng.uniform(self.begin, self.end)
        angle = np.float32(2 * np.pi * sector / SECTORS)
        around = FILTER // 2
        wanted = cv2.filter2D(part, -1, steered_filter(angle))[around:-around, around:-around]
        return [part, angle, wanted]


class DynamicFilter(ModelDesc):
    """Generates a filter from an angle, and applies it to a picture."""

    def inputs(self):
        part = tf.TensorSpec([None, SIZE, SIZE], tf.float32, "part")
        wanted = tf.TensorSpec([None, SEEN, SEEN], tf.float32, "wanted")
        return [part, tf.TensorSpec([None], tf.float32, "angle"), wanted]

    def build_graph(self, part, angle, wanted):
        filters = self.filters(angle)
        found = apply_filters(part, filters)
        one = tf.get_variable("one_filter", [1, FILTER, FILTER], initializer=tf.zeros_initializer())
        fixed = apply_filters(part, tf.tile(one, [tf.shape(part)[0], 1, 1]))
        tf.identity(filters[..., None], name="filters")
        tf.expand_dims(tf.concat([found, wanted], 2), 3, name="beside")
        error = tf.reduce_mean(tf.square(found - wanted), name="error")
        error_fixed = tf.reduce_mean(tf.square(fixed - wanted), name="error_fixed")
        tf.reduce_mean(tf.square(wanted), name="power")
        if self.training:
            add_moving_summary(error, error_fixed)
        # The costs have no variables in common, so their sum trains both separately.
        return tf.add(error, error_fixed, name="cost")

    def filters(self, angle):
        """Returns the filter of each angle: [N, FILTER, FILTER]."""
        x = tf.stack([tf.cos(angle), tf.sin(angle)], 1)
        x = FullyConnected("fc0", x, 64, activation=tf.nn.relu)
        x = FullyConnected("fc1", x, 128, activation=tf.nn.relu)
        x = FullyConnected("fc2", x, FILTER**2, kernel_initializer=tf.zeros_initializer())
        return tf.reshape(x, [-1, FILTER, FILTER])

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.get_variable("learning_rate", initializer=3e-3, trainable=False))


def apply_filters(pictures, filters):
    """Applies to each picture the filter of the same index: [N, H, W] and [N, h, w] to [N, H-h+1, W-w+1]."""
    # Pictures become channels, since a depthwise convolution has a separate filter for each channel.
    pictures, filters = (tf.transpose(several, [1, 2, 0]) for several in (pictures, filters))
    filtered = tf.nn.depthwise_conv2d(pictures[None], filters[..., None], [1, 1, 1, 1], "VALID")
    return tf.transpose(filtered[0], [2, 0, 1])


def photographs(folder):
    """Returns flows of gray pictures to train on, and of others."""
    if folder is not None:
        return [MapDataComponent(BSDS500(name, dir=folder), gray, 0) for name in ("train", "test")]
    # scikit-learn's reader needs Pillow.
    files = [resources.files("sklearn.datasets.images") / name for name in ("china.jpg", "flower.jpg")]
    return [DataFromList([[cv2.imread(str(file), cv2.IMREAD_GRAYSCALE)]]) for file in files]


def gray(picture):
    """Returns a picture in colour, RGB, as a gray one."""
    return cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)


def make_flows(folder, workers):
    """Creates the flows of batches for training and evaluation, with different angles."""
    training, test = (RepeatedData(flow, -1) for flow in photographs(folder))
    training = BatchData(MapData(training, Steer(0, TRAINED), rng=True), 32)
    test = RepeatedData(photographs(folder)[1], 320)
    test = CacheData(BatchData(MapData(test, Steer(TRAINED, 1), rng=True), 32))
    return MultiProcessRunner(training, workers), test


def train_on(folder, options):
    """Trains, and returns the figure."""
    flow, held_out = make_flows(folder, options.workers)
    part, angle, wanted = (array[:12] for array in next(iter(held_out)))
    inputs = {"part": part, "angle": angle, "wanted": wanted}
    last, names = options.epochs, ["error", "error_fixed", "power"]
    callbacks = [
        InferenceRunner(held_out, ScalarStats(names)),
        MinSaver("validation_error"),
        SampleGrid("beside", inputs, 3, 4, value_range=(-10, 10), name="beside"),
        SampleGrid("filters", {"angle": angle}, 3, 4, value_range=(-1, 1), name="filters"),
        ScheduledHyperParamSetter("learning_rate", [(0, 3e-3), (0.5 * last, 1e-3), (0.8 * last, 2e-4)]),
    ]
    monitors = train(DynamicFilter(), flow, options, callbacks, steps_per_epoch=options.steps)
    found, fixed, power = (monitors.get_latest(f"validation_{name}") for name in names)
    return f"error {found / power:.4f} of the power; {fixed / power:.4f} with one filter for all angles"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100, help="of an epoch; 100")
    run(train_on, __doc__, epochs=10, parser=parser)
