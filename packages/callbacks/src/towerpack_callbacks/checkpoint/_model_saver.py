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

# The collection of savers in a graph. The key is a tuple because TensorFlow exports collections with string
# keys.
_SAVERS = ("towerpack_model_savers",)


@final
class ModelSaver(Callback):
    """Writes a checkpoint of everything (see `towerpack_callbacks.checkpoint`) at each trigger.

    The checkpoint is made after all triggers of that step, so a run resumed from it is identical to the
    original. The step loop waits until variables and states are copied; writing continues in the background,
    one checkpoint at a time. If a checkpoint cannot be written, the training stops at its next step.

    A checkpoint is kept if `keep_last`, `keep_best` or `keep_every` selects it, or if a symbolic link in the
    directory points to it: `latest`, the best ones of `MaxSaver` and `MinSaver`, and links made by the user.
    The selection depends on the existing files, so a resumed run makes the same one. If several savers share
    a directory, each counts its own checkpoints, and a checkpoint is kept if any saver keeps it. The disk
    usage of all checkpoints is logged when the first one is removed, or else at the end.

    Args:
        keep_last: the number of newest checkpoints to keep; None keeps all.
        keep_best: keep the checkpoints with the best values of a statistic; its producer must come before.
        keep_every: keep the first checkpoint in each interval of this many steps.
        checkpoint_dir: the output directory; None: the log directory.
        var_collections: collections of the variables to save.
        background: write in the background, which takes memory for one copy of the variables. Otherwise the
            loop waits until the checkpoint is written.
        on_error: "stop" to end the training if a checkpoint cannot be written, or "warn" to log the error and
            continue.

    Raises:
        ValueError: a number is below 1, `on_error` is invalid, or there is no output directory.
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
        """The output directory, after set-up."""
        return self._dir

    def _trigger(self) -> None:
        self._wanted = True

    def save_now(self) -> None:
        """Writes a checkpoint of the current step unless it exists, and returns when it is written.

        Call it in a loop that is about to end, between a step's triggers and the next step.

        Raises:
            CheckpointWriteError: this checkpoint or the previous one could not be written.
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
        """Logs the disk usage of the checkpoints once; a shared file counts once."""
        there = all_checkpoints(self._dir)
        if there and not self._told:
            held = readable_size(disk_usage(there))
            _log.info("Checkpoints in %s: %d, using %s on the disk.", self._dir, len(there), held)
            self._told = True

    def _steps_there(self, last: int) -> list[int]:
        """Lists the steps of all checkpoints up to a step.

        Later checkpoints belong to a run that was resumed from an earlier step; they count when this run
        reaches them.
        """
        return [step for step in map(step_of, all_checkpoints(self._dir)) if step <= last]

    def _kept(self, step: int) -> set[int]:
        if not self._others:
            return self._retention.choose(self._steps_there(step), self._values)
        return {number for saver in (self, *self._others) for number in saver._own_steps()}

    def _own_steps(self) -> list[int]:
        """Lists the steps of the checkpoints that this saver wrote and keeps."""
        return self._steps or []

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {}
        if self._values:
            # A list of pairs, because the keys of a JSON object are strings.
            state["values"] = [[step, value] for step, value in self._values.items()]
        if self._others:
            state["steps"] = self._own_steps()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._values = {int(step): value for step, value in state.get("values", ())}
        self._steps = [int(step) for step in state["steps"]] if "steps" in state else None
