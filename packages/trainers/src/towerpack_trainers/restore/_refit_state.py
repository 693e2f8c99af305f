"""Translates a checkpoint's state to another number of processes or another batch size."""

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
    """Translates a checkpoint's state to the given number of processes and the batch size of `source`.

    If an epoch of the training is one pass of the data, the epoch ends with the rest of its data; otherwise
    it ends after the amount of data that remained.

    Args:
        state: the state saved by the chief; its entry "processes" is the number of processes at that time.
        source: the input of this process; None without one.
        steps_per_epoch: the current number of steps in an epoch.
        processes: the current number of processes.
        allow: the allowed differences, of `WORLD_DIFFERENCES`; with "input", the data restarts from the
            beginning.

    Raises:
        CheckpointError: there is a difference that is not allowed, or the data cannot compute its position.
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
    per_step = _per_step(state, size, steps_per_epoch, fitted)
    if per_step is not None and _epoch_is_over(state["loop"]):
        fitted = _at_next_pass(fitted)
    loop = _loop(state["loop"], steps_per_epoch, per_step, fitted)
    _log_where(loop, was, processes, fitted)
    data = _without_batches(state.get("data"))
    return {**state, "loop": loop, "input": fitted.state, "data": data, "processes": processes}


def _refit(source: InputSource, position: Mapping[str, Any]) -> RefittedState | None:
    try:
        return source.refit(position)
    except ValueError as error:
        raise CheckpointError(
            f"The position in the data cannot be translated to other batches: {error}. Use the batches of "
            'the checkpoint; or restart the data from the beginning: TrainConfig(resume_allow=["input"]).'
        ) from error


def _check_allowed(was: int, now: int, fitted: RefittedState | None, allow: Collection[str]) -> None:
    found = {}
    if was != now:
        found["world"] = f"{was} processes (now {now})"
    if fitted is not None and fitted.was != fitted.batch:
        found["batch"] = f"{fitted.was} datapoints in a batch of all processes (now {fitted.batch})"
    missing = sorted(found.keys() - set(allow))
    if missing:
        raise CheckpointError(
            f"The checkpoint has {'; and '.join(found[kind] for kind in missing)}. Restore these settings; "
            f"or use TrainConfig(resume_allow={[*sorted({*allow, *missing})]}) to continue after the "
            "datapoints already used, to the end of the epoch's data, with a learning rate of your choice."
        )


def _check_same_steps(state: Mapping[str, Any], was: int, now: int, steps_per_epoch: int) -> None:
    before = int(state["loop"]["steps_per_epoch"])
    if steps_per_epoch != before:
        raise CheckpointError(
            f"The checkpoint is of {was} processes with {before} steps in an epoch; there are now {now} with "
            f"{steps_per_epoch}, and the data does not describe its batches. Put the batches directly above "
            "the shards, as BatchData(ShardData(flow, rank, size), n) does; or shard batches, "
            "ShardData(BatchData(flow, n), rank, size), and pass reshard=towerpack_dataflow.reshard to the "
            "trainer."
        )


def _per_step(state: Mapping[str, Any], size: int | None, steps: int, fitted: RefittedState) -> int | None:
    """Returns the number of batches per process and step if an epoch is one pass; otherwise None."""
    loop, data = state["loop"], state.get("data") or {}
    per_step = (size or 0) // steps
    done, before = int(loop["local_step"]) + 1, int(loop["steps_per_epoch"])
    known = data.get("datapoints")
    begun = fitted.next_then == done * per_step or _epoch_is_over(loop)
    whole = size == steps * per_step and known in (None, before * per_step)
    return per_step if per_step and whole and begun else None


def _epoch_is_over(loop: Mapping[str, Any]) -> bool:
    return int(loop["local_step"]) + 1 >= int(loop["steps_per_epoch"]) and not loop.get("triggers_due")


def _at_next_pass(fitted: RefittedState) -> RefittedState:
    """Returns the position after a pass; batches of another size may have skipped its last datapoints."""
    if not fitted.next_then:
        return fitted
    flow = {key: value for key, value in fitted.state["flow"].items() if key != "marks"}
    flow |= {"epoch": flow["epoch"] + 1, "index": 0}
    return fitted._replace(state={**fitted.state, "flow": flow}, next_now=0, seen=0)


def _loop(loop: Mapping[str, Any], steps: int, per_step: int | None, fitted: RefittedState) -> dict[str, Any]:
    """Returns the counters of a loop with as many steps left in the epoch as the data allows.

    An epoch without a step left still ends, with its triggers, unless it has already ended.
    """
    done = (int(loop["local_step"]) + 1) * fitted.was // fitted.batch
    if per_step is not None:
        done = fitted.next_now // per_step
    over = _epoch_is_over(loop)
    done = steps if over else min(done, steps)
    due = {"triggers_due": True} if done == steps and not over else {}
    counters = {key: value for key, value in loop.items() if key != "triggers_due"}
    return {**counters, **due, "local_step": done - 1, "steps_per_epoch": steps}


def _log_where(loop: Mapping[str, Any], was: int, processes: int, fitted: RefittedState) -> None:
    left = loop["steps_per_epoch"] - loop["local_step"] - 1
    _log.warning(
        "Continuing as allowed by resume_allow: %d processes with %d datapoints in a batch of all of them, "
        "instead of %d with %d: at datapoint %d of pass %d, both from 0; epoch %d has %d steps left.",
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
    """Returns the description of data without its length and the size of its batches."""
    components = [
        [dtype, shape and [None, *shape[1:]]] for dtype, shape in (data or {}).get("components", ())
    ]
    return {"datapoints": None, "components": components}
