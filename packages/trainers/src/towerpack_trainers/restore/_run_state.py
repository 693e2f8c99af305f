"""The starting point of a run, and the contents of its checkpoints."""

from __future__ import annotations

import abc
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, CheckpointError, LoopState
from towerpack_callbacks.checkpoint import (
    Checkpoint,
    all_checkpoints,
    complete_copies,
    latest_checkpoint,
    read_checkpoint,
    set_random_state,
)
from towerpack_inputsource import InputSource, RefittedState

from .._argument_checks import check_allowed
from ._session_init import SessionInit, at_the_start_of_a_run
from ._variable_differences import VARIABLE_DIFFERENCES, match_variables

__all__ = [
    "WORLD_DIFFERENCES",
    "FreshStart",
    "LoadedStart",
    "ResumedStart",
    "RunState",
    "StartingPoint",
    "TranslateState",
    "check_resume_allow",
    "find_starting_point",
    "refit_state",
]

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


_ADVICE = 'Use the same data; or restart it from the beginning: TrainConfig(resume_allow=["input"]).'


@final
@attrs.frozen
class RunState:
    """The counters, seed, callbacks and data position of one run, saved and restored together.

    Attributes:
        loop: the counters.
        seed: the seed of the run's random numbers.
        callbacks: the callbacks, set up.
        source: the input; None without one.
        allow: differences between a checkpoint and this run that are not refused: "callbacks", "input",
            "batch", "world".
        inputs: the input tensors of a training tower, if they are known.
    """

    loop: LoopState
    seed: int
    callbacks: Callbacks
    source: InputSource | None
    allow: Collection[str] = ()
    inputs: Sequence[tf.Tensor] = ()

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a checkpoint."""
        state = {
            "loop": self.loop.state_dict(),
            "seed": self.seed,
            "callbacks": self.callbacks.state_dict(),
        }
        if self.loop.data_ended:
            state["data_ended"] = True
        if self.source is not None:
            state["input"] = self.source.state_dict()
            state["data"] = self._data()
        return state

    def _data(self) -> dict[str, Any]:
        """Describes the data as far as it is known: its length, and each component's dtype and shape."""
        components = [[tensor.dtype.name, _sizes(tensor.shape)] for tensor in self.inputs]
        return {"datapoints": None if self.source is None else self.source.size(), "components": components}

    def refit(self, state: Mapping[str, Any], processes: int) -> dict[str, Any]:
        """Translates a checkpoint's state to the given number of processes and this run's batches.

        Args:
            state: the return value of `state_dict`, perhaps from another number of processes.
            processes: the current number of processes.

        Raises:
            CheckpointError: the number or the batches differ, and the difference is not allowed or not
                supported.
        """
        return refit_state(state, self.source, self.loop.steps_per_epoch, processes, self.allow)

    def load_state_dict(self, state: Mapping[str, Any], files: Path | None = None) -> None:
        """Restores counters, callbacks and the position in the data. The seed is restored earlier.

        Args:
            state: the return value of `state_dict`.
            files: the directory of the callbacks' files; None: they are skipped.

        Raises:
            CheckpointError: a callback's state belongs to no callback of this run, or the data differs.
        """
        given = self.loop.starting_epoch
        self.loop.load_state_dict(state["loop"])
        self.loop.data_ended = bool(state.get("data_ended", False))
        if given not in (1, self.loop.starting_epoch):
            level = logging.WARNING if given > self.loop.starting_epoch else logging.INFO
            goes_on = self.loop.starting_epoch
            _log.log(
                level, "starting_epoch=%d is not used: the resumed run continues in epoch %d.", given, goes_on
            )
        allowed = "callbacks" in self.allow
        self.callbacks.load_state_dict(state["callbacks"], allow_unknown=allowed, files=files)
        self._load_position(state.get("input"), state.get("data"))

    def _load_position(self, position: dict[str, Any] | None, data: Mapping[str, Any] | None) -> None:
        if self.source is None or position is None:
            return
        if "input" in self.allow:
            _log.warning("The data restarts from the beginning (allowed by resume_allow): %s", position)
            return
        differences = list(_differences(data, self._data())) if data else []
        if differences:
            fits = not set(WORLD_DIFFERENCES) & set(self.allow) or self.source.refit(position) is not None
            raise CheckpointError(
                f"The data differs from that of the checkpoint: {'; '.join(differences)}. "
                f"{'' if fits else self._why_not_fitted()}{_ADVICE}"
            )
        if position.get("flow", position) is None:
            _log.warning(
                "The input has no state_dict(), so it restarts from the beginning: the resumed run will "
                "differ from an uninterrupted one. Use a DataFlow with a position, for example "
                "DataFromList(your_list)."
            )
        try:
            self.source.load_state_dict(position)
        except ValueError as error:
            raise CheckpointError(f"The position does not match the data: {error} {_ADVICE}") from error

    def _why_not_fitted(self) -> str:
        return (
            "Other batch sizes are supported only if a BatchData of the flow makes the batches, and "
            f"{type(self.source).__name__} reads no such flow: a batch that is made in the graph may cross "
            "the end of a pass, so its beginning has no position. Train from the start with QueueInput over "
            "BatchData(flow, n), which supports other sizes. "
        )


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    """Yields the differences between two descriptions of data, as far as both are known."""
    sizes = theirs.get("datapoints"), ours["datapoints"]
    if None not in sizes and sizes[0] != sizes[1]:
        yield f"{sizes[1]} datapoints in a pass, {sizes[0]} in the checkpoint"
    pairs = zip(theirs.get("components", ()), ours["components"])
    for number, (their, our) in enumerate(pairs):
        if not _may_be_equal(their, our):
            yield f"component {number} is {_words(our)}, {_words(their)} in the checkpoint"


