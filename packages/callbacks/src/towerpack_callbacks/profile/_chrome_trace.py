"""Converts the timeline of one session call to a trace for Chrome."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["chrome_trace"]


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
