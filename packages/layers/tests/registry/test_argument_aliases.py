from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from layer_table import CASES

from towerpack_layers import (
    AvgPooling,
    BatchNorm,
    Conv2D,
    FullyConnected,
    LayerArgumentError,
    LinearWrap,
    MaxPooling,
    TowerContext,
    argscope,
    get_arg_scope,
    register_layer,
)
from towerpack_layers.testing import LayerCase

IMAGE = [2, 6, 6, 3]
ZEROS, ONES = tf.zeros_initializer(), tf.ones_initializer()

SPELLINGS = [
    (Conv2D, {"out_channel": 4, "kernel_shape": 3}, {"filters": 4, "kernel_size": 3}),
    (Conv2D, {"filters": 4, "kernel_size": 3, "stride": 2}, {"filters": 4, "kernel_size": 3, "strides": 2}),
    (
        Conv2D,
        {"filters": 4, "kernel_size": 3, "W_init": ONES, "b_init": ONES},
        {"filters": 4, "kernel_size": 3, "kernel_initializer": ONES, "bias_initializer": ONES},
    ),
    (
        FullyConnected,
        {"out_dim": 4, "W_init": ONES, "nl": tf.nn.tanh},
        {"units": 4, "kernel_initializer": ONES, "activation": tf.nn.tanh},
    ),
    (MaxPooling, {"shape": 2, "stride": 1}, {"pool_size": 2, "strides": 1}),
    (AvgPooling, {"shape": 3}, {"pool_size": 3}),
    (BatchNorm, {"use_local_stat": True, "decay": 0.5}, {"training": True, "momentum": 0.5}),
    (BatchNorm, {"gamma_init": ZEROS, "use_bias": False}, {"gamma_initializer": ZEROS, "center": False}),
    (BatchNorm, {"use_scale": False, "ema_update": "default"}, {"scale": False, "ema_update": "collection"}),
]


def description(graph: tf.Graph) -> str:
    return str(graph.as_graph_def())


@pytest.mark.parametrize(("layer", "old", "new"), SPELLINGS)
def test_old_and_new_spellings_build_one_graph(layer: Any, old: dict[str, Any], new: dict[str, Any]) -> None:
    graphs = []
    for arguments in (old, new):
        with tf.Graph().as_default() as graph, TowerContext("", is_training=True):
            tf.set_random_seed(1)
            if arguments is new:
                layer("layer", tf.ones(IMAGE), **new)
            else:
                with pytest.warns(DeprecationWarning) as caught:
                    layer("layer", tf.ones(IMAGE), **old)
                messages = [str(warning.message) for warning in caught]
                assert [warning.filename for warning in caught] == [__file__] * len(messages)
        graphs.append(description(graph))
    assert graphs[0] == graphs[1]
    changed = [name for name in new if old.get(name) != new[name]]
    for message, name in zip(messages, changed, strict=True):
        assert message.startswith(f"{layer.layer_name}('layer'): ")
        assert f" is an old spelling; write {name}=" in message


def test_in_an_argscope(graph: tf.Graph) -> None:
    message = r"argscope of Conv2D: nl= is an old spelling; write activation="
    with pytest.warns(DeprecationWarning, match=message) as caught, argscope(Conv2D, nl=tf.nn.relu):
        assert get_arg_scope() == {"Conv2D": {"activation": tf.nn.relu}}
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(DeprecationWarning), argscope([Conv2D, MaxPooling], stride=2):
        assert get_arg_scope() == {"Conv2D": {"strides": 2}, "MaxPooling": {"strides": 2}}
        assert Conv2D("c", tf.ones(IMAGE), 4, 3).shape.as_list() == [2, 3, 3, 4]


def test_a_call_wins_over_an_argscope_in_either_spelling(graph: tf.Graph) -> None:
    with pytest.warns(DeprecationWarning), argscope(Conv2D, out_channel=4, kernel_size=3):
        assert Conv2D("a", tf.ones(IMAGE), out_channel=5).shape.as_list()[3] == 5
        assert Conv2D("b", tf.ones(IMAGE), filters=6).shape.as_list()[3] == 6


def test_by_linearwrap_the_warning_points_to_the_call(graph: tf.Graph) -> None:
    with pytest.warns(DeprecationWarning, match=r"FullyConnected\('fc'\): out_dim=") as caught:
        LinearWrap(tf.ones(IMAGE)).FullyConnected("fc", out_dim=3)
    assert [warning.filename for warning in caught] == [__file__]


def test_both_spellings_are_an_error(graph: tf.Graph) -> None:
    message = r"Conv2D\('c'\): nl= is an old spelling of activation=, which is also given: give only one of"
    for arguments in ({"nl": None, "activation": None}, {"activation": None, "nl": None}):
        with pytest.raises(LayerArgumentError, match=message):
            Conv2D("c", tf.ones(IMAGE), 4, 3, **arguments)
    assert tf.global_variables() == []


def test_arguments_of_no_layer_are_errors(graph: tf.Graph) -> None:
    with pytest.raises(LayerArgumentError, match=r"unexpected keyword argument 'out_dim'.*takes: filters"):
        Conv2D("c", tf.ones(IMAGE), 4, 3, out_dim=3)
    with pytest.raises(LayerArgumentError, match="argscope: MaxPooling does not take 'nl'"):
        argscope(MaxPooling, nl=tf.nn.relu)


def test_a_layers_own_arguments_are_its_own(graph: tf.Graph) -> None:
    @register_layer
    def Own(x: tf.Tensor, stride: int = 1, strides: int = 1, **others: Any) -> Any:
        return stride, strides, others

    @register_layer
    def Newer(x: tf.Tensor, activation: Any = None) -> Any:
        return activation

    assert Own("o", tf.ones([]), stride=3, nl=4) == (3, 1, {"nl": 4})
    with pytest.warns(DeprecationWarning, match="write activation="):
        assert Newer("n", tf.ones([]), nl=5) == 5


OLD = {
    "filters": "out_channel",
    "kernel_size": "kernel_shape",
    "strides": "stride",
    "units": "out_dim",
    "pool_size": "shape",
}
WITH_OLD = [case for case in CASES if case.options.keys() & OLD]


@pytest.mark.parametrize("case", WITH_OLD, ids=[case.name for case in WITH_OLD])
def test_every_layer_takes_them(graph: tf.Graph, case: LayerCase) -> None:
    options = {OLD.get(name, name): value for name, value in case.options.items()}
    with TowerContext("", is_training=True), pytest.warns(DeprecationWarning) as caught:
        case.layer("layer", tf.ones(case.shape, case.dtype), **options)
    assert len(caught) == len(case.options.keys() & OLD)
    assert [v.op.name for v in tf.global_variables()] == [f"layer/{name}" for name in case.variables]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.parametrize("kind", [np.int64, np.uint8])
def test_integers_of_numpy_are_sizes(case: LayerCase, kind: Any) -> None:
    def of_numpy(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(of_numpy, value))
        is_size = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        return kind(value) if is_size else value

    shapes = []
    for options in (case.options, {name: of_numpy(value) for name, value in case.options.items()}):
        with tf.Graph().as_default(), TowerContext("", is_training=True):
            out = case.layer("layer", case.inputs(tf.ones(case.shape, case.dtype)), **options)
            shapes.append([getattr(out, "shape", None), *(v.shape for v in tf.global_variables())])
    assert shapes[0] == shapes[1]
