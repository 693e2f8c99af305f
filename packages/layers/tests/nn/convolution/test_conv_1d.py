from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import Conv1D

Run = Callable[..., Any]


@pytest.mark.parametrize("options", [{}, {"strides": 3}, {"dilation_rate": 2}], ids=str)
@pytest.mark.parametrize("channels_first", [False, True])
def test_numpy_convolves_alike(run: Run, options: dict[str, int], channels_first: bool) -> None:
    x = np.random.default_rng(0).normal(size=[2, 11, 3])
    fed = x.swapaxes(1, 2) if channels_first else x
    data_format = "channels_first" if channels_first else "channels_last"
    out = Conv1D("c", tf.constant(fed), 4, 3, padding="valid", data_format=data_format, **options)
    value, kernel = run([out, out.variables.W])
    value = value.swapaxes(1, 2) if channels_first else value
    spread = np.zeros([2 * options.get("dilation_rate", 1) + 1, 3, 4])
    spread[:: options.get("dilation_rate", 1)] = kernel
    wanted = [
        [sum(np.correlate(row[:, c], spread[:, c, f], "valid") for c in range(3)) for f in range(4)]
        for row in x
    ]
    np.testing.assert_allclose(
        value, np.array(wanted).swapaxes(1, 2)[:, :: options.get("strides", 1)], atol=1e-12
    )


def test_shapes_and_names(graph: tf.Graph) -> None:
    out = Conv1D("c", tf.placeholder(tf.float32, [None, None, 3]), 4, 5, activation=tf.nn.relu)
    assert out.shape.as_list() == [None, None, 4]
    assert [v.shape.as_list() for v in out.variables.all()] == [[5, 3, 4], [4]]
    assert Conv1D("d", tf.ones([2, 9, 3]), 4, 2, strides=2).shape.as_list() == [2, 5, 4]


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        (
            [1, 4, 3],
            {"kernel_size": (3,)},
            r"Conv1D\('c'\): kernel_size must be .*, received \(3,\)",
        ),
        ([1, 4, 3], {"strides": 2, "dilation_rate": 2}, "strides=2 and dilation_rate=2 cannot both exceed 1"),
        ([1, 4, 4, 3], {}, "the input's rank must be 3"),
        ([1, 4, None], {}, "the size of axis 2 of the input must be known"),
    ],
)
def test_bad_arguments(graph: tf.Graph, shape: Any, options: dict[str, Any], message: str) -> None:
    x = tf.placeholder(tf.float32, shape)
    with pytest.raises(ValueError, match=message):
        Conv1D("c", x, **{"filters": 2, "kernel_size": 3, **options})
    assert tf.global_variables() == []
