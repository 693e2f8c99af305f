"""How a training ends: what really ended it, and what runs before its error is raised."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, LoopState, StopTraining
from towerpack_inputsource import InputSource

from .._errors import EndOfInputError, TrainerStateError
from ._process_strategy import ProcessStrategy

__all__ = ["TrainingEnd", "translate_error"]

_log = logging.getLogger("towerpack_trainers")


@final
@attrs.frozen(eq=False)
class TrainingEnd:
    """The one door by which every training leaves its loop.

    Attributes:
        callbacks: the callbacks of the run.
        loop: the counters.
        source: the input of the training.
        coord: where threads report their errors.
        processes: the other processes.
    """

    callbacks: Callbacks
    loop: LoopState
    source: InputSource | None
    coord: tf.train.Coordinator
    processes: ProcessStrategy

    def run(self, run_loop: Callable[[], None], sess: tf.Session, leaving: Callable[[], None]) -> None:
        """Runs the loop to its end, then every `_after_train`; only then raises what the loop failed with.

        Args:
            run_loop: runs all steps.
            sess: the session that it runs them in.
            leaving: called when the loop is over, however it ended.
        """
        failure: BaseException | None = None
        try:
            try:
                self._announcing_stops(run_loop, sess)
            finally:
                leaving()
        except BaseException as caught:
            failure = caught
        # Outside of the handler: an error of the data shall not be shown as caused by the ops it woke.
        error = None if failure is None else self._translate(failure)
        self.coord.request_stop()
        _finish(self.callbacks, error)

    def _announcing_stops(self, run_loop: Callable[[], None], sess: tf.Session) -> None:
        runs_before = self.loop.global_step
        try:
            run_loop()
        except (StopTraining, tf.errors.OutOfRangeError) as caught:
            reason = _stop_reason(caught, self.source)
            if reason is not None and _has_steps_left(self.loop, runs_before):
                self.processes.announce_stop(reason, self.loop, sess)
            raise

    def _translate(self, failure: BaseException) -> BaseException | None:
        failure = self.processes.translate_error(failure, self.coord)
        error = translate_error(failure, self.loop, self.source, self.coord)
        if error is not None:
            # At once: what callbacks do at the end may take long.
            self.processes.announce_failure(error)
        return error


def translate_error(
    caught: BaseException, loop: LoopState, source: InputSource | None, coord: tf.train.Coordinator
) -> BaseException | None:
    """Returns the error that ended the loop, as it is to be raised; None if the loop ended in good order.

    A failed background thread makes the running step fail with another error; the thread's is returned.

    Args:
        caught: what the loop has raised.
        loop: the counters.
        source: the input of the training.
        coord: where threads report their errors.
    """
    if isinstance(caught, tf.errors.OpError):
        cause = _failure_of_threads(coord)
        if cause is not None:
            return cause
    if isinstance(caught, StopTraining):
        _log.info("Training stops at step %d: %s", loop.global_step, caught)
        return None
    if type(caught) is RuntimeError and "finalized" in str(caught):
        late = TrainerStateError(
            "An op was added to the graph after training had begun. The graph is final then: make ops in "
            "_setup_graph of a callback, or in the model."
        )
        late.__cause__ = caught
        return late
    if not isinstance(caught, tf.errors.OutOfRangeError):
        return caught
    if _stop_reason(caught, source) is not None:
        _log.info("The input, declared finite, ended at step %d.", loop.global_step)
        return None
    ended = EndOfInputError(
        f"The training input ended at step {loop.global_step} (epoch {loop.epoch_num}), before "
        "the training did. Repeat the data, or declare it finite (infinite=False) if it may end training."
    )
    ended.__cause__ = caught
    return ended


def _finish(callbacks: Callbacks, error: BaseException | None) -> None:
    """Runs every `_after_train`, then raises the training's error, or else that of a callback."""
    try:
        callbacks.after_train()
    except Exception as late:
        if error is None:
            raise
        if late is not error:  # a thread's, which the loop has raised already
            _log.exception("A callback failed in after_train, after the training had failed")
    if error is not None:
        raise error


def _has_steps_left(loop: LoopState, runs_before: int) -> bool:
    """Whether the loop ended before the last step of the last epoch had run."""
    assert loop.max_epoch is not None
    steps = (loop.max_epoch + 1 - loop.starting_epoch) * loop.steps_per_epoch - loop.starting_step
    epochs_over = loop.epoch_num - loop.starting_epoch
    begun = epochs_over * loop.steps_per_epoch + loop.local_step + 1 - loop.starting_step
    # A trainer may make several runs in a step, but of one without any the last step is still to come.
    return steps > 0 and (begun < steps or loop.global_step - runs_before < steps)


def _stop_reason(caught: BaseException, source: InputSource | None) -> str | None:
    """Returns why a training stops in good order; None if it fails."""
    if isinstance(caught, StopTraining):
        return str(caught)
    finite = source is not None and not source.infinite
    return "its input has ended" if finite and isinstance(caught, tf.errors.OutOfRangeError) else None


def _failure_of_threads(coord: tf.train.Coordinator) -> BaseException | None:
    try:
        coord.raise_requested_exception()
    except BaseException as cause:
        return cause
    return None
