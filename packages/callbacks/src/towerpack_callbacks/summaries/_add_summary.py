"""Functions and callbacks that declare a model's summaries: averages, variances, gradient norms."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from ..callback._callback import Callback, StepFetch
from ..callback._every import EVERY_EPOCH, Every, as_every, check_count
from ..graph import as_names, find_applied_gradients

__all__ = [
    "MOVING_SUMMARIES",
    "BatchVariance",
    "GradientNorm",
    "SimpleMovingAverage",
    "add_activation_summary",
    "add_moving_summary",
    "add_param_summary",
    "add_tensor_summary",
    "is_of_input",
    "summary_tag",
]


MOVING_SUMMARIES = "MOVING_SUMMARIES"
"""Graph collection of scalar tensors; any library may add to it without importing this one."""

_TOWER_PREFIX = re.compile(r"^tower\d+/")


def summary_tag(name: str) -> str:
    """Returns the name of a statistic: without tower prefix, output number and "-summary".

    Example:
        >>> summary_tag("tower0/fc1/cost-summary:0")
        'fc1/cost'
    """
    return _TOWER_PREFIX.sub("", name).split(":")[0].removesuffix("-summary")


def is_of_input(tag: str) -> bool:
    """Returns whether a statistic was declared by an input, not by the user's model or a callback."""
    return tag.endswith("/queue_size")


def add_moving_summary(*scalars: tf.Tensor | Sequence[tf.Tensor], collection: str = MOVING_SUMMARIES) -> None:
    """Declares moving averages of scalars: updated each step, written each epoch by `MovingAverageSummary`.

    It adds no op: `MovingAverageSummary` keeps the averages in a local variable of the graph and in the state
    of a checkpoint.

    Args:
        scalars: scalar tensors of any number type, or lists of them. Each is recorded under the name of its
            op.
        collection: the graph collection to add them to, for a custom `MovingAverageSummary`.

    Raises:
        TypeError: a value is not a tensor.
        ValueError: a tensor is not a scalar.

    Example:
        ```python
        cost = tf.reduce_mean(losses, name="cost")
        add_moving_summary(cost)
        ```
    """
    for scalar in _flatten(scalars):
        _check_tensor("add_moving_summary", scalar)
        if scalar.shape.rank != 0:
            raise ValueError(
                f"add_moving_summary takes scalars, received {scalar.name!r} of shape {scalar.shape}. "
                "Reduce it first, for example by tf.reduce_mean."
            )
        tf.add_to_collection(collection, scalar)


def _flatten(scalars: Iterable[tf.Tensor | Sequence[tf.Tensor]]) -> Iterable[tf.Tensor]:
    for item in scalars:
        if isinstance(item, (list, tuple)):
            yield from item
        else:
            yield item


def _rms(x: tf.Tensor) -> tf.Tensor:
    return tf.sqrt(tf.reduce_mean(tf.square(tf.cast(x, tf.float32))))


def _scalar(tag: str, x: tf.Tensor) -> tf.Tensor:
    # tf.summary would change a tag that is already the name of an op, often of the tensor itself.
    return tf.raw_ops.ScalarSummary(tags=tag, values=x)


_SUMMARIES: dict[str, Callable[[str, tf.Tensor], tf.Tensor]] = {
    "histogram": lambda tag, x: tf.raw_ops.HistogramSummary(tag=f"{tag}/histogram", values=x),
    "mean": lambda tag, x: _scalar(f"{tag}/mean", tf.reduce_mean(tf.cast(x, tf.float32))),
    "rms": lambda tag, x: _scalar(f"{tag}/rms", _rms(x)),
    "scalar": _scalar,
    "sparsity": lambda tag, x: _scalar(f"{tag}/sparsity", tf.nn.zero_fraction(x)),
}


