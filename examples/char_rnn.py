"""Train a character model on the help texts of Python, and sample text from it.

    python char_rnn.py                 train; writes to train_log/char_rnn
    python char_rnn.py --resume        resume an interrupted training
    python char_rnn.py --sample 500    print 500 characters sampled from the trained model

The text is that of `pydoc_data.topics`, which comes with Python. Two LSTMs read it in parallel streams.
Each step trains on a window of every stream, and passes the state of the LSTMs on to the next window. The
last twentieth of the text is held out. Its perplexity starts at about 100, the number of characters; it falls
below 6 within two epochs, and below 4 within the default of eight.
"""

import argparse
import logging
import pydoc_data.topics
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, InferenceRunner, ModelSaver, ScalarStats, add_moving_summary
from towerpack_dataflow import DataFlow
from towerpack_layers import RNN, FullyConnected, LSTMCell, LSTMState, MultiRNNCell
from towerpack_trainers import (
    GlobalNormClip,
    ModelDesc,
    OfflinePredictor,
    PredictConfig,
    SaverRestore,
    SimpleTrainer,
    TrainConfig,
    apply_grad_processors,
)

LOG_DIR = Path("train_log/char_rnn")
TEXT = "\n".join(pydoc_data.topics.topics.values())
CHARACTERS = sorted(set(TEXT))
LAYERS, STREAMS, TIMES = 2, 32, 50


class Windows(DataFlow):
    """Windows of several streams of the text, in order, with the next characters as targets."""

    def __init__(self, text):
        codes = {character: code for code, character in enumerate(CHARACTERS)}
        symbols = np.array([codes[character] for character in text], np.int32)
        self._count = (len(symbols) - 1) // (STREAMS * TIMES)
        length = self._count * TIMES
        rows = np.arange(STREAMS)[:, None] * length + np.arange(length + 1)
        self._streams = symbols[rows]

    def __len__(self):
        return self._count

    def datapoint(self, epoch, index):
        window = self._streams[:, index * TIMES : (index + 1) * TIMES + 1]
        return [window[:, :-1].copy(), window[:, 1:].copy()]


class CharRNN(ModelDesc):
    """Two LSTMs over windows of the text, and the logits of each next character."""

    def __init__(self, units):
        self._units = units
        self.cell = MultiRNNCell([LSTMCell(units) for _ in range(LAYERS)])

    def inputs(self):
        return [tf.TensorSpec([STREAMS, TIMES], tf.int32, name) for name in ("symbol", "following")]

    def build_graph(self, symbol, following, /):  # a subclass has another input
        state = carried = None
        if self.training:
            shape = [LAYERS, 2, STREAMS, self._units]
            carried = tf.get_variable("carried", shape, initializer=tf.zeros_initializer(), trainable=False)
            state = self.unpack(carried)
        outputs = RNN("rnn", self.embed(symbol), self.cell, initial_state=state)
        logits = self.logits(tf.reshape(outputs, [-1, self._units]))
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.reshape(following, [-1]), logits=logits
        )
        cost = tf.reduce_mean(loss, name="cost")
        if carried is not None:
            # The window of the next step follows this one.
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, carried.assign(self.pack(outputs.state)))
            add_moving_summary(cost)
        return cost

    def embed(self, symbol):
        """An embedding of each character."""
        return tf.nn.embedding_lookup(tf.get_variable("embedding", [len(CHARACTERS), 64]), symbol)

    def logits(self, outputs):
        """The logits of the next character."""
        return FullyConnected("linear", outputs, len(CHARACTERS))

    def pack(self, state):
        """The state of the cells as one tensor."""
        return tf.stack([tf.stack(layer) for layer in state])

    def unpack(self, packed):
        """The state of the cells from one tensor."""
        return [LSTMState(*tf.unstack(layer)) for layer in tf.unstack(packed)]

    def optimizer(self):
        return apply_grad_processors(tf.train.AdamOptimizer(3e-3), [GlobalNormClip(5.0)])


class Writer(CharRNN):
    """The same network for one character at a time."""

    def inputs(self):
        return [
            tf.TensorSpec([1], tf.int32, "symbol"),
            tf.TensorSpec([LAYERS, 2, 1, self._units], tf.float32, "state"),
        ]

    def build_graph(self, symbol, state, /):
        embedded = self.embed(symbol)
        with tf.variable_scope("rnn"):
            output, state = self.cell(embedded, self.unpack(state))
        tf.nn.softmax(self.logits(output), name="probabilities")
        tf.identity(self.pack(state), "next_state")


class Perplexity(Callback):
    """Records the perplexity."""

    def consumes(self):
        return ["validation_cost"]

    def produces(self):
        return ["perplexity"]

    def _trigger(self):
        cost = self.trainer.monitors.get_latest("validation_cost")
        self.trainer.monitors.put_scalar("perplexity", float(np.exp(cost)))

    def _after_train(self):
        if "perplexity" in self.trainer.monitors:
            values = [value for _, value in self.trainer.monitors.get_history("perplexity")]
            print(f"perplexity {values[-1]:.2f} on held-out text, of {len(CHARACTERS)} characters")


def train(units: int, resume: bool, max_epoch: int) -> None:
    """Trains, with an evaluation on the held-out text after each epoch."""
    end = len(TEXT) * 19 // 20
    config = TrainConfig(
        model=CharRNN(units),
        dataflow=Windows(TEXT[:end]),
        callbacks=[
            ModelSaver(keep_last=2),
            InferenceRunner(Windows(TEXT[end:]), [ScalarStats("cost")]),
            Perplexity(),
        ],
        max_epoch=max_epoch,
        log_dir=LOG_DIR,
        resume="auto" if resume else None,
    )
    SimpleTrainer(config).train()


def sample(units: int, count: int, seed: int) -> str:
    """Samples text from the trained model: each drawn character is the next input."""
    latest = SaverRestore(LOG_DIR / "latest")
    config = PredictConfig(
        model=Writer(units),
        session_init=latest,
        input_names=["symbol", "state"],
        output_names=["probabilities", "next_state"],
    )
    draw, written = np.random.default_rng(seed), ["\n"]
    state = np.zeros([LAYERS, 2, 1, units], np.float32)
    with OfflinePredictor(config) as predict:
        for _ in range(count):
            probabilities, state = predict([CHARACTERS.index(written[-1])], state)
            chances = probabilities[0].astype(np.float64)
            written.append(str(draw.choice(CHARACTERS, p=chances / chances.sum())))
    return "".join(written[1:])


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="A character model of Python's help texts")
    parser.add_argument("--resume", action="store_true", help="resume from the latest checkpoint")
    parser.add_argument("--sample", type=int, metavar="N", help="print N characters instead of training")
    parser.add_argument("--epochs", type=int, default=8, help="the last epoch")
    parser.add_argument("--units", type=int, default=128, help="units of each LSTM")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the sample")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if args.sample is not None:
        print(sample(args.units, args.sample, args.seed))
    else:
        train(args.units, args.resume, args.epochs)


if __name__ == "__main__":
    main()
