from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import Conv2D as Conv
from towerpack_layers import LayerNameError, LinearWrap, TowerContext, UnknownLayerError, argscope


def test_chain_of_layers(graph: tf.Graph) -> None:
    with TowerContext("", is_training=True), argscope(Conv, filters=4, kernel_size=3, activation=tf.nn.relu):
        logits = (
            LinearWrap(tf.ones([2, 12, 12, 1]))
            .Conv2D("conv0")
            .MaxPooling("pool0", 2)
            .BatchNorm("bn")
            .Conv2D("conv1", filters=8)
            .BNReLU("bnrelu")
            .GlobalAvgPooling("gap")
            .Dropout("dropout", rate=0.5)
            .Dropout(rate=0.5)
            .FullyConnected("fc", 10)()
        )
    assert logits.shape.as_list() == [2, 10]
    assert {v.name.split("/")[0] for v in tf.trainable_variables()} == {
        "conv0",
        "bn",
        "conv1",
        "bnrelu",
        "fc",
    }


def test_apply_puts_the_tensor_first_and_apply2_second(run: Any) -> None:
    wrap = LinearWrap(tf.constant(3.0))
    assert run(wrap.apply(tf.subtract, 1.0)()) == 2.0
    assert run(wrap.apply2(tf.subtract, 1.0).tensor()) == -2.0
    assert wrap.apply(tf.add, y=1.0, name="sum")().name == "sum:0"


def test_tensorflow_functions(run: Any) -> None:
    wrap = LinearWrap(tf.constant([-1.0, 4.0])).tf.nn.relu(name="r").tf.sqrt().tf.math.reduce_sum()
    assert run(wrap()) == 2.0
    with pytest.raises(AttributeError, match="no_such_function"):
        wrap.tf.nn.no_such_function()


def test_print_tensor_returns_the_wrap(graph: tf.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    x = tf.ones([2, 3], name="x")
    assert LinearWrap(x).print_tensor()() is x
    assert "x:0" in capsys.readouterr().out


def test_unknown_layer_names_near_matches_and_ways_out(graph: tf.Graph) -> None:
    message = (
        "no layer 'conv2d'. Did you mean Conv2D.*Registered layers: .*MaxPooling.*@register_layer.*apply"
    )
    with pytest.raises(UnknownLayerError, match=message):
        LinearWrap(tf.ones([])).conv2d("c", 3)
    with pytest.raises(AttributeError, match=r"no layer 'Xyzzyq'\. Registered layers"):
        LinearWrap(tf.ones([])).Xyzzyq  # noqa: B018
    assert not hasattr(LinearWrap(tf.ones([])), "max_pool")


def test_layer_without_its_name(graph: tf.Graph) -> None:
    with pytest.raises(LayerNameError, match="Conv2D: the first argument is the layer's name"):
        LinearWrap(tf.ones([1, 4, 4, 1])).Conv2D(3, 3)


def test_probing_attributes_is_harmless() -> None:
    wrap = LinearWrap([1, 2])
    assert copy.copy(wrap)() == [1, 2]
    assert copy.deepcopy(wrap)() == [1, 2]
    assert pickle.loads(pickle.dumps(wrap))() == [1, 2]
    assert {"Conv2D", "apply", "tensor"} <= set(dir(wrap))
    assert repr(wrap) == "LinearWrap([1, 2])"
    for name in ("__array__", "__len__", "_repr_html_", "__wrapped__"):
        assert getattr(wrap, name, None) is None
        assert getattr(wrap.tf, name, None) is None
    assert not hasattr(LinearWrap.__new__(LinearWrap), "_tensor")
