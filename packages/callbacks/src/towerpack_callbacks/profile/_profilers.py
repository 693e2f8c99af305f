"""Profiles single steps, for TensorBoard and for Chrome."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf
from tensorflow import profiler

from ..callback._callback import Callback, StepFetch, output_directory
from ..callback._every import EVERY_EPOCH, EVERY_STEP, Every, as_every

__all__ = ["GraphProfiler", "TensorBoardProfiler", "chrome_trace"]

_log = logging.getLogger("towerpack_callbacks")


@final
class TensorBoardProfiler(Callback):
    """Profiles some steps from `first_step` on, once, for the profile plugin of TensorBoard.

    It shows the ops on all devices, the host's threads and the time spent waiting for input. The files go to
    `plugins/profile` in the log directory; to view them, `pip install tensorboard-plugin-profile`.

    Args:
        first_step: number of the first step to profile, at least 2, since the very first step is not typical.
        steps: the number of steps.

    Raises:
        ValueError: a number is out of range; or (at set-up) the run has no log directory.

    Example:
        >>> callbacks = [TensorBoardProfiler(first_step=50, steps=5)]
    """

    def __init__(self, first_step: int = 10, steps: int = 3) -> None:
        if first_step < 2 or steps < 1:
            raise ValueError(
                f"TensorBoardProfiler(first_step={first_step!r}, steps={steps!r}): expected a first step of "
                "at least 2, and at least one step."
            )
        self._first, self._last = first_step, first_step + steps - 1
        self._running = False

    def _setup_graph(self) -> None:
        self._dir = output_directory(self)

    def step_period(self) -> Every | None:
        return EVERY_STEP

    def _trigger_step(self) -> None:
        step = self.global_step
        if step == self._first - 1:
            self._start()
        elif self._running and step >= self._last:
            self._stop()

    def _after_train(self) -> None:
        self._stop()

    def _start(self) -> None:
        try:
            profiler.experimental.start(str(self._dir))
            self._running = True
        except tf.errors.AlreadyExistsError:
            _log.warning("%s: another profiler is already running in this process; not profiling.", self)

    def _stop(self) -> None:
        if self._running:
            self._running = False
            profiler.experimental.stop()
            _log.info("Profiled steps %d to %d: tensorboard --logdir %s", self._first, self._last, self._dir)


def chrome_trace(metadata: tf.RunMetadata) -> dict[str, Any]:
    """Converts the step statistics of a traced session call to Chrome's trace format.

    Args:
        metadata: metadata of a call with `tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)`.

    Returns:
        A trace for `json.dump`, to open in chrome://tracing or https://ui.perfetto.dev: a process per device,
        separate lanes for concurrent ops, times in microseconds.
    """
    events: list[dict[str, Any]] = []
    for pid, device in enumerate(metadata.step_stats.dev_stats):
        events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": device.device}})
        busy_until: list[int] = []
        for node in sorted(device.node_stats, key=lambda node: node.all_start_micros):
            start = node.all_start_micros
            end = start + max(node.op_end_rel_micros, 1)
            lane = _free_lane(busy_until, start)
            busy_until[lane] = end
            events.append(_event(node, pid, lane, start, end - start))
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _free_lane(busy_until: list[int], start: int) -> int:
    for lane, end in enumerate(busy_until):
        if end <= start:
            return lane
    busy_until.append(0)
    return len(busy_until) - 1


def _event(node: Any, pid: int, lane: int, start: int, duration: int) -> dict[str, Any]:
    # The label is "name = Type(inputs)"; memory copies between devices have a different format.
    kind = node.timeline_label.partition(" = ")[2].partition("(")[0] or node.node_name
    memory = sum(used.total_bytes for used in node.memory)
    return {
        "ph": "X",
        "name": kind,
        "pid": pid,
        "tid": lane,
        "ts": start,
        "dur": duration,
        "args": {"op": node.node_name, "label": node.timeline_label, "allocated_bytes": memory},
    }


@final
class GraphProfiler(Callback):
    """Writes a Chrome trace of a step per period: `chrome-trace-<global_step>.json` in the log directory.

    Only the traced steps are slower. Open the file at https://ui.perfetto.dev or chrome://tracing. For a view
    of several steps with the host's Python code, see `TensorBoardProfiler`.

    Args:
        every: the period of traced steps.

    Raises:
        ValueError: (at set-up) the run has no log directory.

    Example:
        >>> callbacks = [GraphProfiler(every="5 epochs")]
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
