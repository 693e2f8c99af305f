"""Estimate the motion of each pixel from one picture to the next: optical flow by FlowNet.

    python flownet.py                  generated pairs of pictures
    python flownet.py --correlation    compare features of one picture with nearby features of the other
    python flownet.py --data FOLDER --size 256 --width 64 --epochs 200
                                       files of FlyingChairs: NAME_img1, NAME_img2, NAME_flow.flo

The last line has the end-point error of held-out pairs, which is the mean distance between predicted and true
positions, and the same error without motion for comparison. In the log directory, `motion.png` shows some
pairs with their true and their predicted motion, in the colours of `wheel.png`; `motion.flo` has the
predicted motion of the first pair. After Dosovitskiy et al., "FlowNet: Learning Optical Flow with
Convolutional Networks" (2015), arXiv:1504.06852.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from motion_colours import motion_picture, wheel_picture
from motion_files import write_flo
from moved_pictures import make_flows
from running import run, train

from towerpack_callbacks import (
    Inferencer,
    InferenceRunner,
    MinSaver,
    ScalarStats,
    ScheduledHyperParamSetter,
    add_moving_summary,
)
from towerpack_dataflow.viz import save_grid
from towerpack_layers import Conv2D, Conv2DTranspose, argscope
from towerpack_trainers import ModelDesc

UNIT = 10.0  # pixels of motion that are an output of 1
REACH = 3  # features that a correlation looks to each side


def leaky(x):
    """A leaky rectifier with a slope of 0.1."""
    return tf.nn.leaky_relu(x, 0.1)


class FlowNet(ModelDesc):
    """Convolutions make features coarser, and others refine the motion, scale by scale.

    Args:
        size: height and width of the pictures, in pixels; a multiple of 16.
        width: channels of the first convolution.
        correlation: whether to compute the features of the two pictures separately and correlate them; else
            the first convolution receives both pictures.

    Raises:
        ValueError: the size is no multiple of 16.
    """

    def __init__(self, size, width, correlation):
        if size < 16 or size % 16:
            raise ValueError(f"size is a multiple of 16; received {size}")
        self.size, self.width, self.correlation = size, width, correlation

    def inputs(self):
        picture = [None, self.size, self.size, 3]
        return [
            tf.TensorSpec(picture, tf.uint8, "first"),
            tf.TensorSpec(picture, tf.uint8, "second"),
            tf.TensorSpec([*picture[:3], 2], tf.float32, "motion"),
        ]

    def build_graph(self, first, second, motion):
        found = self.find(*(tf.cast(picture, tf.float32) / 128 - 1 for picture in (first, second)))
        finest = UNIT * tf.image.resize_bilinear(found[-1], [self.size] * 2, half_pixel_centers=True)
        tf.identity(finest, name="found")
        error = tf.reduce_mean(tf.norm(finest - motion, axis=3), name="end_point_error")
        tf.reduce_mean(tf.norm(motion, axis=3), name="error_of_no_motion")
        # Coarse motion is compared with the mean of the true motion, and has a smaller weight.
        costs = [
            0.5 ** (len(found) - 1 - number) * end_point_cost(UNIT * scale, motion)
            for number, scale in enumerate(found)
        ]
        cost = tf.add_n(costs, name="cost")
        if self.training:
            add_moving_summary(cost, error)
        return cost

    def find(self, first, second):
        """Returns the motion in units, at strides of 16, 8, 4 and 2 pixels."""
        width = self.width
        with argscope(Conv2D, strides=2, activation=leaky):
            if self.correlation:
                both = tf.concat([first, second], 0)
                fine = Conv2D("conv1", both, width, 7)
                features = Conv2D("conv2", fine, 2 * width, 5)
                fine, scale4 = tf.split(fine, 2)[0], tf.split(features, 2)
                compared = leaky(correlate(*scale4))
                scale4 = Conv2D("merge", tf.concat([compared, scale4[0]], 3), 2 * width, 3, strides=1)
            else:
                fine = Conv2D("conv1", tf.concat([first, second], 3), width, 7)
                scale4 = Conv2D("conv2", fine, 2 * width, 5)
            scale8 = Conv2D("conv3_1", Conv2D("conv3", scale4, 4 * width, 3), 4 * width, 3, strides=1)
            scale16 = Conv2D("conv4_1", Conv2D("conv4", scale8, 8 * width, 3), 8 * width, 3, strides=1)
        return refine([scale16, scale8, scale4, fine], width)

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.get_variable("learning_rate", initializer=1e-3, trainable=False))


def correlate(first, second):
    """Returns the correlations of each position of the first features with nearby positions of the second.

    Args:
        first: [batch, rows, columns, channels].
        second: of the same shape.

    Returns:
        [batch, rows, columns, (2 * REACH + 1) ** 2], means over the channels of products.
    """
    rows, columns = first.shape[1:3]
    around = tf.pad(second, [[0, 0], [REACH, REACH], [REACH, REACH], [0, 0]])
    steps = range(2 * REACH + 1)
    others = [around[:, y : y + rows, x : x + columns] for y in steps for x in steps]
    return tf.stack([tf.reduce_mean(first * other, 3) for other in others], 3)


def refine(scales, width):
    """Returns the motion at each scale, from features and the motion at the coarser scale."""
    x, found = scales[0], []
    for number, skip in enumerate([*scales[1:], None]):
        found.append(Conv2D(f"motion{number}", x, 2, 3))
        if skip is not None:
            channels = max(4 * width // 2**number, width)
            wide = Conv2DTranspose(f"wide{number}", x, channels, 4, strides=2, activation=leaky)
            motion = Conv2DTranspose(f"wide_motion{number}", found[-1], 2, 4, strides=2)
            x = tf.concat([skip, wide, motion], 3)
    return found


def end_point_cost(found, motion):
    """Returns the mean distance from the true motion, at the scale of the prediction."""
    stride = motion.shape[1] // found.shape[1]
    wanted = tf.nn.avg_pool2d(motion, stride, stride, "VALID")
    return tf.reduce_mean(tf.sqrt(tf.reduce_sum((found - wanted) ** 2, 3) + 1e-4))


class ShownMotion(Inferencer):
    """Keeps the first pairs of an evaluation with the true and the predicted motion."""

    def _get_fetches(self):
        return ["first", "second", "motion", "found"]

    def _before_inference(self):
        self.shown = []

    def _on_fetches(self, values, batch_size):
        self.shown = self.shown or [part[:6] for part in values]

    def _after_inference(self):
        return {}

    def produces(self):
        return []

    def save(self, folder):
        """Writes `motion.png`, `wheel.png` and `motion.flo`."""
        rows = []
        for first, second, motion, found in zip(*self.shown):
            largest = max(float(np.linalg.norm(motion, axis=2).max()), 1e-6)
            rows.append(
                np.concatenate([first, second, *(motion_picture(m, largest) for m in (motion, found))], 1)
            )
        save_grid([np.concatenate(rows, 0)], folder / "motion.png")
        save_grid([wheel_picture(60)], folder / "wheel.png")
        write_flo(folder / "motion.flo", self.shown[3][0])


def train_on(folder, options):
    """Trains, and returns the figure."""
    flow, held_out = make_flows(folder, options.size, 1600, 16, options.workers)
    shown, last = ShownMotion(), options.epochs
    callbacks = [
        InferenceRunner(held_out, [ScalarStats(["end_point_error", "error_of_no_motion"]), shown]),
        MinSaver("validation_end_point_error"),
        ScheduledHyperParamSetter("learning_rate", [(0, 1e-3), (0.6 * last, 5e-4), (0.85 * last, 1e-4)]),
    ]
    model = FlowNet(options.size, options.width, options.correlation)
    monitors = train(model, flow, options, callbacks, steps_per_epoch=options.steps)
    shown.save(options.log_dir)
    error, none = (monitors.get_latest(f"validation_{n}") for n in ("end_point_error", "error_of_no_motion"))
    return f"end-point error {error:.4f} pixels; {none:.4f} if nothing moved"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--correlation", action="store_true", help="compare features at places nearby")
    parser.add_argument("--size", type=int, default=64, help="of pictures, a multiple of 16; 64")
    parser.add_argument("--width", type=int, default=16, help="channels of the first convolution; 16")
    parser.add_argument("--steps", type=int, default=100, help="of an epoch; 100")
    run(train_on, __doc__, epochs=15, parser=parser)
