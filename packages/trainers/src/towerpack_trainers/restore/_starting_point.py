"""The starting point of a run: nothing, given values, or the checkpoint to resume."""

from __future__ import annotations

import abc
import logging
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import CheckpointError
from towerpack_callbacks.checkpoint import (
    Checkpoint,
    all_checkpoints,
    complete_copies,
    latest_checkpoint,
    read_checkpoint,
    set_random_state,
)

from .._argument_checks import check_allowed
from ._run_state import WORLD_DIFFERENCES, RunState
from ._session_init import SessionInit, at_the_start_of_a_run
from ._variable_differences import VARIABLE_DIFFERENCES, match_variables

__all__ = [
    "FreshStart",
    "LoadedStart",
    "ResumedStart",
    "StartingPoint",
    "TranslateState",
    "check_resume_allow",
    "find_starting_point",
]

_log = logging.getLogger("towerpack_trainers")

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
