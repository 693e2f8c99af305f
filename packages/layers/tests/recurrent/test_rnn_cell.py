from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from layer_table.recurrent import GRU_VARIABLES, LSTM_VARIABLES

from towerpack_layers import (
    LSTM,
    RNN,
    BidirectionalRNN,
    GraphRequiredError,
    GRUCell,
    LSTMCell,
    LSTMState,
    MultiRNNCell,
    RNNCell,
    SharedVariableError,
    TowerContext,
    l2_regularizer,
)

Run = Callable[..., Any]


def names() -> list[str]:
    return [variable.op.name for variable in tf.global_variables()]


def test_names_and_shapes_are_those_of_tensorflow_1(graph: tf.Graph) -> None:
    """As `dynamic_rnn`, `MultiRNNCell`, `bidirectional_dynamic_rnn` and single calls named them there."""
    x = tf.ones([2, 5, 3])
    RNN("rnn", x, MultiRNNCell([LSTMCell(4), GRUCell(6)]))
    BidirectionalRNN("bidirectional_rnn", x, LSTMCell(4), LSTMCell(4, name="lstm_cell"))
    cell = GRUCell(5)
    cell(x[:, 0], cell.zero_state(2, tf.float32))
    assert [f"{v.op.name} {v.shape.as_list()}" for v in tf.trainable_variables()] == [
        "rnn/multi_rnn_cell/cell_0/basic_lstm_cell/kernel [7, 16]",
        "rnn/multi_rnn_cell/cell_0/basic_lstm_cell/bias [16]",
        "rnn/multi_rnn_cell/cell_1/gru_cell/gates/kernel [10, 12]",
        "rnn/multi_rnn_cell/cell_1/gru_cell/gates/bias [12]",
        "rnn/multi_rnn_cell/cell_1/gru_cell/candidate/kernel [10, 6]",
        "rnn/multi_rnn_cell/cell_1/gru_cell/candidate/bias [6]",
        "bidirectional_rnn/fw/basic_lstm_cell/kernel [7, 16]",
        "bidirectional_rnn/fw/basic_lstm_cell/bias [16]",
        "bidirectional_rnn/bw/lstm_cell/kernel [7, 16]",
        "bidirectional_rnn/bw/lstm_cell/bias [16]",
        "gru_cell/gates/kernel [8, 10]",
        "gru_cell/gates/bias [10]",
        "gru_cell/candidate/kernel [8, 5]",
        "gru_cell/candidate/bias [5]",
    ]


def test_biases_at_first(run: Run) -> None:
    out = RNN("rnn", tf.ones([2, 5, 3]), MultiRNNCell([LSTMCell(4), GRUCell(6)]))
    found = out.variables
    assert list(vars(found))[:2] == ["cell_0_kernel", "cell_0_bias"]
    lstm, gates, candidate = run([found.cell_0_bias, found.cell_1_gates_bias, found.cell_1_candidate_bias])
    assert not lstm.any()  # the forget bias is added when it runs
    assert (gates == 1).all()
    assert not candidate.any()


def test_steps_of_a_cell_are_the_layer(run: Run) -> None:
    x, cell = tf.random_normal([2, 3, 4], seed=1), MultiRNNCell([LSTMCell(5), GRUCell(6)])
    out = RNN("rnn", x, cell)
    state, outputs = cell.zero_state(tf.shape(x)[0], tf.float32), []
    with tf.variable_scope("rnn"):
        for time in range(3):
            output, state = cell(x[:, time], state)
            outputs.append(output)
    assert len(names()) == 6
    whole, steps, last, step_state = run([out, tf.stack(outputs, 1), out.state, state])
    np.testing.assert_allclose(steps, whole, rtol=1e-5, atol=1e-6)
    assert isinstance(last[0], LSTMState)
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), last, step_state
    )


def test_another_cell_in_the_same_scope_needs_another_name(graph: tf.Graph) -> None:
    x, state = tf.ones([2, 3]), tf.zeros([2, 4])
    GRUCell(4)(x, state)
    with pytest.raises(ValueError, match="gru_cell/gates/kernel already exists"):
        GRUCell(4)(x, state)
    assert GRUCell(4, name="other")(x, state)[0].shape == (2, 4)


