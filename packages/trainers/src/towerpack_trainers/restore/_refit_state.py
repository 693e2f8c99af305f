"""A checkpoint's state, for another number of processes or for batches of another size."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from towerpack_callbacks import CheckpointError
from towerpack_inputsource import InputSource, RefittedState

__all__ = ["WORLD_DIFFERENCES", "refit_state"]

_log = logging.getLogger("towerpack_trainers")

WORLD_DIFFERENCES = ("batch", "world")


def refit_state(
    state: Mapping[str, Any],
    source: InputSource | None,
    steps_per_epoch: int,
    processes: int,
    allow: Collection[str],
) -> dict[str, Any]:
    """Translates a checkpoint's state into that of so many processes, whose batches are those of `source`.

    Where an epoch of the training is a pass of the data, the epoch ends with the rest of its data; else with
    as much data as it had still to take.

    Args:
        state: what the chief saved; "processes" in it says how many there were.
        source: the input of this process; None without one.
        steps_per_epoch: steps of an epoch now.
        processes: how many there are now.
        allow: what may differ, of `WORLD_DIFFERENCES`; with "input", the data starts anew.

    Raises:
        CheckpointError: something differs that is not allowed, or the data cannot say where it goes on.
    """
    was = int(state.get("processes", 1))
    keeps_position = source is not None and state.get("input") and "input" not in allow
    fitted = _refit(source, state["input"]) if source is not None and keeps_position else None
    _check_allowed(was, processes, fitted, allow)
    if was == processes and (fitted is None or fitted.was == fitted.batch):
        return dict(state)
    if fitted is None:
        if keeps_position:
            _check_same_steps(state, was, processes, steps_per_epoch)
        return {**state, "data": _without_batches(state.get("data"))}
    size = None if source is None else source.size()
    takes = _takes(state, size, steps_per_epoch, fitted)
    if takes is not None and _epoch_is_over(state["loop"]):
        fitted = _at_next_pass(fitted)
    loop = _loop(state["loop"], steps_per_epoch, takes, fitted)
    _log_where(loop, was, processes, fitted)
    data = _without_batches(state.get("data"))
    return {**state, "loop": loop, "input": fitted.state, "data": data, "processes": processes}


def _refit(source: InputSource, position: Mapping[str, Any]) -> RefittedState | None:
    try:
        return source.refit(position)
    except ValueError as error:
        raise CheckpointError(
            f"The position in the data cannot be that of other batches: {error}. Train with the batches of "
            'the checkpoint; or let the data start anew by TrainConfig(resume_allow=["input"]).'
        ) from error


def _check_allowed(was: int, now: int, fitted: RefittedState | None, allow: Collection[str]) -> None:
    found = {}
    if was != now:
        found["world"] = f"{was} processes, and there are {now} now"
    if fitted is not None and fitted.was != fitted.batch:
        found["batch"] = f"{fitted.was} datapoints in a batch of all processes, and {fitted.batch} now"
    missing = sorted(found.keys() - set(allow))
    if missing:
        raise CheckpointError(
            f"The checkpoint is of {'; of '.join(found[kind] for kind in missing)}. Train as then; or "
            f"TrainConfig(resume_allow={[*sorted({*allow, *missing})]}) goes on behind the datapoints that "
            "have been given, to the end of the epoch's data, with a learning rate that is yours to choose."
        )


def _check_same_steps(state: Mapping[str, Any], was: int, now: int, steps_per_epoch: int) -> None:
    before = int(state["loop"]["steps_per_epoch"])
    if steps_per_epoch != before:
        raise CheckpointError(
            f"The checkpoint is of {was} processes with {before} steps in an epoch; these are {now} with "
            f"{steps_per_epoch}, of data that do not say how they are batched. Put the batches right above "
            "the shards, as BatchData(ShardData(flow, rank, size), n) does; or shard batches, "
            "ShardData(BatchData(flow, n), rank, size), and give the trainer "
            "reshard=towerpack_dataflow.reshard."
        )


def _takes(state: Mapping[str, Any], size: int | None, steps: int, fitted: RefittedState) -> int | None:
    """Returns how many batches of a process a step takes, if an epoch is one pass; None if it is not."""
    loop, data = state["loop"], state.get("data") or {}
    takes = (size or 0) // steps
    done, before = int(loop["local_step"]) + 1, int(loop["steps_per_epoch"])
    known = data.get("datapoints")
    begun = fitted.next_then == done * takes or _epoch_is_over(loop)
    whole = size == steps * takes and known in (None, before * takes)
    return takes if takes and whole and begun else None


def _epoch_is_over(loop: Mapping[str, Any]) -> bool:
    return int(loop["local_step"]) + 1 >= int(loop["steps_per_epoch"]) and not loop.get("triggers_due")


def _at_next_pass(fitted: RefittedState) -> RefittedState:
    """Returns the position behind a pass, of which batches of another size may have left something out."""
    if not fitted.next_then:
        return fitted
    flow = {key: value for key, value in fitted.state["flow"].items() if key != "marks"}
    flow |= {"epoch": flow["epoch"] + 1, "index": 0}
    return fitted._replace(state={**fitted.state, "flow": flow}, next_now=0, seen=0)


def _loop(loop: Mapping[str, Any], steps: int, takes: int | None, fitted: RefittedState) -> dict[str, Any]:
    """Returns the counters of a loop whose epoch has as many steps left as it has data.

    An epoch without a step left still ends, with its triggers, unless it has ended before.
    """
    done = (int(loop["local_step"]) + 1) * fitted.was // fitted.batch
    if takes is not None:
        done = fitted.next_now // takes
    over = _epoch_is_over(loop)
    done = steps if over else min(done, steps)
    due = {"triggers_due": True} if done == steps and not over else {}
    counters = {key: value for key, value in loop.items() if key != "triggers_due"}
    return {**counters, **due, "local_step": done - 1, "steps_per_epoch": steps}


def _log_where(loop: Mapping[str, Any], was: int, processes: int, fitted: RefittedState) -> None:
    left = loop["steps_per_epoch"] - loop["local_step"] - 1
    _log.warning(
        "As resume_allow has it, %d processes go on with %d datapoints in a batch of them all, where %d had "
        "%d: at datapoint %d of pass %d, both from 0; epoch %d has %d steps left.",
        processes,
        fitted.batch,
        was,
        fitted.was,
        fitted.seen,
        fitted.state["flow"]["epoch"],
        loop["epoch_num"],
        left,
    )


def _without_batches(data: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns what is known of data but its length and the size of its batches."""
    components = [
        [dtype, shape and [None, *shape[1:]]] for dtype, shape in (data or {}).get("components", ())
    ]
    return {"datapoints": None, "components": components}
