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
    """Copies the lists and dicts among many datapoints; costs next to nothing if there are none."""
    if _CONTAINERS.isdisjoint(map(type, chunk)):
        return chunk
    return [datapoint.copy() if type(datapoint) in _CONTAINERS else datapoint for datapoint in chunk]


def copied_containers(flow: Node, datapoints: Iterator[Any]) -> Iterator[Any]:
    """Copies the lists and dicts among datapoints of a user's code, whose errors then name `flow`."""
    try:
        for datapoint in datapoints:
            if type(datapoint) in _CONTAINERS:
                datapoint = datapoint.copy()  # and no reference to the other one, by which arrays seem shared
            yield datapoint
    except Exception as error:
        blame(error, flow)
        raise
