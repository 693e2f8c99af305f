"""Traces single steps with the start and duration of each op."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..callback import EVERY_EPOCH, Callback, Every, StepFetch, as_every, output_directory
from ._chrome_trace import chrome_trace

__all__ = ["GraphProfiler"]


@final
class GraphProfiler(Callback):
    """Writes a Chrome trace of a step per period: `chrome-trace-<global_step>.json` in the log directory.

    Only the traced steps are slower. Open the file at https://ui.perfetto.dev or chrome://tracing. For a view
    of several steps with the host's Python code, see `TensorBoardProfiler`.

    Args:
        every: the period of traced steps.

    Raises:
        ValueError: (at set-up) the run has no log directory.
    """

    def __init__(self, every: Every | str = EVERY_EPOCH) -> None:
        self._every = as_every(every)

    def _setup_graph(self) -> None:
        self._dir = output_directory(self)

    def step_fetches(self) -> Sequence[StepFetch]:
        trace = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        return [StepFetch([], self._write, self._every, trace)]

    def _write(self, traced: tuple[Any, tf.RunMetadata]) -> None:
        _, metadata = traced
        self._dir.mkdir(parents=True, exist_ok=True)
        path = self._dir / f"chrome-trace-{self.global_step}.json"
        path.write_text(json.dumps(chrome_trace(metadata)), encoding="utf-8")
