"""The networks that make pictures of pictures, and those that tell these from real ones."""

import tensorflow.compat.v1 as tf

from towerpack_layers import Conv2D, Conv2DTranspose, InstanceNorm, argscope


def norm_relu(x: tf.Tensor) -> tf.Tensor:
    """Instance normalisation and ReLU."""
    return tf.nn.relu(InstanceNorm("norm", x))


def norm_leaky(x: tf.Tensor) -> tf.Tensor:
    """Instance normalisation and leaky ReLU."""
    return tf.nn.leaky_relu(InstanceNorm("norm", x))


def residual_translator(pictures: tf.Tensor, channels: int = 16, blocks: int = 2) -> tf.Tensor:
    """Makes pictures of pictures through residual blocks, after Johnson et al. (2016), arXiv:1603.08155."""
    with argscope([Conv2D, Conv2DTranspose], activation=norm_relu):
        x = Conv2D("conv0", pictures, channels, 3)
        x = Conv2D("conv1", x, 2 * channels, 4, strides=2)
        for index in range(blocks):
            inner = Conv2D(f"block{index}/conv0", x, 2 * channels, 3)
            x = x + Conv2D(f"block{index}/conv1", inner, 2 * channels, 3, activation=None)
        x = Conv2DTranspose("deconv", x, channels, 4, strides=2)
    return Conv2D("picture", x, 3, 3, activation=tf.tanh)


def u_net(pictures: tf.Tensor, channels: int = 16) -> tf.Tensor:
    """Makes pictures of pictures, with a way past each coarser level: Ronneberger et al. (2015)."""
    with argscope([Conv2D, Conv2DTranspose], activation=norm_relu):
        fine = Conv2D("down0", pictures, channels, 3)
        half = Conv2D("down1", fine, 2 * channels, 4, strides=2)
        coarse = Conv2D("down2", half, 4 * channels, 4, strides=2)
        half = tf.concat([half, Conv2DTranspose("up1", coarse, 2 * channels, 4, strides=2)], -1)
        fine = tf.concat([fine, Conv2DTranspose("up0", half, channels, 4, strides=2)], -1)
    return Conv2D("picture", fine, 3, 3, activation=tf.tanh)


def patch_features(pictures: tf.Tensor, channels: int = 16) -> list[tf.Tensor]:
    """Makes a logit for each patch of 22 x 22 pixels, a quarter of them in each direction: PatchGAN.

    Returns:
        the features of each layer, the logits last.
    """
    fine = Conv2D("conv0", pictures, channels, 4, strides=2, activation=tf.nn.leaky_relu)
    coarse = Conv2D("conv1", fine, 2 * channels, 4, strides=2, activation=norm_leaky)
    return [fine, coarse, Conv2D("patches", coarse, 1, 4)]


def patch_discriminator(pictures: tf.Tensor) -> tf.Tensor:
    """Makes the logits of `patch_features`."""
    return patch_features(pictures)[-1]
