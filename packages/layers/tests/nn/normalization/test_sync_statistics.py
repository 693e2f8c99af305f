"""Batch normalisation over the batches of several towers, as far as one tower can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import BatchNorm, TowerContext, TowerError

UPDATE_OPS = tf.GraphKeys.UPDATE_OPS
Sum = Callable[[tf.Tensor], tf.Tensor]


def normalise(x: np.ndarray, sync: Sum | None, **options: Any) -> list[np.ndarray]:
    """Output, gradient of a cost by input and scale, and moving averages after one step."""
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.constant(x)
        with TowerContext("", is_training=True, cross_tower_sum=sync):
            out = BatchNorm("bn", given, momentum=0.5, sync_statistics=sync is not None, **options)
        weights = tf.constant(np.random.default_rng(1).normal(size=x.shape).astype(x.dtype))
        gradients = tf.gradients(tf.reduce_sum(out * weights), [given, out.variables.gamma])
        session.run(tf.global_variables_initializer())
        values = session.run([out, *gradients])
        session.run(tf.get_collection(UPDATE_OPS))
        return [*values, *session.run([out.variables.mean, out.variables.variance])]


@pytest.mark.parametrize(
    ("shape", "options"),
    [((16, 3), {}), ((4, 5, 6, 3), {}), ((4, 3, 5, 6), {"data_format": "channels_first"})],
    ids=["2-D", "NHWC", "NCHW"],
)
def test_alone_it_is_the_ordinary_one(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    x = np.random.default_rng(0).normal(2.0, 3.0, size=shape).astype("f4")
    for value, wanted in zip(normalise(x, tf.identity, **options), normalise(x, None, **options)):
        np.testing.assert_allclose(value, wanted, rtol=2e-3, atol=2e-3)


def test_statistics_are_over_all_examples() -> None:
    """With a twin of the same batch: the same mean, and a variance of twice as many examples."""
    x = np.random.default_rng(0).normal(2.0, 3.0, size=(5, 3)).astype("f4")
    out, _, _, mean, variance = normalise(x, lambda tensor: 2 * tensor)
    np.testing.assert_allclose(out, (x - x.mean(0)) / x.std(0), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(mean, 0.5 * x.mean(0), rtol=1e-4)
    np.testing.assert_allclose(variance, 0.5 + 0.5 * np.concatenate([x, x]).var(0, ddof=1), rtol=1e-4)


def test_a_large_mean_costs_no_digits() -> None:
    """Compared with 64 bits. From the mean of squares in 32 bits, the variance would be off by 1 or more."""
    x = (np.random.default_rng(0).normal(size=(64, 2)) + 4096).astype("f4")
    out, *_, variance = normalise(x, tf.identity)
    exact = x.astype("f8")
    np.testing.assert_allclose(out, (exact - exact.mean(0)) / exact.std(0), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(variance, 0.5 + 0.5 * exact.var(0, ddof=1), rtol=1e-5)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_half_precision_in_and_out(graph: tf.Graph, dtype: tf.DType) -> None:
    with TowerContext("", is_training=True, cross_tower_sum=tf.identity):
        out = BatchNorm("bn", tf.ones([4, 2], dtype), sync_statistics=True)
    assert out.dtype == dtype
    assert {variable.dtype.base_dtype for variable in out.variables.all()} == {tf.float32}


def test_outside_training_nothing_is_exchanged(graph: tf.Graph) -> None:
    exchanged = []

    def record(tensor: tf.Tensor) -> tf.Tensor:
        exchanged.append(tensor)
        return tensor

    with TowerContext("", is_training=False, cross_tower_sum=record):
        BatchNorm("bn", tf.ones([4, 2]), sync_statistics=True)
    assert exchanged == []
    with TowerContext("training", is_training=True, reuse=True, cross_tower_sum=record):
        BatchNorm("bn", tf.ones([4, 2]), sync_statistics=True)
    assert len(exchanged) == 2


def test_towers_without_a_connection(graph: tf.Graph) -> None:
    message = (
        r"BatchNorm\('bn'\).*the 2 towers are not connected: the context of 'tower0' has no cross_tower_sum"
    )
    with TowerContext("tower0", is_training=True, num_towers=2), pytest.raises(TowerError, match=message):
        BatchNorm("bn", tf.ones([4, 2]), sync_statistics=True)


def test_a_single_tower_records_unsynchronised_layers(graph: tf.Graph) -> None:
    with TowerContext("", is_training=True):
        BatchNorm("bn0", tf.ones([4, 2]), sync_statistics=True)
        BatchNorm("bn1", tf.ones([4, 2]))
    with TowerContext("evaluation", is_training=False, reuse=True):
        BatchNorm("bn0", tf.ones([4, 2]), sync_statistics=True)
    assert graph.get_collection("UNSYNCHRONIZED_STATISTICS") == ["BatchNorm('bn0')"]


def test_outside_any_tower(graph: tf.Graph) -> None:
    with pytest.raises(TowerError, match="sync_statistics needs the towers to be connected"):
        BatchNorm("bn", tf.ones([4, 2]), training=True, sync_statistics=True)


def test_inside_control_flow(graph: tf.Graph) -> None:
    def branch() -> tf.Tensor:
        return BatchNorm("bn", tf.ones([4, 2]), sync_statistics=True, ema_update="skip")

    with (
        TowerContext("", is_training=True, cross_tower_sum=tf.identity),
        pytest.raises(
            ValueError, match=r"towers cannot be connected inside tf.cond.*do not set sync_statistics"
        ),
    ):
        tf.cond(tf.constant(True), branch, lambda: tf.ones([4, 2]))
