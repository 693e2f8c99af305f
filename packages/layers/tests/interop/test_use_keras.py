"""Keras 3 in towers: variables, states, costs and random numbers."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    DuplicateLayerError,
    KerasLayerError,
    TowerContext,
    regularize_cost_from_collection,
)
from towerpack_layers.interop import use_keras

Run = Callable[..., Any]
layers: Any = keras.layers
pytestmark = pytest.mark.slow


@pytest.fixture
def tower(graph: tf.Graph) -> Any:
    with TowerContext("", is_training=True) as context:
        yield context


def _names(variables: Any) -> list[str]:
    return [variable.op.name for variable in variables]


class Block(keras.Model):
    """A model with layers as attributes, a separate variable, and a cost."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.dense, self.norm = layers.Dense(3), layers.BatchNormalization()

    def build(self, shape: Any) -> None:
        self.gain = self.add_weight(shape=[3], initializer="ones", name="gain")
        self.dense.build(shape)
        self.norm.build([None, 3])

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        y = self.norm(self.dense(x), training=training) * self.gain
        self.add_loss(0 * tf.reduce_sum(x) + 2)
        return y


def _functional() -> Any:
    image = keras.Input([4])
    inner = keras.Sequential([layers.Dense(3, name="same")], name="inner")
    other = keras.Sequential([keras.Input([3]), layers.Dense(3, name="same")], name="other")
    return keras.Model(image, other(inner(image)), name="net")


@pytest.mark.parametrize(
    "make, names",
    [
        (lambda: layers.Dense(3, name="fc"), ["fc/kernel", "fc/bias"]),
        (lambda: layers.Dense(3), ["dense/kernel", "dense/bias"]),
        (lambda: keras.Sequential([layers.Dense(3, use_bias=False)]), ["sequential/dense/kernel"]),
        (
            lambda: Block(name="b"),
            [
                "b/gain",
                "b/dense/kernel",
                "b/dense/bias",
                "b/batch_normalization/gamma",
                "b/batch_normalization/beta",
            ],
        ),
        (
            _functional,
            ["net/inner/same/kernel", "net/inner/same/bias", "net/other/same/kernel", "net/other/same/bias"],
        ),
    ],
    ids=["layer", "unnamed layer", "unnamed model", "own model", "functional"],
)
def test_names_of_variables(tower: TowerContext, make: Any, names: list[str]) -> None:
    """They depend on no other model of the process."""
    layers.Dense(1)
    out = use_keras(make)(tf.ones([2, 4]))
    assert sorted(_names(tf.trainable_variables())) == sorted(names)
    assert out.name == f"{names[0].partition('/')[0]}/output:0"
    for key in (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES):
        assert set(names) <= set(_names(tf.get_collection(key)))


def test_equal_paths_within_a_model(tower: TowerContext) -> None:
    def branch() -> Any:
        x = keras.Input([4])
        return keras.Model(x, layers.Dense(4, use_bias=False, name="same")(x))

    def make() -> Any:
        x = keras.Input([4])
        return keras.Model(x, branch()(branch()(x)), name="net")

    use_keras(make)(tf.ones([2, 4]))
    assert _names(tf.trainable_variables()) == ["net/same/kernel", "net/same/kernel_1"]


def test_a_model_that_was_built_in_a_graph(tower: TowerContext) -> None:
    layer = layers.Dense(3, name="fc")
    layer.build([None, 4])
    message = r"'fc/kernel' was made in a graph, outside of use_keras\. Pass use_keras the function"
    with pytest.raises(KerasLayerError, match=message):
        use_keras(layer)(tf.ones([2, 4]))


def test_values_of_a_model_that_was_built_in_eager_mode() -> None:
    model = keras.Sequential(
        [keras.Input([4]), layers.Dense(3, kernel_initializer="random_normal")], name="net"
    )
    kernel = model.get_weights()[0]
    function = use_keras(model)
    for _ in range(2):  # and in several graphs
        with tf.Graph().as_default(), tf.Session() as session, TowerContext("", is_training=True):
            out = function(tf.ones([1, 4]))
            session.run(tf.global_variables_initializer())
            np.testing.assert_allclose(session.run(out)[0], kernel.sum(0), rtol=1e-5)


