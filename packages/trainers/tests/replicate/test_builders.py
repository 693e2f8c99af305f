"""The multi-device graph in loops that are not a trainer's."""

import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import find_ancestors
from towerpack_inputsource import QueueInput
from towerpack_layers import BatchNorm, FullyConnected, get_current_tower_context
from towerpack_trainers import (
    AsyncMultiGPUBuilder,
    ConfigError,
    ModelError,
    SyncMultiGPUParameterServerBuilder,
    SyncMultiGPUReplicatedBuilder,
    TowerRuleError,
    default_session_config,
)

DEVICES = ["/cpu:0", "/cpu:1", "/cpu:2"]
BUILDERS = [SyncMultiGPUParameterServerBuilder, SyncMultiGPUReplicatedBuilder, AsyncMultiGPUBuilder]


def train(kit, builder, steps=150, **session):
    """Trains `Line` in a plain monitored session; returns the towers' slopes, and the last cost."""
    model = kit.Line()
    with tf.Graph().as_default() as graph:
        source = QueueInput(kit.line_data(30))
        source.setup(model.inputs())
        train_op = builder.build(model.build_graph, source.get_input_tensors, model.optimizer())
        counted = tf.assign_add(tf.train.get_global_step(), 1)
        slopes = [v for key in ("variables", "local_variables") for v in graph.get_collection(key)]
        slopes = [variable for variable in slopes if variable.op.name.endswith("slope")]
        (cost,) = builder.towers[0].get_tensors(["cost"])
        hooks, last = [*source.hooks(), *builder.hooks()], None
        with tf.train.MonitoredTrainingSession(
            hooks=hooks, config=default_session_config(builder.devices), **session
        ) as sess:
            for _ in range(steps):
                _, last, _ = sess.run([train_op, cost, counted])
            return sess.run(slopes), last


@pytest.mark.parametrize("kind", BUILDERS)
def test_a_custom_loop(kit, kind):
    values, last = train(kit, kind(DEVICES))
    assert values == pytest.approx([3] * len(values), abs=0.01)
    assert len(values) == (3 if kind is SyncMultiGPUReplicatedBuilder else 1)
    assert last < 0.01


def test_replicas_are_copies_of_what_a_session_restores(kit, tmp_path):
    def copies(steps):
        directory = str(tmp_path / "checkpoints")
        kept = {"checkpoint_dir": directory, "save_summaries_steps": None, "save_summaries_secs": None}
        return train(kit, SyncMultiGPUReplicatedBuilder(DEVICES), steps, log_step_count_steps=None, **kept)[0]

    first = copies(20)
    assert len(set(first)) == 1
    again = copies(0)
    tf.summary.FileWriterCache.clear()  # TensorFlow leaves its writer's thread behind
    assert again == first


@pytest.mark.parametrize("kind", BUILDERS)
def test_towers_without_gradients(kit, kind):
    """Code with more than one cost uses only the towers of the builder."""
    with tf.Graph().as_default():
        builder = kind(DEVICES)

        def two_costs(x):
            context = get_current_tower_context()
            weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
            return weight * x, context.index, context.num_towers

        outputs = builder.call_for_each_tower(two_costs, lambda: [tf.constant(2.0)])
        devices = [tf.DeviceSpec.from_string(product.device).device_index for product, *_ in outputs]
        assert devices == [0, 1, 2]
        assert [(index, count) for _, index, count in outputs] == [(0, 3), (1, 3), (2, 3)]
        assert [product.op.name.split("/")[0] for product, *_ in outputs] == ["tower0", "tower1", "tower2"]
        assert [variable.op.name for variable in tf.trainable_variables()] == ["weight"]


@pytest.mark.parametrize("restored", [False, True])
def test_towers_without_gradients_begin_with_equal_values(restored, tmp_path):
    """Initial values are random, or those of a checkpoint, which has only the first tower's values."""

    def two(x):
        tf.get_variable("average", [], initializer=tf.random_normal_initializer(), trainable=False)
        return tf.get_variable("weight", [2], initializer=tf.random_normal_initializer()) * x

    def values():
        with tf.Graph().as_default() as graph:
            builder = SyncMultiGPUReplicatedBuilder(DEVICES)
            builder.call_for_each_tower(two, lambda: [tf.ones([])])
            keys = ("variables", "local_variables")
            variables = {v.op.name: v for key in keys for v in graph.get_collection(key)}
            hooks, options = builder.hooks(), default_session_config(DEVICES)
            place = str(tmp_path) if restored else None
            with tf.train.MonitoredTrainingSession(
                hooks=hooks,
                config=options,
                checkpoint_dir=place,
                save_summaries_secs=None,
                save_checkpoint_secs=9,
            ) as sess:
                return sess.run(variables)

    if restored:
        values()
    found = values()
    for name in ("weight", "average"):
        np.testing.assert_array_equal(found[f"tower1/{name}"], found[name])
        np.testing.assert_array_equal(found[f"tower2/{name}"], found[name])
    tf.summary.FileWriterCache.clear()  # TensorFlow leaves its writer's thread behind


def test_each_tower_takes_its_input_after_the_previous_one(kit):
    with tf.Graph().as_default():
        builder = AsyncMultiGPUBuilder(DEVICES)
        inputs = builder.call_for_each_tower(tf.identity, lambda: [tf.random.uniform([])])
        takes = [tensor.op.inputs[0].op for tensor in inputs]
    for earlier, later in itertools.pairwise(takes):
        assert any(earlier in op.control_inputs for op in find_ancestors([later]))


def test_a_builder_builds_once(kit):
    model = kit.Line()
    with tf.Graph().as_default():
        builder = SyncMultiGPUParameterServerBuilder(DEVICES)
        builder.call_for_each_tower(lambda: None)
        with pytest.raises(
            ConfigError, match=r"ParameterServerBuilder has built its towers already. Make a new"
        ):
            builder.build(model.build_graph, tuple, model.optimizer())


