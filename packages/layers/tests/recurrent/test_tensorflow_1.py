"""Networks of TensorFlow 1: `tensorflow_1.npz` has their variables and the results of its cells.

It was written with `dynamic_rnn(MultiRNNCell([BasicLSTMCell(6), GRUCell(3)]), x, lengths)` and
`bidirectional_dynamic_rnn(BasicLSTMCell(6), GRUCell(3), x, lengths)`. It is golden, and is not written anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import RNN, BidirectionalRNN, GRUCell, LSTMCell, MultiRNNCell, mixed_precision

THEN = np.load(Path(__file__).with_name("tensorflow_1.npz"))


def build(name: str, x: Any) -> Any:
    cells = LSTMCell(6), GRUCell(3)
    if name == "rnn":
        return RNN(name, x, MultiRNNCell(cells), lengths=THEN["lengths"])
    return BidirectionalRNN(name, x, *cells, lengths=THEN["lengths"])


def of_then(kind: str) -> list[str]:
    return [key for key in THEN.files if key.startswith(kind)]


def values(fetches: Any) -> Any:
    """Fetches, with the variables of then."""
    with tf.Session() as session:
        for variable in tf.global_variables():
            variable.load(THEN[f"variables/{variable.op.name}"], session)
        return session.run(fetches)


def test_names_are_those_of_then(graph: tf.Graph) -> None:
    for name in ("rnn", "bidirectional_rnn"):
        build(name, tf.constant(THEN["x"]))
    made = {f"variables/{v.op.name}": tuple(v.shape) for v in tf.global_variables()}
    assert made == {key: THEN[key].shape for key in of_then("variables/")}


@pytest.mark.parametrize("name", ["rnn", "bidirectional_rnn"])
def test_outputs_and_states_are_those_of_then(graph: tf.Graph, name: str) -> None:
    out = build(name, tf.constant(THEN["x"]))
    outputs, states = values([out, tf.nest.flatten(out.state)])
    np.testing.assert_allclose(outputs, THEN[f"outputs/{name}"], rtol=1e-5, atol=1e-6)
    for state, key in zip(states, of_then(f"states/{name}/"), strict=True):
        np.testing.assert_allclose(state, THEN[key], rtol=1e-5, atol=1e-6)


def test_they_continue_in_16_bits(graph: tf.Graph) -> None:
    """As when such a network is trained further, with a state in float32."""
    with mixed_precision(tf.bfloat16):
        out = build("rnn", tf.constant(THEN["x"]))
        state = tf.nest.map_structure(lambda part: tf.cast(part, tf.float32), out.state)
        with tf.variable_scope("", reuse=True):
            again = RNN(
                "rnn", tf.constant(THEN["x"]), MultiRNNCell([LSTMCell(6), GRUCell(3)]), initial_state=state
            )
    slopes = tf.gradients(tf.reduce_sum(tf.cast(again, tf.float32)), tf.trainable_variables())
    outputs, slopes = values([tf.cast(out, tf.float32), slopes])
    assert np.abs(outputs - THEN["outputs/rnn"]).max() < 0.03
    assert again.dtype == tf.bfloat16
    assert all(slope.dtype == np.float32 and np.isfinite(slope).all() for slope in slopes)
