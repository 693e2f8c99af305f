"""The cost of a training is a statistic, without a declaration in the model."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import InferenceRunner, Monitor, ScalarStats, add_moving_summary
from towerpack_dataflow import BatchData, DataFromList
from towerpack_trainers import ModelDesc, NoOpTrainer, SimpleTrainer, SyncMultiGPUTrainer, TrainConfig
from towerpack_trainers.gan import GANCosts, GANModelDesc, GANTrainer

NUMBERS = [[np.float32(k)] for k in range(8)]


class Line(ModelDesc):
    """A cost with regularization; `name` is the name of the part without it."""

    def __init__(self, name=None, declare=()):
        self._name, self._declare = name, declare

    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x")]

    def build_graph(self, x):
        weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
        data = tf.reduce_mean((x * weight) ** 2, name=self._name)
        total = data + 0.1 * weight**2
        parts = {"data": data, "total": total, "renamed": tf.identity(total, "loss")}
        add_moving_summary([parts[each] for each in self._declare])
        return total

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.0)


class Critic(GANModelDesc):
    """Two numbers, and a cost with a penalty."""

    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x")]

    def build_graph(self, x):
        with tf.variable_scope("gen"):
            made = tf.get_variable("made", [])
        with tf.variable_scope("discrim"):
            slope = tf.get_variable("slope", [])
        return GANCosts(generator=-slope * made, discriminator=slope * (made - tf.reduce_mean(x)) + slope**2)

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.0)


class Statistics(Monitor):
    """Keeps the values of an epoch, in their order."""

    def __init__(self):
        self.values = {}

    def process_scalar(self, name, value, global_step):
        if not name.endswith("queue_size"):
            self.values[name] = value


def statistics(model, trainer=SimpleTrainer, callbacks=(), **options):
    kept, flow = Statistics(), BatchData(DataFromList(NUMBERS, shuffle=False), 4)
    config = TrainConfig(
        model=model, dataflow=flow, max_epoch=1, log_dir=None, monitors=[kept], callbacks=list(callbacks)
    )
    trainer(config, **options).train()
    return kept.values


def test_the_cost_has_the_name_cost():
    assert statistics(Line()) == {"cost": pytest.approx(0.1 + 17.5, rel=0.4)}


def test_another_tensor_may_have_the_name_cost():
    assert list(statistics(Line("cost"))) == ["training_cost"]


@pytest.mark.parametrize("declared", ["total", "renamed"])
def test_a_declared_cost_is_not_declared_again(declared):
    [name] = statistics(Line(declare=[declared]))
    assert name != "cost"


def test_the_cost_stands_before_other_statistics():
    assert list(statistics(Line("data", declare=["data"]))) == ["cost", "data"]


def test_several_towers_have_one_cost():
    assert list(statistics(Line(), SyncMultiGPUTrainer, devices=["/cpu:0", "/cpu:1"])) == ["cost"]


def test_evaluations_find_the_cost_by_its_name():
    runner = InferenceRunner(BatchData(DataFromList(NUMBERS, shuffle=False), 4), ScalarStats("cost"))
    assert statistics(Line(), callbacks=[runner])["validation_cost"] == pytest.approx(17.6)


def test_empty_steps_take_no_datapoint_for_the_cost():
    assert statistics(Line(), NoOpTrainer) == {}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [({}, ["discriminator_cost", "generator_cost"]), ({"d_steps": 2}, ["discriminator_cost"])],
)
def test_both_costs_of_a_round(steps, expected):
    assert list(statistics(Critic(), GANTrainer, **steps)) == expected