def _may_be_equal(their: Sequence[Any], our: Sequence[Any]) -> bool:
    (their_type, their_shape), (our_type, our_shape) = their, our
    shapes = tf.TensorShape(their_shape), tf.TensorShape(our_shape)
    return bool(their_type == our_type and shapes[0].is_compatible_with(shapes[1]))


def _sizes(shape: tf.TensorShape) -> list[int | None] | None:
    return None if shape.rank is None else list(shape.as_list())


def _words(component: Sequence[Any]) -> str:
    dtype, shape = component
    return f"{dtype} of shape {shape}"


# Translates the state in a checkpoint to the state of this run.
TranslateState = Callable[[Mapping[str, Any]], Mapping[str, Any]]

_KINDS = (*VARIABLE_DIFFERENCES, "callbacks", "input", *WORLD_DIFFERENCES)


def check_resume_allow(allow: Collection[str]) -> frozenset[str]:
    """Converts the argument of `TrainConfig(resume_allow=…)`.

    Raises:
        ConfigError: it contains anything else than kinds of differences.
    """
    return check_allowed("resume_allow", allow, _KINDS)


class StartingPoint(abc.ABC):
    """The starting point of a run. The loop calls the methods in the order of their definition.

    Attributes:
        path: the checkpoint that the run resumes; None without one.
        state: the contents of that checkpoint besides variables.
    """

    path: Path | None = None
    state: Mapping[str, Any] | None = None

    def choose_seed(self, given: int | None) -> int:
        """Returns the seed of the resumed run; else the given seed; else a random seed, which is logged."""
        if self.state is not None and "seed" in self.state:
            seed = int(self.state["seed"])
            if given not in (None, seed):
                _log.warning("seed=%d is not used: the resumed run keeps its seed %d.", given, seed)
            return seed
        if given is not None:
            return given
        seed = int.from_bytes(os.urandom(4), "little") >> 1
        _log.info("No seed was given; this run and its data use seed %d: seed=%d repeats it.", seed, seed)
        return seed

    def initial_values(self, graph: tf.Graph) -> dict[str, np.ndarray]:
        """Returns values that replace the variables' own initial values, by name."""
        return {}

    def retarget(self, place: Path, aside: Path) -> None:
        """Handles a move of a directory's files to another directory, before anything is restored."""

    @abc.abstractmethod
    def restore(self, sess: tf.Session, run: RunState, translate: TranslateState) -> None:
        """Restores variables, counters, callbacks and the position in the data, in a new session.

        Args:
            sess: a session with all variables initialised.
            run: receives the checkpoint's state.
            translate: translates the checkpoint's state to that of this run.
        """

    def restore_random_numbers(self) -> None:
        """Sets the random generators of Python and NumPy, right before the first step."""


