"""The two networks of the examples with digits, after DCGAN (Radford et al. 2016, arXiv:1511.06434)."""

import tensorflow.compat.v1 as tf

from towerpack_layers import BNReLU, Conv2D, Conv2DTranspose, FullyConnected, argscope, batch_flatten


def digit_generator(z: tf.Tensor) -> tf.Tensor:
    """Makes pictures of shape [n, 8, 8, 1], from -1 to 1, out of vectors."""
    with argscope([FullyConnected, Conv2DTranspose], use_bias=False, activation=BNReLU):
        hidden = FullyConnected("fc", z, 4 * 4 * 32)
        hidden = Conv2DTranspose("deconv", tf.reshape(hidden, [-1, 4, 4, 32]), 32, 4, strides=2)
    return Conv2D("image", hidden, 1, 3, activation=tf.tanh)


def digit_features(images: tf.Tensor) -> tf.Tensor:
    """Makes 128 features of each picture, from which a discriminator judges it."""
    with argscope([Conv2D, FullyConnected], activation=tf.nn.leaky_relu):
        hidden = Conv2D("conv0", images, 16, 3)
        hidden = Conv2D("conv1", hidden, 32, 4, strides=2)
        hidden = Conv2D("conv2", hidden, 64, 4, strides=2)
        return FullyConnected("fc", batch_flatten(hidden), 128)
