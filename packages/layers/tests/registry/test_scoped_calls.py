from __future__ import annotations

import gc
import inspect
import weakref
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    Conv2D,
    Dropout,
    FullyConnected,
    TowerContext,
    argscope,
    enable_argscope_for_function,
)


def line() -> int:
    """The line that this is called from."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def test_each_default_is_listed_with_its_place(graph: tf.Graph) -> None:
    x = tf.ones([1, 8, 8, 1])
    with argscope(Conv2D, filters=2, kernel_size=3, activation=tf.nn.relu), argscope(FullyConnected, units=3):
        outer = line() - 1
        Conv2D("a", x)
        with argscope([Conv2D], kernel_size=(1, 3)):
            inner = line() - 1
            Conv2D("b", x, filters=4)
        Conv2D("c", x)
    Conv2D("d", x, 2, 3)
    lines = str(argscope.explain()).splitlines()
    assert lines == [
        "Conv2D('a')",
        f"    filters=2  ({__file__}:{outer})",
        f"    kernel_size=3  ({__file__}:{outer})",
        f"    activation=relu  ({__file__}:{outer})",
        "Conv2D('b')",
        f"    filters=2  ({__file__}:{outer}, not used: overridden by the call)",
        f"    kernel_size=(1, 3)  ({__file__}:{inner})",
        f"    activation=relu  ({__file__}:{outer})",
        *(text.replace("'a'", "'c'") for text in lines[:4]),
    ]


def test_nothing_to_tell(graph: tf.Graph) -> None:
    FullyConnected("fc", tf.ones([1, 2]), 3)
    with argscope(Conv2D, filters=3):
        FullyConnected("fd", tf.ones([1, 2]), 3)
    assert argscope.explain().calls == ()
    assert repr(argscope.explain()) == "No layer of this graph was built inside of an argscope."


def test_towers_that_share_variables_are_listed_once(graph: tf.Graph) -> None:
    for index in range(2):
        context = TowerContext(f"t{index}", is_training=True, index=index, num_towers=2, reuse=index > 0)
        with context, argscope(Dropout, rate=0.3), argscope(FullyConnected, units=3):
            Dropout(FullyConnected("fc", tf.ones([1, 2])))
    assert [(call.layer, call.scope) for call in argscope.explain().calls] == [
        ("FullyConnected", "fc"),
        ("Dropout", ""),
    ]


@pytest.mark.slow
def test_it_is_of_one_graph_and_does_not_keep_it_alive() -> None:
    with tf.Graph().as_default() as graph:
        with argscope(Dropout, rate=tf.constant(0.5), training=True):
            Dropout("d", tf.ones([3]))
        with argscope(FullyConnected, units=3, kernel_initializer=np.ones([2, 3])):
            FullyConnected("fc", tf.ones([1, 2]))
        text = str(argscope.explain())
        assert "rate=<tensor Const:0 of shape ()>" in text
        assert "kernel_initializer=<ndarray>" in text
    with tf.Graph().as_default():
        assert argscope.explain().calls == ()
    reference = weakref.ref(graph)
    del graph
    gc.collect()
    assert reference() is None


def test_layers_of_other_libraries(graph: tf.Graph) -> None:
    relu = enable_argscope_for_function(tf.nn.leaky_relu)
    with argscope(relu, alpha=0.5):
        relu(tf.ones([]), name="leaky")
    [call] = argscope.explain().calls
    assert (call.layer, call.scope) == ("leaky_relu", "leaky")
    [found] = call.defaults
    assert (found.argument, found.value, found.is_used) == ("alpha", "0.5", True)


def test_a_scope_may_be_a_decorator_and_entered_again(graph: tf.Graph) -> None:
    scope: Any = argscope(FullyConnected, units=3)

    @scope
    def build(name: str) -> tf.Tensor:
        return FullyConnected(name, tf.ones([1, 2]))

    with scope, scope:
        assert build("a").shape.as_list() == [1, 3]
    assert len(argscope.explain().calls) == 1
    with pytest.raises(TypeError, match="units"):
        FullyConnected("b", tf.ones([1, 2]))
