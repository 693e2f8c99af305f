from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    Dropout,
    FullyConnected,
    GraphRequiredError,
    ScopeError,
    SharedVariableError,
    TowerContext,
    auto_reuse_variable_scope,
    under_name_scope,
    under_variable_scope,
)


def names() -> list[str]:
    return [variable.op.name for variable in tf.global_variables()]


@auto_reuse_variable_scope
def critic(x: tf.Tensor, more: bool = False) -> tf.Tensor:
    """Judge."""
    x = FullyConnected("fc", x, 3)
    return FullyConnected("more", x, 3) if more else x


class TestAutoReuse:
    def test_later_calls_in_one_scope_share(self, run: Any) -> None:
        x = tf.ones([1, 2])
        with tf.variable_scope("discrim"):
            outs = [critic(x), critic(x)]
        with tf.variable_scope("other"):
            outs.append(critic(x))
        assert names() == [f"{scope}/fc/{part}" for scope in ("discrim", "other") for part in "Wb"]
        first, second, third = run(outs)
        assert (first == second).all()
        assert (first != third).any()
        assert (critic.__name__, critic.__doc__) == ("critic", "Judge.")

    def test_no_scope_is_opened(self, graph: tf.Graph) -> None:
        outs = [critic(tf.ones([1, 2])) for _ in range(2)]
        assert [out.op.name for out in outs] == ["fc/output", "fc_1/output"]

    def test_graphs_are_independent(self) -> None:
        for _ in range(2):
            with tf.Graph().as_default():
                critic(tf.ones([1, 2]))
                assert names() == ["fc/W", "fc/b"]

    def test_functions_are_independent(self, graph: tf.Graph) -> None:
        @auto_reuse_variable_scope
        def other(x: tf.Tensor) -> tf.Tensor:
            return FullyConnected("other", x, 3)

        critic(tf.ones([1, 2]))
        other(tf.ones([1, 2]))
        assert names() == ["fc/W", "fc/b", "other/W", "other/b"]

    @pytest.mark.parametrize("own", [False, True])
    def test_under_towers(self, graph: tf.Graph, own: bool) -> None:
        outs = []
        for index in range(2):
            with TowerContext(
                f"tower{index}",
                is_training=True,
                index=index,
                num_towers=2,
                reuse=None if own else index > 0,
                variable_scope=f"t{index}" if own else "",
            ):
                outs += [critic(tf.ones([1, 2])), critic(tf.ones([1, 2]))]
        with TowerContext(
            "InferenceTower", is_training=False, reuse=True, variable_scope="t0" if own else ""
        ):
            outs.append(critic(tf.ones([1, 2])))
        assert len(names()) == (4 if own else 2)
        assert [out.op.name for out in outs] == [
            "tower0/fc/output",
            "tower0/fc_1/output",
            "tower1/fc/output",
            "tower1/fc_1/output",
            "InferenceTower/fc/output",
        ]
        assert outs[4].variables.W is outs[0].variables.W

    def test_a_first_call_that_failed_does_not_count(self, graph: tf.Graph) -> None:
        with pytest.raises(ValueError, match="needs at least two axes"):
            critic(tf.ones([2]))
        critic(tf.ones([1, 2]))
        assert names() == ["fc/W", "fc/b"]
        with pytest.raises(ValueError, match="needs at least two axes"):
            critic(tf.ones([2]))
        assert not tf.get_variable_scope().reuse
        critic(tf.ones([1, 2]))

    def test_a_variable_that_the_first_call_did_not_make(self, graph: tf.Graph) -> None:
        with tf.variable_scope("net"):
            critic(tf.ones([1, 2]))
            message = r"critic: a call shares .* 'net', which did not create 'net/more/W'.*tf.variable_scope"
            with pytest.raises(SharedVariableError, match=message):
                critic(tf.ones([1, 2]), more=True)

    def test_a_function_may_call_itself(self, graph: tf.Graph) -> None:
        @auto_reuse_variable_scope
        def deep(x: tf.Tensor, depth: int) -> tf.Tensor:
            x = FullyConnected("fc", x, 2)
            return deep(x, depth - 1) if depth else x

        deep(tf.ones([1, 2]), 3)
        assert names() == ["fc/W", "fc/b"]

    def test_in_bodies_of_control_flow(self, run: Any) -> None:
        first = critic(tf.ones([1, 2]))
        out = tf.cond(tf.placeholder_with_default(True, []), lambda: critic(tf.ones([1, 2])), lambda: first)
        assert names() == ["fc/W", "fc/b"]
        a, b = run([first, out])
        assert (a == b).all()

    @pytest.mark.slow
    def test_no_graph_is_kept_alive(self) -> None:
        with tf.Graph().as_default() as graph:
            critic(tf.ones([1, 2]))
        reference = weakref.ref(graph)
        del graph
        gc.collect()
        assert reference() is None

    def test_eager_mode_is_refused(self) -> None:
        with pytest.raises(GraphRequiredError, match="critic builds a graph"):
            critic(tf.ones([1, 2]))


