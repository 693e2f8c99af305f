"""Tensors by name."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import TensorNotFoundError, find_tensors
from towerpack_callbacks.graph import as_names


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name="tower0/cost")
        tf.get_variable("weight", shape=(), use_resource=True)
        yield graph


def test_prefixes_are_tried_in_turn(graph):
    [cost] = find_tensors(graph, ["cost"], prefixes=("", "tower0/"))
    assert cost.name == "tower0/cost:0"


def test_a_variable_gives_its_value_and_no_new_op(graph):
    graph.finalize()
    [weight] = find_tensors(graph, ["weight"])
    assert weight.dtype == tf.float32


def test_close_names_are_listed(graph):
    with pytest.raises(TensorNotFoundError, match=r"'tower0/costs:0'\. Close names are: tower0/cost\."):
        find_tensors(graph, ["tower0/costs"])


def test_names_with_the_same_beginning_are_listed(graph):
    tf.constant(1.0, name="tower0/head/accuracy")
    with pytest.raises(TensorNotFoundError, match=r"Close names are: head/accuracy\. Name it"):
        find_tensors(graph, ["acc"], prefixes=["tower0/"])


def test_one_string_is_no_list_of_names(graph):
    message = r"Expected a list of names, received one string: 'cost'\. Write \['cost'\]\."
    with pytest.raises(TypeError, match=message):
        find_tensors(graph, "cost")
    with pytest.raises(TypeError, match=message):
        as_names("cost")
    assert as_names(("a", "b")) == ["a", "b"]