@pytest.mark.parametrize("kind", BUILDERS)
def test_invalid_costs_and_optimizers(kit, kind):
    model = kit.Line()

    def take():
        return [tf.ones([2]), tf.ones([2])]

    with tf.Graph().as_default(), pytest.raises(ModelError, match="must return a scalar cost"):
        kind(DEVICES).build(lambda x, y: x, take, model.optimizer())
    with (
        tf.Graph().as_default(),
        pytest.raises(TypeError, match=r"optimizer=0.1 .*: expected a tf.train.Opt"),
    ):
        kind(DEVICES).build(model.build_graph, take, 0.1)


@pytest.mark.parametrize("kind", BUILDERS)
def test_towers_that_train_different_variables(kind):
    calls = []

    def function():
        calls.append(1)
        one, other = tf.get_variable("one", []), tf.get_variable("other", [])
        return one + (other if len(calls) == 1 else 0.0)

    with (
        tf.Graph().as_default(),
        pytest.raises(TowerRuleError, match=r"Tower 1 does not train the same variables.*: other"),
    ):
        kind(DEVICES).build(function, tuple, tf.train.AdamOptimizer())


@pytest.mark.parametrize("kind", BUILDERS)
def test_invalid_devices(kind):
    with pytest.raises(ConfigError, match=r"names a device twice"):
        kind(["/cpu:0", "/cpu:0"])


class TestSums:
    """A sum over the towers while they are being built."""

    @staticmethod
    def build(function, devices=DEVICES, take=tuple):
        builder = SyncMultiGPUReplicatedBuilder(devices)
        return builder.call_for_each_tower(function, take), builder

    def test_every_tower_gets_the_sum_of_all(self):
        def function():
            context = get_current_tower_context()
            return context.cross_tower_sum(tf.constant([float(10**context.index)]))

        with tf.Graph().as_default(), tf.Session(config=default_session_config(DEVICES)) as sess:
            outputs, _ = self.build(function)
            # Each in a separate call: fetching any single one must not wait for ever.
            assert [sess.run(output).tolist() for output in outputs] == [[111.0]] * 3

    def test_gradients_are_summed_as_well(self):
        """The average of the towers' own gradients is the gradient of the average cost."""

        def function():
            context = get_current_tower_context()
            weight = tf.get_variable("weight", [], initializer=tf.constant_initializer(2.0))
            mine = weight * (context.index + 1.0)
            total = context.cross_tower_sum(mine)
            cost = tf.square(total) * (context.index + 2.0)
            variable = context.get_collection_in_tower("trainable_variables")[-1]
            return cost, tf.gradients(cost, variable)[0]

        with tf.Graph().as_default(), tf.Session(config=default_session_config(DEVICES)) as sess:
            outputs, _ = self.build(function)
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            values = sess.run(outputs)
        # total = 6 w; the costs are 2, 3 and 4 times its square; their average is 108 w ** 2.
        assert np.mean([cost for cost, _ in values]) == pytest.approx(108 * 4)
        assert np.mean([gradient for _, gradient in values]) == pytest.approx(216 * 2)

    @pytest.mark.parametrize(
        ("only", "message"),
        [
            (0, r"Tower 1 has no cross-tower sum at 'layer', where other towers have one"),
            (1, r"Tower 1 takes a cross-tower sum at 'layer', where tower 0 has none there"),
        ],
    )
    def test_a_tower_without_the_sum(self, only, message):
        def function():
            context = get_current_tower_context()
            if context.index == only:
                with tf.name_scope("layer"):
                    context.cross_tower_sum(tf.constant(1.0))

        with tf.Graph().as_default(), pytest.raises(TowerRuleError, match=message):
            self.build(function, DEVICES[:2])

    def test_towers_with_sums_at_different_places(self):
        def function():
            context = get_current_tower_context()
            with tf.name_scope(f"layer{context.index}"):
                context.cross_tower_sum(tf.constant(1.0))

        message = r"Tower 1 takes a cross-tower sum at 'layer1', where tower 0 has its one at 'layer0'"
        with tf.Graph().as_default(), pytest.raises(TowerRuleError, match=message):
            self.build(function, DEVICES[:2])

    def test_towers_with_different_terms(self):
        def function():
            context = get_current_tower_context()
            context.cross_tower_sum(tf.ones([context.index + 1]))

        message = r"takes a cross-tower sum at '' of \(2,\) float32, tower 0 of \(1,\) float32"
        with tf.Graph().as_default(), pytest.raises(TowerRuleError, match=message):
            self.build(function, DEVICES[:2])

    def test_batches_of_different_sizes_count_by_example(self):
        sizes = iter([1, 3, 4])
        data = np.random.default_rng(0).normal(5, 2, size=(8, 2)).astype(np.float32)
        starts = iter([0, 1, 4])

        def take():
            start = next(starts)
            return [tf.constant(data[start : start + next(sizes)])]

        with tf.Graph().as_default(), tf.Session(config=default_session_config(DEVICES)) as sess:
            outputs, _ = self.build(lambda x: BatchNorm("bn", x, sync_statistics=True), take=take)
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            out = np.concatenate(sess.run(outputs))
        np.testing.assert_allclose(out, (data - data.mean(0)) / data.std(0), rtol=1e-4, atol=1e-4)

    def test_a_single_tower_has_no_sum(self):
        def function():
            assert get_current_tower_context().cross_tower_sum is None
            return FullyConnected("fc", BatchNorm("bn", tf.ones([2, 2]), sync_statistics=True), 1)

        with tf.Graph().as_default():
            self.build(function, ["/cpu:0"])