class TestUnderNameScope:
    def test_names(self, graph: tf.Graph) -> None:
        @under_name_scope()
        def double(x: tf.Tensor) -> tf.Tensor:
            return tf.multiply(x, 2, name="out")

        @under_name_scope("named")
        def triple(x: tf.Tensor) -> tf.Tensor:
            return tf.multiply(x, 3, name="out")

        @under_name_scope
        def bare(x: tf.Tensor) -> tf.Tensor:
            return tf.multiply(x, 3, name="out")

        x = tf.ones([])
        with tf.name_scope("around"):
            outs = [double(x), double(x), triple(x), bare(x), double(x, name_scope="mine")]
        assert [out.op.name for out in outs] == [
            f"around/{scope}/out" for scope in ("double", "double_1", "named", "bare", "mine")
        ]
        assert double(x, name_scope="around/mine/").op.name == "around/mine/out_1"

    def test_a_used_name_of_the_caller_is_logged(
        self, graph: tf.Graph, caplog: pytest.LogCaptureFixture
    ) -> None:
        @under_name_scope()
        def double(x: tf.Tensor) -> tf.Tensor:
            return tf.multiply(x, 2, name="out")

        with caplog.at_level(logging.WARNING, "towerpack_layers"):
            for _ in range(2):
                double(tf.ones([]), name_scope="mine")
                double(tf.ones([]))
        assert caplog.messages == ["double: the name scope 'mine/' is already used; using 'mine_1/' instead"]

    def test_variables_are_not_renamed(self, graph: tf.Graph) -> None:
        @under_name_scope()
        def layer(x: tf.Tensor) -> tf.Tensor:
            return FullyConnected("fc", x, 2)

        assert layer(tf.ones([1, 2])).op.name == "layer/fc/output"
        assert names() == ["fc/W", "fc/b"]

    def test_an_exception_closes_the_scope(self, graph: tf.Graph) -> None:
        @under_name_scope()
        def fail() -> None:
            raise KeyError

        with pytest.raises(KeyError):
            fail()
        assert graph.get_name_scope() == ""

    def test_wrong_names(self, graph: tf.Graph) -> None:
        with pytest.raises(ScopeError, match="under_name_scope: name_scope must be a name, received 3"):
            under_name_scope(3)  # type: ignore[call-overload]
        double = under_name_scope()(lambda x: x)
        with pytest.raises(ScopeError, match="name_scope must be a name, received ''"):
            double(1, name_scope="")


class TestUnderVariableScope:
    @pytest.mark.parametrize("decorator", [under_variable_scope, under_variable_scope()])
    def test_names(self, graph: tf.Graph, decorator: Any) -> None:
        @decorator
        def encoder(x: tf.Tensor) -> tf.Tensor:
            return FullyConnected("fc", x, 2)

        with tf.variable_scope("net"):
            assert encoder(tf.ones([1, 2])).op.name == "net/encoder/fc/output"
            with pytest.raises(ValueError, match="net/encoder/fc"):
                encoder(tf.ones([1, 2]))
            assert tf.get_variable_scope().name == "net"
            with tf.variable_scope(tf.get_variable_scope(), reuse=True):
                encoder(tf.ones([1, 2]))
        assert names() == ["net/encoder/fc/W", "net/encoder/fc/b"]


@pytest.mark.parametrize(
    "decorator", [auto_reuse_variable_scope, under_name_scope("scope"), under_variable_scope]
)
def test_objects_that_cannot_be_decorated(decorator: Any) -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def coroutine() -> None: ...

    for function in (generator, coroutine):
        with pytest.raises(ScopeError, match=f"{function.__name__} is a generator or a coroutine"):
            decorator(function)
    for wrong in (3, dict, "name"):
        with pytest.raises(ScopeError, match="needs a function, received"):
            decorator(wrong)


def test_dropout_of_shared_calls_draws_afresh(run: Any) -> None:
    @auto_reuse_variable_scope
    def dropped(x: tf.Tensor) -> tf.Tensor:
        return Dropout("d", x, rate=0.5)

    with TowerContext("", is_training=True, random_seed=1, step=tf.constant(3)):
        outs = [dropped(tf.ones([64])) for _ in range(2)]
    first, second = run(outs)
    assert (first != second).any()