def add_tensor_summary(
    x: tf.Tensor,
    types: Sequence[str],
    name: str | None = None,
    collections: Sequence[str] = (tf.GraphKeys.SUMMARIES,),
) -> None:
    """Adds summaries of a tensor, which `MergeAllSummaries` writes once per epoch.

    In a replicated model, only the summaries of the main training tower count, as with `tf.summary`.

    Args:
        x: a tensor of any number type.
        types: the kinds of summary wanted: of "histogram", "mean", "rms", "scalar", "sparsity".
        name: name of the statistics; by default the tensor's, without the tower's prefix. "scalar" is
            recorded under it, the others as "<name>/rms" and so on.
        collections: graph collections to add them to.

    Raises:
        TypeError: `x` is not a tensor.
        ValueError: a kind of summary is unknown, or "scalar" is requested of a non-scalar tensor.

    Example:
        ```python
        add_tensor_summary(logits, ["mean", "histogram"])
        ```
    """
    _check_types("add_tensor_summary", types)
    _check_tensor("add_tensor_summary", x)
    if "scalar" in types and x.shape.rank != 0:
        raise ValueError(
            f"add_tensor_summary: 'scalar' needs a scalar, received {x.name!r} of shape {x.shape}. "
            "Use 'mean', or another kind."
        )
    _add("add_tensor_summary", summary_tag(x.name) if name is None else name, x, types, collections)


def add_activation_summary(
    x: tf.Tensor,
    types: Sequence[str] = ("sparsity", "rms", "histogram"),
    name: str | None = None,
    collections: Sequence[str] = (tf.GraphKeys.SUMMARIES,),
) -> None:
    """Adds summaries of a layer's output: its sparsity, magnitude and distribution.

    Args:
        x: floating tensor with a batch and at least one more axis.
        types: see `add_tensor_summary`.
        name: see `add_tensor_summary`.
        collections: see `add_tensor_summary`.

    Raises:
        TypeError: `x` is not a tensor.
        ValueError: a kind of summary is unknown, or the tensor is not an activation.

    Example:
        ```python
        add_activation_summary(Conv2D("conv0", image, 32, 3, activation=tf.nn.relu))
        ```
    """
    _check_tensor("add_activation_summary", x)
    if not x.dtype.is_floating or (x.shape.rank is not None and x.shape.rank < 2):
        raise ValueError(
            f"add_activation_summary takes a floating tensor of two axes or more, received {x.name!r} of "
            f"type {x.dtype.name} and shape {x.shape}. Use add_tensor_summary, or add_moving_summary."
        )
    add_tensor_summary(x, types, name, collections)


def add_param_summary(*rules: tuple[str, Sequence[str]]) -> None:
    """Adds summaries of trainable variables with a fully matching name, written once per epoch.

    Args:
        rules: pairs of a regular expression and the kinds of summary wanted: of "histogram", "mean", "rms",
            "scalar", "sparsity".

    Raises:
        ValueError: an unknown kind of summary.

    Example:
        ```python
        add_param_summary((".*/W", ["histogram", "rms"]))
        ```
    """
    for _, kinds in rules:
        _check_types("add_param_summary", kinds)
    for variable in tf.trainable_variables():
        for regex, kinds in rules:
            if re.fullmatch(regex, variable.op.name):
                _add("add_param_summary", variable.op.name, variable, kinds, (tf.GraphKeys.SUMMARIES,))


def _check_tensor(function: str, x: Any) -> None:
    if not isinstance(x, (tf.Tensor, tf.Variable)):
        raise TypeError(
            f"{function} takes tensors, received {x!r}. Pass the tensor itself, such as "
            "tf.reduce_mean(losses), and no name."
        )


def _check_types(function: str, types: Sequence[str]) -> None:
    unknown = [kind for kind in types if kind not in _SUMMARIES]
    if unknown:
        raise ValueError(f"{function}: unknown kind {unknown[0]!r}; known are {sorted(_SUMMARIES)}.")


def _add(function: str, tag: str, x: tf.Tensor, types: Sequence[str], collections: Sequence[str]) -> None:
    with tf.name_scope(function):
        for kind in types:
            tf.add_to_collections(list(collections), _SUMMARIES[kind](tag, x))


