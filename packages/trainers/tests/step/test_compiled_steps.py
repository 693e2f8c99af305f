"""With `xla=True` and `steps_per_run`, XLA compiles the steps of a call as one program."""

import logging

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, ModelSaver, RunUpdateOps, StepFetch
from towerpack_dataflow import BatchData, DataFromArrays
from towerpack_inputsource import QueueInput
from towerpack_trainers import ModelDesc, SimpleTrainer
from towerpack_trainers.step._compiled_steps import CompiledSteps

BATCH, EXAMPLES = 4, 60


class Small(ModelDesc):
    """A layer of inputs of several dtypes, and a counter of the labels that it has seen."""

    def inputs(self):
        return [
            tf.TensorSpec([BATCH, 3], tf.float32, "x"),
            tf.TensorSpec([BATCH], tf.uint8, "label"),
            tf.TensorSpec([BATCH], tf.bool, "kept"),
        ]

    def build_graph(self, x, label, kept):
        weight = tf.get_variable("weight", [3, 2], initializer=tf.ones_initializer())
        seen = tf.get_variable("seen", [], tf.int64, tf.zeros_initializer(), trainable=False)
        tf.add_to_collection(
            tf.GraphKeys.UPDATE_OPS, seen.assign_add(tf.reduce_sum(tf.cast(label, tf.int64)))
        )
        logits = self.changed(tf.matmul(x, weight))
        costs = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.cast(label, tf.int32) % 2, logits=logits
        )
        return tf.reduce_mean(tf.where(kept, costs, 2 * costs), name="cost")

    def changed(self, logits):
        return logits

    def optimizer(self):
        return tf.train.AdamOptimizer(0.1)


class Costs(Callback):
    """Notes the cost of the steps that callbacks see."""

    def __init__(self):
        self.seen = []

    def step_fetches(self):
        [cost] = self.trainer.get_tensors(["cost"])
        return [StepFetch(cost, lambda value: self.seen.append((self.global_step, float(value))))]


class Kinds(Callback):
    """Notes the kinds of ops that a step alone runs, after all of TensorFlow's passes."""

    def _before_train(self):
        metadata, options = tf.RunMetadata(), tf.RunOptions(output_partition_graphs=True)
        self.trainer.sess.run(self.trainer.train_op, options=options, run_metadata=metadata)
        self.seen = {node.op for graph in metadata.partition_graphs for node in graph.node}


def flow(examples=EXAMPLES):
    """Shuffled batches of all inputs."""
    draw = np.random.default_rng(0)
    arrays = [
        draw.normal(size=(examples, 3)).astype(np.float32),
        draw.integers(0, 100, examples).astype(np.uint8),
        draw.integers(0, 2, examples).astype(bool),
    ]
    return BatchData(DataFromArrays(arrays, shuffle=True), BATCH)


def trained(configure, kit, *, model=None, data=None, times=5, compiled=True, callbacks=(), **changes):
    """Returns the variables and costs of a training, and the number of its steps."""
    weights, costs = kit.Weights(), Costs()
    config = configure(
        model=model or Small(),
        data=data or QueueInput(flow()),
        callbacks=[weights, costs, RunUpdateOps(), *callbacks],
        steps_per_epoch=15,
        steps_per_run=times,
        xla=compiled,
        seed=3,
        **changes,
    )
    trainer = SimpleTrainer(config)
    trainer.train()
    return weights.values, costs.seen, trainer.loop.global_step


@pytest.fixture
def compiled(monkeypatch):
    """The numbers of steps for which loops were compiled."""
    found, make = [], CompiledSteps.of.__func__

    def of(cls, done, most):
        steps = make(cls, done, most)
        found.append(most if steps else None)
        return steps

    monkeypatch.setattr(CompiledSteps, "of", classmethod(of))
    return found


@pytest.mark.parametrize("times", [3, 5, 15])
def test_steps_are_those_of_the_graph(configure, kit, compiled, times):
    plain, costs, _ = trained(configure, kit, times=times, compiled=False)
    found, compiled_costs, _ = trained(configure, kit, times=times)
    assert compiled == [times - 1]
    assert found["seen"] == plain["seen"] > 0
    for name, value in plain.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    assert [step for step, _ in compiled_costs] == [step for step, _ in costs]
    np.testing.assert_allclose([cost for _, cost in compiled_costs], [cost for _, cost in costs], rtol=1e-4)


def test_the_same_training_twice_is_equal_to_the_last_bit(configure, kit):
    first, costs, _ = trained(configure, kit)
    second, again, _ = trained(configure, kit)
    kit.assert_same(first, second)
    assert costs == again


def test_a_resumed_training_equals_the_whole_one(configure, kit, tmp_path):
    whole, costs, _ = trained(configure, kit, max_epoch=2)
    run = {"callbacks": [ModelSaver()], "log_dir": tmp_path / "run"}
    trained(configure, kit, max_epoch=1, **run)
    resumed, again, _ = trained(configure, kit, max_epoch=2, resume="auto", **run)
    kit.assert_same(whole, resumed)
    assert costs[-len(again) :] == again and 0 < len(again) < len(costs)


def test_all_batches_are_used_if_the_data_end_within_a_call(configure, kit):
    def ended(compiled):
        data = QueueInput(flow(13 * BATCH), infinite=False)
        values, _, steps = trained(configure, kit, data=data, compiled=compiled)
        return values["seen"], steps

    assert ended(True) == ended(False)
    assert ended(True)[1] == 13


@pytest.mark.parametrize("check", ["Assert", "CheckNumerics"])
def test_checks_are_not_left_out(configure, kit, compiled, check):
    class Checked(Small):
        def changed(self, logits):
            if check == "CheckNumerics":
                return tf.debugging.check_numerics(logits / 0.0, "no number")
            with tf.control_dependencies([tf.Assert(tf.reduce_sum(logits) > 1e6, ["too small"])]):
                return tf.identity(logits)

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"no number|too small"):
        trained(configure, kit, model=Checked())
    assert compiled == [None]


class Noisy(Small):
    """A model that the loop cannot compile."""

    def changed(self, logits):
        return logits + tf.random.uniform(tf.shape(logits), seed=1)


@pytest.mark.parametrize("model", [Small, Noisy])
def test_a_step_alone_is_compiled_only_without_the_loop(configure, kit, model):
    trained(configure, kit, model=model(), callbacks=[kinds := Kinds()])
    assert ("_XlaRun" in kinds.seen) is (model is Noisy)


def test_random_ops_are_not_compiled_in_the_loop(configure, kit, compiled):
    trained(configure, kit, model=Noisy())
    assert compiled == [None]


def test_ops_that_xla_lacks_run_step_by_step(configure, kit, compiled, caplog):
    class Unsupported(Small):
        def changed(self, logits):
            order = tf.strings.to_number(tf.as_string(logits))
            return logits + 0 * tf.reshape(order, logits.shape)

    caplog.set_level(logging.WARNING)
    found, costs, _ = trained(configure, kit, model=Unsupported())
    plain, plain_costs, _ = trained(configure, kit, model=Unsupported(), compiled=False)
    assert compiled == [4]
    assert "xla=True: XLA cannot compile the loop over the steps of a call" in caplog.text
    assert len(costs) == len(plain_costs) and found["seen"] == plain["seen"]


def test_a_step_alone_is_not_in_a_loop(configure, kit, compiled):
    trained(configure, kit, times=1)
    assert compiled == []
