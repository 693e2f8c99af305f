"""`PlannedFlow`: the base of flows that join datapoints by a plan."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import ArgumentError, ArgumentTypeError, NotAddressableError
from ...flow import _flow_state
from ...flow._epoch import Epoch
from ...flow._flow import DataFlow
from ...flow._node import DROPPED
from ...flow._trace import Origin
from ...flow._tree_fingerprint import tree_fingerprint
from ...flow._user_code import record_origin
from ...operators._proxy_flow import ProxyDataFlow
from ...sources._from_ragged import with_ragged_rows
from .._collate import Collator
from ._plan import EpochPlan, Plan

__all__ = ["PlannedFlow", "checked_lengths", "checked_order", "digest", "one", "require_addressable"]


def require_addressable(flow: DataFlow, who: str) -> None:
    """Checks that `flow` is addressable.

    Raises:
        NotAddressableError: `flow` is a stream.
    """
    if not flow.addressable:
        raise NotAddressableError(
            f"{who} reads datapoints in a different order, and {flow._name()} is a stream; use a flow "
            "with datapoint(epoch, index), or cache the stream below it"
        )


def one(flow: DataFlow, epoch: Epoch, index: int, who: str) -> Any:
    """Makes a datapoint required by a plan.

    Raises:
        NotAddressableError: a map drops the datapoint without a declaration.
    """
    datapoint = flow._datapoint(epoch, index)
    if datapoint is DROPPED:
        raise NotAddressableError(
            f"datapoint {index} of {flow._name()} was dropped, but {who} requires it; leave it out of the "
            "flow below, and of its lengths if it has some"
        )
    return datapoint


def checked_order(flow: DataFlow, who: str) -> None:
    """Checks that datapoint *i* is the same in each epoch, as far as sources report it.

    Raises:
        NotAddressableError: `flow` is a stream.
        ArgumentError: a source below shuffles.
    """
    require_addressable(flow, who)
    fingerprint = tree_fingerprint(
        (".".join(map(str, place)), node) for place, node in _flow_state.walk(flow)
    )
    shuffled = [settings["kind"] for settings in fingerprint.values() if settings.get("shuffle") is True]
    if shuffled:
        raise ArgumentError(
            f"{who} uses the length of each datapoint by index, and {shuffled[0]} below shuffles, so "
            f"that an index has another meaning in each epoch; set shuffle=False there: {who} itself shuffles"
        )


def checked_lengths(lengths: Any, flow: DataFlow) -> np.ndarray:
    """Returns lengths as an integer array.

    Raises:
        ArgumentTypeError: `lengths` are not integers.
        ArgumentError: the number of lengths differs from that of datapoints, or one is below 0.
    """
    array = np.asarray(lengths)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise ArgumentTypeError(
            f"lengths is a list or array of integers; received {array.dtype} of shape {array.shape}"
        )
    if len(array) != len(flow):
        raise ArgumentError(
            f"lengths has one entry for each datapoint; received {len(array)} for the {len(flow)} of "
            f"{flow._name()}"
        )
    if array.size and array.min() < 0:
        where = int(np.argmax(array < 0))
        raise ArgumentError(f"lengths are 0 or more; received {array[where]} at {where}")
    return array.astype(np.int64)


def digest(lengths: np.ndarray) -> int:
    """Returns a hash of lengths for the comparison of states."""
    return zlib.crc32(lengths.astype("<i8").tobytes())


class PlannedFlow(ProxyDataFlow):
    """Joins datapoints into groups by their known lengths; addressable.

    Args:
        ds: the flow below: addressable, with datapoint *i* of length `lengths[i]` in each epoch.
        lengths: lengths of the datapoints.
        shuffle: whether groups are reordered, and datapoints of equal length exchange places, in each epoch.
        collate: makes one datapoint from the list of datapoints of a group; by default each component is the
            list of its values, as with `BatchData(use_list=True)`.
    """

    addressable = True
    _plan: Plan

    def __init__(
        self, ds: Any, lengths: Any, shuffle: bool, collate: Callable[[list[Any]], Any] | None
    ) -> None:
        """Checks the flow against the lengths."""
        super().__init__(ds)
        checked_order(self.ds, type(self).__name__)
        self._lengths = checked_lengths(lengths, self.ds)
        self._shuffle = arguments.flag("shuffle", shuffle)
        if collate is not None and not callable(collate):
            raise ArgumentTypeError(
                f"collate is a function of a list of datapoints, or None; received {collate!r}"
            )
        self._collate: Callable[[Any], Any] | None = collate
        self._digest = digest(self._lengths)
        self._last_epoch: tuple[Any, EpochPlan] | None = None

    def __len__(self) -> int:
        """Returns the number of groups, equal in all epochs."""
        return len(self._plan)

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoints of a group."""
        below = self._below(epoch)
        return [Origin(self.ds, number, below) for number in self._in_epoch(epoch).members(index)]

    def identity(self) -> dict[str, bool | int | str]:
        """Returns the number of groups, the order, and a hash of the lengths."""
        return {"groups": len(self._plan), "shuffle": self._shuffle, "lengths": self._digest}

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        return (self._datapoint(epoch, index) for index in range(start, len(self._plan)))

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        below = self._below(epoch)
        members = self._in_epoch(epoch).members(index)
        rows = with_ragged_rows(self.ds, self._collate)
        made = rows.rows(members) if rows else [one(self.ds, below, each, self._name()) for each in members]
        try:
            return self._joined(made)
        except Exception as error:
            record_origin(error, self)
            raise

    def _joined(self, made: Sequence[Any]) -> Any:
        if self._collate is not None:
            return self._collate(made)
        collator = Collator(len(made), use_list=True)
        for datapoint in made:
            collator.add(datapoint)
        return collator.take()

    def _in_epoch(self, epoch: Epoch) -> EpochPlan:
        last = self._last_epoch
        if last is None or last[0] != epoch.identity:
            last = self._last_epoch = (epoch.identity, EpochPlan(self._plan, epoch, self._shuffle))
        return last[1]

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the plans of epochs; a copy computes them again."""
        return {**super().__getstate__(), "_last_epoch": None}
