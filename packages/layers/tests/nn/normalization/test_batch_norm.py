from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import BatchNorm, TowerContext, TowerError

Run = Callable[..., Any]
UPDATE_OPS = tf.GraphKeys.UPDATE_OPS


def normalise(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5)


@pytest.fixture(params=[(16, 3), (4, 5, 6, 3)], ids=["2-D", "4-D"])
def batches(request: pytest.FixtureRequest) -> np.ndarray:
    return np.random.default_rng(0).normal(2.0, 3.0, size=[4, *request.param]).astype("f4")


def test_training_uses_the_batch(run: Run, batches: np.ndarray) -> None:
    x = batches[0]
    out = BatchNorm("bn", tf.constant(x), training=True)
    np.testing.assert_allclose(run(out), normalise(x, tuple(range(x.ndim - 1))), rtol=1e-3, atol=1e-4)


def test_averages_after_several_steps_and_inference_with_them(graph: tf.Graph, batches: np.ndarray) -> None:
    x = tf.placeholder(tf.float32, [None, *batches.shape[2:]])
    with TowerContext("", is_training=True):
        variables = BatchNorm("bn", x, momentum=0.8).variables
    with TowerContext("InferenceTower", is_training=False, reuse=True):
        inferred = BatchNorm("bn", x, momentum=0.8)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for batch in batches:
            session.run(tf.get_collection(UPDATE_OPS), {x: batch})
        mean, variance = session.run([variables.mean, variables.variance])
        value = session.run(inferred, {x: batches[0]})

    axes = tuple(range(batches.ndim - 2))
    wanted_mean, wanted_variance = np.zeros(3), np.ones(3)
    for batch in batches:
        wanted_mean = 0.8 * wanted_mean + 0.2 * batch.mean(axes)
        wanted_variance = 0.8 * wanted_variance + 0.2 * batch.var(axes, ddof=1)
    np.testing.assert_allclose(mean, wanted_mean, rtol=1e-4)
    np.testing.assert_allclose(variance, wanted_variance, rtol=1e-4)
    np.testing.assert_allclose(
        value, (batches[0] - wanted_mean) / np.sqrt(wanted_variance + 1e-5), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("options", [{"data_format": "channels_first"}, {"axis": 1}, {"axis": -3}], ids=str)
def test_channels_first(run: Run, options: dict[str, Any]) -> None:
    x = np.random.default_rng(0).normal(size=[4, 3, 5, 6]).astype("f4")
    out = BatchNorm("bn", tf.constant(x), training=True, **options)
    assert out.variables.gamma.shape.as_list() == [3]
    np.testing.assert_allclose(run(out), normalise(x, (0, 2, 3)), rtol=1e-3, atol=1e-4)


def test_names_and_collections(graph: tf.Graph) -> None:
    out = BatchNorm("bn", tf.ones([2, 3]), training=True)
    averages = ["bn/mean/EMA", "bn/variance/EMA"]
    assert names(tf.GraphKeys.TRAINABLE_VARIABLES) == ["bn/gamma", "bn/beta"]
    assert names(tf.GraphKeys.GLOBAL_VARIABLES) == ["bn/gamma", "bn/beta", *averages]
    assert names(tf.GraphKeys.MODEL_VARIABLES) == averages
    assert [v.op.name for v in out.variables.all()] == ["bn/gamma", "bn/beta", *averages]
    assert all(op.graph is graph for op in tf.get_collection(UPDATE_OPS))


def test_a_custom_getter_may_move_all_variables(graph: tf.Graph) -> None:
    def local(getter: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs["collections"] = [tf.GraphKeys.LOCAL_VARIABLES]
        return getter(*args, **kwargs)

    with tf.variable_scope("", custom_getter=local):
        BatchNorm("bn", tf.ones([2, 3]), training=True)
    assert names(tf.GraphKeys.GLOBAL_VARIABLES) == []
    assert len(names(tf.GraphKeys.LOCAL_VARIABLES)) == 4


def test_without_center_and_scale(run: Run, batches: np.ndarray) -> None:
    out = BatchNorm("bn", tf.constant(batches[0]), training=True, center=False, scale=False)
    assert tf.trainable_variables() == []
    wanted = normalise(batches[0], tuple(range(batches.ndim - 2)))
    np.testing.assert_allclose(run(out), wanted, rtol=1e-3, atol=1e-4)


def test_initializers(run: Run) -> None:
    constant = tf.constant_initializer
    out = BatchNorm(
        "bn", tf.zeros([2, 1]), training=True, beta_initializer=constant(3.0), gamma_initializer=constant(2.0)
    )
    assert run([out, out.variables.gamma])[0].tolist() == [[3.0], [3.0]]


def test_statistics_are_float32_for_half_precision_inputs(graph: tf.Graph) -> None:
    out = BatchNorm("bn", tf.ones([2, 3], tf.float16), training=True)
    assert out.dtype == tf.float16
    assert {v.dtype.base_dtype for v in out.variables.all()} == {tf.float32}


class TestUpdate:
    """When the moving averages move."""

    @staticmethod
    def mean_after_running_the_output(out: tf.Tensor) -> float:
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(out)
            return float(session.run(out.variables.mean)[0])

    @pytest.mark.parametrize(
        ("how", "moved", "ops"), [("collection", 0.0, 2), ("internal", 0.1, 0), ("skip", 0.0, 0)]
    )
    def test_how(self, graph: tf.Graph, how: str, moved: float, ops: int) -> None:
        out = BatchNorm("bn", tf.ones([2, 1]), training=True, ema_update=how)
        assert self.mean_after_running_the_output(out) == pytest.approx(moved)
        assert len(tf.get_collection(UPDATE_OPS)) == ops

    def test_every_training_tower_writes_to_the_collection(self, graph: tf.Graph) -> None:
        for index in range(2):
            with TowerContext(f"tower{index}", is_training=True, index=index, num_towers=2, reuse=index > 0):
                BatchNorm("bn", tf.ones([2, 1]))
        assert len(tf.get_collection(UPDATE_OPS)) == 4

    @pytest.mark.parametrize("index", [0, 1])
    def test_internal_updates_happen_in_the_main_training_tower_only(
        self, graph: tf.Graph, index: int
    ) -> None:
        with TowerContext("tower", is_training=True, index=index, num_towers=2):
            out = BatchNorm("bn", tf.ones([2, 1]), ema_update="internal")
        assert self.mean_after_running_the_output(out) == pytest.approx(0.0 if index else 0.1)

    def test_inference_never_updates(self, graph: tf.Graph) -> None:
        with TowerContext("", is_training=False):
            out = BatchNorm("bn", tf.ones([2, 1]), ema_update="internal")
            BatchNorm("bn2", tf.ones([2, 1]))
            forced = BatchNorm("bn3", tf.ones([2, 1]), training=True, ema_update="internal")
        assert self.mean_after_running_the_output(out) == 0.0
        assert self.mean_after_running_the_output(forced) == 0.0
        assert tf.get_collection(UPDATE_OPS) == []

    def test_frozen_statistics_in_a_training_tower(
        self, graph: tf.Graph, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "towerpack_layers")
        with TowerContext("", is_training=True):
            out = BatchNorm("bn", tf.ones([2, 1]), training=False)
        assert tf.get_collection(UPDATE_OPS) == []
        assert None not in tf.gradients(out, tf.trainable_variables())
        assert "bn: statistics are frozen" in caplog.text

    def test_internal_works_in_control_flow_and_collection_is_refused(self, graph: tf.Graph) -> None:
        x, flag = tf.ones([2, 1]), tf.placeholder(tf.bool, [])
        mean = tf.get_variable("bn/mean/EMA", [1], initializer=tf.zeros_initializer(), trainable=False)
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            with pytest.raises(ValueError, match=r"BatchNorm\('bn'\): inside tf.cond.*ema_update='internal'"):
                tf.cond(flag, lambda: BatchNorm("bn", x, training=True), lambda: x)
            out = tf.cond(flag, lambda: BatchNorm("bn", x, training=True, ema_update="internal"), lambda: x)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for take, wanted in ((False, 0.0), (True, 0.1)):
                session.run(out, {flag: take})
                assert session.run(mean)[0] == pytest.approx(wanted)


def test_gradients_agree_with_plain_operations(run: Run, batches: np.ndarray) -> None:
    x = tf.constant(batches[0])
    axes = list(range(batches.ndim - 2))
    mean, variance = tf.nn.moments(x, axes, keepdims=True)
    plain = (x - mean) / tf.sqrt(variance + 1e-5)
    weights = tf.constant(batches[1])
    ours, theirs = (
        tf.gradients(tf.reduce_sum(weights * y), x)[0] for y in (BatchNorm("bn", x, training=True), plain)
    )
    ours, theirs = run([ours, theirs])
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_unknown_batch_and_image_sizes_are_fine(graph: tf.Graph) -> None:
    for shape in ([None, 3], [None, None, None, 3]):
        x = tf.placeholder(tf.float32, shape)
        assert BatchNorm(f"bn{len(shape)}", x, training=True).shape.as_list() == shape


def test_outside_any_tower_training_must_be_given(graph: tf.Graph) -> None:
    message = r"BatchNorm\('bn'\) needs a training mode. Pass training=True or.*with TowerContext"
    with pytest.raises(TowerError, match=message):
        BatchNorm("bn", tf.ones([2, 3]))


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ([2, 3, 4], {}, "the input's rank must be 2 or 4"),
        ([2, None], {}, "the size of axis 1 of the input must be known"),
        ([2, 3], {"momentum": 1.5}, "momentum must be between 0 and 1, received 1.5"),
        ([2, 3], {"epsilon": -1.0}, "epsilon must not be negative, received -1.0"),
        (
            [2, 3],
            {"ema_update": "never"},
            "ema_update must be one of collection, internal, skip; received 'never'",
        ),
        ([2, 3], {"axis": 0}, "axis of a 2-D input must be 1, received 0"),
        ([2, 3, 4, 5], {"axis": 2}, "axis of a 4-D input must be 1 or 3, received 2"),
        ([2, 3, 4, 5], {"axis": 5}, "axis of a 4-D input must be 1 or 3, received 5"),
        ([2, 3, 4, 5], {"axis": [3]}, r"axis must be an int, received \[3\]"),
        ([2, 3], {"momentum": "high"}, "momentum must be between 0 and 1, received 'high'"),
        (
            [2, 3],
            {"gamma_initializer": np.ones(2)},
            r"gamma_initializer must have the .* shape \[3\], .* \[2\]",
        ),
        ([2, 3, 4, 5], {"data_format": "CHWN"}, "data_format must be .* received 'CHWN'"),
    ],
)
def test_bad_values(graph: tf.Graph, shape: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BatchNorm("bn", tf.placeholder(tf.float32, shape), **{"training": True, **options})


def test_bad_types(graph: tf.Graph) -> None:
    with pytest.raises(TypeError, match=r"training must be True, False or None, received <tf.Tensor"):
        BatchNorm("a", tf.ones([2, 3]), training=tf.constant(True))
    with pytest.raises(TypeError, match="must be float32, float16 or bfloat16, received float64"):
        BatchNorm("b", tf.ones([2, 3], tf.float64), training=True)


def names(collection: str) -> list[str]:
    return [variable.op.name for variable in tf.get_collection(collection)]


@pytest.mark.parametrize("shape", [[2], [4, 5, 2]], ids=str)
@pytest.mark.parametrize("how", ["collection", "internal"])
def test_a_batch_without_examples_leaves_the_averages_as_they_are(
    graph: tf.Graph, shape: list[int], how: str
) -> None:
    x = tf.placeholder(tf.float32, [None, *shape])
    out = BatchNorm("bn", x, training=True, ema_update=how)
    gradients = tf.gradients(out, [x, *tf.trainable_variables()])
    run = [out, gradients, tf.get_collection(UPDATE_OPS)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(run, {x: np.random.default_rng(0).normal(3.0, size=[3, *shape])})
        before = session.run(tf.global_variables())
        value, [by_x, *by_variables], _ = session.run(run, {x: np.zeros([0, *shape])})
        assert value.shape == by_x.shape == (0, *shape)
        assert all((gradient == 0).all() for gradient in by_variables)
        for old, new in zip(before, session.run(tf.global_variables()), strict=True):
            assert np.array_equal(old, new)
        session.run(run, {x: np.full([1, *shape], np.nan)})
        assert np.isnan(session.run(out.variables.mean)).all(), "an undefined value is not hidden"


class TestTwoUsesInOneTower:
    """As of the discriminator of a GAN, and in siamese networks."""

    @staticmethod
    def averages_after(runs: int, how: str, order: int = 1) -> list[list[float]]:
        first, second = np.random.default_rng(0).normal(size=[2, 8, 50_000]).astype("f4")
        with tf.Graph().as_default(), TowerContext("", is_training=True):
            out = BatchNorm("bn", tf.constant(first), momentum=0.5, ema_update=how)
            with tf.variable_scope("", reuse=True):
                # The first update in the code runs first, even if it takes longer.
                again = BatchNorm("bn", tf.constant(second), momentum=0.5, ema_update=how)
            step = tf.group(*[*tf.get_collection(UPDATE_OPS), out.op, again.op][::order])
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                for _ in range(runs):
                    session.run(step)
                return [value.tolist() for value in session.run([out.variables.mean, out.variables.variance])]

    @pytest.mark.parametrize("how", ["collection", "internal"])
    @pytest.mark.parametrize("order", [1, -1])
    def test_updates_come_in_the_order_of_the_calls(self, how: str, order: int) -> None:
        batches = np.random.default_rng(0).normal(size=[2, 8, 50_000]).astype("f4")
        mean, variance = np.zeros(50_000), np.ones(50_000)
        for batch in [*batches] * 3:
            mean = 0.5 * mean + 0.5 * batch.mean(0)
            variance = 0.5 * variance + 0.5 * batch.var(0, ddof=1)
        after = self.averages_after(3, how, order)
        np.testing.assert_allclose(after, [mean, variance], rtol=1e-4, atol=1e-5)
        assert after == self.averages_after(3, how, order)

    def test_a_second_tower_does_not_wait_for_the_first(self, graph: tf.Graph) -> None:
        moves = []
        for index in range(2):
            with TowerContext(f"tower{index}", is_training=True, index=index, num_towers=2, reuse=index > 0):
                BatchNorm("bn", tf.ones([2, 1]))
            moves = tf.get_collection(UPDATE_OPS)
        names = {op.name for op in ancestors(moves[-1])}
        assert any(name.startswith("tower1/") for name in names)
        assert not any(name.startswith("tower0/") for name in names)


def ancestors(op: tf.Operation) -> set[tf.Operation]:
    found, waiting = set(), [op]
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting += [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
    return found


def test_a_scope_does_not_regularize_or_split_the_averages(run: Run) -> None:
    costs = []

    def regularizer(variable: Any) -> Any:
        costs.append(variable.op.name)
        return tf.reduce_sum(variable)

    with tf.variable_scope("net", regularizer=regularizer):
        BatchNorm("bn", tf.ones([2, 4]), training=True)
    assert set(costs) == {"net/bn/gamma", "net/bn/beta"}
    with tf.variable_scope("split", partitioner=tf.fixed_size_partitioner(2)):
        out = BatchNorm("bn", tf.ones([2, 4]), training=True)
    assert out.variables.mean.op.name == "split/bn/mean/EMA"
    assert run(out).tolist() == [[0.0] * 4] * 2


def test_sizes_and_rates_of_numpy(run: Run) -> None:
    out = BatchNorm(
        "bn", tf.ones([2, 3]), np.int64(1), training=True, momentum=np.float32(0.5), epsilon=np.float64(1e-3)
    )
    assert run(out).tolist() == [[0.0] * 3] * 2


def test_moving_averages_have_both_names() -> None:
    with tf.Graph().as_default():
        held = BatchNorm("bn", tf.ones([2, 3]), training=True).variables
    assert held.moving_mean is held.mean
    assert held.moving_variance is held.variance
    assert len(held.all()) == 4, "each variable is listed once"