def test_two_calls_in_a_tower_share_variables(run: Run, tower: TowerContext) -> None:
    """The second one's averages continue the first one's."""
    function = use_keras(lambda: layers.BatchNormalization(momentum=0.5, name="bn"))
    function(tf.constant([[4.0], [4.0]]))
    function(tf.constant([[8.0], [8.0]]))
    assert _names(tf.trainable_variables()) == ["bn/gamma", "bn/beta"]
    (mean,) = (variable for variable in tf.global_variables() if "moving_mean" in variable.name)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(updates) == 4
    with tf.control_dependencies(updates):
        read = mean.read_value()
    assert run(read) == [0.5 * (0.5 * 4) + 0.5 * 8]


def test_another_model_of_the_same_name(tower: TowerContext) -> None:
    use_keras(lambda: layers.Dense(3, name="fc"))(tf.ones([2, 4]))
    with pytest.raises(DuplicateLayerError, match=r"use_keras\('fc'\): the layer scope 'fc' is already used"):
        use_keras(lambda: layers.Dense(3, name="fc"))(tf.ones([2, 4]))


def test_inputs_outputs_and_arguments(run: Run, tower: TowerContext) -> None:
    function = use_keras(lambda: layers.LSTM(3, return_state=True, dropout=0.3, name="lstm"))
    out, *state = function(tf.ones([2, 5, 4]), initial_state=[tf.zeros([2, 3])] * 2)
    assert [value.shape for value in run([out, *state])] == [(2, 3)] * 3
    total = use_keras(lambda: layers.Add(name="add"))([tf.ones([2]), tf.ones([2])])
    assert run(total).tolist() == [2, 2]


def test_in_an_evaluation_alone(run: Run, graph: tf.Graph) -> None:
    """As a predictor has it: the variables are the same, and nothing is collected."""
    with TowerContext("", is_training=False):
        out = use_keras(Block)(tf.ones([2, 4]))
    assert run(out).shape == (2, 3)
    assert len(tf.global_variables()) == 7
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert not tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)


def test_gradients_of_embeddings_are_sparse(tower: TowerContext) -> None:
    out = use_keras(lambda: layers.Embedding(100, 8, name="words"))(tf.ones([2, 7], tf.int32))
    (gradient,) = tf.gradients(out, tf.trainable_variables())
    assert isinstance(gradient, tf.IndexedSlices)


def test_a_policy_of_mixed_precision(run: Run, tower: TowerContext) -> None:
    """Variables and averages stay in float32."""

    def make() -> Any:
        norm = layers.BatchNormalization(dtype="mixed_bfloat16")
        return keras.Sequential([layers.Dense(3, dtype="mixed_bfloat16"), norm], name="net")

    out = use_keras(make)(tf.ones([2, 4]))
    assert out.dtype is tf.bfloat16
    assert {variable.dtype for variable in tf.global_variables()} == {tf.float32}
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    run([tf.gradients(out, tf.trainable_variables()), updates])
    assert len(updates) == 2


def test_a_getter_of_variables_is_asked(tower: TowerContext) -> None:
    def frozen(getter: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
        return tf.stop_gradient(getter(*args, **kwargs))

    with tf.variable_scope("frozen", custom_getter=frozen):
        out = use_keras(lambda: layers.Dense(3, name="fc"))(tf.ones([2, 4]))
    assert _names(tf.trainable_variables()) == ["frozen/fc/kernel", "frozen/fc/bias"]
    assert tf.gradients(out, tf.trainable_variables()) == [None, None]


def test_costs_of_outputs_are_each_towers_own(run: Run) -> None:
    function, costs = use_keras(lambda: layers.Dense(1, activity_regularizer="l1", name="fc")), []
    for index in range(2):
        with TowerContext(
            f"tower{index}", is_training=True, index=index, num_towers=2, reuse=index > 0 or None
        ):
            out = function(tf.ones([2, 4]) * (index + 1))
            costs.append((regularize_cost_from_collection(), 0.01 * tf.reduce_sum(tf.abs(out)) / 2))
    for cost, expected in run(costs):
        np.testing.assert_allclose(cost, expected, rtol=1e-5)


def test_costs_of_add_loss(run: Run, tower: TowerContext) -> None:
    use_keras(Block)(tf.ones([2, 4]))
    assert run(regularize_cost_from_collection()) == 2.0


def test_constraints_and_layers_that_do_not_train(run: Run, tower: TowerContext) -> None:
    function = use_keras(lambda: layers.Dense(1, kernel_constraint="non_neg", name="fc"))
    cost = tf.reduce_sum(function(tf.ones([2, 4])))
    with tf.control_dependencies([tf.train.GradientDescentOptimizer(10.0).minimize(cost)]):
        kernel = tf.trainable_variables()[0].read_value()
    assert run(kernel).tolist() == [[0.0]] * 4
    use_keras(lambda: layers.BatchNormalization(trainable=False, name="frozen"))(tf.ones([2, 4]))
    assert len(tf.trainable_variables()) == 2
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)


