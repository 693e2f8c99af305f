from __future__ import annotations

import functools
import gc
import inspect
import logging
import operator
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    Conv2D,
    DuplicateLayerError,
    DuplicateRegistrationError,
    FullyConnected,
    GraphRequiredError,
    LayerArgumentError,
    LayerNameError,
    LinearWrap,
    MaxPooling,
    TowerContext,
    UnknownLayerError,
    argscope,
    get_arg_scope,
    get_registered_layer,
    layer_register,
    register_layer,
)
from towerpack_layers.registry import RESERVED, LayerRegistry

Run = Callable[..., Any]


@register_layer
def Shift(x: tf.Tensor, by: float = 1.0) -> tf.Tensor:
    """Add a learnt number."""
    return x + tf.get_variable("shift", [], initializer=tf.constant_initializer(by))


@register_layer(use_scope=None)
def Double(x: tf.Tensor, **kwargs: Any) -> tf.Tensor:
    """Double the input."""
    return tf.multiply(x, 2, **kwargs)


@register_layer(log_shape=True)
def Pair(xs: list[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Return two tensors."""
    return xs[0], xs[1]


def test_layer_has_name_signature_and_docstring() -> None:
    assert Shift.layer_name == "Shift"
    assert Shift.__doc__ == "Add a learnt number."
    assert list(inspect.signature(Shift).parameters) == ["name", "x", "by"]
    assert list(inspect.signature(Double).parameters) == ["x", "kwargs"]
    assert get_registered_layer("Shift") is Shift
    assert get_registered_layer("NoSuchLayer") is None


def test_variables_and_output_lie_in_the_layers_scope(run: Any) -> None:
    with tf.variable_scope("net"):
        out = Shift("s", tf.ones([2]), by=2.0)
    assert out.name == "net/s/output:0"
    assert [v.name for v in tf.global_variables()] == ["net/s/shift:0"]
    assert run(out).tolist() == [3.0, 3.0]


def test_optional_name(run: Any) -> None:
    assert Double(tf.ones([1]), name="twice").name == "twice:0"
    assert Double("d", tf.ones([1])).name == "d/output:0"


def test_results_that_are_no_tensor_are_returned_as_they_are(graph: tf.Graph) -> None:
    a, b = tf.ones([1]), tf.ones([2])
    assert Pair("pair", [a, b]) == (a, b)


def test_shapes_are_logged_once_per_graph_and_scope(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "towerpack_layers")
    for _ in range(2):
        with tf.Graph().as_default():
            for index in range(2):
                with TowerContext(
                    f"tower{index}", is_training=True, index=index, num_towers=2, reuse=bool(index) or None
                ):
                    x = MaxPooling("pool", tf.placeholder(tf.float32, [None, 4, 4, 1]), 2)
                    Pair("pair", [x, x])
    pool, pair = "pool: (None, 4, 4, 1) -> (None, 2, 2, 1)", ", ".join(["(None, 2, 2, 1)"] * 2)
    assert [record.getMessage() for record in caplog.records] == [pool, f"pair: {pair} -> {pair}"] * 2


@pytest.mark.parametrize("first", [lambda: tf.ones([1]), lambda: "", lambda: 3])
def test_required_name_is_missed(graph: tf.Graph, first: Any) -> None:
    message = r'Shift: the first argument is the layer.s name.*Shift\("some_name", x'
    with pytest.raises(LayerNameError, match=message):
        Shift(first(), 1.0)
    with pytest.raises(LayerNameError, match="no positional argument"):
        Shift()


def test_missing_and_unknown_arguments_name_layer_and_arguments(graph: tf.Graph) -> None:
    x = tf.ones([1, 4, 4, 1])
    message = r"Conv2D\('c'\): missing .*'kernel_size'.*takes: filters, kernel_size, strides"
    with pytest.raises(LayerArgumentError, match=message):
        Conv2D("c", x, 3)
    with pytest.raises(LayerArgumentError, match=r"Shift\('s'\): got an unexpected .*'bye'.*takes: by\."):
        Shift("s", x, bye=3)
    with pytest.raises(
        LayerArgumentError, match=r"'filtres'\. Did you mean 'filters'\? After the input it takes"
    ):
        Conv2D("c", x, filtres=3)
    with pytest.raises(LayerArgumentError, match="too many positional arguments"):
        MaxPooling("d", x, 2, 2, "same", "channels_last", 3)
    assert tf.global_variables() == []


def test_eager_mode_is_refused() -> None:
    with pytest.raises(GraphRequiredError, match=r"Shift\('s'\) builds a graph"):
        Shift("s", tf.ones([1]))


class TestTwoLayersOfOneName:
    MESSAGE = (
        r"FullyConnected\('a'\): the layer scope 'net/a' is already used by a MaxPooling.*"
        r"another name.*reuse=True"
    )

    def test_the_error_names_the_scope_and_the_remedy(self, graph: tf.Graph) -> None:
        x = tf.ones([1, 4, 4, 1])
        with tf.variable_scope("net"):
            MaxPooling("a", x, 2)
            with pytest.raises(DuplicateLayerError, match=self.MESSAGE):
                FullyConnected("a", x, 2)

    def test_within_a_tower(self, graph: tf.Graph) -> None:
        with TowerContext("tower0", is_training=True):
            Shift("s", tf.ones([1]))
            with pytest.raises(DuplicateLayerError, match="'s' is already used by a Shift"):
                Shift("s", tf.ones([1]))

    @pytest.mark.parametrize("reuse", [True, tf.AUTO_REUSE])
    def test_reuse_by_intention(self, graph: tf.Graph, reuse: Any) -> None:
        a = Shift("s", tf.ones([1]))
        with tf.variable_scope(tf.get_variable_scope(), reuse=reuse):
            b = Shift("s", tf.ones([1]))
        assert a is not b
        assert len(tf.global_variables()) == 1

    def test_other_scopes_and_other_graphs_are_independent(self, graph: tf.Graph) -> None:
        Shift("s", tf.ones([1]))
        with tf.variable_scope("other"):
            Shift("s", tf.ones([1]))
            with pytest.raises(DuplicateLayerError, match="'other/s' is already used"):
                Shift("s", tf.ones([1]))
        assert [v.op.name for v in tf.global_variables()] == ["s/shift", "other/s/shift"]
        with tf.Graph().as_default() as other:
            assert Shift("s", tf.ones([1])).graph is other
            assert [v.op.name for v in tf.global_variables()] == ["s/shift"]
            with pytest.raises(DuplicateLayerError, match="'s' is already used"):
                Shift("s", tf.ones([1]))

    def test_bodies_of_control_flow_belong_to_their_graph(self, graph: tf.Graph) -> None:
        flag = tf.placeholder(tf.bool, [])
        MaxPooling("p", tf.ones([1, 4, 4, 1]), 2)
        with pytest.raises(DuplicateLayerError, match="'p' is already used"):
            tf.cond(flag, lambda: MaxPooling("p", tf.ones([1, 4, 4, 1]), 2), lambda: tf.ones([1, 2, 2, 1]))

    def test_a_failed_call_may_be_repeated(self, graph: tf.Graph) -> None:
        x = tf.ones([1, 4, 4, 1])
        with pytest.raises(ValueError, match="padding"):
            MaxPooling("p", x, 2, padding="none")
        assert MaxPooling("p", x, 2, padding="same").name == "p/output:0"
        with pytest.raises(DuplicateLayerError, match="'p' is already used"):
            MaxPooling("p", x, 2)

    def test_the_notes_do_not_keep_a_graph_alive(self) -> None:
        with tf.Graph().as_default() as graph:
            Shift("s", tf.ones([1]))
        reference = weakref.ref(graph)
        del graph
        gc.collect()
        assert reference() is None


class TestRegistration:
    def test_the_same_function_again_replaces_itself(self) -> None:
        """As a notebook cell does that runs twice, or a module that is loaded again."""
        cell = "from towerpack_layers import register_layer\n@register_layer\ndef Again(x): return x"
        for _ in range(3):
            names: dict[str, Any] = {"__name__": "notebook"}
            exec(cell, names)
            assert get_registered_layer("Again") is names["Again"]

    def test_layers_of_one_factory_keep_to_themselves(self, run: Run) -> None:
        def make(factor: float) -> Any:
            @register_layer
            def Scaled(x: tf.Tensor, by: float = 1.0) -> tf.Tensor:
                return x * factor * by

            return Scaled

        two, three = make(2.0), make(3.0)
        with argscope(two, by=10.0), argscope(three, by=100.0):
            assert get_arg_scope() == {"Scaled": {"by": 10.0}, "Scaled'": {"by": 100.0}}
            outs = [two("a", tf.ones([])), three("b", tf.ones([]))]
            outs.append(LinearWrap(tf.ones([])).apply2(two, "c")())
        assert run(outs) == [20.0, 300.0, 20.0]
        message = r"'Scaled' refers to several layers, made by .*make.<locals>.Scaled.*apply2\(layer"
        with pytest.raises(DuplicateRegistrationError, match=message):
            get_registered_layer("Scaled")
        with pytest.raises(UnknownLayerError, match=message):
            LinearWrap(tf.ones([])).Scaled("d")

    def test_lambdas_and_methods(self, run: Run) -> None:
        class Blocks:
            def Shrunk(self, x: tf.Tensor, by: float = 2.0) -> tf.Tensor:
                return x / by

        doubled, tripled = register_layer(lambda x, by=2: x * by), register_layer(lambda x, by=3: x * by)
        shrunk = register_layer(Blocks().Shrunk)
        with argscope(doubled, by=20):
            outs = [doubled("a", tf.ones([])), tripled("b", tf.ones([])), shrunk("c", tf.ones([]))]
        assert [out.name for out in outs] == ["a/output:0", "b/output:0", "c/output:0"]
        assert run(outs) == [20.0, 3.0, 0.5]
        assert get_registered_layer("<lambda>") is None
        assert get_registered_layer("Shrunk") is shrunk

    def test_callables_without_a_name_are_refused(self) -> None:
        for function in (functools.partial(tf.multiply, y=2), operator.itemgetter(0), 3):
            with pytest.raises(
                TypeError, match=r"needs a function with a name, which becomes the layer's; received .*def"
            ):
                register_layer(function)

    @pytest.mark.parametrize("name", RESERVED)
    def test_names_of_methods_of_linearwrap_are_refused(self, name: str) -> None:
        def function(x: tf.Tensor) -> tf.Tensor:
            return x

        function.__name__ = name
        with pytest.raises(DuplicateRegistrationError, match=f"named '{name}': LinearWrap has a method"):
            register_layer(function)

    def test_all_methods_of_linearwrap_are_reserved(self) -> None:
        assert set(RESERVED) == {name for name in vars(LinearWrap) if not name.startswith("_")}

    def test_functions_that_do_not_run_to_their_end_are_refused(self, graph: tf.Graph) -> None:
        def Generating(x: tf.Tensor) -> Any:
            yield tf.get_variable("W", [])

        async def Waiting(x: tf.Tensor) -> tf.Tensor:
            return x

        for function in (Generating, Waiting):
            with pytest.raises(TypeError, match=f"{function.__name__} is a generator or a coroutine"):
                register_layer(function)

        @register_layer(use_scope=None)
        def Wrapping(x: tf.Tensor) -> Any:
            return Generating(x)

        for name in (["w"], []):
            with pytest.raises(TypeError, match=r"Wrapping.* returned a generator"):
                Wrapping(*name, tf.ones([]))

    def test_another_function_of_the_name_is_refused(self) -> None:
        def Conv2D(x: tf.Tensor) -> tf.Tensor:
            return x

        message = (
            r"'Conv2D' is already registered, by towerpack_layers\.nn\..*\.Conv2D; .*Conv2D cannot.*Rename"
        )
        with pytest.raises(DuplicateRegistrationError, match=message):
            register_layer(Conv2D)

    def test_function_without_input_is_refused(self) -> None:
        with pytest.raises(TypeError, match="Nothing needs a first parameter"):

            @register_layer
            def Nothing() -> None: ...

    @pytest.mark.parametrize("use_scope", [0, "yes"])
    def test_use_scope_is_checked(self, use_scope: Any) -> None:
        message = f"use_scope must be True, False or None, received {use_scope!r}"
        with pytest.raises(TypeError, match=message):
            register_layer(use_scope=use_scope)

    def test_layer_register_is_another_name(self, graph: tf.Graph) -> None:
        @layer_register(log_shape=False, use_scope=True)
        def OfOld(x: tf.Tensor) -> tf.Tensor:
            return x * 1

        @layer_register()
        def OfOldBare(x: tf.Tensor) -> tf.Tensor:
            return x * 1

        assert OfOld("a", tf.ones([])).name == "a/output:0"
        assert LinearWrap(tf.ones([])).OfOldBare("b")().name == "b/output:0"

    def test_without_a_scope(self, run: Run) -> None:
        @register_layer(use_scope=False)
        def Unscoped(x: tf.Tensor, by: float = 2.0) -> tf.Tensor:
            return tf.multiply(x, tf.get_variable("W", [], initializer=tf.constant_initializer(by)), "scaled")

        with argscope(Unscoped, by=4.0):
            assert run(Unscoped(tf.ones([]))) == 4.0
        message = r"Unscoped\('named'\): the layer is registered with use_scope=False.*use_scope=None"
        with pytest.warns(UserWarning, match=message) as caught:
            named = LinearWrap(tf.ones([])).Unscoped("named", by=3.0)()
        assert [warning.filename for warning in caught] == [__file__]
        assert named.name == "named/output:0"
        assert [v.op.name for v in tf.global_variables()] == ["W", "named/W"]

    def test_registries_are_objects(self) -> None:
        registry = LayerRegistry()
        registry.add(Shift)
        assert registry.names() == ["Shift"]
        assert registry.similar("shft") == ["Shift"]


def test_positional_arguments_win_over_argscope(run: Any) -> None:
    with argscope(Shift, by=5.0):
        explicit, scoped = Shift("a", tf.zeros([]), 2.0), Shift("b", tf.zeros([]))
    assert run([explicit, scoped]) == [2.0, 5.0]
