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


@final
class MovingAverageSummary(Callback):
    """Keeps the moving averages that `add_moving_summary` asked for, and puts them once per epoch.

    All scalars travel as one small vector with each step. Averages start unbiased (the weights of the
    values seen so far add up to one) and survive a restart.
    """

    def __init__(self) -> None:
        self._tags: list[str] = []
        self._packed: tf.Tensor | None = None

    def _setup_graph(self) -> None:
        items = self.graph.get_collection(MOVING_SUMMARIES)
        self._tags = [tag for tag, _, _ in items]
        self._decay = np.array([decay for _, _, decay in items], np.float64)
        self._sum = np.zeros(len(items), np.float64)
        self._weight = np.zeros(len(items), np.float64)
        if items:
            self._packed = tf.stack([tf.cast(tensor, tf.float32) for _, tensor, _ in items])

    def step_fetches(self) -> Sequence[StepFetch]:
        return [] if self._packed is None else [StepFetch(self._packed, self._update)]

    def _update(self, values: np.ndarray) -> None:
        self._sum *= self._decay
        self._sum += (1 - self._decay) * values
        self._weight *= self._decay
        self._weight += 1 - self._decay

    def _after_epoch(self) -> None:
        for tag, total, weight in zip(self._tags, self._sum.tolist(), self._weight.tolist()):
            if weight:
                self.trainer.monitors.put_scalar(tag, total / weight)

    def produces_in_run(self) -> Sequence[str]:
        return self._tags

    def state_dict(self) -> dict[str, Any]:
        rows = zip(self._tags, self._sum.tolist(), self._weight.tolist())
        return {tag: [total, weight] for tag, total, weight in rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for position, tag in enumerate(self._tags):
            if tag in state:
                self._sum[position], self._weight[position] = state[tag]


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
        if summaries:
            self._merged = tf.summary.merge(summaries)
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