def _wrap(make: Any, name: str) -> Any:
    return keras.Sequential([make()], name=name)


class Noise(keras.Layer):
    """A layer that draws from Keras's own generator."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + keras.random.normal([32])


@pytest.mark.parametrize(
    "make", [lambda: layers.Dropout(0.5, seed=1), Noise], ids=["Dropout", "no generator"]
)
def test_random_numbers_go_by_seed_step_tower_and_layer(make: Any) -> None:
    def draw(seed: int | None, steps: list[int]) -> np.ndarray:
        with tf.Graph().as_default(), tf.Session() as session:
            step, out = tf.placeholder(tf.int64, []), []
            for index in range(2):
                options = {"random_seed": seed, "step": step, "reuse": index > 0 or None}
                with TowerContext(f"t{index}", is_training=True, index=index, num_towers=2, **options):
                    out += [use_keras(functools.partial(_wrap, make, name))(tf.ones([32])) for name in "ab"]
            session.run(tf.global_variables_initializer())
            return np.array([session.run(out, {step: number}) for number in steps])

    first = draw(7, [3, 4])
    np.testing.assert_array_equal(first, draw(7, [3, 4]))
    np.testing.assert_array_equal(first[1], draw(7, [4])[0])
    distinct = {tuple(row) for row in [*first.reshape(-1, 32), *draw(8, [3]).reshape(-1, 32)]}
    assert len(distinct) == 12
    fresh = draw(None, [3, 3]).reshape(-1, 32)
    assert len({tuple(row) for row in fresh}) == 8


def test_initial_values_go_by_the_seed_of_the_tower() -> None:
    def values(seed: int | None) -> list[Any]:
        with tf.Graph().as_default(), TowerContext("", is_training=True, random_seed=seed):
            for name in "ab":
                use_keras(lambda name=name: keras.Sequential([keras.layers.Dense(4)], name=name))(
                    tf.ones([2, 3])
                )
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                return [value.tolist() for value in session.run(tf.trainable_variables())]

    random.seed(1)
    first = values(3)
    number = random.random()
    random.seed(1)
    assert number == random.random()  # the generator of the user continues as before
    assert values(3) == first
    assert first[0] != first[2]
    assert values(4)[0] != first[0]
    assert values(None)[0] != values(None)[0]


def test_eager_random_numbers_are_left_alone(tower: TowerContext) -> None:
    use_keras(Noise)(tf.ones([32]))
    with tf.compat.v2.__internal__.eager_context.eager_mode():
        assert keras.random.normal([2]).numpy().shape == (2,)


class Racing(keras.Layer):
    """Sets its weight as it is called."""

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=[], name="kernel")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        self.kernel.assign(self.kernel * 2)
        return x * self.kernel


COUNT = keras.Variable(np.zeros([1], "float32"), trainable=False)


class Elsewhere(keras.Layer):
    """Changes a variable that is not its own."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        COUNT.assign(np.ones([1], "float32"))
        return x


@pytest.mark.parametrize(
    "make, message",
    [
        (Elsewhere, "a layer changes variables that do not belong to the model. Create all"),
        (Racing, "a layer sets racing/kernel, which the optimizer also trains; the two updates would race"),
        (lambda: 3, "returned 3; expected a layer or model of Keras 3 or of tf_keras"),
    ],
)
def test_models_that_cannot_be_adapted(tower: TowerContext, make: Any, message: str) -> None:
    with pytest.raises(KerasLayerError, match=message):
        use_keras(make)(tf.ones([2, 4]))


