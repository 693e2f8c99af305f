"""The vision transformer ViT-B/16 for ImageNet, for the weights that torchvision publishes.

    weights = load_weights("vit_b_16-c867db91.pth", rules())

Source: Dosovitskiy et al., "An Image is Worth 16x16 Words" (2020), arXiv:2010.11929.
"""

import tensorflow.compat.v1 as tf
from torch_layers import KERNEL, MATRIX, layer_rules
from transformer import block, each_token

from towerpack_layers import Conv2D, FullyConnected, LayerNorm, argscope


def rules(expand="linear_1", contract="linear_2"):
    """Returns the names of torchvision with those of the graph.

    Args:
        expand: the first layer of each block's network, "linear_1" in the published file and "0" in a
            `state_dict()` of torchvision's later releases.
        contract: the second layer, "linear_2" or "3".
    """
    layer = "encoder.layers.encoder_layer_{i}"
    norms = {f"{layer}.ln_{{n}}": "block{i}/norm{n}", "encoder.ln": "norm"}
    return [
        ("class_token", "class_token"),
        ("encoder.pos_embedding", "positions"),
        *layer_rules("conv_proj", "patches", KERNEL),
        *[(f"{source}.weight", f"{target}/gamma") for source, target in norms.items()],
        *[(f"{source}.bias", f"{target}/beta") for source, target in norms.items()],
        (f"{layer}.self_attention.in_proj_weight", "block{i}/query_key_value/W", MATRIX),
        (f"{layer}.self_attention.in_proj_bias", "block{i}/query_key_value/b"),
        *layer_rules(f"{layer}.self_attention.out_proj", "block{i}/project"),
        *layer_rules(f"{layer}.mlp.{expand}", "block{i}/expand"),
        *layer_rules(f"{layer}.mlp.{contract}", "block{i}/contract"),
        *layer_rules("heads.head", "linear"),
    ]


def vit(image, classes=1000, patch=16, layers=12, channels=768, heads=12):
    """Returns the logits of RGB images, whose channels have mean 0 and deviation 1."""
    normal = tf.random_normal_initializer(stddev=0.02)
    x = Conv2D("patches", image, channels, patch, strides=patch, padding="valid")
    count = x.shape[1] * x.shape[2]
    x = tf.reshape(x, [-1, count, channels])
    first = tf.get_variable("class_token", [1, 1, channels], x.dtype, tf.zeros_initializer())
    x = tf.concat([tf.tile(first, [tf.shape(x)[0], 1, 1]), x], 1)
    x += tf.get_variable("positions", [1, count + 1, channels], x.dtype, normal)
    with argscope(LayerNorm, epsilon=1e-6), argscope(FullyConnected, kernel_initializer=normal):
        for index in range(layers):
            with tf.variable_scope(f"block{index}"):
                x = block(x, heads, tf.compat.v2.nn.gelu)
        x = each_token(LayerNorm, "norm", x)
        return FullyConnected("linear", x[:, 0], classes)
