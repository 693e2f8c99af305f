from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    BatchNorm,
    Conv2D,
    FullyConnected,
    GraphRequiredError,
    ScopeError,
    TowerContext,
    custom_getter_scope,
    remap_variables,
    rename_get_variable,
    rename_tflayer_get_variable,
)


def names() -> list[str]:
    return [variable.op.name for variable in tf.global_variables()]


def binarize(variable: Any) -> Any:
    return tf.sign(variable, name="binary") if variable.op.name.endswith("/W") else variable


class TestCustomGetter:
    def test_the_inner_getter_is_called_first(self, graph: tf.Graph) -> None:
        seen: list[str] = []

        def note(label: str) -> Any:
            def get(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
                seen.append(f"{label} {name}")
                return getter(name, *args, **kwargs)

            return get

        with custom_getter_scope(note("outer")), custom_getter_scope(note("inner")):
            tf.get_variable("v", [])
        tf.get_variable("w", [])
        assert seen == ["inner v", "outer v"]

    def test_no_scope_is_opened(self, graph: tf.Graph) -> None:
        with tf.variable_scope("net"), custom_getter_scope(lambda getter, *args, **kw: getter(*args, **kw)):
            out = FullyConnected("fc", tf.ones([1, 2]), 3)
        assert out.op.name == "net/fc/output"
        assert names() == ["net/fc/W", "net/fc/b"]

    def test_an_exception_ends_it(self, graph: tf.Graph) -> None:
        with pytest.raises(KeyError), custom_getter_scope(lambda *_args, **_kwargs: None):
            raise KeyError
        assert tf.get_variable("v", []).name == "v:0"

    def test_misuse(self, graph: tf.Graph) -> None:
        message = "custom_getter_scope: custom_getter must be a function, received 3"
        with pytest.raises(ScopeError, match=message), custom_getter_scope(3):  # type: ignore[arg-type]
            pass

    def test_eager_mode_is_refused(self) -> None:
        with pytest.raises(GraphRequiredError), custom_getter_scope(lambda getter, *args, **kw: None):
            pass


class TestRemap:
    def test_layers_compute_with_the_result_of_the_function(self, run: Any) -> None:
        with remap_variables(binarize):
            out = Conv2D("c", tf.ones([1, 4, 4, 1]), 2, 3, padding="valid")
        kernel = tf.trainable_variables()[0]
        value, weights = run([out, kernel])
        np.testing.assert_array_equal(value[0, 0, 0], np.sign(weights).sum((0, 1, 2)))
        assert tf.gradients(tf.square(out), tf.trainable_variables())[1] is not None
        assert FullyConnected("f", tf.ones([1, 2]), 3).variables.W.name == "f/W:0"

    def test_under_towers_each_has_its_own_ops_and_one_variable(self, run: Any) -> None:
        outs = []
        for index in range(2):
            with (
                TowerContext(f"t{index}", is_training=True, index=index, num_towers=2, reuse=index > 0),
                remap_variables(binarize),
            ):
                outs.append(FullyConnected("fc", tf.ones([1, 2]), 3))
        assert [out.variables.W.op.name for out in outs] == ["t0/fc/binary", "t1/fc/binary"]
        assert names() == ["fc/W", "fc/b"]
        first, second = run(outs)
        assert (first == second).all()

    def test_moving_averages_stay_variables(self, graph: tf.Graph) -> None:
        with TowerContext("", is_training=True), remap_variables(binarize):
            BatchNorm("bn", tf.ones([2, 3]))
        assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2

    def test_none_is_refused(self, graph: tf.Graph) -> None:
        message = "remap_variables: fn returned None for the variable 'fc/W'"
        with remap_variables(lambda variable: None), pytest.raises(ScopeError, match=message):
            FullyConnected("fc", tf.ones([1, 2]), 3)
        with pytest.raises(ScopeError, match="remap_variables: fn must be a function, received 'sign'"):
            remap_variables("sign")  # type: ignore[arg-type]


class TestRename:
    def test_the_last_part_is_renamed(self, graph: tf.Graph) -> None:
        with rename_get_variable({"kernel": "W", "scale": "norm/gamma"}), tf.variable_scope("kernel"):
            for name in ("kernel", "scale", "other/kernel", "kernels"):
                tf.get_variable(name, [])
        tf.get_variable("kernel", [])
        assert names() == [
            "kernel/W",
            "kernel/norm/gamma",
            "kernel/other/W",
            "kernel/kernels",
            "kernel_1",
        ] or names()[:4] == ["kernel/W", "kernel/norm/gamma", "kernel/other/W", "kernel/kernels"]

    def test_reuse_finds_the_new_name(self, graph: tf.Graph) -> None:
        for reuse in (False, True):
            with rename_tflayer_get_variable(), tf.variable_scope("fc", reuse=reuse):
                found = [tf.get_variable(name, [2]) for name in ("kernel", "bias", "moving_mean", "gamma")]
        assert [variable.op.name for variable in found] == ["fc/W", "fc/b", "fc/mean/EMA", "fc/gamma"]
        assert len(names()) == 4

    def test_towers(self, graph: tf.Graph) -> None:
        for index in range(2):
            context = TowerContext(f"t{index}", is_training=True, index=index, num_towers=2, reuse=index > 0)
            with context, rename_get_variable({"W": "kernel", "b": "bias"}):
                FullyConnected("fc", tf.ones([1, 2]), 3)
        assert names() == ["fc/kernel", "fc/bias"]

    @pytest.mark.parametrize("bad", [None, ["kernel"], {"kernel": 3}, {"": "W"}, {"a/b": "W"}, {"a": "/W"}])
    def test_misuse(self, bad: Any) -> None:
        with pytest.raises(ScopeError, match="rename_get_variable: mapping must be a dictionary"):
            rename_get_variable(bad)
