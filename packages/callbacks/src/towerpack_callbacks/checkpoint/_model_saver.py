"""Saves the whole run at each trigger."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..callback import Callback, StatisticWatch, output_directory
from ._retention import KeepBest, Retention
from ._run_writer import RunWriter, check_on_error
from .format import (
    LATEST,
    all_checkpoints,
    checkpoint_name,
    discard,
    disk_usage,
    linked,
    point_to,
    readable_size,
    step_of,
)
from .variables import add_copies

__all__ = ["ModelSaver"]

_log = logging.getLogger("towerpack_callbacks")

# The savers of a graph. A tuple, as TensorFlow writes collections of other keys into its files.
_SAVERS = ("towerpack_model_savers",)


@final
class ModelSaver(Callback):
    """Writes a checkpoint of everything (see `towerpack_callbacks.checkpoint`) at each trigger.

    It is made when all callbacks' triggers of that moment are done, so resuming from it continues the very
    same run. The step loop waits until variables and states are copied; writing goes on beside it, one
    checkpoint at a time. A checkpoint that could not be written stops the training at its next step.

    Of the checkpoints written up to now, those stay that any of `keep_last`, `keep_best` and `keep_every`
    selects, and the targets of all symbolic links in the directory: `latest`, the best ones of `MaxSaver` and
    `MinSaver`, and links of one's own. The choice depends on the files that are there, so a resumed run makes
    the same one as the run before. Of several savers with one directory, each counts its own checkpoints,
    and those stay that any of them keeps. What all of them hold on the disk is logged when the first one
    goes, or else at the end.

    Args:
        keep_last: how many of the newest to keep; None keeps all.
        keep_best: keep those with the best values of a statistic; its producer must come before.
        keep_every: keep the first in each stretch of this many steps.
        checkpoint_dir: where to write; None: the log directory.
        var_collections: collections of the variables to save.
        background: write beside the training, which takes memory for one copy of the variables. Otherwise
            the loop waits until it is written.
        on_error: "stop" to end the training if a checkpoint cannot be written, or "warn" to log it and go on.

    Raises:
        ValueError: a number is below 1, `on_error` is neither, or there is no directory to write to.
        CheckpointWriteError: (while training) a checkpoint could not be written.

    Example:
        ```python
        ModelSaver(keep_last=3, keep_best=KeepBest("validation_accuracy"), keep_every=100_000)
        ```
    """

    def __init__(
        self,
        keep_last: int | None = 10,
        *,
        keep_best: KeepBest | None = None,
        keep_every: int | None = None,
        checkpoint_dir: str | Path | None = None,
        var_collections: str | Sequence[str] = (tf.GraphKeys.GLOBAL_VARIABLES,),
        background: bool = True,
        on_error: str = "stop",
    ) -> None:
        if keep_best is not None and not isinstance(keep_best, KeepBest):
            raise TypeError(f"ModelSaver(keep_best={keep_best!r}): expected KeepBest(statistic).")
        self._retention = Retention(keep_last=keep_last, keep_best=keep_best, keep_every=keep_every)
        self._given_dir = None if checkpoint_dir is None else Path(checkpoint_dir)
        self._collections = (var_collections,) if isinstance(var_collections, str) else tuple(var_collections)
        self._background = background
        self._on_error = check_on_error(self, on_error)
        self._values: dict[int, float] = {}
        self._steps: list[int] | None = None
        self._written = -1
        self._told = False
        self._others: list[ModelSaver] = []
        self._wanted = False
        self._saved_step: int | None = None
        self._writer: RunWriter | None = None

    def consumes(self) -> Sequence[str]:
        best = self._retention.keep_best
        return () if best is None else [best.stat]

    def _setup_graph(self) -> None:
        self._dir = output_directory(self, self._given_dir, "checkpoint_dir")
        # Reset: this object may have served an earlier training.
        self._values, self._wanted, self._saved_step, self._writer = {}, False, None, None
        self._steps, self._written, self._others, self._told = None, -1, [], False
        add_copies(self.graph, self._collections)
        self.graph.get_collection_ref(_SAVERS).append(self)

    def _before_train(self) -> None:
        savers, here = self.graph.get_collection(_SAVERS), self._dir.resolve()
        self._others = [saver for saver in savers if saver is not self and saver._dir.resolve() == here]
        if self._others and self._steps is None:
            self._steps = self._steps_there(self.global_step)
        self._writer = RunWriter(self, self._dir, self._collections, self._background, self._on_error)

    @property
    def directory(self) -> Path:
        """Where it writes, once it is set up."""
        return self._dir

    def _trigger(self) -> None:
        self._wanted = True

    def save_now(self) -> None:
        """Writes a checkpoint of this moment, unless there is one already, and returns when it is written.

        For a loop that is about to end, between a step's triggers and the next step.

        Raises:
            CheckpointWriteError: this checkpoint, or the one before, could not be written.
        """
        assert self._writer is not None
        if self._saved_step != self.global_step:
            self._save(self._writer)
        self._writer.wait()

    def _after_triggers(self) -> None:
        if self._wanted:
            self._wanted = False
            assert self._writer is not None
            self._save(self._writer)

    def _save(self, writer: RunWriter) -> None:
        began = time.monotonic()
        self._note_value()
        step = self._saved_step = self.global_step
        if self._others:
            self._steps = sorted(self._retention.choose([*self._own_steps(), step], self._values))
        writer.save(checkpoint_name(step), lambda path: self._finish(path, step))
        self.trainer.loop.spend("save", time.monotonic() - began)

    def _after_train(self) -> None:
        if self._writer is not None:
            self._writer.close()
            if self._written >= 0:
                self._tell_disk_usage()

    def _note_value(self) -> None:
        best = self._retention.keep_best
        if best is not None:
            value = StatisticWatch(best.stat).value_at(self.trainer.monitors, self.global_step)
            if value is not None:
                self._values[self.global_step] = value

    def _finish(self, path: Path, step: int) -> None:
        self._written = step
        if all(other._written <= step for other in self._others):
            point_to(self._dir / LATEST, path)
        kept, linked_to = self._kept(step), linked(self._dir)
        for number in self._steps_there(step):
            old = self._dir / checkpoint_name(number)
            if number not in kept and old.resolve() not in linked_to:
                discard(old)
                self._tell_disk_usage()

    def _tell_disk_usage(self) -> None:
        """Logs, once, what the checkpoints hold on the disk; a file that several share counts once."""
        there = all_checkpoints(self._dir)
        if there and not self._told:
            held = readable_size(disk_usage(there))
            _log.info("Checkpoints in %s: %d, together %s on the disk.", self._dir, len(there), held)
            self._told = True

    def _steps_there(self, last: int) -> list[int]:
        """Lists the steps of all checkpoints up to a step.

        Later ones are of a run that was resumed from an earlier one; they count once this run gets there.
        """
        return [step for step in map(step_of, all_checkpoints(self._dir)) if step <= last]

    def _kept(self, step: int) -> set[int]:
        if not self._others:
            return self._retention.choose(self._steps_there(step), self._values)
        return {number for saver in (self, *self._others) for number in saver._own_steps()}

    def _own_steps(self) -> list[int]:
        """Lists the steps that this saver keeps, of those that it wrote."""
        return self._steps or []

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {}
        if self._values:
            # A list of pairs, as the keys of a JSON object are strings.
            state["values"] = [[step, value] for step, value in self._values.items()]
        if self._others:
            state["steps"] = self._own_steps()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._values = {int(step): value for step, value in state.get("values", ())}
        self._steps = [int(step) for step in state["steps"]] if "steps" in state else None