def test_objects_that_are_not_models(tower: TowerContext) -> None:
    with pytest.raises(
        KerasLayerError, match="received 3; expected a layer or model of Keras, or a function"
    ):
        use_keras(3)
    with pytest.raises(
        KerasLayerError, match=r"received .*<lambda>\(x\), which needs arguments; .*without any"
    ):
        use_keras(lambda x: layers.Dense(3)(x))


def test_another_backend(tower: TowerContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(KerasLayerError, match=r"Keras uses the backend jax; .*KERAS_BACKEND=tensorflow"):
        use_keras(lambda: layers.Dense(3))(tf.ones([2, 4]))


def test_in_a_body_of_control_flow(tower: TowerContext) -> None:
    function = use_keras(lambda: layers.Dense(3))
    with pytest.raises(ValueError, match=r"use_keras: inside tf\.cond, tf\.while_loop"):
        tf.cond(tf.constant(True), lambda: function(tf.ones([2, 4])), lambda: tf.zeros([2, 3]))


def _loads_model(path: Any) -> Any:
    return lambda: keras.saving.load_model(path / "net.keras")


def _loads_weights(path: Any) -> Any:
    def make() -> Any:
        model = _small()
        model.load_weights(path / "net.weights.h5")
        return model

    return make


def _sets_weights(path: Any) -> Any:
    values = [np.full([3, 2], 0.5, np.float32), np.array([1, 2], np.float32)]

    def make() -> Any:
        model = _small()
        model.set_weights(values)
        return model

    return make


def _assigns(path: Any) -> Any:
    def make() -> Any:
        model = _small()
        model.layers[0].kernel.assign(np.full([3, 2], 0.5, np.float32))
        model.layers[0].bias.assign(np.array([1, 2], np.float32))
        return model

    return make


def _with_a_new_head(path: Any) -> Any:
    def make() -> Any:
        body = keras.saving.load_model(path / "net.keras")
        return keras.Sequential([keras.Input([3]), *body.layers, layers.Dense(2, name="head")], name="net")

    return make


def _small() -> Any:
    return keras.Sequential([keras.Input([3]), layers.Dense(2, name="fc")], name="net")


@pytest.mark.parametrize("way", [_loads_model, _loads_weights, _sets_weights, _assigns, _with_a_new_head])
def test_a_function_that_loads_weights(way: Any, tmp_path: Any) -> None:
    saved = _sets_weights(tmp_path)()
    saved.save(tmp_path / "net.keras")
    saved.save_weights(tmp_path / "net.weights.h5")
    with tf.Graph().as_default():
        network = use_keras(way(tmp_path))
        for name, reuse in [("a", False), ("b", True)]:
            with TowerContext(name, is_training=True, reuse=reuse):
                network(tf.ones([4, 3]))
        found = {variable.op.name: variable for variable in tf.trainable_variables()}
        assert list(found)[:2] == ["net/fc/kernel", "net/fc/bias"]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            values = session.run([found["net/fc/kernel"], found["net/fc/bias"]])
    np.testing.assert_array_equal(values[0], np.full([3, 2], 0.5))
    np.testing.assert_array_equal(values[1], [1, 2])


def test_a_function_that_fails_in_eager_mode_too_tells_its_own_error() -> None:
    def make() -> Any:
        raise KeyError("no such layer")

    with tf.Graph().as_default(), TowerContext("", True), pytest.raises(KeyError, match="no such layer"):
        use_keras(make)(tf.ones([4, 3]))


def test_regularizers_of_a_model_that_was_made_in_eager_mode() -> None:
    l1 = keras.regularizers.L1(0.5)
    dense = layers.Dense(1, kernel_initializer="ones", kernel_regularizer=l1, activity_regularizer=l1)
    model = keras.Sequential([keras.Input([2]), dense], name="net")
    with tf.Graph().as_default(), TowerContext("", is_training=True):
        use_keras(model)(tf.ones([1, 2]))
        cost = regularize_cost_from_collection()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run(cost) == 0.5 * 2 + 0.5 * 2


def test_the_mask_of_a_model_is_on_its_output(tower: Any) -> None:
    def make() -> Any:
        return keras.Sequential([layers.Embedding(5, 2, mask_zero=True), layers.Dense(1)], name="net")

    output = use_keras(make)(tf.constant([[1, 2, 0], [3, 0, 0]]))
    with tf.Session() as session:
        mask = session.run(output._keras_mask)
    assert mask.tolist() == [[True, True, False], [True, False, False]]
