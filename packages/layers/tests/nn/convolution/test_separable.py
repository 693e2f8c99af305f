from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import Conv2D, DepthwiseConv2D, SeparableConv2D, l2_regularizer

Run = Callable[..., Any]


def test_it_is_a_depthwise_and_a_pointwise_convolution(run: Run) -> None:
    x = tf.constant(np.random.default_rng(0).normal(size=[2, 7, 8, 3]))
    first, second = np.random.default_rng(1).normal(size=[2, 3, 3, 3, 2])
    second = second.reshape(1, 1, -1, 9)[:, :, :6]
    kernels = {"depthwise_initializer": first, "pointwise_initializer": second}
    out = SeparableConv2D("s", x, 9, 3, 2, depth_multiplier=2, activation=tf.nn.relu, **kernels)
    between = DepthwiseConv2D("d", x, 3, 2, depth_multiplier=2, use_bias=False, kernel_initializer=first)
    same = Conv2D("c", between, 9, 1, activation=tf.nn.relu, kernel_initializer=second)
    a, b = run([out, same])
    np.testing.assert_allclose(a, b, atol=1e-12)


def test_variables_have_their_own_regularizers(run: Run) -> None:
    out = SeparableConv2D(
        "s",
        tf.ones([1, 4, 4, 64]),
        100,
        4,
        depthwise_regularizer=l2_regularizer(2.0),
        pointwise_regularizer=lambda w: 3 * tf.reduce_sum(w),
        bias_regularizer=tf.reduce_sum,
        bias_initializer=1.0,
    )
    names = [v.op.name for v in out.variables.all()]
    assert names == ["s/depthwise_weights", "s/pointwise_weights", "s/b"]
    values, costs = run([out.variables.all(), tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)])
    np.testing.assert_allclose(costs, [np.sum(values[0] ** 2), 3 * values[1].sum(), 100.0], rtol=1e-3)
    assert np.std(values[0]) == pytest.approx(np.sqrt(2 / 16), rel=0.1)
    assert np.std(values[1]) == pytest.approx(np.sqrt(2 / 64), rel=0.1)


@pytest.mark.parametrize(
    ("option", "value", "error", "message"),
    [
        ("strides", (2, 1), ValueError, r"SeparableConv2D\('s'\): strides must be the same"),
        ("depthwise_initializer", "zeros", TypeError, "depthwise_initializer must be an initializer"),
        ("pointwise_initializer", np.zeros(3), ValueError, r"pointwise_initializer .* \[1, 1, 3, 5\]"),
        ("pointwise_regularizer", 0.1, TypeError, "pointwise_regularizer must be a function"),
    ],
)
def test_bad_arguments(graph: tf.Graph, option: str, value: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        SeparableConv2D("s", tf.ones([1, 4, 4, 3]), 5, 3, **{option: value})
    assert tf.global_variables() == []
