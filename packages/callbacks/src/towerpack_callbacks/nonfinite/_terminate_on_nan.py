"""Stops a training at the first non-finite value, and reports its origin."""

from __future__ import annotations

import json
import linecache
import logging
import re
import shlex
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.framework.tensor_pb2 import TensorProto

from .._errors import NonFiniteError, TensorNotFoundError
from ..callback._callback import Callback, StepFetch
from ..graph import (
    as_names,
    creation_order,
    find_ancestors,
    find_applied_gradients,
    reads_variable,
    sources_of,
)
from ..writing._atomic_write import write_archive

__all__ = ["NonFiniteOrigin", "TerminateOnNaN", "find_origin", "replay", "write_folder"]

_OURS = re.compile(r"[/\\]towerpack_(callbacks|inputsource|layers|trainers)[/\\]")
_AT_ONCE = 64  # tensors fetched in one run: enough for speed, few enough for the memory
# For calls in a thread of the session, which must not wait for another one.
_IN_CALLING_THREAD = tf.RunOptions(inter_op_thread_pool=-1)


@final
@attrs.frozen
class NonFiniteOrigin:
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


def find_origin(
    sess: tf.Session, targets: Sequence[tf.Tensor], batch: Mapping[str, Any]
) -> NonFiniteOrigin | None:
    """Runs the dependencies of the targets and finds the first op with a non-finite output.

    Infinite values that do not reach a target, such as those not selected by a `tf.where`, are ignored.

    Args:
        sess: a session with the variables of the failing step; its graph may be final.
        targets: tensors to check, such as gradients.
        batch: values of data and random numbers in the failing step, by tensor name.

    Returns:
        The origin; None if all targets are finite this time.
    """
    return _find_origin(sess, targets, batch, _IN_CALLING_THREAD)


def _find_origin(
    sess: tf.Session, targets: Sequence[tf.Tensor], batch: Mapping[str, Any], options: tf.RunOptions | None
) -> NonFiniteOrigin | None:
    order = creation_order(sess.graph)
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


def _describe(tensor: tf.Tensor, run: Any, came_with_batch: bool) -> NonFiniteOrigin:
    """Describes an op, its inputs and its output."""
    op = tensor.op
    (value,) = run([tensor])
    what = _describe_value(tensor, value)
    if came_with_batch:
        return NonFiniteOrigin(op.name, "input", f"It came with the input: {what}.")
    if reads_variable(op):
        variable = op.inputs[0].op.name if op.inputs else op.name
        return NonFiniteOrigin(
            op.name, "variable", f"It was in the variable {variable!r} before this step: {what}."
        )
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
    return NonFiniteOrigin(op.name, "op", "\n".join(lines))


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
        reads = [sess.graph.as_graph_element(variable) for variable in variables]
        values = sess.run(reads, options=_IN_CALLING_THREAD)
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


def replay(folder: str | Path) -> NonFiniteOrigin | None:
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
            # In TensorFlow's threads, which flush denormal numbers (below 1e-38) to zero, as in the training.
            return _find_origin(sess, targets, _read_values(folder / _BATCH), options=None)


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


_log = logging.getLogger("towerpack_callbacks")

_FINE_NOW = "In a second run with the same batch and variables all values were finite: the step is random."
_WRITES = {"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"}


@final
class TerminateOnNaN(Callback):
    """Ends the training with `NonFiniteError` when a gradient is infinite or NaN, and names the op.

    It checks the gradients before the optimizer applies them: weights are unchanged. Then it runs the step
    again from the same batch and weights, traces the values back, and names the first op that made one, with
    the shapes and ranges of its inputs and the line of the model. It writes batch, variables and graph to
    `nonfinite-<step>` in the log directory; `python -m towerpack_callbacks.nonfinite FOLDER` then finds the
    same op without the model's code.

    The check reads all gradients in each step, and the first update waits for the last gradient. Use it in
    trainings with one training op; several training ops would wait for each other.

    Args:
        names: names of other tensors to check. None: "cost" if the model has a tensor of that name, since a
            cost may be NaN while its gradients are finite.

    Raises:
        ValueError: (at set-up) no gradient is found, and no names are given.

    Example:
        >>> callbacks = [TerminateOnNaN(["cost", "fc1/output"])]
    """

    chief_only = False

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self._names = None if names is None else as_names(names)
        self._gate: tf.Operation | None = None

    def _setup_graph(self) -> None:
        applied = find_applied_gradients(self.graph)
        self._watched = [*self._find_named(), *(one.gradient for one in applied)]
        if not self._watched:
            raise ValueError(
                "TerminateOnNaN finds no optimizer's update in the graph, and no names were given. "
                'Give the names of tensors to check: TerminateOnNaN(["cost"]).'
            )
        self._sources = sources_of(self._watched)
        flags = [tf.reduce_all(tf.math.is_finite(tensor)) for tensor in self._watched]
        finite = tf.reduce_all(tf.stack(flags))
        # The batch is an input of the branch that is rarely taken, so it is available there, and is not moved
        # otherwise.
        checked = tf.cond(
            finite, lambda: tf.constant(True), lambda: tf.numpy_function(self._fail, self._sources, tf.bool)
        )
        self._hold_back([one.op for one in applied], checked.op)
        self._gate = None if applied else checked.op

    def _find_named(self) -> list[tf.Tensor]:
        if self._names is not None:
            return self.trainer.get_tensors(self._names)
        try:
            return [cost for cost in self.trainer.get_tensors(["cost"]) if cost.dtype.is_floating]
        except TensorNotFoundError:
            return []

    def _hold_back(self, updates: Sequence[tf.Operation], gate: tf.Operation) -> None:
        """Makes the ops that change variables wait until all gradients are checked."""
        collected = [getattr(op, "op", op) for op in self.graph.get_collection(tf.GraphKeys.UPDATE_OPS)]
        statistics = {
            op
            for op in find_ancestors(op for op in collected if op.graph is self.graph)
            if op.type in _WRITES
        }
        needed = find_ancestors([gate])
        for op in (*updates, *statistics):
            if op not in needed:
                op._add_control_input(gate)

    def step_fetches(self) -> Sequence[StepFetch]:
        return [] if self._gate is None else [StepFetch(self._gate)]

    def _fail(self, *values: Any) -> np.bool_:
        """Runs within the failing step, in a thread of the session, before any update."""
        step = self.global_step + 1
        try:
            raise NonFiniteError(
                f"In step {step} a gradient or another checked value became infinite or NaN.\n"
                f"{self._explain(step, values)}"
            )
        except NonFiniteError as error:
            self.trainer.coord.request_stop(error)  # so that the loop raises the same error
            raise

    def _explain(self, step: int, values: Sequence[Any]) -> str:
        batch = {tensor.name: value for tensor, value in zip(self._sources, values)}
        try:
            origin = find_origin(self.trainer.sess, self._watched, batch)
        except Exception as error:
            _log.exception("The search for the first non-finite value failed")
            return f"The search for its origin failed: {error}"
        report = _FINE_NOW if origin is None else origin.text
        if self.log_dir is None:
            return report
        folder = self.log_dir / f"nonfinite-{step}"
        try:
            write_folder(folder, self.trainer.sess, self._watched, batch, report)
        except OSError as error:
            return f"{report}\nThe folder {folder} for reproducing it could not be written: {error}"
        return (
            f"{report}\nReproduce it with: python -m towerpack_callbacks.nonfinite {shlex.quote(str(folder))}"
        )
