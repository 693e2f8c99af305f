from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import Embedding


@pytest.mark.parametrize("dtype", [tf.uint8, tf.int8, tf.int32, tf.int64], ids=lambda dtype: dtype.name)
def test_looks_up_rows(run: Any, dtype: tf.DType) -> None:
    out = Embedding("e", tf.constant([[3, 0], [1, 1]], dtype), 4, 5)
    value, table = run([out, out.variables.W])
    assert np.array_equal(value, table[[[3, 0], [1, 1]]])
    assert np.abs(table).max() <= 0.05


def test_its_gradient_is_sparse(run: Any) -> None:
    out = Embedding("e", tf.constant([2, 2, 0]), 1000, 3, kernel_initializer=tf.ones_initializer())
    gradient = tf.gradients(out, out.variables.W)[0]
    assert isinstance(gradient, tf.IndexedSlices)
    before = out.variables.W.read_value()
    with tf.control_dependencies([before]):
        train = tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(out))
    with tf.control_dependencies([train]):
        after = out.variables.W.read_value()
    assert run(after)[:4, 0].tolist() == [0.5, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("wrong", [-1, 4])
def test_an_id_outside_of_the_vocabulary_is_an_error(run: Any, wrong: int) -> None:
    with tf.device("/cpu:0"):
        ids = tf.placeholder(tf.int32, [None])
        out = Embedding("e", ids, 4, 5)
    with (
        tf.device("/cpu:0"),
        pytest.raises(tf.errors.InvalidArgumentError, match=rf"{wrong} is not in \[0, 4\)"),
    ):
        run(out, {ids: [1, wrong]})


def test_a_partitioned_vocabulary(run: Any) -> None:
    with tf.variable_scope("", partitioner=tf.fixed_size_partitioner(3)):
        out = Embedding("e", tf.range(7), 7, 2)
    parts = tf.global_variables()
    assert [v.op.name for v in parts] == ["e/W/part_0", "e/W/part_1", "e/W/part_2"]
    value, rows = run([out, tf.concat(parts, 0)])
    assert np.array_equal(value, rows)


def test_half_precision(run: Any) -> None:
    out = Embedding("e", tf.constant([1]), 4, 5, dtype=tf.bfloat16)
    assert run(out).dtype == tf.bfloat16.as_numpy_dtype


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"x": tf.float32}, TypeError, r"Embedding\('e'\): the input must have an integer dtype.*float32"),
        ({"dtype": tf.int32}, TypeError, "dtype must be floating, received int32"),
        ({"vocabulary_size": 0}, ValueError, "vocabulary_size must be a positive int, received 0"),
        ({"units": 2.0}, ValueError, "units must be a positive int, received 2.0"),
        ({"kernel_regularizer": 0.1}, TypeError, "kernel_regularizer must be a function"),
        ({"kernel_initializer": np.ones(3)}, ValueError, r"kernel_initializer .* shape \[4, 5\]"),
    ],
)
def test_bad_arguments(graph: tf.Graph, options: dict[str, Any], error: Any, message: str) -> None:
    x = tf.ones([3], options.pop("x", tf.int32))
    with pytest.raises(error, match=message):
        Embedding("e", x, **{"vocabulary_size": 4, "units": 5, **options})
    assert tf.global_variables() == []
