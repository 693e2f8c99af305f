"""Find edges, with a network that is supervised at several scales: holistically-nested edge detection.

    python hed.py                drawn shapes, no file needed
    python hed.py --data FOLDER --width 64 --unit 64 --epochs 100 --steps 1000
                                 photographs of BSDS500; FOLDER has its folder BSR

An image and its mask of edges are resized, rotated and mirrored together; only the image is changed in
brightness and contrast. After Xie and Tu, "Holistically-Nested Edge Detection" (2015), arXiv:1504.06375.
"""

import argparse
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf
from drawn_images import edge_image
from edge_measures import BestFMeasure, balanced_cross_entropy
from running import run, train

from towerpack_callbacks import (
    InferenceRunner,
    MaxSaver,
    SampleGrid,
    ScheduledHyperParamSetter,
    add_moving_summary,
)
from towerpack_dataflow import (
    AugmentImageComponent,
    AugmentImageComponents,
    BatchDataByShape,
    DataFromList,
    MapDataComponent,
    MultiProcessRunner,
    RepeatedData,
)
from towerpack_dataflow.augment import (
    Brightness,
    Contrast,
    CropTransform,
    Flip,
    ImageAugmentor,
    RandomResize,
    RotationAndCropValid,
)
from towerpack_dataflow.datasets import BSDS500
from towerpack_layers import Conv2D, MaxPooling, argscope, l2_regularizer, regularize_cost
from towerpack_trainers import ModelDesc, SmartInit

CONVOLUTIONS = [2, 2, 3, 3, 3]  # of each scale, as in VGG16


class CropMultiple(ImageAugmentor):
    """Crops the middle to multiples of `unit` pixels, so that all scales fit, and shapes come again."""

    def __init__(self, unit):
        self.unit = unit

    def get_transform(self, img):
        height, width = (size // self.unit * self.unit for size in img.shape[:2])
        top, left = (size % self.unit // 2 for size in img.shape[:2])
        return CropTransform(top, left, height, width)


class HED(ModelDesc):
    """The convolutions of VGG16, a map of edges at each of five scales, and their weighted mean."""

    def __init__(self, width):
        self.width = width

    def inputs(self):
        image = tf.TensorSpec([None, None, None, 3], tf.uint8, "image")
        return [image, tf.TensorSpec([None, None, None], tf.uint8, "edges")]

    def build_graph(self, image, edges):
        maps = self.maps(tf.cast(image, tf.float32) / 128 - 1)
        with argscope(Conv2D, kernel_initializer=tf.constant_initializer(1 / len(maps))):
            fused = Conv2D("fused", tf.concat(maps, 3), 1, 1, use_bias=False)
        tf.identity(tf.sigmoid(fused)[..., 0], name="probability")
        truth = tf.cast(edges, tf.float32)[..., None]
        losses = [balanced_cross_entropy(logits, truth) for logits in [*maps, fused]]
        cost = tf.add_n([*losses, regularize_cost(".*/W", l2_regularizer(1e-4))], name="cost")
        if self.training:
            add_moving_summary(cost, tf.identity(losses[-1], name="fused_loss"))
        return cost

    def maps(self, x):
        shape, maps = tf.shape(x)[1:3], []
        with argscope(Conv2D, kernel_size=3, activation=tf.nn.relu):
            for scale, count in enumerate(CONVOLUTIONS, 1):
                x = MaxPooling(f"pool{scale - 1}", x, 2) if scale > 1 else x
                for number in range(1, count + 1):
                    x = Conv2D(f"conv{scale}_{number}", x, min(self.width * 2 ** (scale - 1), 8 * self.width))
                logits = Conv2D(f"branch{scale}", x, 1, kernel_size=1, activation=None)
                maps.append(tf.image.resize_bilinear(logits, shape, half_pixel_centers=True))
        return maps

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.get_variable("learning_rate", initializer=3e-3, trainable=False))


def make_flows(images, held_out, unit, workers):
    """Creates the flows for training and evaluation, with batches of one shape each."""
    shapes = [RandomResize((0.7, 1.3), (0.7, 1.3), aspect_ratio_thres=0.15), RotationAndCropValid(90)]
    shapes += [CropMultiple(unit), Flip(horiz=True), Flip(vert=True)]
    flow = AugmentImageComponents(images, shapes, index=[0], masks_index=[1])
    flow = AugmentImageComponent(flow, [Brightness(40), Contrast((0.6, 1.4))])
    flow = BatchDataByShape(RepeatedData(MultiProcessRunner(flow, workers), -1), 8, idx=0)
    held_out = AugmentImageComponents(held_out, CropMultiple(16), index=[0], masks_index=[1])
    return flow, BatchDataByShape(held_out, 8, idx=0, remainder=True)


def drawn(count, shapes, seed):
    """Draws images, and masks of the edges in them."""
    rng = np.random.default_rng(seed)
    return DataFromList([list(edge_image(shapes[n % len(shapes)], rng)) for n in range(count)], shuffle=True)


def photographs(folder, name):
    """Reads images, and masks of the edges that more than half of the annotators drew."""
    return MapDataComponent(BSDS500(name, dir=folder), lambda share: (share > 0.5).astype(np.uint8), 1)


def train_on(folder, options):
    """Trains on the files in a folder, and returns the figure; pictures of edges go to `images/edges`."""
    if folder is None:
        images, held_out = drawn(200, [(96, 128)], seed=0), drawn(64, [(64, 80), (80, 64)], seed=1)
    else:
        images, held_out = photographs(folder, "train"), photographs(folder, "test")
    flow, held_out = make_flows(images, held_out, options.unit, options.workers)
    schedule = [(0, 3e-3), (options.epochs / 2, 1e-3), (0.8 * options.epochs, 3e-4)]
    shown = next(iter(held_out))[0]
    callbacks = [
        SampleGrid("probability", {"image": shown}, 1, len(shown), value_range=(0, 1), name="edges"),
        InferenceRunner(held_out, BestFMeasure()),
        MaxSaver("validation_f"),
        ScheduledHyperParamSetter("learning_rate", schedule),
    ]
    settings = {"steps_per_epoch": options.steps, "session_init": SmartInit(options.load)}
    monitors = train(HED(options.width), flow, options, callbacks, **settings)
    return f"F-measure {monitors.get_latest('validation_f'):.4f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=8, help="channels of the first scale; 8")
    parser.add_argument("--unit", type=int, default=16, help="images become multiples of it; 16")
    parser.add_argument("--steps", type=int, default=40, help="of an epoch; 40")
    parser.add_argument("--load", type=Path, help="weights to begin with: conv1_1/W and so on")
    run(train_on, __doc__, epochs=8, parser=parser)
