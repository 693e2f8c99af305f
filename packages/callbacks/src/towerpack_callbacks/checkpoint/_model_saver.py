"""Saves the whole run at each trigger."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..callback import Callback, ProxyCallback
from ._checkpoint_layout import LATEST, all_checkpoints, checkpoint_name, linked, step_of
from ._publish import discard
from ._retention import KeepBest, Retention
from ._run_writer import RunWriter, check_on_error
from ._snapshot_ops import add_copies
from ._write_checkpoint import point_to

__all__ = ["ModelSaver", "save_now"]

_log = logging.getLogger("towerpack_callbacks")


@final
class ModelSaver(Callback):
    """Writes a checkpoint of everything (see `towerpack_callbacks.checkpoint`) at each trigger.

    It is made when all callbacks' triggers of that moment are done, so resuming from it continues the very
    same run. The step loop waits until variables and states are copied; writing goes on beside it, one
    checkpoint at a time. What could not be written stops the training at its next step.

    Of the checkpoints written up to now, those stay that any of `keep_last`, `keep_best` and `keep_every`
    asks for, and whatever a symbolic link in the directory leads to: `latest`, the best ones of `MaxSaver`
    and `MinSaver`, and links of one's own. What to keep is decided from what is there, so a resumed run goes
    on as the one before would have.

    Args:
        keep_last: how many of the newest to keep; None keeps all.
        keep_best: keep those with the best values of a statistic; its producer must come before.
        keep_every: keep the first in each stretch of so many steps.
        checkpoint_dir: where to write; None: the log directory.
        var_collections: collections of the variables to save.
        background: write beside the training, which takes memory for one copy of the variables. Otherwise
            the loop waits until it is written.
        on_error: what a checkpoint that cannot be written leads to: "stop", or "warn" to log it and train on.

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
        self._wanted = False
        self._saved_step: int | None = None
        self._writer: RunWriter | None = None

    def consumes(self) -> Sequence[str]:
        best = self._retention.keep_best
        return () if best is None else [best.stat]

    def _setup_graph(self) -> None:
        directory = self._given_dir or self.log_dir
        if directory is None:
            raise ValueError(
                "ModelSaver has nowhere to write: give log_dir= to the run, or checkpoint_dir= here."
            )
        self._dir = directory
        # An earlier run of the same object is another training.
        self._values, self._wanted, self._saved_step, self._writer = {}, False, None, None
        add_copies(self.graph, self._collections)

    def _before_train(self) -> None:
        self._writer = RunWriter(self, self._dir, self._collections, self._background, self._on_error)

    def _trigger(self) -> None:
        self._wanted = True

    def save_now(self) -> None:
        """Writes a checkpoint of this moment, unless there is one already, and returns when it is written.

        For a loop that is about to end, between a step's triggers and the next step.

        Raises:
            CheckpointWriteError: it, or the one before, could not be written.
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
        self._note_value()
        step = self._saved_step = self.global_step
        writer.save(checkpoint_name(step), lambda path: self._finish(path, step))

    def _after_train(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _note_value(self) -> None:
        best = self._retention.keep_best
        if best is not None and best.stat in self.trainer.monitors:
            step, value = self.trainer.monitors.get_history(best.stat)[-1]
            if step == self.global_step:
                self._values[step] = value

    def _finish(self, path: Path, step: int) -> None:
        point_to(self._dir / LATEST, path)
        # Later ones are of a run that was resumed from an earlier checkpoint; they count once we get there.
        mine = {step_of(other): other for other in all_checkpoints(self._dir) if step_of(other) <= step}
        kept = self._retention.choose(list(mine), self._values)
        linked_to = linked(self._dir)
        for number, other in mine.items():
            if number not in kept and other.resolve() not in linked_to:
                self._remove(other)

    def _remove(self, path: Path) -> None:
        try:
            discard(path)
        except OSError as error:
            # Nothing is lost; if it is the disk, the next write says so.
            _log.warning("The old checkpoint %s could not be removed: %s.", path, error)

    def state_dict(self) -> dict[str, Any]:
        # A list of pairs, as the keys of a JSON object are strings.
        return {"values": [[step, value] for step, value in self._values.items()]} if self._values else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._values = {int(step): value for step, value in state["values"]}


def save_now(callbacks: Iterable[Callback]) -> bool:
    """Lets all `ModelSaver`s among callbacks write a checkpoint of this moment; see `ModelSaver.save_now`.

    Args:
        callbacks: of a run; those inside others, such as `PeriodicTrigger`, are found.

    Returns:
        Whether there is one.
    """
    savers = [saver for saver in map(_innermost, callbacks) if isinstance(saver, ModelSaver)]
    for saver in savers:
        saver.save_now()
    return bool(savers)


def _innermost(callback: Callback) -> Callback:
    while isinstance(callback, ProxyCallback):
        callback = callback.callback
    return callback
