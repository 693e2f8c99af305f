from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    FullyConnected,
    GraphRequiredError,
    TowerContext,
    argscope,
    l1_regularizer,
    l2_regularizer,
    regularize_cost,
    regularize_cost_from_collection,
)

Run = Callable[..., Any]


@contextlib.contextmanager
def initialized_by_ones() -> Iterator[None]:
    ones = tf.ones_initializer()
    with argscope(FullyConnected, kernel_initializer=ones, bias_initializer=ones):
        yield


@pytest.fixture(autouse=True)
def all_ones() -> Iterator[None]:
    with initialized_by_ones():
        yield


def model() -> None:
    x = FullyConnected("fc0", tf.ones([1, 2]), 3)
    FullyConnected("fc1", x, 4)


@pytest.mark.parametrize(
    ("regex", "cost"), [("fc0/W", 6.0), ("fc.*/W", 18.0), ("/b$", 7.0), ("^fc1", 16.0), ("W|b", 25.0)]
)
def test_sums_over_matching_variables(run: Run, regex: str, cost: float) -> None:
    model()
    total = regularize_cost(regex, tf.reduce_sum, name="wd")
    assert total.name == "wd:0"
    assert run(total) == cost


def test_variables_that_do_not_train_do_not_count(run: Run) -> None:
    tf.get_variable("frozen/W", [2], trainable=False)
    assert run(regularize_cost("W", tf.reduce_sum)) == 0.0


def test_costs_of_other_dtypes_are_added_in_float32(run: Run) -> None:
    tf.get_variable("a/W", [2], tf.float16, tf.ones_initializer())
    tf.get_variable("b/W", [2], tf.float32, tf.ones_initializer())
    total = regularize_cost("W", tf.reduce_sum)
    assert total.dtype == tf.float32
    assert run(total) == 4.0


def test_zero_outside_training(run: Run) -> None:
    with TowerContext("", is_training=True):
        with argscope(FullyConnected, kernel_regularizer=tf.reduce_sum):
            model()
        costs = [regularize_cost("W", tf.reduce_sum), regularize_cost_from_collection()]
    with TowerContext("InferenceTower", is_training=False, reuse=True):
        model()
        costs += [regularize_cost("W", tf.reduce_sum), regularize_cost_from_collection()]
    assert run(costs) == [18.0, 18.0, 0.0, 0.0]


@pytest.mark.parametrize("shared", [True, False])
def test_each_tower_counts_its_own_variables_or_the_shared_ones(run: Run, shared: bool) -> None:
    costs = []
    for index in range(2):
        scope = {"reuse": True} if shared else {"variable_scope": "tower1"}
        with (
            TowerContext(
                f"tower{index}", is_training=True, index=index, num_towers=2, **scope if index else {}
            ),
            argscope(FullyConnected, kernel_regularizer=tf.reduce_sum),
        ):
            model()
            costs += [regularize_cost("^fc0/W", tf.reduce_sum), regularize_cost_from_collection()]
    assert run(costs) == [6.0, 18.0] * 2


def test_matches_are_logged_once_per_graph(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "towerpack_layers")
    for _ in range(2):
        with tf.Graph().as_default():
            tf.get_variable("a/W", [2])
            for _ in range(2):
                regularize_cost(".*/W", tf.reduce_sum)
    lines = [r.getMessage() for r in caplog.records]
    assert lines == ["regularize_cost('.*/W') takes 1 variables: a/W"] * 2


def test_no_match_is_a_warning(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    assert run(regularize_cost("nothing", tf.reduce_sum)) == 0.0
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("WARNING", "regularize_cost('nothing') matches no trainable variable: the cost is 0.")
    ]


def test_invalid_regex(graph: tf.Graph) -> None:
    with pytest.raises(ValueError, match=r"regularize_cost: '\(' is not a regular expression: missing \)"):
        regularize_cost("(", tf.reduce_sum)


@pytest.mark.parametrize(
    "call", [lambda: regularize_cost("W", tf.reduce_sum), regularize_cost_from_collection]
)
def test_eager_mode_is_refused(call: Any) -> None:
    with pytest.raises(GraphRequiredError, match=r"regularize_cost.* builds a graph"):
        call()


def test_l1_and_l2(run: Run) -> None:
    weights = tf.constant([3.0, -4.0])
    assert run([l1_regularizer(2.0)(weights), l2_regularizer(2.0)(weights)]) == [14.0, 25.0]


@pytest.mark.parametrize("function", [l1_regularizer, l2_regularizer])
@pytest.mark.parametrize("scale", [-1.0, "1", None, True])
def test_bad_scales(function: Any, scale: Any) -> None:
    message = f"{function.__name__}: scale must be a number of at least 0, received {scale!r}"
    with pytest.raises(ValueError, match=message):
        function(scale)


@pytest.mark.parametrize("shared", [True, False])
def test_each_tower_counts_the_costs_of_its_own_outputs(run: Run, shared: bool) -> None:
    costs = []
    for index in range(2):
        scope = {"reuse": True} if shared else {"variable_scope": "tower1"}
        with TowerContext(
            f"tower{index}", is_training=True, index=index, num_towers=2, **scope if index else {}
        ):
            x = tf.fill([1, 2], 10.0 if index else 1.0)
            FullyConnected("fc", x, 3, kernel_regularizer=tf.reduce_sum, activity_regularizer=tf.reduce_sum)
            tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.reduce_sum(x) * 1000.0)
            costs.append(regularize_cost_from_collection())
    # The 6 weights are ones, as are the 3 biases; the three outputs are 2 + 1 and 20 + 1.
    assert run(costs) == [6.0 + 9.0 + 2000.0, 6.0 + 63.0 + 20_000.0]


def test_costs_added_outside_of_towers_count_in_all(run: Run) -> None:
    tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.constant(5.0))
    costs = []
    for index in range(2):
        with TowerContext(f"tower{index}", is_training=True, index=index, num_towers=2, reuse=index > 0):
            costs.append(regularize_cost_from_collection())
    costs.append(regularize_cost_from_collection())
    assert run(costs) == [5.0] * 3
