"""Checks of the arguments of planners: addressable flows and lengths of datapoints."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from ..._errors import ArgumentError, ArgumentTypeError, NotAddressableError
from ...flow import _flow_state
from ...flow._epoch import Epoch
from ...flow._flow import DataFlow
from ...flow._node import DROPPED
from ...flow._tree_fingerprint import tree_fingerprint

__all__ = ["checked_lengths", "checked_order", "digest", "one", "require_addressable"]


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
            "that an index has another meaning in each epoch; set shuffle=False there: "
            f"{who} itself shuffles"
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
