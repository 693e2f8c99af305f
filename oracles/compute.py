"""Computes every row of the table of layers, for the oracles: outputs and gradients in float32 and float64.

`python oracles/compute.py DIRECTORY` writes one file for each row, and for each case of ONNX that is there.
This is a separate process, since TensorFlow and PyTorch conflict in one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

sys.path.insert(0, str(Path(__file__).parent.parent / "packages/layers/tests"))

from layer_table import CASES

import towerpack_layers
from towerpack_layers import TowerContext
from towerpack_layers.testing import LayerCase

SCOPE = "layer/"


def main(directory: Path) -> None:
    """Writes the results of all rows, and of layers for ONNX' cases."""
    for number, case in enumerate(CASES):
        write_row(case, directory / f"row{number:03}.npz")
    for path in sorted(directory.glob("node*.npz")):
        answer_node(path)


def write_row(case: LayerCase, path: Path) -> None:
    """Writes the input, the variables, and the results of the layer."""
    x, values = case.draw_input(), draw_values(case)
    arrays = {"input": x, **{f"variables/{name}": value for name, value in values.items()}}
    for dtype in (tf.float32, tf.float64):
        if dtype == tf.float64 and refuses(case, dtype):
            continue
        arrays |= {f"{dtype.name}/{name}": value for name, value in run(case, x, values, dtype).items()}
    meta = {
        "name": case.name,
        "layer": case.layer.layer_name,
        "random": case.reference is None,
        "options": {key: value for key, value in case.options.items() if is_plain(value)},
    }
    arrays |= {
        f"options/{key}": value for key, value in case.options.items() if isinstance(value, np.ndarray)
    }
    np.savez(path, meta=json.dumps(meta), **arrays)


def is_plain(value: Any) -> bool:
    """Whether JSON can hold a value."""
    return isinstance(value, (str, int, float, tuple, list)) or value is None


def draw_values(case: LayerCase) -> dict[str, np.ndarray]:
    """Initial values of all variables, and away from these for what is trained."""
    random = np.random.default_rng(7)
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        tf.set_random_seed(7)
        with TowerContext("", is_training=True):
            case.build(tf.ones(case.shape, case.dtype))
        session.run(tf.global_variables_initializer())
        values = dict(zip(case.variables, session.run(tf.global_variables()), strict=True))
        for variable in tf.trainable_variables():
            name = variable.op.name.removeprefix(SCOPE)
            values[name] += (0.3 * random.normal(size=values[name].shape)).astype(values[name].dtype)
    return values


def refuses(case: LayerCase, dtype: tf.DType) -> bool:
    """Whether the layer takes no input of a dtype."""
    if not case.dtype.is_floating:
        return True
    with tf.Graph().as_default(), TowerContext("", is_training=True):
        try:
            case.build(tf.ones(case.shape, dtype))
        except TypeError:
            return True
    return False


def run(
    case: LayerCase, x: np.ndarray, values: dict[str, np.ndarray], dtype: tf.DType
) -> dict[str, np.ndarray]:
    """The output in training, and the gradient of its sum with random weights, which is there as well."""
    dtype = dtype if case.dtype.is_floating else case.dtype
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        place = tf.placeholder(dtype, case.shape)
        with TowerContext("", is_training=True):
            output = case.build(place)
        for variable in tf.global_variables():
            value = values[variable.op.name.removeprefix(SCOPE)]
            value = value.astype(variable.dtype.base_dtype.as_numpy_dtype)
            session.run(variable.initializer, {variable.initializer.inputs[1]: value})
        targets = {variable.op.name.removeprefix(SCOPE): variable for variable in tf.trainable_variables()}
        if dtype.is_floating:
            targets["input"] = place
        weight = np.random.default_rng(9).normal(size=output.shape.as_list()).astype(np.float32)
        gradients = tf.gradients(output, [*targets.values()], tf.constant(weight, output.dtype))
        found = dict(zip(targets, map(tf.convert_to_tensor, gradients), strict=True))
        feed = {place: x.astype(dtype.as_numpy_dtype)}
        numbers, slopes = session.run([output, found], feed)
    return {"output": numbers, "weight": weight, **{f"gradient/{name}": g for name, g in slopes.items()}}


def answer_node(path: Path) -> None:
    """Adds the result of the layer to a case of ONNX."""
    with np.load(path) as file:
        arrays = dict(file)
    meta = json.loads(str(arrays["meta"]))
    layer = getattr(towerpack_layers, meta["layer"])
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        with TowerContext("", is_training=meta["is_training"]):
            output = layer("layer", tf.constant(arrays["input"]), **meta["options"])
        for variable in tf.global_variables():
            name = variable.op.name.removeprefix(SCOPE)
            value = arrays.get(f"variables/{name}")
            if value is None:
                session.run(variable.initializer)
            else:
                session.run(variable.initializer, {variable.initializer.inputs[1]: value})
        arrays["output"] = session.run(output)
    np.savez(path, **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
