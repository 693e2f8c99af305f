"""Copies of the lists and dicts that a flow hands out, so that no consumer can change the flow's own."""

from __future__ import annotations

from typing import Any

__all__ = ["CONTAINERS", "copy_container", "copy_containers"]

CONTAINERS = frozenset({list, dict})
"""The types of datapoints that a consumer could change."""


def copy_container(datapoint: Any) -> Any:
    """Returns `datapoint`, or a shallow copy if it is a list or dict that its source may still hold."""
    return datapoint.copy() if type(datapoint) in CONTAINERS else datapoint


def copy_containers(chunk: list[Any]) -> list[Any]:
    """Copies the lists and dicts among many datapoints; costs next to nothing if there are none."""
    if CONTAINERS.isdisjoint(map(type, chunk)):
        return chunk
    return [datapoint.copy() if type(datapoint) in CONTAINERS else datapoint for datapoint in chunk]
