"""The data position of each process that resumes the chief's checkpoint, for any number of processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Reshard", "for_processes", "own_position"]

# (state, was, index, count) → state: `towerpack_dataflow.reshard`
Reshard = Callable[[dict[str, Any], int, int, int], dict[str, Any]]


def for_processes(
    state: Mapping[str, Any], rank: int, size: int, steps_per_epoch: int, reshard: Reshard | None
) -> dict[str, Any]:
    """Translates a checkpoint's state into the state from which one process continues.

    Args:
        state: the state saved by the chief; its entry "processes" is the number of processes at that time.
        rank: the rank of this process.
        size: the current number of processes.
        steps_per_epoch: the current number of steps in an epoch.
        reshard: translates a position among the old shards into one among the current shards. None: positions
            are unchanged, which is exact if the total batch size is unchanged.
    """
    was = int(state.get("processes", 1))
    if was != size or rank:  # the entry describes the data of the chief, with the old number of processes
        state = {key: value for key, value in state.items() if key != "data"}
    if was == size or reshard is None:
        return dict(state)
    before = int(state["loop"]["steps_per_epoch"])
    done = (int(state["loop"]["local_step"]) + 1) * was // size
    loop = {**state["loop"], "local_step": done - 1, "steps_per_epoch": steps_per_epoch}
    if int(state["loop"]["local_step"]) + 1 >= before:
        loop["local_step"] = steps_per_epoch - 1
    translated = {**state, "loop": loop}
    flow = _flow_position(state)
    if flow is not None:
        translated["input"] = {**state["input"], "flow": reshard(flow, was, rank, size)}
    return translated


def own_position(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the chief's position in the data into that of another process.

    All processes are at the same index of their shards. Seeds and the descriptions of flows remain the
    process's own, since a user may choose different seeds and data. Resume marks of a stream are dropped,
    since they are valid in one shard only. Marks of batches are kept: they give the positions from which all
    processes continued with batches of another size.
    """
    flow, own = _flow_position({"input": theirs}), _flow_position({"input": mine})
    if flow is None or own is None:
        return dict(theirs)
    kept = {key: value for key, value in flow.items() if key not in ("seed", "seeds", "flow", "marks")}
    marks = {place: mark for place, mark in flow.get("marks", {}).items() if _batches_at(flow, place)}
    if marks:
        kept["marks"] = marks
    ours = {key: own[key] for key in ("seed", "seeds", "flow") if key in own}
    return {**theirs, "flow": {**kept, **ours}}


def _batches_at(flow: Mapping[str, Any], place: str) -> bool:
    return "batch_size" in flow.get("flow", {}).get(place, {})


def _flow_position(state: Mapping[str, Any]) -> dict[str, Any] | None:
    position = state.get("input") or {}
    flow = position.get("flow")
    return flow if isinstance(flow, dict) and {"epoch", "index"} <= set(flow) else None
