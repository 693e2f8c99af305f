"""A decoder of the shape of GPT-2, for the weights that Hugging Face publishes.

    python gpt2.py --weights model.safetensors 464 3290

The script continues a text greedily; its words, and those that it prints, are ids of GPT-2's vocabulary.

Source: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019).
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from torch_layers import layer_rules
from transformer import block, each_token

from towerpack_callbacks.checkpoint import load_weights
from towerpack_layers import Dropout, Embedding, FullyConnected, LayerNorm, argscope
from towerpack_trainers import AdamW, ModelDesc, OfflinePredictor, PredictConfig, SmartInit


def rules(prefix=""):
    """Returns the names of Hugging Face with those of the graph.

    Args:
        prefix: before all names: "transformer." in a file that `GPT2LMHeadModel` saved.
    """
    norms = {f"{prefix}h.{{i}}.ln_{{n}}": "block{i}/norm{n}", f"{prefix}ln_f": "norm"}
    matrix = "IO->IO"  # not transposed, unlike those of other layers of PyTorch
    return [
        (f"{prefix}wte.weight", "words/W"),
        (f"{prefix}wpe.weight", "positions"),
        *[(f"{source}.weight", f"{target}/gamma") for source, target in norms.items()],
        *[(f"{source}.bias", f"{target}/beta") for source, target in norms.items()],
        *layer_rules(f"{prefix}h.{{i}}.attn.c_attn", "block{i}/query_key_value", matrix),
        *layer_rules(f"{prefix}h.{{i}}.attn.c_proj", "block{i}/project", matrix),
        *layer_rules(f"{prefix}h.{{i}}.mlp.c_fc", "block{i}/expand", matrix),
        *layer_rules(f"{prefix}h.{{i}}.mlp.c_proj", "block{i}/contract", matrix),
        (f"{prefix}h.{{i}}.attn.bias", None),  # the mask of later words
        (f"{prefix}h.{{i}}.attn.masked_bias", None),
        ("lm_head.weight", None),  # the same as wte.weight
    ]


def gpt2(words, layers=12, channels=768, heads=12, vocabulary=50257, longest=1024):
    """Returns the logits of the word after each word, [batch, length, vocabulary].

    Args:
        words: ids, int32 [batch, length].
        layers: number of blocks.
        channels: size of a word's vector.
        heads: number of attentions of a block.
        vocabulary: number of ids.
        longest: the largest length.
    """
    normal = tf.random_normal_initializer(stddev=0.02)
    embedded = Embedding("words", words, vocabulary, channels, kernel_initializer=normal)
    positions = tf.get_variable("positions", [longest, channels], embedded.dtype, normal)
    x = Dropout("dropout", embedded + positions[: tf.shape(words)[1]], rate=0.1)
    with argscope(LayerNorm, epsilon=1e-5), argscope(FullyConnected, kernel_initializer=normal):
        for index in range(layers):
            with tf.variable_scope(f"block{index}"):
                x = block(x, heads, gelu, causal=True, rate=0.1)
        x = each_token(LayerNorm, "norm", x)
    # The output multiplies by the table of the input.
    return tf.einsum("nlc,vc->nlv", x, embedded.variables.W)


def gelu(x):
    """The approximation by a hyperbolic tangent."""
    return tf.compat.v2.nn.gelu(x, approximate=True)


class GPT2(ModelDesc):
    """Predicts each word of a text from the words before; the arguments are those of `gpt2`."""

    def __init__(self, **shape):
        self.shape = shape

    def inputs(self):
        return [tf.TensorSpec([None, None], tf.int32, "words")]

    def build_graph(self, words):
        logits = tf.identity(gpt2(words, **self.shape), name="logits")
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits[:, :-1], labels=words[:, 1:])
        return tf.reduce_mean(losses)

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=3e-4, trainable=False)
        return AdamW(rate, weight_decay=0.1, exclude=["/b$", "beta$", "gamma$"])


def continued(words, weights, count):
    """Appends the most probable words to a text, one after another."""
    config = PredictConfig(
        model=GPT2(),
        session_init=SmartInit(load_weights(weights, rules()), allow=[]),
        input_names=["words"],
        output_names=["logits"],
    )
    with OfflinePredictor(config) as predictor:
        for _ in range(count):
            (logits,) = predictor(np.array([words], np.int32))
            words = [*words, int(np.argmax(logits[0, -1]))]
    return words


def main(arguments=None):
    """Prints the continuation of a text."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="+", type=int, help="ids of the first words")
    parser.add_argument("--weights", required=True, help="a file of Hugging Face")
    parser.add_argument("--count", type=int, default=20, help="number of words to append; 20")
    options = parser.parse_args(arguments)
    print(*continued(options.words, options.weights, options.count))


if __name__ == "__main__":
    main()
