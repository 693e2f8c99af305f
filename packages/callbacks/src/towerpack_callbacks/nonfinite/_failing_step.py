"""Writes a failing step (graph, variables, batch) to a folder, and runs it again from the folder."""

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
_TEXT = ".tensor_proto"  # suffix of names of arrays with text in TensorFlow's encoding


def write_folder(
    folder: Path,
    sess: tf.Session,
    targets: Sequence[tf.Tensor],
    batch: Mapping[str, Any],
    report: str,
) -> None:
    """Writes all data that `replay` needs, and a readable report."""
    folder.mkdir(parents=True, exist_ok=True)
    with sess.graph.as_default():
        variables = [*tf.global_variables(), *tf.local_variables()]
        # In the calling thread, which may be a thread of the session.
        options = tf.RunOptions(inter_op_thread_pool=-1)
        values = sess.run([sess.graph.as_graph_element(v) for v in variables], options=options)
    _write_values(folder / _VARIABLES, {v.op.name: value for v, value in zip(variables, values)})
    _write_values(folder / _BATCH, batch)
    step = {
        "targets": [tensor.name for tensor in targets],
        # An initializer assigns its second input, so feeding that input assigns any value.
        "initializers": {v.op.name: [v.initializer.name, v.initializer.inputs[1].name] for v in variables},
    }
    (folder / _STEP).write_text(json.dumps(step, indent=1), encoding="utf-8")
    (folder / _GRAPH).write_bytes(sess.graph.as_graph_def().SerializeToString())
    (folder / _REPORT).write_text(report + "\n", encoding="utf-8")


def replay(folder: str | Path) -> Origin | None:
    """Runs the step of a folder again, in a new graph and session.

    Args:
        folder: a folder that `TerminateOnNaN` left.

    Returns:
        The origin of the non-finite values; None if all values are finite this time.

    Raises:
        FileNotFoundError: `folder` was not written by `TerminateOnNaN`.
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
        # NumPy would pickle texts of different lengths, and lose trailing zero bytes of texts of equal
        # length.
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
