"""Callbacks that pass summaries and tensors to monitors, functions, files and commands."""

from __future__ import annotations

import logging
import math
import string
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from ..callback._callback import Callback, StepFetch, output_directory
from ..callback._every import EVERY_EPOCH, EVERY_STEP, Every, as_every, check_function
from ..graph import as_names
from ..writing._atomic_write import write_archive
from ._add_summary import MOVING_SUMMARIES, summary_tag

__all__ = [
    "DumpTensorAsImage",
    "DumpTensors",
    "MergeAllSummaries",
    "MovingAverageSummary",
    "ProcessTensors",
    "SendStat",
]

_log = logging.getLogger("towerpack_callbacks")


@final
class MovingAverageSummary(Callback):
    """Computes the moving averages declared by `add_moving_summary`, and puts them once per epoch.

    They are stored in one local variable of the graph and include every step. They are unbiased from the
    start (the weights of all values so far add up to one) and survive a restart. The first non-finite
    averages cause a message, once per training.

    Args:
        decay: the weight of the old average in each step, in [0, 1).
        collection: the graph collection of scalar tensors to average.

    Raises:
        ValueError: the decay is out of range.

    Example:
        >>> from towerpack_callbacks import add_moving_summary
        >>> with tf.Graph().as_default():
        ...     _ = add_moving_summary(tf.constant(0.5, name="accuracy"))
        >>> callbacks = [MovingAverageSummary(decay=0.99)]
    """

    def __init__(self, decay: float = 0.95, collection: str = MOVING_SUMMARIES) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"MovingAverageSummary(decay={decay!r}): expected a number in [0, 1).")
        self._decay = decay
        self._collection = collection
        self._tags: list[str] = []
        self._read: Callable[[], np.ndarray] | None = None

    def _setup_graph(self) -> None:
        self._told_non_finite = False
        scalars = self.graph.get_collection(self._collection)
        self._tags = [summary_tag(scalar.name) for scalar in scalars]
        # One sum of weighted values per scalar and, as the last element, the sum of the weights.
        self._sums = np.zeros(len(scalars) + 1, np.float32)
        if not scalars:
            return
        # Not fetched: fetching a few numbers takes longer than all of these ops.
        values = tf.stack([*(tf.cast(scalar, tf.float32) for scalar in scalars), 1.0])
        self._start = tf.placeholder(tf.float32, self._sums.shape, "start")
        variable = tf.Variable(self._start, False, collections=[], name="sums", use_resource=True)
        moved = self._decay * variable + (1 - self._decay) * values
        self._update = variable.assign(moved, name="update", read_value=False)
        self._initializer, self._value = variable.initializer, variable.read_value()

    def _before_train(self) -> None:
        if self._tags:
            sess = self.trainer.sess
            sess.run(self._initializer, {self._start: self._sums})
            self._read = sess.make_callable(self._value)

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._update)] if self._tags else []

    def _after_epoch(self) -> None:
        averages = self.averages()
        for tag, value in averages.items():
            self.trainer.monitors.put_scalar(tag, value)
        self._tell_non_finite([tag for tag, value in averages.items() if not math.isfinite(value)])

    def averages(self) -> dict[str, float]:
        """Returns the present averages by name, in the order of their declaration; empty before any step."""
        if not self._tags:
            return {}
        *sums, weight = self._current().tolist()
        return {tag: value / weight for tag, value in zip(self._tags, sums)} if weight else {}

    def _tell_non_finite(self, tags: Sequence[str]) -> None:
        if tags and not self._told_non_finite:
            self._told_non_finite = True
            self.trainer.monitors.put_message(
                f"epoch {self.epoch_num}: not finite, {', '.join(tags)}. The callback TerminateOnNaN() "
                "stops at the first step with such a gradient or cost, and reports its origin."
            )

    def _after_train(self) -> None:
        self._read = None  # the session may be broken

    def _current(self) -> np.ndarray:
        """Returns the sums after the last step; after the training, those of the last call."""
        if self._read is not None:
            self._sums = self._read()
        return self._sums

    def produces_in_run(self) -> Sequence[str]:
        return self._tags

    def state_dict(self) -> dict[str, Any]:
        if not self._tags:
            return {}
        *sums, weight = self._current().tolist()
        return {"weight": weight, "sum": dict(zip(self._tags, sums))}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        # All averages share one sum of weights: if a scalar is new, all start again.
        if set(state.get("sum", ())) == set(self._tags) and self._tags:
            self._sums[:] = [*(state["sum"][tag] for tag in self._tags), state["weight"]]


