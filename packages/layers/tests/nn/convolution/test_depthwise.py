from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import Conv2D, DepthwiseConv2D, l2_regularizer

Run = Callable[..., Any]


@pytest.mark.parametrize("options", [{}, {"strides": 2}, {"dilation_rate": (2, 1)}], ids=str)
def test_it_is_a_convolution_split_into_channels(run: Run, options: dict[str, Any]) -> None:
    x = tf.constant(np.random.default_rng(0).normal(size=[2, 7, 8, 3]))
    out = DepthwiseConv2D("d", x, (3, 2), depth_multiplier=2, **options)
    kernel = np.random.default_rng(1).normal(size=[3, 2, 3, 2])
    same = Conv2D(
        "c", x, 6, (3, 2), split=3, kernel_initializer=kernel.reshape(3, 2, 1, 6), use_bias=False, **options
    )
    assign = tf.assign(out.variables.W, kernel)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(assign)
        a, b = session.run([out, same])
    np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("options", [{"strides": 3}, {"dilation_rate": 2}], ids=str)
def test_static_shape_is_dynamic_shape(run: Run, padding: str, options: dict[str, int]) -> None:
    x = tf.placeholder(tf.float32, [None, 9, 8, 2])
    out = DepthwiseConv2D("d", x, 3, padding=padding, **options)
    assert run(out, {x: np.ones([3, 9, 8, 2])}).shape == (3, *out.shape[1:])
    free = DepthwiseConv2D("e", tf.placeholder(tf.float32, [None, None, 8, 2]), 3, padding=padding, **options)
    assert free.shape.as_list() == [None, None, *out.shape[2:]]


def test_default_kernel_and_regularizer(run: Run) -> None:
    out = DepthwiseConv2D(
        "d", tf.ones([1, 4, 4, 200]), 4, depth_multiplier=2, kernel_regularizer=l2_regularizer(2.0)
    )
    kernel, [cost] = run([out.variables.W, tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)])
    assert np.std(kernel) == pytest.approx(np.sqrt(2 / 16), rel=0.05)
    np.testing.assert_allclose(cost, np.sum(kernel**2), rtol=1e-4)
    assert out.variables.b.shape == [400]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strides": (1, 2)}, r"DepthwiseConv2D\('d'\): strides must be the same over height and width"),
        ({"strides": 2, "dilation_rate": 2}, "strides=2 and dilation_rate=2 cannot both exceed 1"),
        ({"depth_multiplier": 0}, "depth_multiplier must be a positive int, received 0"),
        ({"padding": "full"}, "padding must be 'same' or 'valid'"),
    ],
)
def test_bad_arguments(graph: tf.Graph, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DepthwiseConv2D("d", tf.ones([1, 4, 4, 3]), 3, **options)
    assert tf.global_variables() == []
