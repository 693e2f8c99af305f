"""MobileNetV2 for ImageNet, for the weights that torchvision publishes.

    weights = load_weights("mobilenet_v2-7ebf99e0.pth", RULES)

Source: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018), arXiv:1801.04381.
"""

import tensorflow.compat.v1 as tf
from torch_layers import (
    CHANNELWISE,
    KERNEL,
    convolve,
    convolve_channels,
    layer_rules,
    norm_rules,
    sequence_rules,
)

from towerpack_layers import Dropout, FullyConnected, GlobalAvgPooling

# Blocks, stride of the first block, expansion, channels.
STAGES = [
    (1, 1, 1, 16),
    (2, 2, 6, 24),
    (3, 2, 6, 32),
    (4, 2, 6, 64),
    (3, 1, 6, 96),
    (3, 2, 6, 160),
    (1, 1, 6, 320),
]
# The names of torchvision, and those of the graph. The first block has no expansion.
RULES = [
    *sequence_rules("features.0", "stem"),
    *sequence_rules("features.18", "head"),
    *sequence_rules("features.1.conv.0", "block1/depthwise", CHANNELWISE),
    ("features.1.conv.1.weight", "block1/project/W", KERNEL),
    *norm_rules("features.1.conv.2", "block1/project/bn"),
    *sequence_rules("features.{i}.conv.0", "block{i}/expand"),
    *sequence_rules("features.{i}.conv.1", "block{i}/depthwise", CHANNELWISE),
    ("features.{i}.conv.2.weight", "block{i}/project/W", KERNEL),
    *norm_rules("features.{i}.conv.3", "block{i}/project/bn"),
    *layer_rules("classifier.1", "linear"),
]


def mobilenet_v2(image, classes=1000):
    """Returns the logits of RGB images, whose channels have mean 0 and deviation 1."""
    x = convolve("stem", image, 32, 3, 2, tf.nn.relu6)
    settings = [
        (first if index == 0 else 1, expansion, channels)
        for count, first, expansion, channels in STAGES
        for index in range(count)
    ]
    for number, (strides, expansion, channels) in enumerate(settings, 1):
        with tf.variable_scope(f"block{number}"):
            x = block(x, strides, expansion, channels)
    x = GlobalAvgPooling("pool", convolve("head", x, 1280, 1, activation=tf.nn.relu6))
    return FullyConnected("linear", Dropout("dropout", x, rate=0.2), classes)


def block(x, strides, expansion, channels):
    """Expands, convolves each channel, and projects; with a shortcut where the shapes agree."""
    y = x
    if expansion > 1:
        y = convolve("expand", y, expansion * x.shape[-1], 1, activation=tf.nn.relu6)
    y = convolve_channels("depthwise", y, 3, strides, tf.nn.relu6)
    y = convolve("project", y, channels, 1)
    return x + y if strides == 1 and x.shape[-1] == channels else y
