"""`CombinedFlow`: the base of flows over several flows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..._errors import ArgumentError, ArgumentTypeError, NotAddressableError
from ...flow._epoch import Epoch
from ...flow._flow import DataFlow
from ...flow._flow_state import walk
from ...flow._node import DROPPED
from ...flow._tree_fingerprint import known_length
from ...sources._from_iterable import as_dataflow

__all__ = ["CombinedFlow"]


class CombinedFlow(DataFlow):
    """A flow over several flows; abstract.

    The same flow may appear several times. Each place has separate random numbers. If the flow is a stream,
    the places are alternating passes over one object, so all of them restart from their beginning to resume.

    Args:
        df_lists: the flows, or objects that can be read as flows.

    Attributes:
        df_lists: the flows below.

    Raises:
        ArgumentTypeError: `df_lists` is not a list or tuple.
        ArgumentError: `df_lists` is empty.
    """

    def __init__(self, df_lists: Sequence[Any]) -> None:
        """Stores the flows; reads nothing."""
        if not isinstance(df_lists, (list, tuple)):
            raise ArgumentTypeError(
                f"{type(self).__name__} takes a list of flows; received {type(df_lists).__name__}"
            )
        if not df_lists:
            raise ArgumentError(f"{type(self).__name__} takes at least one flow; received an empty list")
        self.df_lists = [as_dataflow(flow) for flow in df_lists]

    @property
    def addressable(self) -> bool:
        """Whether `datapoint(epoch, index)` works: true if it works in all flows below."""
        return all(flow.addressable for flow in self.df_lists)

    def children(self) -> tuple[DataFlow, ...]:
        """Returns the flows below."""
        return tuple(self.df_lists)

    def _passes(self, epoch: Epoch, starts: Sequence[int]) -> list[Iterator[Any]]:
        """Returns a pass over each flow below, from these indices on."""
        return [
            flow._datapoints(self._below(epoch, place), start)
            for place, (flow, start) in enumerate(zip(self.df_lists, starts))
        ]

    def _takes_turns(self) -> bool:
        """Tells whether several passes below share one stream and so depend on the order of their steps."""
        seen: set[int] = set()
        for _, flow in walk(self)[1:]:
            if not flow.addressable:
                if id(flow) in seen:
                    return True
                seen.add(id(flow))
        return False

    def _member(self, epoch: Epoch, place: int, index: int) -> Any:
        """Makes datapoint `index` of the flow at `place`."""
        flow = self.df_lists[place]
        datapoint = flow._datapoint(self._below(epoch, place), index)
        if datapoint is DROPPED:
            raise NotAddressableError(
                f"datapoint {index} of {flow._name()} was dropped without a declaration, so no datapoint of "
                f"{self._name()} has a fixed index; declare it with MapData(..., drops=True)"
            )
        return datapoint

    def _lengths(self) -> list[int | None]:
        return [known_length(flow) for flow in self.df_lists]
