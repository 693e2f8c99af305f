from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import TowerContext, batch_flatten, print_stat, psnr, rms

HALVES = [tf.float16, tf.bfloat16]


class TestRms:
    @pytest.mark.parametrize("dtype", [*HALVES, tf.float32, tf.float64], ids=lambda dtype: dtype.name)
    def test_value_and_dtype(self, run: Any, dtype: tf.DType) -> None:
        values = np.random.default_rng(0).normal(size=[7, 5]) * 300  # their squares are too large for float16
        x = tf.cast(tf.constant(values), dtype)
        out = rms(x)
        assert (out.dtype, out.shape.as_list()) == (dtype, [])
        assert float(run(out)) == pytest.approx(np.sqrt(np.mean(values**2)), rel=1e-2)

    def test_the_name_is_that_of_the_tensor(self, graph: tf.Graph) -> None:
        with TowerContext("tower0", is_training=True):
            x = tf.ones([2], name="x")
            with tf.name_scope("deep"):
                assert rms(x).op.name == "tower0/x/rms"
                assert rms(x, name="mine").op.name == "tower0/deep/mine"

    def test_of_a_variable(self, run: Any) -> None:
        assert run(rms(tf.get_variable("v", [3], initializer=tf.ones_initializer()))) == 1

    def test_in_a_loop(self, run: Any) -> None:
        out = tf.while_loop(
            lambda k, _: k < 3, lambda k, x: [k + 1, x + rms(x)], [tf.constant(0), tf.constant([1.0, 1.0])]
        )[1]
        assert run(out).tolist() == [8.0, 8.0]

    @pytest.mark.parametrize("bad", [3.0, "x", None])
    def test_misuse(self, graph: tf.Graph, bad: Any) -> None:
        with pytest.raises(TypeError, match="rms: x must be a floating tensor, received"):
            rms(bad)
        with pytest.raises(TypeError, match="rms: x must be a floating tensor, received"):
            rms(tf.constant(3))


class TestPsnr:
    @pytest.mark.parametrize("maxp", [None, 1, 255, np.float32(255)])
    def test_value(self, run: Any, maxp: Any) -> None:
        a, b = np.random.default_rng(0).uniform(size=[2, 4, 8, 8, 3])
        out = psnr(tf.constant(a), tf.constant(b), maxp)
        expected = 20 * np.log10(maxp or 1) - 10 * np.log10(np.mean((a - b) ** 2))
        assert out.op.name == "psnr"
        assert run(out) == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("dtype", HALVES, ids=lambda dtype: dtype.name)
    def test_of_halves(self, run: Any, dtype: tf.DType) -> None:
        out = psnr(tf.fill([9], tf.constant(300, dtype)), tf.zeros([9], dtype), 300, name="quality")
        assert (out.dtype, out.op.name) == (dtype, "quality")
        assert float(run(out)) == pytest.approx(0, abs=1e-3)

    def test_equal_images(self, run: Any) -> None:
        assert run(psnr(tf.ones([3]), tf.ones([3]))) == np.inf

    @pytest.mark.parametrize("maxp", [0, -1, "255", True])
    def test_misuse(self, graph: tf.Graph, maxp: Any) -> None:
        with pytest.raises(ValueError, match="psnr: maxp must be a positive number, received"):
            psnr(tf.ones([3]), tf.ones([3]), maxp)
        with pytest.raises(TypeError, match="psnr: ground_truth must be a floating tensor"):
            psnr(tf.ones([3]), tf.constant([3]))


class TestPrintStat:
    def test_a_line_for_each_run(self, graph: tf.Graph, capfd: pytest.CaptureFixture[str]) -> None:
        x = tf.placeholder(tf.float32, [None], name="x")
        out = print_stat(x) * 2
        assert out.shape.as_list() == [None]
        with tf.Session() as session:
            for _ in range(2):
                assert session.run(out, {x: [3.0, -3.0]}).tolist() == [6.0, -6.0]
        captured = capfd.readouterr()
        assert captured.out == ""
        assert [line for line in captured.err.splitlines() if line.startswith("x:")] == [
            "x: shape [2] mean 0 rms 3"
        ] * 2

    @pytest.mark.parametrize("dtype", [tf.int64, tf.uint8, tf.bool, tf.bfloat16, tf.float64])
    def test_types(self, run: Any, capfd: pytest.CaptureFixture[str], dtype: tf.DType) -> None:
        x = tf.cast(tf.constant([1, 0, 0, 1]), dtype)
        out = print_stat(x, message="mine")
        assert out.dtype == dtype
        run(out)
        assert "mine: shape [4] mean 0.5 rms 0.707106" in capfd.readouterr().err

    def test_in_a_loop(self, run: Any, capfd: pytest.CaptureFixture[str]) -> None:
        loop = tf.while_loop(lambda x: x < 3, lambda x: [print_stat(x, "loop") + 1], [tf.constant(0.0)])
        run(loop)
        means = [line.split()[4] for line in capfd.readouterr().err.splitlines() if line.startswith("loop:")]
        assert means == ["0", "1", "2"]

    @pytest.mark.parametrize("make", [lambda: "x", lambda: tf.constant("x"), lambda: tf.complex(1.0, 1.0)])
    def test_misuse(self, graph: tf.Graph, make: Any) -> None:
        with pytest.raises(TypeError, match="print_stat: x must be a tensor of real numbers or bools"):
            print_stat(make())


class TestBatchFlatten:
    @pytest.mark.parametrize(
        ("static", "flat"),
        [
            ([2, 3, 4], [2, 12]),
            ([None, 3, 4], [None, 12]),
            ([None, None, 4], [None, None]),
            ([2, None], [2, None]),
            ([None], [None, 1]),
            ([None, 0, 4], [None, 0]),
        ],
        ids=str,
    )
    def test_shapes(self, graph: tf.Graph, static: list[Any], flat: list[Any]) -> None:
        x = tf.placeholder(tf.float32, static)
        out = batch_flatten(x)
        assert out.shape.as_list() == flat
        with tf.Session() as session:
            for batch in [2] if static[0] else [0, 1, 3]:
                value = np.ones([batch, *(5 if size is None else size for size in static[1:])])
                assert session.run(out, {x: value}).shape == (batch, int(np.prod(value.shape[1:])))

    def test_misuse(self, graph: tf.Graph) -> None:
        with pytest.raises(
            ValueError, match="batch_flatten: the input needs a batch axis, received a scalar"
        ):
            batch_flatten(tf.ones([]))
        with pytest.raises(TypeError, match="batch_flatten: the input must be a tensor"):
            batch_flatten(3)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="rank"):
            batch_flatten(tf.placeholder(tf.float32))
