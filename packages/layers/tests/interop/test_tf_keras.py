"""Models of tf_keras in towers: names, costs, and refused models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import KerasLayerError, TowerContext, regularize_cost_from_collection
from towerpack_layers.interop import use_keras

tf_keras = pytest.importorskip("tf_keras")
Run = Callable[..., Any]
layers: Any = tf_keras.layers
pytestmark = pytest.mark.slow


def _functional() -> Any:
    x = tf_keras.Input([4])
    dense = layers.Dense(
        3, kernel_initializer="ones", kernel_regularizer="l1", activity_regularizer=tf.reduce_sum, name="fc"
    )
    return tf_keras.Model(x, layers.BatchNormalization()(dense(x)), name="net")


def _names(key: str) -> list[str]:
    return [variable.op.name for variable in tf.get_collection(key)]


def test_a_model_of_inputs(run: Run) -> None:
    """Losses of its symbolic inputs, which no call computes, do not count."""
    costs = []
    for index, reuse in enumerate([None, True]):
        with TowerContext(f"tower{index}", is_training=True, index=index, num_towers=2, reuse=reuse):
            use_keras(_functional)(tf.ones([2, 4]) * (index + 1))
            costs.append(regularize_cost_from_collection())
    assert _names(tf.GraphKeys.TRAINABLE_VARIABLES) == [
        *("net/fc/kernel", "net/fc/bias"),
        *("net/batch_normalization/gamma", "net/batch_normalization/beta"),
    ]
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 4
    # tf_keras divides costs of outputs by the size of the batch.
    assert run(costs) == pytest.approx([12 * 0.01 + 12, 12 * 0.01 + 24])


def test_names_depend_on_no_other_model(graph: tf.Graph) -> None:
    with TowerContext("", is_training=True):
        layers.Dense(2)
        use_keras(lambda: tf_keras.Sequential([layers.Dense(3)]))(tf.ones([2, 4]))
        use_keras(lambda: layers.Dense(3))(tf.ones([2, 4]))
    names = ["sequential/dense/kernel", "sequential/dense/bias", "dense/kernel", "dense/bias"]
    assert _names(tf.GraphKeys.MODEL_VARIABLES) == names


def test_two_calls_in_a_tower(run: Run, graph: tf.Graph) -> None:
    with TowerContext("", is_training=True):
        function = use_keras(lambda: layers.Dense(3, name="fc"))
        same = function(tf.ones([2, 4])) - function(tf.ones([2, 4]))
        assert not run(same).any()
    norm = use_keras(lambda: layers.BatchNormalization(name="bn"))
    message = r"use_keras\('bn'\): .* is called a second time"
    with pytest.raises(KerasLayerError, match=message), TowerContext("second", is_training=True):
        norm(tf.ones([2, 4]))
        norm(tf.ones([2, 4]))


def test_a_model_instead_of_a_function(graph: tf.Graph) -> None:
    with pytest.raises(KerasLayerError, match=r"of tf_keras, which would keep .* Pass use_keras the"):
        use_keras(layers.Dense(3))
