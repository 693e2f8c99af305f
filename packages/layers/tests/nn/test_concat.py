from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import ConcatWith, LinearWrap


def test_appends_one_or_several(run: Any) -> None:
    x, y = tf.constant([[1.0, 2.0]]), tf.constant([[3.0]])
    wrap = LinearWrap(x).ConcatWith(y, 1).ConcatWith("named", [y, np.array([[4.0]])], dim=np.int64(-1))
    assert run(wrap()).tolist() == [[1.0, 2.0, 3.0, 3.0, 4.0]]
    assert wrap().name == "named/output:0"
    assert ConcatWith(x, x, 0).shape == [2, 2]
    assert ConcatWith(tf.placeholder(tf.float32, [None, 2]), y, 1).shape == [1, 3]


@pytest.mark.parametrize(
    ("tensor", "dim", "message"),
    [
        (np.ones([2, 3]), 2, r"ConcatWith\('c'\): dim must be an axis of .* shape \(2, 3\), received 2"),
        (np.ones([2, 3]), True, "dim must be an axis of .* received True"),
        (np.ones([3, 3]), 1, r"tensor must have the shape \(2, None\), received one of shape \(3, 3\)"),
        (np.ones([2]), 0, r"tensor must have the shape \(None, 3\), received one of shape \(2,\)"),
        (np.ones([2]), None, "dim must be an axis of .* received None"),
    ],
)
def test_bad_arguments(graph: tf.Graph, tensor: Any, dim: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ConcatWith("c", tf.ones([2, 3]), tensor, dim)
