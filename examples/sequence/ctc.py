"""Read lines of handwritten digits without labelled positions.

    python ctc.py                          newly drawn lines
    python ctc.py --data FOLDER            lines written by `handwritten_lines.py FOLDER`

Two bidirectional LSTMs read a column of pixels at each step. Connectionist temporal classification sums over
all possible positions of the digits: after Graves and others, "Connectionist temporal
classification: labelling unsegmented sequence data with recurrent neural networks" (2006). The figure is the
label error rate of lines of held-out digits: the digits to insert, remove or replace, for each in the lines.
"""

import numpy as np
import tensorflow.compat.v1 as tf
from handwritten_lines import HEIGHT, make_flows, write_lines
from options import run, train

from towerpack_callbacks import (
    Inferencer,
    InferenceRunner,
    MinSaver,
    ScheduledHyperParamSetter,
    add_moving_summary,
)
from towerpack_layers import BidirectionalRNN, FullyConnected, LSTMCell
from towerpack_trainers import GlobalNormClip, ModelDesc, apply_grad_processors

DIGITS, UNITS, LAYERS = 10, 64, 2


class LineReader(ModelDesc):
    """Bidirectional recurrent layers, and the logits of each column: the digits, and a blank."""

    def inputs(self):
        return [
            tf.TensorSpec([None, None, HEIGHT], tf.float32, "strip"),
            tf.TensorSpec([None], tf.int32, "width"),
            tf.TensorSpec([None, None], tf.int32, "labels"),
        ]

    def build_graph(self, strip, width, labels):
        x = strip
        for layer in range(LAYERS):
            x = BidirectionalRNN(f"rnn{layer}", x, LSTMCell(UNITS), LSTMCell(UNITS), lengths=width)
        logits = FullyConnected("linear", tf.reshape(x, [-1, 2 * UNITS]), DIGITS + 1)
        # TensorFlow's decoders need the time as the first axis.
        logits = tf.transpose(tf.reshape(logits, [tf.shape(x)[0], -1, DIGITS + 1]), [1, 0, 2])
        truth = to_sparse(labels)
        cost = tf.reduce_mean(tf.nn.ctc_loss(truth, logits, width), name="cost")
        (greedy,), _ = tf.nn.ctc_greedy_decoder(logits, width)
        errors = count_errors(greedy, truth, "greedy_errors")
        count = tf.reduce_sum(tf.cast(labels >= 0, tf.float32), 1, name="label_count")
        if self.training:
            rate = tf.divide(tf.reduce_sum(errors), tf.reduce_sum(count), name="training_greedy")
            add_moving_summary(cost, rate)
        else:
            (beam,), _ = tf.nn.ctc_beam_search_decoder_v2(logits, width, beam_width=20)
            count_errors(beam, truth, "beam_errors")
        return cost

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=3e-3, trainable=False)
        return apply_grad_processors(tf.train.AdamOptimizer(rate), [GlobalNormClip(5.0)])


def to_sparse(labels):
    """Converts labels padded with -1 to a sparse tensor."""
    places = tf.where(labels >= 0)
    return tf.SparseTensor(places, tf.gather_nd(labels, places), tf.shape(labels, out_type=tf.int64))


def count_errors(found, truth, name):
    """Counts the digits to insert, remove or replace in each line."""
    return tf.edit_distance(tf.cast(found, tf.int32), truth, normalize=False, name=name)


class LabelErrors(Inferencer):
    """Divides the errors in all lines by the digits in all lines, for both decoders."""

    def _get_fetches(self):
        return ["greedy_errors", "beam_errors", "label_count"]

    def _before_inference(self):
        self.sums = np.zeros(3)

    def _on_fetches(self, values, batch_size):
        self.sums += [value.sum() for value in values]

    def _after_inference(self):
        return dict(zip(self.produces(), (self.sums[:2] / self.sums[2]).tolist()))

    def produces(self):
        return ["validation_greedy", "validation_beam"]


def train_on(folder, options):
    """Trains on the lines in a folder, and returns the figure."""
    flow, held_out = make_flows(folder)
    schedule = [(0, 3e-3), (options.epochs / 2, 1e-3), (0.8 * options.epochs, 3e-4)]
    callbacks = [
        InferenceRunner(held_out, LabelErrors()),
        MinSaver("validation_beam"),
        ScheduledHyperParamSetter("learning_rate", schedule),
    ]
    monitors = train(LineReader(), flow, options, callbacks)
    greedy, beam = (monitors.get_latest(f"validation_{way}") for way in ("greedy", "beam"))
    return f"label error rate {greedy:.4f} by the likeliest columns, {beam:.4f} by beam search"


if __name__ == "__main__":
    run(train_on, write_lines, __doc__, epochs=8, data="the folder of lines; they are drawn without it")
