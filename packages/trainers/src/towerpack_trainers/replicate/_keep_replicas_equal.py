"""Keeps the variables of replicas equal while a trainer runs."""

from __future__ import annotations

from typing import Any, Protocol, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback

__all__ = ["KeepReplicasEqual"]


class _Replicas(Protocol):
    """The ops of a `SyncMultiGPUReplicatedBuilder` that make its replicas equal."""

    copy_variables: tf.Operation | None
    copy_statistics: tf.Operation | None


@final
class KeepReplicasEqual(Callback):
    """Copies the first tower's variables to the others: all before training, statistics periodically.

    Statistics are copied after each epoch and for each checkpoint. In a resumed run, the replicas begin as
    copies of the saved one; therefore it continues exactly like the original run.

    Args:
        builder: the builder with the towers.
    """

    chief_only = False

    def __init__(self, builder: _Replicas) -> None:
        self._builder = builder
        self._equal_at: int | None = None
        self._runs = False

    def _before_train(self) -> None:
        self._runs = True
        if self._builder.copy_variables is not None:
            self.trainer.sess.run(self._builder.copy_variables)

    def _trigger_epoch(self) -> None:
        statistics = self._builder.copy_statistics
        if statistics is not None and self._equal_at != self.global_step:
            self.trainer.sess.run(statistics)
            self._equal_at = self.global_step

    def _after_train(self) -> None:
        self._runs = False

    def state_dict(self) -> dict[str, Any]:
        """Returns an empty state, and makes the replicas equal, as they are in a run resumed from here.

        A callback has no other hook before a checkpoint, which may also be written between two triggers.
        """
        if self._runs:
            self._trigger_epoch()
        return {}
