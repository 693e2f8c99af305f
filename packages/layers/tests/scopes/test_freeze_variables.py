from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    BatchNorm,
    FrozenVariableError,
    FullyConnected,
    ScopeError,
    TowerContext,
    freeze_variables,
    regularize_cost,
    remap_variables,
)

FULL = {"stop_gradient": False, "skip_collection": True}


def names(variables: list[Any]) -> list[str]:
    return [variable.op.name for variable in variables]


@pytest.mark.parametrize("stop_gradient", [False, True])
def test_skipped_variables_are_of_the_model_and_not_trained(graph: tf.Graph, stop_gradient: bool) -> None:
    with TowerContext("", is_training=True):
        with freeze_variables(stop_gradient, skip_collection=True):
            x = BatchNorm("bn", FullyConnected("a", tf.ones([2, 3]), 4))
        FullyConnected("b", x, 2)
    assert names(tf.trainable_variables()) == ["b/W", "b/b"]
    frozen = ["a/W", "a/b", "bn/gamma", "bn/beta", "bn/mean/EMA", "bn/variance/EMA"]
    assert names(tf.model_variables()) == frozen
    assert names(tf.global_variables()) == [*frozen, "b/W", "b/b"]
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2


def test_the_gradient_stops_at_this_use_alone(run: Any) -> None:
    with freeze_variables():
        frozen = FullyConnected("fc", tf.ones([1, 2]), 3)
    assert frozen.variables.W.op.name == "fc/W_frozen"
    with tf.variable_scope("", reuse=True):
        trained = FullyConnected("fc", tf.ones([1, 2]), 3)
    weights = tf.trainable_variables()
    assert names(weights) == ["fc/W", "fc/b"]
    assert tf.model_variables() == []
    assert tf.gradients(frozen, weights) == [None, None]
    assert None not in tf.gradients(trained, weights)
    assert tf.gradients(regularize_cost("fc/W", tf.nn.l2_loss), weights[0]) != [None]
    first, second = run([frozen, trained])
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("partitioner", [None, tf.fixed_size_partitioner(2)])
def test_variables_of_any_class(graph: tf.Graph, use_resource: bool, partitioner: Any) -> None:
    for reuse in (False, True):
        with freeze_variables(**FULL), tf.variable_scope("s", reuse=reuse, use_resource=use_resource):
            tf.get_variable("v", [4], partitioner=partitioner)
    parts = ["s/v"] if partitioner is None else ["s/v/part_0", "s/v/part_1"]
    assert names(tf.model_variables()) == names(tf.global_variables()) == parts
    assert tf.trainable_variables() == []


def test_collections_of_the_caller_are_kept(graph: tf.Graph) -> None:
    with freeze_variables(**FULL):
        tf.get_variable("a", [], collections=["mine"])
        tf.get_variable("b", [], collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES])
        tf.get_variable("c", [], trainable=False)
        tf.get_variable("d", [], trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    assert names(tf.get_collection("mine")) == ["a"]
    assert names(tf.model_variables()) == ["a", "b"]
    assert names(tf.global_variables()) == ["b", "c"]


def test_towers_that_share_add_it_once(graph: tf.Graph) -> None:
    for index in range(2):
        context = TowerContext(f"t{index}", is_training=True, index=index, num_towers=2, reuse=index > 0)
        with context, freeze_variables(**FULL):
            FullyConnected("fc", tf.ones([1, 2]), 3)
    with TowerContext("InferenceTower", is_training=False, reuse=True):
        FullyConnected("fc", tf.ones([1, 2]), 3)
    assert names(tf.model_variables()) == names(tf.global_variables()) == ["fc/W", "fc/b"]


def test_trainable_variables_cannot_be_frozen_later(graph: tf.Graph) -> None:
    FullyConnected("fc", tf.ones([1, 2]), 3)
    message = r"freeze_variables: the variable 'fc/W' already exists and is trainable.*in every tower"
    again = tf.variable_scope("", reuse=True)
    with freeze_variables(**FULL), again, pytest.raises(FrozenVariableError, match=message):
        FullyConnected("fc", tf.ones([1, 2]), 3)


def test_with_other_getters(graph: tf.Graph) -> None:
    with remap_variables(lambda variable: variable * 2), freeze_variables(**FULL):
        FullyConnected("a", tf.ones([1, 2]), 3)
    with freeze_variables(**FULL), remap_variables(lambda variable: variable * 2):
        FullyConnected("b", tf.ones([1, 2]), 3)
    assert tf.trainable_variables() == []
    assert names(tf.model_variables()) == ["a/W", "a/b", "b/W", "b/b"]


def test_neither_does_nothing(graph: tf.Graph) -> None:
    with freeze_variables(stop_gradient=False):
        out = FullyConnected("fc", tf.ones([1, 2]), 3)
    assert names(tf.trainable_variables()) == ["fc/W", "fc/b"]
    assert None not in tf.gradients(out, tf.trainable_variables())


def test_an_exception_ends_it(graph: tf.Graph) -> None:
    with pytest.raises(KeyError), freeze_variables(**FULL):
        raise KeyError
    FullyConnected("fc", tf.ones([1, 2]), 3)
    assert len(tf.trainable_variables()) == 2


@pytest.mark.parametrize("argument", ["stop_gradient", "skip_collection"])
def test_misuse(argument: str) -> None:
    with pytest.raises(ScopeError, match=f"freeze_variables: {argument} must be True or False, received 'x'"):
        freeze_variables(**{argument: "x"})  # type: ignore[arg-type]
