from __future__ import annotations

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import GraphRequiredError, ScopeError, TowerContext, cached_name_scope


def op_in(name: str, **options: Any) -> str:
    with cached_name_scope(name, **options):
        return str(tf.no_op(name="op").name)


def test_it_is_opened_again_at_the_top(graph: tf.Graph) -> None:
    assert op_in("s") == "s/op"
    with TowerContext("tower0", is_training=True), tf.name_scope("a"):
        assert op_in("s") == "s/op_1"
    with cached_name_scope("other") as opened:
        assert opened == "other/"
        assert op_in("s") == "s/op_2"
    assert graph.get_name_scope() == ""


def test_inside_of_the_scope_around_it(graph: tf.Graph) -> None:
    found = []
    for around in ("a", "a", "b"):
        with tf.name_scope(around):
            found += [op_in("s", top_level=False), op_in("s", top_level=False)]
    assert found == ["a/s/op", "a/s/op_1", "a_1/s/op", "a_1/s/op_1", "b/s/op", "b/s/op_1"]
    assert op_in("s", top_level=False) == "s/op"


def test_a_name_that_is_taken_gets_one_suffix(graph: tf.Graph) -> None:
    tf.no_op(name="s")
    assert [op_in("s"), op_in("s")] == ["s_1/op", "s_1/op_1"]


def test_graphs_and_bodies_are_independent() -> None:
    for _ in range(2):
        with tf.Graph().as_default(), tf.Session() as session:
            assert op_in("s") == "s/op"

            def body() -> tf.Tensor:
                assert op_in("s") == "s/op"
                assert op_in("s") == "s/op_1"
                return tf.ones([])

            assert session.run(tf.cond(tf.placeholder_with_default(True, []), body, body)) == 1
            assert op_in("s") == "s/op_1"


def test_an_exception_closes_it(graph: tf.Graph) -> None:
    with pytest.raises(KeyError), cached_name_scope("s"):
        raise KeyError
    assert graph.get_name_scope() == ""


@pytest.mark.parametrize("bad", ["", "/", None, 3])
def test_wrong_names(graph: tf.Graph, bad: Any) -> None:
    with pytest.raises(ScopeError, match="cached_name_scope: name must be a name, received"):
        op_in(bad)


def test_eager_mode_is_refused() -> None:
    with pytest.raises(GraphRequiredError, match=r"cached_name_scope\('s'\) builds a graph"):
        op_in("s")