@final
class BatchVariance(Callback):
    """Puts the variance of a tensor over the examples of a batch, as `<name>_variance`.

    It is the variance over the first axis, averaged over all others. The variance of generated images or
    features approaches 0 when a generator gives the same output for all random inputs; `CollapseAlarm` can
    monitor this. It is computed together with a step, from the same batch.

    Args:
        name: name of the tensor, of shape [batch, ...] with at least two examples.
        every: the period.

    Raises:
        ValueError: (at set-up) the tensor has no batch axis.

    Example:
        ```python
        callbacks = [BatchVariance("gen/out"), CollapseAlarm("gen/out_variance", below=0.01)]
        ```
    """

    def __init__(self, name: str, every: Every | str = EVERY_EPOCH) -> None:
        self._name = name
        self._every = as_every(every)

    def _setup_graph(self) -> None:
        (tensor,) = self.trainer.get_tensors([self._name])
        if tensor.shape.rank == 0:
            raise ValueError(
                f"BatchVariance({self._name!r}): expected a tensor with a batch axis, not a scalar."
            )
        values = tf.cast(tensor, tf.float32)
        self._variance = tf.reduce_mean(tf.math.reduce_variance(values, axis=0))

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._variance, self._put, self._every)]

    def _put(self, variance: Any) -> None:
        self.trainer.monitors.put_scalar(self.produces_in_run()[0], float(variance))

    def produces_in_run(self) -> Sequence[str]:
        return [f"{self._name.split(':')[0]}_variance"]

    def __str__(self) -> str:
        return f"BatchVariance({self._name!r})"


@final
class GradientNorm(Callback):
    """Puts the L2 norm of all gradients that the optimizer applies, as `gradient_norm`.

    The gradients are found in the graph as applied: averaged over towers, clipped. The norms are computed
    together with the step, and only when due.

    Args:
        per_variable: also put the norm of each gradient, as `gradient_norm/<variable>`.
        every: the period.

    Raises:
        ValueError: (at set-up) no gradient is found in the graph.

    Example:
        >>> callbacks = [GradientNorm(every="100 steps"), GradientNorm(per_variable=True)]
    """

    def __init__(self, per_variable: bool = False, every: Every | str = EVERY_EPOCH) -> None:
        self._per_variable = per_variable
        self._every = as_every(every)
        self._names: list[str] = []

    def _setup_graph(self) -> None:
        applied = find_applied_gradients(self.graph)
        if not applied:
            raise ValueError(
                "GradientNorm finds no optimizer's update in the graph. If the optimizer does not use "
                "TensorFlow's update ops, put the norm yourself: "
                "tf.summary.scalar('gradient_norm', tf.linalg.global_norm(gradients))."
            )
        self._names = [gradient.variable.op.name for gradient in applied] if self._per_variable else []
        squares = [tf.reduce_sum(tf.square(tf.cast(one.gradient, tf.float32))) for one in applied]
        self._squares = tf.stack(squares)

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._squares, self._put, self._every)]

    def _put(self, squares: np.ndarray) -> None:
        monitors = self.trainer.monitors
        monitors.put_scalar("gradient_norm", float(np.sqrt(squares.sum(dtype=np.float64))))
        for name, square in zip(self._names, squares):
            monitors.put_scalar(f"gradient_norm/{name}", float(np.sqrt(square)))

    def produces_in_run(self) -> Sequence[str]:
        return ["gradient_norm", *(f"gradient_norm/{name}" for name in self._names)]


@final
class SimpleMovingAverage(Callback):
    """Puts the mean of scalar tensors over the latest steps, as `<name>/SMA`.

    Args:
        names: names of scalar tensors.
        window_size: the number of steps.

    Raises:
        ValueError: the window is not a positive whole number.

    Example:
        >>> SimpleMovingAverage(["cost"], window_size=100).produces()
        ['cost/SMA']
    """

    def __init__(self, names: Sequence[str], window_size: int) -> None:
        self._given = as_names(names)
        check_count(f"SimpleMovingAverage(window_size={window_size!r})", window_size)
        self._names = [name.split(":")[0] for name in names]
        self._windows: list[deque[float]] = [deque(maxlen=window_size) for _ in names]

    def _setup_graph(self) -> None:
        self._tensors = self.trainer.get_tensors(self._given)

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._tensors, self._receive)]

    def _receive(self, values: list[Any]) -> None:
        for window, value in zip(self._windows, values):
            window.append(float(value))

    def _trigger(self) -> None:
        for name, window in zip(self.produces(), self._windows):
            if window:
                self.trainer.monitors.put_scalar(name, float(np.mean(window)))

    def produces(self) -> Sequence[str]:
        return [f"{name}/SMA" for name in self._names]

    def state_dict(self) -> dict[str, Any]:
        return {name: list(window) for name, window in zip(self._names, self._windows)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, window in zip(self._names, self._windows):
            window.clear()
            window.extend(state.get(name, []))
