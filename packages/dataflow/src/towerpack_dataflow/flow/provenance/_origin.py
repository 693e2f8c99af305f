"""`Origin`: one of the datapoints below that form a datapoint; `Origins`: all of them, with notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, final

from ..._errors import FlowDefinitionError
from .._epoch import Epoch
from .._node import Node

__all__ = ["Origin", "Origins", "TracedNode"]


class TracedNode(Node, Protocol):
    """A flow that reports the origins of its datapoints; `DataFlow` documents the members."""

    def origins(self, epoch: Epoch, index: int) -> Iterable[Origin] | None:
        """Returns the origins of a datapoint."""


@final
class Origin:
    """One of the datapoints that form a datapoint.

    Args:
        flow: a flow directly below the one that reports the origin.
        index: index of the datapoint in its pass.
        epoch: epoch of that pass: an `Epoch` as passed to `datapoint()` of `flow`, its number, or
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
        """Stores the arguments."""
        self.flow = flow
        self.index = index
        self.epoch = epoch

    def epoch_below(self, owner: Node, epoch: Epoch) -> Epoch:
        """Returns the epoch of this datapoint as part of a datapoint of `owner` in `epoch`.

        Raises:
            FlowDefinitionError: `flow` is not directly below `owner`.
        """
        if isinstance(self.epoch, Epoch):
            return self.epoch
        for place, child in enumerate(owner.children()):
            if child is self.flow:
                return owner._below(epoch, place, self.epoch)
        raise FlowDefinitionError(
            f"origins() of {owner._name()} names {self.flow!r}, which is not directly below it; name flows "
            "held by its attributes"
        )


@final
class Origins(list[Origin]):
    """The origins of a datapoint, with details for its trace.

    Args:
        members: the origins, in order.
        notes: the details: values for JSON, by name.
    """

    def __init__(self, members: Iterable[Origin] = (), notes: Mapping[str, Any] | None = None) -> None:
        """Stores the arguments."""
        super().__init__(members)
        self.notes = dict(notes or {})
