"""Inception with batch normalisation, and ShuffleNet: networks whose layers divide and join their channels.

After Ioffe & Szegedy, "Batch Normalization" (2015), arXiv:1502.03167, without the costs at inner layers;
Zhang et al., "ShuffleNet" (2018), arXiv:1707.01083; and Ma et al., "ShuffleNet V2" (2018), arXiv:1807.11164.
"""

import tensorflow.compat.v1 as tf

from towerpack_layers import (
    AvgPooling,
    BatchNorm,
    BNReLU,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    GlobalAvgPooling,
    MaxPooling,
    argscope,
)

# Channels in each module of Inception: the 1 x 1 convolution; the 3 x 3 and the double 3 x 3, each with the
# 1 x 1 before it; and the convolution after the pooling. Modules without the first halve height and width.
INCEPTION = {
    "3a": (64, 64, 64, 64, 96, 32),
    "3b": (64, 64, 96, 64, 96, 64),
    "3c": (0, 128, 160, 64, 96, 0),
    "4a": (224, 64, 96, 96, 128, 128),
    "4b": (192, 96, 128, 96, 128, 128),
    "4c": (160, 128, 160, 128, 160, 128),
    "4d": (96, 128, 192, 160, 192, 128),
    "4e": (0, 128, 192, 192, 256, 0),
    "5a": (352, 192, 320, 160, 224, 128),
    "5b": (352, 192, 320, 192, 224, 128),
}
GROUPS = 3
STAGES = [4, 8, 4]


def inception_bn(image, classes, width=64):
    """Returns the logits; `width` is the number of channels of the first convolution, 64 as published."""
    with argscope(Conv2D, use_bias=False, activation=BNReLU):
        x = MaxPooling("pool1", Conv2D("conv1", image, width, 7, strides=2), 3, 2, padding="same")
        x = Conv2D("conv2", Conv2D("conv2_reduce", x, width, 1), 3 * width, 3)
        x = MaxPooling("pool2", x, 3, 2, padding="same")
        for name, channels in INCEPTION.items():
            with tf.variable_scope(f"inception_{name}"):
                last = name == list(INCEPTION)[-1]
                x = inception(
                    x, [count * width // 64 for count in channels], MaxPooling if last else AvgPooling
                )
    return FullyConnected("linear", GlobalAvgPooling("gap", x), classes)


def inception(x, channels, pooling):
    """One module: four branches with concatenated channels."""
    one, reduce_three, three, reduce_two, two, pool = channels
    stride = 1 if one else 2
    branches = [Conv2D("conv_1x1", x, one, 1)] if one else []
    branches.append(Conv2D("conv_3x3", Conv2D("reduce_3x3", x, reduce_three, 1), three, 3, strides=stride))
    twice = Conv2D("conv_5x5_a", Conv2D("reduce_5x5", x, reduce_two, 1), two, 3)
    branches.append(Conv2D("conv_5x5_b", twice, two, 3, strides=stride))
    if pool:
        branches.append(Conv2D("conv_pool", pooling("pool", x, 3, 1, padding="same"), pool, 1))
    else:
        branches.append(MaxPooling("pool", x, 3, stride, padding="same"))
    return tf.concat(branches, -1)


def norm(x):
    """Batch normalisation."""
    return BatchNorm("bn", x)


def shuffle(x, groups):
    """Shuffles the channels between groups."""
    _, height, width, channels = x.shape.as_list()
    x = tf.reshape(x, [-1, height, width, groups, channels // groups])
    return tf.reshape(tf.transpose(x, [0, 1, 2, 4, 3]), [-1, height, width, channels])


def shufflenet_v1(image, classes, width=64):
    """Returns the logits; 64 is the width of the published 1 x network with three groups, of 240 channels."""
    with argscope([Conv2D, DepthwiseConv2D], use_bias=False):
        x = Conv2D("conv1", image, 24, 3, strides=2, activation=BNReLU)
        x = MaxPooling("pool1", x, 3, 2, padding="same")
        for stage, count in enumerate(STAGES, 2):
            channels = 240 * width // 64 * 2 ** (stage - 2) // 12 * 12
            for index in range(count):
                with tf.variable_scope(f"stage{stage}/block{index}"):
                    x = unit_v1(x, channels, 1 if index else 2)
    return FullyConnected("linear", GlobalAvgPooling("gap", x), classes)


def unit_v1(x, channels, stride):
    """Group convolutions with a channel shuffle, added to the input or concatenated with the pooled input."""
    before = x.shape.as_list()[-1]
    made = channels - before if stride > 1 else channels
    # The first convolutions have too few channels for groups.
    y = Conv2D("conv1", x, channels // 4, 1, split=1 if before == 24 else GROUPS, activation=BNReLU)
    y = DepthwiseConv2D("dconv", shuffle(y, GROUPS), 3, strides=stride, activation=norm)
    y = Conv2D("conv2", y, made, 1, split=GROUPS, activation=norm)
    if stride > 1:
        return tf.nn.relu(tf.concat([AvgPooling("pool", x, 3, 2, padding="same"), y], -1))
    return tf.nn.relu(x + y)


def shufflenet_v2(image, classes, width=64):
    """Returns the logits; 64 is the width of the published 1 x network, of 116 channels."""
    with argscope([Conv2D, DepthwiseConv2D], use_bias=False):
        x = Conv2D("conv1", image, 24, 3, strides=2, activation=BNReLU)
        x = MaxPooling("pool1", x, 3, 2, padding="same")
        for stage, count in enumerate(STAGES, 2):
            channels = 116 * width // 64 * 2 ** (stage - 2) // 2 * 2
            for index in range(count):
                with tf.variable_scope(f"stage{stage}/block{index}"):
                    x = unit_v2(x, channels // 2, 1 if index else 2)
        x = Conv2D("conv5", x, 1024 * width // 64, 1, activation=BNReLU)
    return FullyConnected("linear", GlobalAvgPooling("gap", x), classes)


def unit_v2(x, channels, stride):
    """Passes half of the channels unchanged, or computes both halves from all, at half the resolution."""
    if stride > 1:
        passed = DepthwiseConv2D("shortcut_dconv", x, 3, strides=stride, activation=norm)
        passed = Conv2D("shortcut_conv", passed, channels, 1, activation=BNReLU)
    else:
        passed, x = tf.split(x, 2, -1)
    x = Conv2D("conv1", x, channels, 1, activation=BNReLU)
    x = DepthwiseConv2D("dconv", x, 3, strides=stride, activation=norm)
    x = Conv2D("conv2", x, channels, 1, activation=BNReLU)
    return shuffle(tf.concat([passed, x], -1), 2)
