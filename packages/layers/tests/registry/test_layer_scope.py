"""A layer has the name that it was given, or says why not."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    Conv2D,
    DuplicateLayerError,
    FullyConnected,
    MaxPooling,
    TowerContext,
    register_layer,
)


@register_layer
def OutputInside(x: tf.Tensor) -> tf.Tensor:
    """Name an op that is not the result."""
    return tf.identity(x, name="output") * 2


@register_layer
def Nested(x: tf.Tensor) -> tf.Tensor:
    """Hold a layer."""
    return FullyConnected("fc", x, 3)


def fail(_: Any) -> Any:
    raise KeyError("broken")


@pytest.mark.parametrize("taken", ["fc", "FC"])
@pytest.mark.parametrize("tower", ["", "tower0"])
def test_an_input_of_the_layers_name(graph: tf.Graph, taken: str, tower: str) -> None:
    with TowerContext(tower, is_training=True):
        x = tf.placeholder(tf.float32, [None, 2], name=taken)
        message = (
            rf"FullyConnected\('fc'\): the name '{f'{tower}/' if tower else ''}fc' is already used .*Rename"
        )
        with pytest.raises(DuplicateLayerError, match=message):
            FullyConnected("fc", x, 3)
        assert FullyConnected("fc1", x, 3).op.name == (f"{tower}/" if tower else "") + "fc1/output"
    assert [v.name for v in tf.global_variables()] == ["fc1/W:0", "fc1/b:0"]


def test_a_name_scope_of_the_layers_name(graph: tf.Graph) -> None:
    with tf.name_scope("pool"):
        x = tf.ones([1, 4, 4, 1])
    with pytest.raises(DuplicateLayerError, match="'pool' is already used in this graph by an input"):
        MaxPooling("pool", x, 2)


def test_a_layer_that_has_the_name_of_anothers_variable(graph: tf.Graph) -> None:
    x = tf.ones([1, 2])
    FullyConnected("a/b", x, 3)
    with pytest.raises(
        DuplicateLayerError, match=r"FullyConnected\('a'\): the variable 'a/b' cannot be created"
    ):
        FullyConnected("a", x, 3)
    assert "a/b_1" not in {v.op.name for v in tf.global_variables()}


def test_an_op_of_the_layer_that_has_the_name_of_its_output(graph: tf.Graph) -> None:
    with pytest.raises(DuplicateLayerError, match=r"OutputInside\('o'\): an op inside the layer is named"):
        OutputInside("o", tf.ones([]))


def test_reuse_shares_variables_and_op_names_get_a_suffix(graph: tf.Graph) -> None:
    x = tf.ones([1, 2])
    for index in range(3):
        with tf.variable_scope(tf.get_variable_scope(), reuse=index > 0):
            assert Nested("n", x).name == ("n/output:0" if not index else f"n_{index}/output:0")
    assert [v.name for v in tf.global_variables()] == ["n/fc/W:0", "n/fc/b:0"]


@pytest.mark.parametrize("partitioner", [None, tf.fixed_size_partitioner(2)])
def test_reuse_of_whole_and_of_partitioned_variables(graph: tf.Graph, partitioner: Any) -> None:
    for index in range(2):
        with tf.variable_scope("net", reuse=index > 0, partitioner=partitioner):
            FullyConnected("fc", tf.ones([1, 4]), 2)
    assert len(tf.global_variables()) == (2 if partitioner is None else 4)


class TestARetry:
    def test_without_variables_has_the_names_of_a_first_call(self, graph: tf.Graph) -> None:
        x = tf.ones([1, 4, 4, 1])
        with TowerContext("tower0", is_training=True), tf.variable_scope("net"):
            for _ in range(2):
                with pytest.raises(ValueError, match="padding"):
                    Conv2D("c", x, 2, 3, padding="none")
            assert Conv2D("c", x, 2, 3).name == "tower0/net/c/output:0"
            assert MaxPooling("p", x, 2).name == "tower0/net/p/output:0"
        assert [v.name for v in tf.global_variables()] == ["net/c/W:0", "net/c/b:0"]

    def test_after_variables_were_created_the_error_lists_them(self, graph: tf.Graph) -> None:
        x = tf.ones([1, 2])
        with pytest.raises(KeyError, match="broken"):
            FullyConnected("c", x, 3, activation=fail)
        message = r"FullyConnected\('c'\): an earlier call .* failed after creating c/W, c/b\. .*new graph"
        for _ in range(2):
            with pytest.raises(DuplicateLayerError, match=message):
                FullyConnected("c", x, 3)
        assert FullyConnected("d", x, 3).name == "d/output:0"

    def test_within_a_layer(self, graph: tf.Graph) -> None:
        with pytest.raises(ValueError, match="at least two axes"):
            Nested("n", tf.ones([2]))
        assert Nested("n", tf.ones([1, 2])).name == "n/output:0"
        assert [v.name for v in tf.global_variables()] == ["n/fc/W:0", "n/fc/b:0"]

    def test_shares_variables_on_request(self, graph: tf.Graph) -> None:
        x = tf.ones([1, 2])
        with pytest.raises(KeyError, match="broken"):
            FullyConnected("c", x, 3, activation=fail)
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            out = FullyConnected("c", x, 3)
        assert out.variables.W.name == "c/W:0"
