from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from layer_table import recurrent as table

from towerpack_layers import GRU, LSTM, TowerContext

Run = Callable[..., Any]


def gradients(out: Any) -> list[tf.Tensor]:
    """Of a cost of the outputs, by all variables."""
    return tf.gradients(tf.reduce_sum(out * out), tf.trainable_variables())


def sequences(times: int, seed: int = 0) -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).normal(size=[2, times, 4]), tf.float64)


@pytest.mark.slow
@pytest.mark.parametrize("layer", [LSTM, GRU], ids=["LSTM", "GRU"])
def test_many_times_are_a_loop(run: Run, layer: Any) -> None:
    ops, values = [], []
    x = sequences(100)
    for times in (70, 100):
        before = len(tf.get_default_graph().get_operations())
        out = layer(f"rnn{times}", x[:, :times], 4, kernel_initializer=0.1)
        cost = tf.reduce_sum(out[:, :70] ** 2)
        values.append([cost, *tf.gradients(cost, out.variables.all())])
        ops.append(len(tf.get_default_graph().get_operations()) - before)
    assert ops[0] == ops[1] < 600
    first, second = run(values)
    for a, b in zip(first, second):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.slow
def test_the_gradient_has_a_gradient(graph: tf.Graph) -> None:
    """A cost of the gradient, as some GANs have one: also by the states that the first gradient goes by."""
    x = tf.placeholder(tf.float64, [2, 3, 4])
    out = LSTM("rnn", x, 4, lengths=[3, 2], kernel_initializer=tf.random_normal_initializer(seed=1))
    penalty = tf.reduce_sum(tf.square(tf.gradients(tf.reduce_sum(out**2) + tf.reduce_sum(out.state.c), x)))
    slope = tf.gradients(penalty, x)
    draw = np.random.default_rng(0)
    point, direction = draw.normal(size=(2, 2, 3, 4))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        given = (session.run(slope, {x: point})[0] * direction).sum()
        ends = [session.run(penalty, {x: point + step * direction}) for step in (1e-5, -1e-5)]
    assert given == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("layer", [LSTM, GRU], ids=["LSTM", "GRU"])
@pytest.mark.parametrize("times", [3, None], ids=["written out", "loop"])
def test_trains_inside_a_loop_as_outside(graph: tf.Graph, layer: Any, times: int | None) -> None:
    """Steps that are fused into one session call are the body of a loop, with the gradients."""
    batches = tf.placeholder(tf.float64, [2, 2, times, 4])

    def step(index: Any) -> list[tf.Tensor]:
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            return gradients(layer("rnn", batches[index], 4))

    outside = [step(0), step(1)]
    zeros = [tf.zeros(value.shape, tf.float64) for value in outside[0]]
    # Variables are there before the loop.
    _, *sums = tf.while_loop(
        lambda index, *_: index < 2,
        lambda index, *sums: (index + 1, *(a + b for a, b in zip(sums, step(index)))),
        [tf.constant(0), *zeros],
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        x = np.random.default_rng(0).normal(size=(2, 2, 3, 4))
        apart, together = session.run([outside, sums], {batches: x})
    for first, second, total in zip(*apart, together):
        np.testing.assert_allclose(first + second, total, rtol=1e-12)


@pytest.mark.slow
def test_a_loop_around_the_layer_has_a_gradient(run: Run) -> None:
    """Here the loop is differentiated, with the layer in its body."""
    x = sequences(3)
    LSTM("rnn", x, 4)
    with tf.variable_scope("", reuse=True):
        apart = LSTM("rnn", x, 4)
        apart = LSTM("rnn", apart, 4)
        _, looped = tf.while_loop(
            lambda index, _: index < 2, lambda index, h: (index + 1, LSTM("rnn", h, 4)), [tf.constant(0), x]
        )
    for a, b in zip(run(gradients(apart)), run(gradients(looped))):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.slow
def test_towers_share_and_an_evaluation_follows(run: Run) -> None:
    halves, costs = [sequences(3, seed) for seed in (1, 2)], []
    for index, half in enumerate(halves):
        with TowerContext(f"tower{index}", is_training=True, index=index, num_towers=2, reuse=index > 0):
            out = LSTM("rnn", half, 4, lengths=[3, 1])
            costs.append(tf.gradients(tf.reduce_sum(out * out), tf.trainable_variables()))
    with TowerContext("InferenceTower", is_training=False, reuse=True):
        whole = LSTM("rnn", tf.concat(halves, 0), 4, lengths=[3, 1, 3, 1])
    assert len(tf.global_variables()) == 2
    of_towers, of_whole = run([costs, gradients(whole)])
    for first, second, total in zip(*of_towers, of_whole):
        np.testing.assert_allclose(first + second, total, rtol=1e-12)


def test_a_state_in_variables_is_carried_over_runs(graph: tf.Graph) -> None:
    x = tf.placeholder(tf.float64, [2, 3, 4])
    kept = [
        tf.get_variable(name, [2, 4], tf.float64, tf.zeros_initializer(), trainable=False, use_resource=True)
        for name in "ch"
    ]
    out = LSTM("rnn", x, 4, initial_state=tuple(kept))
    keep = tf.group(*(variable.assign(part) for variable, part in zip(kept, out.state)))
    with tf.variable_scope("", reuse=True):
        whole = LSTM("rnn", sequences(6), 4)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        parts = np.split(session.run(sequences(6)), 2, axis=1)
        carried = [session.run([out, keep], {x: part})[0] for part in parts]
        np.testing.assert_allclose(np.concatenate(carried, 1), session.run(whole), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.float16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("times", [5, None], ids=["written out", "loop"])
def test_precision(graph: tf.Graph, dtype: Any, times: int | None) -> None:
    given = np.random.default_rng(0).normal(size=[3, 5, 4])
    x = tf.placeholder(dtype, [3, times, 4])
    out = LSTM("rnn", x, 6)
    slopes = gradients(out)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value, values, slopes = session.run([out, tf.trainable_variables(), slopes], {x: given})
    variables = {name: array.astype("f8") for name, array in zip(table.LSTM_VARIABLES, values)}
    expected = table.lstm(given.astype(dtype.as_numpy_dtype).astype("f8"), variables)
    epsilon = float(np.finfo("f4").eps) if dtype == tf.float32 else 2.0**-7
    assert np.abs(value.astype("f8") - expected).max() < 4 * epsilon
    assert out.state.c.dtype == out.state.h.dtype == dtype
    assert all(np.isfinite(slope.astype("f4")).all() for slope in slopes)
