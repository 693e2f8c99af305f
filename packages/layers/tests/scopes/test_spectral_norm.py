"""Weights divided by their largest singular value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    BatchNorm,
    Conv2D,
    FullyConnected,
    TowerContext,
    TowerError,
    argscope,
    l2_regularizer,
    spectral_norm_scope,
)


def names(collection: str) -> list[str]:
    return [variable.op.name for variable in tf.get_collection(collection)]


def normal(shape: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("f4")


def largest(weight: np.ndarray) -> float:
    return float(np.linalg.svd(weight.reshape(-1, weight.shape[-1]).astype("f8"))[1][0])


class Layer:
    """One step of the power iteration of a weight in 64 bits."""

    def __init__(self, weight: np.ndarray, vector: np.ndarray) -> None:
        self.matrix, self.vector = weight.reshape(-1, weight.shape[-1]).astype("f8"), vector.astype("f8")

    def step(self) -> float:
        left = self.matrix @ self.vector
        left /= np.linalg.norm(left)
        right = left @ self.matrix
        self.vector = right / np.linalg.norm(right)
        return float(left @ self.matrix @ self.vector)


def test_a_layer_gets_the_divided_weight(graph: tf.Graph) -> None:
    with TowerContext("", is_training=True), spectral_norm_scope():
        conv = Conv2D("conv", tf.constant(normal([2, 8, 8, 3])), 4, 3)
        BatchNorm("bn", conv)
        dense = FullyConnected("fc", conv, 5)
    assert names(tf.GraphKeys.TRAINABLE_VARIABLES) == [
        *("conv/W", "conv/b", "bn/gamma", "bn/beta", "fc/W", "fc/b")
    ]
    averages = ["bn/mean/EMA", "bn/variance/EMA"]
    assert names(tf.GraphKeys.MODEL_VARIABLES) == ["conv/W/u", *averages, "fc/W/u"]
    weights = dict(zip(names("trainable_variables"), tf.trainable_variables(), strict=True))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(60):
            divided = session.run([conv.variables.W, dense.variables.W])
        whole = session.run([weights["conv/W"], weights["fc/W"]])
    for one, other in zip(divided, whole, strict=True):
        assert largest(one) == pytest.approx(1, abs=1e-3)
        np.testing.assert_allclose(one * largest(other), other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("iterations", [1, 3])
def test_one_update_in_a_step_however_often_a_weight_is_read(graph: tf.Graph, iterations: int) -> None:
    """By two uses in a tower, and by two towers that share it."""
    outs = []
    for index in range(2):
        context = TowerContext(
            f"tower{index}", is_training=True, index=index, num_towers=2, reuse=index > 0 or None
        )
        with context, spectral_norm_scope(iterations=iterations):
            for reuse in (None, True):
                with tf.variable_scope("", reuse=reuse):
                    outs.append(FullyConnected("fc", tf.eye(3), 4, use_bias=False))
    weight, vector = tf.global_variables()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        layer = Layer(*session.run([weight, vector]))
        for _ in range(3):
            values = session.run(outs)
            sigma = [layer.step() for _ in range(iterations)][-1]
            for value in values:
                np.testing.assert_allclose(value, layer.matrix / sigma, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(session.run(vector), layer.vector, rtol=1e-4, atol=1e-5)


def test_towers_with_separate_weights_have_separate_vectors(graph: tf.Graph) -> None:
    for index in range(2):
        scope = f"tower{index}" if index else ""
        context = TowerContext(
            f"tower{index}", is_training=True, index=index, num_towers=2, variable_scope=scope
        )
        with context, spectral_norm_scope():
            FullyConnected("fc", tf.eye(3), 4, use_bias=False)
    assert names("variables") == ["fc/W", "fc/W/u", "tower1/fc/W", "tower1/fc/W/u"]


def test_inference_stores_nothing_and_equals_the_next_step(graph: tf.Graph) -> None:
    outs = []
    for name, is_training in (("", True), ("first", False), ("second", False)):
        with (
            TowerContext(name, is_training=is_training, reuse=not is_training or None),
            spectral_norm_scope(),
        ):
            outs.append(FullyConnected("fc", tf.eye(3), 4, use_bias=False))
    vector = tf.global_variables()[1]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(vector)
        first, second = session.run(outs[1:])
        assert np.array_equal(session.run(vector), before)
        trained = session.run(outs[0])
        assert not np.array_equal(session.run(vector), before)
    np.testing.assert_allclose(first, second, rtol=1e-6)
    np.testing.assert_allclose(first, trained, rtol=1e-5)


def test_the_gradient_goes_through_the_estimate(graph: tf.Graph) -> None:
    """As of W / (left W right) with both vectors constant: it is orthogonal to the weight."""
    factors = normal([3, 4], 1)
    with TowerContext("", is_training=True), spectral_norm_scope():
        out = FullyConnected("fc", tf.eye(3), 4, use_bias=False)
    weight, vector = tf.global_variables()
    [gradient] = tf.gradients(tf.reduce_sum(out * factors), weight)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value, right = session.run([weight, vector])
        layer = Layer(value, right)
        sigma = layer.step()
        left = layer.matrix @ right / np.linalg.norm(layer.matrix @ right)
        wanted = factors / sigma - (factors * value).sum() / sigma**2 * np.outer(left, layer.vector)
        np.testing.assert_allclose(session.run(gradient), wanted, rtol=1e-3, atol=1e-4)


def test_default_arguments_and_regularizers(graph: tf.Graph) -> None:
    with (
        TowerContext("", is_training=True),
        argscope(FullyConnected, kernel_regularizer=l2_regularizer(2.0)),
        spectral_norm_scope(),
    ):
        FullyConnected("fc", tf.eye(3), 4)
    [cost] = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    weight = tf.trainable_variables()[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value, penalty = session.run([weight, cost])
    assert penalty == pytest.approx((value**2).sum(), rel=1e-4)


@pytest.mark.parametrize("outside", [True, False], ids=["around", "inside"])
def test_another_scope_may_replace_variables(graph: tf.Graph, outside: bool) -> None:
    def double(getter: Any, *args: Any, **kwargs: Any) -> Any:
        return 2 * getter(*args, **kwargs)

    def replaced() -> Any:
        return tf.variable_scope("", custom_getter=double)

    scopes = [replaced, spectral_norm_scope] if outside else [spectral_norm_scope, replaced]
    with TowerContext("", is_training=True), scopes[0](), scopes[1]():
        out = FullyConnected("fc", tf.eye(3), 4, use_bias=False)
    assert names("trainable_variables") == ["fc/W"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(60):
            value = session.run(out)
    # A weight doubled afterwards has twice the norm.
    assert largest(value) == pytest.approx(1 if outside else 2, abs=1e-3)


def test_a_scope_may_move_all_variables(graph: tf.Graph) -> None:
    def local(getter: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs["collections"] = [tf.GraphKeys.LOCAL_VARIABLES]
        return tf.identity(getter(*args, **kwargs))

    around = tf.variable_scope("", custom_getter=local)
    with TowerContext("", is_training=True), around, spectral_norm_scope():
        FullyConnected("fc", tf.eye(3), 4, use_bias=False)
    assert names("variables") == []
    assert names("local_variables") == ["fc/W", "fc/W/u"]


def test_frozen_weights_and_vectors_stay_as_they_are(graph: tf.Graph) -> None:
    with spectral_norm_scope(training=True):
        for name, shape, trainable in (("frozen", [3, 4], False), ("vector", [4], True)):
            got = tf.get_variable(name, shape, trainable=trainable)
            assert got.op.name == name
    assert names("variables") == ["frozen", "vector"]


def test_half_precision_and_double(graph: tf.Graph) -> None:
    with spectral_norm_scope(training=True):
        for dtype, vector in ((tf.float16, tf.float32), (tf.float64, tf.float64)):
            weight = tf.get_variable(dtype.name, [3, 4], dtype)
            assert weight.dtype == dtype
            assert tf.model_variables()[-1].dtype.base_dtype == vector


def test_in_a_body_of_control_flow(graph: tf.Graph) -> None:
    flag = tf.placeholder(tf.bool, [])
    with TowerContext("", is_training=True), spectral_norm_scope():
        outer = FullyConnected("fc", tf.eye(3), 4, use_bias=False)
        with tf.variable_scope("", reuse=True):
            inner = tf.cond(flag, lambda: FullyConnected("fc", tf.eye(3), 4, use_bias=False), lambda: outer)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for take in (True, False):
            assert session.run(inner, {flag: take}).shape == (3, 4)


def test_outside_any_tower_and_bad_values(graph: tf.Graph) -> None:
    with (
        spectral_norm_scope(),
        pytest.raises(TowerError, match="spectral_norm_scope of 'w' needs a training mode"),
    ):
        tf.get_variable("w", [2, 2])
    with pytest.raises(ValueError, match="iterations must be a positive int, received 0"):
        spectral_norm_scope(iterations=0).__enter__()
