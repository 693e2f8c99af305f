"""N towers with batch B equal one tower with batch N * B, step by step, for every strategy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback
from towerpack_callbacks.checkpoint import snapshot_variables
from towerpack_layers import BatchNorm, Dropout, FullyConnected, l2_regularizer, regularize_cost
from towerpack_trainers import (
    AsyncMultiGPUTrainer,
    ModelDesc,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)
from towerpack_trainers.optimize import (
    AccumGradOptimizer,
    DynamicLossScaleOptimizer,
    GlobalNormClip,
    apply_grad_processors,
)
from towerpack_trainers.replicate import _allreduce

STEPS = 50
CPUS = [f"/cpu:{index}" for index in range(4)]


@pytest.fixture
def nccl_on_cpus(monkeypatch):
    """The whole NCCL mode except for NCCL itself."""

    def sum_on_each(tensors):
        total = tf.add_n(tensors)
        return [total for _ in tensors]

    monkeypatch.setattr(_allreduce, "are_gpus", lambda devices: True)
    monkeypatch.setattr(_allreduce, "sum_over_gpus", sum_on_each)


@pytest.fixture(params=["cpu", "gpu", "replicated", "hierarchical", "nccl"])
def strategy(request):
    """Makes a synchronous trainer from a configuration and devices."""
    if request.param in {"cpu", "gpu"}:
        return lambda config, devices: SyncMultiGPUTrainerParameterServer(
            config, devices, ps_device=request.param
        )
    if request.param == "nccl":
        request.getfixturevalue("nccl_on_cpus")
    mode = None if request.param == "replicated" else request.param
    return lambda config, devices: SyncMultiGPUTrainerReplicated(config, devices, mode=mode)


class Trajectory(Callback):
    """Records the variables' values after every step."""

    def __init__(self):
        self.values = []

    def _trigger_step(self):
        variables = self.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
        self.values.append(snapshot_variables(self.trainer.sess, variables))


class Network(ModelDesc):
    """Two layers with weight decay and dropout; the mask depends only on step and example."""

    def __init__(self, optimizer):
        self._make = optimizer

    def inputs(self):
        return [
            tf.TensorSpec([None], tf.int32, "number"),
            tf.TensorSpec([None, 4], tf.float32, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, number, image, label):
        hidden = self.regularize(FullyConnected("fc0", image, 8, activation=tf.nn.tanh), number)
        logits = FullyConnected("fc1", hidden, 2)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        return tf.add(tf.reduce_mean(loss), regularize_cost("fc.*/W", l2_regularizer(0.01)), name="cost")

    def regularize(self, hidden, number):
        step = tf.cast(tf.train.get_global_step().read_value(), tf.float32)
        unit = tf.range(8, dtype=tf.float32)
        noise = tf.sin(tf.cast(number, tf.float32)[:, None] * 12.9898 + unit * 78.233 + step * 3.7) * 43758.5
        return hidden * tf.cast(noise - tf.floor(noise) > 0.3, tf.float32) / 0.7

    def optimizer(self):
        return self._make()


OPTIMIZERS = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.3),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
    "clipped": lambda: apply_grad_processors(tf.train.MomentumOptimizer(0.1, 0.9), [GlobalNormClip(0.1)]),
    "accumulated": lambda: AccumGradOptimizer(tf.train.AdamOptimizer(0.01), 3),
    "scaled": lambda: DynamicLossScaleOptimizer(
        tf.train.AdamOptimizer(0.01), initial_scale=4, growth_interval=10
    ),
}


def examples(batches, size, seed=0):
    """Batches of a number, an image and a label."""
    rng = np.random.default_rng(seed)
    images = rng.normal(size=(batches, size, 4)).astype(np.float32)
    numbers = np.arange(batches * size, dtype=np.int32).reshape(batches, size)
    return [[n, x, (x[:, 2:].sum(1) > x[:, :2].sum(1)).astype(np.int32)] for n, x in zip(numbers, images)]


def joined(batches, count):
    """Every `count` batches as one."""
    groups = zip(*(batches[start::count] for start in range(count)))
    return [[np.concatenate(parts) for parts in zip(*group)] for group in groups]


def train(make, configure, model, data, **changes):
    """Trains `STEPS` steps, and returns the trajectory and the trainer."""
    trajectory = Trajectory()
    config = configure(
        model=model,
        dataflow=data,
        callbacks=[trajectory],
        steps_per_epoch=STEPS,
        max_epoch=1,
        **changes,
    )
    trainer = make(config)
    trainer.train()
    assert len(trajectory.values) == STEPS
    return trajectory.values, trainer


def assert_same_trajectory(one, other, tolerance=2e-5):
    """Weights agree after each step, and so do their changes: the gradients, for plain descent."""
    assert one[0].keys() == other[0].keys()
    for name in one[0]:
        first, second = (np.stack([values[name] for values in side]) for side in (one, other))
        np.testing.assert_allclose(second, first, rtol=tolerance, atol=tolerance, err_msg=name)
        np.testing.assert_allclose(
            np.diff(second, axis=0), np.diff(first, axis=0), rtol=1e-3, atol=tolerance, err_msg=name
        )


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_synchronous_towers_equal_one_tower_with_their_batches(configure, strategy, optimizer):
    data = examples(3 * 20, 4)
    one, _ = train(SimpleTrainer, configure, Network(OPTIMIZERS[optimizer]), joined(data, 3))
    other, trainer = train(
        lambda config: strategy(config, CPUS[:3]), configure, Network(OPTIMIZERS[optimizer]), data
    )
    assert_same_trajectory(one, other)
    assert len(trainer.tower_func.training) == 3
    moved = [name for name in one[0] if np.abs(one[-1][name] - one[0][name]).max() > 0.01]
    assert {"fc0/W", "fc1/W"} <= set(moved)


