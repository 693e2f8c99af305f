"""`Origin`: one of the datapoints below that a datapoint is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, final

from ..._errors import FlowDefinitionError
from .._epoch import Epoch
from .._node import Node

__all__ = ["Origin", "TracedNode"]


class TracedNode(Node, Protocol):
    """A flow that says what its datapoints are made of; `TracedFlow` explains the members."""

    def origins(self, epoch: Epoch, index: int) -> Iterable[Origin] | None:
        """Returns what a datapoint is made of."""

    def _trace_notes(self, epoch: Epoch, index: int) -> dict[str, Any]: ...


@final
class Origin:
    """One of the datapoints that a datapoint is made of.

    Args:
        flow: a flow right below the one that says so.
        index: of the datapoint in its pass.
        epoch: of that pass: an `Epoch` as it is given to `datapoint()` of `flow`, or the number of one, or
            `None` for the pass that iterating over the flow above reads.

    Example:
        >>> from towerpack_dataflow import ProxyDataFlow
        >>> class Backwards(ProxyDataFlow):
        ...     def datapoint(self, epoch, index):
        ...         return self.ds.datapoint(epoch, len(self) - 1 - index)
        ...     def origins(self, epoch, index):
        ...         return [Origin(self.ds, len(self) - 1 - index, epoch)]  # as in datapoint()
        >>> [leaf.index for leaf in Backwards(["a", "b", "c"]).trace(0).sources()]
        [2]
    """

    __slots__ = ("epoch", "flow", "index")

    def __init__(self, flow: Any, index: int, epoch: int | None = None) -> None:
        """Keeps what is given."""
        self.flow = flow
        self.index = index
        self.epoch = epoch

    def epoch_below(self, owner: Node, epoch: Epoch) -> Epoch:
        """Returns the epoch of this datapoint, if one of `owner` in `epoch` is made of it.

        Raises:
            FlowDefinitionError: `flow` is not right below `owner`.
        """
        if isinstance(self.epoch, Epoch):
            return self.epoch
        for place, child in enumerate(owner._children()):
            if child is self.flow:
                return owner._below(epoch, place, self.epoch)
        raise FlowDefinitionError(
            f"origins() of {owner._name()} names {self.flow!r}, which is not right below it; name the flows "
            "that its attributes hold"
        )
