"""Replicas with separate variables: their construction, equality, checkpoints, and errors."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, InferenceRunner, ModelSaver, PeriodicTrigger, ScalarStats
from towerpack_callbacks.checkpoint import latest_checkpoint, load_variables
from towerpack_layers import FullyConnected
from towerpack_trainers import (
    SimpleTrainer,
    SyncMultiGPUReplicatedBuilder,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TowerRuleError,
    default_session_config,
)

TWO = ["/cpu:0", "/cpu:1"]


def names(graph, key):
    return [variable.op.name for variable in graph.get_collection(key)]


def replicated(config, devices=TWO):
    return SyncMultiGPUTrainerReplicated(config, devices)


def test_a_model_is_described_by_its_first_tower_only(kit, configure):
    config = configure(model=kit.Net(), dataflow=kit.net_data())
    one, two = SimpleTrainer(config).graph, replicated(config, [*TWO, "/cpu:2"]).graph
    for key in ("trainable_variables", "model_variables", "variables"):
        assert names(two, key) == names(one, key), key
    own = [name for name in names(two, "local_variables") if name.startswith("tower")]
    for index in (1, 2):
        mine = [name for name in own if name.startswith(f"tower{index}/")]
        assert mine[:4] == [f"tower{index}/{name}" for name in ("fc0/W", "fc0/b", "bn/gamma", "bn/beta")]
        assert len(mine) == len(names(one, "variables")) - 1  # all but global_step


def test_variables_and_their_slots_are_on_the_towers_devices(kit, configure):
    trainer = replicated(configure(model=kit.Net(), dataflow=kit.net_data()))
    variables = [*trainer.graph.get_collection("variables"), *trainer.graph.get_collection("local_variables")]
    for variable in variables:
        if "fc0/W" in variable.op.name:
            index = tf.DeviceSpec.from_string(variable.device).device_index
            assert index == int(variable.op.name.startswith("tower1")), variable.op.name


class Compare(Callback):
    """Compares replicas, and records the largest differences, per kind of variable."""

    def __init__(self):
        self.at_epochs = []
        self.at_start = None

    def _read(self):
        local = {v.op.name: v for v in self.graph.get_collection("local_variables")}
        pairs = {
            v.op.name: (v, local[f"tower1/{v.op.name}"])
            for v in self.graph.get_collection("variables")
            if f"tower1/{v.op.name}" in local
        }
        values = self.trainer.sess.run(pairs)
        return {name: float(np.abs(one - other).max()) for name, (one, other) in values.items()}

    def _before_train(self):
        self.at_start = self._read()

    def _trigger_epoch(self):
        self.at_epochs.append(self._read())


def test_replicas_stay_equal_and_statistics_follow(kit, configure):
    before = Compare()

    class AfterSaving(Compare):
        def _trigger_epoch(self):
            self.saved = len(self.at_epochs)

        def _after_triggers(self):
            if self.global_step % 4 == 0 or self.global_step % 6 == 0:
                self.at_epochs.append((self.global_step, self._read()))

    after = AfterSaving()
    config = configure(
        model=kit.Net(),
        dataflow=kit.net_data(6),
        callbacks=[PeriodicTrigger(ModelSaver(), every="4 steps"), before, after],
        extra_callbacks=None,
        max_epoch=3,
    )
    replicated(config).train()
    assert len(before.at_start) >= 6
    assert set(before.at_start.values()) == {0.0}
    # At the end of each epoch, and at each checkpoint within one.
    assert [step for step, _ in after.at_epochs] == [4, 6, 8, 12, 16, 18]
    assert all(set(values.values()) == {0.0} for _, values in after.at_epochs)


def test_between_copies_only_statistics_differ(kit, configure):
    class EachStep(Compare):
        def _trigger_step(self):
            self.at_epochs.append(self._read())

    compare = EachStep()
    config = configure(
        model=kit.Net(), dataflow=kit.net_data(6), callbacks=[compare], extra_callbacks=None, max_epoch=1
    )
    replicated(config).train()
    for values in compare.at_epochs[:5]:
        moving = [name for name in values if name.endswith("EMA")]
        assert len(moving) == 2
        assert all(values[name] > 0 for name in moving)
        # Trained variables are equal, to the last bit.
        assert all(values[name] == 0 for name in values if name not in moving)


@pytest.mark.long
@pytest.mark.slow
def test_replicas_are_equal_when_a_checkpoint_is_written(kit, configure):
    """A resumed run, with replicas copied from the checkpoint, equals the uninterrupted one."""

    class UsesStatistics(kit.Net):
        """Also used in training, so that the replicas' statistics matter."""

        def build_graph(self, image, label):
            average = tf.get_variable("average", [4], initializer=tf.zeros_initializer(), trainable=False)
            before = average.read_value()
            with tf.control_dependencies([before]):
                moved = average.assign_add(tf.reduce_mean(image, 0), read_value=False)
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, moved)
            cost = super().build_graph(image, label)
            return cost + 0.1 * tf.reduce_mean(tf.tanh(FullyConnected("extra", before[None], 2)))

    def make(log_dir, **changes):
        kept = kit.Weights()
        saver = PeriodicTrigger(ModelSaver(), every="4 steps")
        replicated(
            configure(
                model=UsesStatistics(),
                dataflow=kit.net_flow(),
                callbacks=[saver, kept],
                extra_callbacks=None,
                log_dir=log_dir,
                **changes,
            )
        ).train()
        return kept.values

    directory = configure().log_dir
    whole = make(directory, max_epoch=3)
    resumed = make(
        directory.parent / "resumed", max_epoch=3, resume=str(directory / "model-8"), starting_epoch=1
    )
    assert whole.keys() == resumed.keys()
    for name, value in whole.items():
        np.testing.assert_allclose(resumed[name], value, rtol=1e-6, atol=1e-7, err_msg=name)


