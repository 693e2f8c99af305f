from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_layers import (
    Conv2DTranspose,
    Deconv2D,
    LinearWrap,
    argscope,
    get_registered_layer,
    l2_regularizer,
)

Run = Callable[..., Any]


@settings(max_examples=6)
@given(
    size=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    strides=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    padding=st.sampled_from(["same", "valid"]),
    channels_first=st.booleans(),
    known=st.sampled_from(["all", "image", "none"]),
)
def test_static_shape_is_dynamic_shape(
    size: Any, strides: Any, padding: str, channels_first: bool, known: str
) -> None:
    shape = [2, 3, 4, 6] if channels_first else [2, 4, 6, 3]
    spatial = (2, 3) if channels_first else (1, 2)
    static: list[int | None] = list(shape)
    for axis in {"all": (), "image": (0,), "none": (0, *spatial)}[known]:
        static[axis] = None
    data_format = "channels_first" if channels_first else "channels_last"
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, static)
        out = Conv2DTranspose("up", x, 5, size, strides, padding, data_format)
        session.run(tf.global_variables_initializer())
        value = session.run(out, {x: np.ones(shape)})
    for axis, sides in zip(spatial, zip((4, 6), size, strides, strict=True), strict=True):
        side, taps, step = sides
        assert value.shape[axis] == side * step + (max(taps - step, 0) if padding == "valid" else 0)
    assert [known for known in out.shape.as_list() if known] == [
        got for got, have in zip(value.shape, static, strict=True) if have
    ]


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("strides", [1, 2, (3, 2)], ids=str)
def test_it_is_the_gradient_of_a_convolution(run: Run, strides: Any, padding: str) -> None:
    """With the kernel's axes in the order of the original, so that its parameters load."""
    rng = np.random.default_rng(0)
    x, kernel = rng.normal(size=[2, 4, 5, 3]), rng.normal(size=[3, 4, 6, 3])
    out = Conv2DTranspose(
        "up", tf.constant(x), 6, (3, 4), strides, padding, use_bias=False, kernel_initializer=kernel
    )
    large = tf.zeros(out.shape, tf.float64)
    small = tf.nn.conv2d(large, kernel, strides, padding.upper())
    wanted = tf.gradients(small, large, tf.constant(x))[0]
    a, b = run([out, wanted])
    np.testing.assert_allclose(a, b, atol=1e-12)
    assert out.variables.W.shape.as_list() == [3, 4, 6, 3]


def test_the_old_name_is_the_same_layer(graph: tf.Graph) -> None:
    assert Deconv2D is Conv2DTranspose
    assert get_registered_layer("Deconv2D") is get_registered_layer("Conv2DTranspose")
    with argscope(Deconv2D, kernel_size=4, strides=2):
        out = LinearWrap(tf.ones([1, 4, 4, 2])).Deconv2D("a", 3).Conv2DTranspose("b", 5)()
    assert out.shape.as_list() == [1, 16, 16, 5]
    assert [v.op.name for v in tf.global_variables()] == ["a/W", "a/b", "b/W", "b/b"]


def test_default_kernel_and_regularizer(run: Run) -> None:
    out = Conv2DTranspose("up", tf.ones([1, 2, 2, 96]), 64, 3, kernel_regularizer=l2_regularizer(2.0))
    kernel, [cost] = run([out.variables.W, tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)])
    assert np.std(kernel) == pytest.approx(np.sqrt(2 / (3 * 3 * 64)), rel=0.02)
    np.testing.assert_allclose(cost, np.sum(kernel**2), rtol=1e-4)


def test_activation_and_bias(run: Run) -> None:
    zeros = {"kernel_initializer": 0.0, "bias_initializer": np.array([1.0, -1.0])}
    out = Conv2DTranspose("up", tf.ones([1, 1, 1, 1]), 2, 2, 2, activation=tf.nn.relu, **zeros)
    assert run(out).tolist() == [[[[1.0, 0.0]] * 2] * 2]


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ([1, 4, 4, 3], {"filters": 0}, r"Conv2DTranspose\('up'\): filters must be a positive int"),
        ([1, 4, 4, 3], {"strides": 0}, "strides must be a positive int or two of them, received 0"),
        ([1, 4, 4, 3], {"padding": "full"}, "padding must be 'same' or 'valid', received 'full'"),
        ([1, 4, 4, 3], {"bias_initializer": np.zeros(3)}, r"bias_initializer must have .* shape \[2\]"),
        ([1, 4, 4, None], {}, "the size of axis 3 of the input must be known"),
        ([4, 4, 3], {}, "the input's rank must be 4"),
    ],
)
def test_bad_arguments(graph: tf.Graph, shape: Any, options: dict[str, Any], message: str) -> None:
    x = tf.placeholder(tf.float32, shape)
    with pytest.raises(ValueError, match=message):
        Conv2DTranspose("up", x, **{"filters": 2, "kernel_size": 3, **options})
    assert tf.global_variables() == []
