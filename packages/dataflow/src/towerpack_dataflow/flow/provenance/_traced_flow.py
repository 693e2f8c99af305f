"""`TracedFlow`: methods that report the origins of a flow's datapoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ... import _argument_checks as arguments
from ..._errors import NotAddressableError
from .. import _flow_state
from .._epoch import Epoch
from ._origin import Origin, TracedNode
from ._trace import Trace

__all__ = ["TracedFlow"]


class TracedFlow:
    """Reports the datapoints below that form a datapoint; the base of `DataFlow`.

    An operator with datapoints from other indices below overrides `origins`.
    """

    def __bool__(self) -> bool:
        """Returns `True`: a flow is no container, and a stream has no length to ask for."""
        return True

    def trace(self: TracedNode, index: int, epoch: int = 0) -> Trace:
        """Computes the origin of datapoint `index` of pass `epoch` without making a datapoint.

        Args:
            index: number of the datapoint, from 0 to `len(self) - 1`.
            epoch: number of the pass, from 0.

        Raises:
            NotAddressableError: the flow is a stream.
            IndexError: there is no such datapoint.
            ArgumentError: `epoch` is not an integer from 0 up.
            ArgumentTypeError: `index` is not an integer.
        """
        index = arguments.position("index", index)
        if not self.addressable:
            raise NotAddressableError(
                f"{self._name()} is a stream: the origin of its datapoint {index} is known only after making "
                "all before it; trace a flow below it that is addressable"
            )
        if not 0 <= index < len(self):
            raise IndexError(f"datapoint {index} of {self._name()}: a pass has {len(self)} datapoints")
        return _traced(self, self._rooted(epoch), index)

    def state_at(self: TracedNode, n: int) -> dict[str, Any]:
        """Returns the state of this flow after its first `n` datapoints, counted from epoch 0.

        The position of the flow itself is unchanged. Loaded into a flow built alike, the state continues with
        datapoint `n % len(self)` of epoch `n // len(self)`; a stream repeats the epoch up to there.

        Args:
            n: number of datapoints of this flow; of batches if it yields batches.

        Raises:
            ArgumentError: `n` is not an integer from 0 up, or is above 0 for a flow without datapoints.
            NotAddressableError: the flow is live, so it has no position.
            UnknownLengthError: the flow does not have a known length, so the start of an epoch is unknown.

        Example:
            >>> from towerpack_dataflow import DataFromList
            >>> flow = DataFromList(["a", "b", "c"], shuffle=False)
            >>> state = flow.state_at(5)
            >>> state["epoch"], state["index"]
            (1, 2)
        """
        return _flow_state.at(self, arguments.count("n", n, least=0, most=None))

    def origins(self, epoch: Epoch, index: int) -> Iterable[Origin] | None:
        """Returns the datapoints that form datapoint `index` of pass `epoch` of an addressable flow.

        Override it in a flow with datapoints from other indices below. It is not called for streams,
        and makes no datapoints.

        Args:
            epoch: epoch of this flow.
            index: number of the datapoint.

        Returns:
            The datapoints directly below, in order; empty for a source; `None` if unknown.
        """
        return []

    def _trace_notes(self, epoch: Epoch, index: int) -> dict[str, Any]:
        """Returns details of one datapoint for a trace, besides its origins: values for JSON, by name."""
        return {}


def _traced(flow: TracedNode, epoch: Epoch, index: int) -> Trace:
    below = flow.origins(epoch, index)
    return Trace(
        flow._name(),
        epoch.key,
        epoch.seed,
        int(epoch),
        int(index),
        outer_epoch=epoch.outer_epoch,
        notes=flow._trace_notes(epoch, index),
        origins=None
        if below is None
        else [_traced(origin.flow, origin.epoch_below(flow, epoch), origin.index) for origin in below],
    )