def test_checkpoints_work_with_all_trainers(kit, configure):
    directory = configure().log_dir
    first = configure(
        model=kit.Net(), dataflow=kit.net_flow(), callbacks=[ModelSaver()], extra_callbacks=None, max_epoch=1
    )
    replicated(first).train()
    saved = load_variables(latest_checkpoint(directory))
    assert not [name for name in saved if "tower" in name]
    for make in (SimpleTrainer, lambda config: SyncMultiGPUTrainerParameterServer(config, TWO), replicated):
        kept = kit.Weights()
        config = configure(
            model=kit.Net(),
            dataflow=kit.net_flow(),
            callbacks=[ModelSaver(), kept],
            extra_callbacks=None,
            max_epoch=2,
            resume=str(latest_checkpoint(directory)),
            log_dir=directory.parent / "second",
        )
        make(config).train()
        assert kept.values.keys() == saved.keys()
        assert kept.values["global_step"] == 2 * saved["global_step"]


def test_evaluation_uses_the_first_towers_variables(kit, configure):
    runner = InferenceRunner(kit.line_data(), ScalarStats("cost"))
    trainer = replicated(configure(callbacks=[runner], max_epoch=20))
    trainer.train()
    assert trainer.monitors.get_latest("validation_cost") < 1e-3


def test_one_device_is_the_simple_trainer(kit, configure):
    values = []
    for make in (SimpleTrainer, lambda config: replicated(config, ["/cpu:0"])):
        make(configure(callbacks=[kept := kit.Weights()])).train()
        values.append(kept.values)
    assert values[0] == values[1]


@pytest.mark.long
@pytest.mark.slow
def test_two_trainings_in_one_process(kit, configure):
    def train(devices, mode):
        kept = kit.Weights()
        config = configure(model=kit.Net(), dataflow=kit.net_data(), callbacks=[kept], log_dir=None)
        SyncMultiGPUTrainerReplicated(config, devices, mode=mode).train()
        return kept.values

    again = [train(TWO, "cpu"), train([*TWO, "/cpu:2"], "hierarchical"), train(TWO, "cpu")]
    for name, value in again[0].items():
        np.testing.assert_array_equal(again[2][name], value, err_msg=name)


class Broken:
    """Models with towers that make different variables."""

    @staticmethod
    def only_in(kit, tower, shapes=((), ())):
        class Model(kit.Line):
            calls = -1

            def build_graph(self, x, y):
                self.calls += 1
                cost = super().build_graph(x, y)
                if tower in {self.calls, "both"}:
                    cost += tf.reduce_sum(tf.get_variable("extra", shapes[self.calls]))
                return cost

        return Model()


@pytest.mark.parametrize(
    ("tower", "shapes", "message"),
    [
        (0, ((), ()), r"Tower 'tower1' has not made its own variable extra, which tower 0 has"),
        (1, ((), ()), r"Tower 'tower1' has made the variable 'tower1/extra', which tower 0 does not have"),
        ("both", ([2], [3]), r"'tower1/extra' of shape \(3,\); that of tower 0, 'extra', has shape \(2,\)"),
    ],
)
def test_towers_that_make_different_variables(kit, configure, tower, shapes, message):
    with pytest.raises(TowerRuleError, match=message):
        replicated(configure(model=Broken.only_in(kit, tower, shapes)))


def test_a_variable_made_outside_is_not_trained_by_some_towers_only(kit, configure):
    class Model(kit.Line):
        outside = None

        def inputs(self):
            self.outside = tf.get_variable("outside", [])
            return super().inputs()

        def build_graph(self, x, y):
            return super().build_graph(x + self.outside, y)

    with pytest.raises(TowerRuleError, match=r"Tower 1 does not train the same variables.*: outside"):
        replicated(configure(model=Model()))


def test_copies_of_an_optimizer_share_hyperparameters_but_not_state():
    with tf.Graph().as_default():
        rate = tf.get_variable("learning_rate", [], initializer=tf.zeros_initializer(), trainable=False)
        builder = SyncMultiGPUReplicatedBuilder(TWO)
        train_op = builder.build(
            lambda: tf.reduce_sum(tf.get_variable("w", [3], initializer=tf.zeros_initializer())),
            list,
            tf.train.AdamOptimizer(rate),
        )
        variables = {v.op.name: v for v in [*tf.global_variables(), *tf.local_variables()]}
        with tf.Session(config=default_session_config(TWO)) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            session.run(train_op)
            still = session.run(variables)
            session.run(rate.assign(0.5))
            session.run(train_op)
            moved = session.run(variables)
    for scope in ("", "tower1/"):
        np.testing.assert_array_equal(still[f"{scope}w"], [0, 0, 0])
        np.testing.assert_allclose(moved[f"{scope}w"], [-0.5] * 3, rtol=1e-5)
        # Each has made two steps: a state shared by both towers would have made four.
        assert moved[f"{scope}beta1_power"] == pytest.approx(0.9**3)
        [slot] = [name for name in moved if name.endswith("w/Adam") and name.startswith(scope or "w")]
        np.testing.assert_allclose(moved[slot], [0.19] * 3, rtol=1e-5)
