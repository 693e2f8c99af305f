"""Finds differences between processes before they train together. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._distributed_errors import RanksDifferError

__all__ = ["find_difference"]

_SHARDS = (
    "Each step takes one from every process, so all shards must have the same length: cut the whole flow "
    "to a multiple, as ShardData(FixedSizeData(flow, n * size), rank, size) does."
)
_REMEDIES = {
    "the datapoints in a pass of its data": _SHARDS,
    "the steps of an epoch": _SHARDS,
    "the variables": "All must build the same model, in the same order.",
    "the sums that layers take over all processes": "All must build the same model, in the same order.",
    "the last epoch": "All processes need the same max_epoch.",
}


def find_difference(facts: Sequence[Mapping[str, Any]], names: Sequence[str]) -> RanksDifferError | None:
    """Returns an error for the first fact in which a process differs from the chief.

    Args:
        facts: the facts of each rank, as JSON values keyed by their descriptions.
        names: the names of the ranks in messages.

    Returns:
        None if all processes agree.
    """
    first, *others = facts
    for rank, other in enumerate(others, start=1):
        for what, value in first.items():
            if value != other[what]:
                return RanksDifferError(
                    f"{names[rank]} differs from {names[0]} in {what}: {_difference(other[what], value)}. "
                    f"{_REMEDIES.get(what, '')}"
                )
    return None


def _difference(theirs: Any, chiefs: Any) -> str:
    if not isinstance(theirs, dict) or not isinstance(chiefs, dict):
        return f"{theirs} instead of {chiefs}"
    names = sorted(set(theirs) ^ set(chiefs)) or [name for name in theirs if theirs[name] != chiefs[name]]
    return (
        ", ".join(f"{name}: {theirs.get(name)} instead of {chiefs.get(name)}" for name in names[:5])
        or "their order"
    )