@final
class MergeAllSummaries(Callback):
    """Evaluates all `tf.summary` ops together with the last step of each epoch, and puts them.

    Args:
        period: also evaluate them every `period` steps; 0 for never.
        key: the graph collection of the summaries.

    Example:
        >>> callbacks = [MergeAllSummaries(period=100)]
    """

    def __init__(self, period: int = 0, key: str = tf.GraphKeys.SUMMARIES) -> None:
        self._period = Every(steps=period) if period else None
        self._key = key
        self._merged: tf.Tensor | None = None
        self._tags: list[str] = []

    def _setup_graph(self) -> None:
        summaries = self.graph.get_collection(self._key)
        self._merged = tf.summary.merge(summaries) if summaries else None
        self._tags = [summary_tag(tag) for tag in map(_scalar_tag, summaries) if tag]

    def step_fetches(self) -> Sequence[StepFetch]:
        if self._merged is None:
            return []
        periods = [EVERY_EPOCH] if self._period is None else [EVERY_EPOCH, self._period]
        return [StepFetch(self._merged, self._put, every) for every in periods]

    def _put(self, serialized: bytes) -> None:
        self.trainer.monitors.put_summary(serialized)

    def headlines(self) -> Sequence[str]:
        # They may include summaries of all weights, too many for the console by default.
        return ()

    def produces_in_run(self) -> Sequence[str]:
        return self._tags


def _scalar_tag(summary: tf.Tensor) -> str | None:
    if summary.op.type != "ScalarSummary":
        return None
    tag = tf.get_static_value(summary.op.inputs[0])
    return None if tag is None else str(np.asarray(tag).item().decode())


@final
class ProcessTensors(Callback):
    """Calls a function with the values of tensors in a step.

    The values are computed together with the step, from the same input.

    Args:
        names: names of the tensors.
        function: takes one value per name.
        every: at which steps.

    Raises:
        TypeError: the function is not callable.

    Example:
        ```python
        ProcessTensors(["cost", "learning_rate"], lambda cost, rate: print(cost, rate), every="100 steps")
        ```
    """

    def __init__(
        self, names: Sequence[str], function: Callable[..., Any], every: Every | str = EVERY_STEP
    ) -> None:
        check_function(f"ProcessTensors takes a function of {len(names)} values", function)
        self._names = as_names(names)
        self._function = function
        self._every = as_every(every)

    def _setup_graph(self) -> None:
        self._tensors = self.trainer.get_tensors(self._names)

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._tensors, lambda values: self._function(*values), self._every)]


@final
class DumpTensors(Callback):
    """Writes the values of tensors in a step to `DumpTensor-<global_step>.npz` in the log directory.

    Types that NumPy does not have, such as bfloat16, become float32.

    Args:
        names: names of numeric tensors; each name is the key of its array.
        every: the period. Choose a long one, since each time adds a file.

    Raises:
        ValueError: (at set-up) the run has no log directory.
        TypeError: (at set-up) a tensor holds text.

    Example:
        >>> callbacks = [DumpTensors(["fc1/output:0", "label:0"], every="1000 steps")]
    """

    def __init__(self, names: Sequence[str], every: Every | str = EVERY_STEP) -> None:
        self._names = as_names(names)
        self._every = as_every(every)

    def _setup_graph(self) -> None:
        self._dir = output_directory(self)
        self._tensors = self.trainer.get_tensors(self._names)
        texts = [tensor.name for tensor in self._tensors if tensor.dtype.base_dtype == tf.string]
        if texts:
            raise TypeError(
                f"DumpTensors writes tensors of numbers, received {', '.join(texts)} of text. Write them "
                "with ProcessTensors and a function."
            )

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._tensors, self._write, self._every)]

    def _write(self, values: list[Any]) -> None:
        self._dir.mkdir(parents=True, exist_ok=True)
        arrays = {name: np.asarray(value) for name, value in zip(self._names, values)}
        # Not durable: waiting for the disk would delay each dumped step.
        write_archive(self._dir / f"DumpTensor-{self.global_step}.npz", arrays, durable=False)


