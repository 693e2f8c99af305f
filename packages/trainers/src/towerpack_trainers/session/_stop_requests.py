"""Requests to end a loop between two steps: a failed thread, or a signal."""

from __future__ import annotations

import logging
from typing import final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks
from towerpack_callbacks.checkpoint import save_now

from ._stop_signals import StopSignals

__all__ = ["StopRequests"]

_log = logging.getLogger("towerpack_trainers")


@final
@attrs.frozen(eq=False)
class StopRequests:
    """Ends the loop after an error of a background thread, or after a signal.

    Attributes:
        coord: the coordinator to which threads report their errors.
        signals: receives signals.
        callbacks: the callbacks of the run; one of them may save.
        is_chief: whether this process saves.
    """

    coord: tf.train.Coordinator
    signals: StopSignals
    callbacks: Callbacks
    is_chief: bool

    def follow(self, amid_triggers: bool = False) -> None:
        """Raises the error of a failed thread; after a signal, saves and stops.

        Args:
            amid_triggers: whether more callbacks have to be triggered first; a signal then waits.

        Raises:
            KeyboardInterrupt, SystemExit: after Ctrl-C, or after SIGTERM.
            Exception: the error of a thread.
        """
        self.coord.raise_requested_exception()
        if self.signals.requested is None or amid_triggers:
            return
        with self.signals.saving():
            if not save_now(self.callbacks) and self.is_chief:
                _log.warning("There is no ModelSaver among the callbacks, so nothing is saved.")
        raise self.signals.exception()
