"""Parts of a batch that are normalised each by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import BatchNorm, TowerContext

Run = Callable[..., Any]
UPDATE_OPS = tf.GraphKeys.UPDATE_OPS


@pytest.fixture(params=[(12, 3), (12, 4, 5, 3)], ids=["2-D", "4-D"])
def batch(request: pytest.FixtureRequest) -> np.ndarray:
    return np.random.default_rng(0).normal(2.0, 3.0, size=request.param).astype("f4")


@pytest.mark.slow
def test_each_part_is_normalised_as_a_separate_batch(run: Run, batch: np.ndarray) -> None:
    """Forward and backward; with the batch as its only part, as without parts."""
    weights = np.random.default_rng(1).normal(size=batch.shape).astype("f4")
    x = tf.constant(batch)

    def build(name: str, given: tf.Tensor, weight: np.ndarray, **options: Any) -> list[tf.Tensor]:
        out = BatchNorm(name, given, training=True, **options)
        by = [given, out.variables.gamma, out.variables.beta]
        return [out, *tf.gradients(tf.reduce_sum(out * weight), by)]

    ghost = build("ghost", x, weights, virtual_batch_size=4)
    parts = [
        build(f"part{number}", tf.constant(part), weight)
        for number, (part, weight) in enumerate(zip(np.split(batch, 3), np.split(weights, 3), strict=True))
    ]
    whole, alike = build("whole", x, weights, virtual_batch_size=np.int64(12)), build("alike", x, weights)
    ghost, parts, whole, alike = run([ghost, parts, whole, alike])
    columns = list(zip(*parts, strict=True))
    wanted = [*map(np.concatenate, columns[:2]), *map(sum, columns[2:])]
    for values, others in ((ghost, wanted), (whole, alike)):
        for value, other in zip(values, others, strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-3, atol=1e-3)


def test_the_averages_take_all_parts(graph: tf.Graph, batch: np.ndarray) -> None:
    out = BatchNorm("bn", tf.constant(batch), training=True, momentum=0.5, virtual_batch_size=4)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.get_collection(UPDATE_OPS))
        mean, variance = session.run([out.variables.mean, out.variables.variance])
    axes, parts = tuple(range(batch.ndim - 1)), np.split(batch, 3)
    np.testing.assert_allclose(mean, 0.5 * np.mean([part.mean(axes) for part in parts], 0), rtol=1e-4)
    biased = np.mean([part.var(axes, ddof=1) for part in parts], 0)
    np.testing.assert_allclose(variance, 0.5 + 0.5 * biased, rtol=1e-4)


def test_channels_first(run: Run) -> None:
    batch = np.random.default_rng(0).normal(size=(4, 5, 6, 3)).astype("f4")
    last = BatchNorm("bn", tf.constant(batch), training=True, virtual_batch_size=2)
    with tf.variable_scope("", reuse=True):
        turned = tf.constant(batch.transpose(0, 3, 1, 2))
        first = BatchNorm("bn", turned, training=True, virtual_batch_size=2, data_format="channels_first")
    last, first = run([last, first])
    np.testing.assert_allclose(last, first.transpose(0, 2, 3, 1), rtol=1e-5, atol=1e-5)


def test_inference_has_no_parts(run: Run) -> None:
    with TowerContext("", is_training=False):
        out = BatchNorm("bn", tf.ones([4, 2]), virtual_batch_size=2)
        odd = tf.placeholder_with_default(tf.ones([3, 2]), [None, 2])
        other = BatchNorm("other", odd, virtual_batch_size=2)
    np.testing.assert_allclose(run(out), np.ones([4, 2]), rtol=1e-4)
    assert run(other).shape == (3, 2)


def test_a_batch_without_examples(graph: tf.Graph) -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    out = BatchNorm("bn", x, training=True, virtual_batch_size=4)
    gradients = tf.gradients(out, [x, *tf.trainable_variables()])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value, [by_x, *by_variables], _ = session.run(
            [out, gradients, tf.get_collection(UPDATE_OPS)], {x: np.zeros([0, 2])}
        )
        averages = session.run([out.variables.mean, out.variables.variance])
    assert value.shape == by_x.shape == (0, 2)
    assert all((gradient == 0).all() for gradient in by_variables)
    assert np.array_equal(averages, [[0, 0], [1, 1]])


def test_sizes_that_do_not_fit(graph: tf.Graph) -> None:
    rule = "virtual_batch_size=4 must divide the batch"
    with pytest.raises(ValueError, match=rf"BatchNorm\('bn'\): {rule}; the batch has 6 examples"):
        BatchNorm("bn", tf.ones([6, 2]), training=True, virtual_batch_size=4)
    assert tf.global_variables() == []
    x = tf.placeholder(tf.float32, [None, 2])
    out = BatchNorm("bn", x, training=True, virtual_batch_size=4)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{rule}. Examples:\] \[6\]"):
            session.run(out, {x: np.zeros([6, 2])})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"virtual_batch_size": 0}, "virtual_batch_size must be a positive int, received 0"),
        ({"virtual_batch_size": 2.0}, "virtual_batch_size must be a positive int, received 2.0"),
        (
            {"virtual_batch_size": 2, "sync_statistics": True},
            "virtual_batch_size=2 makes batches smaller, but sync_statistics=True makes them larger",
        ),
    ],
    ids=str,
)
def test_bad_arguments(graph: tf.Graph, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BatchNorm("bn", tf.ones([4, 2]), training=True, **options)