class Dropped(Network):
    """With the layer, whose mask also depends on the tower."""

    def regularize(self, hidden, number):
        return Dropout("dropout", hidden, rate=0.3)


def test_masks_of_towers_do_not_depend_on_the_strategy(configure, strategy):
    data = examples(2 * 20, 4)
    model = Dropped(OPTIMIZERS["descent"])
    reference, _ = train(
        lambda config: SyncMultiGPUTrainerParameterServer(config, CPUS[:2]), configure, model, data
    )
    other, _ = train(lambda config: strategy(config, CPUS[:2]), configure, model, data)
    assert_same_trajectory(reference, other)
    without, _ = train(lambda config: strategy(config, CPUS[:2]), configure, Network(model.optimizer), data)
    assert np.abs(without[-1]["fc0/W"] - other[-1]["fc0/W"]).max() > 1e-3


class Normalised(Network):
    """With batch normalisation, over one tower's batch or over all."""

    def __init__(self, sync):
        super().__init__(OPTIMIZERS["descent"])
        self._sync = sync

    def regularize(self, hidden, number):
        return BatchNorm("bn", 3 * hidden + 5, sync_statistics=self._sync)


def test_synchronised_statistics_are_those_of_the_whole_batch(configure, strategy):
    data = examples(2 * 20, 4)
    ends = []
    for make, flow in (
        (SimpleTrainer, joined(data, 2)),
        (lambda config: strategy(config, CPUS[:2]), data),
    ):
        values, _ = train(make, configure, Normalised(sync=True), flow, extra_callbacks=None)
        ends.append(values)
    assert_same_trajectory(*ends, tolerance=2e-4)
    assert ends[0][-1]["bn/mean/EMA"].min() > 1


def test_statistics_are_otherwise_those_of_the_first_tower(configure, strategy):
    """With a rate of 0 the weights do not change, so the inputs of tower 0 are known."""
    data = examples(2 * 20, 4)
    model = Normalised(sync=False)
    model._make = lambda: tf.train.GradientDescentOptimizer(0.0)
    first, _ = train(SimpleTrainer, configure, model, data[::2], extra_callbacks=None)
    other, _ = train(lambda config: strategy(config, CPUS[:2]), configure, model, data, extra_callbacks=None)
    assert_same_trajectory(first, other)


class Drift(ModelDesc):
    """A cost linear in the weights, so that its gradients do not depend on them."""

    def inputs(self):
        return [tf.TensorSpec([None, 4], tf.float32, "x")]

    def build_graph(self, x):
        weights = tf.get_variable("weights", [4], initializer=tf.zeros_initializer())
        return tf.reduce_mean(tf.linalg.matvec(x, weights), name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1, use_locking=True)


@pytest.mark.parametrize("scale_gradient", [True, False])
def test_asynchronous_towers_make_all_their_updates(configure, scale_gradient):
    """If staleness has no effect, the sum of updates equals that of one tower: no update is lost."""
    rng = np.random.default_rng(0)
    data = [[rng.normal(size=(4, 4)).astype(np.float32)] for _ in range(3 * 20)]
    one, _ = train(SimpleTrainer, configure, Drift(), joined(data, 3))
    other, _ = train(
        lambda config: AsyncMultiGPUTrainer(config, CPUS[:3], scale_gradient=scale_gradient),
        configure,
        Drift(),
        data,
    )
    if not scale_gradient:
        one = [{name: 3 * value for name, value in values.items()} for values in one]
    for mine, theirs in zip(one, other):
        np.testing.assert_allclose(theirs["weights"], mine["weights"], rtol=1e-4, atol=1e-5)


def test_asynchronous_towers_learn(kit, configure):
    trainer = AsyncMultiGPUTrainer(configure(max_epoch=20, callbacks=[kept := kit.Weights()]), CPUS[:3])
    trainer.train()
    assert kept.values["slope"] == pytest.approx(3, abs=0.01)


def test_asynchronous_sparse_gradients_are_scaled(configure):
    class Table(Drift):
        def inputs(self):
            return [tf.TensorSpec([None], tf.int32, "row")]

        def build_graph(self, row):
            table = tf.get_variable("table", [5], initializer=tf.zeros_initializer())
            return tf.reduce_mean(tf.gather(table, row), name="cost")

    data = [[np.full(2, row, np.int32)] for row in (0, 3)] * STEPS
    values, _ = train(lambda config: AsyncMultiGPUTrainer(config, CPUS[:2]), configure, Table(), data)
    np.testing.assert_allclose(values[0]["table"], [-0.05, 0, 0, -0.05, 0], atol=1e-7)
