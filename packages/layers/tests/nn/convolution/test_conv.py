from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import Conv2D, l2_regularizer

Run = Callable[..., Any]


def convolve(x: np.ndarray, kernel: np.ndarray, stride: int = 1, dilation: int = 1) -> np.ndarray:
    """'valid' convolution of NHWC images, tap by tap."""
    height, width = kernel.shape[:2]
    rows = (x.shape[1] - (height - 1) * dilation - 1) // stride + 1
    columns = (x.shape[2] - (width - 1) * dilation - 1) // stride + 1
    out = np.zeros([len(x), rows, columns, kernel.shape[3]], x.dtype)
    for i in range(height):
        for j in range(width):
            top, left = i * dilation, j * dilation
            window = x[:, top : top + rows * stride : stride, left : left + columns * stride : stride]
            out += window @ kernel[i, j]
    return out


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).normal(size=[2, 7, 9, 4]).astype("f4")


@pytest.mark.parametrize("options", [{}, {"stride": 2}, {"dilation": 2}], ids=str)
def test_valid_convolution_is_the_sum_over_taps(
    run: Run, images: np.ndarray, options: dict[str, int]
) -> None:
    names = {"stride": "strides", "dilation": "dilation_rate"}
    given = {names[key]: value for key, value in options.items()}
    out = Conv2D("c", tf.constant(images), 3, (3, 2), padding="valid", use_bias=False, **given)
    value, kernel = run([out, out.variables.W])
    np.testing.assert_allclose(value, convolve(images, kernel, **options), rtol=1e-4, atol=1e-5)


def test_same_padding_keeps_the_size(run: Run, images: np.ndarray) -> None:
    out = Conv2D("c", tf.constant(images), 3, 3, bias_initializer=tf.constant_initializer(2.0))
    value, kernel = run([out, out.variables.W])
    padded = np.pad(images, [(0, 0), (1, 1), (1, 1), (0, 0)])
    np.testing.assert_allclose(value, convolve(padded, kernel) + 2.0, rtol=1e-4, atol=1e-5)


def test_split_convolves_groups_of_channels(run: Run, images: np.ndarray) -> None:
    out = Conv2D(
        "c", tf.constant(images), 6, 3, padding="valid", split=2, kernel_regularizer=l2_regularizer(2.0)
    )
    assert out.variables.W.shape.as_list() == [3, 3, 2, 6]
    cost = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    value, kernel, [penalty] = run([out, out.variables.W, cost])
    groups = [convolve(images[..., 2 * g : 2 * g + 2], kernel[..., 3 * g : 3 * g + 3]) for g in range(2)]
    np.testing.assert_allclose(value, np.concatenate(groups, -1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(penalty, np.sum(kernel**2), rtol=1e-4)


def test_channels_first_gives_the_same_numbers(run: Run, images: np.ndarray) -> None:
    options: dict[str, Any] = {"strides": (2, 1), "padding": "valid", "activation": tf.nn.relu}
    last = Conv2D("c", tf.constant(images), 3, 3, **options)
    with tf.variable_scope("", reuse=True):
        turned = tf.constant(images.transpose(0, 3, 1, 2))
        first = Conv2D("c", turned, 3, 3, data_format="channels_first", **options)
    a, b = run([last, first])
    np.testing.assert_allclose(a, b.transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-5)


def test_default_kernel_has_hes_variance(run: Run) -> None:
    kernel = run(Conv2D("c", tf.ones([1, 4, 4, 64]), 128, 3).variables.W)
    assert np.std(kernel) == pytest.approx(np.sqrt(2 / (3 * 3 * 64)), rel=0.02)
    # A truncated normal would stop at two standard deviations.
    assert np.abs(kernel).max() > 3 * np.std(kernel)


def test_every_regularizer_adds_its_cost(run: Run) -> None:
    out = Conv2D(
        "c",
        tf.ones([1, 4, 4, 1]),
        2,
        1,
        kernel_initializer=tf.ones_initializer(),
        bias_initializer=tf.ones_initializer(),
        kernel_regularizer=tf.reduce_sum,
        bias_regularizer=lambda b: 10 * tf.reduce_sum(b),
        activity_regularizer=tf.reduce_max,
    )
    assert out.shape.as_list() == [1, 4, 4, 2]
    assert run(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == [2.0, 20.0, 2.0]


def test_variables_at_hand(graph: tf.Graph) -> None:
    variables = Conv2D("c", tf.ones([1, 4, 4, 1]), 2, 1).variables
    assert [v.name for v in variables.all()] == ["c/W:0", "c/b:0"]
    without = Conv2D("d", tf.ones([1, 4, 4, 1]), 2, 1, use_bias=False).variables
    assert not hasattr(without, "b")


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        (
            [1, 4, 4, 3],
            {"padding": "full"},
            r"Conv2D\('net/c'\): padding must be 'same' or 'valid', received 'full'",
        ),
        ([1, 4, 4, 3], {"data_format": "NCWH"}, "data_format must be 'channels_last' or .* received 'NCWH'"),
        ([1, 4, 4, 3], {"filters": 0}, "filters must be a positive int, received 0"),
        ([1, 4, 4, 3], {"filters": 2.0}, "filters must be a positive int, received 2.0"),
        ([1, 4, 4, 3], {"kernel_size": (1, 2, 3)}, r"kernel_size must be a positive int or two.*\(1, 2, 3\)"),
        ([1, 4, 4, 3], {"kernel_size": -1}, "kernel_size must be a positive int"),
        ([1, 4, 4, 3], {"strides": "2"}, "strides must be a positive int or two of them, received '2'"),
        ([1, 4, 4, 3], {"strides": 2, "dilation_rate": 2}, "cannot both exceed 1"),
        ([1, 4, 4, 3], {"split": 2}, "split=2 must divide both the 3 channels of the input and filters=2"),
        ([4, 3], {}, r"the input's rank must be 4, received a tensor of shape \(4, 3\).*reshape"),
        (None, {}, "the input's rank must be 4, received a tensor of shape <unknown>"),
        ([1, 4, 4, None], {}, "the size of axis 3 of the input must be known.*set_shape"),
    ],
)
def test_bad_arguments(graph: tf.Graph, shape: Any, options: dict[str, Any], message: str) -> None:
    x = tf.placeholder(tf.float32, shape)
    with tf.variable_scope("net"), pytest.raises(ValueError, match=message):
        Conv2D("c", x, **{"filters": 2, "kernel_size": 3, **options})


def test_input_that_is_no_tensor(graph: tf.Graph) -> None:
    with pytest.raises(
        TypeError, match=r"Conv2D\('c'\): the input must be a tensor, received int.*name, input"
    ):
        Conv2D("c", 32, 3, 3)
