"""Residual networks: of 18, 34, 50, 101 or 152 layers for ImageNet, and of 6n + 2 layers for CIFAR.

Names of variables are those of Tensorpack's ImageNet models. After He et al., "Deep Residual Learning for
Image Recognition" (2016), arXiv:1512.03385, with the stride in the 3 x 3 convolutions, and "Identity Mappings
in Deep Residual Networks" (2016), arXiv:1603.05027.
"""

import tensorflow.compat.v1 as tf

from towerpack_layers import (
    BatchNorm,
    BNReLU,
    Conv2D,
    FullyConnected,
    GlobalAvgPooling,
    MaxPooling,
    argscope,
)


def norm(x):
    """Batch normalisation."""
    return BatchNorm("bn", x)


def zero_norm(x):
    """Batch normalisation with an initial scale of 0, so that a block starts as the identity."""
    return BatchNorm("bn", x, gamma_initializer=tf.zeros_initializer())


def basic(x, channels, stride, last):
    """Two 3 x 3 convolutions."""
    x = Conv2D("conv1", x, channels, 3, strides=stride)
    return Conv2D("conv2", x, channels, 3, activation=last)


def bottleneck(x, channels, stride, last):
    """A 3 x 3 convolution on a quarter of the output channels."""
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
    """Adds the input of a block to its output."""
    channels = branch.shape[-1]
    if stride > 1 or x.shape[-1] != channels:
        x = Conv2D("convshortcut", x, channels, 1, strides=stride, activation=activation)
    return x + branch


def stem(image, channels):
    """The first convolution; pictures of less than 64 pixels keep their size."""
    if image.shape[1] < 64:
        return Conv2D("conv0", image, channels, 3)
    return MaxPooling("pool0", Conv2D("conv0", image, channels, 7, strides=2), 3, 2, padding="same")


def group_of_blocks(x, make_block, channels, count, stride, preact):
    """Blocks of one size; with pre-activation, all but the first normalise their input."""
    for index in range(count):
        step = 1 if index else stride
        with tf.variable_scope(f"block{index}"):
            if preact:
                inner = BNReLU("preact", x) if index else x
                x = residual(x, make_block(inner, channels, step, None), step, None)
            else:
                x = tf.nn.relu(residual(x, make_block(x, channels, step, zero_norm), step, norm))
    return BNReLU("bnlast", x) if preact else x


def groups(x, make_block, channels, counts, preact):
    """Groups of blocks, each with half the height and width and twice the channels of the one before."""
    for group, count in enumerate(counts):
        with tf.variable_scope(f"group{group}"):
            x = group_of_blocks(x, make_block, channels * 2**group, count, 2 if group else 1, preact)
    return x


def resnet(image, depth, classes, preact=False, width=64):
    """Returns the logits of each class; `width` is the number of channels of the first group."""
    make_block, counts = BLOCKS[depth]
    with argscope(Conv2D, use_bias=False, activation=BNReLU):
        x = groups(stem(image, width), make_block, width, counts, preact)
    return FullyConnected("linear", GlobalAvgPooling("gap", x), classes)


def cifar_resnet(image, n, classes):
    """Returns the logits of each class, by three groups of n blocks with pre-activation: 6n + 2 layers."""
    with argscope(Conv2D, use_bias=False, activation=BNReLU):
        x = groups(Conv2D("conv0", image, 16, 3), basic, 16, [n, n, n], preact=True)
    return FullyConnected("linear", GlobalAvgPooling("gap", x), classes)
