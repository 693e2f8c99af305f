"""Residual networks of 18 to 152 layers for ImageNet, for the weights that torchvision publishes.

    weights = load_weights("resnet50-0676ba61.pth", RULES)

Source: He et al., "Deep Residual Learning for Image Recognition" (2016), arXiv:1512.03385, with the stride in
the 3 x 3 convolutions.
"""

import tensorflow.compat.v1 as tf
from torch_layers import KERNEL, convolve, layer_rules, norm_rules, pad

from towerpack_layers import FullyConnected, GlobalAvgPooling, MaxPooling

# Convolutions of a block, and blocks of each group.
DEPTHS = {
    18: (2, [2, 2, 2, 2]),
    34: (2, [3, 4, 6, 3]),
    50: (3, [3, 4, 6, 3]),
    101: (3, [3, 4, 23, 3]),
    152: (3, [3, 8, 36, 3]),
}
# The names of torchvision, and those of the graph.
RULES = [
    ("conv1.weight", "conv0/W", KERNEL),
    *norm_rules("bn1", "conv0/bn"),
    ("layer{g}.{b}.conv{i}.weight", "group{g}/block{b}/conv{i}/W", KERNEL),
    *norm_rules("layer{g}.{b}.bn{i}", "group{g}/block{b}/conv{i}/bn"),
    ("layer{g}.{b}.downsample.0.weight", "group{g}/block{b}/shortcut/W", KERNEL),
    *norm_rules("layer{g}.{b}.downsample.1", "group{g}/block{b}/shortcut/bn"),
    *layer_rules("fc", "linear"),
]


def resnet(image, depth=50, classes=1000):
    """Returns the logits of RGB images, whose channels have mean 0 and deviation 1."""
    convolutions, counts = DEPTHS[depth]
    x = convolve("conv0", image, 64, 7, 2, tf.nn.relu)
    x = MaxPooling("pool0", pad(x, 1), 3, 2)
    for group, count in enumerate(counts):
        for index in range(count):
            with tf.variable_scope(f"group{group + 1}/block{index}"):
                x = block(x, convolutions, 64 * 2**group, 2 if group and index == 0 else 1)
    return FullyConnected("linear", GlobalAvgPooling("pool1", x), classes)


def block(x, convolutions, channels, strides):
    """Adds the input to two 3 x 3 convolutions, or to one between 1 x 1 convolutions."""
    if convolutions == 2:
        y = convolve("conv1", x, channels, 3, strides, tf.nn.relu)
        y = convolve("conv2", y, channels, 3)
    else:
        y = convolve("conv1", x, channels, 1, activation=tf.nn.relu)
        y = convolve("conv2", y, channels, 3, strides, tf.nn.relu)
        y = convolve("conv3", y, 4 * channels, 1)
    if x.shape[-1] != y.shape[-1] or strides > 1:
        x = convolve("shortcut", x, y.shape[-1], 1, strides)
    return tf.nn.relu(x + y)
