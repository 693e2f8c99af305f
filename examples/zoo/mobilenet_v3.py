"""MobileNetV3, large and small, for ImageNet, for the weights that torchvision publishes.

    weights = load_weights("mobilenet_v3_small-047dcff4.pth", rules("small"))

Source: Howard et al., "Searching for MobileNetV3" (2019), arXiv:1905.02244.
"""

import tensorflow.compat.v1 as tf
from efficientnet_lite import rounded
from torch_layers import CHANNELWISE, KERNEL, convolve, convolve_channels, layer_rules, sequence_rules

from towerpack_layers import BatchNorm, Conv2D, Dropout, FullyConnected, GlobalAvgPooling, argscope


def hard_swish(x):
    """Multiplies by a piecewise linear function from 0 to 1."""
    return x * hard_sigmoid(x)


def hard_sigmoid(x):
    """Rises from 0 at -3 to 1 at 3."""
    return tf.nn.relu6(x + 3) / 6


RELU, SWISH = tf.nn.relu, hard_swish
# Kernel, stride, expanded channels, channels, whether channels are excited, activation.
BLOCKS = {
    "large": [
        (3, 1, 16, 16, False, RELU),
        (3, 2, 64, 24, False, RELU),
        (3, 1, 72, 24, False, RELU),
        (5, 2, 72, 40, True, RELU),
        (5, 1, 120, 40, True, RELU),
        (5, 1, 120, 40, True, RELU),
        (3, 2, 240, 80, False, SWISH),
        (3, 1, 200, 80, False, SWISH),
        (3, 1, 184, 80, False, SWISH),
        (3, 1, 184, 80, False, SWISH),
        (3, 1, 480, 112, True, SWISH),
        (3, 1, 672, 112, True, SWISH),
        (5, 2, 672, 160, True, SWISH),
        (5, 1, 960, 160, True, SWISH),
        (5, 1, 960, 160, True, SWISH),
    ],
    "small": [
        (3, 2, 16, 16, True, RELU),
        (3, 2, 72, 24, False, RELU),
        (3, 1, 88, 24, False, RELU),
        (5, 2, 96, 40, True, SWISH),
        (5, 1, 240, 40, True, SWISH),
        (5, 1, 240, 40, True, SWISH),
        (5, 1, 120, 48, True, SWISH),
        (5, 1, 144, 48, True, SWISH),
        (5, 2, 288, 96, True, SWISH),
        (5, 1, 576, 96, True, SWISH),
        (5, 1, 576, 96, True, SWISH),
    ],
}
HIDDEN = {"large": 1280, "small": 1024}


def rules(variant):
    """Returns the names of torchvision with those of the graph."""
    first = {  # The first block has no expansion.
        "large": sequence_rules("features.1.block.1", "block1/project"),
        "small": [
            *layer_rules("features.1.block.1.fc1", "block1/squeeze", KERNEL),
            *layer_rules("features.1.block.1.fc2", "block1/excite", KERNEL),
            *sequence_rules("features.1.block.2", "block1/project"),
        ],
    }
    return [
        *sequence_rules("features.0", "stem"),
        *sequence_rules(f"features.{len(BLOCKS[variant]) + 1}", "head"),
        *sequence_rules("features.1.block.0", "block1/depthwise", CHANNELWISE),
        *first[variant],
        *sequence_rules("features.{i}.block.0", "block{i}/expand"),
        *sequence_rules("features.{i}.block.1", "block{i}/depthwise", CHANNELWISE),
        *layer_rules("features.{i}.block.2.fc1", "block{i}/squeeze", KERNEL),
        *layer_rules("features.{i}.block.2.fc2", "block{i}/excite", KERNEL),
        *sequence_rules("features.{i}.block.2", "block{i}/project"),
        *sequence_rules("features.{i}.block.3", "block{i}/project"),
        *layer_rules("classifier.0", "hidden"),
        *layer_rules("classifier.3", "linear"),
    ]


def mobilenet_v3(image, variant="large", classes=1000):
    """Returns the logits of RGB images, whose channels have mean 0 and deviation 1."""
    with argscope(BatchNorm, momentum=0.99, epsilon=1e-3):
        x = convolve("stem", image, 16, 3, 2, hard_swish)
        for number, settings in enumerate(BLOCKS[variant], 1):
            with tf.variable_scope(f"block{number}"):
                x = block(x, *settings)
        x = convolve("head", x, 6 * x.shape[-1], 1, activation=hard_swish)
    x = hard_swish(FullyConnected("hidden", GlobalAvgPooling("pool", x), HIDDEN[variant]))
    return FullyConnected("linear", Dropout("dropout", x, rate=0.2), classes)


def block(x, kernel_size, strides, expanded, channels, excited, activation):
    """Expands, convolves each channel, and projects; with a shortcut where the shapes agree."""
    y = x
    if expanded != x.shape[-1]:
        y = convolve("expand", y, expanded, 1, activation=activation)
    y = convolve_channels("depthwise", y, kernel_size, strides, activation)
    if excited:
        y = excite(y)
    y = convolve("project", y, channels, 1)
    return x + y if strides == 1 and x.shape[-1] == channels else y


def excite(x):
    """Multiplies each channel by a factor computed from the means of all channels."""
    y = tf.reduce_mean(x, [1, 2], keepdims=True)
    y = tf.nn.relu(Conv2D("squeeze", y, rounded(x.shape[-1] // 4), 1))
    return x * hard_sigmoid(Conv2D("excite", y, x.shape[-1], 1))
