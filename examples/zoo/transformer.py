"""A block of a transformer with normalised branches, for `vit.py` and `gpt2.py`.

Tokens are a tensor [batch, length, channels]. Layers treat each token as an example.
"""

import math

import tensorflow.compat.v1 as tf

from towerpack_layers import Dropout, FullyConnected, LayerNorm


def block(x, heads, activation, causal=False, rate=0.0):
    """Adds the attention to other tokens, then a network applied to each token.

    Args:
        x: tokens.
        heads: number of attentions; it divides the channels.
        activation: of the network's hidden layer, which has four times the channels.
        causal: whether a token attends only to itself and earlier ones.
        rate: share of dropped units of both.
    """
    y = attention(each_token(LayerNorm, "norm1", x), heads, causal)
    x += Dropout("dropout1", y, rate=rate)
    y = each_token(FullyConnected, "expand", each_token(LayerNorm, "norm2", x), 4 * x.shape[-1])
    y = each_token(FullyConnected, "contract", activation(y), x.shape[-1])
    return x + Dropout("dropout2", y, rate=rate)


def attention(x, heads, causal):
    """Returns means of linear functions of all tokens, weighted by the match of a query with their keys."""
    length, channels = length_of(x), x.shape[-1]
    parts = each_token(FullyConnected, "query_key_value", x, 3 * channels)
    parts = tf.reshape(parts, [-1, length, 3, heads, channels // heads])
    query, key, value = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))  # [batch, heads, length, channels]
    scores = tf.matmul(query, key, transpose_b=True) / math.sqrt(channels // heads)
    if causal:
        earlier = tf.linalg.band_part(tf.ones([length, length], tf.bool), -1, 0)
        scores = tf.where_v2(earlier, scores, scores.dtype.min)
    mean = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
    return each_token(FullyConnected, "project", tf.reshape(mean, [-1, length, channels]), channels)


def each_token(layer, name, x, *args):
    """Applies a layer to each token."""
    y = layer(name, tf.reshape(x, [-1, x.shape[-1]]), *args)
    return tf.reshape(y, [-1, length_of(x), y.shape[-1]])


def length_of(x):
    """Returns the number of tokens: an int if it is known, otherwise a tensor."""
    return tf.shape(x)[1] if x.shape[1] is None else x.shape[1]
