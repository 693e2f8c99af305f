"""AlexNet and VGG16: convolutions followed by fully connected layers, with the names of Caffe's models.

After Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks" (2012), with the
groups of Caffe's model, and Simonyan & Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
Recognition" (2015), arXiv:1409.1556.
"""

import tensorflow.compat.v1 as tf

from towerpack_layers import BNReLU, Conv2D, Dropout, FullyConnected, MaxPooling, argscope


def response_norm(x):
    """Local response normalisation over five channels, without variables."""
    return tf.nn.lrn(x, 2, bias=1.0, alpha=2e-5, beta=0.75)


def alexnet(image, classes, width=64):
    """Returns the logits; images of 227 x 227 pixels as published, of 99 x 99 at least.

    Args:
        image: float [batch, height, width, 3]; BGR less the mean for Caffe's weights.
        classes: number of classes.
        width: 64 for the published number of channels, 16 for a quarter of it.
    """
    with argscope([Conv2D, FullyConnected], activation=tf.nn.relu):
        x = Conv2D("conv1", image, 96 * width // 64, 11, strides=4, padding="valid")
        x = MaxPooling("pool1", response_norm(x), 3, 2)
        x = Conv2D("conv2", x, 256 * width // 64, 5, split=2)
        x = MaxPooling("pool2", response_norm(x), 3, 2)
        x = Conv2D("conv3", x, 384 * width // 64, 3)
        x = Conv2D("conv4", x, 384 * width // 64, 3, split=2)
        x = Conv2D("conv5", x, 256 * width // 64, 3, split=2)
        return head(MaxPooling("pool5", x, 3, 2), classes, width)


def vgg16(image, classes, width=64, activation=tf.nn.relu):
    """Returns the logits; images of 224 x 224 pixels as published, of 32 x 32 at least.

    Args:
        image: float [batch, height, width, 3]; BGR less the mean for the published weights.
        classes: number of classes.
        width: channels of the first group; 64 as published.
        activation: of the convolutions.
    """
    x = image
    for group, (count, factor) in enumerate([(2, 1), (2, 2), (3, 4), (3, 8), (3, 8)], 1):
        for index in range(1, count + 1):
            x = Conv2D(f"conv{group}_{index}", x, factor * width, 3, activation=activation)
        x = MaxPooling(f"pool{group}", x, 2)
    return head(x, classes, width)


def vgg16_normalised(image, classes, width=64):
    """Returns the logits, with batch normalisation before each rectifier, which trains faster."""
    with argscope(Conv2D, use_bias=False):
        return vgg16(image, classes, width, BNReLU)


def head(x, classes, width):
    """The three fully connected layers at the end of both networks."""
    with argscope(FullyConnected, activation=tf.nn.relu):
        x = Dropout("drop6", FullyConnected("fc6", x, 64 * width), rate=0.5)
        x = Dropout("drop7", FullyConnected("fc7", x, 64 * width), rate=0.5)
    return FullyConnected("fc8", x, classes, activation=None)
