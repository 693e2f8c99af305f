"""Keeps the variables of replicas equal while a trainer runs."""

from __future__ import annotations

from typing import final

from towerpack_callbacks import Callback, Every

from ._replicated import SyncMultiGPUReplicatedBuilder

__all__ = ["KeepReplicasEqual"]


@final
class KeepReplicasEqual(Callback):
    """Copies the first tower's variables to the others: all before training, statistics again and again.

    Statistics are copied when triggers are done, at the end of each epoch and wherever else something was
    triggered. A trainer's own callbacks are the first in the list, so that is before any checkpoint is
    written. A resumed run, whose replicas begin as copies of what was saved, goes on as it would have.

    Args:
        builder: has built the towers.
    """

    chief_only = False

    def __init__(self, builder: SyncMultiGPUReplicatedBuilder) -> None:
        self._builder = builder
        self._copied_at: int | None = None

    def _before_train(self) -> None:
        if self._builder.copy_variables is not None:
            self.trainer.sess.run(self._builder.copy_variables)

    def _after_triggers(self) -> None:
        statistics = self._builder.copy_statistics
        if statistics is not None and self._copied_at != self.global_step:
            self.trainer.sess.run(statistics)
            self._copied_at = self.global_step

    def epoch_period(self) -> Every:
        """Each epoch, and before whatever is saved in between."""
        return Every(epochs=1)
