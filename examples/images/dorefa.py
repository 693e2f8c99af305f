"""Train a network with few bits for weights, activations and gradients.

    python dorefa.py                     1 bit for weights, 2 for activations, 4 for gradients
    python dorefa.py --bits 32,32,32     full precision, for comparison
    python dorefa.py --data FOLDER       on SVHN; downloads missing files

The trained variables have full precision; the layers between the first and the last compute with the
quantized values of `remap_variables`. After Zhou et al., "DoReFa-Net: Training Low Bitwidth Convolutional
Neural Networks with Low Bitwidth Gradients" (2016), arXiv:1606.06160.
"""

import argparse

import tensorflow.compat.v1 as tf
from classifier import Classifier, train_classifier
from made_files import make_svhn
from running import run
from svhn import make_flows

from towerpack_callbacks import ScheduledHyperParamSetter
from towerpack_layers import BatchNorm, Conv2D, FullyConnected, MaxPooling, argscope, remap_variables


def straight_through(value, x):
    """Returns `value` with the gradient of `x`."""
    return x + tf.stop_gradient(value - x)


def quantize(x, bits):
    """Quantizes numbers from 0 to 1 to a number of bits."""
    if bits == 32:
        return x
    steps = 2**bits - 1
    return straight_through(tf.round(x * steps) / steps, x)


def quantize_weights(weights, bits):
    """One bit: plus or minus the mean size of all; more: numbers from -1 to 1."""
    if bits == 32:
        return weights
    if bits == 1:
        mean = tf.stop_gradient(tf.reduce_mean(tf.abs(weights)))
        return straight_through(tf.where(weights >= 0, mean + 0 * weights, -mean + 0 * weights), weights)
    bounded = tf.tanh(weights)
    return 2 * quantize(bounded / (2 * tf.reduce_max(tf.abs(bounded))) + 0.5, bits) - 1


def quantize_gradient(x, bits):
    """Returns `x` with its gradient quantized for each example, after the addition of noise."""
    if bits == 32:
        return x

    @tf.custom_gradient
    def same(x):
        def rounded(gradient):
            axes, steps = list(range(1, gradient.shape.rank)), 2**bits - 1
            largest = tf.reduce_max(tf.abs(gradient), axes, keepdims=True) + 1e-12
            noise = tf.random.uniform(tf.shape(gradient), -0.5, 0.5) / steps
            share = tf.clip_by_value(gradient / largest / 2 + 0.5 + noise, 0, 1)
            return (tf.round(share * steps) / steps - 0.5) * largest * 2

        return tf.identity(x), rounded

    return same(x)


class DoReFa(Classifier):
    """Six convolutions, of which all but the first have few bits."""

    def __init__(self, bits):
        super().__init__(size=40)
        self.weight_bits, self.activation_bits, self.gradient_bits = bits

    def logits(self, image):
        image = tf.cast(image, tf.float32) / 255
        with argscope(Conv2D, use_bias=False), remap_variables(self.remap):
            x = MaxPooling("pool0", Conv2D("conv0", image, 32, 5), 2)
            x = self.block("conv1", self.activated(x), 48)
            x = MaxPooling("pool1", self.block("conv2", x, 48), 2)
            x = self.block("conv3", x, 64)
            x = MaxPooling("pool2", self.block("conv4", x, 64), 2)
            return FullyConnected("linear", x, self.classes)

    def block(self, name, x, channels):
        return self.activated(
            BatchNorm(f"{name}/bn", quantize_gradient(Conv2D(name, x, channels, 3), self.gradient_bits))
        )

    def activated(self, x):
        return quantize(tf.clip_by_value(x, 0, 1), self.activation_bits)

    def remap(self, variable):
        name = variable.op.name
        few = name.endswith("/W") and "conv0" not in name and "linear" not in name
        return quantize_weights(variable, self.weight_bits) if few else variable

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=2e-3, trainable=False)
        return tf.train.AdamOptimizer(rate, epsilon=1e-5)


def train_on(folder, options):
    """Trains on the files in a folder, and returns the figure."""
    flow, held_out = make_flows(folder, 64, options.workers)
    half = options.epochs / 2
    schedule = ScheduledHyperParamSetter("learning_rate", [(0, 2e-3), (half, 5e-4), (1.5 * half, 1e-4)])
    return train_classifier(DoReFa(options.bits), flow, held_out, options, [schedule])


def three_numbers(text):
    """Reads the numbers of bits."""
    bits = [int(part) for part in text.split(",")]
    if len(bits) != 3 or min(bits) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: three numbers of 1 or more, such as 1,2,4")
    return bits


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--bits", type=three_numbers, default="1,2,4", help="of weights, activations, gradients; 1,2,4"
    )
    run(train_on, __doc__, epochs=6, parser=parser, make_files=make_svhn)
