from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    AvgPooling,
    Conv2D,
    FullyConnected,
    LayerArgumentError,
    MaxPooling,
    NotALayerError,
    argscope,
    get_arg_scope,
    register_layer,
)


@register_layer
def TakesAnything(x: tf.Tensor, **options: Any) -> Any:
    """Return the options."""
    return options


def test_inner_wins_over_outer_and_call_over_both(graph: tf.Graph) -> None:
    x = tf.ones([1, 8, 8, 1])
    with argscope(Conv2D, filters=2, kernel_size=3), argscope([Conv2D, MaxPooling], padding="valid"):
        with argscope(Conv2D, filters=4):
            assert Conv2D("a", x).shape.as_list() == [1, 6, 6, 4]
            assert Conv2D("b", x, filters=6, padding="same").shape.as_list() == [1, 8, 8, 6]
        assert Conv2D("c", x).shape.as_list() == [1, 6, 6, 2]


def test_get_arg_scope_is_a_copy(graph: tf.Graph) -> None:
    with argscope([Conv2D, FullyConnected], use_bias=False):
        with argscope(Conv2D, filters=3):
            scope = get_arg_scope()
            both = {"Conv2D": {"use_bias": False, "filters": 3}, "FullyConnected": {"use_bias": False}}
            assert scope == both
            scope["Conv2D"]["filters"] = 99
            assert get_arg_scope()["Conv2D"]["filters"] == 3
        assert get_arg_scope()["Conv2D"] == {"use_bias": False}
    assert get_arg_scope() == {}


def test_scope_ends_with_an_exception() -> None:
    with argscope(Conv2D, filters=3):
        with pytest.raises(KeyError), argscope(Conv2D, filters=4):
            raise KeyError
        assert get_arg_scope() == {"Conv2D": {"filters": 3}}
    assert get_arg_scope() == {}


def test_scope_belongs_to_one_thread() -> None:
    barrier = threading.Barrier(2)
    seen: dict[int, Any] = {}

    def work(filters: int) -> None:
        before = get_arg_scope()
        with argscope(Conv2D, filters=filters):
            barrier.wait(30)
            seen[filters] = (before, get_arg_scope())
            barrier.wait(30)

    with argscope(MaxPooling, pool_size=2):
        threads = [threading.Thread(target=work, args=(filters,)) for filters in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert get_arg_scope() == {"MaxPooling": {"pool_size": 2}}
    assert seen == {n: ({}, {"Conv2D": {"filters": n}}) for n in (1, 2)}


@pytest.mark.parametrize("bad", [tf.nn.relu, "Conv2D", None, [Conv2D, print]])
def test_other_objects_than_layers_are_refused(bad: Any) -> None:
    message = "argscope needs a registered layer or a list of them.*received.*register_layer"
    with pytest.raises(NotALayerError, match=message), argscope(bad, filters=3):
        pass


def test_unknown_argument_names_layer_argument_and_those_it_has() -> None:
    message = "argscope: AvgPooling does not take 'filters'. It takes: pool_size, strides, padding, data"
    with pytest.raises(LayerArgumentError, match=message), argscope([Conv2D, AvgPooling], filters=3):
        pass
    with pytest.raises(LayerArgumentError, match="does not take 'x'"), argscope(Conv2D, x=3):
        pass


def test_layers_with_open_arguments_take_any(graph: tf.Graph) -> None:
    with argscope(TakesAnything, a=1, b=2):
        assert TakesAnything("t", tf.ones([]), b=3) == {"a": 1, "b": 3}


def test_a_generator_cannot_hold_a_scope_for_its_caller() -> None:
    def layers() -> Iterator[int]:
        with argscope(Conv2D, filters=3):
            yield 1

    def by_a_stack() -> Iterator[int]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(argscope(Conv2D, filters=3))
            yield 1

    async def waiting() -> AsyncIterator[int]:
        with argscope(Conv2D, filters=3):
            yield 1

    message = "argscope: .* is a generator, and the scope would apply to its caller.*contextmanager"
    for generator in (layers(), by_a_stack()):
        with pytest.raises(LayerArgumentError, match=message):
            next(generator)
    with pytest.raises(LayerArgumentError, match=message):
        waiting().__anext__().send(None)
    assert get_arg_scope() == {}


@contextlib.contextmanager
def filters(number: int) -> Iterator[None]:
    with argscope(Conv2D, filters=number):
        yield


def test_a_context_manager_may_hold_a_scope_for_its_caller() -> None:
    with filters(3):
        assert get_arg_scope() == {"Conv2D": {"filters": 3}}
        with contextlib.ExitStack() as stack:
            stack.enter_context(filters(4))
            assert get_arg_scope() == {"Conv2D": {"filters": 4}}
    assert get_arg_scope() == {}


def test_a_generator_may_call_a_function_that_opens_a_scope(graph: tf.Graph) -> None:
    def build() -> int:
        with argscope(Conv2D, filters=3):
            return len(get_arg_scope())

    assert next(build() for _ in range(2)) == 1


def test_scopes_that_end_out_of_order_take_only_themselves_away() -> None:
    first, second = filters(1), filters(2)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert get_arg_scope() == {"Conv2D": {"filters": 2}}
    second.__exit__(None, None, None)
    assert get_arg_scope() == {}
