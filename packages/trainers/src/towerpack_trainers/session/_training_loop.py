"""The loop itself: epochs of steps, and the calls of callbacks around them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from typing import final

import attrs

from towerpack_callbacks import Callbacks, LoopState

from ..reports.trace import timed_calls
from ._training_end import StopRequests

__all__ = ["TrainingLoop"]

_log = logging.getLogger("towerpack_trainers")


@final
@attrs.frozen(eq=False)
class TrainingLoop:
    """Runs the steps of all epochs, as shown in `Callback` from the first `_before_epoch` on.

    Attributes:
        loop: the counters, which it advances.
        callbacks: the callbacks of the run.
        requests: requests to end the loop between two steps.
        steps_per_run: the number of steps in one call of a step.
        dry_run: whether each epoch ends with the periodic work of all callbacks.
    """

    loop: LoopState
    callbacks: Callbacks
    requests: StopRequests
    steps_per_run: int = 1
    dry_run: bool = False

    def run(
        self,
        max_epoch: int,
        run_step: Callable[[], None],
        run_unobserved: Callable[[], int],
        own: Container[str] = (),
    ) -> None:
        """Runs all steps up to the last one of an epoch.

        Args:
            max_epoch: that epoch.
            run_step: runs the next step.
            run_unobserved: runs the next unobserved steps, if that is faster; returns their number.
            own: checked before each step: once "run_step" is in it, each step is a call of `run_step`.
        """
        loop, callbacks, requests, times = self.loop, self.callbacks, self.requests, self.steps_per_run
        run_step, run_unobserved = timed_calls(loop, run_step, run_unobserved)
        signals, threads_failed = requests.signals, requests.coord.should_stop
        end_epoch = callbacks.trigger_all if self.dry_run else callbacks.trigger_epoch
        if loop.starting_epoch > max_epoch:
            # Visible with any logging settings: the script ends at once, and looks as if it had failed.
            text = "Nothing left to train: epoch %d of %d is done. Use a larger max_epoch to continue."
            _log.warning(text, loop.epoch_num, max_epoch)
        for epoch in range(loop.starting_epoch, max_epoch + 1):
            loop.epoch_num = epoch
            try:
                callbacks.before_epoch()
            finally:  # the position from which to continue, if a callback stops the training here
                loop.local_step = (loop.starting_step if epoch == loop.starting_epoch else 0) - 1
            while not loop.is_last_step:
                if "run_step" in own or not run_unobserved():
                    loop.local_step += times
                    run_step()
                    callbacks.trigger_step(loop.global_step, epoch, loop.is_last_step)
                if signals.requested is not None or threads_failed():
                    requests.follow(amid_triggers=loop.is_last_step)
            callbacks.after_epoch()
            end_epoch()
            requests.follow()