@final
class FreshStart(StartingPoint):
    """Starts from the initial values of the graph."""

    def restore(self, sess: tf.Session, run: RunState, translate: TranslateState) -> None:
        pass


@final
class LoadedStart(StartingPoint):
    """Starts a new run with given values of variables.

    Args:
        init: assigns the values.
    """

    def __init__(self, init: SessionInit) -> None:
        self._init = init

    def retarget(self, place: Path, aside: Path) -> None:
        self._init.retarget(place, aside)

    def restore(self, sess: tf.Session, run: RunState, translate: TranslateState) -> None:
        with at_the_start_of_a_run():
            self._init.restore(sess)
        complete_copies(sess)


@final
class ResumedStart(StartingPoint):
    """Continues the run that wrote a checkpoint.

    Args:
        checkpoint: the checkpoint. Its arrays are released once they are in the graph.
        allow: kinds of differences that are logged instead of refused; see `TrainConfig(resume_allow=…)`.
    """

    def __init__(self, checkpoint: Checkpoint, allow: Collection[str] = ()) -> None:
        self.path, self.state = checkpoint.path, checkpoint.state
        self._files = checkpoint.callback_files
        self._variables = checkpoint.variables
        self._allow = allow

    def initial_values(self, graph: tf.Graph) -> dict[str, np.ndarray]:
        """Returns the checkpoint's values, and releases the checkpoint's own references to them.

        Raises:
            CheckpointError: the checkpoint has only variables, so a training cannot continue from it.
            RestoreError: variables of graph and checkpoint differ, and the difference is not allowed.
        """
        assert self.state is not None
        if not {"loop", "callbacks"} <= set(self.state):
            raise CheckpointError(
                f"{self.path} holds no state of a training, only variables. Start from them with "
                "session_init=SmartInit(path)."
            )
        values, self._variables = self._variables, {}
        return match_variables(graph, values, str(self.path), self._allow)

    def restore(self, sess: tf.Session, run: RunState, translate: TranslateState) -> None:
        assert self.state is not None
        run.load_state_dict(translate(self.state), self._files)
        _log.info("Resuming from %s.", self.path)

    def restore_random_numbers(self) -> None:
        assert self.state is not None
        if self.state.get("random") is not None:
            set_random_state(self.state["random"])


def find_starting_point(
    resume: str | Path | None,
    log_dir: Path | None,
    session_init: SessionInit | None = None,
    allow: Collection[str] = (),
) -> StartingPoint:
    """Finds the starting point of a run.

    Args:
        resume: the checkpoint to resume; "auto": the latest in `log_dir`, if there is one.
        log_dir: the directory of the run's files.
        session_init: values of variables, for a run that resumes no checkpoint.
        allow: the allowed differences of a resumed run; see `TrainConfig(resume_allow=…)`.

    Raises:
        CheckpointError: the checkpoint cannot be read.
    """
    if resume == "auto":
        assert log_dir is not None
        latest = latest_checkpoint(log_dir)
        if latest is not None:
            return ResumedStart(_read_latest(latest, log_dir), allow)
    elif resume is not None:
        return ResumedStart(read_checkpoint(resume), allow)
    return FreshStart() if session_init is None else LoadedStart(session_init)


def _read_latest(latest: Path, log_dir: Path) -> Checkpoint:
    try:
        return read_checkpoint(latest)
    except CheckpointError as error:
        whole = next(filter(_is_whole, reversed(all_checkpoints(log_dir))), None)
        advice = (
            "No other checkpoint here is complete."
            if whole is None
            else f"The newest complete one here is {whole.name}: use resume={str(whole)!r}."
        )
        raise CheckpointError(f"{error} {advice}") from error


def _is_whole(path: Path) -> bool:
    try:
        read_checkpoint(path)
    except CheckpointError:
        return False
    return True
