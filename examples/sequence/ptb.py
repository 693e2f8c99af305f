"""Train a model of the words of a text, one word after the other.

    python ptb.py                    Python's help texts and docstrings, of 3,000 different words
    python ptb.py --data FOLDER      ptb.train.txt, ptb.valid.txt and ptb.test.txt, as Mikolov has them

Two LSTMs read the text in streams side by side, and hand their state over from window to window; before each
reading of a text it is set to zero. With dropout between the layers, after Zaremba, Sutskever and Vinyals,
"Recurrent neural network regularization" (2014), arXiv:1409.2329. The figure is the perplexity of the test
text, at the epoch that is best on the validation text, beside those of models that count words and pairs.
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
    """LSTMs over windows of the text, and what the next word may be after each."""

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
        # A word is scored by the vector that it is read by: Press and Wolf (2017), arXiv:1608.05859.
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
        # Steps of Adam let the states grow and grow, and a text that is read from zero state costs ever more.
        rate = tf.get_variable("learning_rate", initializer=20.0, trainable=False)
        return apply_grad_processors(tf.train.GradientDescentOptimizer(rate), [GlobalNormClip(0.25)])


def carried_state():
    """Returns the variable of the states that the next window begins with."""
    with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
        shape = [LAYERS, 2, STREAMS, UNITS]
        return tf.get_variable("carried", shape, initializer=tf.zeros_initializer(), trainable=False)


class Perplexity(Inferencer):
    """Computes how many equally likely words the model is as unsure as choosing among."""

    def __init__(self, name):
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
    """Makes the callbacks that read a text from its beginning, and forget it."""
    runner = InferenceRunner(Windows(words, STREAMS, TIMES), Perplexity(split), tower_name=split)
    return [reset_state(), runner, reset_state()]


def reset_state():
    """Makes the callback that lets the next window begin a text."""
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
