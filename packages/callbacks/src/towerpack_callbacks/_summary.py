"""Callbacks that bring summaries from the graph to the monitors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from ._callback import Callback, StepFetch
from ._period import EVERY_EPOCH, Every
from ._summary_ops import MOVING_SUMMARIES, summary_tag

__all__ = ["MergeAllSummaries", "MovingAverageSummary"]

_MOST_RECENT = 256


@final
class MovingAverageSummary(Callback):
    """Keeps the moving averages that `add_moving_summary` asked for, and puts them once per epoch.

    All scalars travel as one small vector with each step. Averages start unbiased (the weights of the
    values seen so far add up to one) and survive a restart.

    Args:
        decay: how much of the old average each step keeps, in [0, 1).
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
        self._packed: tf.Tensor | None = None

    def _setup_graph(self) -> None:
        scalars = self.graph.get_collection(self._collection)
        self._tags = [summary_tag(scalar.name) for scalar in scalars]
        self._sum = np.zeros(len(scalars), np.float64)
        self._weight = 0.0
        self._recent: list[np.ndarray] = []
        self._packed = tf.stack([tf.cast(scalar, tf.float32) for scalar in scalars]) if scalars else None

    def step_fetches(self) -> Sequence[StepFetch]:
        return [] if self._packed is None else [StepFetch(self._packed, self._update)]

    def _update(self, values: np.ndarray) -> None:
        # Averaged later, many in a row: between two steps none of this is in the processor's caches.
        self._recent.append(values)
        if len(self._recent) == _MOST_RECENT:
            self._average()

    def _average(self) -> None:
        """Takes the values that came since the last time into the averages."""
        for values in self._recent:
            self._sum *= self._decay
            self._sum += (1 - self._decay) * values
            self._weight = self._weight * self._decay + 1 - self._decay
        self._recent.clear()

    def _after_epoch(self) -> None:
        self._average()
        if self._weight:
            for tag, average in zip(self._tags, (self._sum / self._weight).tolist()):
                self.trainer.monitors.put_scalar(tag, average)

    def produces_in_run(self) -> Sequence[str]:
        return self._tags

    def state_dict(self) -> dict[str, Any]:
        self._average()
        return (
            {"weight": self._weight, "sum": dict(zip(self._tags, self._sum.tolist()))} if self._tags else {}
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        # Averages of one weight: with a new scalar among them, all start again.
        if set(state["sum"]) == set(self._tags):
            self._weight = state["weight"]
            self._sum[:] = [state["sum"][tag] for tag in self._tags]


@final
class MergeAllSummaries(Callback):
    """Evaluates all `tf.summary` ops together with the last step of each epoch, and puts them.

    Args:
        period: evaluate them every so many steps, too; 0 for never.
        key: the graph collection they are in.
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

    def produces_in_run(self) -> Sequence[str]:
        return self._tags


def _scalar_tag(summary: tf.Tensor) -> str | None:
    if summary.op.type != "ScalarSummary":
        return None
    tag = tf.get_static_value(summary.op.inputs[0])
    return None if tag is None else str(np.asarray(tag).item().decode())
