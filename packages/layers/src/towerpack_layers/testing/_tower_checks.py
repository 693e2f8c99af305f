"""Checks of a layer in towers, of its errors and of its docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from ..tower._tower_context import TowerContext
from ._layer_under_test import (
    ConformanceError,
    LayerUnderTest,
    expect,
    expect_near,
    flatten,
    open_session,
    relative_names,
    run_initializers,
)

__all__ = ["check_docstring", "check_names", "check_towers", "check_wrong_inputs"]


def check_names(layer: LayerUnderTest) -> None:
    """Checks the names of the output and of the variables, in training and in inference."""
    for is_training in (True, False):
        mode = "training" if is_training else "inference"
        with tf.Graph().as_default():
            x = tf.placeholder(layer.case.dtype, layer.case.shape, "x")
            with tf.variable_scope("net"), TowerContext("tower", is_training=is_training):
                out = layer.case.build(x)
            received = relative_names(tf.global_variables(), "net/layer/")
            expect(
                tuple(received) == tuple(layer.case.variables),
                f"in {mode}, the variables must be {list(layer.case.variables)} in the layer's scope, "
                f"received {received}",
            )
            if tf.is_tensor(out):
                expect(
                    out.name == "tower/layer/output:0",
                    f"in {mode}, the output must have the name 'tower/layer/output:0', received {out.name!r}",
                )


def check_towers(layer: LayerUnderTest) -> None:
    """Checks that a second tower and an evaluation share and use all variables."""
    case = layer.case
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(case.dtype, case.shape, "x")
        outputs = []
        for index in range(2):
            with TowerContext(f"tower{index}", is_training=True, index=index, num_towers=2, reuse=index > 0):
                outputs.append(flatten(case.build(x)))
            _expect_no_more(layer, f"tower {index} of 2")
        with TowerContext("evaluation", is_training=False, reuse=True):
            outputs.append(flatten(case.build(x)))
        _expect_no_more(layer, "an evaluation")
        if not layer.is_deterministic:
            return
        first, second = _run_each(layer, graph, x, outputs[:2])
    for value, wanted, tensor in zip(second, first, outputs[0]):
        dtype = tensor.dtype if tensor.dtype.is_floating else tf.float32
        expect_near("the output of the second tower", value, wanted, dtype, case.tolerance)


def _run_each(
    layer: LayerUnderTest, graph: tf.Graph, x: tf.Tensor, towers: list[list[Any]]
) -> list[list[np.ndarray]]:
    """Runs each tower from the given values, since one may change state that the other reads."""
    received = []
    with open_session(graph) as session:
        for outputs in towers:
            run_initializers(session, layer.values)
            received.append(list(session.run(outputs, {x: layer.x})))
    return received


def _expect_no_more(layer: LayerUnderTest, where: str) -> None:
    received = relative_names(tf.global_variables())
    expect(
        received == list(layer.case.variables),
        f"{where} must share the variables {list(layer.case.variables)}, received {received}",
    )
    trained = [variable.name for variable in tf.trainable_variables()]
    expect(
        len(trained) == len(set(trained)),
        f"{where} must not add a variable to the trained ones again, received {trained}",
    )


def check_wrong_inputs(layer: LayerUnderTest) -> None:
    """Checks that wrong inputs raise a specific error before a variable is created."""
    case = layer.case
    _expect_error(
        "a str as the input",
        lambda: case.layer("layer", "image", **case.options),
        TypeError,
        "received str",
    )
    _expect_error(
        "an input of unknown rank",
        lambda: case.build(tf.placeholder(case.dtype)),
        ValueError,
        "rank",
    )


def check_docstring(layer: LayerUnderTest) -> None:
    """Checks that the docstring describes each argument and the result, and has an example."""
    text = inspect.getdoc(layer.case.layer) or ""
    for section in ("Args:", "Returns:", "Example:"):
        expect(section in text, f"the docstring must have a section {section!r}, received {text[:200]!r}")
    for parameter in inspect.signature(layer.case.layer.layer_info.function).parameters:
        described = any(f"    {stars}{parameter}: " in text for stars in ("", "*", "**"))
        expect(described, f"the docstring must describe {parameter!r} in its section 'Args:'")


def _expect_error(what: str, build: Callable[[], Any], error: type[Exception], text: str) -> None:
    wanted = f"{what} must raise a {error.__name__} that says {text!r}"
    with tf.Graph().as_default():
        try:
            with TowerContext("", is_training=True):
                build()
        except Exception as received:
            expect(
                isinstance(received, error) and text in str(received),
                f"{wanted}, received {type(received).__name__}: {received}",
            )
        else:
            raise ConformanceError(f"{wanted}, received no error.")
        made = [variable.name for variable in tf.global_variables()]
        expect(not made, f"{what} must raise its error before a variable is created, received {made}")
