"""Where a run starts: from nothing, from given values, or from the checkpoint that it resumes."""

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

from ._match_variables import match_variables
from ._refit_state import WORLD_DIFFERENCES
from ._run_state import RunState
from ._session_init import SessionInit
from ._taken_over import at_the_start_of_a_run
from ._variable_differences import VARIABLE_DIFFERENCES, check_allowed

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

# Makes the state that a checkpoint holds into the state of this run.
TranslateState = Callable[[Mapping[str, Any]], Mapping[str, Any]]

_KINDS = (*VARIABLE_DIFFERENCES, "callbacks", "input", *WORLD_DIFFERENCES)


def check_resume_allow(allow: Collection[str]) -> frozenset[str]:
    """Converts what `TrainConfig(resume_allow=…)` receives.

    Raises:
        ConfigError: it names something else than kinds of differences.
    """
    return check_allowed(allow, _KINDS, "resume_allow")


class StartingPoint(abc.ABC):
    """Where a run starts. The loop calls the methods in the order in which they stand here.

    Attributes:
        path: the checkpoint that the run resumes; None if it resumes none.
        state: what that checkpoint holds besides variables.
    """

    path: Path | None = None
    state: Mapping[str, Any] | None = None

    def choose_seed(self, given: int | None) -> int:
        """Returns the seed of the resumed run; else the given one; else one that is drawn and logged."""
        if self.state is not None and "seed" in self.state:
            seed = int(self.state["seed"])
            if given not in (None, seed):
                _log.warning("seed=%d is not used: the resumed run goes on with its seed %d.", given, seed)
            return seed
        if given is not None:
            return given
        seed = int.from_bytes(os.urandom(4), "little") >> 1
        _log.info(
            "No seed was given; this run and its data draw from seed %d: seed=%d repeats it.", seed, seed
        )
        return seed

    def initial_values(self, graph: tf.Graph) -> dict[str, np.ndarray]:
        """Returns what variables begin with instead of their own initial values, by name."""
        return {}

    def follow_move(self, place: Path, aside: Path) -> None:
        """Learns that what was in a directory is in another now, before anything is restored."""

    @abc.abstractmethod
    def restore(self, sess: tf.Session, run: RunState, translate: TranslateState) -> None:
        """Restores variables, counters, callbacks and the position in the data, in a new session.

        Args:
            sess: all variables are initialised in it.
            run: gets the checkpoint's state.
            translate: makes the checkpoint's state into that of this run.
        """

    def restore_random_numbers(self) -> None:
        """Sets the generators of Python and NumPy, right before the first step."""


@final
class FreshStart(StartingPoint):
    """Starts from the initial values of the graph."""

    def restore(self, sess: tf.Session, run: RunState, translate: TranslateState) -> None:
        pass


@final
class LoadedStart(StartingPoint):
    """Starts a new run from values of variables.

    Args:
        init: assigns them.
    """

    def __init__(self, init: SessionInit) -> None:
        self._init = init

    def follow_move(self, place: Path, aside: Path) -> None:
        self._init.follow_move(place, aside)

    def restore(self, sess: tf.Session, run: RunState, translate: TranslateState) -> None:
        with at_the_start_of_a_run():
            self._init.restore(sess)
        complete_copies(sess)


@final
class ResumedStart(StartingPoint):
    """Goes on with the run that wrote a checkpoint.

    Args:
        checkpoint: the checkpoint. Its arrays are let go once they are in the graph.
        allow: kinds of differences that are logged and not refused; see `TrainConfig(resume_allow=…)`.
    """

    def __init__(self, checkpoint: Checkpoint, allow: Collection[str] = ()) -> None:
        self.path, self.state = checkpoint.path, checkpoint.state
        self._files = checkpoint.callback_files
        self._variables = checkpoint.variables
        self._allow = allow

    def initial_values(self, graph: tf.Graph) -> dict[str, np.ndarray]:
        """Returns the checkpoint's values, which are let go with it.

        Raises:
            CheckpointError: the checkpoint holds variables only, so no training can go on from it.
            RestoreError: variables of graph and checkpoint differ, and that is not allowed.
        """
        assert self.state is not None
        if not {"loop", "callbacks"} <= set(self.state):
            raise CheckpointError(
                f"{self.path} holds no state of a training, only variables. Start from those by "
                "session_init=SmartInit(path)."
            )
        values, self._variables = self._variables, {}
        return match_variables(graph, values, str(self.path), self._allow)

    def restore(self, sess: tf.Session, run: RunState, translate: TranslateState) -> None:
        assert self.state is not None
        run.load_state_dict(translate(self.state), self._files)
        _log.info("Going on from %s.", self.path)

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
    """Finds where a run starts.

    Args:
        resume: the checkpoint to resume; "auto": the latest in `log_dir`, if there is one.
        log_dir: the directory of the run's files.
        session_init: values of variables, for a run that resumes no checkpoint.
        allow: what need not match where the run goes on; see `TrainConfig(resume_allow=…)`.

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
            "No other one here is whole."
            if whole is None
            else f"The newest one here that is whole is {whole.name}: resume={str(whole)!r} goes on from it."
        )
        raise CheckpointError(f"{error} {advice}") from error


def _is_whole(path: Path) -> bool:
    try:
        read_checkpoint(path)
    except CheckpointError:
        return False
    return True
