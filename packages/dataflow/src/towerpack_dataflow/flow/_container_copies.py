"""Copies of the lists and dicts that a flow hands out, so that no consumer can change the flow's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._error_location import blame
from ._node import Node

__all__ = ["copied_containers", "copy_container", "copy_containers"]

_CONTAINERS = frozenset({list, dict})


def copy_container(datapoint: Any) -> Any:
    """Returns `datapoint`, or a shallow copy if it is a list or dict that its source may still hold."""
    return datapoint.copy() if type(datapoint) in _CONTAINERS else datapoint


def copy_containers(chunk: list[Any]) -> list[Any]:
    """Does the same to many datapoints; costs next to nothing if there is nothing to copy."""
    if _CONTAINERS.isdisjoint(map(type, chunk)):
        return chunk
    return [datapoint.copy() if type(datapoint) in _CONTAINERS else datapoint for datapoint in chunk]


def copied_containers(flow: Node, datapoints: Iterator[Any]) -> Iterator[Any]:
    """Does the same to datapoints that a user's code makes for `flow`, which an error in them then names."""
    try:
        for datapoint in datapoints:
            yield datapoint.copy() if type(datapoint) in _CONTAINERS else datapoint
    except Exception as error:
        blame(error, flow)
        raise
