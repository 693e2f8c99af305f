from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    BatchNorm,
    BNReLU,
    Conv2D,
    FullyConnected,
    Maxout,
    PReLU,
    SoftMax,
    TowerContext,
    argscope,
)

Run = Callable[..., Any]


def test_normalises_then_rectifies(run: Run) -> None:
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


class TestPReLU:
    def test_one_slope_for_negative_values(self, run: Run) -> None:
        out = PReLU("act", tf.constant([-4.0, 0.0, 3.0]), init=0.25)
        assert run(out).tolist() == [-1.0, 0.0, 3.0]
        assert out.variables.alpha.shape == []
        assert run(PReLU("other", tf.constant([-1.0]))).tolist() == [np.float32(-0.001)]

    def test_as_an_activation_it_needs_no_name(self, graph: tf.Graph) -> None:
        out = Conv2D("conv0", tf.ones([2, 4, 4, 1]), 2, 1, activation=PReLU)
        FullyConnected("fc", out, 2, activation=lambda x: PReLU(x, 0.1, name="slope"))
        names = ["conv0/W", "conv0/b", "conv0/alpha", "fc/W", "fc/b", "fc/alpha"]
        assert [v.op.name for v in tf.trainable_variables()] == names
        assert out.name == "conv0/output:0"
        assert graph.get_tensor_by_name("fc/slope:0").shape == [2, 2]

    def test_gradients(self, run: Run) -> None:
        x = tf.constant([-4.0, 0.0, 3.0, np.inf])
        out = PReLU("act", x, init=0.25)
        by_input, by_slope = run(tf.gradients(out, [x, out.variables.alpha]))
        assert by_input.tolist() == [0.25, 0.25, 1.0, 1.0]
        assert by_slope == -4.0

    def test_infinite_values(self, run: Run) -> None:
        assert run(PReLU(tf.constant([-np.inf, np.inf]), 0.5)).tolist() == [-np.inf, np.inf]

    def test_bad_arguments(self, graph: tf.Graph) -> None:
        with pytest.raises(TypeError, match=r"PReLU\('act'\): init must be an initializer.*received 'big'"):
            PReLU("act", tf.ones([2]), init="big")


class TestMaxout:
    @pytest.mark.parametrize("shape", [[4, 6], [2, 3, 5, 6]], ids=str)
    def test_the_largest_of_each_group(self, run: Run, shape: list[int]) -> None:
        x = np.random.default_rng(0).normal(size=shape)
        out = Maxout("max", tf.constant(x), np.int32(3))
        assert out.shape == [*shape[:-1], 2]
        wanted = np.stack([x[..., :3].max(-1), x[..., 3:].max(-1)], -1)
        assert np.array_equal(run(out), wanted)

    def test_sizes_may_be_unknown(self, run: Run) -> None:
        x = tf.placeholder(tf.float32, [None, None, 8, 6])
        out = Maxout(x, 2)
        assert out.shape.as_list() == [None, None, 8, 3]
        assert run(out, {x: np.ones([0, 5, 8, 6])}).shape == (0, 5, 8, 3)

    @pytest.mark.parametrize(
        ("shape", "num_unit", "message"),
        [
            ([2, 6], 4, r"Maxout\('max'\): num_unit=4 must divide the 6 channels of the input"),
            ([2, 6], 1.5, "num_unit must be a positive int, received 1.5"),
            ([6], 2, r"the input's rank must be at least 2, received a tensor of shape \(6,\)"),
            ([2, None], 2, "the size of axis -1 of the input must be known"),
        ],
    )
    def test_bad_arguments(self, graph: tf.Graph, shape: Any, num_unit: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Maxout("max", tf.placeholder(tf.float32, shape), num_unit)


class TestSoftMax:
    def test_probabilities(self, run: Run) -> None:
        x = tf.constant(np.log([[1.0, 3.0, 4.0]]))
        np.testing.assert_allclose(run(SoftMax(x)), [[1 / 8, 3 / 8, 1 / 2]])
        assert SoftMax("soft", x).variables.all() == []

    def test_a_learnt_temperature(self, run: Run) -> None:
        x = tf.constant(np.log([[1.0, 9.0]]))
        out = SoftMax("soft", x, use_temperature=True, temperature_init=2)
        np.testing.assert_allclose(run(out), [[1 / 4, 3 / 4]])
        assert [v.op.name for v in tf.trainable_variables()] == ["soft/invtemp"]
        assert run(out.variables.invtemp) == 0.5

    @pytest.mark.parametrize("temperature", [0, -1.0, "hot", np.nan])
    def test_bad_temperatures(self, graph: tf.Graph, temperature: Any) -> None:
        with pytest.raises(ValueError, match="temperature_init must be a positive number, received"):
            SoftMax("soft", tf.ones([1, 2]), True, temperature)
