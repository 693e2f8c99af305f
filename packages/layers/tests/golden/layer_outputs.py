"""The content of a golden file of a layer: an input, variables by name, and the outputs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_layers import TowerContext
from towerpack_layers.testing import LayerCase

MODES = {"training": True, "evaluation": False}
Arrays = dict[str, np.ndarray]


def path_of(case: LayerCase) -> Path:
    """Where the golden file of a row lies."""
    return Path(__file__).parent / f"{re.sub(r'[^A-Za-z0-9]+', '_', case.name)}.npz"


def draw_values(case: LayerCase) -> Arrays:
    """Values of all variables, away from where they begin; those that are not trained stay positive."""
    random = np.random.default_rng(2016)
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        tf.set_random_seed(2016)
        with TowerContext("", is_training=True):
            case.build(tf.ones(case.shape, case.dtype))
        session.run(tf.global_variables_initializer())
        values = dict(zip(case.variables, session.run(tf.global_variables()), strict=True))
        trained = {variable.op.name.removeprefix("layer/") for variable in tf.trainable_variables()}
    for name, value in values.items():
        moved = random.normal(size=value.shape) if name in trained else random.uniform(size=value.shape)
        values[name] = (value + 0.3 * moved).astype(value.dtype)
    return values


def compute(case: LayerCase, x: np.ndarray, values: Mapping[str, np.ndarray]) -> Arrays:
    """The outputs in training and in evaluation, from values that are found by the variables' names."""
    found: Arrays = {}
    for mode, is_training in MODES.items():
        with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
            place = tf.placeholder(case.dtype, case.shape)
            with TowerContext("", is_training=is_training):
                outputs = tf.nest.flatten(case.build(place))
            for variable in tf.global_variables():
                value = values[variable.op.name.removeprefix("layer/")]
                session.run(variable.initializer, {variable.initializer.inputs[1]: value})
            for number, output in enumerate(session.run(outputs, {place: x})):
                found[f"{mode}/{number}"] = output
    return found
