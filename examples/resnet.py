"""Train a residual network: 18, 34, 50, 101 or 152 layers, with or without pre-activation.

    python resnet.py                              ResNet-18 on synthetic pictures, a few steps
    python resnet.py --depth 50 --size 224        another network, larger pictures
    python resnet.py --data path/to/pictures      a folder of pictures for each class

Names of variables are those of Tensorpack's ImageNet models. After He et al., "Deep Residual Learning for
Image Recognition" (2016), arXiv:1512.03385, with the stride in the 3 x 3 convolutions, and "Identity Mappings
in Deep Residual Networks" (2016), arXiv:1603.05027.
"""

import argparse
import logging
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import ModelSaver, add_moving_summary
from towerpack_dataflow import BatchData, DataFlow, DataFromArrays, DataFromList, MultiProcessMapData
from towerpack_layers import (
    BatchNorm,
    BNReLU,
    Conv2D,
    FullyConnected,
    GlobalAvgPooling,
    MaxPooling,
    argscope,
    l2_regularizer,
    regularize_cost,
)
from towerpack_trainers import ModelDesc, SyncMultiGPUTrainer, TrainConfig

# ---- the network


def norm(x):
    """Batch normalisation."""
    return BatchNorm("bn", x)


def zero_norm(x):
    """Batch normalisation whose scale begins at 0, so that a block begins as the identity."""
    return BatchNorm("bn", x, gamma_initializer=tf.zeros_initializer())


def basic(x, channels, stride, last):
    """Two 3 x 3 convolutions."""
    x = Conv2D("conv1", x, channels, 3, strides=stride)
    return Conv2D("conv2", x, channels, 3, activation=last)


def bottleneck(x, channels, stride, last):
    """A 3 x 3 convolution on a quarter of the channels that come out."""
    x = Conv2D("conv1", x, channels, 1)
    x = Conv2D("conv2", x, channels, 3, strides=stride)
    return Conv2D("conv3", x, 4 * channels, 1, activation=last)


BLOCKS = {
    18: (basic, [2, 2, 2, 2]),
    34: (basic, [3, 4, 6, 3]),
    50: (bottleneck, [3, 4, 6, 3]),
    101: (bottleneck, [3, 4, 23, 3]),
    152: (bottleneck, [3, 8, 36, 3]),
}


def residual(x, branch, stride, activation):
    """Adds what comes in to what a block made of it."""
    channels = branch.shape[-1]
    if stride > 1 or x.shape[-1] != channels:
        x = Conv2D("convshortcut", x, channels, 1, strides=stride, activation=activation)
    return x + branch


def stem(image):
    """The first convolution; pictures of less than 64 pixels keep their size."""
    if image.shape[1] < 64:
        return Conv2D("conv0", image, 64, 3)
    return MaxPooling("pool0", Conv2D("conv0", image, 64, 7, strides=2), 3, 2, padding="same")


def group_of_blocks(x, make_block, channels, count, stride, preact):
    """Blocks of one size; with pre-activation, all but the first of them normalise what comes in."""
    for index in range(count):
        step = 1 if index else stride
        with tf.variable_scope(f"block{index}"):
            if preact:
                inner = BNReLU("preact", x) if index else x
                x = residual(x, make_block(inner, channels, step, None), step, None)
            else:
                x = tf.nn.relu(residual(x, make_block(x, channels, step, zero_norm), step, norm))
    return BNReLU("bnlast", x) if preact else x


def resnet(image, depth, classes, preact=False):
    """Returns the logits of each class."""
    make_block, counts = BLOCKS[depth]
    with argscope(Conv2D, use_bias=False, activation=BNReLU):
        x = stem(image)
        for group, count in enumerate(counts):
            with tf.variable_scope(f"group{group}"):
                x = group_of_blocks(x, make_block, 64 * 2**group, count, 2 if group else 1, preact)
    return FullyConnected("linear", GlobalAvgPooling("gap", x), classes)


# ---- its training


class ResNet(ModelDesc):
    """A residual network, its loss and its optimizer."""

    def __init__(self, depth: int = 18, size: int = 32, classes: int = 10, preact: bool = False):
        self.depth, self.size, self.classes, self.preact = depth, size, classes, preact

    def inputs(self):
        return [
            tf.TensorSpec([None, self.size, self.size, 3], tf.uint8, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        image = tf.cast(image, tf.float32) / 127.5 - 1
        logits = resnet(image, self.depth, self.classes, self.preact)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        cost = tf.add(tf.reduce_mean(loss), regularize_cost(".*/W", l2_regularizer(1e-4)), name="cost")
        if self.training:
            correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
            add_moving_summary(cost, tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy"))
        return cost

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True)


def synthetic(size: int, classes: int) -> DataFlow:
    """Pictures of noise around the colour of their class: each of them can be told, and no file is needed."""
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (classes, 3))
    labels = rng.integers(0, classes, 256).astype(np.int32)
    noise = rng.normal(0, 32, (256, size, size, 3))
    images = np.clip(colours[labels][:, None, None] + noise, 0, 255).astype(np.uint8)
    return DataFromArrays([images, labels])


def pictures(folder: Path, size: int) -> DataFlow:
    """The pictures in the folders of a folder, each of which is a class; decoded by several processes."""
    from PIL import Image

    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    files = [[file, label] for label, path in enumerate(classes) for file in sorted(path.iterdir())]

    def read(datapoint):
        with Image.open(datapoint[0]) as image:
            pixels = np.asarray(image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR))
        return [pixels, np.int32(datapoint[1])]

    return MultiProcessMapData(DataFromList(files), 2, read)


def train(flow: DataFlow, model: ResNet, batch: int, steps: int | None, epochs: int) -> float:
    """Trains on all GPUs, or on the CPU; returns the last mean accuracy in training."""
    config = TrainConfig(
        model=model,
        dataflow=BatchData(flow, batch),
        callbacks=[ModelSaver(keep_last=1)],
        steps_per_epoch=steps,
        max_epoch=epochs,
        log_dir=f"train_log/resnet{model.depth}",
    )
    trainer = SyncMultiGPUTrainer(config)
    trainer.train()
    return trainer.monitors.get_latest("accuracy")


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="residual networks")
    parser.add_argument("--depth", type=int, choices=BLOCKS, default=18, help="number of layers")
    parser.add_argument("--preact", action="store_true", help="normalise before each convolution")
    parser.add_argument("--data", type=Path, help="a folder with a folder of pictures for each class")
    parser.add_argument("--size", type=int, default=32, help="height and width of the pictures")
    parser.add_argument("--batch", type=int, default=16, help="pictures in a step of one device")
    parser.add_argument("--steps", type=int, help="steps in an epoch; by default a pass over the data")
    parser.add_argument("--epochs", type=int, default=2, help="the last epoch")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    classes = len([path for path in args.data.iterdir() if path.is_dir()]) if args.data else 10
    flow = pictures(args.data, args.size) if args.data else synthetic(args.size, classes)
    model = ResNet(args.depth, args.size, classes, args.preact)
    print(f"accuracy in training {train(flow, model, args.batch, args.steps, args.epochs):.4f}")


if __name__ == "__main__":
    main()
