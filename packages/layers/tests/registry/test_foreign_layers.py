from __future__ import annotations

import functools
import logging
import math
from types import ModuleType
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    Conv2D,
    LayerArgumentError,
    NotALayerError,
    argscope,
    enable_argscope_for_function,
    enable_argscope_for_module,
    get_arg_scope,
    get_registered_layer,
)


def dense(inputs: tf.Tensor, units: int = 1, name: str | None = None, **others: Any) -> tf.Tensor:
    """Like in another library, with a separate scope."""
    with tf.variable_scope(name, "dense"):
        return tf.matmul(inputs, tf.get_variable("kernel", [inputs.shape[-1], units]), name="MatMul")


def library() -> Any:
    module: Any = ModuleType("library")
    module.dense, module.scale = dense, lambda x, by=2.0: x * by
    module._hidden, module.constant, module.Layer, module.nothing = dense, 3, dict, lambda: None
    return module


class TestOneFunction:
    def test_defaults_go_by_the_function_not_by_its_name(self, graph: tf.Graph) -> None:
        first, second = enable_argscope_for_function(dense), enable_argscope_for_function(dense)
        with argscope(first, units=4):
            assert get_arg_scope() == {"dense": {"units": 4}}
            widths = [layer(tf.ones([2, 3])).shape[1] for layer in (first, second, dense)]
            assert widths == [4, 1, 1]
            assert first(tf.ones([2, 3]), 5).shape[1] == 5
            assert first(tf.ones([2, 3]), units=6).shape[1] == 6
        assert first(tf.ones([2, 3])).shape[1] == 1
        assert get_registered_layer("dense") is None

    def test_it_is_the_function_otherwise(self, graph: tf.Graph) -> None:
        layer = enable_argscope_for_function(dense)
        assert (layer.__name__, layer.__doc__, layer.__wrapped__) == ("dense", dense.__doc__, dense)
        assert layer(tf.ones([2, 3]), name="mine").name == "mine/MatMul:0"
        with pytest.raises(ZeroDivisionError):
            enable_argscope_for_function(lambda x: x / 0)(1)

    def test_twice_is_once(self) -> None:
        layer = enable_argscope_for_function(dense)
        assert enable_argscope_for_function(layer) is layer
        assert enable_argscope_for_function(Conv2D) is Conv2D

    def test_an_unknown_argument_is_refused_by_the_scope(self) -> None:
        layer = enable_argscope_for_function(lambda x, by=1: x)
        with pytest.raises(
            LayerArgumentError, match=r"does not take 'bye'. Did you mean 'by'\? It takes: by\."
        ):
            argscope(layer, bye=2)

    @pytest.mark.parametrize(
        "bad",
        [3, dict, "dense", lambda: 1, functools.partial(dense)],
        ids=["number", "class", "name", "no argument", "no name"],
    )
    def test_other_objects_than_layer_functions_are_refused(self, bad: Any) -> None:
        with pytest.raises(NotALayerError, match="a function with a layer's input as its first parameter"):
            enable_argscope_for_function(bad)

    def test_shapes_are_logged_once(self, graph: tf.Graph, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "towerpack_layers")
        layer, quiet = (
            enable_argscope_for_function(dense),
            enable_argscope_for_function(dense, log_shape=False),
        )
        layer(tf.ones([2, 3]), name="a")
        with tf.variable_scope("", reuse=True):
            layer(tf.ones([2, 3]), name="a")
        layer(tf.ones([2, 3]), 4)
        quiet(tf.ones([2, 3]), name="b")
        enable_argscope_for_function(lambda x: x)(3)
        assert caplog.messages == ["a: (2, 3) -> (2, 1)", "dense/MatMul: (2, 3) -> (2, 4)"]

    def test_eager_functions_obey_as_well(self) -> None:
        scale = enable_argscope_for_function(lambda x, by=2.0: x * by)
        with argscope(scale, by=5.0):
            assert scale(tf.constant(2.0)).numpy() == 10.0


class TestModules:
    def test_public_functions_are_replaced_and_put_back(self, graph: tf.Graph) -> None:
        module = library()
        before = dict(vars(module))
        with enable_argscope_for_module(module):
            changed = {name for name, member in vars(module).items() if member is not before[name]}
            assert changed == {"dense", "scale"}
            with argscope([module.dense], units=4):
                assert module.dense(tf.ones([2, 3])).shape[1] == 4
        assert dict(vars(module)) == before

    def test_twice_is_harmless(self) -> None:
        module = library()
        end = enable_argscope_for_module(module)
        replaced = module.dense
        with enable_argscope_for_module(module):
            assert module.dense is replaced
        assert module.dense is replaced
        end.close()
        assert module.dense is dense

    def test_who_replaced_a_function_since_keeps_the_last_word(self) -> None:
        module = library()
        with enable_argscope_for_module(module):
            module.dense = math.sqrt
        assert module.dense is math.sqrt

    def test_an_exception_puts_them_back(self) -> None:
        module = library()
        with pytest.raises(KeyError), enable_argscope_for_module(module):
            raise KeyError
        assert module.dense is dense

    def test_functions_of_tensorflow(self, graph: tf.Graph) -> None:
        x = tf.ones([1, 8, 8, 1])
        original = tf.nn.max_pool2d
        with enable_argscope_for_module(tf.nn, log_shape=False):
            with argscope(tf.nn.max_pool2d, ksize=2, strides=4, padding="SAME"):
                assert tf.nn.max_pool2d(x).shape.as_list() == [1, 2, 2, 1]
            assert Conv2D("c", x, 3, 3, activation=tf.nn.relu).shape.as_list() == [1, 8, 8, 3]
        assert tf.nn.max_pool2d is original

    @pytest.mark.parametrize("bad", [dense, "tf_slim", None], ids=["function", "name", "None"])
    def test_other_objects_than_modules_are_refused(self, bad: Any) -> None:
        with pytest.raises(NotALayerError, match="enable_argscope_for_module needs a module, received"):
            enable_argscope_for_module(bad)
