"""One network, written in each library that a tower function may use, against the same in our layers."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towerpack_layers as tp
from towerpack_layers import TowerContext, get_current_tower_context
from towerpack_layers.interop import enable_slim, use_keras

tf_keras = pytest.importorskip("tf_keras")
slim = pytest.importorskip("tf_slim")
convolutional = pytest.importorskip("tf_keras.src.legacy_tf_layers.convolutional")
core = pytest.importorskip("tf_keras.src.legacy_tf_layers.core")
normalization = pytest.importorskip("tf_keras.src.legacy_tf_layers.normalization")

Network = Callable[[tf.Tensor, float], tf.Tensor]

enable_slim()
_rng = np.random.default_rng(0)
KERNEL = _rng.normal(size=(3, 3, 2, 4)).astype("float32")
WEIGHTS = _rng.normal(size=(36, 3)).astype("float32")
IMAGES = _rng.normal(1, 2, size=(8, 5, 5, 2)).astype("float32")
LABELS = _rng.normal(size=(8, 3)).astype("float32")
# Libraries scale the sum of squares differently; the cost is 0.05 of the sum.
SQUARES = 0.05


def _training() -> bool:
    tower = get_current_tower_context()
    assert tower is not None
    return tower.is_training


def in_our_layers(x: tf.Tensor, rate: float) -> tf.Tensor:
    x = tp.Conv2D(
        *("conv", x, 4, 3),
        padding="valid",
        kernel_initializer=KERNEL,
        kernel_regularizer=tp.l2_regularizer(2 * SQUARES),
    )
    x = tf.nn.relu(tp.BatchNorm("bn", x, momentum=0.9, epsilon=1e-3))
    x = tp.Dropout(tf.reshape(x, [-1, 36]), rate=rate)
    return tp.FullyConnected("fc", x, 3, kernel_initializer=WEIGHTS)


def in_raw_tensorflow(x: tf.Tensor, rate: float) -> tf.Tensor:
    kernel = tf.get_variable(
        "conv/kernel",
        initializer=lambda: tf.constant(KERNEL),
        regularizer=lambda w: SQUARES * tf.reduce_sum(w**2),
    )
    x = tf.nn.conv2d(x, kernel, 1, "VALID") + tf.get_variable(
        "conv/bias", [4], initializer=tf.zeros_initializer()
    )
    scale = tf.get_variable("bn/gamma", [4], initializer=tf.ones_initializer())
    offset = tf.get_variable("bn/beta", [4], initializer=tf.zeros_initializer())
    averages = {
        "mean": tf.get_variable("bn/mean", [4], initializer=tf.zeros_initializer(), trainable=False),
        "variance": tf.get_variable("bn/variance", [4], initializer=tf.ones_initializer(), trainable=False),
    }
    if _training():
        x, mean, variance = tf.nn.fused_batch_norm(x, scale, offset, epsilon=1e-3)
        for average, now in zip(averages.values(), (mean, variance)):
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, average.assign_sub(0.1 * (average - now)))
    else:
        x = tf.nn.fused_batch_norm(x, scale, offset, **averages, epsilon=1e-3, is_training=False)[0]
    x = tf.reshape(tf.nn.relu(x), [-1, 36])
    if _training() and rate:
        x = tf.nn.dropout(x, rate=rate)
    weights = tf.get_variable("fc/kernel", initializer=lambda: tf.constant(WEIGHTS))
    return x @ weights + tf.get_variable("fc/bias", [3], initializer=tf.zeros_initializer())


class Linear(tf.Module):
    """A module that makes its variables by `tf.get_variable`, in the tower that it is made in."""

    def __init__(self, name: str, kernel: np.ndarray, operation: Any, regularizer: Any = None) -> None:
        super().__init__(name)
        with tf.variable_scope(name):
            self.kernel = tf.get_variable(
                "kernel", initializer=lambda: tf.constant(kernel), regularizer=regularizer
            )
            self.bias = tf.get_variable("bias", [kernel.shape[-1]], initializer=tf.zeros_initializer())
        self._operation = operation

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return self._operation(x, self.kernel) + self.bias


def in_modules(x: tf.Tensor, rate: float) -> tf.Tensor:
    conv = Linear(
        *("conv", KERNEL, lambda x, w: tf.nn.conv2d(x, w, 1, "VALID")),
        regularizer=lambda w: SQUARES * tf.reduce_sum(w**2),
    )
    x = tf.nn.relu(tp.BatchNorm("bn", conv(x), momentum=0.9, epsilon=1e-3))
    return Linear("fc", WEIGHTS, tf.matmul)(tp.Dropout(tf.reshape(x, [-1, 36]), rate=rate))


def in_slim(x: tf.Tensor, rate: float) -> tf.Tensor:
    norm = {"decay": 0.9, "epsilon": 1e-3, "scale": True}
    with slim.arg_scope([slim.conv2d, slim.fully_connected], activation_fn=None):
        x = slim.conv2d(
            *(x, 4, 3),
            padding="VALID",
            weights_initializer=tf.constant_initializer(KERNEL),
            weights_regularizer=slim.l2_regularizer(2 * SQUARES),
        )
        x = slim.flatten(slim.batch_norm(x, activation_fn=tf.nn.relu, **norm))
        x = slim.dropout(x, keep_prob=1 - rate)
        return slim.fully_connected(x, 3, weights_initializer=tf.constant_initializer(WEIGHTS))


def in_legacy_layers(x: tf.Tensor, rate: float) -> tf.Tensor:
    x = convolutional.conv2d(
        *(x, 4, 3),
        kernel_initializer=tf.constant_initializer(KERNEL),
        kernel_regularizer=lambda w: SQUARES * tf.reduce_sum(w**2),
        name="conv",
    )
    x = normalization.batch_normalization(x, momentum=0.9, training=_training(), name="bn")
    x = core.dropout(core.flatten(tf.nn.relu(x)), rate, training=_training())
    return core.dense(x, 3, kernel_initializer=tf.constant_initializer(WEIGHTS), name="fc")


def _sequential(library: Any, rate: float) -> Any:
    layers, constant = library.layers, library.initializers.Constant
    if library is tf_keras:
        constant = tf.constant_initializer
    return library.Sequential(
        [
            layers.Conv2D(
                *(4, 3),
                kernel_initializer=constant(KERNEL),
                kernel_regularizer=library.regularizers.L2(SQUARES),
            ),
            layers.BatchNormalization(momentum=0.9),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dropout(rate),
            layers.Dense(3, kernel_initializer=constant(WEIGHTS)),
        ],
        name="net",
    )


def in_tf_keras(x: tf.Tensor, rate: float) -> tf.Tensor:
    return use_keras(lambda: _sequential(tf_keras, rate))(x)


def in_keras(x: tf.Tensor, rate: float) -> tf.Tensor:
    return use_keras(lambda: _sequential(keras, rate))(x)


def in_a_kept_model() -> Network:
    models = {rate: use_keras(_sequential(keras, rate)) for rate in (0.0, 0.5)}
    return lambda x, rate: models[rate](x)


LIBRARIES: dict[str, Callable[[], Network]] = {
    "raw": lambda: in_raw_tensorflow,
    "module": lambda: in_modules,
    "slim": lambda: in_slim,
    "legacy layers": lambda: in_legacy_layers,
    "tf_keras": lambda: in_tf_keras,
    "keras": lambda: in_keras,
    "kept keras": in_a_kept_model,
}
pytestmark = [
    pytest.mark.slow,
    # tf_keras says of each of its legacy functions that it is deprecated.
    pytest.mark.filterwarnings("ignore:`tf.layers:UserWarning"),
    pytest.mark.parametrize("library", list(LIBRARIES)),
]


def _cost(network: Network, index: int = 0, rate: float = 0.0) -> tf.Tensor:
    half = slice(4 * index, 4 * index + 4)
    error = tf.reduce_mean((network(tf.constant(IMAGES[half]), rate) - LABELS[half]) ** 2)
    return error + tp.regularize_cost_from_collection()


def _train(network: Network, towers: int, own_variables: bool = False, steps: int = 4) -> list[list[float]]:
    """Trains on the mean of the towers' costs, as our builders do, and returns the costs."""
    graph = tf.Graph()
    with graph.as_default():
        costs, gradients = [], []
        for index in range(towers):
            own = own_variables and index > 0
            name = f"tower{index}" if towers > 1 else ""
            options = {"variable_scope": name} if own else {"reuse": True if index else None}
            with TowerContext(name, is_training=True, index=index, num_towers=towers, **options) as tower:
                costs.append(_cost(network, index))
                variables = (
                    tower.get_collection_in_tower("trainable_variables") if own else tf.trainable_variables()
                )
            gradients.append(tf.gradients(costs[-1], variables))
            if not index:
                assert len(variables) == 6
        assert None not in [*itertools.chain(*gradients)]
        rows = [] if own_variables else zip(tf.trainable_variables(), *gradients)
        means = [(variable, tf.add_n(row) / towers) for variable, *row in rows]
        with tf.control_dependencies([*costs, *(mean for _, mean in means)]):
            step = tf.group(*(variable.assign_sub(0.01 * mean) for variable, mean in means))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            return [session.run([costs, step])[0] for _ in range(steps)]


