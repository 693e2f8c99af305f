"""Writes a failing step to a folder, runs it again, and traces non-finite values to their origin."""

from __future__ import annotations

import json
import linecache
import re
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.framework.tensor_pb2 import TensorProto

from ..graph import creation_order, find_ancestors, reads_variable
from ..writing import write_archive

__all__ = ["Origin", "find_origin", "replay", "write_folder"]


_OURS = re.compile(r"[/\\]towerpack_(callbacks|inputsource|layers|trainers)[/\\]")
_AT_ONCE = 64  # tensors fetched in one run: enough for speed, few enough for the memory


@final
@attrs.frozen
class Origin:
    """The origin of non-finite values.

    Attributes:
        op: name of the op.
        kind: "op" if the op made them from finite values; "variable" if it only reads them; "input" if they
            came with the batch.
        text: a description with shapes, values and the line of the model.
    """

    op: str
    kind: str
    text: str


def find_origin(sess: tf.Session, targets: Sequence[tf.Tensor], batch: Mapping[str, Any]) -> Origin | None:
    """Runs the dependencies of the targets and finds the first op with a non-finite output.

    Infinite values that do not reach a target, such as those not selected by a `tf.where`, are ignored.

    Args:
        sess: a session with the variables of the failing step; its graph may be final.
        targets: tensors to check, such as gradients.
        batch: values of data and random numbers in the failing step, by tensor name.

    Returns:
        The origin; None if all targets are finite this time.
    """
    order = creation_order(sess.graph)
    # In a call for every few tensors, in the calling thread, which may be a thread of the session.
    options = tf.RunOptions(inter_op_thread_pool=-1)
    with sess.graph.as_default():

        def run(tensors: Sequence[tf.Tensor]) -> list[Any]:
            values: list[Any] = sess.run([t.name for t in tensors], dict(batch), options=options)
            return values

        fed = [sess.graph.get_tensor_by_name(name) for name in batch]
        bad = _not_finite(_floating([*fed, *_outputs(find_ancestors(targets, fed), order)]), run)
        reached = _reached_from([target for target in targets if target.name in bad], bad, batch)
        if not reached:
            return None
        first = min(reached, key=lambda tensor: order[tensor.op.name])
        return _describe(first, run, came_with_batch=first.name in batch)


def _outputs(ops: set[tf.Operation], order: Mapping[str, int]) -> list[tf.Tensor]:
    return [tensor for op in sorted(ops, key=lambda op: order[op.name]) for tensor in op.outputs]


def _floating(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    return [
        tensor
        for tensor in tensors
        if (tensor.dtype.is_floating or tensor.dtype.is_complex) and not tensor.dtype._is_ref_dtype
    ]


def _not_finite(tensors: list[tf.Tensor], run: Any) -> set[str]:
    bad = set()
    for start in range(0, len(tensors), _AT_ONCE):
        some = tensors[start : start + _AT_ONCE]
        bad |= {t.name for t, value in zip(some, run(some)) if not _all_finite(value)}
    return bad


def _reached_from(pending: list[tf.Tensor], bad: set[str], batch: Mapping[str, Any]) -> list[tf.Tensor]:
    """Finds all non-finite tensors that reach the given ones through non-finite tensors only."""
    reached: dict[str, tf.Tensor] = {}
    while pending:
        tensor = pending.pop()
        if tensor.name not in reached:
            reached[tensor.name] = tensor
            if tensor.name not in batch:
                pending.extend(i for i in tensor.op.inputs if i.name in bad)
    return list(reached.values())


def _describe(tensor: tf.Tensor, run: Any, came_with_batch: bool) -> Origin:
    """Describes an op, its inputs and its output."""
    op = tensor.op
    (value,) = run([tensor])
    what = _describe_value(tensor, value)
    if came_with_batch:
        return Origin(op.name, "input", f"It came with the input: {what}.")
    if reads_variable(op):
        variable = op.inputs[0].op.name if op.inputs else op.name
        return Origin(op.name, "variable", f"It was in the variable {variable!r} before this step: {what}.")
    lines = [f"The first op that made it is {op.name!r} ({op.type}): {what}."]
    inputs = [i for i in op.inputs if i.dtype not in {tf.resource, tf.variant, tf.string}]
    lines += [f"  from {_describe_value(i, v)}" for i, v in zip(inputs, run(inputs))]
    # A gradient op refers to its forward op.
    original = getattr(op, "_original_op", None)
    if original is not None:
        lines.append(f"  in the gradient of {original.name!r}")
    where = _line_of_model(op if original is None else original)
    if where:
        lines.append(f"  made at {where}")
    return Origin(op.name, "op", "\n".join(lines))


def _describe_value(tensor: tf.Tensor, value: Any) -> str:
    array = np.asarray(value)
    text = f"{tensor.name} {array.dtype}{list(array.shape)}"
    if array.dtype.kind not in "fiub" or not array.size:
        return text
    # Half-precision types of other packages support few functions.
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    nans, infinite = int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum())
    if nans or infinite:
        text += f" with {nans} NaN and {infinite} infinite of {array.size}"
    return text + (f" between {finite.min():.6g} and {finite.max():.6g}" if finite.size else "")


def _all_finite(value: Any) -> bool:
    array = np.asarray(value)
    if array.dtype.kind not in "fc":  # bfloat16 and similar types
        array = array.astype(np.float32)
    return bool(np.isfinite(array).all())


def _line_of_model(op: tf.Operation) -> str:
    """Returns the innermost line of code outside of TensorFlow, Towerpack and Python."""
    libraries = tuple(sysconfig.get_paths()[place] for place in ("stdlib", "purelib", "platlib"))
    for frame in reversed(list(op.traceback or ())):
        if not frame.filename.startswith(libraries) and not _OURS.search(frame.filename):
            line = linecache.getline(frame.filename, frame.lineno).strip()
            return f"{frame.filename}:{frame.lineno}: {line}"
    return ""


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
