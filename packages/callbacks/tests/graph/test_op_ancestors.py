"""The one walk up a graph, and where it ends."""

import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given
from hypothesis import strategies as st

from towerpack_callbacks import find_ancestors


@pytest.fixture
def graph():
    """y depends on x by a square and, by a control input, on a source."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [], "x")
        with tf.control_dependencies([tf.constant(1.0, name="before").op]):
            square = tf.square(x, name="square")
        tf.add(square, x, name="y")
        tf.negative(x, name="apart")
    return graph


def names(graph, targets, **limits):
    return {op.name for op in find_ancestors(map(graph.as_graph_element, targets), **limits)}


def test_control_inputs_and_the_targets_are_among_them(graph):
    everything = {"y", "square", "x", "before"}
    assert names(graph, ["y"]) == names(graph, ["y:0"]) == names(graph, ["y", "square:0"]) == everything
    assert names(graph, []) == set()


def test_fed_tensors_do_not_run(graph):
    assert names(graph, ["y:0"], fed=[graph.get_tensor_by_name("square:0")]) == {"y", "x"}
    assert names(graph, ["x:0", "before"], fed=[graph.get_tensor_by_name("x:0")]) == {"before"}


def test_an_op_at_which_the_search_ends_is_found_and_nothing_behind_it(graph):
    assert names(graph, ["square"], ends_at=lambda op: op.type == "Square") == {"square"}
    # x is found in another way.
    assert names(graph, ["y"], ends_at=lambda op: op.type == "Square") == {"y", "square", "x"}


@given(
    st.lists(st.lists(st.integers(0, 11), max_size=3), min_size=1, max_size=12), st.sets(st.integers(0, 11))
)
def test_they_are_what_a_walk_by_hand_finds(edges, ends):
    before = [[at % number for at in wanted] if number else [] for number, wanted in enumerate(edges)]
    with tf.Graph().as_default():
        ops = []
        for number, wanted in enumerate(before):
            with tf.control_dependencies([ops[at] for at in wanted]):
                ops.append(tf.no_op(f"op{number}"))
    expected, waiting = set(), [len(ops) - 1]
    while waiting:
        number = waiting.pop()
        waiting += before[number] if number not in ends | expected else []
        expected.add(number)
    found = find_ancestors([ops[-1]], ends_at=lambda op: ops.index(op) in ends)
    assert found == {ops[number] for number in expected}
