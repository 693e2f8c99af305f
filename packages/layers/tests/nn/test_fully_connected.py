from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import FullyConnected

Run = Callable[..., Any]


def test_flattens_then_multiplies(run: Run) -> None:
    x = np.random.default_rng(0).normal(size=[3, 2, 4]).astype("f4")
    out = FullyConnected("fc", tf.constant(x), 5, bias_initializer=tf.constant_initializer(1.0))
    value, kernel = run([out, out.variables.W])
    np.testing.assert_allclose(value, x.reshape(3, 8) @ kernel + 1.0, rtol=1e-4, atol=1e-5)


def test_activation_and_no_bias(run: Run) -> None:
    out = FullyConnected("fc", tf.ones([1, 2]), 3, tf.nn.relu, False, tf.constant_initializer(-1.0))
    assert run(out).tolist() == [[0.0, 0.0, 0.0]]
    assert [v.name for v in tf.global_variables()] == ["fc/W:0"]


def test_batch_size_may_be_unknown_and_stays_static_if_known(run: Run) -> None:
    open_batch = FullyConnected("a", tf.placeholder(tf.float32, [None, 2, 2]), 3)
    assert open_batch.shape.as_list() == [None, 3]
    assert FullyConnected("b", tf.ones([7, 2, 2]), 3).shape.as_list() == [7, 3]
    assert run(FullyConnected("c", tf.zeros([0, 2, 2]), 3)).shape == (0, 3)


def test_default_kernel_has_hes_variance(run: Run) -> None:
    kernel = run(FullyConnected("fc", tf.ones([1, 400]), 200).variables.W)
    assert np.std(kernel) == pytest.approx(np.sqrt(2 / 400), rel=0.02)


def test_every_regularizer_adds_its_cost(run: Run) -> None:
    FullyConnected(
        "fc",
        tf.ones([1, 3]),
        2,
        kernel_initializer=tf.ones_initializer(),
        kernel_regularizer=tf.reduce_sum,
        bias_regularizer=tf.reduce_sum,
        activity_regularizer=tf.reduce_sum,
    )
    assert run(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == [6.0, 0.0, 6.0]


@pytest.mark.parametrize(
    ("shape", "units", "message"),
    [
        ([3], 2, r"FullyConnected\('fc'\): the input needs at least two axes.*received shape \(3,\)"),
        ([3, None], 2, r"with known sizes except for the first, received shape \(3, None\).*set_shape"),
        (None, 2, "the input's rank must be known, received a tensor of shape <unknown>"),
        ([3, 3], 0, "units must be a positive int, received 0"),
        ([3, 3], True, "units must be a positive int, received True"),
    ],
)
def test_bad_arguments(graph: tf.Graph, shape: Any, units: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FullyConnected("fc", tf.placeholder(tf.float32, shape), units)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("activation", "relu", r"activation must be a function of a tensor, such as .*, received 'relu'"),
        ("kernel_regularizer", 0.1, "kernel_regularizer must be a function of a tensor.*received 0.1"),
        ("bias_regularizer", "l2", "bias_regularizer must be a function of a tensor.*received 'l2'"),
        ("activity_regularizer", "l1", "activity_regularizer must be a function.*received 'l1'"),
        (
            "kernel_initializer",
            "zeros",
            "kernel_initializer must be an initializer such as .*received 'zeros'",
        ),
        ("bias_initializer", [1.0], r"bias_initializer must be an initializer such as .*received \[1.0\]"),
    ],
)
def test_names_instead_of_functions_are_refused_before_there_is_a_variable(
    graph: tf.Graph, option: str, value: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=rf"FullyConnected\('fc'\): {message}"):
        FullyConnected("fc", tf.ones([1, 2]), 3, **{option: value})
    assert tf.global_variables() == []
    assert FullyConnected("fc", tf.ones([1, 2]), 3).name == "fc/output:0"


def test_an_array_or_a_number_initializes(run: Run) -> None:
    weights = np.arange(6, dtype="f8").reshape(2, 3)
    out = FullyConnected("fc", tf.ones([1, 2]), np.int64(3), kernel_initializer=weights, bias_initializer=0.5)
    assert run(out).tolist() == [[3.5, 5.5, 7.5]]
    with pytest.raises(ValueError, match=r"kernel_initializer must have the variable's shape \[2, 4\]"):
        FullyConnected("fc4", tf.ones([1, 2]), 4, kernel_initializer=weights)
