"""Checks of a layer in towers: names and shared variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from ..tower import TowerContext
from ._built_layer import flatten, open_session, relative_names, run_initializers
from ._layer_under_test import LayerUnderTest
from ._ulp_distance import expect, expect_near

__all__ = ["check_names", "check_towers"]


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