@final
class DumpTensorAsImage(Callback):
    """Puts a tensor's value to the monitors as an image; it writes no files itself.

    The value is computed together with a step, from the same input.

    Args:
        name: name of the tensor.
        prefix: the image's name; None: the tensor's.
        map_func: converts the value to an image or images: [height, width], [height, width, channels] or
            [number, height, width, channels]. None: the value already is an image.
        scale: the factor from the values to 0…255.
        every: at which steps.

    Example:
        >>> callbacks = [DumpTensorAsImage("generated:0", scale=127.5, map_func=lambda images: images + 1)]
    """

    def __init__(
        self,
        name: str,
        prefix: str | None = None,
        map_func: Callable[[Any], Any] | None = None,
        scale: float = 255.0,
        every: Every | str = EVERY_EPOCH,
    ) -> None:
        self._name = name
        self._prefix = name.split(":")[0] if prefix is None else prefix
        self._map_func = map_func
        self._scale = scale
        self._every = as_every(every)

    def _setup_graph(self) -> None:
        (self._tensor,) = self.trainer.get_tensors([self._name])

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._tensor, self._put, self._every)]

    def _put(self, value: Any) -> None:
        images = np.asarray(value if self._map_func is None else self._map_func(value), np.float64)
        self.trainer.monitors.put_image(self._prefix, images * self._scale)


_PATIENCE_SECONDS = 30


@final
class SendStat(Callback):
    """Runs a shell command with the latest values of statistics, at each trigger.

    The training waits for the command, up to 30 seconds. A failing command is logged, and training continues.

    Args:
        command: the command, with a `str.format` placeholder for each value: "{validation_error:.3f}".
        names: one or more names of statistics; their producers must come before.

    Raises:
        ValueError: the command has a placeholder for a statistic that is not among the names.

    Example:
        ```python
        SendStat("curl -s -d 'error={validation_error:.4f}' https://example.org/runs/7", "validation_error")
        ```
    """

    def __init__(self, command: str, names: str | Sequence[str]) -> None:
        self._command = command
        self._names = [names] if isinstance(names, str) else list(names)
        places = {place for _, place, _, _ in string.Formatter().parse(command) if place is not None}
        unknown = sorted(places - set(self._names))
        if unknown:
            raise ValueError(
                f"SendStat: the command has a placeholder for {unknown[0]!r}, but the names are "
                f"{self._names}. Add it to the names; write a literal brace twice."
            )

    def consumes(self) -> Sequence[str]:
        return self._names

    def _trigger(self) -> None:
        monitors = self.trainer.monitors
        if not all(name in monitors for name in self._names):
            return  # a statistic with a longer period than ours has no value yet
        command = self._command.format(**{name: monitors.get_latest(name) for name in self._names})
        try:
            done = subprocess.run(
                command, shell=True, timeout=_PATIENCE_SECONDS, capture_output=True, text=True, check=False
            )
        except subprocess.TimeoutExpired:
            _log.warning("SendStat: %r took longer than %d s; ended.", command, _PATIENCE_SECONDS)
            return
        if done.returncode:
            _log.warning(
                "SendStat: %r failed with code %d: %s", command, done.returncode, done.stderr.strip()
            )
