"""Convolutions as in PyTorch's published networks, and rules for the names of their weights.

PyTorch pads all sides equally. With a stride of 2, TensorFlow's `same` padding of an image with an even size
puts the larger part at the right and the bottom, so the same weights would give other results.
"""

import tensorflow.compat.v1 as tf

from towerpack_layers import BatchNorm, Conv2D, DepthwiseConv2D

KERNEL, CHANNELWISE, MATRIX = "OIHW->HWIO", "OIHW->HWOI", "OI->IO"


def convolve(name, x, filters, kernel_size, strides=1, activation=tf.identity):
    """Convolves, normalises the batch, and applies the activation."""
    window = padded_window(x, kernel_size, strides)
    return Conv2D(name, filters=filters, use_bias=False, activation=normed(activation), **window)


def convolve_channels(name, x, kernel_size, strides=1, activation=tf.identity):
    """Convolves each channel separately, normalises the batch, and applies the activation."""
    window = padded_window(x, kernel_size, strides)
    return DepthwiseConv2D(name, use_bias=False, activation=normed(activation), **window)


def normed(activation):
    """Returns a function that normalises the batch before the activation."""
    return lambda x: activation(BatchNorm("bn", x))


def padded_window(x, kernel_size, strides):
    """Returns the arguments of a convolution with an odd kernel; they include the padded images."""
    # Equal on all sides, and without a copy of the images.
    padding = "same" if strides == 1 else "valid"
    x = x if strides == 1 else pad(x, kernel_size // 2)
    return {"x": x, "kernel_size": kernel_size, "strides": strides, "padding": padding}


def pad(x, margin):
    """Adds rows and columns of zeros on all sides of images."""
    return tf.pad(x, [[0, 0], [margin, margin], [margin, margin], [0, 0]])


def norm_rules(source, target):
    """Returns the rules of a batch normalisation."""
    return [
        (f"{source}.weight", f"{target}/gamma"),
        (f"{source}.bias", f"{target}/beta"),
        (f"{source}.running_mean", f"{target}/mean/EMA"),
        (f"{source}.running_var", f"{target}/variance/EMA"),
        (f"{source}.num_batches_tracked", None),
    ]


def layer_rules(source, target, axes=MATRIX):
    """Returns the rules of a layer with weights and a bias."""
    return [(f"{source}.weight", f"{target}/W", axes), (f"{source}.bias", f"{target}/b")]


def sequence_rules(source, target, axes=KERNEL):
    """Returns the rules of a sequence of a convolution and a batch normalisation."""
    return [(f"{source}.0.weight", f"{target}/W", axes), *norm_rules(f"{source}.1", f"{target}/bn")]
