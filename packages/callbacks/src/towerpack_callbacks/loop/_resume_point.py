"""The checkpoint from which a monitored session with callbacks resumes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import CheckpointError
from ..callback import LoopState
from ..checkpoint import (
    Checkpoint,
    assign_variables,
    latest_checkpoint,
    read_checkpoint,
    set_random_state,
)
from ._callbacks import Callbacks

__all__ = ["DataPosition", "ResumePoint"]

_log = logging.getLogger("towerpack_callbacks")


class DataPosition(Protocol):
    """An object with a position in the data, such as an input source."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the next datapoint."""

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Sets the position at which the next session starts."""


@final
class ResumePoint:
    """Restores variables, counters, callbacks and the position in the data from a checkpoint.

    Args:
        checkpoint: the checkpoint; its arrays are released after they are assigned.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        if not {"loop", "callbacks"} <= set(checkpoint.state):
            raise CheckpointError(
                f"{checkpoint.path} contains only variables and no training state: a run cannot resume from "
                "it. Give a checkpoint of a ModelSaver."
            )
        self._path, self._state = checkpoint.path, checkpoint.state
        self._files = checkpoint.callback_files
        self._variables = checkpoint.variables

    @classmethod
    def find(cls, resume: str | Path | None, log_dir: Path | None) -> ResumePoint | None:
        """Reads the checkpoint to resume from; returns None for a new run.

        Raises:
            CheckpointError: the checkpoint cannot be read, or contains no training state.
            ValueError: `resume` is "auto" without a log directory.
        """
        if resume == "auto":
            if log_dir is None:
                raise ValueError(
                    'resume="auto" looks for a checkpoint in log_dir=, but log_dir is None. Give a directory.'
                )
            latest = latest_checkpoint(log_dir)
            return None if latest is None else cls(read_checkpoint(latest))
        return None if resume is None else cls(read_checkpoint(resume))

    def restore_data(self, data: DataPosition | None) -> None:
        """Restores the position in the data, before the session that reads them starts."""
        if data is None or not self._state.get("input"):
            return
        try:
            data.load_state_dict(self._state["input"])
        except ValueError as error:
            raise CheckpointError(f"{self._path} was saved with different data: {error}") from error

    def restore(self, sess: tf.Session, loop: LoopState, callbacks: Callbacks) -> None:
        """Restores variables, counters and callbacks in a new session.

        Raises:
            CheckpointError: the variables differ from those of the graph, or a state belongs to a callback
                that this run lacks.
        """
        values, self._variables = self._variables, {}
        self._check_names(sess.graph, values)
        try:
            assign_variables(sess, values)
        except (KeyError, ValueError) as error:
            raise CheckpointError(f"{self._path} does not match this graph: {error.args[0]}") from error
        loop.load_state_dict(self._state["loop"])
        callbacks.load_state_dict(self._state["callbacks"], files=self._files)
        _log.info("Resuming from %s.", self._path)

    def restore_random_numbers(self) -> None:
        """Restores the generators of Python and NumPy, right before the first step."""
        if self._state.get("random") is not None:
            set_random_state(self._state["random"])

    def _check_names(self, graph: tf.Graph, values: Mapping[str, np.ndarray]) -> None:
        names = {variable.op.name for variable in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}
        only = {"the graph": names - values.keys(), "the checkpoint": values.keys() - names}
        found = [f"only in {side}: {', '.join(sorted(differ))}" for side, differ in only.items() if differ]
        if found:
            raise CheckpointError(
                f"{self._path} and this graph have different variables ({'; '.join(found)}). Build the same "
                "model with the same callbacks; or start a new run and assign matching values by "
                "assign_variables(sess, load_variables(path))."
            )
