"""The rules of tower functions, and the look-up of a tower's tensors."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import MOVING_SUMMARIES, InferenceRunner, ScalarStats, TensorNotFoundError
from towerpack_layers import TowerContext
from towerpack_trainers import SimpleTrainer, SyncMultiGPUTrainer, TowerFunc, TowerRuleError

TWO = ["/cpu:0", "/cpu:1"]
OWN = r"made its own variable '{}', but towers share.*with tf.get_variable \(not with tf.Variable"


class Scaled:
    """Makes a model of `Line` with one more variable."""

    def __init__(self, make):
        self.make = make

    def of(self, kit):
        make = self.make

        class Model(kit.Line):
            def build_graph(self, x, y):
                return super().build_graph(x * make(), y)

        return Model()


@pytest.mark.parametrize("trainable", [True, False])
def test_an_evaluation_tower_makes_no_variable(kit, configure, trainable):
    model = Scaled(lambda: tf.Variable(1.0, name="own", trainable=trainable)).of(kit)
    runner = InferenceRunner(kit.line_data(), ScalarStats("cost"))
    with pytest.raises(TowerRuleError, match=OWN.format("InferenceTower/own")):
        SimpleTrainer(configure(model=model, callbacks=[runner])).train()


@pytest.mark.parametrize("trainable", [True, False])
def test_sharing_towers_make_no_separate_variables(kit, configure, trainable):
    model = Scaled(lambda: tf.Variable(1.0, name="own", trainable=trainable)).of(kit)
    with pytest.raises(TowerRuleError, match=OWN.format("tower0/own")):
        SyncMultiGPUTrainer(configure(model=model), TWO)


def test_a_new_keras_layer_in_each_tower_makes_separate_variables(kit, configure):
    model = Scaled(lambda: tf.keras.layers.Dense(1)(tf.ones([1, 1]))[0, 0]).of(kit)
    with pytest.raises(TowerRuleError, match="nor with a new Keras layer in each tower"):
        SimpleTrainer(configure(model=model)).get_predictor(["x"], ["error"])


def test_a_keras_layer_that_is_kept_is_shared(kit, configure):
    layer = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", name="dense")
    model = Scaled(lambda: layer(tf.ones([1, 1]))[0, 0]).of(kit)
    kept = kit.Weights()
    runner = InferenceRunner(kit.line_data(), ScalarStats("cost"))
    trainer = SimpleTrainer(configure(model=model, callbacks=[runner, kept], max_epoch=10))
    trainer.train()
    assert kept.values["slope"] * kept.values["dense/kernel"][0, 0] == pytest.approx(3, abs=0.1)
    assert trainer.monitors.get_latest("validation_cost") < 0.1


@pytest.mark.parametrize("name", ["tower/w", "tower3/w", "block/tower_a/w"])
def test_scopes_of_towers_are_not_for_models(kit, configure, name):
    model = Scaled(lambda: tf.get_variable(name, [])).of(kit)
    with pytest.raises(
        TowerRuleError, match=f"Variable '{name}' is in a scope with a name that begins with 'tower'"
    ):
        SimpleTrainer(configure(model=model))


def test_towers_build_the_same_replica(kit, configure):
    class Model(kit.Line):
        calls = 0

        def build_graph(self, x, y):
            self.calls += 1
            cost = super().build_graph(x, y)
            extra = tf.get_variable("extra", [])
            return cost + extra if self.calls == 1 else cost

    with pytest.raises(
        TowerRuleError, match=r"Tower 1 does not train the same variables as tower 0.*: extra"
    ):
        SyncMultiGPUTrainer(configure(model=Model()), TWO)


def test_only_the_main_training_tower_adds_to_collections(kit, configure):
    keys = [tf.GraphKeys.UPDATE_OPS, tf.GraphKeys.SUMMARIES, MOVING_SUMMARIES]

    class Model(kit.Line):
        def build_graph(self, x, y):
            cost = super().build_graph(x, y)
            tf.summary.scalar("seen", cost)
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.identity(cost, name="update").op)
            tf.add_to_collection(MOVING_SUMMARIES, tf.identity(cost, name="moving"))
            return cost

    trainer = SyncMultiGPUTrainer(configure(model=Model()), TWO)
    trainer.get_predictor(["x"], ["error"])
    for key in keys:
        ours = [item.name for item in trainer.graph.get_collection(key) if "QueueInput" not in item.name]
        assert ours
        assert all(name.startswith("tower0/") for name in ours), key


def test_losses_of_an_evaluation_tower_do_not_count(kit, configure):
    class Model(kit.Line):
        def build_graph(self, x, y):
            tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.identity(x[0], name="decay"))
            return super().build_graph(x, y)

    trainer = SimpleTrainer(configure(model=Model()))
    trainer.get_predictor(["x"], ["error"])
    assert [loss.name for loss in trainer.graph.get_collection("regularization_losses")] == ["decay:0"]


def test_a_tower_keeps_a_record(kit):
    model = kit.Line()
    with tf.Graph().as_default() as graph:
        function = TowerFunc(model.build_graph, model.inputs())
        x, y = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
        first = function.build(TowerContext("", is_training=True), [x, y])
        second = function.build(TowerContext("check", is_training=False, reuse=True), [x, y])
    assert function.towers == [first, second]
    assert function.training == [first]
    assert first.output.op.name == "cost"
    assert second.inputs == {"x": x, "y": y}
    names = [tensor.name for tensor in second.get_tensors(["cost", "error:0", "x", "y:0"])]
    assert names == ["check/cost:0", "check/error:0", x.name, y.name]
    with (
        graph.as_default(),
        pytest.raises(TensorNotFoundError, match=r"no tensor 'check/cosy:0'.*Close names are: c"),
    ):
        second.get_tensors(["cosy"])
    with pytest.raises(TypeError, match=r"received one string: 'cost'. Write \['cost'\]"):
        second.get_tensors("cost")


def test_a_trainer_finds_tensors_anywhere_then_in_its_first_tower(kit, configure):
    trainer = SyncMultiGPUTrainer(configure(), TWO)
    names = ["cost", "tower1/cost:0", "global_step", "x:0"]
    cost, other, step, x = trainer.get_tensors(names)
    assert [cost.name, other.name] == ["tower0/cost:0", "tower1/cost:0"]
    assert step.name == "global_step/Read/ReadVariableOp:0"
    assert x is trainer.tower_func.towers[0].inputs["x"]


class Averages:
    """The statistics of batch normalisation in `Net`."""

    @staticmethod
    def after_one_step(kit, configure, make, batches):
        kept = kit.Weights()
        config = configure(
            model=kit.Net(),
            dataflow=batches,
            callbacks=[kept],
            extra_callbacks=None,
            steps_per_epoch=1,
            max_epoch=1,
        )
        make(config).train()
        return kept.values


def test_statistics_come_from_the_main_tower_once(kit, configure):
    first, second = kit.net_data(2)
    one = Averages.after_one_step(kit, configure, SimpleTrainer, [first])
    two = Averages.after_one_step(
        kit, configure, lambda config: SyncMultiGPUTrainer(config, TWO), [first, second]
    )
    # The weights of the first step are the same for both, so the statistics of the first batch are, too.
    assert np.abs(one["bn/mean/EMA"]).max() > 0
    np.testing.assert_allclose(two["bn/mean/EMA"], one["bn/mean/EMA"], rtol=1e-5)
    np.testing.assert_allclose(two["bn/variance/EMA"], one["bn/variance/EMA"], rtol=1e-5)
    assert not [name for name in two if name.startswith("tower")]