def test_a_tower_for_samples_finds_the_variables(graph: tf.Graph) -> None:
    def step(scope: str) -> Any:
        cell = LSTMCell(4)
        with tf.variable_scope(scope):
            return cell(tf.ones([1, 3]), cell.zero_state(1, tf.float32))[0]

    with TowerContext("", is_training=True):
        LSTM("rnn", tf.ones([2, 5, 3]), 4)
    with TowerContext("samples", is_training=False, reuse=True):
        assert step("rnn").shape == (1, 4)
        with pytest.raises(
            SharedVariableError, match="no earlier tower has created 'rmm/basic_lstm_cell/kernel'"
        ):
            step("rmm")
    assert names() == [f"rnn/{name}" for name in LSTM_VARIABLES]


def test_one_cell_makes_separate_layers(graph: tf.Graph) -> None:
    cell = GRUCell(4)
    RNN("a", tf.ones([2, 5, 3]), cell)
    RNN("b", tf.ones([2, 5, 8]), cell)
    assert names() == [f"{scope}/{name}" for scope in ("a", "b") for name in GRU_VARIABLES]


def test_regularizers_and_initializers(run: Run) -> None:
    cell = GRUCell(4, kernel_initializer=0.5, bias_initializer=2.0, kernel_regularizer=l2_regularizer(1.0))
    RNN("rnn", tf.ones([2, 5, 3]), cell)
    costs, values = run([tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES), tf.trainable_variables()])
    assert costs == [0.5 * 0.25 * 7 * 8, 0.5 * 0.25 * 7 * 4]
    assert [np.unique(value).tolist() for value in values] == [[0.5], [2.0], [0.5], [2.0]]


class Sum(RNNCell):
    """Adds up all inputs, and counts them."""

    state_size = (3, 1)
    output_size = 3

    def make_variables(self, input_size: int, dtype: Any) -> Any:
        return {"scale": tf.get_variable("scale", [input_size], dtype, tf.ones_initializer())}

    def begin(self, variables: Any, x: Any) -> Any:
        def step(scaled: Any, state: Any) -> Any:
            total = state[0] + scaled
            return total, (total, state[1] + 1)

        return x * variables["scale"], step


@pytest.mark.parametrize("times", [4, None])
def test_a_cell_of_your_own(graph: tf.Graph, times: int | None) -> None:
    x = tf.placeholder(tf.float32, [2, times, 3])
    out = RNN("rnn", x, Sum("sum"), lengths=[4, 2])
    slope = tf.gradients(out.state[0], out.variables.scale)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value, (total, count), gradient = session.run([out, out.state, slope], {x: np.ones([2, 4, 3])})
    assert value[:, :, 0].tolist() == [[1, 2, 3, 4], [1, 2, 0, 0]]
    assert (total[:, 0].tolist(), count[:, 0].tolist()) == ([4, 2], [4, 2])
    assert gradient[0].tolist() == [6, 6, 6]


def test_bad_calls(graph: tf.Graph) -> None:
    cell = LSTMCell(4)
    with pytest.raises(ValueError, match=r"LSTMCell\('basic_lstm_cell'\): the input's rank must be 2"):
        cell(tf.ones([2, 5, 3]), cell.zero_state(2, tf.float32))
    with pytest.raises(ValueError, match=r"state must have the structure of the cell's state_size, \(4, 4\)"):
        cell(tf.ones([2, 3]), tf.zeros([2, 4]))
    with pytest.raises(TypeError, match="state must be floating, like the input, received int32"):
        cell(tf.ones([2, 3]), cell.zero_state(2, tf.int32))
    assert names() == []


def test_a_cell_in_eager_mode() -> None:
    with pytest.raises(GraphRequiredError, match=r"GRUCell\('gru_cell'\) builds a graph"):
        GRUCell(4)(np.ones([2, 3]), np.ones([2, 4]))
