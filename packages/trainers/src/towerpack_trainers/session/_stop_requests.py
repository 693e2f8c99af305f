"""What ends a loop between two steps: a failed thread, or a signal."""

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
    """Ends the loop for a thread beside the training, or for a signal.

    Attributes:
        coord: where threads report their errors.
        signals: receives signals.
        callbacks: the callbacks of the run, one of which may save.
        is_chief: whether this process saves.
    """

    coord: tf.train.Coordinator
    signals: StopSignals
    callbacks: Callbacks
    is_chief: bool

    def follow(self, amid_triggers: bool = False) -> None:
        """Raises what a thread has failed with; after a signal, saves and stops.

        Args:
            amid_triggers: whether more callbacks are to be triggered first; then a signal has to wait.

        Raises:
            KeyboardInterrupt, SystemExit: after Ctrl-C, or after SIGTERM.
            Exception: the thread's.
        """
        self.coord.raise_requested_exception()
        if self.signals.requested is None or amid_triggers:
            return
        with self.signals.saving():
            if not save_now(self.callbacks) and self.is_chief:
                _log.warning("There is no ModelSaver among the callbacks, so nothing is saved.")
        raise self.signals.exception()
