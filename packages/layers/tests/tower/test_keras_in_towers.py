"""Keras layers in a tower work, or say that they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import FullyConnected, KerasLayerError, TowerContext, get_current_tower_context

Run = Callable[..., Any]
keras: Any = tf.keras
pytestmark = pytest.mark.slow


@pytest.fixture
def x(graph: tf.Graph) -> Iterator[tf.Tensor]:
    with TowerContext("", is_training=True):
        yield tf.ones([4, 6])


@pytest.mark.parametrize("training", [None, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.layers.Dropout(0.5),
        lambda: keras.layers.GaussianNoise(0.5),
        lambda: keras.layers.BatchNormalization(name="bn"),
    ],
    ids=["Dropout", "GaussianNoise", "BatchNormalization"],
)
def test_state_that_no_step_would_change(x: tf.Tensor, make: Any, training: bool | None) -> None:
    message = r"The Keras object \w+\('.*'\) has a state .*interop\.use_keras.*or use the layers of tower"
    with pytest.raises(KerasLayerError, match=message):
        make()(x, training=training)


@pytest.mark.parametrize("which", ["kernel_regularizer", "bias_regularizer", "activity_regularizer"])
def test_costs_that_would_not_count(x: tf.Tensor, which: str) -> None:
    with pytest.raises(KerasLayerError, match=rf"Dense\('d'\) has {which}, .*regularize_cost"):
        keras.layers.Dense(3, name="d", **{which: "l2"})(x)


def test_in_a_model(x: tf.Tensor) -> None:
    with pytest.raises(KerasLayerError, match=r"BatchNormalization\('.*'\) has a state"):
        keras.Sequential([keras.layers.Dense(3), keras.layers.BatchNormalization()])(x)


def test_a_layer_of_the_users_own(x: tf.Tensor) -> None:
    class Centered(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.mean = self.add_weight(shape=[shape[-1]], trainable=False, name="mean")

        def call(self, x: tf.Tensor) -> tf.Tensor:
            return x - self.mean

    with pytest.raises(KerasLayerError, match=r"Centered.* has a state"):
        Centered()(x)


def test_what_works(run: Run, x: tf.Tensor) -> None:
    """Layers of weights alone, a state that is meant to stay, and variables that are not of Keras."""
    dense = keras.layers.Dense(3, name="d")(x)
    conv = keras.layers.Conv2D(2, 3)(tf.ones([1, 5, 5, 1]))
    frozen = keras.layers.BatchNormalization(trainable=False)(x)
    tf.get_variable("count", [], trainable=False)
    ours = FullyConnected("fc", x, 2, kernel_regularizer=tf.reduce_sum)
    assert [value.shape for value in run([dense, conv, frozen, ours])] == [
        (4, 3),
        (1, 3, 3, 2),
        (4, 6),
        (4, 2),
    ]


def test_in_inference_and_outside_of_towers(graph: tf.Graph) -> None:
    x = tf.ones([4, 6])
    keras.layers.BatchNormalization()(x)
    with TowerContext("InferenceTower", is_training=False):
        keras.layers.Dense(3, kernel_regularizer="l2")(keras.layers.Dropout(0.5)(x))
    assert get_current_tower_context() is None


@pytest.mark.parametrize("name", ["BatchNormalization", "Dropout"])
def test_a_layer_that_was_built_before_the_training_tower(graph: tf.Graph, name: str) -> None:
    layer = keras.layers.BatchNormalization() if name == "BatchNormalization" else keras.layers.Dropout(0.5)
    with TowerContext("InferenceTower", is_training=False):
        layer(tf.ones([4, 6]))
    message = r"Training tower 'train' has Keras layers that change their state by ops .*interop\.use_keras"
    with pytest.raises(KerasLayerError, match=message), TowerContext("train", is_training=True):
        layer(tf.ones([4, 6]), training=True)
    assert get_current_tower_context() is None


def test_updates_that_a_step_runs(graph: tf.Graph) -> None:
    """A user may manually collect the updates that Keras omits."""
    layer = keras.layers.BatchNormalization()
    with TowerContext("InferenceTower", is_training=False):
        layer(tf.ones([4, 6]))
    with TowerContext("train", is_training=True):
        before = set(graph.get_operations())
        layer(tf.ones([4, 6]), training=True)
        new = [op for op in graph.get_operations() if op not in before and op.type.startswith("Assign")]
        tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS).extend(new)


def test_layers_of_tf_keras_that_are_left_to_the_learning_phase(graph: tf.Graph) -> None:
    """tf_keras makes this placeholder for a layer that is called without `training=`."""
    with TowerContext("a", is_training=False):
        phase = tf.placeholder_with_default(False, [], "keras_learning_phase/input")
        with tf.name_scope(None):
            phase = tf.identity(phase, "keras_learning_phase")
        tf.identity(phase)
    with TowerContext("b", is_training=True):
        FullyConnected("fc", tf.ones([1, 2]), 3)
    message = "Training tower 'c' has a layer of tf_keras, such as a Dropout, .* Pass training=True"
    with pytest.raises(KerasLayerError, match=message), TowerContext("c", is_training=True):
        tf.identity(phase)
    assert get_current_tower_context() is None
