"""The checkpoint from which a monitored session with callbacks goes on."""

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
    """What knows its position in the data, such as an input source."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the next datapoint."""

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Makes the next session begin at a position."""


@final
class ResumePoint:
    """Sets variables, counters, callbacks and the position in the data as a checkpoint has them.

    Args:
        checkpoint: the checkpoint; its arrays are let go once they are in the session.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        if not {"loop", "callbacks"} <= set(checkpoint.state):
            raise CheckpointError(
                f"{checkpoint.path} holds no state of a training, only variables: no run can go on from it."
            )
        self._path, self._state = checkpoint.path, checkpoint.state
        self._files = checkpoint.callback_files
        self._variables = checkpoint.variables

    @classmethod
    def find(cls, resume: str | Path | None, log_dir: Path | None) -> ResumePoint | None:
        """Reads where to go on; returns None for a run that begins.

        Raises:
            CheckpointError: the checkpoint cannot be read, or holds no state of a training.
            ValueError: `resume` is "auto", and there is no log directory.
        """
        if resume == "auto":
            if log_dir is None:
                raise ValueError('resume="auto" looks for a checkpoint in log_dir=, which is None.')
            latest = latest_checkpoint(log_dir)
            return None if latest is None else cls(read_checkpoint(latest))
        return None if resume is None else cls(read_checkpoint(resume))

    def restore_data(self, data: DataPosition | None) -> None:
        """Moves the data to their position, before the session that reads them begins."""
        if data is None or not self._state.get("input"):
            return
        try:
            data.load_state_dict(self._state["input"])
        except ValueError as error:
            raise CheckpointError(f"{self._path} was saved with other data: {error}") from error

    def restore(self, sess: tf.Session, loop: LoopState, callbacks: Callbacks) -> None:
        """Sets variables, counters and callbacks, in a new session.

        Raises:
            CheckpointError: the variables differ from those of the graph, or a callback's state belongs to no
                callback of this run.
        """
        values, self._variables = self._variables, {}
        self._check_names(sess.graph, values)
        try:
            assign_variables(sess, values)
        except (KeyError, ValueError) as error:
            raise CheckpointError(f"{self._path} does not fit this graph: {error.args[0]}") from error
        loop.load_state_dict(self._state["loop"])
        callbacks.load_state_dict(self._state["callbacks"], files=self._files)
        _log.info("Going on from %s.", self._path)

    def restore_random_numbers(self) -> None:
        """Sets the generators of Python and NumPy, right before the first step."""
        if self._state.get("random") is not None:
            set_random_state(self._state["random"])

    def _check_names(self, graph: tf.Graph, values: Mapping[str, np.ndarray]) -> None:
        names = {variable.op.name for variable in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}
        only = {"the graph": names - values.keys(), "the checkpoint": values.keys() - names}
        found = [f"only in {side}: {', '.join(sorted(differ))}" for side, differ in only.items() if differ]
        if found:
            raise CheckpointError(
                f"{self._path} holds other variables than this graph ({'; '.join(found)}). Build the same "
                "model, with the same callbacks; or begin anew, and set what fits by assign_variables(sess, "
                "load_variables(path))."
            )
