"""Writes a failing step to a folder (graph, variables, batch), and runs it again from there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.framework.tensor_pb2 import TensorProto

from ..writing import write_archive
from ._find_origin import Origin, find_origin

__all__ = ["replay", "write_folder"]

_GRAPH, _STEP, _REPORT = "graph.pb", "step.json", "report.txt"
_VARIABLES, _BATCH = "variables.npz", "batch.npz"
_TEXT = ".tensor_proto"  # ends the names of arrays that hold text as TensorFlow writes it


def write_folder(
    folder: Path,
    sess: tf.Session,
    targets: Sequence[tf.Tensor],
    batch: Mapping[str, Any],
    report: str,
) -> None:
    """Writes everything that `replay` needs, and the report for humans."""
    folder.mkdir(parents=True, exist_ok=True)
    with sess.graph.as_default():
        variables = [*tf.global_variables(), *tf.local_variables()]
        # In the calling thread: it may be one of the session's own.
        options = tf.RunOptions(inter_op_thread_pool=-1)
        values = sess.run([sess.graph.as_graph_element(v) for v in variables], options=options)
    _write_values(folder / _VARIABLES, {v.op.name: value for v, value in zip(variables, values)})
    _write_values(folder / _BATCH, batch)
    step = {
        "targets": [tensor.name for tensor in targets],
        # An initializer assigns its second input, so feeding that assigns anything.
        "initializers": {v.op.name: [v.initializer.name, v.initializer.inputs[1].name] for v in variables},
    }
    (folder / _STEP).write_text(json.dumps(step, indent=1), encoding="utf-8")
    (folder / _GRAPH).write_bytes(sess.graph.as_graph_def().SerializeToString())
    (folder / _REPORT).write_text(report + "\n", encoding="utf-8")


def replay(folder: str | Path) -> Origin | None:
    """Runs the step of a folder again, in a graph and session of its own.

    Args:
        folder: a folder that `TerminateOnNaN` left.

    Returns:
        Where values that are not finite begin; None if all are finite this time.

    Raises:
        FileNotFoundError: `folder` is no folder that `TerminateOnNaN` left.
    """
    folder = Path(folder)
    step = json.loads((folder / _STEP).read_text(encoding="utf-8"))
    definition = tf.GraphDef.FromString((folder / _GRAPH).read_bytes())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        config = tf.ConfigProto(allow_soft_placement=True)
        with tf.Session(config=config) as sess:
            variables = _read_values(folder / _VARIABLES)
            for name, (initializer, value) in step["initializers"].items():
                sess.run(graph.get_operation_by_name(initializer), {value: variables[name]})
            targets = [graph.get_tensor_by_name(name) for name in step["targets"]]
            return find_origin(sess, targets, _read_values(folder / _BATCH))


def _write_values(path: Path, values: Mapping[str, Any]) -> None:
    arrays = {name: np.asarray(value) for name, value in values.items()}
    for name in [name for name, array in arrays.items() if array.dtype.kind in "OS"]:
        # NumPy would pickle texts of several lengths, and lose zero bytes at the end of those of one.
        proto = tf.make_tensor_proto(arrays.pop(name), tf.string)
        arrays[name + _TEXT] = np.frombuffer(proto.SerializeToString(), np.uint8)
    write_archive(path, arrays)


def _read_values(path: Path) -> dict[str, Any]:
    with np.load(path) as arrays:
        values: dict[str, Any] = dict(arrays)
    for name in [name for name in values if name.endswith(_TEXT)]:
        proto = TensorProto.FromString(values.pop(name).tobytes())
        values[name.removesuffix(_TEXT)] = tf.make_ndarray(proto)
    return values
