"""Where each process goes on in its data, by what the chief has saved; also if their number has changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Reshard", "for_processes", "own_position"]

# (state, was, index, count) → state: `towerpack_dataflow.reshard`
Reshard = Callable[[dict[str, Any], int, int, int], dict[str, Any]]


def for_processes(
    state: Mapping[str, Any], rank: int, size: int, steps_per_epoch: int, reshard: Reshard | None
) -> dict[str, Any]:
    """A checkpoint's state as one process goes on from it.

    Args:
        state: what the chief saved; "processes" in it says how many there were.
        rank: this process.
        size: how many there are now.
        steps_per_epoch: steps of an epoch now.
        reshard: translates a position among the shards of then into one among those of now. None: positions
            stay as they are, which is exact where the total batch is the same as then.
    """
    was = int(state.get("processes", 1))
    if was != size or rank:  # it describes the data of the chief, among so many
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
    """The chief's position in the data as that of another process.

    All stand at the same index of their shards. Seeds stay the process's own, since a user may want them to
    differ, and so does what a state says of its flow, since processes may read data of their own. Marks, by
    which a stream finds its place sooner, are left out: they hold in one shard only. Those of batches stay:
    they say where all processes have gone on with batches of another size.
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
