"""Which datapoints a step has trained on, computed from the flow."""

from __future__ import annotations

from typing import Any

from .._errors import ConfigError

__all__ = ["explain_step"]


def explain_step(flow: Any, global_step: int, takes: int) -> list[Any]:
    """Traces the datapoints of one step of a training that began with epoch 0 of its flow.

    An input goes on from pass to pass, whatever an epoch of the training is, so the number of a datapoint is
    that of the step times what a step takes.

    Args:
        flow: that the training reads, with the methods `trace(index, epoch)` and `__len__`.
        global_step: which step, from 1.
        takes: datapoints that a step takes, of all towers together.

    Returns:
        A trace for each datapoint, in the order of the flow.

    Raises:
        ConfigError: there is no such step, or the flow does not say where datapoints come from.
        TypeError: the flow is a stream, or does not know its length.
    """
    if isinstance(global_step, bool) or not isinstance(global_step, int) or global_step < 1:
        raise ConfigError(f"A step is an integer from 1 up; received {global_step!r}.")
    if not hasattr(flow, "trace"):
        remedy = " Write DataFromList(list)." if isinstance(flow, (list, tuple)) else ""
        raise ConfigError(
            "explain_step needs TrainConfig(dataflow=...) with a flow that has trace(index, epoch), as those "
            f"of towerpack_dataflow have; received {type(flow).__name__}.{remedy}"
        )
    length = len(flow)
    if not length:
        raise ConfigError(f"{flow!r} has no datapoints, so no step can be traced.")
    first = (global_step - 1) * takes
    places = (divmod(number, length) for number in range(first, first + takes))
    return [flow.trace(index, epoch) for epoch, index in places]
