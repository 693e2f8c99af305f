"""Enlarge pictures, with more detail than interpolation gives: super-resolution.

    python super_resolution.py                 three times larger, on generated pictures
    python super_resolution.py --factor 2
    python super_resolution.py --data FOLDER --width 64 --epochs 200
                                               of any pictures, 96 pixels high and wide at least

The network receives the small picture, and computes all large pixels within one small pixel at once. It adds
a residual to a bicubic interpolation. The last line has the peak signal-to-noise ratios of both on held-out
pictures; `images/enlarged` in the log directory shows interpolation, network and truth side by side. After
Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional
Neural Network" (2016), arXiv:1609.05158; the residual blocks, and the sum with an interpolation, are those of
Sajjadi et al., "EnhanceNet" (2017), arXiv:1612.07919.
"""

import argparse

import tensorflow.compat.v1 as tf
from fine_pictures import SHOWN, make_flows
from running import run, train

from towerpack_callbacks import (
    InferenceRunner,
    MaxSaver,
    SampleGrid,
    ScalarStats,
    ScheduledHyperParamSetter,
    add_moving_summary,
)
from towerpack_dataflow import RepeatedData
from towerpack_layers import Conv2D, argscope
from towerpack_trainers import ModelDesc

BLOCKS = 3


class Enlarger(ModelDesc):
    """Enlarges pictures of any size.

    Args:
        factor: the ratio of sizes in each direction; a divisor of 48.
        width: channels.

    Raises:
        ValueError: the factor is no divisor of 48, or is 1.
    """

    def __init__(self, factor, width):
        if factor < 2 or SHOWN // 2 % factor:
            raise ValueError(f"factor is a divisor of {SHOWN // 2} from 2 on; received {factor}")
        self.factor, self.width = factor, width

    def inputs(self):
        return [tf.TensorSpec([None, None, None, 3], tf.uint8, name) for name in ("small", "large")]

    def build_graph(self, small, large):
        small, large = (tf.cast(picture, tf.float32) / 255 for picture in (small, large))
        wide = tf.shape(small)[1:3] * self.factor
        bicubic = tf.clip_by_value(tf.image.resize_bicubic(small, wide, half_pixel_centers=True), 0, 1)
        found = bicubic + self.detail(small - 0.5)
        tf.concat([bicubic, found, large], 2, name="beside")
        cost = tf.reduce_mean(tf.abs(found - large), name="cost")
        seen = tf.clip_by_value(found, 0, 1)
        psnr = tf.reduce_mean(tf.image.psnr(seen, large, 1.0), name="psnr_found")
        tf.reduce_mean(tf.image.psnr(bicubic, large, 1.0), name="psnr_bicubic")
        if self.training:
            add_moving_summary(cost, psnr)
        return cost

    def detail(self, x):
        """Returns the residual of the interpolation."""
        with argscope(Conv2D, kernel_size=3, activation=tf.nn.relu):
            x = Conv2D("conv0", x, self.width, 5)
            for number in range(BLOCKS):
                inner = Conv2D(f"block{number}_0", x, self.width)
                x += Conv2D(f"block{number}_1", inner, self.width, activation=None)
            # The network starts as the interpolation.
            zeros = tf.zeros_initializer()
            x = Conv2D("pixels", x, 3 * self.factor**2, activation=None, kernel_initializer=zeros)
        return tf.nn.depth_to_space(x, self.factor)

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.get_variable("learning_rate", initializer=1e-3, trainable=False))


def train_on(folder, options):
    """Trains, and returns the figure."""
    flow, held_out = make_flows(folder, options.factor, 16, options.workers)
    small, large = (part[:4] for part in next(iter(held_out)))
    last, shown = options.epochs, {"small": small, "large": large}
    callbacks = [
        InferenceRunner(held_out, ScalarStats(["psnr_found", "psnr_bicubic"])),
        MaxSaver("validation_psnr_found"),
        SampleGrid("beside", shown, len(small), 1, value_range=(0, 1), name="enlarged"),
        ScheduledHyperParamSetter("learning_rate", [(0, 1e-3), (0.6 * last, 5e-4), (0.85 * last, 1e-4)]),
    ]
    model = Enlarger(options.factor, options.width)
    monitors = train(model, RepeatedData(flow, -1), options, callbacks, steps_per_epoch=options.steps)
    reached, bicubic = (monitors.get_latest(f"validation_{name}") for name in ("psnr_found", "psnr_bicubic"))
    return f"PSNR {reached:.2f} dB; {bicubic:.2f} dB by bicubic interpolation"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--factor", type=int, default=3, help="how much larger; 3")
    parser.add_argument("--width", type=int, default=32, help="channels; 32")
    parser.add_argument("--steps", type=int, default=100, help="of an epoch; 100")
    run(train_on, __doc__, epochs=15, parser=parser)
