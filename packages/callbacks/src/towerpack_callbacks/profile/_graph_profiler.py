"""Traces single steps: which op ran when, and for how long."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..callback import EVERY_EPOCH, Callback, Every, StepFetch, as_every
from ._chrome_trace import chrome_trace

__all__ = ["GraphProfiler"]


@final
class GraphProfiler(Callback):
    """Writes a Chrome trace of a step at each period: `chrome-trace-<global_step>.json` in the log directory.

    A traced step is slower than others; the others are not. Open the file at https://ui.perfetto.dev or
    chrome://tracing. For a view of several steps together with the host's Python, see `TensorBoardProfiler`.

    Args:
        every: which steps to trace.

    Raises:
        ValueError: (at set-up) the run has no log directory.
    """

    def __init__(self, every: Every | str = EVERY_EPOCH) -> None:
        self._every = as_every(every)

    def _setup_graph(self) -> None:
        if self.log_dir is None:
            raise ValueError(f"{self} has nowhere to write: give log_dir= to the run.")
        self._dir = self.log_dir

    def step_fetches(self) -> Sequence[StepFetch]:
        trace = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        return [StepFetch([], self._write, self._every, trace)]

    def _write(self, traced: tuple[Any, tf.RunMetadata]) -> None:
        _, metadata = traced
        self._dir.mkdir(parents=True, exist_ok=True)
        path = self._dir / f"chrome-trace-{self.global_step}.json"
        path.write_text(json.dumps(chrome_trace(metadata)), encoding="utf-8")
