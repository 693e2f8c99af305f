"""Computes from the flow the datapoints of a training step."""

from __future__ import annotations

from typing import Any

from .._errors import ConfigError

__all__ = ["explain_step"]


def explain_step(flow: Any, global_step: int, datapoints_per_step: int) -> list[Any]:
    """Traces the datapoints of one step of a training that began with epoch 0 of its flow.

    An input continues from pass to pass, regardless of the training's epochs, so the number of a datapoint
    is the number of the step times the datapoints per step.

    Args:
        flow: the flow of the training, with the methods `trace(index, epoch)` and `__len__`.
        global_step: the step, counted from 1.
        datapoints_per_step: the number of datapoints that all towers take in a step.

    Returns:
        A trace for each datapoint, in the order of the flow.

    Raises:
        ConfigError: there is no such step, or the flow has no traces.
        TypeError: the flow is a stream, or its length is unknown.
    """
    if isinstance(global_step, bool) or not isinstance(global_step, int) or global_step < 1:
        raise ConfigError(f"A step is an integer of at least 1; received {global_step!r}.")
    if not hasattr(flow, "trace"):
        remedy = " Write DataFromList(list)." if isinstance(flow, (list, tuple)) else ""
        raise ConfigError(
            "explain_step needs TrainConfig(dataflow=...) with a flow that has trace(index, epoch), such as "
            f"those of towerpack_dataflow; received {type(flow).__name__}.{remedy}"
        )
    length = len(flow)
    if not length:
        raise ConfigError(f"{flow!r} has no datapoints, so no step can be traced.")
    first = (global_step - 1) * datapoints_per_step
    places = (divmod(number, length) for number in range(first, first + datapoints_per_step))
    return [flow.trace(index, epoch) for epoch, index in places]
