"""Saves the whole run at each trigger."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import final

import tensorflow.compat.v1 as tf

from .._callback import Callback
from ._layout import LATEST, all_checkpoints, aside_prefix, checkpoint_name, step_of
from ._variables import snapshot_variables
from ._write import point_to, write_checkpoint

__all__ = ["ModelSaver", "save_run"]


def save_run(callback: Callback, path: Path, collections: tuple[str, ...]) -> Path:
    """Writes variables of the named collections, and the state of the whole run, to `path`."""
    variables = [v for key in collections for v in callback.graph.get_collection(key)]
    values = snapshot_variables(callback.trainer.sess, variables)
    return write_checkpoint(path, values, callback.trainer.state_dict())


@final
class ModelSaver(Callback):
    """Writes a checkpoint of everything (see `towerpack_callbacks.checkpoint`) at each trigger.

    It is written when all callbacks' triggers of that moment are done, so its place in the list does not
    matter, and resuming from it continues the very same run.

    Args:
        max_to_keep: how many of the newest checkpoints to keep; 0 keeps all.
        checkpoint_dir: where to write; None: the log directory.
        var_collections: collections of the variables to save.

    Raises:
        ValueError: `max_to_keep` is negative, or there is no directory to write to.
        CheckpointWriteError: (while training) a checkpoint could not be written.
    """

    def __init__(
        self,
        max_to_keep: int = 10,
        checkpoint_dir: str | Path | None = None,
        var_collections: tuple[str, ...] = (tf.GraphKeys.GLOBAL_VARIABLES,),
    ) -> None:
        if max_to_keep < 0:
            raise ValueError(f"ModelSaver(max_to_keep={max_to_keep}): expected 0 (all) or more.")
        self._max_to_keep = max_to_keep
        self._given_dir = None if checkpoint_dir is None else Path(checkpoint_dir)
        self._collections = (var_collections,) if isinstance(var_collections, str) else tuple(var_collections)
        self._wanted = False

    def _setup_graph(self) -> None:
        directory = self._given_dir or self.log_dir
        if directory is None:
            raise ValueError(
                "ModelSaver has nowhere to write: give log_dir= to the run, or checkpoint_dir= here."
            )
        self._dir = directory
        self._wanted = False

    def _before_train(self) -> None:
        # What a killed run was writing when it died.
        for leftover in self._dir.glob(f"{aside_prefix}*"):
            if leftover.is_symlink():
                leftover.unlink()
            else:
                shutil.rmtree(leftover)

    def _trigger(self) -> None:
        self._wanted = True

    def _after_triggers(self) -> None:
        if self._wanted:
            self._wanted = False
            path = save_run(self, self._dir / checkpoint_name(self.global_step), self._collections)
            point_to(self._dir / LATEST, path)
            self._prune()

    def _prune(self) -> None:
        # Later ones are of a run that was resumed from an earlier checkpoint; they count once we get there.
        mine = [path for path in all_checkpoints(self._dir) if step_of(path) <= self.global_step]
        if self._max_to_keep:
            for path in mine[: -self._max_to_keep]:
                shutil.rmtree(path)
