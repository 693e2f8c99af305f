"""Every part of Towerpack without a trainer: the graph and the loop below are a user's own.

    python plain_loop.py

A flow loads data, an input source brings them into the graph, layers make the model, and callbacks run as
session hooks. Each of the four could be replaced by something else without a change to the others.
"""

from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    MaxSaver,
    ModelSaver,
    MovingAverageSummary,
    RunUpdateOps,
    add_moving_summary,
    as_session_hooks,
)
from towerpack_dataflow import BatchData
from towerpack_dataflow.datasets import Digits
from towerpack_inputsource import QueueInput
from towerpack_layers import BNReLU, Conv2D, LinearWrap, TowerContext, argscope

LOG_DIR = Path("train_log/plain_loop")
INPUTS = [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]


def lenet(image: tf.Tensor) -> tf.Tensor:
    """Ten logits for each image."""
    with argscope(Conv2D, filters=16, kernel_size=3, use_bias=False, activation=BNReLU):
        return (
            LinearWrap(tf.expand_dims(image, 3))
            .Conv2D("conv0")
            .MaxPooling("pool0", 2)
            .Conv2D("conv1")
            .MaxPooling("pool1", 2)
            .FullyConnected("fc0", 64, activation=tf.nn.relu)
            .FullyConnected("fc1", 10)()
        )


def training_step(source: QueueInput) -> tf.Operation:
    """Builds the model over the source's datapoints, and returns the op of one step."""
    image, label = source.get_input_tensors()
    with TowerContext("", is_training=True):
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=lenet(image))
    cost = tf.reduce_mean(loss, name="cost")
    add_moving_summary(cost)
    return tf.train.AdamOptimizer(1e-3).minimize(cost)


class Accuracy(Callback):
    """Evaluates the model on some images after each epoch, in a second tower that shares its variables."""

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self._images = images
        self._labels = labels

    def _setup_graph(self) -> None:
        self._placeholder = tf.placeholder(tf.float32, [None, 8, 8], "test_image")
        with TowerContext("InferenceTower", is_training=False, reuse=True):
            self._answer = tf.argmax(lenet(self._placeholder), 1)

    def _before_train(self) -> None:
        self._predict = self.trainer.sess.make_callable(self._answer, [self._placeholder])

    def _trigger(self) -> None:
        self.latest = float(np.mean(self._predict(self._images) == self._labels))
        self.trainer.monitors.put_scalar("accuracy", self.latest)

    def produces(self) -> list[str]:
        return ["accuracy"]


def main(max_epoch: int = 8) -> None:
    """Trains, and prints the accuracy on the held-out fifth."""
    train, test = BatchData(Digits("train"), 32), Digits("test")
    with tf.Graph().as_default():
        source = QueueInput(train)
        source.setup(INPUTS)
        train_op = training_step(source)

        accuracy = Accuracy(*next(iter(BatchData(test, len(test)))))
        callbacks = [ModelSaver(keep_last=2), accuracy, MaxSaver("accuracy")]
        defaults = [MovingAverageSummary(), RunUpdateOps()]
        hooks = as_session_hooks(
            [*callbacks, *defaults], steps_per_epoch=len(train), max_epoch=max_epoch, log_dir=LOG_DIR
        )
        with tf.train.MonitoredTrainingSession(hooks=[*source.hooks(), *hooks]) as session:
            while not session.should_stop():
                session.run(train_op)
    print(f"accuracy {accuracy.latest:.4f}; checkpoints, events and stats.jsonl are in {LOG_DIR}")


if __name__ == "__main__":
    main()
