from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_layers import BatchNorm, BNReLU, Conv2D, TowerContext, argscope


def test_normalises_then_rectifies(run: Callable[..., Any]) -> None:
    x = tf.constant(np.random.default_rng(0).normal(size=[8, 3]).astype("f4"))
    with TowerContext("", is_training=True):
        out, normalised = BNReLU(x), BatchNorm("plain", x)
    a, b = run([out, normalised])
    np.testing.assert_allclose(a, np.maximum(b, 0))


def test_names(graph: tf.Graph) -> None:
    with TowerContext("", is_training=True):
        Conv2D("conv0", tf.ones([2, 4, 4, 1]), 2, 1, use_bias=False, activation=BNReLU)
        BNReLU(tf.ones([2, 3]), "bn1")
        assert BNReLU("block", tf.ones([2, 3])).name == "block/output:0"
    gammas = [v.op.name for v in tf.trainable_variables() if v.op.name.endswith("gamma")]
    assert gammas == ["conv0/bn/gamma", "bn1/gamma", "block/bn/gamma"]


def test_options_come_by_argscope(graph: tf.Graph) -> None:
    with TowerContext("", is_training=True), argscope(BatchNorm, scale=False, ema_update="skip"):
        BNReLU(tf.ones([2, 3]))
    assert [v.op.name for v in tf.trainable_variables()] == ["bn/beta"]
    assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []
