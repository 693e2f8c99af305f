from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from layer_table import recurrent as table

from towerpack_layers import LSTM, RNN, BidirectionalRNN, GRUCell, LSTMCell, MultiRNNCell

Run = Callable[..., Any]
Values = dict[str, np.ndarray]

LENGTHS = [5, 0, 3]
# Both kinds of cells are in either.
KINDS = {
    "stack": (lambda x, **more: RNN("rnn", x, table.STACK, **more), table.stack),
    "both ways": (lambda x, **more: BidirectionalRNN("rnn", x, **table.BOTH, **more), table.bidirectional),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
# Steps written out, and steps in a loop: which it is depends on what is known of the number of times.
static_or_not = pytest.mark.parametrize("times", [5, None], ids=["written out", "loop"])


def sequences(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape or table.SHAPE)


def randomize(session: tf.Session) -> Values:
    """Gives all variables random values, and returns the values by names within the layer."""
    rng, values = np.random.default_rng(1), {}
    for variable in tf.global_variables():
        value = rng.normal(size=variable.shape.as_list()) / 2
        variable.load(value, session)
        values[variable.op.name.removeprefix("rnn/")] = value
    return values


def flat(state: Any) -> list[tf.Tensor]:
    return tf.nest.flatten(state)


@pytest.mark.slow
@every_kind
@static_or_not
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
def test_outputs_are_those_of_numpy(graph: tf.Graph, kind: str, times: int | None, lengths: Any) -> None:
    make, reference = KINDS[kind]
    x = tf.placeholder(tf.float64, [None, times, 4])
    out = make(x, lengths=lengths)
    assert out.shape.as_list()[1] == times
    with tf.Session() as session:
        values = randomize(session)
        got = session.run(out, {x: sequences()})
    expected = reference(sequences(), values, lengths=lengths)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
@every_kind
@static_or_not
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
def test_gradients_are_finite_differences(
    graph: tf.Graph, kind: str, times: int | None, lengths: Any
) -> None:
    """Of outputs and last state, by inputs, first state and variables, in a random direction of all."""
    make, _ = KINDS[kind]
    draw = np.random.default_rng(2)
    x = tf.placeholder(tf.float64, [3, times, 4])
    first = [tf.constant(draw.normal(size=[3, size])) for size in (6, 6, 3)]
    out = make(x, lengths=lengths, initial_state=((first[0], first[1]), first[2]))
    weights = [draw.normal(size=[3, 5, out.shape[2]]), *(draw.normal(size=[3, size]) for size in (6, 6, 3))]
    cost = tf.add_n([tf.reduce_sum(w * part) for w, part in zip(weights, [out, *flat(out.state)])])
    variables = tf.trainable_variables()
    fed = [x, *first]
    slopes = tf.gradients(cost, [*fed, *variables])
    with tf.Session() as session:
        randomize(session)
        points = [sequences(), *session.run([first, variables])[0], *session.run(variables)]
        directions = [draw.normal(size=point.shape) for point in points]

        def at(step: float, fetch: Any) -> Any:
            moved = [point + step * direction for point, direction in zip(points, directions)]
            for variable, value in zip(variables, moved[len(fed) :]):
                variable.load(value, session)
            return session.run(fetch, dict(zip(fed, moved)))

        slope = sum((g * d).sum() for g, d in zip(at(0, slopes), directions))
        assert slope == pytest.approx((at(1e-5, cost) - at(-1e-5, cost)) / 2e-5, rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("times", [(3, 2), (None, None)], ids=["written out", "loop"])
def test_a_carried_state_makes_one_sequence_of_two(graph: tf.Graph, times: Any) -> None:
    make, _ = KINDS["stack"]
    parts = [tf.placeholder(tf.float64, [None, count, 4]) for count in times]
    whole = make(tf.concat(parts, 1))
    with tf.variable_scope("", reuse=True):
        first = make(parts[0])
        second = make(parts[1], initial_state=first.state)
    pairs = tf.concat([first, second], 1), whole
    states = flat(second.state), flat(whole.state)
    with tf.Session() as session:
        randomize(session)
        x = sequences()
        feed = {parts[0]: x[:, :3], parts[1]: x[:, 3:]}
        (carried, once), (state, state_at_once) = session.run([pairs, states], feed)
    np.testing.assert_allclose(carried, once, rtol=1e-13)
    np.testing.assert_allclose(np.concatenate(state, 1), np.concatenate(state_at_once, 1), rtol=1e-13)


@pytest.mark.slow
@every_kind
@static_or_not
def test_the_last_state_is_that_after_the_last_step(graph: tf.Graph, kind: str, times: int | None) -> None:
    make, _ = KINDS[kind]
    x = tf.placeholder(tf.float64, [3, times, 4])
    together = make(x, lengths=tf.constant(LENGTHS, tf.int64))
    outs = []
    with tf.variable_scope("", reuse=True):
        for number, length in enumerate(LENGTHS):
            outs.append(make(x[number : number + 1, :length]))
    with tf.Session() as session:
        randomize(session)
        states = session.run([flat(together.state), *(flat(out.state) for out in outs)], {x: sequences()})
    for parts in zip(*states):
        np.testing.assert_allclose(parts[0], np.concatenate(parts[1:]), rtol=1e-12)


@pytest.mark.slow
@every_kind
@pytest.mark.parametrize("shape", [(0, 5), (3, 0)], ids=["no sequences", "no times"])
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
def test_no_times_or_no_sequences(graph: tf.Graph, kind: str, shape: tuple[int, int], is_known: bool) -> None:
    make, _ = KINDS[kind]
    x = tf.placeholder(tf.float32, [*(shape if is_known else (None, None)), 4])
    out = make(x, lengths=None if is_known else tf.fill([tf.shape(x)[0]], tf.shape(x)[1]))
    cost = tf.reduce_sum(out) + sum(tf.reduce_sum(part) for part in flat(out.state))
    targets = [x, *tf.trainable_variables()]
    fetches = [out, flat(out.state), tf.gradients(cost, targets)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value, state, gradients = session.run(fetches, {x: np.zeros([*shape, 4])})
    assert value.shape == (*shape, out.shape[2])
    assert all(part.shape[0] == shape[0] and not part.any() for part in state)
    assert all(gradient.shape[-1] == target.shape[-1] for gradient, target in zip(gradients, targets))
    assert not any(gradient.any() for gradient in gradients)


def test_a_first_state_stays_where_there_are_no_times(graph: tf.Graph) -> None:
    x, first = tf.placeholder(tf.float32, [2, None, 4]), tf.constant([[1.0, 2.0], [3.0, 4.0]])
    out = LSTM("rnn", x, 2, initial_state=(first, 2 * first))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        c, h = session.run(out.state, {x: np.zeros([2, 0, 4])})
    assert c.tolist() == [[1, 2], [3, 4]]
    assert h.tolist() == [[2, 4], [6, 8]]


@pytest.mark.slow
def test_values_after_an_end_do_not_matter(run: Run) -> None:
    x = sequences()
    other = x.copy()
    other[1, 0:], other[2, 3:] = 7, -9
    outs = []
    for index, value in enumerate((x, other)):
        with tf.variable_scope("", reuse=bool(index)):
            outs.append(BidirectionalRNN("rnn", tf.constant(value), **table.BOTH, lengths=LENGTHS))
    first, second = run(outs)
    np.testing.assert_array_equal(first, second)
    assert not first[1].any() and not first[2, 3:].any()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"lengths": [1, 2]}, ValueError, r"must have the shape \(3,\), one for each .*received \(2,\)"),
        ({"lengths": [1, 2, 6]}, ValueError, r"between 0 and 5, the number of .*; received \[1, 2, 6\]"),
        ({"lengths": [-1, 2, 3]}, ValueError, r"between 0 and 5, the number of .*; received \[-1, 2, 3\]"),
        ({"lengths": [1.0, 2.0, 3.0]}, TypeError, "lengths must be integers, received float32. Use tf.cast"),
        ({"initial_state": np.zeros([3, 6])}, ValueError, r"cell's state_size, \(6, 6\); received ndarray"),
        ({"initial_state": (np.zeros([3, 6]),)}, ValueError, r"state_size, \(6, 6\); received \(ndarray\)"),
        (
            {"initial_state": 2 * (np.zeros([2, 6]),)},
            ValueError,
            r"a part of initial_state must have the shape \[batch, size\], here \(3, 6\); received \(2, 6\)",
        ),
        (
            {"initial_state": lambda: 2 * (tf.zeros([3, 6], tf.int32),)},
            TypeError,
            "initial_state must be floating, like the input, received int32. Use tf.cast",
        ),
        ({"units": 0}, ValueError, "units must be a positive int, received 0"),
        ({"forget_bias": "one"}, ValueError, "forget_bias must be a number, received 'one'"),
        ({"kernel_regularizer": "l2"}, TypeError, "kernel_regularizer must be a function.*received 'l2'"),
        ({"kernel_initializer": "zeros"}, TypeError, "kernel_initializer must be an init.*received 'zeros'"),
        ({"bias_initializer": np.zeros(3)}, ValueError, r"shape \[24\], received an array of shape \[3\]"),
    ],
)  # fmt: skip
def test_bad_arguments_before_there_is_a_variable(
    graph: tf.Graph, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    if callable(options.get("initial_state")):
        options = {"initial_state": options["initial_state"]()}
    with pytest.raises(error, match=message):
        LSTM("rnn", tf.ones([3, 5, 4]), **{"units": 6, **options})
    assert tf.global_variables() == []
    assert LSTM("rnn", tf.ones([3, 5, 4]), 6).name == "rnn/output:0"


def test_cells_that_are_none(graph: tf.Graph) -> None:
    x = tf.ones([3, 5, 4])
    with pytest.raises(TypeError, match=r"RNN\('a'\): cell must be a cell, such as .*received 64"):
        RNN("a", x, 64)
    with pytest.raises(TypeError, match=r"BidirectionalRNN\('b'\): backward_cell must be.*received None"):
        BidirectionalRNN("b", x, LSTMCell(3), None)
    with pytest.raises(ValueError, match="must be a pair of states, for the forward and the backward cell"):
        BidirectionalRNN("c", x, GRUCell(3), GRUCell(3), initial_state=tf.zeros([3, 3]))
    with pytest.raises(TypeError, match=r"cells must be a list of cells.*received \[3\]"):
        MultiRNNCell([3])
    with pytest.raises(ValueError, match=r"cells must not be empty, received \[\]"):
        MultiRNNCell([])
    with pytest.raises(ValueError, match="GRUCell: name must be a non-empty str, received ''"):
        GRUCell(3, name="")


def test_lengths_are_checked_when_they_are_known(graph: tf.Graph) -> None:
    x, lengths = tf.placeholder(tf.float32, [None, None, 4]), tf.placeholder(tf.int32, [None])
    out = LSTM("rnn", x, 6, lengths=lengths)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be between 0 and"):
            session.run(out, {x: sequences(), lengths: [5, 6, 0]})
        assert session.run(out, {x: sequences(), lengths: [5, 5, 0]}).shape == (3, 5, 6)
