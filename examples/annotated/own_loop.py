"""A training loop without a trainer, with all annotations: an input source, layers, and callbacks as hooks.

python own_loop.py
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    MinSaver,
    ModelSaver,
    MovingAverageSummary,
    add_moving_summary,
    as_session_hooks,
)
from towerpack_dataflow import BatchData
from towerpack_dataflow.datasets import Digits
from towerpack_inputsource import InputSource, QueueInput
from towerpack_layers import FullyConnected, LinearWrap, TowerContext

INPUTS = [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]


class LatestCost(Callback):
    """Keeps the moving average of the cost."""

    cost = float("nan")

    def consumes(self) -> Sequence[str]:
        """Returns the name of the number that the callback reads."""
        return ["cost"]

    def _trigger(self) -> None:
        self.cost = float(self.trainer.monitors.get_latest("cost"))


def training_op(source: InputSource) -> tf.Operation:
    """Builds the model over the source's datapoints, and returns the op of one step."""
    image, label = source.get_input_tensors()
    with TowerContext("", is_training=True):
        hidden = LinearWrap(image).FullyConnected("fc0", 64, activation=tf.nn.relu)()
        logits = FullyConnected("fc1", hidden, 10)
    cost = tf.identity(tf.losses.sparse_softmax_cross_entropy(label, logits), "cost")
    add_moving_summary(cost)
    return tf.train.AdamOptimizer(3e-3).minimize(cost)


def main(max_epoch: int = 3, log_dir: str = "train_log/annotated_loop") -> None:
    """Trains, and prints the cost."""
    flow, latest = BatchData(Digits("train"), 32), LatestCost()
    with tf.Graph().as_default():
        source = QueueInput(flow)
        source.setup(INPUTS)
        op = training_op(source)
        hooks = as_session_hooks(
            [ModelSaver(keep_last=1), MovingAverageSummary(), MinSaver("cost"), latest],
            steps_per_epoch=len(flow),
            max_epoch=max_epoch,
            log_dir=log_dir,
        )
        with tf.train.MonitoredTrainingSession(hooks=[*source.hooks(), *hooks]) as session:
            while not session.should_stop():
                session.run(op)
    print(f"cost {latest.cost:.3f}")


if __name__ == "__main__":
    main()
