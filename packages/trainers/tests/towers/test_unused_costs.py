"""Collected regularizers without effect are reported."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import FullyConnected, l2_regularizer, regularize_cost_from_collection
from towerpack_trainers import (
    ModelDesc,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
)

TWO = ["/cpu:0", "/cpu:1"]
TRAINERS = {
    "one": SimpleTrainer,
    "shared": lambda config: SyncMultiGPUTrainerParameterServer(config, TWO),
    "replicated": lambda config: SyncMultiGPUTrainerReplicated(config, TWO),
}


class Regularized(ModelDesc):
    """Layers with regularizers, and a cost computed by a function of the output."""

    def __init__(self, cost, layers=2):
        self.cost, self.layers = cost, layers

    def inputs(self):
        return [tf.TensorSpec([None, 3], tf.float32, "x")]

    def build_graph(self, x):
        for index in range(self.layers):
            x = FullyConnected(f"fc{index}", x, 3, kernel_regularizer=l2_regularizer(1.0))
        return self.cost(tf.reduce_mean(x))

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


def warnings(caplog, model, trainer="one"):
    TRAINERS[trainer](TrainConfig(model=model, dataflow=[[np.ones([2, 3])]], steps_per_epoch=1, max_epoch=1))
    return [message for message in caplog.messages if message.startswith("These regularizers")]


@pytest.mark.parametrize("trainer", list(TRAINERS))
def test_no_regularizer_is_used(caplog, trainer):
    (message,) = warnings(caplog, Regularized(lambda cost: cost), trainer)
    assert "the cost does not depend on them: fc0/W, fc1/W. Add towerpack_layers" in message


def test_some_regularizers_are_used(caplog):
    def first_alone(cost):
        return cost + tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)[0]

    (message,) = warnings(caplog, Regularized(first_alone))
    assert "does not depend on them: fc1/W. Add" in message


def test_many_are_counted(caplog):
    (message,) = warnings(caplog, Regularized(lambda cost: cost, layers=10))
    assert "fc6/W, fc7/W and 2 more. Add" in message


@pytest.mark.parametrize("trainer", list(TRAINERS))
@pytest.mark.parametrize(
    "add",
    [
        lambda cost: cost + regularize_cost_from_collection(),
        lambda cost: cost + tf.losses.get_regularization_loss(),
        lambda cost: tf.add_n([cost, *tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)]),
    ],
    ids=["ours", "of tf.losses", "by hand"],
)
def test_all_regularizers_are_used(caplog, add, trainer):
    assert not warnings(caplog, Regularized(add), trainer)
