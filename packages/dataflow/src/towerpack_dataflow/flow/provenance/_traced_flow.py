"""`TracedFlow`: the methods by which a flow says where its datapoints come from."""

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
    """Tells from which datapoints below a datapoint is made; the base of `DataFlow`.

    An operator that makes a datapoint of others than the one with its own index overrides `origins`.
    """

    def __bool__(self) -> bool:
        """Returns `True`: a flow is no container, and a stream has no length to ask for."""
        return True

    def trace(self: TracedNode, index: int, epoch: int = 0) -> Trace:
        """Computes where datapoint `index` of pass `epoch` comes from; makes no datapoint.

        Args:
            index: which datapoint, from 0 to `len(self) - 1`.
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
                f"{self._name()} is a stream: where its datapoint {index} comes from is known only by making "
                "all before it; trace a flow below it that is addressable"
            )
        if not 0 <= index < len(self):
            raise IndexError(f"datapoint {index} of {self._name()}: a pass has {len(self)} datapoints")
        return _traced(self, self._rooted(epoch), index)

    def state_at(self: TracedNode, n: int) -> dict[str, Any]:
        """Returns the state of this flow at which `n` of its datapoints were given, from epoch 0 on.

        The position of the flow itself stays as it is. Loaded into a flow built alike, the state goes on with
        datapoint `n % len(self)` of epoch `n // len(self)`; a stream makes the epoch again up to there.

        Args:
            n: how many datapoints of this flow, batches if it gives batches.

        Raises:
            ArgumentError: `n` is not an integer from 0 up, or is above 0 for a flow without datapoints.
            NotAddressableError: the flow is live, so that it has no position.
            UnknownLengthError: the flow does not know its length, and so neither where an epoch begins.

        Example:
            >>> from towerpack_dataflow import DataFromList
            >>> flow = DataFromList(["a", "b", "c"], shuffle=False)
            >>> state = flow.state_at(5)
            >>> state["epoch"], state["index"]
            (1, 2)
        """
        return _flow_state.at(self, arguments.count("n", n, least=0, most=None))

    def origins(self, epoch: Epoch, index: int) -> Iterable[Origin] | None:
        """Returns what datapoint `index` of pass `epoch` of an addressable flow is made of.

        Override it in a flow that makes a datapoint of others than the ones with the same index. It is not
        called for streams, and makes no datapoints.

        Args:
            epoch: of this flow.
            index: which datapoint.

        Returns:
            The datapoints right below, in order; empty for a source; `None` if that is not known.
        """
        return []

    def _trace_notes(self, epoch: Epoch, index: int) -> dict[str, Any]:
        """Returns what a trace says of one datapoint beside its origins: values for JSON, by name."""
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