@functools.cache
def _train_ours(towers: int, own_variables: bool = False, steps: int = 4) -> list[list[float]]:
    return _train(in_our_layers, towers, own_variables, steps)


def test_one_tower_trains_as_in_our_layers(library: str) -> None:
    ours, theirs = _train_ours(1), _train(LIBRARIES[library](), 1)
    np.testing.assert_allclose(theirs, ours, rtol=2e-4)
    assert theirs[-1][0] < 0.9 * theirs[0][0]


def test_two_towers_that_share_train_as_in_our_layers(library: str) -> None:
    ours, theirs = _train_ours(2), _train(LIBRARIES[library](), 2)
    np.testing.assert_allclose(theirs, ours, rtol=2e-4)


def test_towers_with_separate_variables(library: str) -> None:
    """Each has its own costs of weights."""
    ours, theirs = _train_ours(2, True, 1), _train(LIBRARIES[library](), 2, True, 1)
    np.testing.assert_allclose(theirs, ours, rtol=2e-4)


def test_averages_and_evaluation(library: str) -> None:
    """The averages move once per step, are saved with the model, and normalise in evaluations."""
    network = LIBRARIES[library]()
    with tf.Graph().as_default(), tf.Session() as session:
        with TowerContext("", is_training=True):
            _cost(network, rate=0.5)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        variables = tf.global_variables()
        with TowerContext("InferenceTower", is_training=False, reuse=True):
            evaluated = network(tf.constant(IMAGES), 0.5)
        assert tf.global_variables() == variables
        assert len(updates) == 2
        averages = [v for v in variables if v not in tf.trainable_variables()]
        assert len(averages) == 2
        if library not in {"raw", "legacy layers"}:
            assert set(averages) <= set(tf.get_collection(tf.GraphKeys.MODEL_VARIABLES))
        session.run(tf.global_variables_initializer())
        before = session.run(evaluated)
        session.run(updates)
        batch = session.run(tf.nn.conv2d(IMAGES[:4], KERNEL, 1, "VALID"))
        (mean,) = (v for v in averages if "mean" in v.name)
        np.testing.assert_allclose(session.run(mean), 0.1 * batch.mean((0, 1, 2)), rtol=1e-4, atol=1e-6)
        after = session.run(evaluated)
        assert not np.allclose(before, after)
        np.testing.assert_array_equal(after, session.run(evaluated))


def test_costs_of_weights_count_once_in_each_tower(library: str) -> None:
    network, costs = LIBRARIES[library](), []
    with tf.Graph().as_default(), tf.Session() as session:
        for index in range(2):
            name, reuse = f"tower{index}", True if index else None
            with TowerContext(name, is_training=True, index=index, num_towers=2, reuse=reuse):
                network(tf.constant(IMAGES), 0.0)
                costs.append(tp.regularize_cost_from_collection())
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(costs), [SQUARES * np.sum(KERNEL**2)] * 2, rtol=1e-5)


def test_masks_are_fresh_at_each_step(library: str) -> None:
    network = LIBRARIES[library]()
    with tf.Graph().as_default(), tf.Session() as session:
        with TowerContext("", is_training=True):
            out = network(tf.constant(IMAGES), 0.5)
        session.run(tf.global_variables_initializer())
        drawn = [session.run(out) for _ in range(3)]
        assert not np.allclose(drawn[0], drawn[1])
        assert not np.allclose(drawn[1], drawn[2])
