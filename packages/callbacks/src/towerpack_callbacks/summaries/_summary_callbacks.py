"""Callbacks that pass summaries of the graph to the monitors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from ..callback import EVERY_EPOCH, Callback, Every, StepFetch
from ._add_summary import MOVING_SUMMARIES, summary_tag

__all__ = ["MergeAllSummaries", "MovingAverageSummary"]


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
        *sums, weight = self._current().tolist()
        if weight:
            for tag, value in zip(self._tags, sums):
                self.trainer.monitors.put_scalar(tag, value / weight)
            self._tell_non_finite([tag for tag, value in zip(self._tags, sums) if not math.isfinite(value)])

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
