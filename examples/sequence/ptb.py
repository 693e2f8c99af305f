"""Train a language model on the words of a text.

    python ptb.py                    Python's help texts and docstrings, of 3,000 different words
    python ptb.py --data FOLDER      Mikolov's ptb.train.txt, ptb.valid.txt and ptb.test.txt

Two LSTMs read the text in parallel streams, and carry their state from window to window; it is reset to zero
before each pass over a text. Dropout between the layers follows Zaremba, Sutskever and Vinyals, "Recurrent
neural network regularization" (2014), arXiv:1409.2329. The figure is the perplexity of the test text, at the
best epoch on the validation text, together with those of unigram and bigram models.
"""

import numpy as np
import tensorflow.compat.v1 as tf
from options import run, train
from words import Windows, bigram_perplexity, read_words, unigram_perplexity, write_text

from towerpack_callbacks import (
    HyperParamSetterWithFunc,
    Inferencer,
    InferenceRunner,
    MinSaver,
    RunOp,
    add_moving_summary,
)
from towerpack_layers import RNN, Dropout, Embedding, LSTMCell, LSTMState
from towerpack_trainers import GlobalNormClip, ModelDesc, apply_grad_processors

LAYERS, UNITS, STREAMS, TIMES = 2, 200, 16, 20
DROPPED = 0.25  # of the inputs of each layer


class WordModel(ModelDesc):
    """LSTMs over windows of the text, and the logits of each next word."""

    def __init__(self, words):
        self.words = words

    def inputs(self):
        return [tf.TensorSpec([STREAMS, TIMES], tf.int32, name) for name in ("word", "following")]

    def build_graph(self, word, following):
        x = embedded = Embedding("embedding", word, self.words, UNITS)
        states = []
        for layer, state in enumerate(tf.unstack(carried_state())):
            first = LSTMState(*tf.unstack(state))
            x = RNN(f"rnn{layer}", Dropout(x, rate=DROPPED), LSTMCell(UNITS), initial_state=first)
            states.append(tf.stack(x.state))
        x = tf.reshape(Dropout(x, rate=DROPPED), [-1, UNITS])
        bias = tf.get_variable("bias", [self.words], initializer=tf.zeros_initializer())
        # The output layer uses the embeddings of the input: Press and Wolf (2017), arXiv:1608.05859.
        logits = tf.matmul(x, embedded.variables.W, transpose_b=True) + bias
        labels = tf.reshape(following, [-1])
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        # The window of the next step follows this one.
        with tf.control_dependencies([carried_state().assign(tf.stack(states))]):
            cost = tf.reduce_mean(loss, name="cost")
        if self.training:
            add_moving_summary(cost)
        return cost

    def optimizer(self):
        # With Adam alone, the states keep growing, and the cost of texts that start with a zero state rises.
        rate = tf.get_variable("learning_rate", initializer=20.0, trainable=False)
        return apply_grad_processors(tf.train.GradientDescentOptimizer(rate), [GlobalNormClip(0.25)])


def carried_state():
    """Returns the variable of the initial states of the next window."""
    with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
        shape = [LAYERS, 2, STREAMS, UNITS]
        return tf.get_variable("carried", shape, initializer=tf.zeros_initializer(), trainable=False)


class Perplexity(Inferencer):
    """Computes the perplexity."""

    def __init__(self, name: str):
        self.name = name

    def _get_fetches(self):
        return ["cost"]

    def _before_inference(self):
        self.costs = []

    def _on_fetches(self, values, batch_size):
        self.costs += values

    def _after_inference(self):
        return {self.name: float(np.exp(np.mean(self.costs)))}

    def produces(self):
        return [self.name]


def evaluate(words, split):
    """Creates the callbacks that evaluate a text with states reset before and after it."""
    runner = InferenceRunner(Windows(words, STREAMS, TIMES), Perplexity(split), tower_name=split)
    return [reset_state(), runner, reset_state()]


def reset_state():
    """Creates the callback that resets the states before the next window."""
    return RunOp(lambda: carried_state().initializer, run_before=False)


def train_on(folder, options):
    """Trains on the text in a folder, and returns the figure."""
    texts, count = read_words(folder)
    callbacks = [
        *evaluate(texts["valid"], "valid"),
        *evaluate(texts["test"], "test"),
        MinSaver("valid"),
        HyperParamSetterWithFunc("learning_rate", lambda epoch, rate: rate * (0.6 if epoch > 2 else 1)),
    ]
    flow = Windows(texts["train"], STREAMS, TIMES)
    monitors = train(WordModel(count), flow, options, callbacks)
    valid, test = ([value for _, value in monitors.get_history(split)] for split in ("valid", "test"))
    counted = (
        f"{name} {measure(texts['train'], texts['test'], count):.1f}"
        for name, measure in (("pairs", bigram_perplexity), ("words", unigram_perplexity))
    )
    return f"perplexity {test[int(np.argmin(valid))]:.1f} of {count} words; by counting {', '.join(counted)}"


if __name__ == "__main__":
    run(train_on, write_text, __doc__, epochs=6, data="the folder of the files; a text is made without it")
