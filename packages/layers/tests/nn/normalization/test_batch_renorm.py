"""Batch renormalisation: its corrections, and the updates of its averages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import BatchNorm, BatchRenorm, TowerContext, TowerError

Run = Callable[..., Any]
LIMITS = {"rmax": 1.5, "dmax": 0.5}
AVERAGES = ["moving_mean", "moving_variance", "renorm_mean", "renorm_stddev"]


def names(collection: str) -> list[str]:
    return [variable.op.name for variable in tf.get_collection(collection)]


def batches(count: int = 4) -> np.ndarray:
    return np.random.default_rng(0).normal(0.3, 1.2, size=(count, 8, 3)).astype("f4")


class Reference:
    """The layer in 64 bits."""

    def __init__(self) -> None:
        self.moving, self.renorm = [np.zeros(3), np.ones(3)], [np.zeros(3), np.ones(3)]

    def step(self, x: np.ndarray, momentum: float = 0.9, renorm_momentum: float = 0.99) -> np.ndarray:
        x = x.astype("f8")
        mean, variance = x.mean(0), x.var(0)
        deviation = np.sqrt(variance + 1e-5)
        r = np.clip(deviation / self.renorm[1], 1 / 1.5, 1.5)
        d = np.clip((mean - self.renorm[0]) / self.renorm[1], -0.5, 0.5)
        self.moving = [a * momentum + b * (1 - momentum) for a, b in zip(self.moving, [mean, variance])]
        self.renorm = [
            a * renorm_momentum + b * (1 - renorm_momentum) for a, b in zip(self.renorm, [mean, deviation])
        ]
        return (x - mean) / deviation * r + d


def test_names_and_collections(graph: tf.Graph) -> None:
    out = BatchRenorm("bn", tf.ones([2, 3]), training=True, **LIMITS)
    averages = [f"bn/{name}" for name in AVERAGES]
    assert names(tf.GraphKeys.TRAINABLE_VARIABLES) == ["bn/gamma", "bn/beta"]
    assert names(tf.GraphKeys.MODEL_VARIABLES) == averages
    assert names(tf.GraphKeys.GLOBAL_VARIABLES) == ["bn/gamma", "bn/beta", *averages]
    assert [v.op.name for v in out.variables.all()] == ["bn/gamma", "bn/beta", *averages[:2]]
    assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []


def test_several_steps_and_inference_with_the_averages(graph: tf.Graph) -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    with TowerContext("", is_training=True):
        out = BatchRenorm("bn", x, momentum=0.8, renorm_momentum=0.7, **LIMITS)
    with TowerContext("InferenceTower", is_training=False, reuse=True):
        inferred = BatchRenorm("bn", x, **LIMITS)
    reference = Reference()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for batch in batches():
            wanted = reference.step(batch, 0.8, 0.7)
            np.testing.assert_allclose(session.run(out, {x: batch}), wanted, rtol=1e-4, atol=1e-5)
        value = session.run(inferred, {x: batch})
        averages = session.run(tf.get_collection(tf.GraphKeys.MODEL_VARIABLES))
    np.testing.assert_allclose(averages, [*reference.moving, *reference.renorm], rtol=1e-4, atol=1e-6)
    mean, variance = reference.moving
    np.testing.assert_allclose(value, (batch - mean) / np.sqrt(variance + 1e-5), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shape", [(8, 3), (4, 5, 6, 3)], ids=["2-D", "4-D"])
def test_without_corrections_it_normalises_by_the_batch(run: Run, shape: tuple[int, ...]) -> None:
    """Also in its gradient: the corrections are constants, which are 1 and 0 here."""
    x = tf.constant(np.random.default_rng(0).normal(2.0, 3.0, size=shape).astype("f4"))
    weights = tf.constant(np.random.default_rng(1).normal(size=shape).astype("f4"))
    outs = [BatchRenorm("renorm", x, 1, 0, training=True), BatchNorm("bn", x, training=True)]
    pairs = [[out, tf.gradients(tf.reduce_sum(out * weights), x)[0]] for out in outs]
    for one, other in zip(*run(pairs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_limits_may_change(graph: tf.Graph) -> None:
    x = tf.constant(batches()[0])
    rmax, dmax = (
        tf.placeholder(tf.float32, []),
        tf.get_variable("dmax", [], initializer=tf.zeros_initializer()),
    )
    out = BatchRenorm("bn", x, rmax, dmax, training=True)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        narrow = session.run(out, {rmax: 1.0})
        session.run(tf.global_variables_initializer())
        wide = session.run(out, {rmax: 3.0})
    assert abs(narrow.std(0) - 1).max() < 1e-3 < abs(wide.std(0) - 1).max()


@pytest.mark.parametrize("own", [False, True])
def test_towers_and_the_averages_before_the_step(graph: tf.Graph, own: bool) -> None:
    """Towers that share the averages read them before they move, and the first one moves them."""
    given, outs = batches(2), []
    for index, batch in enumerate(given):
        scope = f"tower{index}" if own and index else ""
        context = TowerContext(
            f"tower{index}",
            is_training=True,
            index=index,
            num_towers=2,
            variable_scope=scope,
            reuse=None if own else index > 0,
        )
        with context:
            outs.append(BatchRenorm("bn", tf.constant(batch), renorm_momentum=0.1, **LIMITS))
    references = [Reference(), Reference()]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            values = session.run(outs)
            before = [Reference() for _ in range(2)]
            for new, old in zip(before, references):
                new.moving, new.renorm = old.moving, old.renorm
            references[0].step(given[0], renorm_momentum=0.1)
            if own:
                references[1].step(given[1], renorm_momentum=0.1)
            else:
                references[1] = references[0]
            for value, reference, batch in zip(values, before, given):
                np.testing.assert_allclose(value, reference.step(batch), rtol=1e-4, atol=1e-5)


def test_inference_moves_nothing(graph: tf.Graph) -> None:
    with TowerContext("", is_training=False):
        out = BatchRenorm("bn", tf.ones([4, 3]), **LIMITS)
        forced = BatchRenorm("forced", tf.ones([4, 3]), training=True, **LIMITS)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([out, forced])
        averages = session.run(tf.get_collection(tf.GraphKeys.MODEL_VARIABLES))
    assert np.array_equal(averages, [[0] * 3, [1] * 3] * 4)


def test_a_batch_without_examples_leaves_the_averages_as_they_are(graph: tf.Graph) -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    out = BatchRenorm("bn", x, training=True, **LIMITS)
    gradients = tf.gradients(out, [x, *tf.trainable_variables()])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value, by_x, *others = session.run([out, *gradients], {x: np.zeros([0, 3])})
        averages = session.run(tf.get_collection(tf.GraphKeys.MODEL_VARIABLES))
    assert value.shape == by_x.shape == (0, 3)
    assert all((gradient == 0).all() for gradient in others)
    assert np.array_equal(averages, [[0] * 3, [1] * 3] * 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rmax": 0.5}, "rmax must be a number of at least 1 or a scalar tensor, received 0.5"),
        ({"dmax": -1}, "dmax must be a number of at least 0 or a scalar tensor, received -1"),
        ({"dmax": "much"}, "dmax must be a number of at least 0 or a scalar tensor, received 'much'"),
        ({"momentum": 2}, "momentum must be between 0 and 1, received 2"),
        ({"renorm_momentum": -0.1}, "renorm_momentum must be between 0 and 1, received -0.1"),
        ({"epsilon": None}, "epsilon must not be negative, received None"),
    ],
    ids=str,
)
def test_bad_values(graph: tf.Graph, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BatchRenorm("bn", tf.ones([2, 3]), **{**LIMITS, "training": True, **options})
    with pytest.raises(ValueError, match=r"rmax must be .* a scalar tensor"):
        BatchRenorm("bn", tf.ones([2, 3]), tf.ones([2]), 1.0, training=True)
    assert tf.global_variables() == []


def test_bad_types_and_places(graph: tf.Graph) -> None:
    with pytest.raises(TypeError, match="must be float32, float16 or bfloat16, received float64"):
        BatchRenorm("bn", tf.ones([2, 3], tf.float64), training=True, **LIMITS)
    with pytest.raises(TowerError, match="needs a training mode"):
        BatchRenorm("bn", tf.ones([2, 3]), **LIMITS)
