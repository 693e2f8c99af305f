"""Costs of layer outputs count in the tower that made them, for any placement of towers."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import InferenceRunner, ScalarStats
from towerpack_layers import FullyConnected, l2_regularizer, regularize_cost_from_collection
from towerpack_trainers import (
    ModelDesc,
    SimpleTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)
from towerpack_trainers.testing import FinalVariables

DEVICES = ["/cpu:0", "/cpu:1"]


class Regularized(ModelDesc):
    """A layer with costs of weights and outputs; the mean over examples is the mean over towers."""

    def inputs(self):
        return [tf.TensorSpec([4, 2], tf.float32, "x")]

    def build_graph(self, x):
        def mean_activity(out):
            return 0.5 * tf.reduce_mean(tf.square(out))

        ones = tf.ones_initializer()
        out = FullyConnected(
            "fc",
            x,
            3,
            kernel_initializer=ones,
            kernel_regularizer=l2_regularizer(0.1),
            activity_regularizer=mean_activity,
        )
        cost = tf.reduce_mean(tf.square(out - 1.0))
        return tf.add(cost, regularize_cost_from_collection(), name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


def batches():
    return [[x] for x in np.random.default_rng(0).normal(0, 2, size=(6, 4, 2)).astype(np.float32)]


def weights_of_one_tower():
    """Trains on both towers' batches combined, with the gradients of a single graph."""
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [8, 2])
        weight, bias = tf.Variable(tf.ones([2, 3])), tf.Variable(tf.zeros([3]))
        out = x @ weight + bias
        cost = tf.reduce_mean(tf.square(out - 1.0)) + 0.5 * tf.reduce_mean(tf.square(out))
        step = tf.train.GradientDescentOptimizer(0.1).minimize(cost + 0.1 * tf.nn.l2_loss(weight))
        sess.run(tf.global_variables_initializer())
        data = [x for [x] in batches()]
        for index in range(0, 6, 2):
            sess.run(step, {x: np.concatenate(data[index : index + 2])})
        return sess.run(weight)


@pytest.mark.parametrize("evaluates", [False, True])
@pytest.mark.parametrize(
    "trainer", [SyncMultiGPUTrainer, SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated]
)
def test_weights_are_those_of_one_tower_with_both_batches(trainer, evaluates, configure):
    end = FinalVariables()
    evaluation = [InferenceRunner(batches(), ScalarStats("cost"))] if evaluates else []
    config = configure(
        model=Regularized(), dataflow=batches(), callbacks=[*evaluation, end], steps_per_epoch=3, max_epoch=1
    )
    trainer(config, devices=DEVICES).train()
    np.testing.assert_allclose(end.values["fc/W"], weights_of_one_tower(), rtol=1e-5)


def test_one_device_counts_them_once(configure):
    end = FinalVariables()
    both = [[np.concatenate(pair)] for pair in zip(*[iter([x for [x] in batches()])] * 2)]
    model = Regularized()
    model.inputs = lambda: [tf.TensorSpec([8, 2], tf.float32, "x")]
    SimpleTrainer(configure(model=model, dataflow=both, callbacks=[end], max_epoch=1)).train()
    np.testing.assert_allclose(end.values["fc/W"], weights_of_one_tower(), rtol=1e-5)
